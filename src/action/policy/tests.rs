//! Laws that every policy keeps, checked on all of them.

use proptest::prelude::*;

use super::{
    LearntRound, NAMES, Policy, PolicyError, PolicySettings, VoterSettings, build,
    classifier::tests::settings as trained,
    environment::{ARMS, Environment, assert_stated_frequencies, context},
};
use crate::{
    action::sample::{normalised, sample},
    round::{Context, Domain, Neighbour, RewardWeights, TaskId, TriedArm},
};

const SCORE_ONLY: RewardWeights = RewardWeights { e1: 1.0, e2: 0.0 };

/// Every registered policy that learns while it runs.
fn learners() -> impl Iterator<Item = &'static str> {
    let offline = ["uniform", "fixed:ARM", "classifier", "tfidf_classifier", "mode_router", "llm"];
    NAMES.into_iter().filter(move |name| !offline.contains(name))
}

fn policy(name: &str) -> Box<dyn Policy> {
    build(name, &trained(8)).unwrap()
}

fn all() -> impl Iterator<Item = (&'static str, Box<dyn Policy>)> {
    learners().chain(["uniform", "fixed:arm-1", "classifier", "tfidf_classifier"]).map(|name| (name, policy(name)))
}

fn floor(name: &str) -> f64 {
    let settings = PolicySettings::default();
    match name {
        "ensemble" => settings.ensemble.floor,
        "fixed:arm-1" => 0.0,
        _ => settings.floor,
    }
}

fn bits(policy: &dyn Policy, context: &Context) -> Vec<u64> {
    (0..5).flat_map(|seed| policy.decide(context, seed).unwrap().pmf).map(f64::to_bits).collect()
}

#[test]
fn every_learner_beats_uniform_by_a_tenth() {
    // Uniform gets .46, the best arm per domain .72, the best arm per domain and text .83.
    let uniform = Environment::new(5).run(policy("uniform").as_mut(), 2_000, SCORE_ONLY);
    for name in learners() {
        let mean = Environment::new(5).run(policy(name).as_mut(), 2_000, SCORE_ONLY);
        assert!(mean > uniform + 0.1, "{name} got {mean}, uniform {uniform}");
    }
}

#[test]
fn policies_that_see_the_text_beat_the_best_arm_per_domain() {
    for name in ["memory_knn", "knn_ucb", "lin_ucb", "lin_thompson", "square_cb", "bag"] {
        let mut environment = Environment::new(6);
        let mut policy = policy(name);
        environment.run(policy.as_mut(), 2_000, SCORE_ONLY);
        let mean = environment.run(policy.as_mut(), 1_000, SCORE_ONLY);
        assert!(mean > 0.72, "{name} got {mean}");
    }
}

#[test]
fn the_scale_of_the_reward_changes_nothing() {
    for name in learners() {
        let mean = |weights| Environment::new(7).run(policy(name).as_mut(), 300, weights).to_bits();
        let [one, many] = [SCORE_ONLY, RewardWeights { e1: 1_024.0, e2: 0.0 }].map(mean);
        assert_eq!(one, many, "{name}");
    }
}

#[test]
fn costs_alone_teach_the_cheap_arm() {
    let weights = RewardWeights { e1: 0.0, e2: -1.0 };
    let mut context = context(2);
    context.candidates[0].cost_usd = 0.002;
    context.weights = weights;
    for name in learners() {
        let mut policy = policy(name);
        for seed in 0..200 {
            let opinion = policy.decide(&context, seed).unwrap();
            let place = sample(&opinion.pmf, seed).unwrap();
            let round = LearntRound { voters: &opinion.voters, ..LearntRound::new(&context, place, 1.0) };
            policy.learn(&round);
        }
        let pmf = policy.decide(&context, 1).unwrap().pmf;
        assert!(pmf[1] > 0.8, "{name}: {pmf:?}");
    }
}

#[test]
fn stated_probabilities_match_the_frequencies_of_seeded_draws() {
    for (name, mut policy) in all() {
        let mut environment = Environment::new(8);
        if name != "fixed:arm-1" {
            environment.run(policy.as_mut(), 60, SCORE_ONLY);
        }
        let (context, _) = environment.task();
        assert_stated_frequencies(name, policy.as_ref(), &context);
    }
}

#[test]
fn the_same_rounds_give_the_same_probabilities_bit_for_bit() {
    for (name, mut first) in all().filter(|(name, _)| learners().any(|learner| learner == *name)) {
        let mut second = policy(name);
        Environment::new(9).run(first.as_mut(), 400, SCORE_ONLY);
        Environment::new(9).run(second.as_mut(), 400, SCORE_ONLY);
        let (context, _) = Environment::new(10).task();
        assert_eq!(bits(first.as_ref(), &context), bits(second.as_ref(), &context), "{name}");
    }
}

#[test]
fn a_stored_state_decides_and_learns_on_bit_for_bit() {
    for name in learners() {
        let mut first = policy(name);
        Environment::new(14).run(first.as_mut(), 300, SCORE_ONLY);
        first.forget(0.99);
        let state = serde_json::from_str(&first.state().to_string()).unwrap();
        let mut second = policy(name);
        assert!(second.restore(&state).unwrap().is_empty());
        for policy in [&mut first, &mut second] {
            Environment::new(15).run(policy.as_mut(), 100, SCORE_ONLY);
        }
        let (context, _) = Environment::new(16).task();
        assert_eq!(bits(first.as_ref(), &context), bits(second.as_ref(), &context), "{name}");
        assert!(policy(name).restore(&serde_json::json!({"rounds": "many"})).is_err(), "{name}");
    }
}

#[test]
fn learning_does_not_change_an_earlier_snapshot() {
    let mut tasks = Environment::new(11);
    let contexts: Vec<Context> = (0..12).map(|_| tasks.task().0).collect();
    let all_bits = |policy: &dyn Policy| contexts.iter().flat_map(|context| bits(policy, context)).collect::<Vec<_>>();
    for name in learners() {
        let mut policy = policy(name);
        let mut environment = Environment::new(12);
        environment.run(policy.as_mut(), 10, SCORE_ONLY);
        let snapshot = policy.snapshot();
        let before = all_bits(snapshot.as_ref());
        assert!(before == all_bits(policy.as_ref()), "{name}");
        environment.run(policy.as_mut(), 300, SCORE_ONLY);
        assert!(before == all_bits(snapshot.as_ref()), "{name}");
        assert!(before != all_bits(policy.as_ref()), "{name}");
    }
}

#[test]
fn nothing_to_choose_from_is_an_error() {
    for (name, policy) in all() {
        assert_eq!(policy.decide(&context(0), 1), Err(PolicyError::NoCandidate), "{name}");
    }
    let only = Context { candidates: context(1).candidates, ..context(0) };
    assert!(matches!(policy("fixed:arm-1").decide(&only, 1), Err(PolicyError::NotEligible(_))));
}

#[test]
fn a_score_or_a_trust_out_of_range_changes_nothing() {
    let context = context(3);
    for name in learners() {
        let mut policy = policy(name);
        let before = bits(policy.as_ref(), &context);
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1.5] {
            policy.learn(&LearntRound { voters: &[], ..LearntRound::new(&context, 0, bad) });
            policy.learn(&LearntRound { trust: bad, ..LearntRound::new(&context, 0, 0.5) });
        }
        assert_eq!(before, bits(policy.as_ref(), &context), "{name}");
    }
}

#[test]
fn a_computed_score_that_is_not_finite_is_an_error() {
    let mut settings = PolicySettings::default();
    settings.lin_ucb.alpha = f64::NAN;
    settings.domain_prior.noise = f64::NAN;
    settings.memory_knn.prior_mean = f64::INFINITY;
    settings.hybrid_linear.scale_start = f64::NAN;
    settings.hybrid_text.scale_start = f64::NAN;
    settings.shrinkage.prior_mean = f64::INFINITY;
    settings.lin_thompson.v = f64::NAN;
    settings.square_cb.gamma_scale = f64::NAN;
    settings.bag.prior_mean = f64::NAN;
    settings.hybrid_ucb.alpha = f64::NAN;
    settings.probit.scale = f64::NAN;
    for name in learners() {
        let result = build(name, &settings).unwrap().decide(&context(3), 1);
        assert!(matches!(result, Err(PolicyError::NotFinite { .. })), "{name}: {result:?}");
    }
}

#[test]
fn a_candidate_with_features_that_are_not_finite_is_left_out_and_named() {
    let mut settings = PolicySettings::default();
    settings.features.arm_scale = 1.0;
    let mut context = context(3);
    context.candidates[1].features.prior_mean = f32::NAN;
    context.candidates[1].features.recall_mass = 1.0;
    for name in ["lin_ucb", "lin_thompson"] {
        let opinion = build(name, &settings).unwrap().decide(&context, 1).unwrap();
        assert_eq!((opinion.poisoned.as_slice(), opinion.pmf[1]), (&[1][..], 0.0), "{name}");
        assert!(normalised(opinion.pmf).is_ok(), "{name}");
    }
}

#[test]
fn a_failing_voter_is_seen_without_weight_and_the_others_go_on() {
    let mut settings = PolicySettings::default();
    settings.lin_ucb.alpha = f64::NAN;
    let opinion = build("ensemble", &settings).unwrap().decide(&context(3), 1).unwrap();
    let failed = opinion.voters.iter().find(|view| view.policy == "lin_ucb").unwrap();
    assert_eq!((failed.weight, failed.pmf.len()), (0.0, 0));
    assert!((opinion.voters.iter().map(|view| view.weight).sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(normalised(opinion.pmf).is_ok());
}

#[test]
fn every_policy_can_vote() {
    let mut settings = trained(8);
    let names: Vec<&str> = all().map(|(name, _)| name).filter(|name| *name != "ensemble").collect();
    let weight = 1.0 / names.len() as f64;
    settings.voters =
        names.iter().map(|name| VoterSettings { policy: name.to_string(), weight, probing: true }).collect();
    let mut vote = build("ensemble", &settings).unwrap();
    Environment::new(17).run(vote.as_mut(), 200, SCORE_ONLY);
    let state = serde_json::from_str(&vote.state().to_string()).unwrap();
    let mut again = build("ensemble", &settings).unwrap();
    assert!(again.restore(&state).unwrap().is_empty());
    let (context, _) = Environment::new(18).task();
    assert_eq!(bits(vote.as_ref(), &context), bits(again.as_ref(), &context));
    let opinion = vote.decide(&context, 1).unwrap();
    assert!(normalised(opinion.pmf).is_ok());
    for (view, name) in opinion.voters.into_iter().zip(names) {
        assert!(name.starts_with(&view.policy) && view.weight > 0.0);
        assert!(normalised(view.pmf).is_ok(), "{name}");
    }
}

#[test]
fn the_vote_moves_to_the_voter_that_earns_more() {
    let mut settings = PolicySettings::default();
    settings.voters.truncate(2);
    settings.voters[0].policy = "fixed:arm-0".into();
    settings.voters[1].policy = "fixed:arm-3".into();
    settings.voters.iter_mut().for_each(|voter| voter.weight = 0.5);
    let mut ensemble = build("ensemble", &settings).unwrap();
    Environment::new(13).run(ensemble.as_mut(), 2_000, SCORE_ONLY);
    let weight = |domain: &str| ensemble.voter_weights(&Domain::new(domain).unwrap())[0].1;
    // Arm 0 is better in the first domain, arm 3 in the other two; a domain never seen starts even.
    assert!(weight("domain-0") > 0.8 && weight("domain-1") < 0.3 && weight("domain-2") < 0.3);
    assert_eq!(weight("never-seen"), 0.5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_policy_states_a_distribution_over_its_candidates_above_its_floor(
        seed: u64, rounds in 0_u64..60, keep in prop::collection::vec(any::<bool>(), ARMS), new_arm: bool,
    ) {
        for (name, mut policy) in all() {
            let mut environment = Environment::new(seed);
            environment.run(policy.as_mut(), rounds, SCORE_ONLY);
            // Arms leave, and one comes that was never learnt.
            let (mut context, _) = environment.task();
            let mut kept = keep.iter();
            context.candidates.retain(|candidate| *kept.next().unwrap() || candidate.arm.as_str() == "arm-1");
            if new_arm {
                context.candidates.push(super::environment::context(ARMS + 1).candidates.pop().unwrap());
            }
            let pmf = policy.decide(&context, seed).unwrap().pmf;
            prop_assert_eq!(pmf.len(), context.candidates.len());
            let least = floor(name) / pmf.len() as f64 - 1e-12;
            prop_assert!(pmf.iter().all(|p| *p >= least), "{} {:?}", name, pmf);
            prop_assert!(normalised(pmf).is_ok());
        }
    }
}

/// An expert of what was probed, and a voter that starts cold.
const WARM: &str = r#"
voters = [{ policy = "memory_knn", weight = 0.9 }, { policy = "domain_prior", weight = 0.1, probing = false }]
[memory_knn]
mass_min = 2.0
"#;

#[test]
fn a_voter_that_abstains_leaves_the_vote_to_the_others() {
    let settings = PolicySettings::parse(WARM).unwrap();
    let ensemble = build("ensemble", &settings).unwrap();
    let context = context(3);
    assert!(matches!(
        build("memory_knn", &settings).unwrap().decide(&context, 1),
        Err(PolicyError::Abstains { policy: "memory_knn", .. })
    ));
    let weights = |context: &Context| -> Vec<f64> {
        ensemble.decide(context, 1).unwrap().voters.iter().map(|voter| voter.weight).collect()
    };
    assert_eq!(weights(&context), [0.0, 1.0]);
    let mut near = context.clone();
    near.neighbours = (0..3).map(|seq| neighbour(&context, seq)).collect();
    assert!(weights(&near).iter().zip([0.9, 0.1]).all(|(weight, expected)| (weight - expected).abs() < 1e-9));
}

/// A past task just like this one on which every arm was tried; the first one failed, the others did not.
fn neighbour(context: &Context, seq: u64) -> Neighbour {
    let tried = |(place, candidate): (usize, &crate::round::Candidate)| TriedArm {
        mode: candidate.mode,
        arm: candidate.arm.clone(),
        score: if place == 0 { 0.0 } else { 1.0 },
        cost_usd: 0.001,
        trace: String::new(),
    };
    let outcomes = context.candidates.iter().enumerate().map(tried).collect();
    Neighbour { seq, task_id: TaskId::new("past").unwrap(), similarity: 1.0, domain: None, outcomes }
}

#[test]
fn of_a_probing_set_only_those_voters_learn_that_are_told_to() {
    let settings = PolicySettings::parse(WARM).unwrap();
    let context = context(3);
    let state = |probing| {
        let mut ensemble = build("ensemble", &settings).unwrap();
        ensemble.learn(&LearntRound { probing, ..LearntRound::new(&context, 1, 1.0) });
        let state = ensemble.state();
        [0, 1].map(|voter| state["voters"][voter][1]["rounds"].as_u64().unwrap())
    };
    assert_eq!((state(true), state(false)), ([1, 0], [1, 1]));
}

#[test]
fn own_picks_can_count_less_than_tasks_on_which_every_arm_was_tried() {
    let mut context = context(3);
    context.neighbours = (0..5).map(|seq| neighbour(&context, seq)).collect();
    for seq in 5..10 {
        let mut picked = neighbour(&context, seq);
        picked.outcomes.truncate(1);
        picked.outcomes[0].score = 1.0;
        context.neighbours.push(picked);
    }
    let first = |picked: &str| {
        let settings = PolicySettings::parse(&format!("[memory_knn]\npicked = {picked}")).unwrap();
        build("memory_knn", &settings).unwrap().decide(&context, 1).unwrap().expected[0]
    };
    assert!(first("0.0") < first("0.5") && first("0.5") < first("1.0"));
}
