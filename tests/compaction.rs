//! `pointsman journal compact`: old rounds go, and nobody can tell it from what is decided later.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    replay::{CONFIG, lived, replay, tasks},
    served::{Served, output, pointsman},
};

/// The last rounds that memory is filled from.
const KEPT: u64 = 60;

fn compact(folder: &Path, arguments: &[&str]) -> String {
    let mut command = pointsman();
    command.args(["journal", "compact", "--keep", "0", "--keep-rounds", &KEPT.to_string()]).args(arguments);
    let (status, stdout, stderr) = output(command.arg("--data-dir").arg(folder.join("data")));
    assert!(status.success(), "{stdout}{stderr}");
    stdout
}

fn sound(folder: &Path) {
    let (status, stdout, stderr) =
        output(pointsman().args(["journal", "verify", "--data-dir"]).arg(folder.join("data")));
    assert!(status.success(), "{stdout}{stderr}");
}

/// The hash of all that was learnt, and the report of the replay that found it.
fn state(folder: &Path) -> (String, Value) {
    let (status, stdout, stderr, found) = replay(folder, &[]);
    assert!(status.success(), "{stdout}{stderr}");
    (found["state_hash"].as_str().unwrap().to_owned(), found)
}

fn bytes(folder: &Path) -> u64 {
    fs::metadata(folder.join("data/journal.sqlite")).unwrap().len()
}

/// What is a fold of the journal, apart from the base.
fn lose_folds(folder: &Path) {
    fs::remove_file(folder.join("data/checkpoint.json")).unwrap();
    fs::remove_dir_all(folder.join("data/memory")).unwrap();
}

/// Promotes the other card and goes on a little.
async fn go_on(folder: &Path) -> Value {
    let served = Served::in_folder(CONFIG, folder);
    let report = served.get("/v1/regret").await.1;
    let (status, _) = served.post("/v1/policies/promote", &json!({"card": "linear"})).await;
    assert_eq!(status, 200);
    assert!(served.stop().success());
    report
}

#[tokio::test]
async fn what_was_learnt_outlives_the_rounds_that_taught_it() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, whole) = (folder.path(), whole.path());
    lived(folder).await;
    assert!(Command::new("cp").arg("-r").arg(folder.join(".")).arg(whole).status().unwrap().success());
    let (before, size) = (state(folder).0, bytes(folder));

    let would = compact(folder, &["--dry-run"]);
    assert!(would.contains("would go") && bytes(folder) == size, "{would}");
    let done = compact(folder, &[]);
    assert!(done.contains("kept as one state") && done.contains("before,"), "{done}");
    assert!(compact(folder, &[]).contains("Nothing to take out"));
    sound(folder);
    let (after, report) = state(folder);
    assert_eq!(after, before, "what is left and the base give the same state as all of it");
    assert!(report["left_out"]["the state that decided was compacted since"].as_u64().unwrap() > 0, "{report}");
    assert!(report["again"].as_u64().unwrap() > 20 && report["again"] == report["equal"], "{report}");

    // Also where nothing else is left, and for a policy that acted before.
    lose_folds(folder);
    let (ours, theirs) = (go_on(folder).await, go_on(whole).await);
    for field in ["kind", "rounds", "reward_sum", "cum_regret", "cost_usd", "series", "arms", "domains", "abandoned"] {
        assert_eq!(ours[field], theirs[field], "{field}");
    }
    assert_eq!(ours["memory"]["entries"], KEPT);
    assert_eq!(state(folder).0, state(whole).0, "the promoted policy knows what it learnt before");

    // And again, later.
    let served = Served::in_folder(CONFIG, folder);
    served.stream("", tasks(500..550)).await;
    assert!(served.stop().success());
    let before = state(folder).0;
    assert!(compact(folder, &[]).contains("kept as one state"));
    sound(folder);
    lose_folds(folder);
    assert_eq!(state(folder).0, before);
    let served = Served::in_folder(CONFIG, folder);
    assert_eq!(served.get("/v1/regret").await.1["memory"]["entries"], KEPT);
}

#[tokio::test]
async fn young_rounds_and_those_that_wait_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let served = Served::in_folder(CONFIG, folder);
    let (_, waits) = served.post("/v1/route", &crate::served::sum(1, 2)).await;
    served.stream("", tasks(0..80)).await;
    let mut command = pointsman();
    command.args(["journal", "compact", "--keep", "0", "--data-dir"]).arg(folder.join("data"));
    let (status, _, stderr) = output(&mut command);
    assert!(!status.success() && stderr.contains("stop it first"), "{stderr}");
    assert!(served.stop().success());
    let young = compact(folder, &["--keep", "1"]);
    assert!(young.contains("Nothing to take out"), "{young}");
    assert!(compact(folder, &[]).contains("kept as one state"));
    let served = Served::in_folder(CONFIG, folder);
    let late = json!({"decision_id": waits["decision_id"], "score": 1.0});
    let (status, answer) = served.post("/v1/feedback", &late).await;
    assert_eq!((status, &answer["learnt"]), (200, &json!(true)), "its decision waited: {answer}");
    served.learnt(81).await;
}
