use tokio_util::bytes::Bytes;

use super::{super::*, across, json};
use Protocol::{Anthropic, OpenAi};

pub(super) const OPENAI: &str = r#"data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

: keep-alive

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"content":"H\u00e9"},"finish_reason":null}]}

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":null}]}

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":""}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"chatcmpl-7","model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

"#;

/// The client's bytes, what was observed and how it ended, for a stream that comes in these pieces.
fn run(translation: Translation, pieces: &[&[u8]]) -> (Vec<u8>, Observer, Result<(), ChatError>) {
    let mut parser = SseParser::default();
    let mut translator = StreamTranslator::new(translation);
    let mut frames: Vec<Bytes> = vec![];
    let mut all = || {
        for piece in pieces {
            parser.push(piece);
            while let Some(event) = parser.next_event()? {
                translator.push(&event, &mut frames)?;
            }
        }
        match std::mem::take(&mut parser).finish() {
            Some(event) => translator.push(&event, &mut frames),
            None => Ok(()),
        }
    };
    let pushed = all();
    let end = pushed.and_then(|()| translator.end());
    (frames.concat(), translator.into_observer(), end)
}

fn answer() -> Answer {
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    Answer {
        text: "Héllo".into(),
        tool_calls: vec![call("c1", "add", "{\"a\":1}"), call("c2", "now", "{}")],
        finish: Some(Finish::ToolCalls),
        usage: Some(Usage { input_tokens: 10, output_tokens: 3, cached_tokens: 4, cache_written_tokens: 0 }),
    }
}

#[test]
fn the_same_protocol_goes_byte_by_byte_but_for_a_usage_nobody_asked_for() {
    let (bytes, observer, end) = run(across(OpenAi, OpenAi), &[OPENAI.as_bytes()]);
    assert_eq!(String::from_utf8(bytes).unwrap(), OPENAI);
    assert_eq!((end, observer.answer()), (Ok(()), &answer()));
    let unasked = Translation { usage_chunk: false, ..across(OpenAi, OpenAi) };
    let (bytes, observer, _) = run(unasked, &[OPENAI.as_bytes()]);
    let kept: String = OPENAI.split_inclusive("\n\n").filter(|frame| !frame.contains("\"choices\":[]")).collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), kept);
    assert_eq!(observer.answer().usage, answer().usage);
}

#[test]
fn a_stream_translated_there_and_back_says_the_same() {
    let (anthropic, observer, end) = run(across(OpenAi, Anthropic), &[OPENAI.as_bytes()]);
    assert_eq!((end, observer.answer()), (Ok(()), &answer()));
    let (same, observer, end) = run(across(Anthropic, Anthropic), &[&anthropic]);
    assert_eq!(same, anthropic);
    assert_eq!((end, observer.answer()), (Ok(()), &answer()));
    let (openai, observer, end) = run(across(Anthropic, OpenAi), &[&anthropic]);
    assert_eq!((end, observer.answer()), (Ok(()), &answer()));
    let (_, observer, end) = run(across(OpenAi, OpenAi), &[&openai]);
    assert_eq!((end, observer.answer()), (Ok(()), &answer()));
}

#[test]
fn the_events_of_a_translated_stream_are_in_the_protocols_order() {
    let (bytes, ..) = run(across(OpenAi, Anthropic), &[OPENAI.as_bytes()]);
    let text = String::from_utf8(bytes).unwrap();
    let events = text.split_terminator("\n\n").map(|frame| {
        let (name, data) = frame.split_once("\ndata: ").unwrap();
        let data = json(data.as_bytes());
        assert_eq!(format!("event: {}", data["type"].as_str().unwrap()), name);
        format!("{}{}", data["type"].as_str().unwrap(), data["index"])
    });
    let expected = "message_startnull content_block_start0 content_block_delta0 content_block_delta0 content_block_stop0 \
        content_block_start1 content_block_delta1 content_block_delta1 content_block_stop1 content_block_start2 \
        content_block_delta2 content_block_delta2 content_block_stop2 content_block_start3 content_block_delta3 \
        content_block_stop3 message_deltanull message_stopnull";
    assert_eq!(events.collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn cuts_at_every_byte_change_nothing_and_a_truncated_stream_is_no_ended_one() {
    let (anthropic, ..) = run(across(OpenAi, Anthropic), &[OPENAI.as_bytes()]);
    for (stream, from, to) in [(OPENAI.as_bytes(), OpenAi, Anthropic), (&anthropic[..], Anthropic, OpenAi)] {
        let (whole, ..) = run(across(from, to), &[stream]);
        for cut in 0..stream.len() {
            let (cut_up, _, end) = run(across(from, to), &[&stream[..cut], &stream[cut..]]);
            assert!(end.is_ok() && cut_up == whole, "cut at {cut}");
            let (_, _, end) = run(across(from, to), &[&stream[..cut]]);
            let missing = stream[cut..].iter().filter(|byte| !b"\r\n".contains(byte)).count();
            assert_eq!(end.is_err(), missing > 0, "truncated at {cut}");
        }
    }
}

#[test]
fn a_role_or_an_empty_delta_is_no_content_and_an_error_event_no_success() {
    let (role, rest) = OPENAI.split_once("\n\n").unwrap();
    let (_, observer, end) = run(across(OpenAi, Anthropic), &[role.as_bytes(), b"\n\n"]);
    assert!(!observer.has_content() && matches!(end, Err(ChatError::Broken(_))));
    assert!(rest.contains("hm"));
    let failed =
        [role.as_bytes(), b"\n\ndata: {\"error\":{\"message\":\"full\",\"type\":\"server_error\"}}\n\n"].concat();
    for to in [OpenAi, Anthropic] {
        let (bytes, observer, end) = run(across(OpenAi, to), &[&failed, OPENAI.as_bytes()]);
        assert_eq!(observer.failure(), Some((ErrorKind::Server, "full")));
        assert!(end.is_err() && !observer.has_content());
        assert!(String::from_utf8(bytes).unwrap().ends_with("\n\n"));
    }
    let (_, _, end) = run(across(OpenAi, OpenAi), &[b"data: [DONE]\n\n"]);
    assert!(matches!(end, Err(ChatError::Broken(_))));
}
