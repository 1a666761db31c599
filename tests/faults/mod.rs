//! What breaks underneath the daemon, and what it does then: nothing acknowledged is lost in silence, and whoever has to
//! mend it reads what is wrong and what to do.
//!
//! Each test prints one line of a table (`bench/run.sh faults`). Those that need root and a mount namespace of their own
//! are left out elsewhere, and say so.

mod damage;
mod files;
mod mounts;
mod storage;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    daemon::Daemon,
    served::{CONFIG, ndjson, pointsman, sum},
};

const JOURNAL: &str = "journal.sqlite";
const CHECKPOINT: &str = "checkpoint.json";

/// A line of the table.
fn row(fault: &str, found: &str) {
    // Written past the test harness's capture, which a table does without.
    let _ = writeln!(std::io::stderr(), "| {fault:<58} | {found}");
}

/// A data folder with a configuration, and the answers that were acknowledged on it.
struct Site {
    folder: tempfile::TempDir,
    answers: Vec<Value>,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pointsman.toml"), CONFIG).unwrap();
        Self { folder, answers: vec![] }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.path().join("data").join(name)
    }

    fn start(&self) -> Result<Daemon, String> {
        start(self.path(), pointsman())
    }

    /// Has tasks done and keeps the answers.
    async fn work(&mut self, daemon: &Daemon, tasks: std::ops::Range<u64>) {
        let answers = stream(daemon, tasks).await;
        self.answers.extend(answers.into_iter().inspect(|answer| assert_eq!(answer["status"], "done", "{answer}")));
    }

    /// Asserts that every acknowledged answer is there, once.
    async fn assert_all_there(&self, daemon: &Daemon) {
        assert_there(daemon, &self.answers).await;
    }
}

/// Moves what is in the write-ahead log into the journal's file, and takes the log away.
async fn settle(journal: &Path) {
    use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
    let mut connection = SqliteConnectOptions::new().filename(journal).connect().await.unwrap();
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Starts a daemon by some command; the error is what it said.
fn start(folder: &Path, command: Command) -> Result<Daemon, String> {
    let mut daemon = Daemon::spawn_as(command, folder);
    daemon.ready().map(|_| daemon)
}

async fn stream(daemon: &Daemon, tasks: std::ops::Range<u64>) -> Vec<Value> {
    let body = ndjson(tasks.map(|n| sum(n, 5)));
    let response = reqwest::Client::new().post(daemon.url("/v1/tasks/stream")).body(body).send().await.unwrap();
    let text = response.text().await.unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn get(daemon: &Daemon, path: &str) -> (u16, Value) {
    let response = reqwest::get(daemon.url(path)).await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
}

async fn post(daemon: &Daemon, path: &str, body: &Value) -> (u16, Value) {
    let response = reqwest::Client::new().post(daemon.url(path)).json(body).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
}

async fn assert_there(daemon: &Daemon, answers: &[Value]) {
    for answer in answers {
        let id = answer["decision_id"].as_str().unwrap();
        let (status, why) = get(daemon, &format!("/v1/decisions/{id}")).await;
        assert_eq!((status, &why["outcome"]["output"]), (200, &answer["output"]), "{id}: {why}");
        assert_eq!(why["feedback"].as_array().unwrap().len(), 1, "{id}: {why}");
        assert_eq!(why["feedback"][0]["score"], answer["score"], "{id}: {why}");
    }
}

async fn state_hash(daemon: &Daemon) -> String {
    get(daemon, "/v1/policies").await.1["state_hash"].as_str().unwrap().to_owned()
}

/// The first line of what a refused start said, without the exit status and log prefixes.
fn said(refusal: &str) -> &str {
    refusal.lines().rev().find(|line| line.contains("rror")).unwrap_or(refusal).trim()
}
