//! The contract of `wit/verifier.wit` as plain types, shared by the first-party verifiers.
//!
//! Scoring logic is written against these so that it is tested natively; the generated bindings exist only on
//! wasm32 and convert here, once. What can go wrong: a field added to the WIT and not here, which stops the guest
//! build; and a verifier whose signals all weigh zero, which scores 0 rather than NaN.

use serde_json::{Map, Value};

#[cfg(not(target_arch = "wasm32"))]
pub mod golden;
#[cfg(target_arch = "wasm32")]
pub mod guest;

/// A JSON object: task metadata or a verifier's config.
pub type Object = Map<String, Value>;

/// A verifier: pure, no clock, no IO, no panic on any input.
pub trait Verifier {
    fn describe() -> Manifest;

    /// Scores `response` (untrusted).
    ///
    /// # Errors
    /// See [`Refusal`]: each leaves the answer without a score.
    fn verify(task: &Task, response: &str, config: &Object) -> Result<Verdict, Refusal>;
}

/// What was asked, of which the metadata is known to be a JSON object.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// Opaque.
    pub id: &'a str,
    pub domain: &'a str,
    pub prompt: &'a str,
    pub metadata: &'a Object,
}

/// What was asked, as it comes over the wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct RawTask<'a> {
    pub id: &'a str,
    pub domain: &'a str,
    pub prompt: &'a str,
    /// JSON, unchecked.
    pub metadata: &'a str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    pub name: &'static str,
    /// In [0, 1].
    pub score: f64,
    /// Relative, finite, >= 0.
    pub weight: f64,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// In [0, 1].
    pub score: f64,
    /// In [0, 1].
    pub confidence: f64,
    pub signals: Vec<Signal>,
    pub trace: Vec<String>,
}

impl Verdict {
    /// Score is sum(weight * score) / sum(weight), 0 when no signal weighs anything.
    #[must_use]
    pub fn weigh(signals: Vec<Signal>, confidence: f64, trace: Vec<String>) -> Self {
        let total: f64 = signals.iter().map(|s| s.weight).sum();
        let sum: f64 = signals.iter().map(|s| s.weight * s.score.clamp(0.0, 1.0)).sum();
        let score = if total > 0.0 { (sum / total).clamp(0.0, 1.0) } else { 0.0 };
        Self { score, confidence, signals, trace }
    }
}

/// Why there is no verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing to judge here: the verifier leaves the sum.
    NotApplicable(String),
    /// The task's metadata is malformed.
    InvalidTask(String),
    /// The config is malformed: the operator's fault, not the task's.
    InvalidConfig(String),
}

pub struct SignalSpec {
    pub name: &'static str,
    pub weight: f64,
    pub doc: &'static str,
}

pub struct Manifest {
    pub name: &'static str,
    pub signals: Vec<SignalSpec>,
    /// JSON Schema, or "".
    pub config_schema: &'static str,
}

/// Version that every first-party verifier reports.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Parses both JSON arguments and scores; blank text counts as an empty object.
///
/// # Errors
/// [`Refusal::InvalidTask`] or [`Refusal::InvalidConfig`] when the text is not a JSON object, else what `V` says.
pub fn judge<V: Verifier>(raw: &RawTask, response: &str, config: &str) -> Result<Verdict, Refusal> {
    let metadata = object(raw.metadata).map_err(|why| Refusal::InvalidTask(format!("metadata: {why}")))?;
    let config = object(config).map_err(|why| Refusal::InvalidConfig(format!("config: {why}")))?;
    let task = Task { id: raw.id, domain: raw.domain, prompt: raw.prompt, metadata: &metadata };
    V::verify(&task, response, &config)
}

fn object(text: &str) -> Result<Object, String> {
    if text.trim().is_empty() {
        return Ok(Object::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// At most `chars_max` characters of `text` on one line, for details and traces.
#[must_use]
pub fn excerpt(text: &str, chars_max: usize) -> String {
    let mut out: String = text.chars().take(chars_max).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(chars_max).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(score: f64, weight: f64) -> Signal {
        Signal { name: "s", score, weight, detail: String::new() }
    }

    #[test]
    fn score_is_the_weighted_mean() {
        assert_eq!(Verdict::weigh(vec![signal(1.0, 3.0), signal(0.0, 1.0)], 1.0, vec![]).score, 0.75);
    }

    #[test]
    fn weightless_signals_score_zero_and_not_nan() {
        assert_eq!(Verdict::weigh(vec![signal(1.0, 0.0)], 1.0, vec![]).score, 0.0);
        assert_eq!(Verdict::weigh(vec![], 1.0, vec![]).score, 0.0);
    }

    #[test]
    fn excerpt_counts_characters_and_marks_the_cut() {
        assert_eq!(excerpt("añb\0c", 3), "añb…");
        assert_eq!(excerpt("a\nb", 9), "a b");
    }

    struct Echo;

    impl Verifier for Echo {
        fn describe() -> Manifest {
            Manifest { name: "echo", signals: vec![], config_schema: "" }
        }

        fn verify(task: &Task, _response: &str, _config: &Object) -> Result<Verdict, Refusal> {
            let seen = format!("{} {} {} {}", task.id, task.domain, task.prompt, task.metadata.len());
            Ok(Verdict::weigh(vec![], 1.0, vec![seen]))
        }
    }

    #[test]
    fn a_verifier_sees_the_whole_task() {
        let raw = RawTask { id: "7", domain: "math", prompt: "1 + 1?", metadata: r#"{"reference":2}"# };
        assert_eq!(judge::<Echo>(&raw, "", "").map(|v| v.trace), Ok(vec!["7 math 1 + 1? 1".to_owned()]));
        let bad = judge::<Echo>(&RawTask { metadata: "[]", ..raw }, "", "");
        assert!(matches!(bad, Err(Refusal::InvalidTask(_))), "{bad:?}");
    }

    #[test]
    fn blank_json_is_an_empty_object_and_a_list_is_refused() {
        assert_eq!(object(" ").map(|o| o.len()), Ok(0));
        assert!(object("[]").is_err() && object("{").is_err());
    }
}
