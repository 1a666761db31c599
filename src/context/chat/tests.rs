use std::{fs, path::Path};

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

fn message(role: &str, content: &str) -> Message {
    Message { role: role.into(), content: content.into() }
}

fn user(content: &str) -> [Message; 1] {
    [message("user", content)]
}

#[derive(Deserialize)]
struct Transcript {
    messages: Vec<Message>,
    essence: String,
}

#[test]
fn transcripts_give_the_words_of_their_user() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/context/chat/transcripts");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let transcript: Transcript = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(essence(&transcript.messages), transcript.essence, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 8);
}

#[test]
fn a_plain_message_comes_out_as_it_is_and_borrowed() {
    for text in ["  fix the parser\n", "yes", "a < b && c > d", "<div>what is this?</div>", "why does </context> fail?"]
    {
        assert!(matches!(essence(&user(text)), Cow::Borrowed(found) if found == text), "{text}");
    }
    let long = [message("system", "be brief"), message("user", "Explain the borrow checker to a C programmer.")];
    assert!(matches!(essence(&long), Cow::Borrowed("Explain the borrow checker to a C programmer.")));
}

#[test]
fn blocks_go_and_what_is_around_them_stays() {
    for (text, wanted) in [
        ("before <context>x</context> after", "before\nafter"),
        ("<context><context>x</context> y</context>question", "question"),
        ("<file_content path=\"a.rs\">fn a() {}</file_content>\nWhy?", "Why?"),
        ("<file_content path=\"a.rs\" error=\"true\" />\nWhy?", "Why?"),
        ("<task>sort it<environment_details>x</environment_details></task>", "sort it"),
        ("<environment_details><context></environment_details>ask</context> more", "more"),
        ("what does <context> mean?", "what does <context> mean?"),
        ("<contextual>x</contextual>", "<contextual>x</contextual>"),
        ("<Context>x</Context>", "<Context>x</Context>"),
        ("<context", "<context"),
        ("[Tool result]\n42\n\nNow explain it.", "Now explain it."),
        ("[Tool result]\na\n\nb\n[/Tool result]\nNow explain it.", "Now explain it."),
        ("see [Tool result] above", "see [Tool result] above"),
        ("Read @a.md\n--- Content from referenced files ---\nx\n--- End of content ---", "Read @a.md"),
        ("--- Content from referenced files ---\nx", "--- Content from referenced files ---\nx"),
        ("[read_file for 'a.rs'] Result:\n\nfn a() {}\n\n<feedback>use tabs</feedback>", "use tabs"),
        ("日本語<context>文脈</context>質問", "日本語\n質問"),
    ] {
        assert_eq!(essence(&user(text)), wanted, "{text}");
    }
}

#[test]
fn nothing_left_falls_back_to_the_unstripped_turn_then_to_the_last_message() {
    let only = "<system-reminder>Be brief.</system-reminder>";
    assert_eq!(essence(&user(only)), only);
    assert_eq!(essence(&[message("system", "rules"), message("user", " \0"), message("tool", "42")]), "42");
    assert_eq!(essence(&[message("system", "rules"), message("assistant", " ")]), "rules");
    assert_eq!(essence(&[]), "");
    assert_eq!(essence(&user(" ")), "");
}

#[test]
fn short_turns_reach_back_to_the_first_that_says_something_and_no_further() {
    let mut chat = vec![
        message("user", "An earlier question about something else entirely"),
        message("user", "Write a recursive descent parser for arithmetic"),
    ];
    for _ in 0..TURNS_MAX - 2 {
        chat.push(message("assistant", "..."));
        chat.push(message("user", "continue"));
    }
    chat.push(message("user", "继续"));
    assert_eq!(essence(&chat), "Write a recursive descent parser for arithmetic\ncontinue\n继续");
    chat.push(message("user", "go on"));
    assert_eq!(essence(&chat), "continue\n继续\ngo on", "it looks at so many turns and no more");
    chat.push(message("user", "请修复解析器中的错误"));
    assert_eq!(essence(&chat), "请修复解析器中的错误", "ten characters say enough");
}

#[test]
fn hostile_megabytes_take_linear_time() {
    for piece in [
        "<context>",
        "</context>",
        "<context ",
        "<context a=\"",
        "<",
        "</",
        "[Tool result]\n",
        "[Tool result]\n\n",
        "--- Content from referenced files ---\n",
        "<task><context></task></context>",
        "[x] Result:",
        "[",
        "\n",
    ] {
        let chat = user(&piece.repeat(10_000_000 / piece.len()));
        assert!(essence(&chat).len() <= chat[0].content.len(), "{piece}");
    }
}

/// Texts in which marks and plain words meet in every order.
fn texts() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "<context>",
        "</context>",
        "<task>",
        "</task>",
        "<file_content path='a'>",
        "</file_content>",
        "<system-reminder>",
        "</system-reminder>",
        "[Tool result]",
        "[/Tool result]",
        "\n",
        "\n\n",
        "--- Content from referenced files ---",
        "--- End of content ---",
        "[a] Result:",
        "# CLAUDE.md",
        "<",
        ">",
        "/",
        "\0",
        " ",
        "yes",
        "解析",
        "fix the parser now",
    ]);
    prop::collection::vec(prop_oneof![3 => marks.prop_map(str::to_owned), 1 => any::<String>()], 0..14)
        .prop_map(|parts| parts.concat())
}

fn chats() -> impl Strategy<Value = Vec<Message>> {
    let role = prop::sample::select(vec!["system", "user", "assistant", "tool"]);
    prop::collection::vec((role, texts()).prop_map(|(role, text)| message(role, &text)), 0..6)
}

proptest! {
    #[test]
    fn it_is_empty_only_if_no_message_has_content(chat in chats()) {
        let blank = chat.iter().all(|message| is_blank(&message.content));
        prop_assert_eq!(is_blank(&essence(&chat)), blank);
    }

    #[test]
    fn stripping_twice_changes_nothing_more(text in texts()) {
        let once = blocks::strip(&text).into_owned();
        // A piece that comes first may open as a machine's turn does; nothing else can change.
        if !once.contains("] Result:") && !once.contains("# CLAUDE.md") && !once.contains("[Tool result]") {
            prop_assert_eq!(blocks::strip(&once), once.as_str());
        }
    }

    #[test]
    fn other_roles_and_earlier_tasks_change_nothing_when_the_last_turn_says_something(chat in chats()) {
        let task = "Write a recursive descent parser for arithmetic";
        let longer: Vec<_> = chat.into_iter().chain(user(task)).chain([message("tool", "42")]).collect();
        prop_assert_eq!(essence(&longer), task);
    }
}
