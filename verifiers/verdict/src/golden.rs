//! Runs a verifier's `golden.jsonl` natively; the host runs the same lines through the sandbox.
//!
//! A line is `{"task": {..., "metadata": {}}, "response": "", "repeat": n, "config": "{}", "expect": {}}`. `repeat`
//! (default 1) multiplies the response, so that a megabyte of it is not stored.

use serde_json::Value;

use crate::{RawTask, Refusal, Verifier, judge};

/// Every line that does not do as it expects, as one message each; empty when all hold.
#[must_use]
pub fn failures<V: Verifier>(lines: &str) -> Vec<String> {
    lines
        .lines()
        .enumerate()
        .filter_map(|(i, line)| check::<V>(line).err().map(|e| format!("line {}: {e}", i + 1)))
        .collect()
}

fn check<V: Verifier>(line: &str) -> Result<(), String> {
    let line: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let times = line["repeat"].as_u64().unwrap_or(1) as usize;
    let response = line["response"].as_str().ok_or("no response")?.repeat(times);
    let metadata = line["task"]["metadata"].to_string();
    let part = |key: &str| line["task"][key].as_str().ok_or_else(|| format!("no task.{key}"));
    let raw = RawTask { id: part("id")?, domain: part("domain")?, prompt: part("prompt")?, metadata: &metadata };
    let got = judge::<V>(&raw, &response, line["config"].as_str().unwrap_or(""));
    let expect = &line["expect"];
    match (&got, expect["error"].as_str(), expect["score"].as_f64()) {
        (Ok(verdict), None, Some(score)) => {
            let tolerance = expect["tolerance"].as_f64().unwrap_or(0.0);
            if (verdict.score - score).abs() <= tolerance {
                Ok(())
            } else {
                Err(format!("wanted {score}, got {verdict:?}"))
            }
        }
        (Err(Refusal::NotApplicable(_)), Some("not-applicable"), None) => Ok(()),
        (Err(Refusal::InvalidTask(_)), Some("invalid-task"), None) => Ok(()),
        (Err(Refusal::InvalidConfig(_)), Some("internal"), None) => Ok(()),
        _ => Err(format!("wanted {expect}, got {got:?}")),
    }
}
