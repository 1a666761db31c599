//! The read model of regret and of who did the work, kept round by round, never by scanning the journal.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{
    audited::Audits,
    estimated::Estimated,
    exact::Exact,
    gains::part,
    measure::{ALPHA, Bounds, DomainMeasure, Kind, Measure, Target, per_round},
    report::{ArmReport, DomainArmReport, DomainReport, RegretReport, SharePoint, VoterWeight},
    series::{RegretPoint, Series},
};
use crate::round::{ArmId, Audited, Coin, DecisionId, Domain};

const EXACT: &str = "The best arm's true expected reward on each task less that of the arm taken, summed.";
const ESTIMATED: &str =
    "Per domain: the doubly robust value of the best fixed arm in hindsight less the reward got, summed.";

/// Rounds in the window of a recent share.
const RECENT: usize = 200;
/// Rounds between two points of the share curve, before it is thinned.
const SHARE_WINDOW: u64 = 50;

/// One verified round.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Its decision.
    pub decision: DecisionId,
    /// The task's domain.
    pub domain: &'a Domain,
    /// The arm taken.
    pub arm: &'a ArmId,
    /// The probability with which it was drawn.
    pub propensity: f64,
    /// Every arm that could have been drawn, with its probability.
    pub candidates: &'a [(ArmId, f64)],
    /// Whether it is to be probed, where that was left to a coin.
    pub coin: Option<Coin>,
    /// The score in [0, 1].
    pub score: f64,
    /// e1 * score + e2 * cost.
    pub reward: f64,
    /// Dollars spent.
    pub cost_usd: f64,
    /// Each candidate's true expected reward, where all are known.
    pub truth: Option<&'a [(ArmId, f64)]>,
    /// The voters and their weights in the decision.
    pub voters: &'a [(String, f64)],
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ArmSums {
    rounds: u64,
    score: f64,
    cost_usd: f64,
}

/// Work of a group of rounds: all, or one domain's.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Work {
    sums: ArmSums,
    arms: BTreeMap<ArmId, ArmSums>,
    recent: VecDeque<ArmId>,
    exact: Exact,
    estimated: Estimated,
    voters: Vec<VoterWeight>,
    /// The how manieth domain it is, from 1; 0 of all together.
    #[serde(default)]
    order: u64,
}

/// What one round's regret added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lost {
    /// To the exact sum; 0 where the truth is not known.
    pub exact: f64,
    /// To the estimate, by which what was estimated of earlier rounds changes too.
    pub estimated: f64,
}

/// Folds verified rounds into the report. Written and read back as JSON it is the same bit for bit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tracker {
    all: Work,
    domains: BTreeMap<Domain, Work>,
    reward_sum: f64,
    estimated_sum: f64,
    all_exact: bool,
    abandoned: u64,
    series: Series<RegretPoint>,
    window: BTreeMap<ArmId, u64>,
    shares: Series<SharePoint>,
    /// Domains that were given a place in their order.
    #[serde(default)]
    ordered: u64,
    #[serde(default)]
    audits: Audits,
}

impl Default for Tracker {
    fn default() -> Self {
        Self {
            all: Work::default(),
            domains: BTreeMap::new(),
            reward_sum: 0.0,
            estimated_sum: 0.0,
            all_exact: true,
            abandoned: 0,
            series: Series::new(),
            window: BTreeMap::new(),
            shares: Series::new(),
            ordered: 0,
            audits: Audits::default(),
        }
    }
}

impl Tracker {
    /// Adds one round; returns what its regret added.
    pub fn observe(&mut self, round: &Observed<'_>) -> Lost {
        self.all_exact &= round.truth.is_some();
        let exact_before = self.all.exact.cum_regret();
        self.reward_sum += round.reward;
        self.all.observe(round);
        if let Some(coin) = round.coin {
            self.audits.round(round.decision, round.domain, coin);
        }
        let before = self.domains.get(round.domain).map_or(0.0, |work| work.estimated.cum_regret());
        let work = self.domains.entry(round.domain.clone()).or_default();
        work.observe(round);
        work.estimated.observe(round.candidates, round.arm, round.propensity, round.reward);
        if work.order == 0 {
            self.ordered += 1;
            work.order = self.ordered;
        }
        // The whole's estimate is the sum of the domains' own, since the best arm differs between them.
        let estimated = work.estimated.cum_regret() - before;
        self.estimated_sum += estimated;
        let rounds = self.all.sums.rounds;
        self.series.push(rounds, self.point());
        *self.window.entry(round.arm.clone()).or_default() += 1;
        if rounds.is_multiple_of(SHARE_WINDOW) {
            let shares =
                std::mem::take(&mut self.window).into_iter().map(|(arm, n)| (arm, n as f64 / SHARE_WINDOW as f64));
            self.shares.push(rounds / SHARE_WINDOW, SharePoint { round: rounds, shares: shares.collect() });
        }
        Lost { exact: self.all.exact.cum_regret() - exact_before, estimated }
    }

    fn point(&self) -> RegretPoint {
        let exact = &self.all.exact;
        RegretPoint {
            round: self.all.sums.rounds,
            cum_regret: if self.all_exact { exact.cum_regret() } else { self.estimated_sum },
            uniform: self.all_exact.then(|| exact.uniform()),
            best_fixed: self.all_exact.then(|| exact.best_fixed()),
        }
    }

    /// Takes note of a decision that nobody closed.
    pub fn abandon(&mut self) {
        self.abandoned += 1;
    }

    /// Adds how an audit probe ended.
    pub fn probe(&mut self, audited: &Audited) {
        self.audits.probe(audited);
    }

    /// The arm of a domain that would have been best for all of its rounds, in hindsight: truly where regret is exact, else as
    /// it is estimated.
    pub fn best_fixed(&self, domain: &Domain) -> Option<&ArmId> {
        let work = self.domains.get(domain)?;
        if self.all_exact { work.exact.best_arm() } else { work.estimated.best_arm() }
    }

    /// Verified rounds so far.
    pub fn rounds(&self) -> u64 {
        self.all.sums.rounds
    }

    /// How the headline number is found.
    pub fn kind(&self) -> Kind {
        if self.all_exact { Kind::Exact } else { Kind::Estimated }
    }

    /// The report as of now.
    pub fn report(&self) -> RegretReport {
        RegretReport { series: self.series.points(), share_series: self.shares.points(), ..self.summary() }
    }

    /// The report without its curves.
    pub fn summary(&self) -> RegretReport {
        let sums = &self.all.sums;
        RegretReport {
            kind: self.kind(),
            target: if self.all_exact { Target::BestExpectedPerTask } else { Target::BestFixedPerDomain },
            method: if self.all_exact { EXACT } else { ESTIMATED },
            rounds: sums.rounds,
            abandoned: self.abandoned,
            reward_sum: self.reward_sum,
            score_mean: sums.score_mean(),
            cost_usd: sums.cost_usd,
            cum_regret: if sums.rounds == 0 { 0.0 } else { self.point().cum_regret },
            series: vec![],
            arms: self.all.arm_reports(),
            domains: self.domains.iter().map(|(domain, work)| work.report(domain, self.all_exact)).collect(),
            share_series: vec![],
            measures: self.measures(),
            audits: self.audits.is_begun().then(|| self.audits.counts()),
        }
    }

    /// Every figure of regret.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let exact = self.all_exact.then(|| self.exact());
        let audited = [Audits::per_task, Audits::fixed].map(|measure| measure(&self.audits, ALPHA));
        let audited = audited.into_iter().filter(|_| self.audits.is_begun());
        exact.into_iter().chain([self.estimated()]).chain(audited).collect()
    }

    fn exact(&self) -> Measure {
        let rounds = self.all.sums.rounds;
        let domain = |(domain, work): (&Domain, &Work)| DomainMeasure {
            domain: domain.clone(),
            rounds: work.sums.rounds,
            cum_regret: Some(work.exact.cum_regret()),
            low: None,
            high: None,
            unsettled: vec![],
        };
        let cum_regret = (rounds > 0).then(|| self.all.exact.cum_regret());
        Measure {
            kind: Kind::Exact,
            target: Target::BestExpectedPerTask,
            method: EXACT,
            rounds,
            cum_regret,
            per_round: per_round(cum_regret, rounds),
            interval: None,
            domains: self.domains.iter().map(domain).collect(),
        }
    }

    fn estimated(&self) -> Measure {
        let (mut interval, mut domains) = (None, vec![]);
        for (domain, work) in &self.domains {
            let (covered, best) = work.estimated.best(ALPHA);
            if let Some(bounds) = work.estimated.best(ALPHA * part(work.order)).1.interval {
                Bounds::add(&mut interval, covered, best.sum, bounds);
            }
            domains.push(DomainMeasure {
                domain: domain.clone(),
                rounds: covered,
                cum_regret: Some(best.sum),
                low: best.interval.map(|interval| interval.low),
                high: best.interval.map(|interval| interval.high),
                unsettled: best.unsettled,
            });
        }
        let rounds = self.all.sums.rounds;
        let cum_regret = (rounds > 0).then_some(self.estimated_sum);
        Measure {
            kind: Kind::Estimated,
            target: Target::BestFixedPerDomain,
            method: ESTIMATED,
            rounds,
            cum_regret,
            per_round: per_round(cum_regret, rounds),
            interval,
            domains,
        }
    }
}

impl Work {
    fn observe(&mut self, round: &Observed<'_>) {
        self.sums.add(round);
        self.arms.entry(round.arm.clone()).or_default().add(round);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(round.arm.clone());
        if let Some(truth) = round.truth.filter(|truth| !truth.is_empty()) {
            self.exact.observe(truth, round.arm);
        }
        self.voters = round
            .voters
            .iter()
            .map(|(policy, weight)| VoterWeight { policy: policy.clone(), weight: *weight })
            .collect();
    }

    fn arm_reports(&self) -> Vec<ArmReport> {
        let report = |(arm, sums): (&ArmId, &ArmSums)| ArmReport {
            arm: arm.clone(),
            rounds: sums.rounds,
            share: sums.rounds as f64 / self.sums.rounds.max(1) as f64,
            share_recent: self.recent.iter().filter(|recent| *recent == arm).count() as f64
                / self.recent.len().max(1) as f64,
            score_mean: sums.score_mean(),
            cost_usd: sums.cost_usd,
        };
        self.arms.iter().map(report).collect()
    }

    fn report(&self, domain: &Domain, exact: bool) -> DomainReport {
        let best = self.exact.best_arm().filter(|_| exact);
        let arms = self
            .arm_reports()
            .into_iter()
            .map(|work| DomainArmReport { best: best.map(|best| *best == work.arm), work })
            .collect();
        DomainReport {
            domain: domain.clone(),
            rounds: self.sums.rounds,
            score_mean: self.sums.score_mean(),
            cum_regret: if exact { self.exact.cum_regret() } else { self.estimated.cum_regret() },
            arms,
            voters: self.voters.clone(),
        }
    }
}

impl ArmSums {
    fn add(&mut self, round: &Observed<'_>) {
        self.rounds += 1;
        self.score += round.score;
        self.cost_usd += round.cost_usd;
    }

    fn score_mean(&self) -> f64 {
        self.score / self.rounds.max(1) as f64
    }
}
