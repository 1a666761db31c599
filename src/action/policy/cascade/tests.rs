//! What cascades promise: distributions over what is left, stopping, and learning in a seeded world.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::*;
use crate::{
    action::{
        policy::{PolicySettings, build, environment::context},
        sample::{normalised, sample},
    },
    round::RewardWeights,
};

fn all() -> Vec<Box<dyn Cascade>> {
    let settings = PolicySettings::default();
    let escalating = ["uniform", "domain_prior", "ensemble"].map(|name| build(name, &settings).unwrap());
    let escalating = escalating.into_iter().map(|policy| Box::new(Escalate::new(policy)) as Box<dyn Cascade>);
    escalating.chain([settings.cascade()]).collect()
}

fn attempt(place: usize, score: f64, cost_usd: f64) -> Attempt {
    Attempt { place, propensity: 0.5, seed: 1, voters: vec![], score, cost_usd }
}

/// Runs tasks of a hidden difficulty on arms of stated strength and cost; the mean reward and attempts of the last half.
fn play(cascade: &mut dyn Cascade, strengths: &[f64], costs: &[f64], tasks: u64) -> (f64, f64) {
    let mut context = context(strengths.len());
    context.text = "a task of usual length".into();
    context.candidates.iter_mut().zip(costs).for_each(|(candidate, cost)| candidate.cost_usd = *cost);
    context.weights = RewardWeights { e1: 1.0, e2: -1.0 };
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut reward, mut made) = (0.0, 0.0);
    for task in 0..tasks {
        let difficulty: f64 = rng.random();
        let mut attempts: Vec<Attempt> = vec![];
        loop {
            let seed = rng.random();
            let NextStep { mut pmf, stop, .. } = cascade.next(&context, &attempts, seed).unwrap();
            assert!(attempts.iter().all(|tried| pmf[tried.place] == 0.0));
            pmf.push(stop);
            let pmf = normalised(pmf).unwrap();
            let place = sample(&pmf, seed).unwrap();
            if place == strengths.len() {
                break;
            }
            let score = if strengths[place] > difficulty { 1.0 } else { 0.0 };
            attempts.push(attempt(place, score, costs[place]));
        }
        cascade.learn(&context, &attempts);
        if task >= tasks / 2 {
            let spent: f64 = attempts.iter().map(|attempt| attempt.cost_usd).sum();
            reward += best_score(&attempts) - spent;
            made += attempts.len() as f64;
        }
    }
    let half = (tasks - tasks / 2) as f64;
    (reward / half, made / half)
}

#[test]
fn nothing_is_tried_twice_a_right_answer_ends_it_and_the_first_attempt_is_made() {
    let context = context(3);
    for cascade in all() {
        let name = cascade.name();
        let first = cascade.next(&context, &[], 3).unwrap();
        assert_eq!((first.stop, first.pmf.len()), (0.0, 3), "{name}");
        assert!((first.pmf.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name}");
        assert_eq!(cascade.next(&context, &[attempt(1, 1.0, 0.001)], 3).unwrap().stop, 1.0, "{name}");
        let all: Vec<Attempt> = (0..3).map(|place| attempt(place, 0.0, 0.001)).collect();
        assert_eq!(cascade.next(&context, &all, 3).unwrap().stop, 1.0, "{name}");
        let mut dear = context.clone();
        dear.candidates.iter_mut().for_each(|candidate| candidate.cost_usd = 1e6);
        assert_eq!(cascade.next(&dear, &[], 3).unwrap().stop, 0.0, "{name}: somebody has to answer");
    }
}

#[test]
fn it_starts_with_the_cheap_arm_and_escalates_only_where_that_pays() {
    // The cheap arm solves six tasks of ten; the dear one all of those and two more, for what one more is worth.
    let mut cascade = PolicySettings::default().cascade();
    let (reward, made) = play(cascade.as_mut(), &[0.6, 0.8], &[0.01, 0.1], 400);
    // Cheap alone: .59. Dear alone: .7. Cheap, then dear where that failed: .8 - .01 - .4 * .1 = .75.
    assert!(reward > 0.70 && (1.2..1.55).contains(&made), "{reward} in {made}");
    // Where the dear one costs more than what it adds, it is left alone.
    let mut cascade = PolicySettings::default().cascade();
    let (reward, made) = play(cascade.as_mut(), &[0.6, 0.62], &[0.01, 0.5], 400);
    assert!(reward > 0.5 && made < 1.15, "{reward} in {made}");
}

#[test]
fn failures_on_a_task_lower_what_is_expected_of_the_others_on_that_task_alone() {
    let mut cascade = PolicySettings::default().cascade();
    let mut context = context(4);
    context.weights = RewardWeights { e1: 1.0, e2: -1.0 };
    context.candidates.iter_mut().for_each(|candidate| candidate.cost_usd = 0.2);
    for _ in 0..30 {
        cascade.learn(&context, &[attempt(0, 1.0, 0.2), attempt(1, 1.0, 0.2)]);
        cascade.learn(&context, &[attempt(2, 0.0, 0.2), attempt(3, 0.0, 0.2)]);
    }
    let failed: Vec<Attempt> = (0..3).map(|place| attempt(place, 0.0, 0.2)).collect();
    assert_eq!(cascade.next(&context, &failed, 1).unwrap().stop, 1.0);
    assert_eq!(cascade.next(&context, &[], 1).unwrap().stop, 0.0);
}

#[test]
fn what_one_arm_spent_on_a_task_says_what_the_next_one_will() {
    let mut cascade = PolicySettings::default().cascade();
    let mut context = context(2);
    context.weights = RewardWeights { e1: 1.0, e2: -10.0 };
    context.candidates.iter_mut().for_each(|candidate| candidate.cost_usd = 0.01);
    // Both cost what they state, tenfold on every third task.
    for task in 0..60 {
        let cost = if task % 3 == 0 { 0.1 } else { 0.01 };
        cascade.learn(&context, &[attempt(0, 0.0, cost), attempt(1, 1.0, cost)]);
    }
    let after = |cost| cascade.next(&context, &[attempt(0, 0.0, cost)], 1).unwrap().stop;
    assert_eq!((after(0.01), after(1.0)), (0.0, 1.0));
}

#[test]
fn a_state_comes_back_bit_for_bit_and_a_poisoned_arm_is_left_out() {
    let settings = PolicySettings::default();
    let mut cascade = settings.cascade();
    play(cascade.as_mut(), &[0.5, 0.7, 0.9], &[0.01, 0.02, 0.05], 40);
    let mut again = settings.cascade();
    let text = cascade.state().to_string();
    assert_eq!(again.restore(&serde_json::from_str(&text).unwrap()).unwrap(), []);
    assert_eq!(again.state().to_string(), text);
    let mut state = cascade.state();
    let arm = context(3).candidates[1].arm.clone();
    let effects = state["model"]["effects"].as_array().unwrap();
    let place = effects.iter().position(|effect| effect["Arm"][1] == json!(arm)).unwrap();
    state["model"]["mean"][place] = json!(null);
    let poisoned = again.restore(&state).unwrap();
    assert_eq!(poisoned.into_iter().map(|(_, arm)| arm).collect::<Vec<_>>(), [arm]);
    assert!(again.restore(&json!({"model": 1})).is_err());
}

proptest! {
    #[test]
    fn every_step_is_a_distribution_over_what_is_left_and_the_end(
        scores in prop::collection::vec(0.0_f64..0.9, 0..4),
        costs in prop::collection::vec(0.0_f64..3.0, 4),
        seed: u64,
    ) {
        let mut context = context(4);
        context.candidates.iter_mut().zip(&costs).for_each(|(candidate, cost)| candidate.cost_usd = *cost);
        let attempts: Vec<Attempt> =
            scores.iter().enumerate().map(|(place, score)| attempt(place, *score, costs[place])).collect();
        for mut cascade in all() {
            for _ in 0..2 {
                let step = cascade.next(&context, &attempts, seed).unwrap();
                prop_assert!((step.pmf.iter().sum::<f64>() + step.stop - 1.0).abs() < 1e-9);
                prop_assert!(step.pmf.iter().all(|p| (0.0..=1.0).contains(p)));
                prop_assert!(attempts.iter().all(|attempt| step.pmf[attempt.place] == 0.0));
                prop_assert!(step.stop == 0.0 || !attempts.is_empty());
                prop_assert_eq!(&step, &cascade.next(&context, &attempts, seed).unwrap());
                cascade.learn(&context, &attempts);
            }
        }
    }
}
