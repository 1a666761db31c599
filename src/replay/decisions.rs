//! Decisions that somebody else made: a file that says which model, or which models in order, each task got.
//!
//! One CSV line a task: `task_id`, `model` (whose answer was kept) and, for a cascade, `attempts`, its models in the order
//! in which they were run, with `|` between. They are scored as given, on the same outcomes as a policy.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde::Deserialize;

use super::{
    Column, Dataset, DatasetError, Order, PolicyReport, Protocol, Scoring,
    baselines::step,
    report::{Ran, Setting, Step},
};

/// What one task got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The model whose answer was kept.
    pub kept: usize,
    /// All that were run, in order; the kept one is among them.
    pub attempts: Vec<usize>,
}

/// A file of decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decisions {
    /// The file's name without its ending.
    pub name: String,
    /// By the task's place in the dataset.
    pub by_task: BTreeMap<usize, Decided>,
}

#[derive(Deserialize)]
struct Row {
    task_id: String,
    model: String,
    attempts: Option<String>,
}

impl Decisions {
    /// One model for each task, in the dataset's order.
    pub fn single(name: &str, models: impl IntoIterator<Item = usize>) -> Self {
        let decided = |kept| Decided { kept, attempts: vec![kept] };
        Self { name: name.into(), by_task: (0..).zip(models.into_iter().map(decided)).collect() }
    }

    /// Reads a file. Every task of the dataset must be decided once; decisions on other tasks are an error as well, since
    /// they mean that the file is of another split.
    pub fn read(path: &Path, dataset: &Dataset) -> Result<Self, DatasetError> {
        let tasks: HashMap<&str, usize> = dataset.tasks.iter().map(|task| task.id.as_str()).zip(0..).collect();
        let models: HashMap<&str, usize> = dataset.models.iter().map(|model| model.arm.as_str()).zip(0..).collect();
        let file = std::fs::File::open(path).map_err(|source| DatasetError::Io { path: path.into(), source })?;
        let mut csv = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(std::io::BufReader::new(file));
        let mut by_task = BTreeMap::new();
        let failed = |line: u64, column: Option<&str>, problem: String| DatasetError::Line {
            path: path.into(),
            line,
            column: column.map(|column| Column::Field(column.into())),
            problem,
        };
        let headers = csv.headers().map_err(|error| failed(1, None, error.to_string()))?.clone();
        let mut record = csv::StringRecord::new();
        let mut line = 1;
        while csv.read_record(&mut record).map_err(|error| failed(line + 1, None, error.to_string()))? {
            line = record.position().map_or(line + 1, csv::Position::line);
            let row: Row = record.deserialize(Some(&headers)).map_err(|error| failed(line, None, error.to_string()))?;
            let model = |name: &str| {
                let unknown = || failed(line, Some("model"), format!("{name:?} is no model of {}", dataset.name));
                models.get(name).copied().ok_or_else(unknown)
            };
            let Some(task) = tasks.get(row.task_id.as_str()) else {
                let split = dataset.split.as_deref().unwrap_or("all");
                let problem = format!("{:?} is no task of {}, split {split}", row.task_id, dataset.name);
                return Err(failed(line, Some("task_id"), problem));
            };
            let kept = model(&row.model)?;
            let attempts = row.attempts.as_deref().filter(|attempts| !attempts.is_empty());
            let attempts = match attempts {
                Some(attempts) => attempts.split('|').map(model).collect::<Result<Vec<_>, _>>()?,
                None => vec![kept],
            };
            if !attempts.contains(&kept) {
                return Err(failed(
                    line,
                    Some("attempts"),
                    format!("{:?}, which is kept, is not among them", row.model),
                ));
            }
            if by_task.insert(*task, Decided { kept, attempts }).is_some() {
                return Err(failed(line, Some("task_id"), format!("a second decision on {:?}", row.task_id)));
            }
        }
        if let Some(missing) = (0..dataset.tasks.len()).find(|task| !by_task.contains_key(task)) {
            let count = dataset.tasks.len() - by_task.len();
            let first = &dataset.tasks[missing].id;
            return Err(failed(line, None, format!("it ends without a decision on {count} tasks, such as {first}")));
        }
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { name, by_task })
    }

    /// What they were worth.
    pub fn score(&self, dataset: &Dataset, scoring: Scoring) -> PolicyReport {
        let cascade = self.by_task.values().any(|decided| decided.attempts.len() > 1);
        let protocol = if cascade { Protocol::Cascade } else { Protocol::Single };
        let of_task = |(place, Decided { kept, attempts }): (&usize, &Decided)| -> Step {
            let task = &dataset.tasks[*place];
            let worth = scoring.chain(task, attempts, *kept);
            let ran = Ran::Models { attempts: attempts.clone(), kept: *kept };
            step(scoring, (*place, task), ran, worth)
        };
        let steps: Vec<Step> = self.by_task.iter().map(of_task).collect();
        let setting = Setting { dataset, rule: scoring.rule, order: Order::Released, protocol, warm: &[] };
        PolicyReport::join(setting, &self.name, &[steps], 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        replay::{DatasetTask, Model, Rule, TaskResult},
        round::{ArmId, Domain, RewardWeights, TaskId},
    };

    fn dataset() -> Dataset {
        let model = |name| Model { arm: ArmId::new(name).unwrap(), input_per_1m: 1.0, output_per_1m: 1.0 };
        let result = |score| TaskResult {
            score,
            cost_usd: 1.0,
            measured: true,
            applied: None,
            output_tokens: None,
            latency_ms: None,
        };
        let task = |id: &str, scores: [f64; 2]| DatasetTask {
            id: TaskId::new(id).unwrap(),
            split: "test".into(),
            domain: Domain::unknown(),
            source: "s".into(),
            prompt: None,
            metadata: Default::default(),
            results: scores.map(result).to_vec(),
        };
        Dataset {
            name: "made-up".into(),
            split: Some("test".into()),
            models: ["a", "b"].map(model).to_vec(),
            tasks: vec![task("t1", [0.0, 1.0]), task("t2", [1.0, 0.0])],
            without_prompt: 2,
            unmeasured: 0,
            warnings: Vec::new(),
        }
    }

    fn read(text: &str) -> Result<Decisions, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs.csv");
        std::fs::write(&path, text).unwrap();
        Decisions::read(&path, &dataset()).map_err(|error| error.to_string())
    }

    #[test]
    fn single_attempts_and_cascades_are_scored_as_given() {
        let scoring = Scoring { rule: Rule::Full, weights: RewardWeights::default() };
        let single = read("task_id,model\nt2,a\nt1,a\n").unwrap();
        assert_eq!(single.name, "theirs");
        let report = single.score(&dataset(), scoring);
        assert_eq!((report.mean_score, report.total_cost_usd, report.protocol), (0.5, 2.0, Protocol::Single));
        assert!((report.cum_regret - 1.0).abs() < 1e-12);
        let cascade = read("task_id,model,attempts\r\nt1,b,a|b\r\nt2,a,\r\n").unwrap().score(&dataset(), scoring);
        assert_eq!((cascade.mean_score, cascade.total_cost_usd, cascade.protocol), (1.0, 3.0, Protocol::Cascade));
        assert_eq!(cascade.attempts_mean, 1.5);
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused_with_its_line_and_column() {
        for (text, expected) in [
            ("task_id,model\nt1,a\n", "without a decision on 1 tasks, such as t2"),
            ("task_id,model\nt1,a\nt1,b\nt2,a\n", "theirs.csv:3: column task_id: a second decision"),
            ("task_id,model\nt1,a\nt9,b\n", "theirs.csv:3: column task_id: \"t9\" is no task of made-up, split test"),
            ("task_id,model\nt1,c\n", "theirs.csv:2: column model: \"c\""),
            ("task_id,model,attempts\nt1,a,b\n", "theirs.csv:2: column attempts: \"a\", which is kept"),
            ("task_id,model,attempts\nt1,a,a|x\n", "theirs.csv:2: column model: \"x\""),
            ("task_id\nt1\n", "missing field `model`"),
            ("task_id,model\n\"t1,a\n", "theirs.csv:"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error} should contain {expected}");
        }
    }
}
