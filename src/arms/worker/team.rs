//! What a scripted worker says as one of a team.

use serde_json::Value;

use crate::round::Task;

/// A plan that fits any task.
pub(super) fn plan(task: &Task) -> String {
    let asked: String = task.prompt().lines().next().unwrap_or_default().chars().take(80).collect();
    format!("1. Read what is given: {asked}\n2. Work it out step by step.\n3. Check it, and say the answer alone.")
}

/// PASS where one of the answers shown is right and the verifier knows what is, or where none is and it does not.
pub(super) fn verify(task: &Task, shown: &[(&str, &str)], knows: bool) -> String {
    let right = answers(shown).any(|answer| is_right(task, answer));
    if right == knows { "PASS".into() } else { "FAIL: the result does not follow. Go through it once more.".into() }
}

/// One of the answers shown: a right one if there is one and it is recognised, else the first.
pub(super) fn summarize(task: &Task, shown: &[(&str, &str)], knows: bool) -> String {
    let first = answers(shown).next().or(shown.first().map(|(_, text)| *text)).unwrap_or_default();
    let right = answers(shown).find(|answer| knows && is_right(task, answer));
    right.unwrap_or(first).to_owned()
}

fn answers<'a>(shown: &'a [(&str, &str)]) -> impl Iterator<Item = &'a str> {
    shown.iter().filter(|(role, _)| *role == "executor" || *role == "worker").map(|(_, text)| *text)
}

/// Whether an answer as scripted workers write it is the reference.
pub(super) fn is_right(task: &Task, answer: &str) -> bool {
    let reference = task.metadata.get("reference").unwrap_or(&Value::Null);
    let plain = reference.as_str().map_or_else(|| reference.to_string(), str::to_owned);
    if answer.trim() == plain.trim() {
        return true;
    }
    let known = serde_json::from_str::<Value>(&plain).ok().filter(|known| known.is_object() || known.is_array());
    if let Some(known) = known {
        let bare = answer.trim().trim_start_matches("```json").trim_matches(['`', '\n', ' ']);
        return serde_json::from_str::<Value>(bare).is_ok_and(|said| said == known);
    }
    // A number or a letter may stand in a sentence.
    let kind = task.metadata.get("answer").and_then(Value::as_str);
    let loose =
        reference.is_number() || task.metadata.contains_key("choices") || matches!(kind, Some("number" | "choice"));
    loose
        && answer
            .split(|c: char| !c.is_alphanumeric() && c != '.' && c != '-')
            .any(|word| word.trim_end_matches('.') == plain)
}
