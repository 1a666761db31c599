//! Golden lines, and texts made to break a parser.

use super::*;

fn judge(metadata: &str, prompt: &str, response: &str) -> Result<Verdict, Refusal> {
    verdict::judge::<Syntax>(&verdict::RawTask { metadata, prompt, ..Default::default() }, response, "")
}

fn score(metadata: &str, response: &str) -> f64 {
    judge(metadata, "", response).unwrap().score
}

const PYTHON: &str = r#"{"language":"python"}"#;

#[test]
fn golden_lines_hold() {
    let failures = verdict::golden::failures::<Syntax>(include_str!("../golden.jsonl"));
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn detail_says_language_nodes_and_place() {
    let verdict = judge(PYTHON, "", "```py\nx = 1\ny = (\n```").unwrap();
    let detail = &verdict.signals[1].detail;
    assert!(detail.starts_with("0 of 1; block 1: python, ") && detail.contains("first fault at line 2"), "{detail}");
}

#[test]
fn unlabelled_fences_count_only_beside_no_labelled_code() {
    assert_eq!(score(PYTHON, "```python\nx = 1\n```\nprints\n```\n1 2 3 oops\n```"), 1.0);
    assert_eq!(score(PYTHON, "```\nx = (\n```"), 0.0);
    assert_eq!(judge("{}", "Write Python.", "```\nx = 1\n```").unwrap().score, 1.0);
    assert!(matches!(judge("{}", "Write.", "```\nx = 1\n```"), Err(Refusal::NotApplicable(_))));
}

#[test]
fn sessions_and_patches_are_no_code() {
    for body in [">>> 1 + 1\n2", "$ pip install x", "In [1]: x", "--- a/x.py\n+++ b/x.py"] {
        assert_eq!(score(PYTHON, &format!("```python\nx = 1\n```\n```python\n{body}\n```")), 1.0, "{body}");
    }
}

#[test]
fn code_in_another_language_than_asked_scores_zero() {
    assert_eq!(score(PYTHON, "```js\nlet x = 1;\n```"), 0.0);
    assert_eq!(score(PYTHON, "```java\nint x;\n```"), 0.0);
    assert_eq!(score(PYTHON, "```python\nx = 1\n```\n```json\n{}\n```"), 1.0);
}

#[test]
fn prose_is_no_code_where_code_was_wanted() {
    for text in ["", " \n", "Sorry", "I cannot do that.", "Use a loop, then sort.", "\0", "# Solution"] {
        assert_eq!(score(PYTHON, text), 0.0, "{text:?}");
    }
    assert_eq!(score(PYTHON, "\u{feff}def f():\n    return 1\n"), 1.0);
}

#[test]
fn hostile_texts_end_in_a_verdict() {
    let texts = [
        "(".repeat(10 << 20),
        format!("```python\n{}", "(".repeat(10 << 20)),
        format!("```python\n{}", "[{(".repeat(CODE_BYTES_MAX / 3 - 1)),
        "```python\nx = (\n```\n".repeat(5_000),
        "```".repeat(1 << 20),
        "```\n".repeat(1 << 18),
        "~~~~`\n".repeat(1 << 16),
        format!("```rust\n{}\0\u{1}\u{7f}\u{fffd}", "fn f() {".repeat(10_000)),
    ];
    for text in &texts {
        assert_eq!(score(PYTHON, text), 0.0, "{}", verdict::excerpt(text, 40));
    }
}
