//! Audit probes: a share of tasks is run on every arm, beside what clients wait for.

use std::{collections::BTreeMap, fs, path::Path};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    replay::replay,
    served::{Served, ndjson, output, pointsman, sum},
};

/// Tasks of which a tenth is chosen: about forty.
const TASKS: u64 = 400;

/// Three arms of which the policy takes one; the last takes `idle_ms` to answer.
fn config(audit: &str, idle_ms: u64) -> String {
    format!(
        "[policy]\nname = \"fixed:good\"\n[audit]\n{audit}\n[tenants.acme]\nusd_per_day = 100.0\n[domains.math]\n\
         [[arms]]\nid = \"good\"\nkind = \"scripted\"\ndefault_skill = 1.0\noutput_usd_per_1m = 1.0\n\
         [[arms]]\nid = \"bad\"\nkind = \"scripted\"\ndefault_skill = 0.0\noutput_usd_per_1m = 500.0\n\
         [[arms]]\nid = \"idle\"\nkind = \"scripted\"\ndefault_skill = 0.5\noutput_usd_per_1m = 500.0\nlatency_ms = {idle_ms}\n"
    )
}

/// Waits until the report says what it should; fails after thirty seconds.
async fn until(served: &Served, says: impl Fn(&Value) -> bool) -> Value {
    let mut report = Value::Null;
    for _ in 0..1_500 {
        report = served.get("/v1/regret").await.1;
        if says(&report) {
            return report;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("it never said so: audit {} audits {}", report["audit"], report["audits"]);
}

fn journal(folder: &Path, arguments: &[&str]) -> String {
    let mut command = pointsman();
    command.arg("journal").args(arguments).arg("--data-dir").arg(folder.join("data"));
    let (status, stdout, stderr) = output(&mut command);
    assert!(status.success(), "{arguments:?}: {stdout}{stderr}");
    stdout
}

/// The journal's events of one kind.
fn events(folder: &Path, kind: &str) -> Vec<Value> {
    let lines = journal(folder, &["export"]);
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].take());
    events.filter(|event| event["kind"] == kind).collect()
}

fn acme(n: u64) -> Value {
    let mut task = sum(n, 3);
    task["tenant"] = json!("acme");
    task
}

#[tokio::test]
async fn probed_tasks_run_on_every_arm_and_no_client_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let audit = "share = 0.1\nusd_per_day = 1000.0\nconcurrency = 64\ndeadline_ms = 3_600_000";

    // One arm takes an hour, and every client has its answer all the same.
    let served = Served::in_folder(&config(audit, 3_600_000), folder);
    let answers = served.stream("", ndjson((0..TASKS).map(acme))).await;
    assert!(answers.len() as u64 == TASKS && answers.iter().all(|answer| answer["arm"] == "good"));
    served.learnt(TASKS).await;
    let report = until(&served, |report| {
        let chosen = report["audits"]["chosen"].as_u64().unwrap();
        report["audit"]["under_way"] == chosen && report["audit"]["held_usd"].as_f64().unwrap() > 0.19 * chosen as f64
    })
    .await;
    let chosen = report["audits"]["chosen"].as_u64().unwrap();
    assert!((10..=100).contains(&chosen), "{chosen} of {TASKS}");
    assert_eq!((&report["audits"]["measured"], &report["audits"]["rounds"]), (&json!(0), &json!(TASKS)));
    // A probe is announced in the journal before an arm runs.
    let begun = |folder: &Path| events(folder, "probed");
    while (begun(folder).len() as u64) < chosen {
        tokio::task::yield_now().await;
    }
    served.kill();
    assert!(journal(folder, &["verify"]).contains("Sound"));
    let held: u64 = begun(folder).iter().map(|event| event["probe"]["held_nano_usd"].as_u64().unwrap()).sum();

    // What a crash cut off is named, and all that it had put aside counts as spent.
    let served = Served::in_folder(&config(audit, 0), folder);
    let report = until(&served, |report| report["audits"]["cut_off"] == chosen).await;
    assert_eq!((&report["audits"]["measured"], &report["audit"]["under_way"]), (&json!(0), &json!(0)));
    let spent = report["audit"]["spent_today_usd"].as_f64().unwrap();
    assert!((spent - held as f64 / 1e9).abs() < 1e-6, "{spent} instead of {held}");

    let mut answers = answers;
    answers.extend(served.stream("", ndjson((TASKS..2 * TASKS).map(acme))).await);
    served.learnt(2 * TASKS).await;
    let report = until(&served, |report| {
        let audits = &report["audits"];
        audits["measured"].as_u64().unwrap() + audits["cut_off"].as_u64().unwrap() == audits["chosen"]
    })
    .await;
    let measured = report["audits"]["measured"].as_u64().unwrap();
    assert!(measured >= 10, "{report}");
    let means: BTreeMap<_, _> =
        report["audits"]["arms"].as_array().unwrap().iter().map(|arm| (arm["arm"].as_str().unwrap(), arm)).collect();
    assert!(means.values().all(|arm| arm["probes"] == measured), "{means:?}");
    assert!(means["good"]["score_mean"].as_f64().unwrap() > 0.95 && means["bad"]["score_mean"].as_f64().unwrap() < 0.3);
    let measures: BTreeMap<_, _> = report["measures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| ((one["kind"].as_str().unwrap(), one["target"].as_str().unwrap()), one))
        .collect();
    let per_task = &measures[&("audited", "best_per_task")];
    assert_eq!((&per_task["rounds"], &per_task["interval"]), (&json!(2 * TASKS), &Value::Null));
    assert!(per_task["cum_regret"].as_f64().unwrap() < 20.0, "the best arm was taken: {per_task}");
    assert!(measures[&("audited", "best_fixed_per_domain")]["cum_regret"].as_f64().unwrap().abs() < 20.0);
    assert!(
        measures.contains_key(&("exact", "best_expected_per_task"))
            && measures.contains_key(&("estimated", "best_fixed_per_domain"))
    );
    let (_, tenants) = served.get("/v1/tenants").await;
    let paid: f64 = answers.iter().map(|answer| answer["cost_usd"].as_f64().unwrap()).sum();
    let charged = tenants["tenants"][0]["spent_today_usd"].as_f64().unwrap();
    assert!((charged - paid).abs() < 1e-5, "{charged} for answers of {paid}");
    let metrics = reqwest::get(format!("{}/metrics", served.url)).await.unwrap().text().await.unwrap();
    assert!(metrics.contains(&format!("pointsman_audits_total{{end=\"measured\"}} {measured}")), "{metrics}");
    assert!(served.stop().success());

    for event in events(folder, "audited").iter().filter(|event| event["audited"]["end"] == "measured") {
        let arms = event["audited"]["arms"].as_array().unwrap();
        let names: Vec<_> = arms.iter().map(|arm| arm["arm"].as_str().unwrap()).collect();
        assert_eq!(names, ["good", "bad", "idle"], "each once: {event}");
        let known = ["arm", "p", "cost_usd", "judged"];
        assert!(arms.iter().all(|arm| arm.as_object().unwrap().keys().all(|key| known.contains(&key.as_str()))));
    }
    the_journal_stays_what_it_was(folder);
}

/// Replayed, imported, compacted and erased, with probes in it.
fn the_journal_stays_what_it_was(folder: &Path) {
    let (status, stdout, stderr, found) = replay(folder, &[]);
    assert!(status.success() && found["again"] == found["decisions"], "{stdout}{stderr}");
    assert_eq!(found["checkpoint"]["state_hash"], found["checkpoint"]["replayed_hash"], "{stdout}");
    let before = found["state_hash"].clone();

    let lines = folder.join("lines.jsonl");
    journal(folder, &["export", "--out", lines.to_str().unwrap()]);
    let copy = folder.join("copy");
    fs::create_dir(&copy).unwrap();
    journal(&copy, &["import", lines.to_str().unwrap()]);
    assert_eq!(replay(&copy, &[]).3["state_hash"], before);

    let sound = |folder: &Path| assert!(journal(folder, &["verify"]).contains("Sound"));
    journal(folder, &["erase", "--tenant", "acme"]);
    sound(folder);
    journal(folder, &["compact", "--keep", "0", "--keep-rounds", "150"]);
    sound(folder);
    assert_eq!(replay(folder, &[]).3["state_hash"], before, "what was measured outlives the rounds");
    let left = events(folder, "audited").len();
    assert!(left > 0 && left < events(&copy, "audited").len(), "{left}");
}

#[tokio::test]
async fn the_first_probe_that_the_cap_refuses_closes_the_day() {
    let folder = tempfile::tempdir().unwrap();
    // Two arms of which a call is put aside at ten cents each.
    let config = config("share = 0.1\nusd_per_day = 0.15", 0);
    let served = Served::in_folder(&config, folder.path());
    assert_eq!(served.stream("", ndjson((0..TASKS).map(acme))).await.len() as u64, TASKS);
    let report =
        until(&served, |report| report["audits"]["over_cap"].as_u64().is_some_and(|refused| refused > 0)).await;
    assert_eq!((&report["audit"]["open"], &report["audit"]["spent_today_usd"]), (&json!(false), &json!(0.0)));
    assert_eq!((&report["audits"]["measured"], &report["audits"]["cost_usd"]), (&json!(0), &json!(0.0)));
    served.kill();
    assert!(events(folder.path(), "probed").is_empty(), "none was begun");
    let served = Served::in_folder(&config, folder.path());
    let rounds = served.get("/v1/regret").await.1["audits"]["rounds"].clone();
    served.stream("", ndjson((TASKS..TASKS + 50).map(acme))).await;
    let report = served.learnt(TASKS + 50).await;
    assert_eq!((&report["audit"]["open"], &report["audits"]["rounds"]), (&json!(false), &rounds), "no coin is thrown");
}

#[tokio::test]
async fn chats_are_probed_and_what_callers_run_themselves_is_not() {
    let served = Served::new(&config("share = 0.1\nusd_per_day = 1000.0", 0));
    for n in 0..100 {
        assert_eq!(served.post("/v1/route", &sum(n, 2)).await.0, 200);
    }
    let chat = |stream: bool| {
        let body = json!({"model": "auto:math", "stream": stream, "messages": [{"role": "user", "content": "What is 40 + 2?"}]});
        let served = &served;
        async move {
            let request = reqwest::Client::new().post(format!("{}/v1/chat/completions", served.url)).json(&body);
            let response = request.send().await.unwrap();
            assert!(response.status().is_success() && !response.text().await.unwrap().is_empty());
        }
    };
    for batch in 0..10 {
        join_all((0..30).map(|_| chat(batch % 2 == 0))).await;
    }
    let report = until(&served, |report| {
        let audits = &report["audits"];
        report["rounds"] == 300 && audits["measured"].as_u64().is_some_and(|measured| audits["chosen"] == measured)
    })
    .await;
    assert_eq!(report["audits"]["rounds"], 300, "chats alone: {}", report["audits"]);
    assert!(report["audits"]["measured"].as_u64().unwrap() >= 5, "{}", report["audits"]);
}
