//! A few kills at random moments under mixed load, and that the harness sees what goes wrong; `bench/run.sh kill` does a
//! hundred kills.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};

use crate::crash::{self, Harm, Plan, Report};

async fn report(plan: Plan) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let report = crash::run(&plan, folder.path()).await;
    println!("{report}");
    report
}

fn plan(kills: u64, seed: u64, harm: Option<Harm>) -> Plan {
    // Fetches the model.
    crate::served::pointsman();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_pointsman"));
    Plan { program, kills, seed, life_ms: 900, in_checkpoint: 0, harm }
}

/// Two lives, one stopped and one killed, and then the data folder is harmed.
async fn harmed(harm: Harm) -> Report {
    report(plan(1, 3, Some(harm))).await
}

/// Runs SQL on a journal that no daemon has open.
fn change(data: &Path, sql: impl Into<String>) {
    let options = SqliteConnectOptions::new().filename(data.join("journal.sqlite"));
    let sql = sqlx::AssertSqlSafe(sql.into());
    let change = async move {
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    };
    // The harness is in the middle of its own runtime.
    std::thread::spawn(move || tokio::runtime::Runtime::new().unwrap().block_on(change)).join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_doubled_in_a_few_kills_and_the_state_is_the_journals() {
    let report = report(plan(5, 12, None)).await;
    assert!(report.faults.is_empty(), "{report}");
    assert_eq!(report.kills(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_reports_an_acknowledged_outcome_that_is_gone() {
    let report = harmed(|data, acknowledged| {
        let id = acknowledged.replace('-', "");
        change(data, format!("DELETE FROM events WHERE kind = 'ran' AND decision_id = x'{id}'"));
    })
    .await;
    assert!(report.faults.lost > 0 && report.faults.doubled == 0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_reports_an_outcome_that_is_there_twice() {
    // Without the constraints that forbid it.
    let report = harmed(|data, _| {
        change(
            data,
            "CREATE TABLE copy AS SELECT * FROM events;
             INSERT INTO copy SELECT (SELECT max(seq) + 1 FROM events), at_ms, decision_id, once, learns, body, embedding, kind,
                 model, packed, sum FROM events WHERE kind = 'ran' ORDER BY seq DESC LIMIT 1;
             DROP TABLE events;
             ALTER TABLE copy RENAME TO events;",
        );
    })
    .await;
    assert!(report.faults.doubled > 0, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_reports_a_record_that_was_changed() {
    let report = harmed(|data, _| {
        change(data, "UPDATE events SET at_ms = at_ms + 1 WHERE seq = (SELECT max(seq) FROM events)");
    })
    .await;
    assert!(!report.faults.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_reports_a_recovered_state_that_is_not_the_journals() {
    let report = harmed(|data, _| {
        let path = data.join("checkpoint.json");
        let text = fs::read_to_string(&path).unwrap();
        let (header, state) = text.split_once('\n').unwrap();
        let (mut header, mut state): (Value, Value) =
            (serde_json::from_str(header).unwrap(), serde_json::from_str(state).unwrap());
        state["known"]["learnt_rounds"] = (state["known"]["learnt_rounds"].as_u64().unwrap() + 1).into();
        let state = state.to_string();
        header["digest"] = blake3::hash(state.as_bytes()).to_hex().as_str().into();
        fs::write(path, format!("{header}\n{state}\n")).unwrap();
    })
    .await;
    assert!(report.faults.hashes > 0, "{report}");
}
