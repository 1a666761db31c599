//! Is the answer JSON, does it satisfy the task's schema, and does it say what the reference says?
//!
//! Applies when metadata has `schema`, or `format` = "json". What can go wrong: prose that holds a bracket ("see
//! [1]") is read as JSON, which costs `schema` and `pure`; a schema with an unsupported keyword is refused as
//! `invalid-task`, because ignoring the keyword would pass wrong answers.

use serde_json::Value;
use verdict::{Manifest, Object, Refusal, Signal, SignalSpec, Task, Verdict, Verifier, excerpt};

pub mod extract;
pub mod reference;
pub mod schema;
pub mod supported;

#[cfg(target_arch = "wasm32")]
mod glue {
    type Component = verdict::guest::Guest<crate::Json>;
    verdict::guest::export!(Component with_types_in verdict::guest);
}

const VALID: f64 = 1.0;
const SCHEMA: f64 = 4.0;
const PURE: f64 = 0.5;
/// Dominates: well-formed but wrong must score low, 5.5 / 21.5 with a schema and 1.5 / 17.5 without.
const REFERENCE: f64 = 16.0;

pub struct Json;

impl Verifier for Json {
    fn describe() -> Manifest {
        let spec = |name, weight, doc| SignalSpec { name, weight, doc };
        Manifest {
            name: "json",
            signals: vec![
                spec("valid", VALID, "1 when JSON was found in the answer"),
                spec("schema", SCHEMA, "only with metadata.schema: 1 when it validates; detail has the first errors"),
                spec(
                    "pure",
                    PURE,
                    "1 for nothing but JSON, 0.75 for one fence, 0.5 for a fence in prose, 0.25 for JSON in prose",
                ),
                spec(
                    "reference",
                    REFERENCE,
                    "only with metadata.reference: share of its leaves found at the same place",
                ),
            ],
            config_schema: "",
        }
    }

    fn verify(task: &Task, response: &str, _config: &Object) -> Result<Verdict, Refusal> {
        let metadata = task.metadata;
        let rule = metadata.get("schema").filter(|v| !v.is_null());
        if rule.is_none() && metadata.get("format").and_then(Value::as_str) != Some("json") {
            return Err(Refusal::NotApplicable("no schema, and format is not json".to_owned()));
        }
        let rule =
            rule.map(schema::Schema::new).transpose().map_err(|why| Refusal::InvalidTask(format!("schema: {why}")))?;
        let wanted = metadata.get("reference").filter(|v| !v.is_null()).map(reference::parse);

        let found = extract::find(response);
        let value = found.as_ref().map(|f| &f.value);
        let yes = |holds: bool| f64::from(u8::from(holds));
        let mut signals = vec![
            Signal { name: "valid", score: yes(value.is_some()), weight: VALID, detail: String::new() },
            Signal {
                name: "pure",
                score: found.as_ref().map_or(0.0, |f| f.place.purity()),
                weight: PURE,
                detail: String::new(),
            },
        ];
        if let Some(rule) = rule {
            let errors = value.map_or_else(|| vec!["no JSON".to_owned()], |v| rule.errors(v));
            signals.push(Signal {
                name: "schema",
                score: yes(errors.is_empty()),
                weight: SCHEMA,
                detail: errors.join("; "),
            });
        }
        if let Some(wanted) = wanted {
            let matched = value.map_or(reference::Matched::NONE, |v| reference::compare(&wanted, v));
            let detail = format!("{} of {} leaves", matched.hits, matched.leaves);
            signals.push(Signal { name: "reference", score: matched.share(), weight: REFERENCE, detail });
        }
        let trace = found.as_ref().map_or_else(
            || "no JSON found".to_owned(),
            |f| format!("{}: {}", f.place.name(), excerpt(&f.value.to_string(), 120)),
        );
        let confidence = if signals.iter().any(|s| s.name == "reference") { 1.0 } else { 0.7 };
        Ok(Verdict::weigh(signals, confidence, vec![trace]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_lines_hold() {
        let failures = verdict::golden::failures::<Json>(include_str!("../golden.jsonl"));
        assert!(failures.is_empty(), "{failures:#?}");
    }

    #[test]
    fn valid_but_wrong_scores_low() {
        let score = |metadata, response| {
            verdict::judge::<Json>(&verdict::RawTask { metadata, ..Default::default() }, response, "").unwrap().score
        };
        assert!(score(r#"{"format":"json","reference":{"a":1}}"#, r#"{"a":2}"#) < 0.1);
        assert!(score(r#"{"schema":{"type":"object"},"reference":{"a":1}}"#, r#"{"a":2}"#) < 0.3);
        assert_eq!(score(r#"{"schema":{"type":"object"},"reference":"{\"a\":1}"}"#, r#"{"a":1.0}"#), 1.0);
    }
}
