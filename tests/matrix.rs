//! Replays on datasets from the command line: warm starts, cascades, decisions of others, and the released metrics.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::served::{output, pointsman};

/// A made-up dataset with a split to know before and one to meet; in `code`, the text says which of two models is right.
fn dataset(folder: &Path) {
    let models =
        ["a", "b", "c"].map(|model| format!(r#"{{"model": "{model}", "input_per_1m": 1.0, "output_per_1m": 2.0}}"#));
    std::fs::write(folder.join("models.json"), format!(r#"{{"models": [{}]}}"#, models.join(", "))).unwrap();
    let (mut tasks, mut results) = (String::new(), String::from("task_id,model,score,cost_usd,measured\n"));
    for number in 0..240 {
        let kind = number % 3;
        let (domain, text) =
            [("math", "add these numbers"), ("code", "write a parser for"), ("code", "draw a chart of")][kind];
        let split = if number < 160 { "train" } else { "test" };
        let prompt =
            if number % 10 == 0 && kind == 0 { "null".to_owned() } else { format!("\"{text} case {number}\"") };
        tasks += &format!(
            "{{\"task_id\": \"t{number}\", \"split\": \"{split}\", \"dimension\": \"{domain}\", \"source\": \"s\", \
             \"prompt\": {prompt}}}\n"
        );
        for (place, model) in ["a", "b", "c"].iter().enumerate() {
            let score = u8::from(place == kind);
            let measured = u8::from(!(number % 7 == 0 && place != kind));
            results += &format!("t{number},{model},{score},0.001,{measured}\n");
        }
    }
    std::fs::write(folder.join("tasks.jsonl"), tasks).unwrap();
    std::fs::write(folder.join("results.csv"), results).unwrap();
}

fn replay(folder: &Path, arguments: &[&str]) -> (bool, String, String) {
    let (status, stdout, stderr) = output(pointsman().args(["replay", "--dataset"]).arg(folder).args(arguments));
    (status.success(), stdout, stderr)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_offline_router_and_the_ensemble_start_from_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path());
    let [json, csv, html] = ["out.json", "out.csv", "out.html"].map(|name| folder.path().join(name));
    let policies =
        ["dimension_best", "knn_retrieval", "logreg", "tfidf_mlp", "routellm_mf", "acrouter_ensemble", "ensemble"];
    let mut arguments = vec!["--warm", "train", "--split", "test", "--rule", "measured", "--order", "released"];
    arguments.extend(["--seeds", "1", "--check-leaks", "--json", json.to_str().unwrap()]);
    arguments.extend(["--csv", csv.to_str().unwrap(), "--html", html.to_str().unwrap()]);
    arguments.extend(policies.iter().flat_map(|policy| ["--policy", policy]));
    let (ok, stdout, stderr) = replay(folder.path(), &arguments);
    assert!(ok, "{stderr}");
    assert!(
        stderr.contains("80 tasks x 3 models") && stderr.contains("ensemble sees the outcomes of what it took"),
        "{stderr}"
    );
    assert!(policies.iter().chain(&["oracle", "domain_best"]).all(|name| stdout.contains(name)), "{stdout}");
    let reports = read(&json);
    for (report, policy) in reports.as_array().unwrap().iter().zip(policies) {
        assert_eq!((report["policy"].as_str(), report["warm"][0].as_str()), (Some(policy), Some("train")), "{report}");
        let score = report["mean_score"].as_f64().unwrap();
        // Domains alone are right on two kinds of three.
        let least = match policy {
            "dimension_best" => 0.6,
            // It explores, too.
            "ensemble" => 0.85,
            _ => 0.9,
        };
        assert!(score > least, "{policy}: {score}");
    }
    let table = std::fs::read_to_string(csv).unwrap();
    assert!(table.lines().count() > policies.len() && table.contains("ensemble,replayed,code,"), "{table}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("uPlot") && page.contains("\"cum_regret\"") && !page.contains("{{"), "the page lacks a part");
}

#[test]
fn a_cascade_is_replayed_and_decisions_of_others_are_scored_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path());
    let theirs = folder.path().join("theirs.csv");
    let lines: String = (160..240).map(|number| format!("t{number},a,c|a\n")).collect();
    std::fs::write(&theirs, format!("task_id,model,attempts\n{lines}")).unwrap();
    let json = folder.path().join("out.json");
    let (theirs, out) = (theirs.to_str().unwrap(), json.to_str().unwrap());
    let arguments = ["--split", "test", "--protocol", "cascade", "--policy", "cascade", "--policy", "ensemble"];
    let (ok, stdout, stderr) = replay(
        folder.path(),
        &[&arguments[..], &["--decisions", theirs, "--seeds", "3", "--check-leaks", "--json", out]].concat(),
    );
    assert!(ok, "{stderr}");
    assert!(stdout.contains("best_chain") && stdout.contains("theirs"), "{stdout}");
    let reports = read(&json);
    let of = |policy: &str| {
        let reports = reports.as_array().unwrap().iter();
        reports.clone().find(|report| report["policy"] == policy).unwrap_or_else(|| panic!("no {policy}")).clone()
    };
    assert_eq!((&of("theirs")["attempts_mean"], &of("theirs")["protocol"]), (&Value::from(2.0), &"cascade".into()));
    // The ensemble knows nothing of what a failure says, and gives up sooner.
    for (policy, least) in [("cascade", 0.97), ("ensemble", 0.8)] {
        let (score, attempts) =
            (of(policy)["mean_score"].as_f64().unwrap(), of(policy)["attempts_mean"].as_f64().unwrap());
        assert!(score > least && (1.0..2.6).contains(&attempts), "{policy}: {score} in {attempts}");
    }
}

#[test]
fn what_does_not_fit_together_is_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path());
    for (arguments, expected) in [
        (&["--policy", "logreg"][..], "--warm"),
        (&["--policy", "cascade"], "--protocol cascade"),
        (&["--split", "test", "--warm", "test"], "cannot be known before and replayed"),
        (&["--warm", "train"], "--split"),
        (&["--split", "val"], "test, train"),
        (&["--policy", "fixed:d"], "it has: a, b, c"),
        (&["--rule", "some"], "measured or full"),
        (&["--order", "backwards"], "released or shuffled"),
        (&["--decisions", "/missing.csv"], "/missing.csv"),
    ] {
        let (ok, _, stderr) = replay(folder.path(), arguments);
        assert!(!ok && stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_released_metrics_come_out_to_the_printed_digit() {
    let Some(data) = std::env::var_os("POINTSMAN_DATA").filter(|data| !data.is_empty()) else {
        println!("skipped: POINTSMAN_DATA is not set, so there are no released metrics to compare with");
        return;
    };
    let data = PathBuf::from(data).join("coderouterbench");
    let (status, stdout, stderr) = output(pointsman().args(["bench", "anchors", "--data"]).arg(&data));
    assert!(status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("; 0 differ from the printed digits"), "{stdout}");
    println!("{stdout}");
}
