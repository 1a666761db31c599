use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::*;
use crate::round::{
    ComponentSource, DecisionId, Domain, RewardWeights, Task, TaskId, VerdictStatus, VerifierChange, VerifierName,
    VerifierPatch, VerifierSettings,
};

mod liar;

use liar::Liar;

fn task(prompt: &str, metadata: Value) -> Task {
    let metadata = metadata.as_object().cloned().unwrap_or_default();
    Task::plain(TaskId::new("t").unwrap(), Domain::new("math").unwrap(), prompt, metadata)
}

fn sandbox(limits: SandboxLimits) -> Arc<Sandbox> {
    Arc::new(Sandbox::new(limits, None).unwrap())
}

async fn runs_its_golden_tasks(name: &str, lines: &str) {
    let sandbox = sandbox(SandboxLimits::default());
    let compiled = sandbox.compile(first_party(name).unwrap()).unwrap();
    assert_eq!(compiled.manifest.name, name);
    let golden = Golden::read_all(lines).unwrap();
    assert!(golden.len() >= 12, "{name}: {} golden tasks", golden.len());
    for golden in golden {
        let task = golden.task().unwrap();
        let verified = sandbox.verify(&compiled, &task, &golden.response(), &golden.config).await;
        golden.compare(&verified).unwrap_or_else(|problem| panic!("{name}, {}: {problem}", golden.name()));
    }
}

#[tokio::test]
async fn rules_runs_its_golden_tasks() {
    runs_its_golden_tasks("rules", include_str!("../../../../verifiers/rules/golden.jsonl")).await;
}

#[tokio::test]
async fn json_runs_its_golden_tasks() {
    runs_its_golden_tasks("json", include_str!("../../../../verifiers/json/golden.jsonl")).await;
}

#[tokio::test]
async fn answer_runs_its_golden_tasks() {
    runs_its_golden_tasks("answer", include_str!("../../../../verifiers/answer/golden.jsonl")).await;
}

#[tokio::test]
async fn syntax_runs_its_golden_tasks() {
    runs_its_golden_tasks("syntax", include_str!("../../../../verifiers/syntax/golden.jsonl")).await;
}

#[tokio::test]
async fn consistency_runs_its_golden_tasks() {
    runs_its_golden_tasks("consistency", include_str!("../../../../verifiers/consistency/golden.jsonl")).await;
}

#[tokio::test]
async fn the_same_check_uses_the_same_fuel() {
    let sandbox = sandbox(SandboxLimits::default());
    let compiled = sandbox.compile(first_party("answer").unwrap()).unwrap();
    let task = task("1 + 1?", serde_json::json!({"reference": 2}));
    let first = sandbox.verify(&compiled, &task, "The answer is 2.", "").await;
    let second = sandbox.verify(&compiled, &task, "The answer is 2.", "").await;
    assert_eq!(first.score, Some(1.0));
    assert!(first.fuel > 0);
    assert_eq!(first.fuel, second.fuel);
}

#[tokio::test]
async fn running_out_of_fuel_or_memory_is_a_verdict_not_a_crash() {
    let starved = sandbox(SandboxLimits { fuel: 400_000, ..SandboxLimits::default() });
    let compiled = starved.compile(first_party("rules").unwrap()).unwrap();
    let task = task("Say something.", Value::Null);
    let long = "word ".repeat(200_000);
    let verified = starved.verify(&compiled, &task, &long, "").await;
    assert_eq!(verified.status, VerdictStatus::LimitExceeded, "{verified:?}");

    let narrow = sandbox(SandboxLimits { memory_bytes: 2 << 20, ..SandboxLimits::default() });
    let compiled = narrow.compile(first_party("rules").unwrap()).unwrap();
    let verified = narrow.verify(&compiled, &task, &"x".repeat(8 << 20), "").await;
    assert_eq!(verified.status, VerdictStatus::LimitExceeded, "{verified:?}");
}

#[test]
fn what_is_no_verifier_is_refused_with_a_reason() {
    let sandbox = sandbox(SandboxLimits { deadline_ms: 300, ..SandboxLimits::default() });
    let whole = first_party("rules").unwrap();
    let precompiled = wasmtime::Engine::default().precompile_module(b"\0asm\x01\0\0\0").unwrap();
    let imports = wat::parse_str(r#"(component (import "wasi:http/types@0.2.0" (instance)))"#).unwrap();
    let other = wat::parse_str(r#"(component (instance $i) (export "acme:other/run@1.0.0" (instance $i)))"#).unwrap();
    let other_record = wat::parse_str(
        r#"(component
            (component $c
                (core module $m (func (export "d") (result i32) i32.const 7))
                (core instance $i (instantiate $m))
                (func (export "describe") (result u32) (canon lift (core func $i "d"))))
            (instance $j (instantiate $c))
            (export "pointsman:verifier/verify@0.1.0" (instance $j)))"#,
    )
    .unwrap();
    let liar = |liar: Liar| liar.module();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", vec![], "not-wasm"),
        ("text", b"not wasm".into(), "not-wasm"),
        ("too large", vec![0; COMPONENT_BYTES_MAX + 1], "too-large"),
        ("precompiled", precompiled, "precompiled"),
        ("half a component", whole[..whole.len() / 2].into(), "malformed"),
        ("an empty core module", b"\0asm\x01\0\0\0".into(), "core-module"),
        ("an empty component", b"\0asm\x0d\0\x01\0".into(), "other-world"),
        ("another world", other, "other-world"),
        ("http", imports, "unknown-imports"),
        ("another record", other_record, "does-not-instantiate"),
        ("describe traps", liar(Liar { describe: "unreachable", ..Liar::default() }), "describe-failed"),
        ("describe loops", liar(Liar { describe: "(loop $l (br $l))", ..Liar::default() }), "describe-failed"),
        ("no name", liar(Liar { name: "", ..Liar::default() }), "bad-manifest"),
        ("a negative weight", liar(Liar { declared_weight: -1.0, ..Liar::default() }), "bad-manifest"),
        ("verify traps", liar(Liar { verify: "unreachable", ..Liar::default() }), "probe-failed"),
        ("verify loops", liar(Liar { verify: "(loop $l (br $l))", ..Liar::default() }), "probe-failed"),
        ("another signal", liar(Liar { given: "lie", ..Liar::default() }), "probe-failed"),
        ("NaN", liar(Liar { score: f64::NAN, ..Liar::default() }), "probe-failed"),
        ("a weight of NaN", liar(Liar { weight: f64::NAN, ..Liar::default() }), "probe-failed"),
    ];
    println!("{:24} {:22} what the uploader is told", "upload", "reason");
    for (what, bytes, code) in cases {
        let refusal = sandbox.compile(&bytes).err().unwrap_or_else(|| panic!("{what} was taken"));
        println!("{what:24} {:22} {refusal}", refusal.code());
        assert_eq!(refusal.code(), code, "{what}: {refusal}");
    }
}

#[tokio::test]
async fn numbers_out_of_range_are_clamped_and_never_believed() {
    let sandbox = sandbox(SandboxLimits::default());
    let task = task("?", Value::Null);
    for (score, believed) in [(1e308, 1.0), (2.0, 1.0), (-1.0, 0.0), (f64::INFINITY, 1.0), (0.25, 0.25)] {
        let compiled = sandbox.compile(&Liar { score, ..Liar::default() }.module()).unwrap();
        let verified = sandbox.verify(&compiled, &task, "", "").await;
        assert_eq!((verified.status, verified.score), (VerdictStatus::Scored, Some(believed)), "{score}");
    }
    // The largest weights do not overflow into infinity over infinity.
    let heavy = sandbox.compile(&Liar { weight: f64::MAX, ..Liar::default() }.module()).unwrap();
    assert_eq!(sandbox.verify(&heavy, &task, "", "").await.score, Some(0.5));
}

#[tokio::test]
async fn what_traps_later_is_an_error_and_what_loops_later_overruns() {
    let limits = SandboxLimits { deadline_ms: 300, ..SandboxLimits::default() };
    let sandbox = sandbox(limits);
    // Only answers longer than the probe's, so that it is taken.
    let later =
        |what: &str| -> &'static str { format!("(if (i32.gt_u (local.get 9) (i32.const 100)) (then {what}))").leak() };
    let long = "x".repeat(1_000);
    for (what, status) in [
        ("unreachable", VerdictStatus::Error),
        ("(loop $l (br $l))", VerdictStatus::LimitExceeded),
        ("(loop $l (drop (memory.grow (i32.const 100))) (br $l))", VerdictStatus::LimitExceeded),
    ] {
        let compiled = sandbox.compile(&Liar { verify: later(what), ..Liar::default() }.module()).unwrap();
        let started = std::time::Instant::now();
        let verified = sandbox.verify(&compiled, &task("?", Value::Null), &long, "").await;
        assert_eq!(verified.status, status, "{what}: {verified:?}");
        assert!(started.elapsed() < Duration::from_secs(20), "{what} was not stopped");
        assert_eq!(sandbox.verify(&compiled, &task("?", Value::Null), "short", "").await.score, Some(0.5), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_that_wait_for_a_place_are_counted_and_all_get_theirs() {
    let sandbox = sandbox(SandboxLimits { concurrency: 1, queue_max: 1, ..SandboxLimits::default() });
    let verify = "(if (i32.gt_u (local.get 9) (i32.const 100)) (then (loop $l (br $l))))";
    let compiled = Arc::new(sandbox.compile(&Liar { verify, ..Liar::default() }.module()).unwrap());
    assert!(!sandbox.is_overloaded());
    let running: Vec<_> = (0..4)
        .map(|_| {
            let (sandbox, compiled) = (Arc::clone(&sandbox), Arc::clone(&compiled));
            tokio::spawn(async move {
                sandbox.verify(&compiled, &task("?", Value::Null), &"x".repeat(1_000), "").await.status
            })
        })
        .collect();
    // Each of them spends all its fuel, so that the others wait meanwhile.
    while !sandbox.is_overloaded() {
        tokio::task::yield_now().await;
    }
    for running in running {
        assert_eq!(running.await.unwrap(), VerdictStatus::LimitExceeded);
    }
    assert_eq!(sandbox.backlog(), 0);
}

fn name(name: &str) -> VerifierName {
    VerifierName::new(name).unwrap()
}

fn spec(verifier: &str, weight: f64, gate: bool) -> VerifierSpec {
    let settings = VerifierSettings { gate, ..VerifierSettings::of_weight(weight) };
    VerifierSpec { name: name(verifier), component: None, settings }
}

struct Bench {
    registry: Registry,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(default: &[VerifierSpec], own: &[(&str, Vec<VerifierSpec>)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let registry = Self::load(&folder, default, own).unwrap();
        Self { registry, folder }
    }

    fn load(
        folder: &tempfile::TempDir,
        default: &[VerifierSpec],
        own: &[(&str, Vec<VerifierSpec>)],
    ) -> Result<Registry, RegistryError> {
        let own = own.iter().map(|(domain, set)| (Domain::new(domain).unwrap(), set.clone())).collect();
        Registry::load(
            sandbox(SandboxLimits::default()),
            Components::new(folder.path().into(), folder.path().join("built")),
            default,
            &own,
        )
    }

    fn put(&self, key: &SetKey, verifier: &str, bytes: &[u8], patch: &VerifierPatch) -> VerifierChange {
        let taken = self.registry.take_in(&name(verifier), bytes).unwrap();
        let version = self.registry.version_of(&taken, patch.over(&VerifierSettings::of_weight(1.0)), 1);
        let change = VerifierChange::Put(version);
        self.registry.put_in_place(self.registry.prepare(key, &name(verifier), change.clone(), Some(taken)).unwrap());
        change
    }

    async fn score(&self, domain: &str, answer: &str) -> Option<f64> {
        let mut task = task("2 + 2?", serde_json::json!({"reference": 4}));
        task.domain = Domain::new(domain).unwrap();
        self.registry.judgement(&task, answer).await.score.map(|score| score.get())
    }
}

fn liar(score: f64) -> Vec<u8> {
    Liar { score, ..Liar::default() }.module()
}

#[tokio::test]
async fn a_domain_without_a_set_of_its_own_has_the_default_one() {
    let default = [spec("answer", 0.8, true), spec("json", 0.8, true), spec("rules", 0.2, false)];
    let bench = Bench::new(&default, &[("own", vec![spec("rules", 1.0, false)])]);
    let mut task = task("2 + 2?", serde_json::json!({"reference": 4}));
    let weights = RewardWeights::default();
    let id = DecisionId::from(1);
    let wrong = bench.registry.judge(id, &task, "The answer is 5.", 0.01, weights).await;
    assert_eq!(wrong.score.unwrap().get(), 0.0);
    let right = bench.registry.judge(id, &task, "The answer is 4.", 0.01, weights).await;
    assert!(right.score.unwrap().get() > 0.9);
    assert_eq!(right.verdicts.len(), 3);
    assert!((right.reward.unwrap() - (right.score.unwrap().get() - 0.001)).abs() < 1e-12);
    task.domain = Domain::new("own").unwrap();
    assert_eq!(bench.registry.judge(id, &task, "The answer is 5.", 0.0, weights).await.verdicts.len(), 1);
    let unknown = Bench::load(&bench.folder, &[spec("magic", 1.0, false)], &[]).err().unwrap();
    assert!(unknown.to_string().contains("magic"), "{unknown}");
}

#[tokio::test]
async fn a_change_of_one_domain_leaves_the_others_and_is_made_again_from_its_records() {
    let default = [spec("rules", 1.0, false)];
    let bench = Bench::new(&default, &[]);
    let math = Some(Domain::new("math").unwrap());
    let mut changes = vec![];
    let weight = VerifierPatch { weight: Some(3.0), ..VerifierPatch::default() };
    changes.push((math.clone(), name("liar"), bench.put(&math, "liar", &liar(0.0), &weight)));
    assert_eq!(bench.score("math", "four").await, Some(0.25));
    assert_eq!(bench.score("code", "four").await, Some(1.0));
    changes.push((math.clone(), name("liar"), bench.put(&math, "liar", &liar(1.0), &weight)));
    assert_eq!(bench.score("math", "four").await, Some(1.0));

    // The version before comes back with its component, under a number of its own.
    let earlier = bench.registry.earlier(&math, &name("liar"), None, 2).unwrap();
    let change = VerifierChange::Put(earlier);
    bench.registry.put_in_place(bench.registry.prepare(&math, &name("liar"), change.clone(), None).unwrap());
    changes.push((math.clone(), name("liar"), change));
    assert_eq!(bench.score("math", "four").await, Some(0.25));
    let report = bench.registry.list(&math);
    assert_eq!(
        report.iter().map(|one| (one.name.as_str(), one.version)).collect::<Vec<_>>(),
        [("rules", 1), ("liar", 3)]
    );
    assert!(matches!(
        bench.registry.earlier(&math, &name("liar"), Some(9), 2),
        Err(RegistryError::NoVersion { version: 9, .. })
    ));

    // Another process, from the files and the records.
    let again = Bench::load(&bench.folder, &default, &[]).unwrap();
    let text = serde_json::to_string(&changes).unwrap();
    again.replay(serde_json::from_str::<Vec<(SetKey, VerifierName, VerifierChange)>>(&text).unwrap()).unwrap();
    assert_eq!(again.list(&math), report);
    let again = Bench { registry: again, folder: bench.folder };
    assert_eq!(again.score("math", "four").await, Some(0.25));

    // A component whose file is gone is named, and nothing is put in its place.
    let ComponentSource::Stored(sha256) = &report[1].current.component else { panic!("{report:?}") };
    std::fs::remove_file(again.folder.path().join(format!("{sha256}.wasm"))).unwrap();
    let lacking = Bench::load(&again.folder, &default, &[]).unwrap().replay(changes).unwrap_err();
    assert!(lacking.to_string().contains(sha256), "{lacking}");
}

#[tokio::test]
async fn the_last_verifier_stays_and_a_stranger_cannot_be_removed() {
    let bench = Bench::new(&[spec("rules", 1.0, false)], &[]);
    let prepare = |verifier: &str| bench.registry.prepare(&None, &name(verifier), VerifierChange::Removed, None);
    assert!(matches!(prepare("rules"), Err(RegistryError::Last(_))));
    assert!(matches!(prepare("magic"), Err(RegistryError::Unknown { .. })));
    let taken = bench.registry.take_first_party(&name("json")).unwrap();
    let version = bench.registry.version_of(&taken, VerifierSettings::of_weight(1.0), 1);
    let change = VerifierChange::Put(version);
    bench.registry.put_in_place(bench.registry.prepare(&None, &name("json"), change, Some(taken)).unwrap());
    bench.registry.put_in_place(bench.registry.prepare(&None, &name("rules"), VerifierChange::Removed, None).unwrap());
    assert_eq!(bench.registry.list(&None).iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["json"]);
}

/// Under swaps, every verification ends, and on one of the two components.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_under_load_lose_no_verification() {
    let bench = Arc::new(Bench::new(&[spec("rules", 1.0, false)], &[]));
    let (good, bad) = (liar(1.0), liar(0.0));
    let set: SetKey = None;
    bench.put(&set, "liar", &good, &VerifierPatch::default());
    bench.registry.put_in_place(bench.registry.prepare(&set, &name("rules"), VerifierChange::Removed, None).unwrap());
    let load: Vec<_> = (0..4)
        .map(|_| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move {
                let mut seen = [0_u32; 2];
                for _ in 0..500 {
                    match bench.score("math", "four").await {
                        Some(1.0) => seen[1] += 1,
                        Some(0.0) => seen[0] += 1,
                        other => panic!("{other:?}"),
                    }
                }
                seen
            })
        })
        .collect();
    let swapping = Arc::clone(&bench);
    let swaps = tokio::task::spawn_blocking(move || {
        for round in 0..100 {
            swapping.put(&None, "liar", [&good, &bad][round % 2], &VerifierPatch::default());
        }
    });
    let mut total = [0; 2];
    for seen in load {
        let seen = seen.await.unwrap();
        total = [total[0] + seen[0], total[1] + seen[1]];
    }
    swaps.await.unwrap();
    assert_eq!(total[0] + total[1], 2_000);
    assert_eq!(bench.registry.list(&None)[0].version, 101);
    assert_eq!(bench.registry.list(&None)[0].history.len(), 32);
}
