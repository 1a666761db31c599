//! What can be told of an answer with no ground truth: it exists, is no refusal, has a sane length and shape,
//! and is in the language asked for.
//!
//! Each module scores one property. What can go wrong: a refusal in a language or wording not listed passes, and
//! an answer that quotes a refusal in its opening fails; both cost one signal, never the whole verdict.

use serde_json::Value;
use verdict::{Manifest, Object, Refusal, Signal, SignalSpec, Task, Verdict, Verifier};

pub mod format;
pub mod language;
pub mod length;
pub mod refusal;

#[cfg(target_arch = "wasm32")]
mod glue {
    type Component = verdict::guest::Guest<crate::Rules>;
    verdict::guest::export!(Component with_types_in verdict::guest);
}

/// A refusal must not outscore a clumsy answer, so that signal weighs as much as all others together.
const NON_EMPTY: f64 = 1.0;
const NOT_REFUSAL: f64 = 4.0;
const LENGTH: f64 = 1.0;
const FORMAT: f64 = 2.0;
const LANGUAGE: f64 = 2.0;

pub struct Rules;

impl Verifier for Rules {
    fn describe() -> Manifest {
        let spec = |name, weight, doc| SignalSpec { name, weight, doc };
        Manifest {
            name: "rules",
            signals: vec![
                spec("non_empty", NON_EMPTY, "1 when any visible character is there"),
                spec(
                    "not_refusal",
                    NOT_REFUSAL,
                    "0 when the answer opens by declining; between when it then goes on; 0 when empty",
                ),
                spec("length", LENGTH, "1 within min_chars..max_chars, falling outside; lowered by repetition"),
                spec("format", FORMAT, "only when the task asks: does the answer look like metadata.format"),
                spec("language", LANGUAGE, "0 or 1: the natural language asked for; only when both can be told"),
            ],
            config_schema: r#"{"type":"object","properties":{"min_chars":{"type":"integer","minimum":0},"max_chars":{"type":"integer","minimum":1}}}"#,
        }
    }

    fn verify(task: &Task, response: &str, config: &Object) -> Result<Verdict, Refusal> {
        let bounds = length::Bounds::default().with(config).map_err(Refusal::InvalidConfig)?;
        let bounds = bounds.with(task.metadata).map_err(Refusal::InvalidTask)?;
        let asked = asked_format(task.metadata)?;

        let visible = response.chars().any(is_visible);
        let refusal = refusal::find(response);
        let length = length::score(response, bounds);
        let shown = |score: f64| if visible { score } else { 0.0 };
        let mut signals = vec![
            Signal { name: "non_empty", score: shown(1.0), weight: NON_EMPTY, detail: String::new() },
            Signal { name: "not_refusal", score: shown(refusal.score), weight: NOT_REFUSAL, detail: refusal.detail },
            Signal { name: "length", score: shown(length.score), weight: LENGTH, detail: length.detail },
        ];
        if let Some(asked) = asked {
            let found = format::check(asked, response);
            signals.push(Signal {
                name: "format",
                score: shown(found),
                weight: FORMAT,
                detail: asked.name().to_owned(),
            });
        }
        let language = language::check(task.metadata, task.prompt, response).map_err(Refusal::InvalidTask)?;
        if let Some(found) = language {
            signals.push(Signal {
                name: "language",
                score: shown(found.score),
                weight: LANGUAGE,
                detail: found.detail,
            });
        }
        let trace =
            signals.iter().filter(|s| s.score < 1.0).map(|s| format!("{}: {:.2} {}", s.name, s.score, s.detail));
        let trace = trace.collect();
        Ok(Verdict::weigh(signals, 0.5, trace))
    }
}

fn asked_format(metadata: &Object) -> Result<Option<format::Format>, Refusal> {
    match metadata.get("format") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => format::Format::named(name).map(Some).ok_or_else(|| {
            Refusal::InvalidTask(format!("format {name:?} is not one of json, number, single_line, code, choice"))
        }),
        Some(_) => Err(Refusal::InvalidTask("format is not a string".to_owned())),
    }
}

/// Neither white space, nor a control character, nor one of the invisible format characters.
fn is_visible(c: char) -> bool {
    !c.is_whitespace()
        && !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_lines_hold() {
        let failures = verdict::golden::failures::<Rules>(include_str!("../golden.jsonl"));
        assert!(failures.is_empty(), "{failures:#?}");
    }

    #[test]
    fn bad_bounds_blame_their_owner() {
        let judge = |metadata, config| {
            let raw = verdict::RawTask { metadata, ..Default::default() };
            verdict::judge::<Rules>(&raw, "x", config).unwrap_err()
        };
        assert!(matches!(judge(r#"{"min_chars":9,"max_chars":2}"#, ""), Refusal::InvalidTask(_)));
        assert!(matches!(judge("{}", r#"{"min_chars":-1}"#), Refusal::InvalidConfig(_)));
        assert!(matches!(judge("{}", "[]"), Refusal::InvalidConfig(_)));
    }
}
