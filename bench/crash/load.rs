//! Mixed load on one life of the daemon: every way in, each by a worker with random numbers of its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::{
    client::Client,
    ledger::{Asked, Ledger, What},
};

/// Lines of a stream that wait for their answers.
const WINDOW: usize = 8;
/// Texts that tasks are made of; few, so that embedding them does not slow the rest.
const TEXTS: u64 = 40;

/// Workers that go on until they are told to stop or the daemon is gone.
pub struct Load {
    stop: CancellationToken,
    workers: JoinSet<()>,
}

impl Load {
    pub fn start(client: &Client, ledger: &Arc<Mutex<Ledger>>, seed: u64, life: u64) -> Self {
        let (stop, mut workers) = (CancellationToken::new(), JoinSet::new());
        let worker = |number: u64| Worker {
            client: client.clone(),
            ledger: Arc::clone(ledger),
            stop: stop.clone(),
            random: ChaCha8Rng::seed_from_u64(seed ^ (life << 20) ^ (number << 56)),
            name: format!("{life}-{number}"),
            sent: 0,
        };
        for number in 0..2 {
            workers.spawn(worker(number).stream());
        }
        for number in 2..5 {
            workers.spawn(worker(number).tasks());
        }
        workers.spawn(worker(5).routes());
        workers.spawn(worker(6).late_feedback());
        workers.spawn(worker(7).early_feedback());
        if life % 3 == 1 {
            workers.spawn(worker(8).changes());
        }
        Self { stop, workers }
    }

    /// Lets every worker finish what it began, as far as the daemon is there.
    pub async fn finish(self) {
        self.stop.cancel();
        self.workers.join_all().await;
    }
}

struct Worker {
    client: Client,
    ledger: Arc<Mutex<Ledger>>,
    stop: CancellationToken,
    random: ChaCha8Rng,
    name: String,
    sent: u64,
}

impl Worker {
    fn goes_on(&self) -> bool {
        !self.stop.is_cancelled()
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn ask(&self, what: What, body: Value) -> Asked {
        self.ledger.lock().expect("no task panicked").ask(what, body)
    }

    fn note(&self, asked: &Asked, answer: Option<(u16, Value)>) {
        self.ledger.lock().expect("no task panicked").answered(asked, answer);
    }

    /// Sends a request and notes what becomes of it; none when the daemon is gone.
    async fn send(&self, what: What, body: Value) -> Option<(u16, Value)> {
        let asked = self.ask(what, body);
        let answer = self.client.ask(&asked).await;
        self.note(&asked, answer.clone());
        answer
    }

    fn task(&mut self, keyed_percent: u32) -> Value {
        self.sent += 1;
        let (a, b) = (self.random.random_range(0..TEXTS), 5);
        let id = format!("{}-{}", self.name, self.sent);
        let mut task = json!({
            "id": id,
            "domain": if a % 2 == 0 { "math" } else { "text" },
            "prompt": format!("What is {a} plus {b}?"),
            "metadata": {"reference": a + b, "answer": "number"},
        });
        if self.happens(keyed_percent) {
            task["idempotency_key"] = json!(id);
        }
        if self.happens(8) {
            task["constraints"] = json!({"arms": ["slow"]});
        }
        task
    }

    /// One NDJSON stream.
    async fn stream(mut self) {
        let (lines, body) = mpsc::channel::<Result<String, std::convert::Infallible>>(WINDOW);
        let body = reqwest::Body::wrap_stream(ReceiverStream::new(body));
        let request = self.client.http().post(self.client.url("/v1/tasks/stream")).body(body);
        let mut asked = BTreeMap::new();
        for line in 1..=WINDOW as u64 {
            self.send_line(&lines, line, &mut asked).await;
        }
        let Ok(response) = request.send().await else { return };
        let (mut chunks, mut buffer) = (response.bytes_stream(), Vec::new());
        let (mut lines, mut next) = (Some(lines), WINDOW as u64);
        while let Some(Ok(chunk)) = chunks.next().await {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let Ok(answer) = serde_json::from_slice::<Value>(&line) else { continue };
                if let Some(asked) = answer["line"].as_u64().and_then(|line| asked.remove(&line)) {
                    let problem = answer.get("problem").cloned();
                    self.note(&asked, Some(problem.map_or((200, answer), |problem| (0, problem))));
                }
                if !self.goes_on() {
                    lines = None;
                }
                if let Some(lines) = &lines {
                    next += 1;
                    self.send_line(lines, next, &mut asked).await;
                }
            }
        }
    }

    async fn send_line(
        &mut self,
        lines: &mpsc::Sender<Result<String, std::convert::Infallible>>,
        line: u64,
        asked: &mut BTreeMap<u64, Asked>,
    ) {
        let task = self.task(60);
        let text = format!("{task}\n");
        asked.insert(line, self.ask(What::Task, task));
        // Fails when the daemon is gone, which the answers tell too.
        let _ = lines.send(Ok(text)).await;
    }

    /// Single tasks; some are sent again, and some are judged by their user as well.
    async fn tasks(mut self) {
        while self.goes_on() {
            let task = self.task(60);
            let Some((_, answer)) = self.send(What::Task, task.clone()).await else { return };
            if task.get("idempotency_key").is_some() && self.happens(10) {
                self.send(What::Task, task).await;
            }
            if self.happens(20) && answer["decision_id"].is_string() {
                let source = if self.happens(50) { "thumbs" } else { "client" };
                let said = json!({"decision_id": answer["decision_id"], "source": source, "score": 1.0});
                self.send(What::Feedback, said).await;
            }
        }
    }

    /// Decisions for a client that runs the model itself and judges at once, twice or not at all.
    async fn routes(mut self) {
        while self.goes_on() {
            let task = self.task(50);
            let Some((_, answer)) = self.send(What::Route, task.clone()).await else { return };
            let id = answer["decision_id"].clone();
            if !id.is_string() || self.happens(40) {
                continue;
            }
            let said = if self.happens(50) {
                json!({"decision_id": id, "output": task["metadata"]["reference"].to_string(), "cost_usd": 0.001})
            } else {
                json!({"decision_id": id, "score": self.random.random_range(0..=4) as f64 / 4.0})
            };
            self.send(What::Feedback, said.clone()).await;
            if self.happens(30) {
                self.send(What::Feedback, said).await;
            }
        }
    }

    /// Feedback on decisions of any life, under keys.
    async fn late_feedback(mut self) {
        while self.goes_on() {
            let open = {
                let mut ledger = self.ledger.lock().expect("no task panicked");
                let last = ledger.open.len();
                (last > 3).then(|| ledger.open.swap_remove(self.random.random_range(0..last)))
            };
            if let Some(id) = open {
                let source = ["client", "judge", "thumbs"][self.random.random_range(0..3)];
                self.sent += 1;
                let key = format!("f-{}-{}", self.name, self.sent);
                let said = json!({"decision_id": id, "source": source, "score": 0.75, "idempotency_key": key});
                if self.send(What::Feedback, said).await.is_none() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Feedback on tasks that still run: asked for again, a running task says which decision it is.
    async fn early_feedback(mut self) {
        while self.goes_on() {
            let mut task = self.task(100);
            task["constraints"] = json!({"arms": ["slow"]});
            let (client, asked) = (self.client.clone(), self.ask(What::Task, task.clone()));
            let first = asked.clone();
            let running = tokio::spawn(async move { client.ask(&first).await });
            tokio::time::sleep(Duration::from_millis(60)).await;
            let again = self.client.ask(&Asked { number: 0, what: What::Task, body: task }).await;
            let id = again.map(|(_, problem)| problem["decision_id"].clone()).unwrap_or_default();
            if id.is_string() {
                self.send(What::Feedback, json!({"decision_id": id, "score": 0.25})).await;
            }
            let answer = running.await.expect("it does not panic");
            let gone = answer.is_none();
            self.note(&asked, answer);
            if gone {
                return;
            }
        }
    }

    /// Now and then another price, another policy, or one on trial.
    async fn changes(mut self) {
        while self.goes_on() {
            tokio::time::sleep(Duration::from_millis(self.random.random_range(50..300))).await;
            let (what, body) = match self.random.random_range(0..5) {
                0 => (What::Promotion, json!({"card": "default"})),
                1 => (What::Promotion, json!({"card": "steady"})),
                2 => (What::Trial, json!({"card": "steady"})),
                3 => (What::Trial, json!({"card": null})),
                _ => (What::Arm, json!({"input_usd_per_1m": f64::from(self.random.random_range(0..50)) / 10.0})),
            };
            if self.send(what, body).await.is_none() {
                return;
            }
        }
    }
}
