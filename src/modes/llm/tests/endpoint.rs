//! A scripted endpoint of the OpenAI protocol on loopback, and workers that say what they are told to.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};

use super::super::*;
use crate::{
    arms::{
        Arm, Prices,
        worker::{Ask, Reply, WorkerError},
    },
    chat::Answer,
    grammar::Rules,
    modes::{Checked, Guardrails, Ran, Team, Watch, driver::Driver, run_team},
    round::{DecisionId, Dialect, Domain, Metadata, Mode, Task, TaskId},
};

pub(super) const QUESTION: &str = "What is 6 times 7?";

/// What the endpoint answers next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    /// A text that ended by itself.
    Says(&'static str),
    /// A text that met its limit of tokens.
    Cut(&'static str),
    /// An error of the server's.
    Fails,
    /// Nothing, ever.
    Hangs,
}

/// The endpoint, and the requests that it got.
pub(super) struct Endpointed {
    pub base_url: String,
    asked: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
}

impl Endpointed {
    /// Serves answers in order, the last one for ever.
    pub async fn new(script: &[Next]) -> Self {
        let asked = Arc::new(Mutex::new(vec![]));
        let script = Arc::new(Mutex::new(VecDeque::from(script.to_vec())));
        let heard = Arc::clone(&asked);
        let answer = move |headers: HeaderMap, Json(body): Json<Value>| {
            heard.lock().unwrap().push((headers, body));
            let mut script = script.lock().unwrap();
            let next = if script.len() > 1 { script.pop_front() } else { script.front().copied() };
            respond(next.unwrap())
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let app = Router::new().route("/v1/chat/completions", post(answer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { base_url, asked }
    }

    /// The bodies of the requests so far.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    /// The keys that came with them.
    pub fn keys(&self) -> Vec<String> {
        let key = |headers: &HeaderMap| headers.get("authorization").map(|key| key.to_str().unwrap().to_owned());
        self.asked.lock().unwrap().iter().filter_map(|(headers, _)| key(headers)).collect()
    }

    /// The model behind it, a dollar for a thousand tokens.
    pub fn llm(&self, change: impl FnOnce(&mut LlmSettings), dialect: Dialect) -> Arc<Llm> {
        llm_at(&self.base_url, change, dialect)
    }
}

pub(super) fn llm_at(base_url: &str, change: impl FnOnce(&mut LlmSettings), dialect: Dialect) -> Arc<Llm> {
    let api_key_env = Some("KEY".to_owned());
    let endpoint = Endpoint::Url { base_url: base_url.into(), model: "routing-model".into(), api_key_env };
    let mut settings = LlmSettings::new(endpoint, dialect);
    change(&mut settings);
    assert_eq!(settings.problems(), []);
    let client = crate::arms::worker::upstream::client(Duration::from_secs(5), None).unwrap();
    let worker = settings.endpoint.connect(&settings, Some("sesame".into()), client).unwrap();
    let prices = Prices { input_usd_per_1m: 0.0, output_usd_per_1m: 1_000.0 };
    Arc::new(Llm::new(settings, Arc::new(worker), prices))
}

async fn respond(next: Next) -> Response {
    let (text, finish) = match next {
        Next::Says(text) => (text, "stop"),
        Next::Cut(text) => (text, "length"),
        Next::Fails => return (StatusCode::INTERNAL_SERVER_ERROR, "out of memory").into_response(),
        Next::Hangs => std::future::pending().await,
    };
    let choices = json!([{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}]);
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10});
    Json(json!({"id": "c", "object": "chat.completion", "choices": choices, "usage": usage})).into_response()
}

/// Answers from a list, the last one for ever, and remembers what it was asked.
pub(super) struct Listed(Mutex<VecDeque<&'static str>>, Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Worker for Listed {
    async fn answer(&self, ask: &Ask<'_>) -> Result<Reply, WorkerError> {
        self.1.lock().unwrap().push(ask.task.prompt().to_owned());
        let mut answers = self.0.lock().unwrap();
        let text = if answers.len() > 1 { answers.pop_front() } else { answers.front().copied() };
        let said = Answer { text: text.unwrap().into(), ..Answer::default() };
        Ok(Reply { said, cost_usd: Some(0.25), ..Reply::default() })
    }
}

/// Arms of these names, each answering from the same list.
pub(super) struct Pool {
    pub arms: Vec<Arm>,
    pub heard: Arc<Mutex<Vec<String>>>,
}

impl Pool {
    pub fn new(names: &[&str], answers: &[&'static str]) -> Self {
        let heard = Arc::default();
        let arm = |name: &&str| Arm {
            id: ArmId::new(*name).unwrap(),
            prices: Prices::default(),
            capabilities: BTreeSet::new(),
            enabled: true,
            quarantined: false,
            worker: Arc::new(Listed(Mutex::new(answers.to_vec().into()), Arc::clone(&heard))),
        };
        Self { arms: names.iter().map(arm).collect(), heard }
    }

    pub fn offers(&self) -> Vec<Offer> {
        let offer =
            |arm: &Arm| Offer { arm: arm.id.clone(), description: format!("good at {}", arm.id.as_str().len()) };
        self.arms.iter().map(offer).collect()
    }

    /// Runs a trajectory whose first worker is the first arm.
    pub async fn run(&self, mode: Mode, driver: &mut dyn Driver) -> Ran {
        let task = Task::plain(TaskId::new("t").unwrap(), Domain::unknown(), QUESTION, Metadata::new());
        let guardrails = Guardrails {
            rules: Rules::default(),
            cost_usd_max: None,
            wall: Duration::from_secs(60),
            shown_bytes_max: 1_000,
            pass_score: 0.8,
        };
        let team = Team {
            decision_id: DecisionId::generate(),
            task: &task,
            mode,
            offered: self.arms.clone(),
            best: self.arms.len() - 1,
            alpha: 0.0,
            model: None,
            guardrails: &guardrails,
        };
        run_team(&team, driver, &Marked).await
    }
}

/// Verifies what begins with a word that it knows.
struct Marked;

#[async_trait]
impl Watch for Marked {
    async fn check(&self, output: &str) -> Checked {
        let score = [("right", 1.0), ("wrong", 0.0)].iter().find(|(word, _)| output.starts_with(word));
        Checked { score: score.map(|(_, score)| *score), trace: String::new(), words: "count again".into() }
    }

    fn called(&self, _arm: &Arm, _failure: Option<&WorkerError>) {}
}

/// The contents of a request's messages, and their roles.
pub(super) fn messages(body: &Value) -> Vec<(String, String)> {
    let text = |message: &Value, key: &str| message[key].as_str().unwrap().to_owned();
    let list = body["messages"].as_array().unwrap();
    list.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}
