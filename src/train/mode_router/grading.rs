//! What a step's trajectories came to: their rewards, what their tokens are weighed by, and what is told of the step. It is the same for every
//! network that writes trajectories.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    StepReport,
    advantage::{Advantage, AdvantageSettings, Graded, Scale, advantages, pooled},
    rollout::Ended,
};
use crate::{action::policy::mode_router::mode_place, round::Mode};

/// The quantile of trajectories' costs that halves a reward.
const COST_QUANTILE: f64 = 0.95;

/// A trajectory that came to its end, whoever wrote it.
pub trait Trajectory {
    /// The mode, once there is one.
    fn mode(&self) -> Option<Mode>;
    /// Its calls.
    fn calls(&self) -> usize;
    /// How it ended.
    fn ended(&self) -> &Ended;
}

/// A query's trajectories, which share one world.
#[derive(Debug, Clone)]
pub struct Group<T> {
    /// The pool of workers that its query is of.
    pub pool: usize,
    /// What cost weighs for them.
    pub alpha: f64,
    /// Whether their mode was forced.
    pub forced: bool,
    /// They.
    pub rollouts: Vec<T>,
}

/// What trajectories of a pool of workers cost, and the dollars at which that halves a reward: the 95th percentile at the beginning, then frozen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Dollars of each answered trajectory before that.
    seen: Vec<f64>,
    reference_usd: Option<f64>,
}

/// The same for every pool: workers are described beside each other, so what is dear in one pool is cheap in another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Costs(Vec<Cost>);

impl Costs {
    /// Takes note of a step.
    pub fn see<T: Trajectory>(&mut self, groups: &[Group<T>], cold: bool) {
        let pools = groups.iter().map(|group| group.pool + 1).max().unwrap_or_default();
        self.0.resize(self.0.len().max(pools), Cost::default());
        if !cold {
            return self.freeze();
        }
        for group in groups {
            let Cost { seen, reference_usd } = &mut self.0[group.pool];
            if reference_usd.is_none() {
                seen.extend(group.rollouts.iter().filter_map(cost));
            }
        }
    }

    /// From now on they stay as they are.
    pub fn freeze(&mut self) {
        for Cost { seen, reference_usd } in &mut self.0 {
            reference_usd.get_or_insert_with(|| quantile(&std::mem::take(seen)));
        }
    }

    /// Dollars at which a trajectory's cost halves its reward, in a pool; 1 in one of which nothing was seen.
    pub fn reference_usd(&self, pool: usize) -> f64 {
        let of = |cost: &Cost| cost.reference_usd.unwrap_or_else(|| quantile(&cost.seen));
        self.0.get(pool).map_or(1.0, of)
    }
}

fn graded<T: Trajectory>(rollout: &T, reference_usd: f64) -> Graded {
    let (task, efficiency) = match rollout.ended() {
        Ended::Answered(outcome) => {
            let left = outcome.cost_usd.map(|cost| outcome.score / (1.0 + cost / reference_usd));
            (Some(outcome.score), left)
        }
        Ended::Violated(_) | Ended::Unterminated => (Some(-1.0), Some(-1.0)),
        Ended::Failed => (None, None),
    };
    Graded { mode: rollout.mode(), task, efficiency }
}

/// How trajectories are weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighing {
    /// Only the task's reward counts.
    pub cold: bool,
    /// Modes and what is done within them are told apart.
    pub comet: bool,
    /// What the efficiency's differences within a group are divided by.
    pub scale: Scale,
}

/// What the tokens of each trajectory are weighed by, group by group; none for those that count nowhere. What is told of them goes into the report.
pub fn weigh<T: Trajectory>(
    groups: &[Group<T>],
    costs: &Costs,
    weighing: Weighing,
    report: &mut StepReport,
) -> Vec<Vec<Option<Advantage>>> {
    // Once for all: in the cold start it is a quantile of every cost so far.
    let reference_usd: Vec<f64> = (0..costs.0.len()).map(|pool| costs.reference_usd(pool)).collect();
    let graded = |group: &Group<T>| {
        let reference_usd = reference_usd.get(group.pool).copied().unwrap_or(1.0);
        group.rollouts.iter().map(|rollout| graded(rollout, reference_usd)).collect()
    };
    let graded: Vec<Vec<Graded>> = groups.iter().map(graded).collect();
    let over_batch = (weighing.scale == Scale::Batch).then(|| pooled(&graded));
    let mut told = Told::default();
    let weigh = |(group, graded): (&Group<T>, Vec<Graded>)| {
        let alpha = if weighing.cold { 0.0 } else { group.alpha };
        let settings = AdvantageSettings { alpha, plain: group.forced || !weighing.comet, pooled: over_batch };
        let found = advantages(&graded, settings);
        told.add(group, &graded, &found, alpha);
        found
    };
    let weights = groups.iter().zip(graded).map(weigh).collect();
    told.tell(report);
    weights
}

fn cost<T: Trajectory>(rollout: &T) -> Option<f64> {
    match rollout.ended() {
        Ended::Answered(outcome) => outcome.cost_usd,
        Ended::Violated(_) | Ended::Unterminated | Ended::Failed => None,
    }
}

/// The reference cost of so many; 1 where none is above 0.
fn quantile(costs: &[f64]) -> f64 {
    let mut costs: Vec<f64> = costs.iter().copied().filter(|cost| *cost > 0.0).collect();
    costs.sort_by(f64::total_cmp);
    let place = (COST_QUANTILE * costs.len() as f64) as usize;
    costs.get(place.min(costs.len().saturating_sub(1))).copied().unwrap_or(1.0)
}

/// Sums of a step.
#[derive(Default)]
struct Told {
    rollouts: u64,
    counted: f64,
    reward: f64,
    answered: f64,
    score: f64,
    cost_usd: f64,
    calls: f64,
    free: f64,
    modes: [f64; 3],
    by_mode: [(f64, f64); 3],
    of_mode: f64,
    of_inner: f64,
    violations: BTreeMap<String, u64>,
}

impl Told {
    fn add<T: Trajectory>(&mut self, group: &Group<T>, graded: &[Graded], found: &[Option<Advantage>], alpha: f64) {
        for ((rollout, graded), found) in group.rollouts.iter().zip(graded).zip(found) {
            self.rollouts += 1;
            let broke = match rollout.ended() {
                Ended::Answered(outcome) => {
                    self.answered += 1.0;
                    self.score += outcome.score;
                    self.cost_usd += outcome.cost_usd.unwrap_or_default();
                    self.calls += rollout.calls() as f64;
                    None
                }
                Ended::Violated(violation) => Some(violation.code()),
                Ended::Unterminated => Some("unterminated"),
                Ended::Failed => None,
            };
            if let Some(code) = broke {
                *self.violations.entry(code.to_owned()).or_default() += 1;
            }
            if let (Some(task), Some(mode)) = (graded.task, rollout.mode()) {
                let of = &mut self.by_mode[mode_place(mode)];
                *of = (of.0 + task, of.1 + 1.0);
            }
            if let Some(task) = graded.task {
                self.counted += 1.0;
                self.reward += (1.0 - alpha) * task + alpha * graded.efficiency.unwrap_or(task);
            }
            if let (false, Some(mode)) = (group.forced, rollout.mode()) {
                self.free += 1.0;
                self.modes[mode_place(mode)] += 1.0;
                self.of_mode += found.map_or(0.0, |found| found.mode.abs());
            }
            self.of_inner += found.map_or(0.0, |found| found.inner.abs());
        }
    }

    fn tell(self, report: &mut StepReport) {
        report.rollouts = self.rollouts;
        report.reward = self.reward / self.counted.max(1.0);
        report.score = self.score / self.answered.max(1.0);
        report.cost_usd = self.cost_usd / self.answered.max(1.0);
        report.calls = self.calls / self.answered.max(1.0);
        report.by_mode = self.by_mode.map(|(sum, n)| sum / f64::max(n, 1.0));
        report.modes = self.modes.map(|n| n / self.free.max(1.0));
        report.advantage_mode = self.of_mode / self.free.max(1.0);
        report.advantage_inner = self.of_inner / (self.rollouts as f64).max(1.0);
        report.violations = self.violations;
    }
}
