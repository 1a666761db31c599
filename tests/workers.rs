//! Workers behind an OpenAI-compatible endpoint: a small one is served here, with the failures of real ones.

use std::net::SocketAddr;

use axum::{Json, Router, http::HeaderMap, http::StatusCode, response::IntoResponse, routing::post};
use serde_json::{Value, json};

use crate::served::{Served, sum};

async fn endpoint() -> SocketAddr {
    async fn complete(headers: HeaderMap, Json(body): Json<Value>) -> axum::response::Response {
        if headers.get("authorization").is_none_or(|value| value != "Bearer sesame") {
            return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
        }
        match body["model"].as_str().unwrap() {
            "broken" => (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response(),
            "strange" => Json(json!({"hello": "world"})).into_response(),
            "hanging" => std::future::pending().await,
            _ => {
                let said = body["messages"][0]["content"].as_str().unwrap();
                let sum: u64 = said.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).sum();
                Json(json!({
                    "choices": [{"message": {"role": "assistant", "content": format!("The answer is {sum}.")}}],
                    "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
                }))
                .into_response()
            }
        }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/v1/chat/completions", post(complete));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

fn arm(id: &str, base: &str, key: &str) -> String {
    format!(
        "[[arms]]\nid = \"{id}\"\nkind = \"openai\"\nbase_url = \"{base}\"\nmodel = \"{id}\"\napi_key_env = \"{key}\"\n\
         timeout_ms = 400\ninput_usd_per_1m = 2.0\noutput_usd_per_1m = 10.0\n"
    )
}

#[tokio::test]
async fn an_answer_is_verified_and_a_failure_is_named_and_learnt_from() {
    let base = format!("http://{}/v1", endpoint().await);
    let config: String = [
        arm("adder", &base, "POINTSMAN_TEST_KEY"),
        arm("broken", &base, "POINTSMAN_TEST_KEY"),
        arm("strange", &base, "POINTSMAN_TEST_KEY"),
        arm("hanging", &base, "POINTSMAN_TEST_KEY"),
        arm("locked", &base, "POINTSMAN_TEST_WRONG_KEY"),
        arm("gone", "http://127.0.0.1:9/v1", "POINTSMAN_TEST_KEY"),
    ]
    .concat();
    let served = Served::with_env(&config, &[("POINTSMAN_TEST_KEY", "sesame"), ("POINTSMAN_TEST_WRONG_KEY", "please")]);
    let on = |arm: &str| {
        let mut task = sum(20, 22);
        task["constraints"] = json!({"arms": [arm]});
        task
    };
    let (status, answer) = served.post("/v1/tasks", &on("adder")).await;
    assert_eq!((status, &answer["output"]), (200, &json!("The answer is 42.")), "{answer}");
    assert!(answer["score"].as_f64().unwrap() > 0.9);
    assert!((answer["cost_usd"].as_f64().unwrap() - 0.003).abs() < 1e-12);
    for (arm, hint) in [
        ("broken", "500: out of order"),
        ("strange", "not a chat completion"),
        ("hanging", "no answer within 400 ms"),
        ("locked", "$POINTSMAN_TEST_WRONG_KEY"),
        ("gone", "cannot reach http://127.0.0.1:9/v1/chat/completions"),
    ] {
        let (status, problem) = served.post("/v1/tasks", &on(arm)).await;
        assert_eq!((status, &problem["type"]), (502, &json!("urn:pointsman:problem:worker-failed")), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(arm) && detail.contains(hint), "{detail}");
        assert!(!detail.contains("sesame") && !detail.contains("please"), "a key leaked: {detail}");
        let (_, why) = served.get(&format!("/v1/decisions/{}", problem["decision_id"].as_str().unwrap())).await;
        assert_eq!((&why["outcome"]["status"], &why["feedback"][0]["source"]), (&json!("failed"), &json!("failure")));
    }
    let report = served.learnt(6).await;
    assert_eq!(report["kind"], "estimated", "live workers have no counterfactual");
}

#[tokio::test]
async fn another_worker_takes_over_by_a_decision_of_its_own() {
    let base = format!("http://{}/v1", endpoint().await);
    let arms = [arm("broken", &base, "POINTSMAN_TEST_KEY"), arm("adder", &base, "POINTSMAN_TEST_KEY")].concat();
    let config = format!("[policy]\nname = \"fixed:broken\"\n{arms}")
        .replace("timeout_ms = 400", "timeout_ms = 4000\nretries = 0");
    let served = Served::with_env(&config, &[("POINTSMAN_TEST_KEY", "sesame")]);
    let mut task = sum(1, 22);
    task["idempotency_key"] = json!("k1");
    let (status, answer) = served.post("/v1/tasks", &task).await;
    assert_eq!((status, &answer["arm"]), (200, &json!("adder")), "{answer}");
    let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    let first = why["context"]["instead_of"].as_str().expect("the broken arm was decided for first");
    assert_eq!((why["decision"]["pmf"].as_array().unwrap().len(), &why["decision"]["propensity"]), (1, &json!(1.0)));
    assert_eq!(why["context"]["masked"], json!([{"arm": "broken", "why": "failed"}]));
    let (_, failed) = served.get(&format!("/v1/decisions/{first}")).await;
    assert_eq!((&failed["decision"]["arm"], &failed["outcome"]["status"]), (&json!("broken"), &json!("failed")));
    assert_eq!((&failed["feedback"][0]["source"], &failed["feedback"][0]["score"]), (&json!("failure"), &json!(0.0)));
    let (status, again) = served.post("/v1/tasks", &task).await;
    assert_eq!((status, &again["repeated"], &again["decision_id"]), (200, &json!(true), &answer["decision_id"]));
    let metrics = served.get("/metrics").await.1.as_str().unwrap().to_owned();
    assert!(metrics.contains("pointsman_replaced_total"), "{metrics}");
}
