//! The journal taken elsewhere and back, looked at, and followed, while its daemon runs.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::served::{CONFIG, Served, ndjson, output, pointsman, sum};

/// A command on a data folder: whether it succeeded, what it printed, what it said beside it.
fn journal(data: &Path, arguments: &[&str]) -> (bool, String, String) {
    let mut command = pointsman();
    command.arg("journal").args(arguments).arg("--data-dir").arg(data);
    let (status, stdout, stderr) = output(&mut command);
    (status.success(), stdout, stderr)
}

async fn state(served: &Served) -> (Value, Value) {
    let (policies, report) = (served.get("/v1/policies").await.1, served.get("/v1/regret").await.1);
    assert!(policies["state_hash"].is_string(), "{policies}");
    (policies["state_hash"].clone(), report["rounds"].clone())
}

#[tokio::test]
async fn a_journal_exported_beside_its_daemon_is_imported_to_the_same_state() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..40).map(|n| sum(n, 5)))).await;
    served.learnt(40).await;
    let (data, copy) = (folder.path().join("data"), other.path().join("data"));
    let [first, second] = ["first.jsonl.gz", "second.jsonl"].map(|name| folder.path().join(name));
    let (success, _, said) = journal(&data, &["export", "--out", first.to_str().unwrap()]);
    assert!(success && said.contains("events exported"), "{said}");
    assert!(!folder.path().join("first.jsonl.gz.part").exists());
    let (success, said, stderr) = journal(&copy, &["import", first.to_str().unwrap()]);
    assert!(success && said.contains("0 were there already"), "{said}{stderr}");

    // The copy falls behind, and catches up.
    served.stream("", ndjson((40..60).map(|n| sum(n, 5)))).await;
    served.learnt(60).await;
    let expected = state(&served).await;
    let (success, text, stderr) = journal(&data, &["export"]);
    assert!(success, "{stderr}");
    fs::write(&second, &text).unwrap();
    let (success, _, said) = journal(&data, &["import", second.to_str().unwrap()]);
    assert!(!success && said.contains("used by another pointsman"), "{said}");
    assert!(served.stop().success());
    let (success, said, stderr) = journal(&copy, &["import", second.to_str().unwrap()]);
    assert!(success && !said.contains(", 0 were there already"), "{said}{stderr}");
    assert!(journal(&copy, &["export"]).1 == text, "it exports the same lines");

    let served = Served::in_folder(CONFIG, other.path());
    served.learnt(60).await;
    assert_eq!(state(&served).await, expected);
}

#[tokio::test]
async fn a_file_that_was_cut_off_leaves_no_journal() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..5).map(|n| sum(n, 5)))).await;
    let (whole, cut) = (other.path().join("whole.jsonl"), other.path().join("cut.jsonl"));
    let (data, copy) = (folder.path().join("data"), other.path().join("data"));
    assert!(journal(&data, &["export", "--out", whole.to_str().unwrap()]).0);
    let text = fs::read_to_string(&whole).unwrap();
    fs::write(&cut, &text[..text.len() - 3_000]).unwrap();
    let (success, _, said) = journal(&copy, &["import", cut.to_str().unwrap()]);
    assert!(!success && said.contains("cut off after line") && said.contains("no journal before"), "{said}");
    assert!(!copy.join("journal.sqlite").exists());
    let (success, said, stderr) = journal(&copy, &["import", whole.to_str().unwrap()]);
    assert!(success && copy.join("journal.sqlite").exists(), "{said}{stderr}");

    // What was folded from another journal is in the way of a new one.
    fs::remove_file(copy.join("journal.sqlite")).unwrap();
    fs::write(copy.join("checkpoint.json"), "{}").unwrap();
    let (success, _, said) = journal(&copy, &["import", whole.to_str().unwrap()]);
    assert!(!success && said.contains("checkpoint.json away"), "{said}");
}

#[tokio::test]
async fn a_running_journal_is_followed_until_ctrl_c() {
    let served = Served::new(CONFIG);
    served.stream("", ndjson((0..3).map(|n| sum(n, 5)))).await;
    let data = served.folder.join("data");
    let mut follow = pointsman();
    follow.args(["journal", "tail", "-n", "1", "--follow", "--json", "--data-dir"]).arg(&data);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let last = next()["seq"].as_i64().unwrap();
    served.stream("", ndjson([sum(77, 1)])).await;
    let decided = next();
    assert_eq!((&decided["seq"], &decided["event"]["task"]["id"]), (&(last + 1).into(), &"sum-77-1".into()));
    assert!(decided["embedding"].is_string());
    assert_eq!((&next()["event"]["kind"], &next()["event"]["kind"]), (&"ran".into(), &"judged".into()));
    assert!(Command::new("kill").args(["-INT", &follow.id().to_string()]).status().unwrap().success());
    assert!(follow.wait().unwrap().success());

    let (success, said, stderr) = journal(&data, &["tail", "-n", "3"]);
    assert!(success, "{stderr}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 3);
    for (line, words) in
        lines.iter().zip([["decided", "math", " p "], ["ran", "done", "usd"], ["judged", "score ", " learnt"]])
    {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let served = Served::new(CONFIG);
    served.stream("", ndjson((0..200).map(|n| sum(n, 5)))).await;
    for arguments in [&["export"][..], &["tail", "-n", "1000", "--json"]] {
        let mut command = pointsman();
        command.arg("journal").args(arguments).arg("--data-dir").arg(served.folder.join("data"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut start = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut start).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

#[tokio::test]
async fn rounds_are_exported_as_a_table_and_for_vowpal_wabbit() {
    let served = Served::new(CONFIG);
    served.stream("", ndjson((0..20).map(|n| sum(n, 5)))).await;
    served.post("/v1/route", &sum(99, 1)).await;
    served.learnt(20).await;
    let data = served.folder.join("data");
    let table = served.folder.join("rounds.parquet");
    let (success, _, said) = journal(&data, &["export", "--format", "parquet", "--out", table.to_str().unwrap()]);
    assert!(success && said.contains("21 rounds exported"), "{said}");
    let bytes = fs::read(&table).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let (success, text, said) = journal(&data, &["export", "--format", "dsjson", "--no-embedding"]);
    assert!(
        success && said.contains("20 verified rounds exported") && said.contains("1 left out: nobody has said"),
        "{said}"
    );
    let examples: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(examples.len(), 20);
    for example in &examples {
        assert_eq!(example["_label_probability"], example["p"][0]);
        assert_eq!(example["c"]["_multi"].as_array().unwrap().len(), 2);
        assert!(example["c"].get("Embedding").is_none());
    }
    let (success, text, _) = journal(&data, &["export", "--format", "dsjson", "--domain", "text"]);
    assert!(success && text.is_empty());
}

#[test]
fn what_cannot_be_exported_is_refused_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let (success, _, said) = journal(folder.path(), &["export"]);
    assert!(!success && said.contains("there is no journal") && said.contains("--data-dir"), "{said}");
    let made = folder.path().join("empty.jsonl");
    fs::write(&made, "{\"format\":\"pointsman-journal\",\"version\":1,\"after\":0}\n").unwrap();
    let (success, _, said) = journal(folder.path(), &["import", made.to_str().unwrap()]);
    assert!(!success && said.contains("cut off after line 1"), "{said}");
    let (success, _, said) = journal(folder.path(), &["export", "--from", "tomorrow"]);
    assert!(!success && said.contains("milliseconds since 1970"), "{said}");
    for command in ["tail", "export", "import"] {
        let (success, help, _) = journal(folder.path(), &[command, "--help"]);
        assert!(
            success && help.contains("Examples:") && help.contains(&format!("pointsman journal {command}")),
            "{help}"
        );
    }
}
