//! A worker with a stated skill: for demos, tests and load, where a real model would cost money.
//!
//! It reads the task's `reference` and writes a real answer, right with a stated probability and otherwise wrong in
//! the ways of its kind: a slip in a number, another letter, JSON with a key missing or a brace lost, a text half
//! transformed, a refusal. Whether it is right depends on (seed, task id) alone, so a run can be repeated.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use serde_json::Value;

use super::{Ask, Reply, Worker, WorkerError, written::reply};
use crate::round::{Domain, Task};

/// How good, how quick and how repeatable.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedSettings {
    /// The probability of a right answer per domain, in [0, 1].
    pub skill: BTreeMap<Domain, f64>,
    /// The same for every other domain.
    pub default_skill: f64,
    /// How long an answer takes, in milliseconds.
    pub latency_ms: u64,
    /// Two workers of one seed are right and wrong together.
    pub seed: u64,
}

/// The worker.
pub struct ScriptedWorker {
    settings: ScriptedSettings,
}

impl ScriptedWorker {
    /// Makes the worker.
    pub fn new(settings: ScriptedSettings) -> Self {
        Self { settings }
    }

    /// A task with `difficulty` d in [0, 1] is answered right with probability skill^(1 + d).
    fn probability_right(&self, task: &Task) -> f64 {
        let skill = self.settings.skill.get(&task.domain).copied().unwrap_or(self.settings.default_skill);
        let difficulty = task.metadata.get("difficulty").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, 1.0);
        skill.clamp(0.0, 1.0).powf(1.0 + difficulty)
    }
}

#[async_trait]
impl Worker for ScriptedWorker {
    async fn answer(&self, ask: &Ask<'_>) -> Result<Reply, WorkerError> {
        let task = ask.task;
        if self.settings.latency_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.settings.latency_ms)).await;
        }
        let mut draws = Draws::new(self.settings.seed, task.id.as_str());
        let right = draws.unit() < self.probability_right(task);
        reply(ask, write(task, right, &mut draws), None)
    }

    fn expected_score(&self, task: &Task) -> Option<f64> {
        Some(self.probability_right(task))
    }
}

/// A short stream of numbers that depends on a seed and a name alone.
pub(super) struct Draws(blake3::OutputReader);

impl Draws {
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes()).update(name.as_bytes());
        Self(hasher.finalize_xof())
    }

    fn next(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n; 0 when n is 0.
    fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }
}

/// Writes an answer to a task whose metadata holds the reference.
pub(super) fn write(task: &Task, right: bool, draws: &mut Draws) -> String {
    if !right && draws.below(12) == 0 {
        return "I'm sorry, but I can't help with that request.".into();
    }
    let reference = task.metadata.get("reference").unwrap_or(&Value::Null);
    let kind = task.metadata.get("answer").and_then(Value::as_str).unwrap_or_else(|| {
        if task.metadata.contains_key("schema") || reference.is_object() || reference.is_array() {
            "json"
        } else if task.metadata.contains_key("choices") {
            "choice"
        } else if reference.is_number() {
            "number"
        } else {
            "exact"
        }
    });
    match kind {
        "json" => json(reference, right, draws),
        "choice" => choice(task, reference, right, draws),
        "number" => number(reference, right, draws),
        _ => text(task.prompt(), &plain(reference), right, draws),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn number(reference: &Value, right: bool, draws: &mut Draws) -> String {
    let shown = plain(reference);
    let Some(value) = shown.trim().parse::<f64>().ok().filter(|_| !right) else {
        let answer = if right { shown } else { format!("{shown}1") };
        return ["The answer is {}.", "Let me work through it step by step.\n\nSo the result is {}.", "{}"]
            [draws.below(3)]
        .replace("{}", &answer);
    };
    let wrong = match draws.below(4) {
        0 => value + 1.0,
        1 => value - 1.0,
        2 => value * 2.0 + 3.0,
        _ => value + 10.0,
    };
    format!("Adding it all up, I get {wrong}.")
}

fn choice(task: &Task, reference: &Value, right: bool, draws: &mut Draws) -> String {
    let known = plain(reference);
    let letters: Vec<String> = match task.metadata.get("choices") {
        Some(Value::Object(map)) => map.keys().cloned().collect(),
        Some(Value::Array(list)) => ('A'..='Z').take(list.len()).map(String::from).collect(),
        _ => ('A'..='D').map(String::from).collect(),
    };
    let answer = if right {
        known
    } else {
        let others: Vec<_> = letters.iter().filter(|letter| !letter.eq_ignore_ascii_case(known.trim())).collect();
        others.get(draws.below(others.len())).map_or_else(|| "none of these".into(), |letter| letter.to_string())
    };
    ["The answer is ({}).", "{}", "Looking at each option in turn, only one fits.\n\nAnswer: {}"][draws.below(3)]
        .replace("{}", &answer)
}

fn json(reference: &Value, right: bool, draws: &mut Draws) -> String {
    let parsed: Value = match reference {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| reference.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => reference.clone(),
    };
    if right {
        return if draws.below(2) == 0 { parsed.to_string() } else { format!("```json\n{parsed:#}\n```") };
    }
    let mut wrong = parsed;
    match (&mut wrong, draws.below(4)) {
        (_, 0) => {
            let whole = wrong.to_string();
            return whole.chars().take(whole.chars().count().saturating_sub(2)).collect();
        }
        (_, 1) => return "Here are the fields you asked for: see the text above.".into(),
        (Value::Object(map), 2) => {
            if let Some(key) = map.keys().nth(draws.below(map.len())).cloned() {
                map.remove(&key);
            }
        }
        (Value::Object(map), _) => {
            let index = draws.below(map.len());
            if let Some(value) = map.values_mut().nth(index) {
                *value = Value::String("unknown".into());
            }
        }
        (other, _) => *other = Value::Null,
    }
    wrong.to_string()
}

fn text(prompt: &str, known: &str, right: bool, draws: &mut Draws) -> String {
    if right {
        return known.into();
    }
    let words: Vec<&str> = known.split_whitespace().collect();
    match draws.below(3) {
        0 if words.len() > 1 => words[..words.len() - 1].join(" "),
        1 if words.len() > 1 => words.iter().rev().copied().collect::<Vec<_>>().join(" "),
        2 => prompt.chars().take(80).collect(),
        _ => format!("{known} and so on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::TaskId;

    fn task(id: usize, metadata: Value) -> Task {
        let (id, domain) = (TaskId::new(format!("t{id}")).unwrap(), Domain::new("math").unwrap());
        Task::plain(id, domain, "How many apples are left?", metadata.as_object().unwrap().clone())
    }

    fn worker(skill: f64) -> ScriptedWorker {
        ScriptedWorker::new(ScriptedSettings { skill: BTreeMap::new(), default_skill: skill, latency_ms: 0, seed: 3 })
    }

    #[tokio::test]
    async fn is_right_as_often_as_its_skill_says() {
        let worker = worker(0.7);
        let mut right = 0;
        for id in 0..2_000 {
            let task = task(id, serde_json::json!({"reference": 17}));
            let answer = worker.answer(&Ask::of(&task)).await.unwrap().said;
            right += usize::from(answer.text.contains("17") && !answer.text.contains("17.0"));
        }
        // Three standard deviations of a binomial of 2,000 draws at 0.7 are 61.
        assert!((1_400 - 61..=1_400 + 61).contains(&right), "{right}");
    }

    #[tokio::test]
    async fn never_writes_the_reference_when_wrong() {
        let worker = worker(0.0);
        let kinds = [
            serde_json::json!({"reference": 17, "answer": "number"}),
            serde_json::json!({"reference": "B", "choices": ["w", "x", "y", "z"]}),
            serde_json::json!({"reference": {"name": "Ada", "age": 36}, "schema": {"type": "object"}}),
            serde_json::json!({"reference": "the quick brown fox", "answer": "exact"}),
        ];
        for kind in kinds {
            for id in 0..200 {
                let task = task(id, kind.clone());
                let text = worker.answer(&Ask::of(&task)).await.unwrap().said.text;
                let reference = &task.metadata["reference"];
                assert_ne!(text, plain(reference));
                assert_ne!(serde_json::from_str::<Value>(&text).ok().as_ref(), Some(reference));
            }
        }
    }
}
