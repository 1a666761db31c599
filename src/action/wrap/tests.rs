//! What wrappers promise, on seeded environments.

use serde_json::json;

use crate::{
    action::{
        policy::{
            LearntRound, Policy, PolicySettings, build,
            environment::{Environment, assert_stated_frequencies, context},
        },
        sample::sample,
    },
    round::{ArmId, Candidate, Context, Mode, RewardWeights, Taken},
};

const SCORE_ONLY: RewardWeights = RewardWeights { e1: 1.0, e2: 0.0 };

fn wrapped(name: &str, card: &str) -> Box<dyn Policy> {
    build(name, &PolicySettings::parse(card).unwrap()).unwrap()
}

/// Runs `rounds` of two or more arms with stated success and cost; the mean cost and the share of each arm.
fn play(policy: &mut dyn Policy, context: &Context, success: &[f64], rounds: std::ops::Range<u64>) -> (f64, Vec<f64>) {
    let (mut spent, mut shares) = (0.0, vec![0.0; success.len()]);
    let number = (rounds.end - rounds.start) as f64;
    for round in rounds {
        let seed = round.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 77;
        let opinion = policy.decide(context, seed).unwrap();
        let place = sample(&opinion.pmf, seed).unwrap();
        let uniform = (seed >> 11) as f64 / (1_u64 << 53) as f64;
        let score = if uniform < success[place] { 1.0 } else { 0.0 };
        let voters = &opinion.voters;
        let propensity = opinion.pmf[place];
        policy.learn(&LearntRound { propensity, seed, voters, ..LearntRound::new(context, place, score) });
        spent += context.candidates[place].cost_usd;
        shares[place] += 1.0 / number;
    }
    (spent / number, shares)
}

fn priced(costs: &[f64]) -> Context {
    let mut context = context(costs.len());
    context.candidates.iter_mut().zip(costs).for_each(|(candidate, cost)| candidate.cost_usd = *cost);
    context.weights = SCORE_ONLY;
    context
}

#[test]
fn the_budget_is_met_within_two_per_cent_over_5_000_tasks() {
    let context = priced(&[0.001, 0.004, 0.01]);
    for name in ["ensemble", "lin_ucb", "hybrid_linear", "domain_prior"] {
        for target in [0.002, 0.0055] {
            let card = format!("[budget]\nusd_per_task = {target}");
            let mut policy = wrapped(&format!("budget:{name}"), &card);
            let (spent, shares) = play(policy.as_mut(), &context, &[0.3, 0.6, 0.9], 0..5_000);
            assert!((spent / target - 1.0).abs() <= 0.02, "{name}: {spent} for a target of {target}; {shares:?}");
        }
    }
}

#[test]
fn a_budget_that_is_not_needed_changes_nothing() {
    let context = priced(&[0.001, 0.004]);
    let mut paced = wrapped("budget:domain_prior", "[budget]\nusd_per_task = 0.01");
    let mut free = wrapped("domain_prior", "");
    let success = [0.2, 0.8];
    assert_eq!(play(paced.as_mut(), &context, &success, 0..500), play(free.as_mut(), &context, &success, 0..500));
}

#[test]
fn money_spent_without_a_score_is_paced_too() {
    let context = priced(&[0.001, 0.01]);
    let mut policy = wrapped("budget:domain_prior", "[budget]\nusd_per_task = 0.002");
    play(policy.as_mut(), &context, &[0.2, 0.9], 0..50);
    let before = policy.decide(&context, 1).unwrap().expected;
    policy.charge(0.01);
    let after = policy.decide(&context, 1).unwrap().expected;
    assert!(after[1] - after[0] < before[1] - before[0], "{before:?} {after:?}");
}

#[test]
fn a_discounted_policy_follows_arms_that_swap_their_quality() {
    // Regret against the better arm, before and after the swap. Without forgetting the second half is lost.
    let context = priced(&[0.001; 4]);
    let regret = |policy: &mut dyn Policy| {
        let half = |policy: &mut dyn Policy, success: &[f64; 4], rounds| {
            let (_, shares) = play(policy, &context, success, rounds);
            shares.iter().zip(success).map(|(share, success)| share * (0.8 - success)).sum::<f64>() * 3_000.0
        };
        let before = half(policy, &[0.8, 0.3, 0.5, 0.4], 0..3_000);
        (before, half(policy, &[0.3, 0.8, 0.5, 0.4], 3_000..6_000))
    };
    for name in ["domain_prior", "lin_ucb", "hybrid_linear", "ensemble"] {
        let (_, kept) = regret(wrapped(name, "").as_mut());
        let (before, after) = regret(wrapped(&format!("discount:{name}"), "[discount]\nkeep = 0.98").as_mut());
        println!("{name}: {before:.1} then {after:.1}, without discount {kept:.1}");
        assert!(after < kept && after <= 1.3 * before, "{name}: {before} then {after}, without discount {kept}");
    }
}

#[test]
fn a_session_stays_unless_the_gain_is_worth_the_switch() {
    let mut context = priced(&[0.001, 0.001]);
    let card = |cost: f64| format!("[affinity]\nswitch_cost = {cost}\nfloor = 0.1");
    let taught = |cost| {
        let mut policy = wrapped("affinity:domain_prior", &card(cost));
        play(policy.as_mut(), &context, &[0.3, 0.6], 0..1_000);
        policy
    };
    let (cheap, dear) = (taught(0.05), taught(0.6));
    let free = cheap.decide(&context, 3).unwrap();
    context.last = Some(Taken { mode: Mode::Single, arm: context.candidates[0].arm.clone() });
    assert_eq!(cheap.decide(&context, 3).unwrap(), free);
    let pmf = dear.decide(&context, 3).unwrap().pmf;
    assert!((pmf[0] - 0.95).abs() < 1e-12 && (pmf[1] - 0.05).abs() < 1e-12, "{pmf:?}");
    // An arm that left cannot keep its session.
    context.candidates.remove(0);
    assert_eq!(dear.decide(&context, 3).unwrap().pmf, [1.0]);
}

#[test]
fn a_new_arm_gets_its_quota_and_no_more_and_the_others_keep_their_statistics() {
    let mut context = priced(&[0.001; 3]);
    let late = context.candidates.pop().unwrap();
    let card = "[new_arm]\nquota = 40\nshare = 0.2";
    let mut policy = wrapped("new_arm:fixed:arm-0", card);
    assert_eq!(policy.decide(&context, 1).unwrap().pmf, [1.0, 0.0]);
    play(policy.as_mut(), &context, &[0.5, 0.5], 0..200);
    assert_eq!(policy.decide(&context, 1).unwrap().pmf, [1.0, 0.0]);
    context.candidates.push(late);
    let (_, shares) = play(policy.as_mut(), &context, &[0.5; 3], 200..1_200);
    assert!((shares[2] * 1_000.0 - 40.0).abs() < 1e-9, "{shares:?}");
    assert_eq!(policy.decide(&context, 1).unwrap().pmf, [1.0, 0.0, 0.0]);
}

#[test]
fn wrapped_probabilities_match_the_frequencies_of_seeded_draws() {
    let context = priced(&[0.001, 0.004, 0.01]);
    let card = "[budget]\nusd_per_task = 0.003\n[affinity]\nswitch_cost = 0.0";
    for name in
        ["budget:ensemble", "discount:lin_ucb", "affinity:ensemble", "new_arm:ensemble", "affinity:budget:ensemble"]
    {
        let mut policy = wrapped(name, card);
        play(policy.as_mut(), &context, &[0.4, 0.5, 0.6], 0..200);
        let newcomer = Candidate::new(Mode::Single, ArmId::new("late").unwrap(), 0.001);
        let context = Context { candidates: [&context.candidates[..], &[newcomer]].concat(), ..context.clone() };
        assert_stated_frequencies(name, policy.as_ref(), &context);
    }
}

#[test]
fn a_wrapped_state_comes_back_bit_for_bit() {
    let context = priced(&[0.001, 0.004, 0.01]);
    let name = "affinity:new_arm:budget:discount:ensemble";
    let mut first = wrapped(name, "");
    play(first.as_mut(), &context, &[0.4, 0.5, 0.6], 0..300);
    let state = serde_json::from_str(&first.state().to_string()).unwrap();
    let mut second = wrapped(name, "");
    assert!(second.restore(&state).unwrap().is_empty());
    for policy in [&mut first, &mut second] {
        play(policy.as_mut(), &context, &[0.4, 0.5, 0.6], 300..400);
    }
    assert_eq!(first.decide(&context, 5), second.decide(&context, 5));
    for bad in [json!(null), json!({"wrapper": null, "inner": 3}), json!({"wrapper": [], "inner": {}})] {
        assert!(second.restore(&bad).is_err());
    }
    assert_eq!(first.decide(&context, 5), second.decide(&context, 5));
}

#[test]
fn wrappers_go_around_every_round_of_a_changing_environment() {
    let mut policy = wrapped("affinity:new_arm:discount:ensemble", "");
    let uniform = Environment::new(3).run(wrapped("uniform", "").as_mut(), 1_500, SCORE_ONLY);
    let mean = Environment::new(3).run(policy.as_mut(), 1_500, SCORE_ONLY);
    assert!(mean > uniform + 0.1, "{mean} against {uniform}");
}
