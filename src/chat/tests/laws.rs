use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::*, across, json};
use Protocol::{Anthropic, OpenAi};

fn turns() -> impl Strategy<Value = Vec<Value>> {
    let text = "[a-z\u{e9}\"\\\\\n ]{1,12}";
    let call = (text, -9_007_199_254_740_992_i64..9_007_199_254_740_992);
    let turn = prop_oneof![
        text.prop_map(|text| vec![json!({"role": "user", "content": text})]),
        text.prop_map(|text| vec![json!({"role": "assistant", "content": text})]),
        (prop::collection::vec(call, 1..4), text).prop_map(|(calls, result)| {
            let id = |at: usize| format!("call_{at}");
            let called: Vec<_> = calls
                .iter()
                .enumerate()
                .map(|(at, (text, number))| {
                    let arguments = json!({"text": text, "number": number}).to_string();
                    json!({"id": id(at), "type": "function", "function": {"name": "f", "arguments": arguments}})
                })
                .collect();
            let mut turns = vec![json!({"role": "assistant", "content": null, "tool_calls": called})];
            turns.extend((0..calls.len()).map(|at| json!({"role": "tool", "tool_call_id": id(at), "content": result})));
            turns
        }),
    ];
    prop::collection::vec(turn, 1..6).prop_map(|turns| turns.concat())
}

proptest! {
    #[test]
    fn a_chat_translated_there_and_back_is_the_same(turns in turns(), system in "[a-z]{1,9}") {
        let mut messages = vec![json!({"role": "system", "content": system})];
        messages.extend(turns);
        let body = json!({"model": "auto", "max_tokens": 9, "messages": messages});
        let there = ChatRequest::parse(OpenAi, body.to_string().as_bytes()).unwrap();
        let anthropic = there.to_upstream(Anthropic, "auto").unwrap();
        let back = ChatRequest::parse(Anthropic, &anthropic).unwrap();
        prop_assert_eq!(there.messages(), back.messages());
        prop_assert_eq!(json(&back.to_upstream(OpenAi, "auto").unwrap()), body);
    }

    #[test]
    fn an_answer_translated_there_and_back_says_the_same(
        text in "[a-z\u{e9}\"\\\\ ]{0,12}", calls in prop::collection::vec(("[a-z]{1,5}", any::<i64>()), 0..4),
        input in 0_u64..1 << 23, output in 0_u64..1 << 24, cached in 0_u64..1 << 20,
    ) {
        let called: Vec<_> = calls.iter().enumerate().map(|(at, (name, number))| json!({
            "id": format!("c{at}"), "type": "function",
            "function": {"name": name, "arguments": json!({"n": number}).to_string()},
        })).collect();
        let body = json!({"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "message": {
            "role": "assistant", "content": text, "tool_calls": called,
        }, "finish_reason": if calls.is_empty() { "stop" } else { "tool_calls" }}], "usage": {
            "prompt_tokens": input + cached, "completion_tokens": output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }}).to_string();
        let said = Answer::read(OpenAi, body.as_bytes()).unwrap();
        let there = translate_answer(across(OpenAi, Anthropic), body.into()).unwrap();
        prop_assert_eq!(&Answer::read(Anthropic, &there).unwrap(), &said);
        let back = translate_answer(across(Anthropic, OpenAi), there).unwrap();
        prop_assert_eq!(&Answer::read(OpenAi, &back).unwrap(), &said);
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(garbage in prop::collection::vec(any::<u8>(), 0..300), cut in 0..4000_usize) {
        let stream = super::streams::OPENAI.as_bytes();
        let spoiled = [&stream[..cut.min(stream.len())], &garbage, &stream[cut.min(stream.len())..]].concat();
        for (from, to) in [(OpenAi, Anthropic), (Anthropic, OpenAi), (OpenAi, OpenAi), (Anthropic, Anthropic)] {
            prop_assert!(ChatRequest::parse(from, &garbage).is_err());
            prop_assert!(Answer::read(from, &garbage).is_err());
            let mut parser = SseParser::default();
            parser.push(&spoiled);
            let mut translator = StreamTranslator::new(across(from, to));
            let mut frames = vec![];
            while let Ok(Some(event)) = parser.next_event() {
                if translator.push(&event, &mut frames).is_err() {
                    break;
                }
            }
            prop_assert_eq!(translator.end().is_ok(), translator.observer().has_ended());
        }
    }
}
