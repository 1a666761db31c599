//! Does an answer say what the reference says: a number, a choice, or a text?
//!
//! Applies when metadata has `reference`. Finding the final answer in free text is the hard part ([`closing`]);
//! comparing is exact up to spelling. What can go wrong: an answer that states its result and then a closing remark
//! with another number is read wrong; `trace` says what was extracted.

use std::ops::Range;

use serde_json::Value;
use verdict::{Manifest, Object, Refusal, Signal, SignalSpec, Task, Verdict, Verifier, excerpt};

use closing::Mark;
use number::Number;

pub mod choice;
pub mod closing;
pub mod exact;
pub mod number;

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

/// Bytes of an answer that are looked at.
const BYTES_READ: usize = 65_536;

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

/// The last [`BYTES_READ`] bytes of a long answer, on a character boundary: work stays bounded, and an answer stands
/// at the end.
fn ending(response: &str) -> &str {
    let from = response.len().saturating_sub(BYTES_READ);
    (from..response.len()).find_map(|at| response.get(at..)).unwrap_or(response)
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

/// The number that answers, and where it stood.
#[must_use]
pub fn final_number(text: &str) -> Option<(Mark, Number)> {
    let chars = number::clean(text);
    let numbers = number::scan(&chars);
    let in_place = |(mark, range)| number_in(&chars, &numbers, mark, range).map(|number| (mark, number));
    let anywhere = || numbers.iter().rev().find(|n| !n.glued).or(numbers.last()).map(|n| (Mark::LastLine, *n));
    closing::places(&chars).into_iter().find_map(in_place).or_else(anywhere)
}

/// What follows the last "=" wins; else the first number behind a mark, and the last one of a bare line.
fn number_in(text: &[char], numbers: &[Number], mark: Mark, range: Range<usize>) -> Option<Number> {
    let range = if mark == Mark::LastLine { last_bold(text, numbers, &range).unwrap_or(range) } else { range };
    let inside = || numbers.iter().filter(|n| n.start >= range.start && n.end <= range.end);
    let plain = || inside().filter(|n| !n.glued);
    let equals = text[range.clone()].iter().rposition(|c| matches!(c, '=' | '≈')).map(|i| i + range.start);
    let after = equals.and_then(|at| plain().find(|n| n.start > at));
    let chosen = match mark {
        Mark::LastLine => after.or_else(|| plain().next_back()),
        // "#### 6th place" has nothing better than an ordinal.
        Mark::Boxed | Mark::Hashes | Mark::Phrase => after.or_else(|| plain().next()).or_else(|| inside().next()),
    };
    chosen.copied()
}

/// The last emphasised stretch of a line that holds a number: "She makes **$18** in 5 days."
fn last_bold(text: &[char], numbers: &[Number], line: &Range<usize>) -> Option<Range<usize>> {
    let marks: Vec<usize> = line.clone().filter(|i| text[*i] == number::BOLD).collect();
    let spans = marks.chunks_exact(2).map(|pair| pair[0]..pair[1]);
    let within = |span: &Range<usize>, n: &Number| n.start >= span.start && n.end <= span.end;
    spans.rev().find(|span| numbers.iter().any(|n| within(span, n)))
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
