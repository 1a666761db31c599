//! A daemon in a process of its own, on a free port, with a data folder of its own.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::Once,
};

use serde_json::Value;
use tempfile::TempDir;

/// Two workers, one good and one bad, on two domains.
pub const CONFIG: &str = r#"
[domains.math]
[domains.text]

[[arms]]
id = "good"
kind = "scripted"
default_skill = 1.0
input_usd_per_1m = 1.0
output_usd_per_1m = 2.0

[[arms]]
id = "bad"
kind = "scripted"
default_skill = 0.0
"#;

/// The program under test, with the model in place.
pub fn pointsman() -> Command {
    static MODEL: Once = Once::new();
    MODEL.call_once(|| {
        let fetched = Command::new(env!("CARGO_BIN_EXE_pointsman")).args(["models", "fetch"]).output().unwrap();
        assert!(fetched.status.success(), "the tests need the model: {}", String::from_utf8_lossy(&fetched.stderr));
    });
    Command::new(env!("CARGO_BIN_EXE_pointsman"))
}

/// Runs a command to its end.
pub fn output(command: &mut Command) -> (ExitStatus, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A running daemon; killed when dropped.
pub struct Served {
    pub url: String,
    pub folder: PathBuf,
    child: Child,
    _temporary: Option<TempDir>,
}

impl Served {
    /// Starts a daemon on a new data folder.
    pub fn new(config: &str) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut served = Self::in_folder(config, temporary.path());
        served._temporary = Some(temporary);
        served
    }

    /// Starts a daemon on a new data folder with variables set.
    pub fn with_env(config: &str, variables: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut served = Self::start(config, temporary.path(), variables);
        served._temporary = Some(temporary);
        served
    }

    /// Starts a daemon on a folder that outlives it.
    pub fn in_folder(config: &str, folder: &Path) -> Self {
        Self::start(config, folder, &[])
    }

    /// The same with variables set.
    pub fn in_folder_with_env(config: &str, folder: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start(config, folder, variables)
    }

    fn start(config: &str, folder: &Path, variables: &[(&str, &str)]) -> Self {
        let (file, log) = (folder.join("pointsman.toml"), folder.join("log"));
        std::fs::write(&file, config).unwrap();
        let mut child = pointsman()
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Some(url) = line.split_whitespace().find(|word| word.starts_with("http")) else {
            panic!("no address in {line:?}: {}", std::fs::read_to_string(log).unwrap());
        };
        Self { url: url.to_owned(), folder: folder.into(), child, _temporary: None }
    }

    /// Ends the daemon as `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the daemon to stop, as Ctrl-C does, and waits.
    pub fn stop(mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        self.child.wait().unwrap()
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        read(reqwest::get(format!("{}{path}", self.url)).await.unwrap()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url)).json(body);
        read(request.send().await.unwrap()).await
    }

    pub async fn post_bytes(&self, path: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url)).body(body);
        read(request.send().await.unwrap()).await
    }

    /// Streams lines and reads all answers.
    pub async fn stream(&self, query: &str, body: impl Into<reqwest::Body>) -> Vec<Value> {
        let url = format!("{}/v1/tasks/stream{query}", self.url);
        let response = reqwest::Client::new().post(url).body(body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = response.text().await.unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until so many rounds are learnt and in memory; fails after ten seconds.
    pub async fn learnt(&self, rounds: u64) -> Value {
        for _ in 0..500 {
            let (_, report) = self.get("/v1/regret").await;
            if report["rounds"].as_u64().unwrap() >= rounds && report["memory"]["behind"] == 0 {
                return report;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{rounds} rounds were not learnt in time");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn read(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// A line of a stream: an addition with its reference.
pub fn sum(a: u64, b: u64) -> Value {
    serde_json::json!({
        "id": format!("sum-{a}-{b}"),
        "domain": "math",
        "prompt": format!("What is {a} plus {b}?"),
        "metadata": {"reference": a + b, "answer": "number"},
    })
}

/// Tasks as NDJSON.
pub fn ndjson(tasks: impl IntoIterator<Item = Value>) -> String {
    tasks.into_iter().map(|task| format!("{task}\n")).collect()
}
