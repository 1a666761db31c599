//! The probit policy: what it believes before the first round, and what it learns of costs.

use super::*;
use crate::{
    action::policy::{PolicySettings, environment::context},
    round::{Domain, RewardWeights},
};

fn probit() -> Probit {
    Probit::new(PolicySettings::default().probit, 0.0)
}

fn dear_and_cheap() -> Context {
    let mut context = context(3);
    context.weights = RewardWeights { e1: 1.0, e2: -0.1 };
    context.candidates.iter_mut().zip([0.001, 0.004, 0.02]).for_each(|(candidate, cost)| candidate.cost_usd = cost);
    context
}

#[test]
fn a_dearer_arm_is_believed_to_be_better_until_rounds_say_otherwise() {
    let context = dear_and_cheap();
    let mut policy = probit();
    let first = policy.decide(&context, 2).unwrap();
    assert!(first.expected[0] < first.expected[1] && first.expected[1] < first.expected[2], "{first:?}");
    for _ in 0..12 {
        policy.learn(&LearntRound::new(&context, 2, 0.0));
        policy.learn(&LearntRound::new(&context, 0, 1.0));
    }
    assert!(policy.decide(&context, 2).unwrap().pmf[0] > 0.95);
}

#[test]
fn a_kind_of_task_that_is_hard_for_one_arm_is_believed_to_be_hard_for_all() {
    let (mut hard, easy) = (dear_and_cheap(), dear_and_cheap());
    hard.domain = Domain::new("hard").unwrap();
    let mut policy = probit();
    for _ in 0..10 {
        policy.learn(&LearntRound::new(&hard, 1, 0.0));
        policy.learn(&LearntRound::new(&easy, 1, 1.0));
    }
    let [hard, easy] = [&hard, &easy].map(|context| policy.decide(context, 1).unwrap().expected);
    assert!((0..3).all(|arm| hard[arm] < easy[arm]), "{hard:?} {easy:?}");
}

#[test]
fn dollars_that_were_really_spent_count_and_prices_do_until_then() {
    let mut context = dear_and_cheap();
    context.weights = RewardWeights { e1: 1.0, e2: -1.0 };
    let mut policy = probit();
    let before = policy.decide(&context, 1).unwrap().expected;
    for _ in 0..20 {
        // All solve everything; the middle one costs a hundred times what its price says.
        for place in 0..3 {
            let cost_usd = context.candidates[place].cost_usd * if place == 1 { 100.0 } else { 1.0 };
            policy.learn(&LearntRound { cost_usd, ..LearntRound::new(&context, place, 1.0) });
        }
    }
    let after = policy.decide(&context, 1).unwrap();
    assert!(after.expected[1] < after.expected[0].min(after.expected[2]) && after.pmf[1] == 0.0, "{after:?}");
    assert!(before[1] > before[0]);
}

#[test]
fn an_arm_without_a_price_and_a_text_without_words_are_no_obstacle() {
    let mut context = context(2);
    context.candidates.iter_mut().for_each(|candidate| candidate.cost_usd = 0.0);
    let mut policy = probit();
    for round in 0..30 {
        policy.learn(&LearntRound::new(&context, round % 2, (round % 2) as f64));
    }
    assert!(policy.decide(&context, 1).unwrap().pmf[1] > 0.9);
    context.text = "x".repeat(1_000_000).into();
    assert!(policy.decide(&context, 1).unwrap().expected.iter().all(|x| x.is_finite()));
}

#[test]
fn what_is_forgotten_leaves_the_prior() {
    let context = dear_and_cheap();
    let mut policy = probit();
    (0..50).for_each(|_| policy.learn(&LearntRound::new(&context, 0, 0.0)));
    let fresh = probit().decide(&context, 1).unwrap().expected;
    (0..64).for_each(|_| policy.forget(0.5));
    let again = policy.decide(&context, 1).unwrap().expected;
    assert!(fresh.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-3), "{fresh:?} {again:?}");
}
