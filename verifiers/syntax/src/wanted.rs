//! Which language a task wants: its metadata says, else the config, else its prompt where that is certain.
//!
//! A prompt only helps to read fences that carry no label. It never makes code wanted: "explain what this Python does"
//! may be answered in prose, and "translate this Python to Go" names two languages.

use reading::fence;
use serde_json::Value;
use verdict::{Object, Refusal};

use crate::language::Language;

/// Bytes of a prompt that are looked at.
const PROMPT_BYTES: usize = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The task asks for code: an answer without any fails.
    pub code: bool,
    /// Language that metadata or config names.
    pub named: Option<Language>,
    /// Language for fences without a label.
    pub unlabelled: Option<Language>,
}

impl Wanted {
    /// # Errors
    /// Not applicable when metadata names a language that cannot be parsed here; invalid when a key has a wrong shape.
    pub fn of(metadata: &Object, config: &Object, prompt: &str) -> Result<Self, Refusal> {
        let from_config = match config.get("language") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(
                Language::named(name)
                    .ok_or_else(|| Refusal::InvalidConfig(format!("language {name:?} is not one that is parsed")))?,
            ),
            Some(_) => return Err(Refusal::InvalidConfig("language is not a string".to_owned())),
        };
        let from_metadata = match metadata.get("language") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(
                Language::named(name)
                    .ok_or_else(|| Refusal::NotApplicable(format!("{:?} is not parsed", verdict::excerpt(name, 40))))?,
            ),
            Some(_) => return Err(Refusal::InvalidTask("language is not a string".to_owned())),
        };
        let named = from_metadata.or(from_config);
        let code = named.is_some() || metadata.get("format").and_then(Value::as_str) == Some("code");
        Ok(Self { code, named, unlabelled: named.or_else(|| certain(prompt)) })
    }
}

/// The one language that a prompt speaks of; none when it speaks of several, or of one that is not parsed.
fn certain(prompt: &str) -> Option<Language> {
    let prompt = &prompt[..prompt.floor_char_boundary(PROMPT_BYTES)];
    let labels = fence::blocks(prompt).kept.into_iter().map(|b| b.label).filter(|l| !l.is_empty());
    let mut spoken: Vec<Option<Language>> = labels.map(|label| Language::named(&label)).collect();
    spoken.extend(words(prompt));
    let first = *spoken.first()?;
    spoken.iter().all(|language| *language == first).then_some(first).flatten()
}

/// Languages named in words: `None` for one that is not parsed.
fn words(prompt: &str) -> Vec<Option<Language>> {
    const OTHERS: &[&str] = &[
        "java",
        "c",
        "c++",
        "cpp",
        "c#",
        "csharp",
        "typescript",
        "ruby",
        "php",
        "swift",
        "kotlin",
        "scala",
        "haskell",
        "perl",
        "bash",
        "shell",
        "sql",
        "html",
        "css",
        "yaml",
        "toml",
        "xml",
        "lua",
        "julia",
        "matlab",
        "r",
        "zig",
    ];
    // "go" and "rust" are words too: they count behind "in", or before what is made of code.
    const MADE: &[&str] = &["code", "function", "program", "script", "struct", "crate", "method", "module", "snippet"];
    let trimmed =
        |word: &'_ str| word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '#')).to_owned();
    let words: Vec<String> = prompt.split_whitespace().map(trimmed).collect();
    let mut found = vec![];
    for (i, word) in words.iter().enumerate() {
        let lower = word.to_lowercase();
        let before = i.checked_sub(1).and_then(|i| words.get(i)).map(|w| w.to_lowercase());
        let after = words.get(i + 1).map(|w| w.to_lowercase());
        let in_place = before.as_deref() == Some("in") || after.is_some_and(|w| MADE.contains(&w.as_str()));
        match lower.as_str() {
            "python" | "python3" | "javascript" | "golang" => found.push(Language::named(&lower)),
            "go" | "rust" if in_place && word.starts_with(char::is_uppercase) => found.push(Language::named(&lower)),
            "c" | "r" if !(in_place && word.starts_with(char::is_uppercase)) => {}
            other if OTHERS.contains(&other) => found.push(None),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_counts_only_where_it_is_certain() {
        for (prompt, expected) in [
            ("Write a Python function that adds.", Some(Language::Python)),
            ("Fix this:\n```js\nx\n```", Some(Language::JavaScript)),
            ("Write it in Go.", Some(Language::Go)),
            ("A Rust function, please.", Some(Language::Rust)),
            ("Translate this Python to Java.", None),
            ("Translate to JavaScript:\n```python\nx\n```", None),
            ("Where did they go, and why does iron rust?", None),
            ("Write C code.", None),
            ("", None),
        ] {
            assert_eq!(certain(prompt), expected, "{prompt}");
        }
    }

    #[test]
    fn metadata_comes_before_config_and_a_prompt_makes_no_code_wanted() {
        let object = |text: &str| serde_json::from_str::<Object>(text).unwrap();
        let none = Object::new();
        let go = object(r#"{"language":"Golang"}"#);
        let wanted = |metadata: &Object, config: &Object| Wanted::of(metadata, config, "Write Python.");
        assert_eq!(wanted(&go, &object(r#"{"language":"rs"}"#)).unwrap().named, Some(Language::Go));
        let unsaid = wanted(&none, &none).unwrap();
        assert_eq!(unsaid, Wanted { code: false, named: None, unlabelled: Some(Language::Python) });
        assert!(wanted(&object(r#"{"format":"code"}"#), &none).unwrap().code);
        assert!(matches!(wanted(&object(r#"{"language":"Java"}"#), &none), Err(Refusal::NotApplicable(_))));
        assert!(matches!(wanted(&object(r#"{"language":1}"#), &none), Err(Refusal::InvalidTask(_))));
        assert!(matches!(wanted(&none, &object(r#"{"language":"Java"}"#)), Err(Refusal::InvalidConfig(_))));
    }
}
