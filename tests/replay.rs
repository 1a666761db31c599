//! `pointsman replay --journal`: a daemon's decisions made again, and other policies estimated from them.

use std::{fs, path::Path, process::ExitStatus};

use pointsman::{
    journal::{Event, JournalReader, Stored},
    round::Decision,
};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};

use crate::served::{Served, ndjson, output, pointsman, sum};

pub const CONFIG: &str = r#"
[domains.math]
[domains.text]

[[arms]]
id = "good"
kind = "scripted"
default_skill = 0.9
input_usd_per_1m = 1.0
output_usd_per_1m = 2.0

[[arms]]
id = "fair"
kind = "scripted"
default_skill = 0.5

[[arms]]
id = "bad"
kind = "scripted"
default_skill = 0.1
"#;
const LINEAR: &str = "name = \"linear\"\npolicy = \"budget:lin_ucb\"\n[budget]\nusd_per_task = 0.0001\n";

pub fn replay(folder: &Path, arguments: &[&str]) -> (ExitStatus, String, String, Value) {
    let json = folder.join("found.json");
    let _ = fs::remove_file(&json);
    let mut command = pointsman();
    command.args(["replay", "--journal"]).arg(folder.join("data")).args(arguments).arg("--json").arg(&json);
    let (status, stdout, stderr) = output(&mut command);
    let found = fs::read(&json).ok().map_or(Value::Null, |found| serde_json::from_slice(&found).unwrap());
    (status, stdout, stderr, found)
}

/// Tasks in both domains, some without one.
pub fn tasks(range: std::ops::Range<u64>) -> String {
    ndjson(range.map(|n| {
        let mut task = sum(n, 3 * n);
        match n % 5 {
            0 => task["domain"] = json!("text"),
            1 => drop(task.as_object_mut().unwrap().remove("domain")),
            _ => task["session"] = json!(format!("session-{}", n % 3)),
        }
        task
    }))
}

/// Routed tasks with feedback at once, and what was left for later.
async fn routed(served: &Served, range: std::ops::Range<u64>) -> Vec<Value> {
    let mut later = vec![];
    for n in range {
        let (_, routed) = served.post("/v1/route", &sum(n, 7)).await;
        let id = routed["decision_id"].clone();
        let thumbs = json!({"decision_id": id, "score": f64::from(u8::from(n % 2 == 0)), "source": "thumbs"});
        let client = json!({"decision_id": id, "score": 0.25 * (n % 5) as f64, "cost_usd": 0.0002});
        served.post("/v1/feedback", if n % 3 == 0 { &thumbs } else { &client }).await;
        if n % 3 == 0 {
            later.push(client);
        } else {
            later.push(thumbs);
        }
    }
    later
}

/// About 190 tasks: streams beside feedback, a trial, a promotion and a restart in between.
pub async fn lived(folder: &Path) {
    fs::create_dir_all(folder.join("policies")).unwrap();
    fs::write(folder.join("policies/linear.toml"), LINEAR).unwrap();
    let served = Served::in_folder(CONFIG, folder);
    let (_, later) = tokio::join!(served.stream("", tasks(0..60)), routed(&served, 1000..1015));
    let (status, _) = served.post("/v1/policies/shadow", &json!({"card": "linear"})).await;
    assert_eq!(status, 200);
    for said in &later {
        assert_eq!(served.post("/v1/feedback", said).await.0, 200);
    }
    served.stream("", tasks(60..90)).await;
    let promote = async {
        let (status, report) = served.post("/v1/policies/promote", &json!({"card": "linear"})).await;
        assert_eq!((status, report["champion"]["name"].as_str()), (200, Some("budget:lin_ucb")), "{report}");
    };
    tokio::join!(served.stream("", tasks(90..130)), promote);
    assert!(served.stop().success());
    let served = Served::in_folder(CONFIG, folder);
    tokio::join!(served.stream("", tasks(130..160)), routed(&served, 1015..1025));
    let (status, _) = served.post("/v1/policies/rollback", &json!({})).await;
    assert_eq!(status, 200);
    served.stream("", tasks(160..170)).await;
    assert!(served.stop().success());
}

#[tokio::test]
async fn every_decision_of_a_journal_is_made_again_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    lived(folder.path()).await;
    let (status, stdout, stderr, found) = replay(folder.path(), &[]);
    assert!(status.success(), "{stdout}{stderr}");
    assert_eq!((&found["decisions"], &found["left_out"]), (&json!(195), &json!({})), "{stdout}");
    for count in ["again", "equal"] {
        assert_eq!(found[count], 195, "{stdout}");
    }
    for what in ["pmf", "arm", "propensity", "voters", "shadow", "policy", "features"] {
        assert_eq!(found["compared"][what], 195, "{what}: {stdout}");
    }
    assert!(found["compared"]["domains_found"].as_u64().unwrap() > 0, "{stdout}");
    assert_eq!(found["compared"]["domain"], found["compared"]["domains_found"], "{stdout}");
    let checkpoint = &found["checkpoint"];
    assert_eq!(checkpoint["state_hash"], checkpoint["replayed_hash"], "{stdout}");
    assert_eq!(checkpoint["at"], found["at"], "a daemon that stopped has kept all: {stdout}");
    let deciding = policies_of(folder.path()).await;
    for name in ["budget:lin_ucb", "affinity:new_arm:ensemble"] {
        assert!(deciding.iter().any(|deciding| deciding == name), "{deciding:?}");
    }

    // What others would have brought.
    let (status, stdout, stderr, found) =
        replay(folder.path(), &["--policy", "uniform", "--policy", "fixed:good", "--policy", "fixed:bad"]);
    assert!(status.success() && stdout.contains("(as logged)"), "{stdout}{stderr}");
    let value = |policy: usize, estimator: &str| found[policy][estimator]["value"].as_f64();
    // The three last thumbs of routed tasks were all that was said of those.
    let rounds = ["rounds", "weak", "unscored"].map(|key| found[0][key].as_u64().unwrap());
    assert_eq!((rounds, &found[0]["refused"]["rounds"]), ([192, 18, 0], &json!(0)));
    // Of the bad arm too few rounds tell to say more than that there is a value.
    assert!(value(1, "snips") > Some(0.5) && value(2, "snips").is_some(), "{stdout}");
    assert!(stdout.contains("warning"), "so few rounds tell little: {stdout}");
    let (status, _, stderr, _) = replay(folder.path(), &["--policy", "fixed:gone"]);
    assert!(!status.success() && stderr.contains("fixed:gone failed on decision"), "{stderr}");

    // A state that came from elsewhere.
    let checkpoint = folder.path().join("data/checkpoint.json");
    let text = fs::read_to_string(&checkpoint).unwrap();
    fs::write(&checkpoint, &text[..text.len() - 10]).unwrap();
    let (status, stdout, ..) = replay(folder.path(), &[]);
    assert!(status.success() && stdout.contains("no checkpoint was compared: it is damaged"), "{stdout}");

    // A record of before decisions named their state.
    let file = folder.path().join("data/journal.sqlite");
    alter(&file, 50, |decision| decision.state_at = 0).await;
    let (status, stdout, _, found) = replay(folder.path(), &[]);
    assert!(status.success() && stdout.contains("1 could not be made again: it is of a version"), "{stdout}");
    assert_eq!((&found["again"], &found["equal"]), (&json!(194), &json!(194)));

    let (seq, decision) = alter(&file, 100, |decision| decision.pmf[2].p += 1e-9).await;
    let (status, stdout, stderr, found) = replay(folder.path(), &[]);
    assert_eq!(status.code(), Some(1), "{stdout}");
    assert!(stderr.contains("differs from the journal"), "{stderr}");
    assert!(stdout.contains(&format!("decision {decision} (event {seq}) differs:\n  pmf: ")), "{stdout}");
    assert_eq!((&found["again"], &found["equal"], &found["compared"]["arm"]), (&json!(194), &json!(193), &json!(194)));
}

/// Every policy that decided.
async fn policies_of(folder: &Path) -> Vec<String> {
    let reader = JournalReader::open_recorded(&folder.join("data/journal.sqlite")).await.unwrap();
    let events = reader.after(0, 10_000).await.unwrap();
    reader.close_reader().await;
    let policy = |event: Event| match event {
        Event::Decided { decision, .. } => Some(decision.policy.name),
        _ => None,
    };
    events.into_iter().filter_map(|stored| policy(stored.event)).collect()
}

/// Changes the nth decision in its record, which is written as JSON without a checksum, as older versions did.
async fn alter(file: &Path, nth: usize, change: impl FnOnce(&mut Decision)) -> (i64, String) {
    let reader = JournalReader::open_recorded(file).await.unwrap();
    let events = reader.after(0, 10_000).await.unwrap();
    reader.close_reader().await;
    let mut decided = events.into_iter().filter(|stored| matches!(stored.event, Event::Decided { .. }));
    let Stored { seq, mut event, .. } = decided.nth(nth).unwrap();
    let Event::Decided { decision, .. } = &mut event else { unreachable!() };
    change(decision);
    let id = decision.id.to_string();
    let mut connection = SqliteConnectOptions::new().filename(file).connect().await.unwrap();
    sqlx::query("UPDATE events SET body = ?, packed = NULL, sum = NULL WHERE seq = ?")
        .bind(serde_json::to_string(&event).unwrap())
        .bind(seq)
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    (seq, id)
}

#[tokio::test]
async fn a_running_daemons_journal_is_replayed_beside_it() {
    let served = Served::new(CONFIG);
    served.stream("", tasks(0..20)).await;
    let (status, stdout, stderr, found) = replay(&served.folder, &[]);
    assert!(status.success(), "{stdout}{stderr}");
    assert_eq!((&found["again"], &found["equal"]), (&json!(20), &json!(20)), "{stdout}");
    assert!(stdout.contains("no checkpoint was compared: there is none"), "{stdout}");
}

#[test]
fn a_dataset_and_a_journal_exclude_each_other() {
    let run = |arguments: &[&str]| {
        let (status, _, stderr) = output(pointsman().arg("replay").args(arguments));
        (status.code(), stderr)
    };
    let (code, stderr) = run(&["--dataset", "a", "--journal", "b"]);
    assert!(code == Some(64) && stderr.contains("cannot be used with"), "{stderr}");
    let (code, stderr) = run(&[]);
    assert!(code == Some(64) && stderr.contains("--dataset"), "{stderr}");
    let (code, stderr) = run(&["--journal", "b", "--seeds", "3"]);
    assert!(code == Some(64) && stderr.contains("--seeds"), "{stderr}");
    let folder = tempfile::tempdir().unwrap();
    let (code, stderr) = run(&["--journal", folder.path().to_str().unwrap()]);
    assert!(code == Some(1) && stderr.contains("there is no journal.sqlite"), "{stderr}");
}
