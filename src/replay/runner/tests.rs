//! A replay of a small made-up dataset.

use super::*;
use crate::{
    action::policy::{PolicySettings, build},
    replay::{DatasetTask, Model, TaskResult, baselines},
    round::{ArmId, Domain, TaskId},
};

/// Two domains, each with its own arm that always solves it; the third arm never does.
fn dataset() -> (Dataset, Vec<Embedding>) {
    let model = |name| Model { arm: ArmId::new(name).unwrap(), input_per_1m: 1.0, output_per_1m: 1.0 };
    let task = |number: usize| DatasetTask {
        id: TaskId::new(format!("t{number}")).unwrap(),
        split: "test".into(),
        domain: Domain::new(["math", "code"][number % 2]).unwrap(),
        source: "made up".into(),
        prompt: Some("a prompt".into()),
        metadata: Default::default(),
        results: (0..3)
            .map(|arm| TaskResult { score: if arm == number % 2 { 1.0 } else { 0.0 }, cost_usd: 0.001, measured: true })
            .collect(),
    };
    let dataset = Dataset {
        name: "made-up".into(),
        split: None,
        models: ["a", "b", "c"].map(model).to_vec(),
        tasks: (0..400).map(task).collect(),
        without_prompt: 0,
        unmeasured: 0,
        warnings: Vec::new(),
    };
    let embedding = |number: usize| Embedding::new(vec![1.0, (number % 2) as f32, (number % 7) as f32]).unwrap();
    (dataset, (0..400).map(embedding).collect())
}

fn replay(policy: &str, seeds: u64) -> Result<PolicyReport, ReplayError> {
    let (dataset, embeddings) = dataset();
    let factory = || build(policy, &PolicySettings::default()).unwrap();
    run(&dataset, &embeddings, &factory, &ReplayOptions::new(policy, seeds), &|_| {})
}

#[test]
fn a_replay_repeats_bit_for_bit_and_learns() {
    for policy in ["lin_ucb", "memory_knn", "domain_prior", "hybrid_linear", "ensemble"] {
        let reports = [(); 2].map(|()| PolicyReport { seconds: 0.0, ..replay(policy, 3).unwrap() });
        assert_eq!(reports[0], reports[1]);
        let random = baselines::random(&dataset().0, RewardWeights::default());
        assert!(reports[0].cum_regret < 0.5 * random.cum_regret, "{policy}: {}", reports[0].cum_regret);
        assert!((reports[0].share_by_arm.values().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_fixed_arm_gets_exactly_what_its_baseline_says() {
    let replayed = PolicyReport { seconds: 0.0, ..replay("fixed:b", 2).unwrap() };
    let baseline = &baselines::always(&dataset().0, RewardWeights::default())[1];
    assert!((replayed.cum_regret - baseline.cum_regret).abs() < 1e-9);
    assert_eq!((replayed.n, &replayed.policy, &replayed.share_by_arm), (400, &baseline.policy, &baseline.share_by_arm));
    assert_eq!(baselines::oracle(&dataset().0, RewardWeights::default()).cum_regret, 0.0);
    assert_eq!(baselines::domain_best(&dataset().0, RewardWeights::default()).cum_regret, 0.0);
}

#[test]
fn a_failing_policy_ends_the_replay() {
    assert!(matches!(replay("fixed:missing", 2), Err(ReplayError::Policy { round: 0, .. })));
    assert!(matches!(replay("uniform", 0), Err(ReplayError::NoSeed)));
    let (dataset, _) = dataset();
    let factory = || build("uniform", &PolicySettings::default()).unwrap();
    let result = run(&dataset, &[], &factory, &ReplayOptions::new("uniform", 1), &|_| {});
    assert!(matches!(result, Err(ReplayError::Embeddings { embeddings: 0, tasks: 400 })));
}

#[test]
fn the_report_has_the_promised_keys_and_no_other() {
    let json = serde_json::to_value(replay("uniform", 1).unwrap()).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "dataset",
        "split",
        "policy",
        "seeds",
        "n",
        "mean_score",
        "cum_regret",
        "cum_regret_sd",
        "total_cost_usd",
        "share_by_arm",
        "seconds",
    ];
    expected.sort_unstable();
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(keys, expected);
}
