//! What verification costs: fresh instances, the python verifier, swaps under load, and how soon attacks are ended.
//!
//! `cargo bench --bench verifiers`, with `POINTSMAN_PYTHON_VERIFIER` naming the component that `pointsman verify setup`
//! builds; without it the parts that run Python are left out and say so. Each row is one run; compare within a run.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use pointsman::{
    feedback::verifier::{Compiled, Components, Golden, Registry, Sandbox, SandboxLimits, VerifierSpec, first_party},
    round::{Domain, Task, TaskId, VerdictStatus, VerifierChange, VerifierName, VerifierSettings},
};
use serde_json::json;

const WARM_UP: usize = 200;
const SWAPS: usize = 100;
const VERIFICATIONS: usize = 20_000;

#[tokio::main]
async fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--test") {
        println!("verifiers: nothing is measured with --test");
        return ExitCode::SUCCESS;
    }
    let cache = tempfile::tempdir().expect("a temporary folder can be made");
    let limits = SandboxLimits::default();
    let sandbox = Arc::new(Sandbox::new(limits, Some(cache.path())).expect("the sandbox starts"));
    println!("{} cores, fuel {}, deadline {} ms", limits.concurrency, limits.fuel, limits.deadline_ms);
    println!(
        "\n{:34} {:>9} {:>9} {:>9} {:>9} {:>11} {:>12}",
        "one at a time", "p50 us", "inside us", "p90 us", "p99 us", "fuel", "compiled ms"
    );
    for (name, task, answer) in small() {
        let Some(component) = first_party(name) else { continue };
        let (compiled, took) = compile(&sandbox, component);
        let row = one_at_a_time(&sandbox, &compiled, &task, &answer, 2_000).await;
        println!("{name:34} {row} {:12.0}", took.as_secs_f64() * 1e3);
    }
    let python = std::env::var_os("POINTSMAN_PYTHON_VERIFIER").map(PathBuf::from).filter(|path| path.is_file());
    let python = python.as_ref().map(|path| std::fs::read(path).expect("the python component is readable"));
    match &python {
        None => println!("python: left out, POINTSMAN_PYTHON_VERIFIER does not name its component"),
        Some(bytes) => python_figures(&sandbox, bytes).await,
    }
    swaps(&sandbox).await;
    if let Some(bytes) = &python {
        attacks(&sandbox, bytes).await;
    }
    ExitCode::SUCCESS
}

fn task(domain: &str, prompt: &str, metadata: serde_json::Value) -> Task {
    let metadata = metadata.as_object().cloned().unwrap_or_default();
    let (id, domain) = (TaskId::new("bench").expect("it is a name"), Domain::new(domain).expect("it is a name"));
    Task::plain(id, domain, prompt, metadata)
}

/// A typical task of each small component.
fn small() -> Vec<(&'static str, Task, String)> {
    let sum = task("math", "What is 17 times 24?", json!({"reference": 408}));
    let reasoned = "17 times 24 is 17 times 20 plus 17 times 4, so 340 + 68.\n\nThe answer is **408**.".to_owned();
    let schema = json!({"schema": {"type": "object", "required": ["name", "age"], "properties":
        {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}}});
    let code =
        "Here it is:\n```python\ndef area(width, height):\n    \"\"\"The area.\"\"\"\n    return width * height\n```\n";
    let candidates = json!({"candidates": ["It is 408.", "The answer is 408", "I get 407."]});
    vec![
        ("rules", sum.clone(), reasoned.clone()),
        ("answer", sum, reasoned),
        ("json", task("extraction", "Extract the person.", schema), r#"{"name": "Ada", "age": 36}"#.to_owned()),
        ("syntax", task("code", "Write it in Python.", json!({"language": "python"})), code.to_owned()),
        ("consistency", task("math", "17 times 24?", candidates), "The answer is 408.".to_owned()),
    ]
}

/// A check like HumanEval's: a docstring's function against `check(candidate)` of seven asserts.
fn humaneval_like() -> (Task, String) {
    let tests = "def check(candidate):\n\
        \x20   assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.3) == True\n\
        \x20   assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) == False\n\
        \x20   assert candidate([1.0, 2.0, 5.9, 4.0, 5.0], 0.95) == True\n\
        \x20   assert candidate([1.0, 2.0, 5.9, 4.0, 5.0], 0.8) == False\n\
        \x20   assert candidate([1.0, 2.0, 3.0, 4.0, 5.0, 2.0], 0.1) == True\n\
        \x20   assert candidate([1.1, 2.2, 3.1, 4.1, 5.1], 1.0) == True\n\
        \x20   assert candidate([1.1, 2.2, 3.1, 4.1, 5.1], 0.5) == False\n";
    let prompt = "from typing import List\n\n\ndef has_close(numbers: List[float], threshold: float) -> bool:\n\
        \x20   \"\"\" Check if in the list two numbers are closer to each other than the threshold. \"\"\"\n";
    let answer = "```python\nfrom typing import List\n\ndef has_close(numbers: List[float], threshold: float) -> bool:\n\
        \x20   for i, a in enumerate(numbers):\n        for j, b in enumerate(numbers):\n\
        \x20           if i != j and abs(a - b) < threshold:\n                return True\n    return False\n```\n";
    let metadata = json!({"tests": tests, "entry_point": "has_close", "language": "python"});
    (task("code", prompt, metadata), answer.to_owned())
}

fn compile(sandbox: &Sandbox, bytes: &[u8]) -> (Compiled, Duration) {
    let started = Instant::now();
    let compiled = sandbox.compile(bytes).unwrap_or_else(|refusal| panic!("{refusal}"));
    (compiled, started.elapsed())
}

async fn one_at_a_time(sandbox: &Sandbox, compiled: &Compiled, task: &Task, answer: &str, times: usize) -> String {
    let (mut took, mut inside) = (Vec::with_capacity(times), Vec::with_capacity(times));
    let mut fuel = 0;
    for round in 0..WARM_UP.min(times / 4) + times {
        let started = Instant::now();
        let verified = sandbox.verify(compiled, task, answer, "").await;
        let elapsed = started.elapsed();
        assert_eq!(verified.status, VerdictStatus::Scored, "{verified:?}");
        assert!(fuel == 0 || fuel == verified.fuel, "the same check uses the same fuel");
        fuel = verified.fuel;
        if round >= WARM_UP.min(times / 4) {
            took.push(elapsed);
            inside.push(Duration::from_micros(verified.duration_us));
        }
    }
    took.sort_unstable();
    inside.sort_unstable();
    let us = |share: f64| quantile(&took, share).as_secs_f64() * 1e6;
    let inside = quantile(&inside, 0.5).as_micros();
    format!("{:9.1} {inside:9} {:9.1} {:9.1} {fuel:11}", us(0.5), us(0.9), us(0.99))
}

/// Of sorted durations.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

async fn python_figures(sandbox: &Arc<Sandbox>, bytes: &[u8]) {
    let (compiled, cold) = compile(sandbox, bytes);
    let (again, warm) = compile(sandbox, bytes);
    drop(again);
    let (task, answer) = humaneval_like();
    let row = one_at_a_time(sandbox, &compiled, &task, &answer, 400).await;
    println!("{:34} {row} {:12.0}", "python, seven asserts", cold.as_secs_f64() * 1e3);
    println!("python: found again in the cache, described and probed in {:.0} ms", warm.as_secs_f64() * 1e3);
    let compiled = Arc::new(compiled);
    for callers in [1, 2, 8] {
        let left = Arc::new(AtomicUsize::new(600));
        let started = Instant::now();
        let workers: Vec<_> = (0..callers)
            .map(|_| {
                let (sandbox, compiled, left) = (Arc::clone(sandbox), Arc::clone(&compiled), Arc::clone(&left));
                let (task, answer) = (task.clone(), answer.clone());
                tokio::spawn(async move {
                    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                        let verified = sandbox.verify(&compiled, &task, &answer, "").await;
                        assert_eq!(verified.score, Some(1.0), "{verified:?}");
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.expect("no check failed");
        }
        println!("python: {callers} callers: {:.0} checks/s", 600.0 / started.elapsed().as_secs_f64());
    }
}

/// A component of another hash that does the same: a custom section is appended.
fn marked(bytes: &[u8], mark: u8) -> Vec<u8> {
    let mut marked = bytes.to_vec();
    marked.extend([0, 3, 1, b'm', mark]);
    marked
}

/// Two components swapped in turn while answers are verified, beside the same load without swaps.
async fn swaps(sandbox: &Arc<Sandbox>) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let name = VerifierName::new("rules").expect("it is a name");
    let spec = VerifierSpec { name: name.clone(), component: None, settings: VerifierSettings::of_weight(1.0) };
    let components = Components::new(folder.path().join("stored"), folder.path().join("built"));
    let registry = Registry::load(Arc::clone(sandbox), components, &[spec], &Default::default());
    let registry = Arc::new(registry.unwrap_or_else(|error| panic!("{error}")));
    let rules = first_party("rules").expect("it comes with the program");
    // Both were compiled before: an upload is, at low priority, before anything is swapped.
    let versions = [marked(rules, 0), marked(rules, 1)];
    for version in &versions {
        drop(registry.take_in(&name, version).unwrap_or_else(|error| panic!("{error}")));
    }
    println!(
        "\n{VERIFICATIONS} verifications, callers: {:9} {:>9} {:>9} {:>9} {:>7}",
        callers(),
        "p50 us",
        "p99 us",
        "max us",
        "errors"
    );
    for swapping in [false, true, false] {
        let swapped = Arc::new(AtomicBool::new(!swapping));
        // Guards when each swap began and ended.
        let windows = Arc::new(Mutex::new(vec![]));
        let swapper = swapping.then(|| {
            let (registry, name, windows) = (Arc::clone(&registry), name.clone(), Arc::clone(&windows));
            let swapped = Arc::clone(&swapped);
            let versions = versions.clone();
            tokio::task::spawn_blocking(move || {
                for swap in 0..SWAPS {
                    let taken = registry.take_in(&name, &versions[swap % 2]).unwrap_or_else(|error| panic!("{error}"));
                    let version = registry.version_of(&taken, VerifierSettings::of_weight(1.0), 0);
                    let change = VerifierChange::Put(version);
                    let prepared = registry.prepare(&None, &name, change, Some(taken));
                    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
                    let began = Instant::now();
                    registry.put_in_place(prepared);
                    windows.lock().unwrap_or_else(PoisonError::into_inner).push((began, Instant::now()));
                    std::thread::sleep(Duration::from_millis(10));
                }
                swapped.store(true, Ordering::Relaxed);
            })
        });
        let load = load(&registry, &swapped).await;
        if let Some(swapper) = swapper {
            swapper.await.expect("every swap succeeded");
        }
        let mut took: Vec<Duration> = load.iter().map(|(began, ended, _)| *ended - *began).collect();
        took.sort_unstable();
        let errors = load.iter().filter(|(.., scored)| !scored).count();
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        let median = quantile(&took, 0.5);
        println!(
            "{:38} {:9.1} {:9.1} {:9.1} {errors:7}",
            if swapping { "  100 swaps among them" } else { "  none" },
            us(median),
            us(quantile(&took, 0.99)),
            us(quantile(&took, 1.0)),
        );
        let slow = |(began, ended, _): &&(Instant, Instant, bool)| *ended - *began > median * 2;
        let windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
        let overlapping = |(began, ended, _): &&(Instant, Instant, bool)| {
            windows.iter().any(|(from, to)| began <= to && ended >= from)
        };
        let (all, met) = (load.iter().filter(slow).count(), load.iter().filter(overlapping).count());
        let both = load.iter().filter(slow).filter(overlapping).count();
        println!("    slower than twice the median: {all}; while a swap was made: {both} of {met}");
        if swapping {
            let mut lasted: Vec<Duration> = windows.iter().map(|(from, to)| *to - *from).collect();
            lasted.sort_unstable();
            println!("    a swap: p50 {:.1} us, max {:.1} us", us(quantile(&lasted, 0.5)), us(quantile(&lasted, 1.0)));
        }
    }
}

/// A core is left for the swaps: threads that take turns on one would be measured instead.
fn callers() -> usize {
    SandboxLimits::default().concurrency.saturating_sub(1).max(1)
}

/// 20,000 verifications, and more until all swaps are made.
async fn load(registry: &Arc<Registry>, swapped: &Arc<AtomicBool>) -> Vec<(Instant, Instant, bool)> {
    let callers: Vec<_> = (0..callers())
        .map(|_| {
            let (registry, swapped) = (Arc::clone(registry), Arc::clone(swapped));
            tokio::spawn(async move {
                let (task, mut took) = (task("math", "What is 17 times 24?", json!({})), vec![]);
                while took.len() < VERIFICATIONS / callers() || !swapped.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let judgement = registry.judgement(&task, "17 times 24 is 408.").await;
                    took.push((began, Instant::now(), judgement.score.is_some()));
                }
                took
            })
        })
        .collect();
    let mut all = vec![];
    for caller in callers {
        all.extend(caller.await.expect("no verification panicked"));
    }
    all
}

/// Every attack of the verifier's own list, one at a time.
async fn attacks(sandbox: &Sandbox, bytes: &[u8]) {
    let (compiled, _) = compile(sandbox, bytes);
    let attacks = Golden::read_all(include_str!("../verifiers/python/attacks.jsonl")).expect("the list is readable");
    let mut took = vec![];
    let mut wrong = 0;
    for attack in &attacks {
        let task = attack.task().expect("the list is readable");
        let answer = attack.response();
        let started = Instant::now();
        let verified = sandbox.verify(&compiled, &task, &answer, &attack.config).await;
        took.push((started.elapsed(), attack.name()));
        if let Err(problem) = attack.compare(&verified) {
            println!("{}: {problem}", attack.name());
            wrong += 1;
        }
    }
    took.sort_unstable();
    println!("\n{} attacks, {wrong} with another verdict than they deserve; the five slowest:", attacks.len());
    for (elapsed, name) in took.iter().rev().take(5) {
        println!("{:7.0} ms {name}", elapsed.as_secs_f64() * 1e3);
    }
}
