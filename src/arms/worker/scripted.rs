//! A worker with a stated skill: for demos, tests and load, where a real model would cost money.
//!
//! It reads the task's `reference` and writes a real answer, right with a stated probability and otherwise wrong in
//! the ways of its kind: a slip in a number, another letter, JSON with a key missing or a brace lost, a text half
//! transformed, a refusal. Whether it is right depends on (seed, task id) and on how often it was asked, so a run can be repeated.
//!
//! Asked again about the same task it makes the same mistake, unless it is one that thinks anew, with a stated probability. In a
//! team it plans, it answers better after a plan where that is stated, and it verifies and sums up as well as it answers.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use serde_json::Value;

use super::{Ask, Part, Reply, Worker, WorkerError, team, written::reply};
use crate::round::{Call, Domain, Mode, Task};

/// How good, how quick and how repeatable.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedSettings {
    /// The probability of a right answer per domain, in [0, 1].
    pub skill: BTreeMap<Domain, f64>,
    /// The same for every other domain.
    pub default_skill: f64,
    /// The probability per domain that it thinks anew when it is asked once more, in [0, 1]; 0 elsewhere.
    pub again: BTreeMap<Domain, f64>,
    /// The probability of a right answer per domain where it is shown a plan, in [0, 1]; as without one elsewhere.
    pub planned: BTreeMap<Domain, f64>,
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

    fn again(&self, task: &Task) -> f64 {
        self.settings.again.get(&task.domain).copied().unwrap_or(0.0).clamp(0.0, 1.0)
    }

    /// Whether it is right when it was asked so often before. `draws` are left at those of what it writes.
    fn right(&self, task: &Task, skill: f64, before: usize, draws: &mut Draws) -> bool {
        let mut right = draws.unit() < skill;
        for time in 1..=before {
            let mut anew = Draws::new(self.settings.seed, &format!("{} once more {time}", task.id));
            if anew.unit() < self.again(task) {
                right = anew.unit() < skill;
                *draws = anew;
            }
        }
        right
    }

    /// A task with `difficulty` d in [0, 1] is answered right with probability skill^(1 + d).
    fn probability_right(&self, task: &Task, planned: bool) -> f64 {
        let skill = self.settings.skill.get(&task.domain).copied().unwrap_or(self.settings.default_skill);
        let skill = if planned { self.settings.planned.get(&task.domain).copied().unwrap_or(skill) } else { skill };
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
        let part = ask.part.unwrap_or(Part { role: Call::WORKER, before: 0, shown: &[] });
        let planned = part.shown.iter().any(|(role, _)| *role == "planner");
        let skill = self.probability_right(task, planned);
        let mut draws = Draws::new(self.settings.seed, task.id.as_str());
        let text = match part.role {
            "planner" => team::plan(task),
            "verifier" => team::verify(task, part.shown, draws.unit() < skill),
            "summarizer" if !part.shown.is_empty() => team::summarize(task, part.shown, draws.unit() < skill),
            _ => {
                let right = self.right(task, skill, part.before, &mut draws);
                write(task, right, &mut draws)
            }
        };
        reply(ask, text, None)
    }

    /// Of a team and of rounds it is what the rules bring where verifiers know what is right: the best output is the answer.
    fn expected_score(&self, task: &Task, mode: Mode, calls_max: usize) -> Option<f64> {
        let again = self.again(task);
        let (skill, tries) = match mode {
            Mode::Single => (self.probability_right(task, false), 1),
            Mode::Multi => (self.probability_right(task, false), calls_max.max(1)),
            Mode::Agentic => (self.probability_right(task, true), 2),
        };
        Some(1.0 - (1.0 - skill) * (1.0 - again * skill).powi(tries as i32 - 1))
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
        ScriptedWorker::new(settings(skill))
    }

    fn settings(skill: f64) -> ScriptedSettings {
        let (skills, again, planned) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        ScriptedSettings { skill: skills, default_skill: skill, again, planned, latency_ms: 0, seed: 3 }
    }

    async fn says(worker: &ScriptedWorker, task: &Task, part: Part<'_>) -> String {
        worker.answer(&Ask { part: Some(part), ..Ask::of(task) }).await.unwrap().said.text
    }

    #[tokio::test]
    async fn thinks_anew_as_often_as_it_says_and_its_rounds_bring_what_is_expected() {
        let domain = Domain::new("math").unwrap();
        let again = BTreeMap::from([(domain, 0.5)]);
        let anew = ScriptedWorker::new(ScriptedSettings { again, ..settings(0.4) });
        let stubborn = worker(0.4);
        let (mut solved, mut expected, n) = (0, 0.0, 2_000);
        for id in 0..n {
            let task = task(id, serde_json::json!({"reference": 17}));
            let mut right = [false; 2];
            for before in 0..4 {
                let part = Part { role: Call::WORKER, before, shown: &[] };
                for (right, worker) in right.iter_mut().zip([&anew, &stubborn]) {
                    *right |= team::is_right(&task, &says(worker, &task, part).await);
                }
            }
            let first = team::is_right(&task, &worker(0.4).answer(&Ask::of(&task)).await.unwrap().said.text);
            assert_eq!(right[1], first, "who does not think anew is right at once or never");
            solved += usize::from(right[0]);
            expected = anew.expected_score(&task, Mode::Multi, 4).unwrap();
        }
        // 1 - .6 * .8^3 = .693; three standard deviations of a binomial of 2,000 draws are 62.
        assert!((expected - 0.6928).abs() < 1e-9);
        assert!((solved as f64 - expected * n as f64).abs() < 62.0, "{solved}");
    }

    #[tokio::test]
    async fn plays_every_part_of_a_team() {
        let task = task(1, serde_json::json!({"reference": 17}));
        let sure = worker(1.0);
        let part = |role| Part { role, before: 0, shown: &[("executor", "It is 18."), ("executor", "It is 17.")] };
        assert!(says(&sure, &task, part("verifier")).await.starts_with("PASS"));
        assert_eq!(says(&sure, &task, part("summarizer")).await, "It is 17.");
        let wrong = Part { shown: &[("executor", "It is 18.")], ..part("verifier") };
        assert!(says(&sure, &task, wrong).await.starts_with("FAIL"));
        assert!(says(&worker(0.0), &task, wrong).await.starts_with("PASS"), "who cannot do it cannot check it");
        let domain = Domain::new("math").unwrap();
        let planner =
            ScriptedWorker::new(ScriptedSettings { planned: BTreeMap::from([(domain, 1.0)]), ..settings(0.0) });
        let executor = |shown| Part { role: "executor", before: 0, shown };
        assert!(!team::is_right(&task, &says(&planner, &task, executor(&[])).await));
        assert!(team::is_right(&task, &says(&planner, &task, executor(&[("planner", "1. Count.")])).await));
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
