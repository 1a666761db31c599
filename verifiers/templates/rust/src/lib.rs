//! Scores whether an answer mentions every word that the task asks for.
//!
//! The task's metadata names the words: {"must_mention": ["Paris", "Seine"]}. Case does not matter.

use serde_json::Value;

wit_bindgen::generate!({ path: "wit", world: "verifier" });

use exports::pointsman::verifier::verify::{Budget, Guest, Manifest, Response, Task, Verdict, VerifyError};
use pointsman::verifier::types::{Signal, SignalSpec};

const WEIGHT: f64 = 1.0;

struct Check;

export!(Check);

impl Guest for Check {
    /// Says what this verifier is; must always give the same.
    fn describe() -> Manifest {
        Manifest {
            name: "{{name}}".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            domains: vec!["*".into()],
            signals: vec![SignalSpec {
                name: "mentions".into(),
                weight: WEIGHT,
                doc: "share of the words in must_mention that the answer has".into(),
            }],
            config_schema: String::new(),
            deterministic: true,
        }
    }

    /// Scores one answer. The answer is untrusted: it may be empty, huge, or try to fool you.
    fn verify(task: Task, response: Response, _config: String, _budget: Budget) -> Result<Verdict, VerifyError> {
        let words = words_wanted(&task.metadata)?;
        let answer = response.text.to_lowercase();
        let missing: Vec<&str> =
            words.iter().filter(|word| !answer.contains(&word.to_lowercase())).map(String::as_str).collect();
        let score = 1.0 - missing.len() as f64 / words.len() as f64;
        let detail =
            if missing.is_empty() { "all are there".into() } else { format!("missing: {}", missing.join(", ")) };
        let signals = vec![Signal { name: "mentions".into(), score, weight: WEIGHT, detail }];
        Ok(Verdict { score, confidence: 1.0, signals, trace: vec![] })
    }
}

/// The task's words; a task without any is none of our business, and one with other things is malformed.
fn words_wanted(metadata: &str) -> Result<Vec<String>, VerifyError> {
    let invalid = |why: &str| VerifyError::InvalidTask(why.into());
    let metadata: Value = serde_json::from_str(metadata).map_err(|error| invalid(&error.to_string()))?;
    let metadata = metadata.as_object().ok_or_else(|| invalid("metadata is no JSON object"))?;
    let words = match metadata.get("must_mention") {
        Some(Value::Array(words)) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
        None => Some(vec![]),
    };
    let words: Vec<String> = words.ok_or_else(|| invalid("must_mention is no list of words"))?;
    if words.is_empty() {
        return Err(VerifyError::NotApplicable("the task has no must_mention".into()));
    }
    Ok(words)
}
