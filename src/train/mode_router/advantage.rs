//! Advantages of one group: what a rollout's mode was worth, and what it did within it.
//!
//! With K rollouts of one query, for each component d in (task, efficiency): mu the mean and sigma the standard deviation (Bessel) of the
//! whole group, mu_m the mean of the rollouts that chose mode m,
//!
//! ```text
//! A_mode  = (mu_m - mu) / (sigma + 1e-6)        A_inner = (r - mu_m) / (sigma + 1e-6)        A_mode + A_inner = A_grpo
//! A       = (1 - alpha) A_task + alpha A_eff     mixed after they were normalised
//! ```
//!
//! With [`Scale::Batch`] the efficiency's sigma is the standard deviation within groups over the batch's groups whose task rewards differ, instead of the group's own.
//! Recorded outcomes are often the same for all rollouts of a query: their small differences in cost would otherwise weigh as much as answers that are right and wrong
//! elsewhere, and the policy would save more than (1 - alpha) task + alpha efficiency asks for.
//!
//! One sigma for the whole group: with one of each mode, a mode that is sure of itself would weigh most. A group whose rollouts all came to the same says nothing (sigma < 1e-4). Groups
//! whose mode was forced have no part of the mode: their advantage is all inner.
//!
//! Reference: RouteWeaver (COMET-GRPO); Shao et al., DeepSeekMath, 2024 (GRPO).

use serde::{Deserialize, Serialize};

use crate::round::Mode;

const EPSILON: f64 = 1e-6;
const FLAT: f64 = 1e-4;

/// One rollout's rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Graded {
    /// The mode that it ran in; none where it broke the rules before it had one.
    pub mode: Option<Mode>,
    /// In [-1, 1]: the score, or -1 for a broken rule. None where a call failed: the rollout counts nowhere.
    pub task: Option<f64>,
    /// The same times what its cost leaves; none where the cost is not known.
    pub efficiency: Option<f64>,
}

/// What a rollout's tokens are weighed by.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Advantage {
    /// Its mode token.
    pub mode: f64,
    /// All others.
    pub inner: f64,
}

/// What the efficiency's differences within a group are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The standard deviation of the group, as published.
    Group,
    /// The standard deviation within groups, over the batch.
    Batch,
}

/// The standard deviation of the efficiency's rewards within groups, over those groups of a batch whose task rewards differ.
pub fn pooled(groups: &[Vec<Graded>]) -> f64 {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for group in groups {
        let tasks: Vec<f64> = group.iter().filter_map(|graded| graded.task).collect();
        if tasks.windows(2).all(|pair| (pair[0] - pair[1]).abs() < FLAT) {
            continue;
        }
        let rewards: Vec<f64> = group.iter().filter_map(|graded| graded.task.and(graded.efficiency)).collect();
        let mean = rewards.iter().sum::<f64>() / rewards.len().max(1) as f64;
        squares += rewards.iter().map(|reward| (reward - mean) * (reward - mean)).sum::<f64>();
        freedom += rewards.len().saturating_sub(1) as f64;
    }
    if freedom > 0.0 { (squares / freedom).sqrt() } else { 1.0 }
}

/// How advantages are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdvantageSettings {
    /// The batch's standard deviation of the efficiency, where it takes the place of the group's.
    pub pooled: Option<f64>,
    /// What cost weighs, in [0, 1].
    pub alpha: f64,
    /// Whether the mode was forced on the whole group, or is not told apart (no COMET).
    pub plain: bool,
}

/// One advantage per rollout; none for those that count nowhere.
pub fn advantages(group: &[Graded], settings: AdvantageSettings) -> Vec<Option<Advantage>> {
    let AdvantageSettings { alpha, plain, pooled } = settings;
    let task = component(group, plain, None, |graded| graded.task);
    if alpha <= 0.0 {
        return task;
    }
    // A row whose cost is not known leaves updates that cost has a part in.
    let both = |graded: &Graded| graded.task.and(graded.efficiency);
    let task = component(group, plain, None, |graded| both(graded).and(graded.task));
    let efficiency = component(group, plain, pooled, both);
    let mixed = |(task, efficiency): (Option<Advantage>, Option<Advantage>)| {
        let (task, efficiency) = (task?, efficiency?);
        let mix = |task: f64, efficiency: f64| (1.0 - alpha) * task + alpha * efficiency;
        Some(Advantage { mode: mix(task.mode, efficiency.mode), inner: mix(task.inner, efficiency.inner) })
    };
    task.into_iter().zip(efficiency).map(mixed).collect()
}

fn component(
    group: &[Graded],
    plain: bool,
    pooled: Option<f64>,
    reward: impl Fn(&Graded) -> Option<f64>,
) -> Vec<Option<Advantage>> {
    let counted: Vec<(Option<Mode>, f64)> =
        group.iter().filter_map(|graded| Some((graded.mode, reward(graded)?))).collect();
    let mean = |of: &dyn Fn(Option<Mode>) -> bool| {
        let rewards = counted.iter().filter(|(mode, _)| of(*mode)).map(|(_, reward)| *reward);
        let (sum, n) = rewards.fold((0.0, 0.0), |(sum, n), reward| (sum + reward, n + 1.0_f64));
        sum / n.max(1.0)
    };
    let n = counted.len() as f64;
    // One that is left alone is compared with nothing: mu = 0, sigma = 1.
    let (mu, sigma) = if counted.len() == 1 {
        (0.0, 1.0)
    } else {
        let mu = mean(&|_| true);
        let squares: f64 = counted.iter().map(|(_, reward)| (reward - mu) * (reward - mu)).sum();
        (mu, pooled.unwrap_or_else(|| (squares / (n - 1.0).max(1.0)).sqrt()))
    };
    let advantage = |graded: &Graded| {
        let reward = reward(graded)?;
        if sigma < FLAT {
            return Some(Advantage::default());
        }
        let of_mode = if plain { mu } else { mean(&|mode| mode == graded.mode) };
        let scale = sigma + EPSILON;
        Some(Advantage { mode: (of_mode - mu) / scale, inner: (reward - of_mode) / scale })
    };
    group.iter().map(advantage).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MODES: [Mode; 8] = [
        Mode::Single,
        Mode::Single,
        Mode::Multi,
        Mode::Multi,
        Mode::Multi,
        Mode::Agentic,
        Mode::Agentic,
        Mode::Agentic,
    ];
    const TASK: [f64; 8] = [1.0, 0.0, 1.0, 1.0, 0.0, -1.0, 1.0, 0.0];
    const EFFICIENCY: [f64; 8] = [0.8, 0.0, 0.5, 0.6, 0.0, -1.0, 0.3, 0.0];

    fn group() -> Vec<Graded> {
        (0..8).map(|i| Graded { mode: Some(MODES[i]), task: Some(TASK[i]), efficiency: Some(EFFICIENCY[i]) }).collect()
    }

    fn near(found: &[Option<Advantage>], of: impl Fn(&Advantage) -> f64, wanted: &[f64], within: f64) {
        for (found, wanted) in found.iter().zip(wanted) {
            let found = of(found.as_ref().unwrap());
            assert!((found - wanted).abs() < within, "{found} instead of {wanted}");
        }
    }

    #[test]
    fn agrees_with_the_reference_vectors() {
        let found = advantages(&group(), AdvantageSettings { alpha: 0.0, plain: false, pooled: None });
        near(&found, |a| a.mode, &[0.168, 0.168, 0.392, 0.392, 0.392, -0.504, -0.504, -0.504], 6e-4);
        near(&found, |a| a.inner, &[0.672, -0.672, 0.448, 0.448, -0.896, -1.344, 1.344, 0.0], 6e-4);
        let found = advantages(&group(), AdvantageSettings { alpha: 0.3, plain: false, pooled: None });
        near(&found, |a| a.mode, &[0.2526, 0.2526, 0.3914, 0.3914, 0.3914, -0.5598, -0.5598, -0.5598], 6e-5);
        near(&found, |a| a.inner, &[0.6864, -0.6864, 0.3856, 0.4396, -0.8252, -1.3549, 1.2289, 0.126], 6e-5);
    }

    #[test]
    fn groups_that_say_nothing_and_rows_that_count_nowhere() {
        let settings = AdvantageSettings { alpha: 0.0, plain: false, pooled: None };
        let graded = |task: Option<f64>, efficiency: Option<f64>| Graded { mode: Some(Mode::Single), task, efficiency };
        assert_eq!(advantages(&[graded(Some(0.5), None); 4], settings), [Some(Advantage::default()); 4]);
        let found = advantages(&[graded(None, None), graded(Some(0.7), None), graded(None, None)], settings);
        assert_eq!((found[0], found[2]), (None, None));
        assert!((found[1].unwrap().mode + found[1].unwrap().inner - 0.7).abs() < 1e-5, "one alone: mu 0, sigma 1");
        // A failed call takes no part in the others' baseline.
        let mut with = group();
        with.push(Graded { mode: Some(Mode::Multi), task: None, efficiency: None });
        assert_eq!(advantages(&with, settings)[..8], advantages(&group(), settings));
        // Where cost counts, a row without one leaves both components.
        let mut unpriced = group();
        unpriced[0].efficiency = None;
        let found = advantages(&unpriced, AdvantageSettings { alpha: 0.3, plain: false, pooled: None });
        assert_eq!(found[0], None);
        assert_eq!(
            found[1..],
            advantages(&group()[1..], AdvantageSettings { alpha: 0.3, plain: false, pooled: None })[..]
        );
    }

    #[test]
    fn over_the_batch_a_group_that_differs_little_in_cost_weighs_little() {
        let graded = |task: f64, efficiency: f64| Graded {
            mode: Some(Mode::Single),
            task: Some(task),
            efficiency: Some(efficiency),
        };
        let alike = vec![graded(0.50, 0.50), graded(0.51, 0.51)];
        let apart = vec![graded(0.0, 0.0), graded(1.0, 1.0)];
        // All right, at other costs: it says nothing of how much right and wrong differ.
        let flat = vec![graded(1.0, 0.7), graded(1.0, 0.9)];
        let over = Some(pooled(&[alike.clone(), apart.clone(), flat.clone()]));
        assert_eq!(pooled(&[flat]), 1.0, "no group differs");
        let of = |group: &[Graded], pooled| {
            advantages(group, AdvantageSettings { alpha: 1.0, plain: false, pooled })[1].unwrap().inner
        };
        assert!((of(&alike, None) - of(&apart, None)).abs() < 1e-3, "each by its own deviation");
        assert!((of(&apart, over) / of(&alike, over) - 100.0).abs() < 1e-6);
        assert!((of(&apart, over) - 1.0).abs() < 1e-3, "(.5^2 * 2 + .005^2 * 2) / 2 is nearly .5^2");
    }

    proptest! {
        #[test]
        fn mode_and_inner_are_parts_of_grpo(rewards in prop::collection::vec((-1.0..1.0_f64, 0..3_usize), 2..12), alpha in 0.0..0.5_f64) {
            let group: Vec<Graded> = rewards.iter().map(|(reward, mode)| Graded {
                mode: Some(Mode::ALL[*mode]), task: Some(*reward), efficiency: Some(reward * 0.7),
            }).collect();
            let comet = advantages(&group, AdvantageSettings { alpha, plain: false, pooled: None });
            let grpo = advantages(&group, AdvantageSettings { alpha, plain: true, pooled: None });
            let mut sum = 0.0;
            let mut within = [0.0; 3];
            for ((comet, grpo), (_, mode)) in comet.iter().zip(&grpo).zip(&rewards) {
                let (comet, grpo) = (comet.unwrap(), grpo.unwrap());
                prop_assert!((comet.mode + comet.inner - grpo.inner).abs() < 1e-9);
                prop_assert_eq!(grpo.mode, 0.0);
                sum += comet.mode;
                within[*mode] += comet.inner;
            }
            prop_assert!(sum.abs() < 1e-8);
            prop_assert!(within.iter().all(|sum| sum.abs() < 1e-8));
        }
    }
}
