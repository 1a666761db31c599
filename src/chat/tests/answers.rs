use serde_json::json;

use super::{super::*, across, json};
use Protocol::{Anthropic, OpenAi};

#[test]
fn an_openai_answer_becomes_an_anthropic_one() {
    let body = json!({"id": "chatcmpl-7", "object": "chat.completion", "created": 5, "model": "m", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi", "reasoning_content": "hm",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}]}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}});
    let bytes = translate_answer(across(OpenAi, Anthropic), body.to_string().into()).unwrap();
    assert_eq!(
        json(&bytes),
        json!({
        "id": "msg_7", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "stop_sequence": null, "content": [
            {"type": "thinking", "thinking": "hm", "signature": UNSIGNED},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}],
        "usage": {"input_tokens": 6, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0, "output_tokens": 3}})
    );
}

#[test]
fn an_anthropic_answer_becomes_an_openai_one() {
    let body = json!({"id": "msg_7", "type": "message", "role": "assistant", "model": "m", "stop_reason": "max_tokens",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}],
        "usage": {"input_tokens": 6, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 1, "output_tokens": 3}});
    let bytes = translate_answer(across(Anthropic, OpenAi), body.to_string().into()).unwrap();
    assert_eq!(
        json(&bytes),
        json!({
        "id": "chatcmpl-7", "object": "chat.completion", "created": 1_700_000_000, "model": "m", "choices": [
            {"index": 0, "finish_reason": "length", "logprobs": null, "message": {"role": "assistant", "content": "Hi",
                "refusal": null, "reasoning_content": "hm",
                "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}]}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 4}}})
    );
}

#[test]
fn the_same_protocol_is_handed_on_and_wrong_answers_are_errors() {
    let odd = tokio_util::bytes::Bytes::from_static(b"{ \"anything\" : 1.0 }");
    assert_eq!(translate_answer(across(OpenAi, OpenAi), odd.clone()).unwrap(), odd);
    for bad in
        ["", "<html>", "{}", "{\"choices\":[]}", "{\"choices\":[{\"message\":{\"content\":\"Hi", "{\"content\":[{}]}"]
    {
        assert!(Answer::read(OpenAi, bad.as_bytes()).is_err(), "{bad}");
        assert!(Answer::read(Anthropic, bad.as_bytes()).is_err(), "{bad}");
    }
    let wrong =
        br#"{"choices":[{"message":{"content":"Hi"}}],"usage":{"prompt_tokens":-1,"completion_tokens":"many"}}"#;
    let answer = Answer::read(OpenAi, wrong).unwrap();
    assert_eq!((answer.text.as_str(), answer.usage), ("Hi", None));
}

#[test]
fn a_refusal_stays_one() {
    let body = br#"{"id":"chatcmpl-1","model":"m","choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}"#;
    assert_eq!(Answer::read(OpenAi, body).unwrap().finish, Some(Finish::Refusal));
    let bytes = translate_answer(across(OpenAi, Anthropic), body.to_vec().into()).unwrap();
    assert_eq!(json(&bytes)["stop_reason"], "refusal");
}

#[test]
fn errors_are_said_in_each_protocols_words_and_read_back() {
    for protocol in [OpenAi, Anthropic] {
        for kind in [ErrorKind::RateLimit, ErrorKind::InvalidRequest, ErrorKind::Server] {
            let read = read_error(&error_body(protocol, kind, "why \"not\""));
            assert_eq!(read, Some((kind, "why \"not\"".into())));
        }
    }
    assert_eq!(read_error(b"<html>"), None);
}
