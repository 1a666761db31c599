//! `pointsman policy compare` and `pointsman replay --log`, as their users call them.

use std::{fs, path::Path, process::ExitStatus};

use serde_json::{Value, json};

use crate::{
    replay::{CONFIG, tasks},
    served::{Served, output, pointsman},
};

fn run(arguments: &[&str], folder: &Path) -> (ExitStatus, String, String) {
    let mut command = pointsman();
    // The user's data folder is empty.
    command.env("XDG_DATA_HOME", folder.join("home")).current_dir(folder).args(arguments);
    output(&mut command)
}

/// 3,000 rounds in which `good` is drawn in a fifth and is right in nine of ten, and `bad` in one of ten.
fn log(folder: &Path, change: impl Fn(u64, &mut Value)) {
    let mut text = String::new();
    for n in 0..3_000_u64 {
        // One round in five takes the good arm; whatever is taken, one answer in ten is the other way round.
        let (good, lucky) = (n % 5 == 0, n / 5 % 10 == 0);
        let p = if good { [0.2, 0.8] } else { [0.8, 0.2] };
        let a = if good { [1, 2] } else { [2, 1] };
        let mut line = json!({
            "_label_cost": -i32::from(good != lucky), "_label_probability": p[0], "_label_Action": a[0], "_labelIndex": a[0] - 1,
            "EventId": n.to_string(), "a": a, "p": p,
            "c": {"user": {"age": n % 9}, "_multi": [{"i": {"id": "good"}}, {"i": {"id": "bad"}}]}
        });
        change(n, &mut line);
        text += &format!("{line}\n");
    }
    fs::write(folder.join("log.dsjson"), text).unwrap();
}

#[test]
fn two_policies_are_compared_on_a_log_of_vowpal_wabbits() {
    let folder = tempfile::tempdir().unwrap();
    log(folder.path(), |_, _| {});
    let compare = ["policy", "compare", "fixed:good", "uniform", "--log", "log.dsjson", "--json", "found.json"];
    let (status, stdout, stderr) = run(&compare, folder.path());
    assert!(status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("A (fixed:good) is better than B (uniform)."), "{stdout}");
    assert!(stderr.contains("3000 rounds; a cost of -1 is a score of 1, of 0 a score of 0"), "{stderr}");
    let found: Value = serde_json::from_slice(&fs::read(folder.path().join("found.json")).unwrap()).unwrap();
    let interval = &found["interval"];
    // 0.9 less the mean of 0.9 and 0.1.
    assert!(interval["low"].as_f64() < Some(0.4) && interval["high"].as_f64() > Some(0.4), "{found}");
    assert_eq!((&found["verdict"], &found["a"]["ips"]["interval_kind"]), (&json!("a"), &json!("empirical_bernstein")));
    assert_eq!(found["a"]["miscalibrated"], json!([]));
    let (status, stdout, _) = run(&["policy", "compare", "uniform", "uniform", "--log", "log.dsjson"], folder.path());
    assert!(status.success() && stdout.contains("there is no difference"), "{stdout}");
    // A card's file, and a policy of it.
    fs::write(folder.path().join("mine.toml"), "name = \"mine\"\npolicy = \"fixed:bad\"\n").unwrap();
    fs::create_dir(folder.path().join("cards")).unwrap();
    fs::copy(folder.path().join("mine.toml"), folder.path().join("cards/mine.toml")).unwrap();
    for (b, cards) in [("mine.toml", "."), ("mine.toml:fixed:bad", "."), ("mine", "cards"), ("mine:fixed:bad", "cards")]
    {
        let compare = ["policy", "compare", "default:fixed:good", b, "--log", "log.dsjson", "--cards", cards];
        let (status, stdout, stderr) = run(&compare, folder.path());
        assert!(status.success() && stdout.contains("A (default:fixed:good) is better"), "{stdout}{stderr}");
    }
}

#[test]
fn a_log_is_replayed_with_intervals() {
    let folder = tempfile::tempdir().unwrap();
    log(folder.path(), |_, _| {});
    let replay = ["replay", "--log", "log.dsjson", "--policy", "fixed:good", "--alpha", "0.01", "--json", "found.json"];
    let (status, stdout, stderr) = run(&replay, folder.path());
    assert!(status.success() && stdout.contains("99 % interval"), "{stdout}{stderr}");
    let found: Value = serde_json::from_slice(&fs::read(folder.path().join("found.json")).unwrap()).unwrap();
    for estimator in ["ips", "snips", "dr"] {
        let interval = &found[0][estimator]["interval"];
        let has = |of: f64| interval["low"].as_f64() <= Some(of) && interval["high"].as_f64() >= Some(of);
        assert!(has(0.9) && !has(0.5), "{estimator}: {interval}");
    }
}

#[test]
fn logs_that_say_nothing_are_refused_and_doubtful_ones_told() {
    let folder = tempfile::tempdir().unwrap();
    let compare = |expected: &str| {
        let (status, stdout, stderr) =
            run(&["policy", "compare", "fixed:good", "uniform", "--log", "log.dsjson"], folder.path());
        assert!(stdout.contains(expected) || stderr.contains(expected), "{stdout}{stderr}");
        status.code()
    };
    log(folder.path(), |_, line| drop(line.as_object_mut().unwrap().remove("p")));
    assert_eq!(compare("log.dsjson:1:1: p is missing: without the probabilities"), Some(1));
    log(folder.path(), |_, line| {
        line["p"] = json!([1.0, 0.0]);
        line["_label_probability"] = json!(1.0);
    });
    assert_eq!(compare("this log cannot be evaluated: every round took its arm with probability 1"), Some(1));
    log(folder.path(), |_, line| {
        line["p"] = json!([0.5, 0.5]);
        line["_label_probability"] = json!(0.5);
    });
    assert_eq!(compare("warning: good was taken 600 times in 3000 verified rounds"), Some(0));
    log(folder.path(), |n, line| line["_label_cost"] = json!(if n == 1_999 { 4.0 } else { 0.0 }));
    assert_eq!(compare("log.dsjson:2000:"), Some(1));
    assert_eq!(compare("need --cost-range LOW,HIGH"), Some(1));
}

#[test]
fn what_is_missing_or_misspelt_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (status, _, stderr) = run(&["policy", "compare", "ensemble", "uniform"], folder.path());
    assert!(
        status.code() == Some(1) && stderr.contains("give --journal DIR") && stderr.contains("--log FILE"),
        "{stderr}"
    );
    log(folder.path(), |_, _| {});
    let run = |arguments: &[&str]| {
        let (status, _, stderr) = run(arguments, folder.path());
        (status.code(), stderr)
    };
    let (code, stderr) = run(&["policy", "compare", "ensemble", "ensembel", "--log", "log.dsjson"]);
    assert!(code == Some(1) && stderr.contains("ensembel is neither a policy nor a card"), "{stderr}");
    let (code, stderr) = run(&["policy", "compare", "a", "b", "--log", "log.dsjson", "--cost-range", "1,1"]);
    assert!(code == Some(64) && stderr.contains("the lower first"), "{stderr}");
    let (code, stderr) = run(&["replay", "--log", "log.dsjson", "--journal", "data"]);
    assert!(code == Some(64) && stderr.contains("cannot be used with"), "{stderr}");
    let (code, stderr) = run(&["replay", "--log", "log.dsjson", "--alpha", "1"]);
    assert!(code == Some(64) && stderr.contains("must be from"), "{stderr}");
}

#[tokio::test]
async fn two_policies_are_compared_on_a_running_daemons_journal() {
    let served = Served::new(CONFIG);
    served.stream("", tasks(0..150)).await;
    let data = served.folder.join("data");
    let (status, stdout, stderr) =
        run(&["policy", "compare", "ensemble", "uniform", "--journal", data.to_str().unwrap()], &served.folder);
    assert!(status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("A - B") && stdout.contains("150 verified rounds"), "{stdout}");
    // Its own export is a log as well: the same rounds, and the costs that money makes need a range.
    let export = served.folder.join("rounds.dsjson");
    let (status, _, stderr) = run(
        &[
            "journal",
            "export",
            "--format",
            "dsjson",
            "--data-dir",
            data.to_str().unwrap(),
            "--out",
            export.to_str().unwrap(),
        ],
        &served.folder,
    );
    assert!(status.success(), "{stderr}");
    let (status, stdout, stderr) = run(
        &["policy", "compare", "fixed:good", "uniform", "--log", export.to_str().unwrap(), "--cost-range", "-1,1"],
        &served.folder,
    );
    assert!(status.success() && stdout.contains("fixed:good: 150 verified rounds"), "{stdout}{stderr}");
}
