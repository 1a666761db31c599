//! The two chat protocols, spoken to workers of both: whole, streamed, broken off and replaced.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::stream;
use serde_json::{Value, json};

use crate::served::Served;

/// A worker of the OpenAI protocol whose model's name says how it behaves.
async fn openai(Json(body): Json<Value>) -> Response {
    let model = body["model"].as_str().unwrap().to_owned();
    if model == "dead" {
        return (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response();
    }
    if model == "strict" {
        let error = json!({"error": {"message": "temperature: too hot", "type": "invalid_request_error"}});
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    let chunk = |delta: Value, finish: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        format!(
            "data: {}\n\n",
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": choices})
        )
    };
    let text = |text: &str| chunk(json!({"content": text}), Value::Null);
    if body["stream"] == true {
        assert_eq!(body["stream_options"]["include_usage"], true, "the usage is always asked for");
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":5}}\n\n".to_owned();
        let role = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
        let frames = match model.as_str() {
            "breaks" => vec![role, text("The answer"), text(" is")],
            "mute" => vec![role],
            _ if body["tools"].is_array() => {
                let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
                vec![
                    role,
                    call(
                        json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}}),
                    ),
                    call(json!({"index": 0, "function": {"arguments": "{\"a\":40,"}})),
                    call(json!({"index": 0, "function": {"arguments": "\"b\":2}"}})),
                    chunk(json!({}), json!("tool_calls")),
                    usage,
                    "data: [DONE]\n\n".to_owned(),
                ]
            }
            _ => vec![
                role,
                text("The answer"),
                text(" is 42."),
                chunk(json!({}), json!("stop")),
                usage,
                "data: [DONE]\n\n".to_owned(),
            ],
        };
        let frames = stream::unfold(frames.into_iter(), |mut frames| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(frames.next()?)), frames))
        });
        return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response();
    }
    if body["tools"].is_array() {
        let call =
            json!({"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":40,\"b\":2}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        return Json(json!({
            "id": "chatcmpl-2", "object": "chat.completion", "created": 7, "model": "m", "odd": 1.50,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
        }))
        .into_response();
    }
    let seen = body["seen_by_worker"].clone();
    let body = format!(
        "{{\"id\":\"chatcmpl-3\",\"object\":\"chat.completion\",\"created\":7,\"model\":\"m\",\"x\":1.50,\"seen\":{seen},\
         \"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"The answer is 42.\"}},\"finish_reason\":\"stop\"}}],\
         \"usage\":{{\"prompt_tokens\":11,\"completion_tokens\":5,\"total_tokens\":16}}}}"
    );
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A worker of the Anthropic protocol.
async fn anthropic(headers: HeaderMap, Json(body): Json<Value>) -> Response {
    assert!(headers.contains_key("anthropic-version") && body["max_tokens"].is_u64());
    let tools = body["tools"].is_array();
    if tools {
        assert_eq!(body["tools"][0]["input_schema"]["type"], "object", "tools are put in the worker's words");
    }
    if body["stream"] == true {
        let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
        let delta = |delta: Value| {
            event("content_block_delta", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
        };
        let (block, deltas, reason) = if tools {
            let json = |part: &str| delta(json!({"type": "input_json_delta", "partial_json": part}));
            let block = json!({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}});
            (block, [json("{\"a\":40,"), json("\"b\":2}")].concat(), "tool_use")
        } else {
            let text = delta(json!({"type": "text_delta", "text": "It is 42."}));
            (json!({"type": "text", "text": ""}), text, "end_turn")
        };
        let text = [
            event(
                "message_start",
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
                "model": "c", "content": [], "stop_reason": null, "usage": {"input_tokens": 9, "output_tokens": 1}}}),
            ),
            event("content_block_start", json!({"type": "content_block_start", "index": 0, "content_block": block})),
            deltas,
            event("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
            event(
                "message_delta",
                json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 6}}),
            ),
            event("message_stop", json!({"type": "message_stop"})),
        ];
        return ([(header::CONTENT_TYPE, "text/event-stream")], text.concat()).into_response();
    }
    let (content, reason) = if tools {
        (json!({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 40, "b": 2}}), "tool_use")
    } else {
        (json!({"type": "text", "text": "It is 42."}), "end_turn")
    };
    Json(json!({"id": "msg_2", "type": "message", "role": "assistant", "model": "c", "stop_reason": reason,
        "content": [content], "usage": {"input_tokens": 9, "output_tokens": 6}}))
    .into_response()
}

async fn workers() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/v1/chat/completions", post(openai)).route("/v1/messages", post(anthropic));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

async fn served(arms: &[(&str, &str)]) -> Served {
    let address = workers().await;
    let arm = |(id, kind): &(&str, &str)| {
        format!(
            "[[arms]]\nid = \"{id}\"\nkind = \"{kind}\"\nbase_url = \"http://{address}/v1\"\nmodel = \"{id}\"\nretries = 0\n\
             input_usd_per_1m = 100.0\noutput_usd_per_1m = 1000.0\ncapabilities = [\"tools\"]\n"
        )
    };
    let arms: String = arms.iter().map(arm).collect();
    Served::new(&format!("[domains.math]\n{arms}"))
}

async fn ask(served: &Served, path: &str, body: &Value, headers: &[(&str, &str)]) -> (u16, HeaderMap, String) {
    let mut request = reqwest::Client::new().post(format!("{}{path}", served.url)).json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.headers().clone(), response.text().await.unwrap())
}

fn named<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers[name].to_str().unwrap()
}

fn chat(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "What is 40 + 2?"}], "temperature": 0.50})
}

fn message(model: &str) -> Value {
    json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "What is 40 + 2?"}]})
}

#[tokio::test]
async fn a_client_of_the_workers_protocol_gets_its_bytes() {
    let served = served(&[("m", "openai")]).await;
    let mut body = chat("auto:math");
    body["seen_by_worker"] = json!("a field that nobody here knows");
    let (status, headers, text) = ask(&served, "/v1/chat/completions", &body, &[("x-pointsman-explain", "true")]).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\"x\":1.50") && text.contains("a field that nobody here knows"), "{text}");
    assert_eq!((named(&headers, "x-pointsman-arm"), named(&headers, "x-pointsman-mode")), ("m", "single"));
    assert_eq!((named(&headers, "x-pointsman-domain"), named(&headers, "x-pointsman-propensity")), ("math", "1"));
    assert_eq!(named(&headers, "x-pointsman-cost-usd"), "0.0061", "11 tokens read and 5 written");
    assert!(named(&headers, "x-pointsman-explain").contains("\"pmf\""));
    let why = served.get(&format!("/v1/decisions/{}", named(&headers, "x-pointsman-decision"))).await.1;
    assert_eq!(
        (&why["outcome"]["output"], &why["feedback"][0]["source"]),
        (&json!("The answer is 42."), &json!("verifier"))
    );

    body["stream"] = json!(true);
    let (status, headers, text) = ask(&served, "/v1/chat/completions", &body, &[]).await;
    assert_eq!((status, named(&headers, "content-type")), (200, "text/event-stream"));
    assert!(text.ends_with("data: [DONE]\n\n") && !text.contains("usage"), "it was not asked for: {text}");
    body["stream_options"] = json!({"include_usage": true});
    let (_, headers, text) = ask(&served, "/v1/chat/completions", &body, &[]).await;
    assert!(text.contains("\"usage\""), "{text}");
    served.learnt(3).await;
    let why = served.get(&format!("/v1/decisions/{}", named(&headers, "x-pointsman-decision"))).await.1;
    assert_eq!((&why["outcome"]["output"], &why["outcome"]["cost_usd"]), (&json!("The answer is 42."), &json!(0.0061)));
}

#[tokio::test]
async fn an_answer_is_verified_after_it_is_sent_unless_its_score_is_asked_for() {
    let served = served(&[("m", "openai")]).await;
    let body = chat("auto:math");
    let (_, headers, _) = ask(&served, "/v1/chat/completions", &body, &[("x-pointsman-explain", "true")]).await;
    let scored = named(&headers, "x-pointsman-score").to_owned();
    let key = [("idempotency-key", "once")];
    let (status, first, _) = ask(&served, "/v1/chat/completions", &body, &key).await;
    assert_eq!((status, first.get("x-pointsman-score")), (200, None), "nobody waited for it");
    // At once, whether or not the verifiers have spoken.
    let (status, again, text) = ask(&served, "/v1/chat/completions", &body, &key).await;
    assert_eq!((status, named(&again, "x-pointsman-repeated")), (200, "true"), "{text}");
    assert_eq!(named(&again, "x-pointsman-decision"), named(&first, "x-pointsman-decision"));
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    for _ in 0..2 {
        let key = [("idempotency-key", "streamed once")];
        let (status, _, text) = ask(&served, "/v1/chat/completions", &streamed, &key).await;
        assert!(status == 200 && text.ends_with("data: [DONE]\n\n"), "{status}: {text}");
    }
    served.learnt(3).await;
    let why = served.get(&format!("/v1/decisions/{}", named(&first, "x-pointsman-decision"))).await.1;
    assert_eq!(why["feedback"][0]["source"], "verifier", "{why}");
    assert_eq!(why["feedback"][0]["score"].to_string(), format!("{scored}.0"), "{why}");
}

#[tokio::test]
async fn clients_and_workers_of_different_protocols_understand_each_other() {
    let served = served(&[("m", "openai"), ("c", "anthropic")]).await;
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (status, _, text) = ask(&served, "/v1/messages", &message("m"), &[]).await;
    let answer = read(&text);
    assert_eq!(
        (status, &answer["content"][0]["text"], &answer["stop_reason"]),
        (200, &json!("The answer is 42."), &json!("end_turn"))
    );
    assert_eq!(answer["usage"]["input_tokens"], 11);
    let (status, _, text) = ask(&served, "/v1/chat/completions", &chat("c"), &[]).await;
    let answer = read(&text);
    assert_eq!((status, &answer["choices"][0]["message"]["content"]), (200, &json!("It is 42.")));

    let mut streamed = message("m");
    streamed["stream"] = json!(true);
    let (_, _, text) = ask(&served, "/v1/messages", &streamed, &[]).await;
    assert!(
        text.starts_with("event: message_start") && text.trim_end().ends_with("{\"type\":\"message_stop\"}"),
        "{text}"
    );
    let mut streamed = chat("c");
    streamed["stream"] = json!(true);
    let (_, _, text) = ask(&served, "/v1/chat/completions", &streamed, &[]).await;
    assert!(text.contains("It is 42.") && text.ends_with("data: [DONE]\n\n"), "{text}");

    let mut tools = message("m");
    tools["tools"] = json!([{"name": "add", "description": "adds", "input_schema": {"type": "object"}}]);
    let (status, _, text) = ask(&served, "/v1/messages", &tools, &[("idempotency-key", "t1")]).await;
    let answer = read(&text);
    assert_eq!(
        (status, &answer["stop_reason"], &answer["content"][0]["input"]),
        (200, &json!("tool_use"), &json!({"a": 40, "b": 2}))
    );
    let (_, headers, text) = ask(&served, "/v1/messages", &tools, &[("idempotency-key", "t1")]).await;
    assert_eq!(
        (named(&headers, "x-pointsman-repeated"), &read(&text)["content"][0]["input"]),
        ("true", &json!({"a": 40, "b": 2}))
    );
}

#[tokio::test]
async fn a_worker_that_fails_before_its_first_word_is_replaced_unseen() {
    let served = served(&[("dead", "openai"), ("mute", "openai"), ("m", "openai")]).await;
    for _ in 0..6 {
        let mut body = chat("auto");
        body["stream"] = json!(true);
        let (status, headers, text) = ask(&served, "/v1/chat/completions", &body, &[]).await;
        assert_eq!((status, named(&headers, "x-pointsman-arm")), (200, "m"), "{text}");
        assert!(text.contains("The answer") && text.ends_with("data: [DONE]\n\n") && !text.contains("error"), "{text}");
    }
    let (status, headers, text) = ask(&served, "/v1/chat/completions", &chat("dead"), &[]).await;
    assert_eq!((status, named(&headers, "x-pointsman-arm")), (502, "dead"), "pinned: {text}");
    assert!(text.contains("out of order") && text.contains("\"error\""), "{text}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_with_an_error_and_is_a_failure() {
    let served = served(&[("breaks", "openai")]).await;
    for (path, mut body, error) in [
        ("/v1/chat/completions", chat("auto"), "data: {\"error\":"),
        ("/v1/messages", message("auto"), "event: error\ndata: {"),
    ] {
        body["stream"] = json!(true);
        let (status, headers, text) = ask(&served, path, &body, &[]).await;
        assert_eq!(status, 200);
        assert!(text.contains("The answer") && text.contains(error) && !text.contains("[DONE]"), "{text}");
        let path = format!("/v1/decisions/{}", named(&headers, "x-pointsman-decision"));
        let why = served.get(&path).await.1;
        assert_eq!((&why["outcome"]["status"], &why["outcome"]["output"]), (&json!("failed"), &json!("")));
        assert_eq!((&why["feedback"][0]["source"], &why["feedback"][0]["score"]), (&json!("failure"), &json!(0.0)));
        assert!(why["outcome"]["cost_usd"].as_f64().unwrap() > 0.0, "what was said until then was paid for");
    }
}

#[tokio::test]
async fn a_refused_request_is_the_clients_to_mend_and_blames_no_arm() {
    let served = served(&[("strict", "openai"), ("m", "openai")]).await;
    let (status, headers, text) = ask(&served, "/v1/chat/completions", &chat("strict"), &[]).await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("temperature: too hot"), "{text}");
    let why = served.get(&format!("/v1/decisions/{}", named(&headers, "x-pointsman-decision"))).await.1;
    assert_eq!((&why["feedback"][0]["score"], &why["outcome"]["status"]), (&Value::Null, &json!("failed")));
    let wrong = [
        (json!({"messages": []}), 400, "model"),
        (chat("nobody"), 404, "there is no model"),
        (json!({"model": "auto", "messages": [{"role": "robot", "content": "x"}]}), 400, "role"),
        (json!({"model": "auto", "messages": [{"role": "user", "content": 7}]}), 400, "content"),
        (chat("auto:poetry"), 400, "poetry"),
    ];
    for (body, status, said) in wrong {
        let (found, _, text) = ask(&served, "/v1/chat/completions", &body, &[]).await;
        assert!(found == status && text.contains(said) && text.contains("\"error\""), "{found} {text}");
    }
    for (name, value) in [("x-pointsman-alpha", "1"), ("x-pointsman-reward", "1"), ("x-pointsman-explain", "maybe")] {
        let (status, _, text) = ask(&served, "/v1/chat/completions", &chat("m"), &[(name, value)]).await;
        assert_eq!(status, 400, "{name}: {text}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_call_and_nothing_is_learnt_of_the_arm() {
    let served = served(&[("m", "openai")]).await;
    let mut body = chat("auto");
    body["stream"] = json!(true);
    let mut request =
        reqwest::Client::new().post(format!("{}/v1/chat/completions", served.url)).json(&body).send().await.unwrap();
    let id = request.headers()["x-pointsman-decision"].to_str().unwrap().to_owned();
    request.chunk().await.unwrap();
    drop(request);
    for _ in 0..100 {
        let why = served.get(&format!("/v1/decisions/{id}")).await.1;
        if why["outcome"].is_object() {
            let outcome = &why["outcome"];
            if outcome["status"] == "failed" {
                assert!(outcome["calls"][0]["status"]["error"].as_str().unwrap().contains("client left"), "{why}");
                assert_eq!(why["feedback"][0]["score"], Value::Null);
            }
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the call never ended");
}

#[tokio::test]
async fn models_are_listed_for_both_kinds_of_clients() {
    let served = served(&[("m", "openai"), ("c", "anthropic")]).await;
    let (status, models) = served.get("/v1/models").await;
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((status, ids), (200, vec!["auto", "auto:math", "m", "c"]));
}

/// The SDKs that teams use, unmodified. `POINTSMAN_SDK_PYTHON` names a Python that has them.
#[tokio::test]
async fn the_sdks_of_both_protocols_are_served() {
    let Some(python) = std::env::var_os("POINTSMAN_SDK_PYTHON") else {
        println!("skipped: POINTSMAN_SDK_PYTHON names no Python with openai, anthropic and litellm");
        return;
    };
    let served = served(&[("m", "openai"), ("c", "anthropic")]).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/clients.py");
    let url = served.url.clone();
    let ran = tokio::task::spawn_blocking(move || {
        crate::served::output(std::process::Command::new(python).arg(script).arg(url))
    });
    let (status, stdout, stderr) = ran.await.unwrap();
    assert!(status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
}
