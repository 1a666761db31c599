//! What an operator sees first: figures of now, in all or of one domain, and what needs a look.
//!
//! All of it is read from what is kept round by round (`regret`, `history`) and from what decides now; nothing here reads the
//! journal or counts anything.

mod alerts;
mod domain;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    AuditUse, Level, Router, RouterError, now_ms,
    state::{Shown, locked},
};
use crate::{
    arms::Arm,
    history::{DomainHistory, HistoryReport, Range, Sums, Timeline},
    regret::{
        ArmReport as ArmWork, AuditCounts, Bounds, DomainArmReport, DomainMeasure, DomainReport, Kind, Measure,
        RegretReport, Target, VoterWeight,
    },
    round::{ArmId, Domain, Mode, PolicyRef},
};

pub use alerts::{Alert, AlertKind, Severity};
pub use domain::{ArmBelief, DomainDetail, VerifierStanding};

/// Arms that are listed, the busiest first; of one domain, so many.
const ARMS_SHOWN: usize = 200;
const ARMS_OF_DOMAIN_SHOWN: usize = 50;

/// The figures of now.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Overview {
    /// When they were taken, in milliseconds since 1970.
    pub at_ms: i64,
    /// The domain that they are of; null for all.
    pub domain: Option<Domain>,
    /// Verified rounds.
    pub rounds: u64,
    /// Those whose worker gave no answer.
    pub failures: u64,
    /// Decisions that nobody closed before their lease ended; of all domains together.
    pub abandoned: u64,
    /// How regret was found.
    pub kind: Kind,
    /// Against whom.
    pub target: Target,
    /// Cumulative regret.
    pub cum_regret: f64,
    /// An interval of it that holds at every round at once with probability 0.95; null where regret is exact, and while too
    /// little is known.
    pub regret_interval: Option<Bounds>,
    /// The last 1,000 rounds, or up to 50 fewer.
    pub recent: Recent,
    /// Mean score; null without rounds.
    pub score_mean: Option<f64>,
    /// Rewards.
    pub reward_sum: f64,
    /// Dollars.
    pub cost_usd: f64,
    /// What habits would have cost instead.
    pub saved: Savings,
    /// What audit probes may use and use; null while they are off.
    pub audit: Option<AuditUse>,
    /// What audit probes came to; null where there never were any.
    pub audits: Option<AuditCounts>,
    /// Who did the work, the busiest first: 200 at most.
    pub arms: Vec<ArmStanding>,
    /// How many arms there are.
    pub arms_total: usize,
    /// How workers were run.
    pub modes: Vec<ModeWork>,
    /// The same by domain; only the one where one was asked for.
    pub domains: Vec<DomainStanding>,
    /// The policy that decides.
    pub policy: PolicyRef,
    /// How full memory is.
    pub memory: MemoryFill,
    /// What needs a look, the most severe first.
    pub alerts: Vec<Alert>,
}

/// The last rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = RecentRounds)]
pub struct Recent {
    /// How many they are.
    pub rounds: u64,
    /// What regret grew by in each, on average.
    pub regret_per_round: Option<f64>,
    /// Mean score.
    pub score_mean: Option<f64>,
    /// Mean reward.
    pub reward_mean: Option<f64>,
    /// Dollars.
    pub cost_usd: f64,
    /// Those without an answer.
    pub failures: u64,
}

/// How full memory is.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct MemoryFill {
    /// How full it is, and how far behind.
    #[serde(flatten)]
    pub level: Level,
    /// The most entries that it holds.
    pub cap: u64,
}

/// What always taking one arm in each domain would have cost, by what that arm's own rounds there cost on average.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Savings {
    /// The arm that would have been best for all rounds of the domain.
    pub best_fixed: Option<Saving>,
    /// The dearest arm of those that were taken in the domain.
    pub dearest: Option<Saving>,
}

/// What a habit would have cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Saving {
    /// The arm of each domain; domains in which it was never taken are left out.
    pub arms: BTreeMap<Domain, ArmId>,
    /// Rounds of these domains.
    pub rounds: u64,
    /// What it would have cost.
    pub cost_usd: f64,
    /// That, less what was spent; below 0 where the habit is cheaper.
    pub saved_usd: f64,
}

/// An arm's work, and how it is.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ArmStanding {
    #[serde(flatten)]
    work: ArmWork,
    /// How it is.
    state: ArmState,
    /// Whether it truly is the domain's best; null where that is not known, and for all domains together.
    best: Option<bool>,
}

/// How an arm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArmState {
    /// It may be chosen.
    Active,
    /// An operator disabled it.
    Disabled,
    /// It failed several times in a row and rests.
    Resting,
    /// Its statistics are in doubt.
    Quarantined,
    /// It is there no more.
    Removed,
}

/// A mode's work.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ModeWork {
    /// The mode.
    pub mode: Mode,
    /// Its rounds.
    pub rounds: u64,
}

/// A domain's work.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct DomainStanding {
    /// The domain.
    pub domain: Domain,
    /// Its rounds.
    pub rounds: u64,
    /// Their part of all rounds.
    pub share: f64,
    /// Mean score.
    pub score_mean: f64,
    /// Dollars.
    pub cost_usd: f64,
    /// Cumulative regret.
    pub cum_regret: f64,
    /// Its arms, the busiest first: 50 at most.
    pub arms: Vec<ArmStanding>,
    /// The voters' weights at its last decision.
    pub voters: Vec<VoterWeight>,
}

impl Router {
    /// The figures of now, in all or of one domain that is configured or was seen.
    pub fn overview(&self, domain: Option<&Domain>) -> Result<Overview, RouterError> {
        let states = self.arm_states();
        let shown = locked(&self.shown);
        let report = shown.tracker.summary();
        let of_domain = domain.map(|domain| self.of_domain(&report, &shown, domain)).transpose()?;
        let unseen = Timeline::default();
        let timeline = match domain {
            None => shown.history.all(),
            Some(domain) => shown.history.domain(domain).map_or(&unseen, DomainHistory::timeline),
        };
        let (totals, recent) = (timeline.totals(), timeline.recent());
        let modes = timeline.modes().map(|(mode, rounds)| ModeWork { mode, rounds }).collect();
        let saved = savings(&shown, domain);
        let alerts = self.alerts(&report, &shown, &states, domain);
        drop(shown);
        let domains = of_domain.as_ref().map_or(&report.domains[..], std::slice::from_ref);
        let domains = domains.iter().map(|of| DomainStanding::of(of, report.rounds, &states)).collect();
        let regret_interval = interval(&report, domain);
        let RegretReport { kind, target, abandoned, audits, .. } = report;
        let all = || report.arms.into_iter().map(|work| DomainArmReport { work, best: None }).collect();
        let (rounds, cum_regret, score_mean, works) = match of_domain {
            None => (report.rounds, report.cum_regret, report.score_mean, all()),
            Some(of) => (of.rounds, of.cum_regret, of.score_mean, of.arms),
        };
        Ok(Overview {
            at_ms: now_ms(),
            domain: domain.cloned(),
            rounds,
            failures: totals.failures,
            abandoned,
            kind,
            target,
            cum_regret,
            regret_interval,
            recent: Recent::of(recent, kind == Kind::Exact),
            score_mean: (rounds > 0).then_some(score_mean),
            reward_sum: totals.reward,
            cost_usd: totals.cost_usd,
            saved,
            audit: self.audit_use(),
            audits,
            arms_total: states.len(),
            arms: standings(works, &states, ARMS_SHOWN, domain.is_none()),
            modes,
            domains,
            policy: self.policy(),
            memory: self.memory_fill(),
            alerts,
        })
    }

    /// How full memory is and how far it is behind, and its cap.
    pub fn memory_fill(&self) -> MemoryFill {
        MemoryFill { level: self.memory_writer.level(), cap: self.memory_shape.cap }
    }

    /// Points of a part of time, in all or of one domain that was seen.
    pub fn history(&self, domain: Option<&Domain>, range: Range) -> Result<(Kind, HistoryReport), RouterError> {
        let shown = locked(&self.shown);
        let kind = shown.tracker.kind();
        let unseen = Timeline::default();
        let timeline = match domain.map(|domain| (domain, shown.history.domain(domain))) {
            None => shown.history.all(),
            Some((_, Some(known))) => known.timeline(),
            Some((domain, None)) if self.is_known(domain) => &unseen,
            Some((domain, None)) => return Err(RouterError::unknown_domain(domain, &self.domains_seen(&shown))),
        };
        Ok((kind, timeline.report(range, kind == Kind::Exact)))
    }

    /// A domain's part of a report.
    fn of_domain(&self, report: &RegretReport, shown: &Shown, domain: &Domain) -> Result<DomainReport, RouterError> {
        match report.domains.iter().find(|of| of.domain == *domain) {
            Some(of) => Ok(of.clone()),
            None if self.is_known(domain) => Ok(DomainReport::unseen(domain)),
            None => Err(RouterError::unknown_domain(domain, &self.domains_seen(shown))),
        }
    }

    fn is_known(&self, domain: &Domain) -> bool {
        self.settings.domains.contains(domain)
    }

    fn domains_seen(&self, shown: &Shown) -> BTreeSet<Domain> {
        let seen = shown.history.domains().map(|(domain, _)| domain.clone());
        seen.chain(self.settings.domains.iter().cloned()).collect()
    }

    /// How every arm of the catalogue is.
    fn arm_states(&self) -> BTreeMap<ArmId, ArmState> {
        let now = now_ms();
        let state = |arm: &Arm| match arm {
            arm if arm.quarantined => ArmState::Quarantined,
            arm if !arm.enabled => ArmState::Disabled,
            arm if self.health.rests(&arm.id, now) => ArmState::Resting,
            _ => ArmState::Active,
        };
        self.catalogue.load().arms().map(|arm| (arm.id.clone(), state(arm))).collect()
    }
}

impl Recent {
    fn of(sums: Sums, exact: bool) -> Self {
        Self {
            rounds: sums.rounds,
            regret_per_round: sums.mean(sums.regret(exact)),
            score_mean: sums.mean(sums.score),
            reward_mean: sums.mean(sums.reward),
            cost_usd: sums.cost_usd,
            failures: sums.failures,
        }
    }
}

impl DomainStanding {
    fn of(of: &DomainReport, rounds: u64, states: &BTreeMap<ArmId, ArmState>) -> Self {
        Self {
            domain: of.domain.clone(),
            rounds: of.rounds,
            share: of.rounds as f64 / rounds.max(1) as f64,
            score_mean: of.score_mean,
            cost_usd: of.arms.iter().map(|arm| arm.work.cost_usd).sum(),
            cum_regret: of.cum_regret,
            arms: standings(of.arms.clone(), states, ARMS_OF_DOMAIN_SHOWN, false),
            voters: of.voters.clone(),
        }
    }
}

/// Arms' work with their states, the busiest first; with those that did none where there is room.
fn standings(
    mut works: Vec<DomainArmReport>,
    states: &BTreeMap<ArmId, ArmState>,
    most: usize,
    with_idle: bool,
) -> Vec<ArmStanding> {
    if with_idle && works.len() < most {
        let busy: BTreeSet<_> = works.iter().map(|arm| arm.work.arm.clone()).collect();
        let idle = states.keys().filter(|arm| !busy.contains(*arm)).take(most - works.len());
        works.extend(idle.map(|arm| DomainArmReport { work: ArmWork::idle(arm), best: None }));
    }
    works.sort_by_key(|arm| std::cmp::Reverse(arm.work.rounds));
    works.truncate(most);
    let standing = |DomainArmReport { work, best }| {
        let state = state_of(states, &work.arm);
        ArmStanding { work, state, best }
    };
    works.into_iter().map(standing).collect()
}

/// How the arm is that is run in some way.
fn state_of(states: &BTreeMap<ArmId, ArmState>, way: &ArmId) -> ArmState {
    let of = |(_, arm): (_, &str)| ArmId::new(arm).ok().and_then(|arm| states.get(&arm).copied());
    of(Mode::of_way(way.as_str())).unwrap_or(ArmState::Removed)
}

/// The headline's interval.
fn interval(report: &RegretReport, domain: Option<&Domain>) -> Option<Bounds> {
    let estimated = |measure: &&Measure| measure.kind == Kind::Estimated;
    let measure = report.measures.iter().find(estimated).filter(|_| report.kind == Kind::Estimated)?;
    let Some(domain) = domain else { return measure.interval };
    let DomainMeasure { rounds, cum_regret, low, high, .. } =
        measure.domains.iter().find(|measure| measure.domain == *domain)?;
    Some(Bounds { rounds: *rounds, cum_regret: (*cum_regret)?, low: (*low)?, high: (*high)? })
}

fn savings(shown: &Shown, domain: Option<&Domain>) -> Savings {
    let all = || shown.history.domains().filter(move |(name, _)| domain.is_none_or(|domain| *name == domain));
    let dearest = |of: &DomainHistory| {
        let costs = of.arms().records().filter_map(|(arm, record)| Some((arm.clone(), record.cost_mean_usd()?)));
        costs.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(arm, _)| arm)
    };
    Savings {
        best_fixed: saving(all().map(|(name, of)| (name, of, shown.tracker.best_fixed(name).cloned()))),
        dearest: saving(all().map(|(name, of)| (name, of, dearest(of)))),
    }
}

fn saving<'a>(picked: impl Iterator<Item = (&'a Domain, &'a DomainHistory, Option<ArmId>)>) -> Option<Saving> {
    let mut saving = Saving::default();
    for (name, of, arm) in picked {
        let Some(arm) = arm else { continue };
        let Some(cost_usd) = of.arms().record(&arm).and_then(|record| record.cost_mean_usd()) else { continue };
        let totals = of.timeline().totals();
        let instead = cost_usd * totals.rounds as f64;
        saving.rounds += totals.rounds;
        saving.cost_usd += instead;
        saving.saved_usd += instead - totals.cost_usd;
        saving.arms.insert(name.clone(), arm);
    }
    (!saving.arms.is_empty()).then_some(saving)
}
