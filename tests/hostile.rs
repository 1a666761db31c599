//! Clients that are slow, rude or broken, by raw bytes: each gets a stated answer, and the daemon goes on.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::served::{CONFIG, Served, ndjson, sum};

const PATIENCE: Duration = Duration::from_secs(20);

fn config() -> String {
    format!("[server]\nheader_timeout_ms = 500\nbody_timeout_ms = 500\nline_bytes_max = 65536\n{CONFIG}")
}

async fn connect(served: &Served) -> TcpStream {
    let address: SocketAddr = served.url.strip_prefix("http://").unwrap().parse().unwrap();
    TcpStream::connect(address).await.unwrap()
}

/// All that comes until the connection ends.
async fn rest(connection: &mut TcpStream) -> String {
    let mut read = Vec::new();
    // A reset after the answer is an end too.
    let _ = timeout(PATIENCE, connection.read_to_end(&mut read)).await.expect("the daemon kept a dead connection");
    String::from_utf8_lossy(&read).into_owned()
}

async fn said(served: &Served, bytes: &[u8]) -> String {
    let mut connection = connect(served).await;
    connection.write_all(bytes).await.unwrap();
    rest(&mut connection).await
}

fn head(length: usize) -> String {
    format!("POST /v1/tasks HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n")
}

#[tokio::test]
async fn a_client_that_dawdles_loses_its_connection_and_no_other_does() {
    let served = Served::new(&config());
    let mut loris = Vec::new();
    for _ in 0..50 {
        let mut connection = connect(&served).await;
        connection.write_all(b"POST /v1/tasks HTTP/1.1\r\nhost: h").await.unwrap();
        loris.push(connection);
    }
    assert_eq!(served.post("/v1/tasks", &sum(1, 2)).await.0, 200, "others are served meanwhile");
    for connection in &mut loris {
        rest(connection).await;
    }
    // One that says nothing at all.
    rest(&mut connect(&served).await).await;
    let mut slow = connect(&served).await;
    slow.write_all(format!("{}connection: close\r\n\r\n{{\"prompt\":", head(40)).as_bytes()).await.unwrap();
    let answer = rest(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout_ms"), "{answer}");
}

#[tokio::test]
async fn a_client_that_stops_sending_still_gets_its_answer() {
    let served = Served::new(&config());
    let body = sum(19, 23).to_string();
    let mut connection = connect(&served).await;
    connection.write_all(format!("{}\r\n{body}", head(body.len())).as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
    let answer = rest(&mut connection).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("decision_id"), "{answer}");
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_nothing_falls_over() {
    let served = Served::new(&config());
    let flood: String = (0..200).map(|n| format!("x-{n}: a\r\n")).collect();
    let long = format!("x-long: {}\r\n", "a".repeat(200 << 10));
    let chunked = "POST /v1/tasks HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n";
    let both = "POST /v1/tasks HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\ntransfer-encoding: xchunked\r\n\r\n{}";
    let cases: [(String, &str); 6] = [
        (format!("{}{flood}\r\n", head(0)), "431"),
        (format!("{}{long}\r\n", head(0)), "431"),
        (chunked.into(), "400"),
        (both.into(), "400"),
        ("\u{16}\u{3}\u{1}nonsense\r\n\r\n".into(), "400"),
        ("GET /healthz HTTP/9.9\r\n\r\n".into(), "400"),
    ];
    for (bytes, status) in cases {
        let answer = said(&served, bytes.as_bytes()).await;
        let shown: String = bytes.chars().take(80).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown:?}: {answer}");
    }
    assert_eq!(served.post("/v1/tasks", &sum(1, 2)).await.0, 200);
}

#[tokio::test]
async fn a_body_of_a_hundred_megabytes_is_refused_before_it_is_read() {
    let served = Served::new(&config());
    let answer = said(&served, format!("{}\r\n", head(100 << 20)).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("body_bytes_max"), "{answer}");
    // Of unknown length: it is read up to the limit and no further.
    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1 << 20]));
    let request = reqwest::Client::new().post(format!("{}/v1/chat/completions", served.url));
    let sent = request.body(reqwest::Body::wrap_stream(endless)).send();
    match timeout(PATIENCE, sent).await.expect("an endless body was read for ever") {
        Ok(response) => assert_eq!(response.status(), 413),
        // The answer may be lost when the daemon closes a connection that is still being written to.
        Err(error) => assert!(error.is_request() || error.is_body(), "{error:?}"),
    }
    assert_eq!(served.post("/v1/tasks", &sum(1, 2)).await.0, 200);
}

#[tokio::test]
async fn ten_thousand_lines_without_a_line_break_are_one_wrong_line() {
    let served = Served::new(&config());
    let glued = ndjson((0..10_000).map(|n| sum(n, 1))).replace('\n', " ");
    let answers = served.stream("", glued).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((&answers[0]["line"], &answers[0]["problem"]["status"]), (&json!(1), &json!(413)));
    let glued = ndjson((0..3).map(|n| sum(n, 1))).replace('\n', " ");
    let answers = served.stream("", format!("{glued}\n{}", ndjson([sum(5, 6)]))).await;
    let wrong = answers.iter().find(|answer| answer["line"] == 1).unwrap();
    assert!(wrong["problem"]["detail"].as_str().unwrap().contains("after the first value"), "{wrong}");
    assert!(answers.iter().any(|answer| answer["line"] == 2 && answer["status"] == "done"), "{answers:?}");
}

#[tokio::test]
async fn a_chat_that_is_none_gets_its_protocols_error() {
    let served = Served::new(&config());
    let deep = format!("{{\"model\":\"auto\",\"messages\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let cases: [(&str, Vec<u8>, u16); 7] = [
        ("/v1/chat/completions", deep.clone().into_bytes(), 400),
        ("/v1/messages", deep.into_bytes(), 400),
        ("/v1/chat/completions", b"{\"model\":\"caf\xe9\"}".to_vec(), 400),
        ("/v1/chat/completions", b"<html>".to_vec(), 400),
        ("/v1/chat/completions", json!({"model": "auto", "messages": []}).to_string().into_bytes(), 400),
        ("/v1/messages", json!({"model": "auto", "messages": "hello", "max_tokens": 5}).to_string().into_bytes(), 400),
        (
            "/v1/messages",
            json!({"model": "nobody", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}]})
                .to_string()
                .into_bytes(),
            404,
        ),
    ];
    for (path, body, status) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let (got, error) = served.post_bytes(path, body).await;
        assert_eq!(got, status, "{path} {shown}: {error}");
        assert!(error["error"]["message"].is_string() && error["error"]["type"].is_string(), "{error}");
        let anthropic = path == "/v1/messages";
        assert_eq!(error["type"] == "error", anthropic, "{path}: {error}");
    }
}

#[tokio::test]
async fn pages_of_listed_sites_may_call_and_others_may_not() {
    let served = Served::new(&config().replace("[server]", "[server]\ncors_origins = [\"https://app.example.org\"]"));
    let call = |method: reqwest::Method, origin: &'static str| {
        let request = reqwest::Client::new().request(method, format!("{}/v1/tasks", served.url));
        let request = request.header("origin", origin).header("access-control-request-method", "POST");
        request.header("access-control-request-headers", "content-type").json(&sum(1, 2)).send()
    };
    let preflight = call(reqwest::Method::OPTIONS, "https://app.example.org").await.unwrap();
    assert_eq!(preflight.headers()["access-control-allow-origin"], "https://app.example.org");
    let called = call(reqwest::Method::POST, "https://app.example.org").await.unwrap();
    assert_eq!(called.status(), 200);
    assert_eq!(called.headers()["access-control-allow-origin"], "https://app.example.org");
    assert!(called.headers()["access-control-expose-headers"].to_str().unwrap().contains("x-pointsman-decision"));
    let other = call(reqwest::Method::POST, "https://evil.example.org").await.unwrap();
    assert_eq!(other.status(), 403);
    assert!(!other.headers().contains_key("access-control-allow-origin"));
    let bare = Served::new(CONFIG);
    let request = reqwest::Client::new().post(format!("{}/v1/tasks", bare.url)).json(&sum(1, 2));
    let refused = request.header("origin", "https://app.example.org").send().await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), refused.headers().contains_key("access-control-allow-origin")),
        (403, false)
    );
}

#[tokio::test]
async fn every_answer_names_its_request() {
    let served = Served::new(CONFIG);
    let get = |id: Option<&'static str>| {
        let request = reqwest::Client::new().get(format!("{}/v1/taks", served.url));
        id.map_or(request.try_clone().unwrap(), |id| request.header("x-request-id", id)).send()
    };
    assert_eq!(get(Some("order-17")).await.unwrap().headers()["x-request-id"], "order-17");
    let own = get(None).await.unwrap();
    assert_eq!(own.headers()["x-request-id"].len(), 36);
    assert_eq!(own.headers()["x-content-type-options"], "nosniff");
    let problem: Value = own.json().await.unwrap();
    assert_eq!(problem["status"], 404);
}
