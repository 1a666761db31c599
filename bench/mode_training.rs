//! What training a mode-router comes to: several seeds, and the same without each part of the method.
//!
//! `cargo bench --bench mode_training [-- --runs DIR] [--json FILE]` trains with `pointsman train mode-router` on the datasets `llmrouter` and `coderouterbench` of
//! `POINTSMAN_DATA`, reports on their test tasks, and prints tables; then it trains in the toy with and without progressive exploration. A run takes minutes, all of
//! them an hour; those whose report is in the folder already are taken as they are.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use pointsman::train::mode_router::{evaluate::bootstrapped, toy};
use serde_json::{Value, json};

const SEEDS: [u64; 3] = [1, 2, 3];
/// What is left out, and how that is asked for. With the first seed only.
const WITHOUT: [(&str, &[&str]); 4] = [
    ("COMET (plain GRPO)", &["--no-comet"]),
    ("progressive exploration", &["--no-progressive"]),
    ("the term that keeps modes alive", &["--no-support"]),
    ("practice of fixed ways", &["--settings", "bench/mode_training/no_practice.toml"]),
];

struct Run {
    name: String,
    seed: u64,
    report: Value,
    /// Means of the last hundred steps.
    last: Value,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let given = |flag: &str| {
        let place = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(place + 1).map(PathBuf::from)
    };
    let Some(data) =
        std::env::var_os("POINTSMAN_DATA").map(PathBuf::from).filter(|data| data.join("llmrouter").exists())
    else {
        println!("skipped: POINTSMAN_DATA does not name a folder with llmrouter/ and coderouterbench/");
        return ExitCode::SUCCESS;
    };
    let folder = given("--runs").unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mode_training"));
    let mut runs = Vec::new();
    for seed in SEEDS {
        let more: &[&str] = if seed == SEEDS[0] { &["--sweep"] } else { &[] };
        runs.push(run(&data, &folder, "the whole method", seed, more));
    }
    for (name, flags) in WITHOUT {
        runs.push(run(&data, &folder, name, SEEDS[0], flags));
    }
    let runs: Option<Vec<Run>> = runs.into_iter().collect();
    let Some(runs) = runs else { return ExitCode::FAILURE };
    let mut text = String::new();
    let (whole, without) = runs.split_at(SEEDS.len());
    rewards(&mut text, whole);
    let together = together(&mut text, whole);
    savings(&mut text, whole);
    ablations(&mut text, &whole[0], without);
    sweep(&mut text, &whole[0]);
    let toys = toys(&mut text);
    let times: Vec<String> =
        runs.iter().map(|run| format!("{:.0}", number(&run.report, "/trained_s") / 60.0)).collect();
    let _ = writeln!(text, "Minutes of training, in this order: {}.", times.join(", "));
    print!("{text}");
    if let Some(file) = given("--json") {
        let runs: Vec<Value> = runs
            .iter()
            .map(
                |run| json!({"name": run.name, "seed": run.seed, "report": brief(&run.report), "last_steps": run.last}),
            )
            .collect();
        let whole = json!({"runs": runs, "over_best_fixed_all_seeds": together, "toy": toys});
        let written = serde_json::to_vec_pretty(&whole).map(|bytes| fs::write(&file, bytes));
        if !matches!(written, Ok(Ok(()))) {
            eprintln!("cannot write {}", file.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(data: &Path, runs: &Path, name: &str, seed: u64, flags: &[&str]) -> Option<Run> {
    let slug: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = runs.join(format!("{slug}-{seed}"));
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    if read("report.json").is_none() {
        eprintln!("training: {name}, seed {seed}");
        let status = Command::new(env!("CARGO_BIN_EXE_pointsman"))
            .args(["train", "mode-router", "--dataset"])
            .args([data.join("llmrouter"), data.join("coderouterbench")])
            .args(["--force", "--seed", &seed.to_string()])
            .arg("--run")
            .arg(&folder)
            .arg("--out")
            .arg(folder.join("mode-router.safetensors"))
            .args(flags)
            .stdout(std::process::Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("{name}, seed {seed}: training failed");
            return None;
        }
    }
    let report = serde_json::from_str(&read("report.json")?).ok()?;
    let steps: Vec<Value> = read("steps.jsonl")?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = &steps[steps.len().saturating_sub(100)..];
    let mean = |path: &str| last.iter().map(|step| number(step, path)).sum::<f64>() / last.len().max(1) as f64;
    let broken = |step: &Value| {
        let broken = step["violations"].as_object().map_or(0, |found| found.values().filter_map(Value::as_u64).sum());
        broken as f64 / number(step, "/rollouts").max(1.0)
    };
    let last = json!({
        "reward": mean("/reward"), "calls": mean("/calls"), "kl": mean("/kl"),
        "modes": [mean("/modes/0"), mean("/modes/1"), mean("/modes/2")],
        "violations": last.iter().map(broken).sum::<f64>() / last.len().max(1) as f64,
    });
    Some(Run { name: name.into(), seed, report, last })
}

fn number(of: &Value, path: &str) -> f64 {
    of.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// The report without its domains and plans.
fn brief(report: &Value) -> Value {
    let mut brief = report.clone();
    for list in ["datasets", "sweep"] {
        for entry in brief[list].as_array_mut().into_iter().flatten() {
            let mut reports: Vec<&mut Value> = match entry.get("reports").is_some() {
                true => entry["reports"].as_array_mut().into_iter().flatten().collect(),
                false => vec![&mut entry["report"]],
            };
            for report in &mut reports {
                if let Some(report) = report.as_object_mut() {
                    report.remove("domains");
                    report.remove("plans");
                    report.remove("over_best_fixed_by_task");
                }
            }
        }
    }
    brief
}

fn datasets(run: &Run) -> impl Iterator<Item = (&str, &Value)> {
    let datasets = run.report["datasets"].as_array().into_iter().flatten();
    datasets.map(|dataset| (dataset["dataset"].as_str().unwrap_or_default(), dataset))
}

fn interval(of: &Value) -> String {
    format!("{:+.4} ({:+.4} to {:+.4})", number(of, "/1"), number(of, "/0"), number(of, "/2"))
}

fn shares(of: &Value) -> String {
    [0, 1, 2].map(|mode| format!("{:.2}", number(of, &format!("/{mode}")))).join(" / ")
}

fn rewards(text: &mut String, runs: &[Run]) {
    let _ = writeln!(text, "Reward on test tasks, (1 - alpha) score + alpha score / (1 + cost / reference)\n");
    let _ = writeln!(
        text,
        "| dataset | alpha | seed | policy | single | multi | agentic | dimension_best | oracle | over the best fixed mode | single / multi / agentic |"
    );
    let _ = writeln!(text, "|---|---|---|---|---|---|---|---|---|---|---|");
    for place in 0..datasets(&runs[0]).count() {
        for alpha in 0..4 {
            for run in runs {
                let Some((name, dataset)) = datasets(run).nth(place) else { continue };
                let report = &dataset["reports"][alpha];
                let way = |way: &str| format!("{:.4}", number(report, &format!("/ways/{way}/reward/1")));
                let ways = ["policy", "single", "multi", "agentic", "dimension_best", "oracle"].map(way).join(" | ");
                let _ = writeln!(
                    text,
                    "| {name} | {} | {} | {ways} | {} over {} | {} |",
                    number(report, "/alpha"),
                    run.seed,
                    interval(&report["over_best_fixed"]),
                    report["best_fixed_mode"].as_str().unwrap_or_default(),
                    shares(&report["ways"]["policy"]["modes"]),
                );
            }
        }
    }
    text.push('\n');
}

/// All seeds at once: what they differ by from the best fixed mode, averaged for each task.
fn together(text: &mut String, runs: &[Run]) -> Vec<Value> {
    let _ = writeln!(
        text,
        "All seeds together, over the best fixed mode: the mean over seeds for each task, paired by task\n"
    );
    let _ = writeln!(text, "| dataset | alpha | over the best fixed mode |\n|---|---|---|");
    let mut all = Vec::new();
    for (place, (name, dataset)) in datasets(&runs[0]).enumerate() {
        for (alpha, report) in dataset["reports"].as_array().into_iter().flatten().enumerate() {
            let tasks = report["over_best_fixed_by_task"].as_array().map_or(0, Vec::len);
            let mut means = vec![0.0; tasks];
            for run in runs {
                let path = format!("/datasets/{place}/reports/{alpha}/over_best_fixed_by_task");
                let found = run.report.pointer(&path).and_then(Value::as_array).into_iter().flatten();
                for (mean, one) in means.iter_mut().zip(found) {
                    *mean += one.as_f64().unwrap_or(f64::NAN) / runs.len() as f64;
                }
            }
            let found = json!(bootstrapped(&means));
            let _ = writeln!(text, "| {name} | {} | {} |", number(report, "/alpha"), interval(&found));
            all.push(json!({"dataset": name, "alpha": report["alpha"], "over_best_fixed": found}));
        }
    }
    text.push('\n');
    all
}

fn savings(text: &mut String, runs: &[Run]) {
    let _ = writeln!(text, "What alpha saves: dollars a task and score at alpha 0.1 beside alpha 0\n");
    let _ = writeln!(text, "| dataset | seed | dollars | | score | |\n|---|---|---|---|---|---|");
    for run in runs {
        for (name, dataset) in datasets(run) {
            let at = |report: usize, of: &str| number(dataset, &format!("/reports/{report}/ways/policy/{of}/1"));
            let (free, saved) = (at(0, "cost_usd"), at(1, "cost_usd"));
            let _ = writeln!(
                text,
                "| {name} | {} | {free:.6} to {saved:.6} | {:+.1} % | {:.4} to {:.4} | {:+.2} points |",
                run.seed,
                100.0 * (saved / free - 1.0),
                at(0, "score"),
                at(1, "score"),
                100.0 * (at(1, "score") - at(0, "score")),
            );
        }
    }
    text.push('\n');
}

fn ablations(text: &mut String, whole: &Run, without: &[Run]) {
    let _ =
        writeln!(text, "Without a part of the method: over the best fixed mode at alpha 0.3, seed {}\n", whole.seed);
    let _ = writeln!(
        text,
        "| | {} | modes chosen in the last 100 steps | rules broken |",
        datasets(whole).map(|(name, _)| name).collect::<Vec<_>>().join(" | ")
    );
    let _ = writeln!(text, "|---|---|---|---|---|");
    for run in std::iter::once(whole).chain(without) {
        let name = if run.name == whole.name { run.name.clone() } else { format!("without {}", run.name) };
        let over: Vec<String> =
            datasets(run).map(|(_, dataset)| interval(&dataset["reports"][2]["over_best_fixed"])).collect();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {:.1} % |",
            over.join(" | "),
            shares(&run.last["modes"]),
            100.0 * number(&run.last, "/violations"),
        );
    }
    text.push('\n');
}

fn sweep(text: &mut String, run: &Run) {
    let _ = writeln!(
        text,
        "The same policy under other simulated verifiers, beside fixed ways chosen for them, at alpha 0.3, seed {}\n",
        run.seed
    );
    let _ = writeln!(
        text,
        "| dataset | tau | right ones failed | wrong ones passed | noise | policy | single | multi | agentic | over the best fixed mode |"
    );
    let _ = writeln!(text, "|---|---|---|---|---|---|---|---|---|---|");
    for swept in run.report["sweep"].as_array().into_iter().flatten() {
        let way = |way: &str| format!("{:.4}", number(swept, &format!("/report/ways/{way}/reward/1")));
        let verifier = ["tau", "false_negative", "false_positive", "noise"]
            .map(|key| number(&swept["verifier"], &format!("/{key}")).to_string());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            swept["dataset"].as_str().unwrap_or_default(),
            verifier.join(" | "),
            ["policy", "single", "multi", "agentic"].map(way).join(" | "),
            interval(&swept["report"]["over_best_fixed"]),
        );
    }
    text.push('\n');
}

fn toys(text: &mut String) -> Vec<Value> {
    let _ = writeln!(text, "The toy: three kinds of task, each with a best mode; knowing all of it scores 0.883\n");
    let _ = writeln!(text, "| progressive exploration | seed | score | single / multi / agentic |\n|---|---|---|---|");
    let mut all = Vec::new();
    for (progressive, seed) in [true, false].into_iter().flat_map(|with| SEEDS.map(|seed| (with, seed))) {
        let Ok(found) = toy::run(toy::settings(seed, progressive), &|_| {}) else { continue };
        let with = if progressive { "with" } else { "without" };
        let _ = writeln!(text, "| {with} | {seed} | {:.3} | {} |", found.score, shares(&json!(found.modes)));
        all.push(json!({"progressive": progressive, "seed": seed, "score": found.score, "modes": found.modes}));
    }
    text.push('\n');
    all
}
