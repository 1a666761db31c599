//! The verifier that runs Python, in the sandbox: its golden tasks, and every attack with the verdict that it must get.
//!
//! The component is built once, by `pointsman verify setup`, with the user's Python and pip. Where these cannot, the tests
//! are skipped with the reason, except in continuous integration.

use std::{io::Write, path::PathBuf, sync::OnceLock, time::Instant};

use pointsman::feedback::verifier::{Compiled, Golden, Sandbox, SandboxLimits};
use serde_json::json;

use crate::served::{Served, output, pointsman};

fn component() -> Option<&'static PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = || {
        let (status, stdout, stderr) = output(pointsman().args(["verify", "setup"]));
        if status.success() {
            return Some(PathBuf::from(stdout.trim()));
        }
        assert!(std::env::var_os("CI").is_none(), "the python verifier cannot be built: {stderr}");
        say(&format!("skipped: the python verifier cannot be built: {stderr}"));
        None
    };
    BUILT.get_or_init(built).as_ref()
}

/// Prints also where the test runner would keep it to itself.
fn say(line: &str) {
    // Nobody reads it when standard output is closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The compiled code is in the cache since the setup.
fn compiled() -> Option<(Sandbox, Compiled)> {
    let path = component()?;
    let cache = path.parent().and_then(|built| built.parent()).unwrap().join("verifiers");
    let sandbox = Sandbox::new(SandboxLimits::default(), Some(&cache)).unwrap();
    let compiled = sandbox.compile(&std::fs::read(path).unwrap()).unwrap();
    Some((sandbox, compiled))
}

async fn run(lines: &str, at_least: usize) {
    let Some((sandbox, compiled)) = compiled() else { return };
    let golden = Golden::read_all(lines).unwrap();
    assert!(golden.len() >= at_least, "{}", golden.len());
    let mut wrong = vec![];
    let mut table = String::new();
    for one in &golden {
        let started = Instant::now();
        let verified = sandbox.verify(&compiled, &one.task().unwrap(), &one.response(), &one.config).await;
        let ms = started.elapsed().as_millis();
        let score = verified.score.map_or_else(|| "-".into(), |score| format!("{score:.2}"));
        let said = verified.trace.last().map_or("", |line| line.as_str()).replace(|c: char| c.is_control(), " ");
        let said: String = said.chars().take(90).collect();
        let status = serde_json::to_value(verified.status).unwrap();
        let status = status.as_str().unwrap();
        table += &format!("{:38} {status:16} {score:>5} {ms:>6} {:>11}  {said}\n", one.name(), verified.fuel);
        wrong.extend(one.compare(&verified).err().map(|problem| format!("{}: {problem}", one.name())));
    }
    say(&format!(
        "{:38} {:16} {:>5} {:>6} {:>11}  last words\n{table}",
        "python verifier", "verdict", "score", "ms", "fuel"
    ));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn golden_tasks_get_their_scores() {
    run(include_str!("../verifiers/python/golden.jsonl"), 40).await;
}

#[tokio::test]
async fn every_attack_gets_the_verdict_that_it_deserves() {
    run(include_str!("../verifiers/python/attacks.jsonl"), 40).await;
}

#[tokio::test]
async fn a_domain_that_runs_code_scores_it_and_survives_what_it_does() {
    if component().is_none() {
        return;
    }
    let config = r#"
        [domains.code]
        verifiers = [
            { name = "python", weight = 1.0, gate = true },
            { name = "rules", weight = 0.1 },
        ]
        [[arms]]
        id = "a"
        kind = "scripted"
        default_skill = 0.5
    "#;
    let served = Served::new(config);
    let trial = |response: &str| {
        let metadata = json!({"tests": "assert double(2) == 4\nassert double(-3) == -6", "language": "python"});
        json!({"prompt": "Write double(x).", "metadata": metadata, "response": response})
    };
    let score = async |response: &str| {
        let (status, judgement) = served.post("/v1/domains/code/dry-run", &trial(response)).await;
        assert_eq!(status, 200, "{judgement}");
        judgement["score"].as_f64().unwrap()
    };
    assert_eq!(score("```python\ndef double(x):\n    return 2 * x\n```").await, 1.0);
    assert!(score("```python\ndef double(x):\n    return 4\n```").await < 0.5);
    assert_eq!(score("```python\nimport os\nos._exit(0)\n```").await, 0.0);
    assert_eq!(score("```python\nwhile True:\n    pass\n```").await, 0.0);
    assert_eq!(score("```python\ndef double(x):\n    return x + x\n```").await, 1.0);
}
