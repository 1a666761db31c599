//! `pointsman dataset`: what is said of a dataset, good and bad, and the lines that are made of it.

use std::{fs, path::Path};

use serde_json::Value;

use crate::served::{output, pointsman};

/// A table of RouterBench's kind, with a list of prices beside it.
pub fn written(folder: &Path, score: &str) {
    let table = format!(
        "sample_id,prompt,eval_name,a,b,a|total_cost,b|total_cost\n\
         mmlu-law.val.1,Which?,mmlu-law,1.0,0.5,0.0002,0.002\n\
         gsm.2,\"2+2?\nSay why.\",grade-school-math,0.0,{score},0.0001,0.001\n"
    );
    fs::write(folder.join("table.csv"), table).unwrap();
    let models = r#"{"models": [{"model": "b", "input_per_1m": 10, "output_per_1m": 20.5},
        {"model": "a", "input_per_1m": 1, "output_per_1m": 2}, {"model": "c", "input_per_1m": 1, "output_per_1m": 2}]}"#;
    fs::write(folder.join("models.json"), models).unwrap();
}

#[test]
fn check_says_what_is_in_a_dataset() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "1.0");
    let file = folder.path().join("table.csv");
    let (status, stdout, stderr) = output(pointsman().args(["dataset", "check"]).arg(&file));
    assert!(status.success() && stderr.is_empty(), "{stderr}");
    insta::assert_snapshot!(stdout);
    let (status, stdout, stderr) = output(pointsman().args(["dataset", "check", "--models", "a"]).arg(&file));
    assert!(status.success() && stdout.starts_with("table: routerbench, 2 tasks x 1 models"), "{stdout}{stderr}");
}

#[test]
fn what_is_wrong_is_told_with_its_place_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "1.5");
    let file = folder.path().join("table.csv");
    let place = "table.csv:3: column 5 (b): the score is 1.5, it must be from 0 to 1";
    for arguments in [
        &["dataset", "check"][..],
        &["dataset", "tasks", "--dataset"],
        &["replay", "--dataset"],
        &["train", "priors", "--dataset"],
    ] {
        let (status, stdout, stderr) = output(pointsman().args(arguments).arg(&file));
        assert!(status.code() == Some(1) && stdout.is_empty(), "{arguments:?}: {stdout}{stderr}");
        assert!(stderr.contains(place), "{arguments:?}: {stderr}");
    }
    let (status, _, stderr) = output(pointsman().args(["dataset", "check", "--format", "shared"]).arg(folder.path()));
    assert!(status.code() == Some(1) && stderr.contains("tasks.jsonl is missing"), "{stderr}");
    let (status, _, stderr) = output(pointsman().args(["dataset", "check", "--format", "vw"]).arg(folder.path()));
    assert!(status.code() == Some(64) && stderr.contains("coderouterbench"), "{stderr}");
    let (status, _, stderr) = output(pointsman().args(["replay", "--journal", "x", "--allow-mixed-prices"]));
    assert!(status.code() == Some(64) && stderr.contains("cannot be used with"), "{stderr}");
}

#[test]
fn tasks_with_a_prompt_become_lines_for_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "1.0");
    let file = folder.path().join("table.csv");
    let (status, stdout, stderr) = output(pointsman().args(["dataset", "tasks", "--dataset"]).arg(&file));
    assert!(status.success(), "{stderr}");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[1]["prompt"], &lines[0]["domain"]), (2, &"2+2?\nSay why.".into(), &"mmlu".into()));

    let tasks = "{\"task_id\": \"t\", \"split\": \"s\", \"dimension\": \"d\", \"prompt\": null}\n";
    fs::write(folder.path().join("tasks.jsonl"), tasks).unwrap();
    let results = "task_id,model,score,cost_usd\nt,a,1,0\nt,b,1,0\nt,c,1,0\n";
    fs::write(folder.path().join("results.csv"), results).unwrap();
    let (status, stdout, stderr) = output(pointsman().args(["dataset", "tasks", "--dataset"]).arg(folder.path()));
    assert!(status.success() && stdout.is_empty(), "{stdout}{stderr}");
    assert!(stderr.contains("1 tasks without a prompt are left out"), "{stderr}");
}
