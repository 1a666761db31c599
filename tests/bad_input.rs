//! Every wrong request gets a problem document of its own that says what to do.

use serde_json::{Value, json};

use crate::served::{CONFIG, Served, sum};

#[tokio::test]
async fn wrong_requests_get_their_own_problem() {
    let served = Served::new(CONFIG);
    let some = "0193b3c0-0000-7000-8000-000000000000";
    let cases = [
        ("/v1/tasks", json!({}), 422, "invalid-request", "prompt"),
        ("/v1/tasks", json!({"prompt": "a", "messages": []}), 422, "invalid-request", "messages"),
        ("/v1/tasks", json!({"messages": [{"role": "robot", "content": "a"}]}), 422, "invalid-request", "role"),
        ("/v1/tasks", json!({"prompt": ["a"]}), 400, "invalid-json", "prompt: "),
        ("/v1/tasks", json!({"prompt": "a", "id": "two words"}), 400, "invalid-json", "id: "),
        ("/v1/tasks", json!({"prompt": "a", "domain": "Math"}), 400, "invalid-json", "lower-case"),
        ("/v1/tasks", json!({"prompt": "a", "domain": "poetry"}), 422, "unknown-domain", "math, text"),
        ("/v1/tasks", json!({"prompt": "a", "constraints": {"arms": ["ugly"]}}), 422, "unknown-arm", "good, bad"),
        ("/v1/tasks", json!({"prompt": "a", "constraints": {"arms": []}}), 422, "invalid-request", "at least one"),
        ("/v1/tasks", json!({"prompt": "a", "constraints": {"deadline_ms": 0}}), 422, "invalid-request", "3600000"),
        ("/v1/tasks", json!({"prompt": "a", "constraints": {"deadline_ms": 1.5}}), 400, "invalid-json", "whole number"),
        ("/v1/tasks", json!({"prompt": "a", "reward": {"e1": 1.0, "e2": 5.0}}), 422, "invalid-request", "reward.e2"),
        ("/v1/tasks", json!({"prompt": "a", "idempotency_key": ""}), 400, "invalid-json", "idempotency_key"),
        ("/v1/feedback", json!({"decision_id": "7", "score": 1.0}), 422, "invalid-request", "UUID"),
        ("/v1/feedback", json!({"decision_id": some, "score": 1.0}), 404, "unknown-decision", some),
        ("/v1/feedback", json!({"score": 1.0}), 400, "invalid-json", "decision_id"),
    ];
    for (path, body, status, name, hint) in cases {
        let (got, problem) = served.post(path, &body).await;
        check(&body.to_string(), got, &problem, status, name, hint);
    }
    let (status, problem) = served.get(&format!("/v1/decisions/{some}")).await;
    check("decision", status, &problem, 404, "unknown-decision", some);
    let (status, problem) = served.get("/v1/decisions/seven").await;
    check("decision", status, &problem, 422, "invalid-request", "UUID");
    let (status, problem) = served.get("/v1/taks").await;
    check("route", status, &problem, 404, "no-such-route", "/v1/taks");
    let (status, problem) = served.get("/v1/tasks").await;
    check("method", status, &problem, 405, "method-not-allowed", "POST");
    assert_eq!(served.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn bytes_that_are_no_request_get_their_own_problem() {
    let served = Served::new(CONFIG);
    let cases: [(Vec<u8>, u16, &str, &str); 5] = [
        (b"{\"prompt\": \"caf\xe9\"}".to_vec(), 400, "invalid-utf8", "byte 15"),
        (b"{\"prompt\": \"a\"".to_vec(), 400, "invalid-json", "EOF"),
        (b"{\"prompt\": \"a\"} {}".to_vec(), 400, "invalid-json", "after the first value"),
        (b"".to_vec(), 400, "invalid-json", "EOF"),
        (vec![b' '; 33 << 20], 413, "too-large", "body_bytes_max"),
    ];
    for (body, status, name, hint) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let (got, problem) = served.post_bytes("/v1/tasks", body).await;
        check(&shown, got, &problem, status, name, hint);
    }
    let (status, problem) = {
        let request = reqwest::Client::new().post(format!("{}/v1/tasks", served.url)).body("prompt=a");
        let response = request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    check("form", status, &problem, 415, "unsupported-media-type", "application/json");
    let nested = format!("{{\"prompt\": \"a\", \"metadata\": {}1{}}}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    let (status, problem) = served.post_bytes("/v1/tasks", nested).await;
    check("nested", status, &problem, 400, "invalid-json", "recursion");
}

#[tokio::test]
async fn out_of_range_feedback_is_refused_and_nothing_is_learnt() {
    let served = Served::new(CONFIG);
    let (_, decision) = served.post("/v1/route", &sum(1, 2)).await;
    let id = &decision["decision_id"];
    let cases = [
        (json!({"decision_id": id, "score": 1.5}), "from 0 to 1"),
        (json!({"decision_id": id, "score": -0.1}), "from 0 to 1"),
        (json!({"decision_id": id, "score": 1.0, "cost_usd": -1.0}), "cost_usd"),
        (json!({"decision_id": id}), "score"),
        (json!({"decision_id": id, "score": 1.0, "output": "3"}), "output"),
    ];
    for (body, hint) in cases {
        let (status, problem) = served.post("/v1/feedback", &body).await;
        check(&body.to_string(), status, &problem, 422, "invalid-request", hint);
    }
    assert_eq!(served.get("/v1/regret").await.1["rounds"], 0);
}

fn check(what: &str, got: u16, problem: &Value, status: u16, name: &str, hint: &str) {
    assert_eq!(got, status, "{what}: {problem}");
    assert_eq!(problem["type"], format!("urn:pointsman:problem:{name}"), "{what}: {problem}");
    assert_eq!(problem["status"], status, "{what}");
    assert!(problem["detail"].as_str().unwrap().contains(hint), "{what}: {problem}");
}
