use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::round::{DecisionId, Domain, Message, RewardWeights, Task, TaskId, VerdictStatus};

#[derive(Deserialize)]
struct Golden {
    task: GoldenTask,
    response: String,
    /// How often the response is repeated, to make long ones.
    #[serde(default = "once")]
    repeat: usize,
    #[serde(default)]
    config: String,
    expect: Expect,
}

fn once() -> usize {
    1
}

#[derive(Deserialize)]
struct GoldenTask {
    id: String,
    domain: String,
    prompt: String,
    metadata: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expect {
    Score { score: f64, tolerance: f64 },
    Error { error: String },
}

fn task(prompt: &str, metadata: Value) -> Task {
    Task {
        id: TaskId::new("t").unwrap(),
        domain: Domain::new("math").unwrap(),
        messages: vec![Message { role: "user".into(), content: prompt.into() }],
        metadata: metadata.as_object().cloned().unwrap_or_default(),
        constraints: Default::default(),
        reward: None,
        session: None,
        tenant: None,
        idempotency_key: None,
    }
}

fn sandbox(limits: SandboxLimits) -> Arc<Sandbox> {
    Arc::new(Sandbox::new(limits, None).unwrap())
}

async fn runs_its_golden_tasks(name: &str, lines: &str) {
    let sandbox = sandbox(SandboxLimits::default());
    let compiled = Arc::new(sandbox.compile(first_party(name).unwrap()).unwrap());
    assert_eq!(compiled.name, name);
    let mut checked = 0;
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let golden: Golden = serde_json::from_str(line).unwrap();
        let mut task = task(&golden.task.prompt, golden.task.metadata);
        task.id = TaskId::new(&golden.task.id).unwrap();
        task.domain = Domain::new(&golden.task.domain).unwrap();
        let response = golden.response.repeat(golden.repeat);
        let verified = sandbox.verify(&compiled, &task, &response, &golden.config).await;
        match golden.expect {
            Expect::Score { score, tolerance } => {
                assert_eq!(verified.status, VerdictStatus::Scored, "{line}: {verified:?}");
                let got = verified.score.unwrap();
                assert!((got - score).abs() <= tolerance, "{line}: got {got}");
            }
            Expect::Error { error } => {
                let expected = match error.as_str() {
                    "not-applicable" => VerdictStatus::NotApplicable,
                    "invalid-task" => VerdictStatus::InvalidTask,
                    "internal" => VerdictStatus::Error,
                    other => panic!("{other} is no expected error"),
                };
                assert_eq!(verified.status, expected, "{line}: {verified:?}");
            }
        }
        checked += 1;
    }
    assert!(checked >= 12, "{name}: {checked} golden tasks");
}

#[tokio::test]
async fn rules_runs_its_golden_tasks() {
    runs_its_golden_tasks("rules", include_str!("../../../verifiers/rules/golden.jsonl")).await;
}

#[tokio::test]
async fn json_runs_its_golden_tasks() {
    runs_its_golden_tasks("json", include_str!("../../../verifiers/json/golden.jsonl")).await;
}

#[tokio::test]
async fn answer_runs_its_golden_tasks() {
    runs_its_golden_tasks("answer", include_str!("../../../verifiers/answer/golden.jsonl")).await;
}

#[tokio::test]
async fn the_same_check_uses_the_same_fuel() {
    let sandbox = sandbox(SandboxLimits::default());
    let compiled = Arc::new(sandbox.compile(first_party("answer").unwrap()).unwrap());
    let task = task("1 + 1?", serde_json::json!({"reference": 2}));
    let first = sandbox.verify(&compiled, &task, "The answer is 2.", "").await;
    let second = sandbox.verify(&compiled, &task, "The answer is 2.", "").await;
    assert_eq!(first.score, Some(1.0));
    assert!(first.fuel > 0);
    assert_eq!(first.fuel, second.fuel);
}

#[tokio::test]
async fn running_out_of_fuel_or_memory_is_a_verdict_not_a_crash() {
    let starved = sandbox(SandboxLimits { fuel: 200_000, ..SandboxLimits::default() });
    let compiled = Arc::new(starved.compile(first_party("rules").unwrap()).unwrap());
    let task = task("Say something.", Value::Null);
    let long = "word ".repeat(200_000);
    let verified = starved.verify(&compiled, &task, &long, "").await;
    assert_eq!(verified.status, VerdictStatus::LimitExceeded, "{verified:?}");

    let narrow = sandbox(SandboxLimits { memory_bytes: 2 << 20, ..SandboxLimits::default() });
    let compiled = Arc::new(narrow.compile(first_party("rules").unwrap()).unwrap());
    let verified = narrow.verify(&compiled, &task, &"x".repeat(8 << 20), "").await;
    assert_eq!(verified.status, VerdictStatus::LimitExceeded, "{verified:?}");
}

#[test]
fn what_is_no_verifier_is_refused_with_a_reason() {
    let sandbox = sandbox(SandboxLimits::default());
    let whole = first_party("rules").unwrap();
    let empty_module = b"\0asm\x01\0\0\0";
    let empty_component = b"\0asm\x0d\0\x01\0";
    for bytes in [b"not wasm".as_slice(), &whole[..whole.len() / 2], empty_module, empty_component, b""] {
        assert!(matches!(sandbox.compile(bytes), Err(SandboxError::NotAVerifier(_))));
    }
}

#[tokio::test]
async fn a_domain_without_a_set_of_its_own_has_the_default_one() {
    let spec = |name: &str, weight, gate| VerifierSpec {
        name: name.into(),
        component: None,
        weight,
        gate,
        config: "{}".into(),
    };
    let default = [spec("answer", 0.8, true), spec("json", 0.8, true), spec("rules", 0.2, false)];
    let own = [(Domain::new("own").unwrap(), vec![spec("rules", 1.0, false)])].into();
    let registry = Registry::load(sandbox(SandboxLimits::default()), &default, &own).unwrap();
    let mut task = task("2 + 2?", serde_json::json!({"reference": 4}));
    let weights = RewardWeights::default();
    let id = DecisionId::from(1);
    let wrong = registry.judge(id, &task, "The answer is 5.", 0.01, weights).await;
    assert_eq!(wrong.score.unwrap().get(), 0.0);
    let right = registry.judge(id, &task, "The answer is 4.", 0.01, weights).await;
    assert!(right.score.unwrap().get() > 0.9);
    assert_eq!(right.verdicts.len(), 3);
    assert!((right.reward.unwrap() - (right.score.unwrap().get() - 0.001)).abs() < 1e-12);
    task.domain = Domain::new("own").unwrap();
    assert_eq!(registry.judge(id, &task, "The answer is 5.", 0.0, weights).await.verdicts.len(), 1);
    assert!(matches!(
        Registry::load(sandbox(SandboxLimits::default()), &[spec("magic", 1.0, false)], &Default::default()),
        Err(RegistryError::Unknown(name)) if name == "magic"
    ));
}
