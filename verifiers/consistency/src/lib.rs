//! Do several candidate answers to one task agree with the one that was given?
//!
//! Self-consistency (Wang et al., 2022, <https://arxiv.org/abs/2203.11171>): among sampled answers the final answer that
//! most of them reach is more often right than any one of them. Final answers are read as the verifier `answer` reads
//! them, so that "$18" and "The answer is 18.00" are one class. What can go wrong: candidates of one model share their
//! mistakes, so that agreement is no proof; and free text agrees only word for word.

use reading::fence::{self, Block};
use serde_json::Value;
use verdict::{Manifest, Object, Refusal, Signal, SignalSpec, Task, Verdict, Verifier, excerpt};

use classes::{Class, Reader};

pub mod classes;

#[cfg(target_arch = "wasm32")]
mod glue {
    type Component = verdict::guest::Guest<crate::Consistency>;
    verdict::guest::export!(Component with_types_in verdict::guest);
}

const AGREEMENT: f64 = 3.0;
const MAJORITY: f64 = 1.0;
/// Candidates looked at; no mode samples that many.
const CANDIDATES_MAX: usize = 64;
/// Classes listed in the trace.
const TRACED_MAX: usize = 6;

pub struct Consistency;

impl Verifier for Consistency {
    fn describe() -> Manifest {
        let spec = |name, weight, doc| SignalSpec { name, weight, doc };
        Manifest {
            name: "consistency",
            signals: vec![
                spec("agreement", AGREEMENT, "share of the candidates whose final answer is the response's"),
                spec("majority", MAJORITY, "1 when no other final answer has more candidates, else 0"),
            ],
            config_schema: "",
        }
    }

    fn verify(task: &Task, response: &str, _config: &Object) -> Result<Verdict, Refusal> {
        let candidates = candidates(task.metadata)?;
        let reader = Reader::of(task)?;
        let classes = Class::sort(candidates.iter().take(CANDIDATES_MAX).map(|text| reader.read(text)));
        let total = candidates.len().min(CANDIDATES_MAX);
        let own = reader.read(response);
        let size = own.as_ref().and_then(|own| classes.iter().find(|class| class.holds(own))).map_or(0, |c| c.size);
        let largest = classes.iter().map(|class| class.size).max().unwrap_or(0);

        let shown = own.as_ref().map_or_else(|| "no final answer".to_owned(), |own| excerpt(&own.to_string(), 60));
        let signals = vec![
            Signal {
                name: "agreement",
                score: size as f64 / total as f64,
                weight: AGREEMENT,
                detail: format!("{size} of {total} say {shown}"),
            },
            Signal {
                name: "majority",
                score: f64::from(u8::from(size > 0 && size == largest)),
                weight: MAJORITY,
                detail: format!("the largest class has {largest}"),
            },
        ];
        let mut trace = vec![format!("response: {shown}")];
        trace.extend(classes.iter().take(TRACED_MAX).map(Class::told));
        if candidates.len() > total {
            trace.push(format!("{} further candidates were left out", candidates.len() - total));
        }
        // Two candidates that agree may do so by chance; more are surer.
        let confidence = total as f64 / (total as f64 + 2.0);
        Ok(Verdict::weigh(signals, confidence, trace))
    }
}

fn candidates(metadata: &Object) -> Result<Vec<&str>, Refusal> {
    let list = match metadata.get("candidates") {
        None | Some(Value::Null) => return Err(Refusal::NotApplicable("no candidates".to_owned())),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(Refusal::InvalidTask("candidates is not an array".to_owned())),
    };
    let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
    match texts {
        None => Err(Refusal::InvalidTask("a candidate is not a string".to_owned())),
        Some(texts) if texts.len() < 2 => Err(Refusal::NotApplicable("fewer than two candidates".to_owned())),
        Some(texts) => Ok(texts),
    }
}

/// The block that answers: the last one, because models correct themselves.
fn code_block(text: &str) -> Option<Block> {
    fence::blocks(text).kept.pop().filter(|block| !block.too_long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scores(metadata: Value, response: &str) -> (f64, f64) {
        let raw = metadata.to_string();
        let raw = verdict::RawTask { domain: "math", metadata: &raw, ..Default::default() };
        let verdict = verdict::judge::<Consistency>(&raw, response, "").unwrap();
        (verdict.signals[0].score, verdict.signals[1].score)
    }

    #[test]
    fn golden_lines_hold() {
        let failures = verdict::golden::failures::<Consistency>(include_str!("../golden.jsonl"));
        assert!(failures.is_empty(), "{failures:#?}");
    }

    #[test]
    fn counts_the_class_of_the_response() {
        let candidates = json!({"candidates": ["It is 18.", "$18.00", "\\boxed{17}", "#### 18"]});
        assert_eq!(scores(candidates.clone(), "So 18."), (0.75, 1.0));
        assert_eq!(scores(candidates.clone(), "The answer is 17."), (0.25, 0.0));
        assert_eq!(scores(candidates.clone(), "The answer is 99."), (0.0, 0.0));
        assert_eq!(scores(candidates, ""), (0.0, 0.0));
    }

    #[test]
    fn ties_are_a_majority_each() {
        let candidates = json!({"candidates": ["1", "2"]});
        assert_eq!(scores(candidates.clone(), "1"), (0.5, 1.0));
        assert_eq!(scores(candidates, "2"), (0.5, 1.0));
    }
}
