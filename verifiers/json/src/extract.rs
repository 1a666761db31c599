//! Finds the JSON in an answer: the whole of it, else a fenced block, else the first balanced object or array.
//!
//! Deep nesting is refused by serde_json's recursion limit, and the number of openings tried is bounded, so that a
//! megabyte of brackets costs a few passes and no stack.

use serde_json::{Deserializer, Value};

/// Openings tried in prose before giving up.
const OPENINGS_MAX: usize = 32;
/// Fences tried.
const FENCES_MAX: usize = 32;

pub struct Found {
    pub value: Value,
    pub place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Whole,
    Fence,
    FenceInProse,
    Prose,
}

impl Place {
    /// In [0, 1]: how little there is besides the JSON.
    #[must_use]
    pub fn purity(self) -> f64 {
        match self {
            Self::Whole => 1.0,
            Self::Fence => 0.75,
            Self::FenceInProse => 0.5,
            Self::Prose => 0.25,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole answer",
            Self::Fence => "fenced",
            Self::FenceInProse => "fenced in prose",
            Self::Prose => "in prose",
        }
    }
}

#[must_use]
pub fn find(response: &str) -> Option<Found> {
    let text = response.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if let Ok(value) = serde_json::from_str(text) {
        return Some(Found { value, place: Place::Whole });
    }
    in_fence(text).or_else(|| in_prose(text))
}

/// First fence marked json that parses, else the first other one that does.
fn in_fence(text: &str) -> Option<Found> {
    let pieces: Vec<&str> = text.splitn(2 * FENCES_MAX + 1, "```").collect();
    let mut other = None;
    for (i, block) in pieces.iter().enumerate().skip(1).step_by(2) {
        let (tag, body) = split_tag(block);
        let Ok(value) = serde_json::from_str(body) else { continue };
        let alone = pieces.len() == 3 && pieces.iter().step_by(2).all(|around| around.trim().is_empty());
        let place = if alone { Place::Fence } else { Place::FenceInProse };
        if tag.eq_ignore_ascii_case("json") {
            return Some(Found { value, place });
        }
        if other.is_none() && i > 0 {
            other = Some(Found { value, place });
        }
    }
    other
}

/// The word after the opening fence, if it is one, and what follows.
fn split_tag(block: &str) -> (&str, &str) {
    let end = block.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(block.len());
    let (tag, body) = block.split_at(end);
    if body.starts_with(char::is_whitespace) || tag.eq_ignore_ascii_case("json") { (tag, body) } else { ("", block) }
}

fn in_prose(text: &str) -> Option<Found> {
    text.match_indices(['{', '[']).take(OPENINGS_MAX).find_map(|(at, _)| {
        let value = Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok()?;
        Some(Found { value, place: Place::Prose })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(text: &str) -> Option<(Value, Place)> {
        find(text).map(|f| (f.value, f.place))
    }

    #[test]
    fn finds_json_wherever_it_stands() {
        assert_eq!(found("\u{feff} 3 "), Some((json!(3), Place::Whole)));
        assert_eq!(found("```json\n{\"a\":1}\n```"), Some((json!({"a":1}), Place::Fence)));
        assert_eq!(found("```\n[1]\n```\nDone."), Some((json!([1]), Place::FenceInProse)));
        assert_eq!(found("```py\nx=1\n```\n```json\n[2]```"), Some((json!([2]), Place::FenceInProse)));
        assert_eq!(found("Sure: {\"a\":\"}\"} ok"), Some((json!({"a":"}"}), Place::Prose)));
        assert_eq!(found("{broken {\"a\":1}"), Some((json!({"a":1}), Place::Prose)));
        assert_eq!(found("```json {\"a\":1}```"), Some((json!({"a":1}), Place::Fence)));
    }

    #[test]
    fn garbage_has_none() {
        for text in ["", "no", "{", "```json\n{\n```", "{'a': 1}", "\0"] {
            assert_eq!(found(text), None, "{text:?}");
        }
        assert_eq!(found(&"[".repeat(1 << 20)), None);
        assert_eq!(found(&"{\"a\":".repeat(1 << 17)), None);
    }
}
