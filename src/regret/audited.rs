//! Audited regret: measured on a random share of tasks that were run on every arm.
//!
//! Such a probe knows the reward r(a) of every arm that could have been taken, on the very task. Its regret is
//! max_a r(a) - sum_a p(a) r(a), with p the decision's probabilities: what the draw adds by chance is left out. Tasks are chosen
//! by a coin that knows nothing of them, so the mean over probes is that over all rounds whose coin was thrown, without a model
//! and without bias; times those rounds it is their cumulative regret. The same probes say what each fixed arm would have
//! brought: an estimate of what the doubly robust one estimates, made in another way.
//!
//! What can go wrong: probes that have not been measured (a crash, an arm that is too slow) are left out as if they were like
//! the others; they are counted. When the share of tasks changes the measurement begins anew, since probes of different
//! shares weigh differently.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ConfidenceSequence, Interval,
    gains::{Gains, Term, part},
    measure::{Bounds, DomainMeasure, Kind, Measure, Target, per_round},
};
use crate::round::{ArmId, Audited, Coin, DecisionId, Domain, Found, ProbeEnd, ProbedArm};

/// Where intervals are tightest, in probes: they are dear.
const TIGHTEST_AT: u64 = 500;

/// What was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Audits {
    /// The probability with which tasks are chosen in this measurement; 0 before the first.
    probability: f64,
    /// Its first decision.
    since: Option<DecisionId>,
    /// Its rounds whose coin was thrown.
    rounds: u64,
    regret: ConfidenceSequence,
    domains: BTreeMap<Domain, OfDomain>,
    /// Of all measurements: tasks chosen, how probes ended, and what they cost.
    chosen: u64,
    ends: BTreeMap<ProbeEnd, u64>,
    nano_usd: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct OfDomain {
    /// The how manieth domain it is, from 1.
    order: u64,
    rounds: u64,
    regret: ConfidenceSequence,
    gains: Gains,
    arms: BTreeMap<ArmId, ArmSums>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ArmSums {
    probes: u64,
    score: f64,
    reward: f64,
}

/// What audit probes came to.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AuditCounts {
    /// The probability with which a task is chosen, in the measurement that the figures are of.
    pub probability: f64,
    /// Rounds of it whose tasks might have been chosen.
    pub rounds: u64,
    /// Tasks that were chosen; this and what follows is since the journal began.
    pub chosen: u64,
    /// Probes in which every arm was judged: what the figures are made of.
    pub measured: u64,
    /// Probes in which an arm was not: it was too slow, refused the request, or no verifier could judge it.
    pub incomplete: u64,
    /// Probes that a stop or a crash of the daemon ended.
    pub cut_off: u64,
    /// Probes that were not begun because the day's dollars did not suffice.
    pub over_cap: u64,
    /// Probes that were not begun because too many were under way.
    pub busy: u64,
    /// Dollars that probes cost. No tenant is charged for them.
    pub cost_usd: f64,
    /// What each arm brings on the probes of each domain.
    pub arms: Vec<AuditedArm>,
}

/// What an arm brings on the probes of a domain.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct AuditedArm {
    /// The domain.
    pub domain: Domain,
    /// The arm.
    pub arm: ArmId,
    /// Probes in which it could have been taken.
    pub probes: u64,
    /// Its mean score.
    pub score_mean: f64,
    /// Its mean reward.
    pub reward_mean: f64,
}

impl Default for Audits {
    fn default() -> Self {
        Self {
            probability: 0.0,
            since: None,
            rounds: 0,
            regret: ConfidenceSequence::tightest_at(TIGHTEST_AT),
            domains: BTreeMap::new(),
            chosen: 0,
            ends: BTreeMap::new(),
            nano_usd: 0,
        }
    }
}

impl Audits {
    /// Adds a round whose coin was thrown.
    pub fn round(&mut self, decision: DecisionId, domain: &Domain, coin: Coin) {
        self.chosen += u64::from(coin.chosen);
        if coin.probability != self.probability {
            // What was decided before this measurement began is of the one before.
            if self.since.is_some_and(|since| decision < since) {
                return;
            }
            let Self { chosen, nano_usd, ends, .. } = std::mem::take(self);
            *self = Self {
                probability: coin.probability,
                since: Some(decision),
                chosen,
                nano_usd,
                ends,
                ..Self::default()
            };
        }
        self.rounds += 1;
        self.domain(domain).rounds += 1;
    }

    /// Adds how a probe ended.
    pub fn probe(&mut self, audited: &Audited) {
        let Audited { decision_id, domain, probability, end, arms, nano_usd } = audited;
        *self.ends.entry(*end).or_default() += 1;
        self.nano_usd = self.nano_usd.saturating_add(*nano_usd);
        let ours = *probability == self.probability && self.since.is_some_and(|since| *decision_id >= since);
        if *end != ProbeEnd::Measured || !ours {
            return;
        }
        let rewards: Option<Vec<f64>> = arms.iter().map(ProbedArm::reward).collect();
        let Some(rewards) = rewards.filter(|rewards| !rewards.is_empty()) else { return };
        let expected: f64 = arms.iter().zip(&rewards).map(|(arm, reward)| arm.p * reward).sum();
        let regret = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max) - expected;
        self.regret.add(regret);
        let of = self.domain(domain);
        of.regret.add(regret);
        let ways: Vec<_> = arms.iter().map(|arm| arm.mode.way(&arm.arm)).collect();
        let pairs = ways.iter().zip(&rewards);
        let terms = pairs.map(|(arm, reward)| Term { arm, gain: reward - expected, expected: None });
        of.gains.observe(&terms.collect::<Vec<_>>(), TIGHTEST_AT);
        for (arm, way) in arms.iter().zip(ways) {
            if let Found::Judged { score, reward } = arm.found {
                let sums = of.arms.entry(way).or_default();
                sums.probes += 1;
                sums.score += score;
                sums.reward += reward;
            }
        }
    }

    fn domain(&mut self, domain: &Domain) -> &mut OfDomain {
        let order = self.domains.len() as u64 + 1;
        self.domains.entry(domain.clone()).or_insert_with(|| OfDomain {
            order,
            rounds: 0,
            regret: ConfidenceSequence::tightest_at(TIGHTEST_AT),
            gains: Gains::default(),
            arms: BTreeMap::new(),
        })
    }

    /// The regret against the best arm of each task.
    pub fn per_task(&self, alpha: f64) -> Measure {
        let rounds = self.rounds as f64;
        let cum_regret = self.regret.mean().map(|mean| mean * rounds);
        let interval = self.regret.interval(alpha).zip(cum_regret).map(|(Interval { low, high }, cum_regret)| Bounds {
            rounds: self.rounds,
            cum_regret,
            // No task's regret is below 0.
            low: (low * rounds).max(0.0),
            high: high * rounds,
        });
        let domain = |(domain, of): (&Domain, &OfDomain)| {
            let rounds = of.rounds as f64;
            let interval = of.regret.interval(alpha);
            DomainMeasure {
                domain: domain.clone(),
                rounds: of.rounds,
                cum_regret: of.regret.mean().map(|mean| mean * rounds),
                low: interval.map(|interval| (interval.low * rounds).max(0.0)),
                high: interval.map(|interval| interval.high * rounds),
                unsettled: vec![],
            }
        };
        Measure {
            kind: Kind::Audited,
            target: Target::BestPerTask,
            method: "On a random share of tasks, run on every arm: the best reward on the task less the one that was to be \
                     expected; the mean over them, times the rounds.",
            rounds: self.rounds,
            cum_regret,
            per_round: per_round(cum_regret, self.rounds),
            interval,
            domains: self.domains.iter().map(domain).collect(),
        }
    }

    /// The regret against the best fixed arm of each domain.
    pub fn fixed(&self, alpha: f64) -> Measure {
        let (mut cum_regret, mut bounds, mut domains) = (None, None, vec![]);
        for (domain, of) in &self.domains {
            let probes = of.regret.rounds();
            let scale = of.rounds as f64 / probes.max(1) as f64;
            let scaled = |interval: Interval| Interval { low: interval.low * scale, high: interval.high * scale };
            let regret = (probes > 0).then(|| of.gains.sum() * scale);
            if let Some(regret) = regret {
                *cum_regret.get_or_insert(0.0) += regret;
                if let Some(interval) = of.gains.best(alpha * part(of.order)).interval {
                    Bounds::add(&mut bounds, of.rounds, regret, scaled(interval));
                }
            }
            let best = of.gains.best(alpha);
            let interval = best.interval.map(scaled);
            domains.push(DomainMeasure {
                domain: domain.clone(),
                rounds: of.rounds,
                cum_regret: regret,
                low: interval.map(|interval| interval.low),
                high: interval.map(|interval| interval.high),
                unsettled: best.unsettled,
            });
        }
        Measure {
            kind: Kind::Audited,
            target: Target::BestFixedPerDomain,
            method: "On the same tasks: per domain, the reward of the best fixed arm in hindsight less the one that was to be \
                     expected; the mean over them, times the rounds.",
            rounds: self.rounds,
            cum_regret,
            per_round: per_round(cum_regret, self.rounds),
            interval: bounds,
            domains,
        }
    }

    /// Whether a coin was ever thrown.
    pub fn is_begun(&self) -> bool {
        self.rounds > 0 || !self.ends.is_empty()
    }

    pub fn counts(&self) -> AuditCounts {
        let ended = |end| self.ends.get(&end).copied().unwrap_or_default();
        let arm = |domain: &Domain, (arm, sums): (&ArmId, &ArmSums)| AuditedArm {
            domain: domain.clone(),
            arm: arm.clone(),
            probes: sums.probes,
            score_mean: sums.score / sums.probes.max(1) as f64,
            reward_mean: sums.reward / sums.probes.max(1) as f64,
        };
        AuditCounts {
            probability: self.probability,
            rounds: self.rounds,
            chosen: self.chosen,
            measured: ended(ProbeEnd::Measured),
            incomplete: ended(ProbeEnd::Incomplete),
            cut_off: ended(ProbeEnd::CutOff),
            over_cap: ended(ProbeEnd::OverCap),
            busy: ended(ProbeEnd::Busy),
            cost_usd: self.nano_usd as f64 / 1e9,
            arms: self.domains.iter().flat_map(|(domain, of)| of.arms.iter().map(|one| arm(domain, one))).collect(),
        }
    }
}
