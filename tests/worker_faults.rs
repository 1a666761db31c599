//! Workers that answer nonsense, seen by clients of the chat protocols: each is replaced or named, and none is rewarded.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::served::Served;

const GOOD: &str = r#"{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"It is 42."},"finish_reason":"stop"}],"usage":USAGE}"#;

fn answer(kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// Answers every request as its path says.
async fn speak(mut connection: TcpStream) {
    let (mut read, mut buffer) = (Vec::new(), [0; 8_192]);
    while !read.windows(13).any(|window| window == b"\"messages\":[{") {
        match connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
    let text = String::from_utf8_lossy(&read).into_owned();
    let how = text.split('/').nth(1).unwrap().to_owned();
    let usage = |usage: &str| answer("application/json", &GOOD.replace("USAGE", usage));
    let said = match how.as_str() {
        "page" => answer("text/html", "<html><body>Sign in to the hotel's network</body></html>"),
        "truncated" => answer("application/json", &GOOD[..60]),
        "usage" => usage(r#"{"prompt_tokens":-5,"completion_tokens":"many"}"#),
        "greedy" => usage(r#"{"prompt_tokens":1000000000000000,"completion_tokens":1000000000000000}"#),
        "redirect" => {
            b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://169.254.169.254/secrets\r\ncontent-length: 0\r\n\r\n"
                .to_vec()
        }
        "gzip" => {
            let mut bomb = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n".to_vec();
            bomb.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
            bomb
        }
        "endless" => {
            let _ = connection
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
                .await;
            while connection.write_all(&[b' '; 1 << 16]).await.is_ok() {}
            return;
        }
        "babbling" => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = connection.write_all(head).await;
            let chunk = format!(
                "data: {}\n\n",
                json!({"choices": [{"index": 0, "delta": {"content": "more ".repeat(2_000)}}]})
            );
            while connection.write_all(chunk.as_bytes()).await.is_ok() {}
            return;
        }
        "killed" => {
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": "It is"}}]});
            let said = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 10000\r\n\r\ndata: {chunk}\n\n"
            );
            let _ = connection.write_all(said.as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            connection.set_zero_linger().unwrap();
            return;
        }
        _ => usage(r#"{"prompt_tokens":11,"completion_tokens":5}"#),
    };
    let _ = connection.write_all(&said).await;
    let _ = connection.shutdown().await;
}

async fn workers() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(speak(connection));
        }
    });
    address
}

/// A daemon with one arm for each way to misbehave, and a good one.
async fn served(arms: &[&str]) -> Served {
    let address = workers().await;
    let arm = |id: &&str| {
        format!(
            "[[arms]]\nid = \"{id}\"\nkind = \"openai\"\nbase_url = \"http://{address}/{id}\"\nmodel = \"m\"\nretries = 0\n\
             input_usd_per_1m = 1.0\noutput_usd_per_1m = 1.0\n"
        )
    };
    Served::new(&format!("[domains.math]\n{}", arms.iter().map(arm).collect::<String>()))
}

fn chat(model: &str, stream: bool) -> Value {
    json!({"model": model, "stream": stream, "messages": [{"role": "user", "content": "What is 40 + 2?"}]})
}

#[tokio::test]
async fn an_answer_that_is_none_is_named_and_no_success() {
    let cases = [
        ("page", "a web page"),
        ("truncated", "not a chat completion"),
        ("redirect", "169.254.169.254"),
        ("gzip", "compressed"),
        ("endless", "longer than 16777216 bytes"),
    ];
    let served = served(&cases.map(|(arm, _)| arm)).await;
    for (arm, hint) in cases {
        for stream in [false, true] {
            let (status, error) = served.post("/v1/chat/completions", &chat(arm, stream)).await;
            let said = error["error"]["message"].as_str().unwrap_or_else(|| panic!("{arm}: {error}")).to_owned();
            assert_eq!(status, 502, "{arm} {stream}: {said}");
            // Of a whole answer that is to be a stream less is known.
            let known =
                if stream { said.contains(hint) || said.contains("no event stream") } else { said.contains(hint) };
            assert!(said.contains(arm) && known, "{arm} {stream}: {said}");
        }
    }
    let report = served.learnt(10).await;
    assert_eq!(report["rounds"], 10, "each failure is learnt from: {report}");
}

#[tokio::test]
async fn a_bad_worker_is_replaced_before_the_client_sees_a_byte() {
    let served = served(&["page", "truncated", "good"]).await;
    for n in 0..12 {
        let body = json!({"model": "auto", "stream": n % 2 == 0, "messages": [{"role": "user", "content": format!("What is {n} + 2?")}]});
        let response = reqwest::Client::new()
            .post(format!("{}/v1/chat/completions", served.url))
            .json(&body)
            .send()
            .await
            .unwrap();
        // A stream of a worker that only speaks whole answers is no event stream: it fails over until none is left.
        let status = response.status().as_u16();
        if n % 2 == 1 {
            assert_eq!((status, response.headers()["x-pointsman-arm"].to_str().unwrap()), (200, "good"));
        }
        let text = response.text().await.unwrap();
        assert!(!text.contains("<html"), "{text}");
    }
}

#[tokio::test]
async fn a_wrong_count_of_tokens_loses_no_answer_and_costs_no_fortune() {
    let served = served(&["usage", "greedy"]).await;
    for arm in ["usage", "greedy"] {
        let (status, body) = served.post("/v1/chat/completions", &chat(arm, false)).await;
        assert_eq!((status, &body["choices"][0]["message"]["content"]), (200, &json!("It is 42.")), "{arm}");
    }
    let report = served.learnt(2).await;
    let cost = report["cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0 && cost < 0.01, "estimated from the texts: {cost}");
}

#[tokio::test]
async fn a_worker_that_is_killed_in_its_stream_ends_it_with_an_error_and_earns_nothing() {
    let served = served(&["killed", "babbling"]).await;
    for (arm, hint) in [("killed", "broke off"), ("babbling", "longer than")] {
        let response = reqwest::Client::new()
            .post(format!("{}/v1/chat/completions", served.url))
            .json(&chat(arm, true))
            .send()
            .await
            .unwrap();
        let decision = response.headers()["x-pointsman-decision"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        let last = text.trim_end().rsplit("data: ").next().unwrap();
        assert!(last.contains("\"error\"") && last.contains(hint), "{arm}: {last}");
        assert!(!text.contains("[DONE]"), "an answer that broke off has no good end");
        let (_, explained) = served.get(&format!("/v1/decisions/{decision}")).await;
        assert_eq!(explained["outcome"]["status"], "failed", "{explained}");
        assert_eq!(explained["feedback"][0]["score"], 0.0, "{explained}");
    }
}
