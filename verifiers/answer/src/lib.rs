//! Does an answer say what the reference says: a number, a choice, or a text?
//!
//! Applies when metadata has `reference`. Finding the final answer in free text is the hard part (the crate `reading`);
//! comparing is exact up to spelling. What can go wrong: an answer that states its result and then a closing remark
//! with another number is read wrong; `trace` says what was extracted.

use reading::number::{self, Number};
use reading::{choice, ending, exact, final_number};
use serde_json::Value;
use verdict::{Manifest, Object, Refusal, Signal, SignalSpec, Task, Verdict, Verifier, excerpt};

#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
mod glue {
    type Component = verdict::guest::Guest<crate::Answer>;
    verdict::guest::export!(Component with_types_in verdict::guest);
}

const MATCH: f64 = 1.0;
/// Small: words in common are no answer.
const TOKEN_F1: f64 = 0.25;

pub struct Answer;

impl Verifier for Answer {
    fn describe() -> Manifest {
        let spec = |name, weight, doc| SignalSpec { name, weight, doc };
        Manifest {
            name: "answer",
            signals: vec![
                spec(
                    "number",
                    MATCH,
                    "0 or 1: final number equals the reference to 1e-6; when the reference is a number",
                ),
                spec(
                    "choice",
                    MATCH,
                    "0 or 1: option picked is the reference; when the task lists choices or asks for one",
                ),
                spec("exact", MATCH, "0 or 1: normalised text equals a reference; otherwise"),
                spec("token_f1", TOKEN_F1, "share of words in common, in [0, 1]; only when metadata.answer is text"),
            ],
            config_schema: "",
        }
    }

    fn verify(task: &Task, response: &str, _config: &Object) -> Result<Verdict, Refusal> {
        let metadata = task.metadata;
        let references = references(metadata)?;
        let response = ending(response);
        match kind(metadata, &references)? {
            Kind::Number => by_number(&references, response),
            Kind::Choice => by_choice(metadata, &references, response),
            Kind::Exact => by_text(&references, response, false),
            Kind::Text => by_text(&references, response, true),
        }
    }
}

enum Kind {
    Number,
    Choice,
    Exact,
    Text,
}

/// Acceptable answers, at least one: strings, numbers or booleans.
fn references(metadata: &Object) -> Result<Vec<&Value>, Refusal> {
    let invalid = |why: &str| Err(Refusal::InvalidTask(format!("reference {why}")));
    let list = match metadata.get("reference") {
        None | Some(Value::Null) => return Err(Refusal::NotApplicable("no reference".to_owned())),
        Some(Value::Array(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    if list.is_empty() {
        return invalid("is an empty list");
    }
    for value in &list {
        match value {
            Value::String(text) if text.trim().is_empty() => return invalid("is empty"),
            Value::String(_) | Value::Number(_) | Value::Bool(_) => {}
            Value::Null | Value::Array(_) | Value::Object(_) => return invalid("is not a string, number or boolean"),
        }
    }
    Ok(list)
}

fn kind(metadata: &Object, references: &[&Value]) -> Result<Kind, Refusal> {
    match metadata.get("answer") {
        None | Some(Value::Null) => {}
        Some(Value::String(name)) => match name.as_str() {
            "number" => return Ok(Kind::Number),
            "choice" => return Ok(Kind::Choice),
            "exact" => return Ok(Kind::Exact),
            "text" => return Ok(Kind::Text),
            _ => {
                return Err(Refusal::InvalidTask(format!("answer {name:?} is not one of number, choice, exact, text")));
            }
        },
        Some(_) => return Err(Refusal::InvalidTask("answer is not a string".to_owned())),
    }
    let is_number = |value: &&Value| match value {
        Value::Number(_) => true,
        Value::String(text) => number::whole(text).is_some() || text.contains("####"),
        _ => false,
    };
    Ok(if metadata.get("choices").is_some_and(|v| !v.is_null()) {
        Kind::Choice
    } else if references.iter().all(is_number) && references.iter().all(|r| reference_number(r).is_some()) {
        Kind::Number
    } else {
        Kind::Exact
    })
}

fn zero_or_one(name: &'static str, holds: bool, detail: String) -> Signal {
    Signal { name, score: f64::from(u8::from(holds)), weight: MATCH, detail }
}

fn by_number(references: &[&Value], response: &str) -> Result<Verdict, Refusal> {
    let wanted: Option<Vec<Number>> = references.iter().map(|r| reference_number(r)).collect();
    let wanted = wanted.ok_or_else(|| Refusal::InvalidTask("reference holds no number".to_owned()))?;
    let got = final_number(response);
    let holds = got.is_some_and(|(_, got)| wanted.iter().any(|wanted| wanted.agrees(&got)));
    let shown = got.map_or_else(|| "none".to_owned(), |(mark, n)| format!("{} ({})", n.value, mark.name()));
    let listed: Vec<String> = wanted.iter().take(4).map(|n| n.value.to_string()).collect();
    let trace = vec![format!("number: got {shown}, wanted {}", listed.join(" or "))];
    let confidence = got.map_or(0.9, |(mark, _)| mark.confidence());
    Ok(Verdict::weigh(vec![zero_or_one("number", holds, shown)], confidence, trace))
}

/// A reference is read like an answer, so that a worked solution ending in "#### 42" serves.
fn reference_number(reference: &Value) -> Option<Number> {
    match reference {
        Value::String(text) => number::whole(text).or_else(|| final_number(text).map(|(_, number)| number)),
        Value::Number(value) => number::whole(&value.to_string()),
        _ => None,
    }
}

fn by_choice(metadata: &Object, references: &[&Value], response: &str) -> Result<Verdict, Refusal> {
    let options = choice::Options::new(metadata.get("choices")).map_err(Refusal::InvalidTask)?;
    let wanted: Option<Vec<char>> = references.iter().map(|r| options.reference(r)).collect();
    let wanted =
        wanted.ok_or_else(|| Refusal::InvalidTask("reference is no letter, index or text of a choice".to_owned()))?;
    let got = options.pick(response);
    let shown = got.map_or_else(|| "none".to_owned(), |(letter, how)| format!("{letter} ({how})"));
    let listed: Vec<String> = wanted.iter().map(char::to_string).collect();
    let trace = vec![format!("choice: got {shown}, wanted {}", listed.join(" or "))];
    let holds = got.is_some_and(|(letter, _)| wanted.contains(&letter));
    Ok(Verdict::weigh(vec![zero_or_one("choice", holds, shown)], 0.95, trace))
}

fn by_text(references: &[&Value], response: &str, with_f1: bool) -> Result<Verdict, Refusal> {
    let candidates = exact::candidates(response);
    let normalised: Vec<String> = candidates.iter().map(|c| exact::normalise(c)).filter(|c| !c.is_empty()).collect();
    let wanted: Vec<String> = references.iter().map(|r| text_of(r)).collect();
    let equals = |reference: &&Value| match reference {
        Value::Bool(truth) => exact::truth(response) == Some(*truth),
        other => normalised.contains(&exact::normalise(&text_of(other))),
    };
    let holds = references.iter().any(equals);
    let best = normalised.last().map_or_else(|| "nothing".to_owned(), |got| excerpt(got, 80));
    let trace = vec![format!(
        "exact: got {best:?} among {} readings, wanted {:?}",
        normalised.len(),
        excerpt(&wanted.join(" | "), 80)
    )];
    let mut signals = vec![zero_or_one("exact", holds, best)];
    if with_f1 {
        let pairs = candidates.iter().flat_map(|got| wanted.iter().map(move |wanted| exact::token_f1(got, wanted)));
        let score = if holds { 1.0 } else { pairs.fold(0.0, f64::max) };
        signals.push(Signal { name: "token_f1", score, weight: TOKEN_F1, detail: String::new() });
    }
    Ok(Verdict::weigh(signals, 0.9, trace))
}

fn text_of(reference: &Value) -> String {
    match reference {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
