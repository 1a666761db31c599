//! Traces by OTLP, taken by a collector of a few lines; and the log as JSON.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use serde_json::{Value, json};

use crate::served::{CONFIG, Served};

type Taken = Arc<Mutex<Vec<u8>>>;

async fn collector() -> (SocketAddr, Taken) {
    async fn take(State(taken): State<Taken>, headers: HeaderMap, body: Bytes) {
        assert_eq!(headers["x-collector-key"], "s3cret");
        taken.lock().unwrap().extend_from_slice(&body);
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), Taken::default());
    let routes = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&taken));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, taken)
}

fn holds(taken: &Taken, what: &[u8]) -> bool {
    taken.lock().unwrap().windows(what.len()).any(|window| window == what)
}

async fn traced(variables: &[(&str, &str)]) -> (Taken, String) {
    let (address, taken) = collector().await;
    let endpoint = format!("http://{address}");
    let own = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-key=s3cret"),
        ("OTEL_BSP_SCHEDULE_DELAY", "200"),
        ("POINTSMAN_LOG_FORMAT", "json"),
        ("POINTSMAN_LOG", "pointsman=debug"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder_with_env(CONFIG, folder.path(), &[&own, variables].concat());
    let body = json!({"model": "auto:math", "messages": [{"role": "user", "content": "What is a quokka?"}]});
    let request = reqwest::Client::new().post(format!("{}/v1/chat/completions", served.url)).json(&body);
    let request = request.header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(request.header("x-request-id", "order-17").send().await.unwrap().status(), 200);
    let came = async {
        while !holds(&taken, b"POST /v1/chat/completions") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), came).await.expect("no trace came");
    assert!(served.stop().success());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    (taken, log)
}

#[tokio::test]
async fn a_rounds_spans_go_on_from_the_clients_and_hold_no_texts() {
    let (taken, log) = traced(&[]).await;
    let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
    assert!(holds(&taken, &trace), "the client's trace goes on");
    for name in ["embed", "recall", "decide", "verify", "chat scripted"] {
        assert!(holds(&taken, name.as_bytes()), "{name}");
    }
    for attribute in
        ["gen_ai.operation.name", "gen_ai.usage.output_tokens", "pointsman.propensity", "pointsman.score", "http.route"]
    {
        assert!(holds(&taken, attribute.as_bytes()), "{attribute}");
    }
    assert!(!holds(&taken, b"quokka"), "texts were not asked for");
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let answered = lines.iter().find(|line| line["message"] == "answered" && line["span"]["request_id"] == "order-17");
    assert_eq!(answered.unwrap_or_else(|| panic!("{log}"))["status"], 200);
    assert!(!log.contains("quokka") && !log.contains("s3cret"), "{log}");
}

#[tokio::test]
async fn texts_are_in_traces_where_they_are_asked_for() {
    let (taken, log) = traced(&[("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")]).await;
    assert!(holds(&taken, b"gen_ai.input.messages") && holds(&taken, b"quokka"));
    assert!(!log.contains("quokka"), "not in the log");
}
