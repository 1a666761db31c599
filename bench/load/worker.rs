//! A worker of the OpenAI protocol that answers after a set time, in a process of its own.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::post,
};
use futures::stream;
use serde_json::{Value, json};

/// Pieces of a streamed answer, and the time between two of them.
pub const PIECES: usize = 20;
pub const GAP: Duration = Duration::from_millis(500);

/// The worker's process; ended when dropped.
pub struct Worker {
    child: Child,
    pub address: SocketAddr,
}

impl Worker {
    /// Starts this program once more, as the worker.
    pub fn start(delay: Duration) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--worker", &delay.as_millis().to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the worker says where it listens");
        let address = line.trim().parse().expect("it says nothing else");
        Self { child, address }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is the worker, until it is killed.
pub async fn run(delay: Duration) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    println!("{}", listener.local_addr().expect("it is bound"));
    let routes = Router::new().route("/v1/chat/completions", post(answer)).with_state(delay);
    axum::serve(listener, routes).await.expect("it serves until it is killed");
}

async fn answer(State(delay): State<Duration>, Json(body): Json<Value>) -> Response {
    tokio::time::sleep(delay).await;
    if body["stream"] == true {
        return streamed();
    }
    Json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "mock",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "The answer is 42."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 6, "total_tokens": 26},
    }))
    .into_response()
}

fn streamed() -> Response {
    let chunk = |delta: Value, finish: Value, more: &str| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let chunk =
            json!({"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "mock", "choices": choices});
        Bytes::from(format!("data: {chunk}\n\n{more}"))
    };
    let frames = stream::unfold(0, move |sent| async move {
        match sent {
            0..PIECES => {
                if sent > 0 {
                    tokio::time::sleep(GAP).await;
                }
                Some((Ok::<_, std::io::Error>(chunk(json!({"content": "word "}), Value::Null, "")), sent + 1))
            }
            PIECES => Some((Ok(chunk(json!({}), json!("stop"), "data: [DONE]\n\n")), sent + 1)),
            _ => None,
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}
