//! Replays of a small made-up dataset.

use std::sync::Arc;

use super::*;
use crate::{
    action::policy::{Escalate, Opinion, PolicySettings, build},
    replay::{Dataset, DatasetTask, Model, TaskResult, baselines, leak},
    round::{ArmId, Domain, Embedding, TaskId},
};

/// Two domains, each with its own arm that always solves it; the third arm never does.
fn dataset() -> (Dataset, Vec<Embedding>) {
    let model = |name| Model { arm: ArmId::new(name).unwrap(), input_per_1m: 1.0, output_per_1m: 1.0 };
    let result = |solved: bool| TaskResult {
        score: if solved { 1.0 } else { 0.0 },
        cost_usd: 0.001,
        measured: true,
        applied: None,
        output_tokens: None,
        latency_ms: None,
    };
    let task = |number: usize| DatasetTask {
        id: TaskId::new(format!("t{number}")).unwrap(),
        split: "test".into(),
        domain: Domain::new(["math", "code"][number % 2]).unwrap(),
        source: "made up".into(),
        prompt: Some("a prompt".into()),
        metadata: Default::default(),
        results: (0..3).map(|arm| result(arm == number % 2)).collect(),
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

fn single(policy: &str) -> Learner {
    Learner::Single(build(policy, &PolicySettings::default()).unwrap())
}

fn cascade(policy: &str) -> Learner {
    Learner::Cascade(Box::new(Escalate::new(build(policy, &PolicySettings::default()).unwrap())))
}

fn replay(learner: Learner, policy: &str, seeds: u64) -> Result<PolicyReport, ReplayError> {
    let (dataset, embeddings) = dataset();
    let prepared = Prepared::cold(&dataset, &embeddings, RECALL_K).unwrap();
    let report = run(&prepared, learner, &ReplayOptions::new(policy, seeds), &|_| {})?;
    Ok(PolicyReport { seconds: 0.0, ..report })
}

fn full() -> Scoring {
    Scoring { rule: Rule::Full, weights: RewardWeights::default() }
}

#[test]
fn a_replay_repeats_bit_for_bit_and_learns() {
    for policy in ["lin_ucb", "memory_knn", "domain_prior", "hybrid_linear", "ensemble", "costs:ensemble"] {
        let reports = [(); 2].map(|()| replay(single(policy), policy, 3).unwrap());
        assert_eq!(reports[0], reports[1]);
        let random = baselines::random(&dataset().0, full());
        assert!(reports[0].cum_regret < 0.5 * random.cum_regret, "{policy}: {}", reports[0].cum_regret);
        assert!((reports[0].share_by_arm.values().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(reports[0].attempts_mean, 1.0);
    }
}

#[test]
fn what_is_known_before_decides_the_first_rounds() {
    let (dataset, embeddings) = dataset();
    let (known, stream) = ((0..300).collect::<Vec<_>>(), (300..400).collect::<Vec<_>>());
    let part = |places: &[usize]| Dataset {
        tasks: places.iter().map(|place| dataset.tasks[*place].clone()).collect(),
        ..dataset.clone()
    };
    let vectors = |places: &[usize]| places.iter().map(|place| embeddings[*place].clone()).collect::<Vec<_>>();
    let (before, before_vectors) = (part(&known), vectors(&known));
    let (after, after_vectors) = (part(&stream), vectors(&stream));
    for policy in ["domain_prior", "memory_knn", "ensemble"] {
        let options = ReplayOptions { order: Order::Released, ..ReplayOptions::new(policy, 2) };
        let warm = Prepared::warm(&after, &after_vectors, (&before, &before_vectors), full(), RECALL_K).unwrap();
        let cold = Prepared::cold(&after, &after_vectors, RECALL_K).unwrap();
        let [warm, cold] = [warm, cold].map(|prepared| run(&prepared, single(policy), &options, &|_| {}).unwrap());
        assert!(warm.cum_regret < 0.3 * cold.cum_regret, "{policy}: {} {}", warm.cum_regret, cold.cum_regret);
        assert_eq!((warm.warm.as_slice(), cold.warm.len()), (["test".to_owned()].as_slice(), 0));
    }
}

#[test]
fn a_fixed_arm_gets_exactly_what_its_baseline_says() {
    let replayed = replay(single("fixed:b"), "fixed:b", 2).unwrap();
    let baseline = &baselines::always(&dataset().0, full())[1];
    assert!((replayed.cum_regret - baseline.cum_regret).abs() < 1e-9);
    assert_eq!((replayed.n, &replayed.policy, &replayed.share_by_arm), (400, &baseline.policy, &baseline.share_by_arm));
    assert_eq!(baselines::oracle(&dataset().0, full()).cum_regret, 0.0);
    assert_eq!(baselines::domain_best(&dataset().0, full()).cum_regret, 0.0);
    let half = &replayed.domains[&Domain::new("math").unwrap()];
    assert_eq!((half.n, half.mean_score), (200, 0.0));
    assert_eq!(replayed.curve.last().map(|(round, _)| *round), Some(400));
    assert!((replayed.curve.last().unwrap().1 - replayed.cum_regret).abs() < 1e-9 && replayed.curve.len() <= 200);
}

#[test]
fn a_cascade_pays_for_every_attempt_and_keeps_the_best() {
    let uniform = replay(cascade("uniform"), "uniform", 3).unwrap();
    assert_eq!((uniform.mean_score, uniform.protocol), (1.0, Protocol::Cascade));
    // Any order of three arms of which one is right takes two attempts on average.
    assert!((uniform.attempts_mean - 2.0).abs() < 0.1, "{}", uniform.attempts_mean);
    let spent = uniform.attempts_mean * 400.0 * 0.001;
    assert!((uniform.total_cost_usd - spent).abs() < 1e-9);
    assert!((uniform.cum_regret - 0.1 * (spent - 0.4)).abs() < 1e-9, "{}", uniform.cum_regret);
    let learning = replay(cascade("ensemble"), "ensemble", 3).unwrap();
    assert!(learning.attempts_mean < 1.5, "{}", learning.attempts_mean);
    // One arm solves each half, so a chain of both is the best one, and either order is as good.
    let (chain, best) = baselines::best_chain(&dataset().0, full()).unwrap();
    assert_eq!((chain, best.mean_score, best.attempts_mean), (vec![0, 1], 1.0, 1.5));
}

#[test]
fn a_policy_that_fails_ends_the_replay() {
    assert!(matches!(replay(single("fixed:missing"), "x", 2), Err(ReplayError::Policy { round: 0, .. })));
    assert!(matches!(replay(single("uniform"), "x", 0), Err(ReplayError::NoSeed)));
    let (dataset, _) = dataset();
    assert!(matches!(
        Prepared::cold(&dataset, &[], RECALL_K),
        Err(ReplayError::Embeddings { embeddings: 0, tasks: 400 })
    ));
    let mut other = dataset.clone();
    other.models.pop();
    let embeddings = self::dataset().1;
    let warm = Prepared::warm(&dataset, &embeddings, (&other, &embeddings), full(), RECALL_K);
    assert!(matches!(warm, Err(ReplayError::OtherModels)));
}

/// Takes the best arm of the task, which it looks up in the answers.
struct Peek {
    answers: Arc<Dataset>,
    met: usize,
}

impl Policy for Peek {
    fn name(&self) -> &'static str {
        "peek"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let best = full().best(&self.answers.tasks[self.met]).0;
        let pmf = (0..context.candidates.len()).map(|place| if place == best { 1.0 } else { 0.0 }).collect();
        Ok(Opinion { pmf, ..Opinion::default() })
    }

    fn learn(&mut self, _round: &crate::action::policy::LearntRound<'_>) {
        self.met += 1;
    }

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(Self { answers: Arc::clone(&self.answers), met: self.met })
    }
}

#[test]
fn a_planted_leak_is_found_and_honest_policies_have_none() {
    let (dataset, embeddings) = dataset();
    let options = ReplayOptions { order: Order::Released, ..ReplayOptions::new("any", 1) };
    let peek = |answers: &Dataset| {
        let answers = Arc::new(answers.clone());
        Learner::Single(Box::new(Peek { answers, met: 0 }))
    };
    let leak = leak::check(&dataset, &embeddings, None, &options, &peek).unwrap();
    let leak = leak.expect("a policy that peeks is found");
    assert!(leak.round < 10 && leak.task.as_str() == format!("t{}", leak.round), "{leak:?}");
    assert!(leak.to_string().contains("never saw"));
    for policy in ["ensemble", "costs:ensemble", "memory_knn", "lin_ucb", "hybrid_text", "uniform", "fixed:a"] {
        assert_eq!(leak::check(&dataset, &embeddings, None, &options, &|_| single(policy)).unwrap(), None, "{policy}");
        assert_eq!(leak::check(&dataset, &embeddings, None, &options, &|_| cascade(policy)).unwrap(), None, "{policy}");
    }
    let known = Some((&dataset, embeddings.as_slice()));
    assert_eq!(leak::check(&dataset, &embeddings, known, &options, &|_| single("ensemble")).unwrap(), None);
}

#[test]
fn the_report_has_the_promised_keys_and_no_other() {
    let json = serde_json::to_value(replay(single("uniform"), "uniform", 1).unwrap()).unwrap();
    let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
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
        "rule",
        "order",
        "protocol",
        "warm",
        "attempts_mean",
        "domains",
        "curve",
    ];
    expected.sort_unstable();
    keys.sort_unstable();
    assert_eq!(keys, expected);
}
