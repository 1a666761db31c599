use serde_json::{Value, json};

use super::{super::*, json};
use Protocol::{Anthropic, OpenAi};

fn sent(from: Protocol, to: Protocol, body: &Value) -> Result<Value, ChatError> {
    let request = ChatRequest::parse(from, body.to_string().as_bytes())?;
    request.to_upstream(to, "worker-model").map(|bytes| json(&bytes))
}

fn openai_chat() -> Value {
    json!({
        "model": "auto", "max_completion_tokens": 50, "temperature": 1.5, "top_p": 0.9, "stop": "END", "stream": true,
        "stream_options": {"include_usage": true}, "user": "u1", "n": 1, "seed": 7, "parallel_tool_calls": false,
        "tool_choice": "required", "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        "tools": [{"type": "function", "function": {"name": "add", "description": "adds", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Use tools."}]},
            {"role": "user", "content": [
                {"type": "text", "text": "See"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":12345678901234567890123}"}},
                {"id": "c2", "type": "function", "function": {"name": "add", "arguments": ""}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "2"}]},
            {"role": "user", "content": "And?"},
        ],
    })
}

#[test]
fn an_openai_request_becomes_an_anthropic_one() {
    let body = openai_chat();
    let request = ChatRequest::parse(OpenAi, body.to_string().as_bytes()).unwrap();
    let bytes = request.to_upstream(Anthropic, "worker-model").unwrap();
    // A number that no double holds keeps its digits.
    assert!(String::from_utf8_lossy(&bytes).contains(r#""input":{"a":12345678901234567890123}"#));
    let mut sent = json(&bytes);
    sent["messages"][1]["content"][0]["input"] = json!({});
    assert_eq!(
        sent,
        json!({
            "model": "worker-model", "max_tokens": 50, "temperature": 1, "top_p": 0.9, "stop_sequences": ["END"],
            "stream": true, "metadata": {"user_id": "u1"},
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
            "tools": [{"name": "add", "description": "adds", "input_schema": {"type": "object"}}],
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Use tools."}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "See"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "2"},
                    {"type": "text", "text": "And?"}]},
            ],
        })
    );
}

#[test]
fn an_anthropic_request_becomes_an_openai_one() {
    let body = json!({
        "model": "auto", "max_tokens": 99, "temperature": 0.5, "stop_sequences": ["a", "b"], "stream": true,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": "u1"}, "thinking": {"type": "enabled", "budget_tokens": 2000},
        "output_config": {"effort": "max"},
        "tools": [{"name": "add", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": true},
        "messages": [
            {"role": "user", "content": "Add"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "Well."},
                {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [
                    {"type": "text", "text": "seen"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
                {"type": "text", "text": "So?"}]},
        ],
    });
    assert_eq!(
        sent(Anthropic, OpenAi, &body).unwrap(),
        json!({
            "model": "worker-model", "max_tokens": 99, "temperature": 0.5, "stop": ["a", "b"], "stream": true,
            "stream_options": {"include_usage": true}, "user": "u1", "reasoning_effort": "xhigh",
            "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
            "tool_choice": {"type": "function", "function": {"name": "add"}}, "parallel_tool_calls": false,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Add"},
                {"role": "assistant", "content": "Well.", "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}]},
                {"role": "tool", "tool_call_id": "t1", "content": "seen"},
                {"role": "user", "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "text", "text": "So?"}]},
            ],
        })
    );
}

#[test]
fn the_same_protocol_changes_the_model_and_asks_for_the_usage() {
    let body = br#"{"x": 1.50e+3,"model":"auto", "stream":true,"messages":[{"role":"user","content":"\u0041"}],"z":{"b":1,"a":2}}"#;
    let request = ChatRequest::parse(OpenAi, body).unwrap();
    assert!(request.stream() && !request.wants_usage());
    assert_eq!(request.messages()[0].content, "A");
    let sent = String::from_utf8(request.to_upstream(OpenAi, "m\"1").unwrap()).unwrap();
    let messages = r#""messages":[{"role":"user","content":"\u0041"}],"z":{"b":1,"a":2}"#;
    let expected =
        format!(r#"{{"x":1.50e+3,"model":"m\"1","stream":true,{messages},"stream_options":{{"include_usage":true}}}}"#);
    assert_eq!(sent, expected);
}

#[test]
fn thinking_that_no_anthropic_model_signed_is_taken_out_again() {
    let body = json!({"model": "auto", "max_tokens": 5, "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": UNSIGNED}, {"type": "text", "text": "Ho"}]},
        {"role": "user", "content": "So?"}]});
    let sent = sent(Anthropic, Anthropic, &body).unwrap();
    assert_eq!(sent["messages"][1]["content"], json!([{"type": "text", "text": "Ho"}]));
}

#[test]
fn texts_and_needs_are_what_routing_wants() {
    let request = ChatRequest::parse(OpenAi, openai_chat().to_string().as_bytes()).unwrap();
    let texts: Vec<_> = request.messages().iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
    let expected = [
        ("system", "Be brief."),
        ("system", "Use tools."),
        ("user", "See"),
        ("assistant", ""),
        ("tool", "1"),
        ("tool", "2"),
        ("user", "And?"),
    ];
    assert_eq!(texts, expected);
    assert_eq!(request.needs().iter().map(|need| need.as_str()).collect::<Vec<_>>(), ["vision", "tools"]);
    assert_eq!((request.max_tokens(), request.model()), (Some(50), "auto"));
}

#[test]
fn what_cannot_be_translated_is_named() {
    let openai = |field: &str, value: Value| {
        let mut body = json!({"model": "auto", "messages": [{"role": "user", "content": "Hi"}]});
        body[field] = value;
        sent(OpenAi, Anthropic, &body).map_err(|error| match error {
            ChatError::Untranslatable { field, .. } => field,
            other => panic!("{other}"),
        })
    };
    for (field, value, named) in [
        ("n", json!(2), "n"),
        ("modalities", json!(["text", "audio"]), "modalities"),
        ("audio", json!({"voice": "a"}), "audio"),
        ("logprobs", json!(true), "logprobs"),
        ("presence_penalty", json!(0.5), "presence_penalty"),
        ("response_format", json!({"type": "json_object"}), "response_format.type"),
        ("stop", json!(["\n\n"]), "stop"),
        ("tools", json!([{"type": "custom", "custom": {"name": "x"}}]), "tools[0].type"),
        ("brand_new", json!(1), "brand_new"),
        ("messages", json!([{"role": "user", "content": [{"type": "input_audio"}]}]), "messages[0].content[0].type"),
    ] {
        assert_eq!(openai(field, value).unwrap_err(), named);
    }
    assert!(openai("n", json!(1)).is_ok());
    let body = json!({"model": "auto", "max_tokens": 1, "top_k": 5, "messages": []});
    let error = sent(Anthropic, OpenAi, &body).unwrap_err().to_string();
    assert!(error.starts_with("top_k: cannot be sent to a worker of the OpenAI protocol"), "{error}");
}

#[test]
fn bad_requests_are_refused_with_the_place() {
    for (body, place) in [
        ("", "body"),
        ("[]", "body"),
        ("{\"model\":\"a\",\"model\":\"b\"}", "model: stands twice"),
        ("{\"messages\":[]}", "model: is missing"),
        ("{\"model\":\"a\"}", "messages: is missing"),
        ("{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":7}]}", "messages[0].content: must be"),
        ("{\"model\":\"a\",\"messages\":[{\"role\":\"king\"}]}", "messages[0].role: must be"),
        ("{\"model\":\"a\",\"messages\":[],\"stream\":1}", "stream: must be true or false"),
    ] {
        let error = ChatRequest::parse(OpenAi, body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(place), "{body}: {error}");
    }
    assert!(ChatRequest::parse(OpenAi, b"{\"model\":\"\xff\",\"messages\":[]}").is_err());
    let deep = format!(r#"{{"model":"a","messages":[],"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let request = ChatRequest::parse(OpenAi, deep.as_bytes()).unwrap();
    assert!(request.to_upstream(Anthropic, "m").is_err());
}
