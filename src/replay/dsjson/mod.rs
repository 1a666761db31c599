//! Vowpal Wabbit's decision-service JSON as a log: one round a line, which any policy can be evaluated on.
//!
//! | Field | What becomes of it |
//! |---|---|
//! | `_label_cost` | the score: -cost where all costs are in \[-1, 0\], 1 - cost where all are in \[0, 1\], else by the stated range |
//! | `a`, `p` | the actions' numbers from 1, the one taken first, and the probabilities in that order |
//! | `_labelIndex` (from 0), `_label_Action` (from 1) | the action taken; the first of `a` where neither is there |
//! | `_label_probability` | its propensity, which has to be the one in `p` |
//! | `c` | what all actions share, and `_multi`, an object for each action |
//! | `pdrop` | the share of rounds that was dropped: it has to be the same in every line, and changes no mean then |
//! | `_skipLearn`, a line without `a`, a line without `_label_cost` | left out and counted |
//! | `EventId`, `Timestamp`, `o`, `VWState`, others | not needed: rounds count in the order of the file |
//!
//! What becomes of features is in [`features`]: arms are named by them, the embedding is hashed from them.
//!
//! The file is read twice, a line at a time: first all of it is checked, and the range of its costs found, so that a log that
//! cannot be used is refused before anything is estimated; then rounds are told. Errors name file, line and column.
//!
//! What can go wrong: a log without `p` is refused, since without the probability of what was taken no round can be weighed.
//! Probabilities are 32-bit numbers there, so sums within a thousandth of 1 are taken, and scaled to 1.
//!
//! Source: Vowpal Wabbit's documentation of its JSON formats, and its parser.

mod agreement;
mod error;
mod features;
mod line;

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;

use super::off_policy::Logged;
use crate::{
    action::policy::LearntRound,
    round::{
        Candidate, Context, Decision, DecisionId, Mode, PolicyRef, Probability, Propensity, Reason, RewardWeights,
        TaskId,
    },
};

use agreement::Agreement;
pub use agreement::CostRange;
pub use error::{DsjsonError, DsjsonProblem};
pub use features::DIMENSION;
use line::{Example, Line};

/// A longer line is an error: nothing of this size is one decision.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A checked log.
///
/// ```
/// use std::ops::ControlFlow;
/// use pointsman::replay::{dsjson::DsjsonLog, off_policy::Logged};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("log.dsjson");
/// let line = r#"{"_label_cost": -1, "_label_probability": 0.8, "_label_Action": 2, "a": [2, 1], "p": [0.8, 0.2],
///     "c": {"user": {"plan": "free"}, "_multi": [{"item": {"id": "small"}}, {"item": {"id": "large"}}]}}"#;
/// std::fs::write(&path, line.replace('\n', ""))?;
/// let log = DsjsonLog::open(&path, None)?;
/// log.tell(|_, _| {}, |logged| {
///     let Logged::Verified { decision, round } = logged else { unreachable!() };
///     assert_eq!((decision.arm.as_str(), round.score, round.propensity), ("large", 1.0, 0.8));
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct DsjsonLog {
    path: PathBuf,
    counts: DsjsonCounts,
    costs: CostRange,
    /// The length of every round's embedding.
    dimension: usize,
}

/// What a log holds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DsjsonCounts {
    /// Rounds that can be evaluated.
    pub rounds: u64,
    /// Lines without a cost.
    pub unlabelled: u64,
    /// Lines that say `_skipLearn`.
    pub not_to_learn: u64,
    /// Lines without actions.
    pub without_actions: u64,
    /// The share of rounds that was dropped before.
    pub dropped_share: f64,
}

impl DsjsonLog {
    /// Reads and checks a file, compressed or not. Costs outside both usual ranges need a stated one.
    pub fn open(path: &Path, costs: Option<CostRange>) -> Result<Self, DsjsonError> {
        let mut log = Self {
            path: path.into(),
            counts: DsjsonCounts::default(),
            costs: costs.unwrap_or(CostRange::REWARD),
            dimension: DIMENSION,
        };
        let mut seen = Agreement::new(costs);
        let mut counts = DsjsonCounts::default();
        log.read(|line, _| seen.add(line, &mut counts))?;
        if counts.rounds == 0 {
            return Err(DsjsonError::Empty { path: path.into(), counts });
        }
        counts.dropped_share = seen.dropped.unwrap_or_default();
        log.costs = costs.unwrap_or_else(|| seen.range());
        log.dimension = seen.dimension.unwrap_or(DIMENSION);
        log.counts = counts;
        Ok(log)
    }

    /// What it holds.
    pub fn counts(&self) -> &DsjsonCounts {
        &self.counts
    }

    /// How costs become scores.
    pub fn costs(&self) -> CostRange {
        self.costs
    }

    /// The length of every round's embedding.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Tells the rounds in the file's order until `tell` breaks off. `progress` is told (done, total) rounds.
    pub fn tell(
        &self,
        progress: impl Fn(u64, u64),
        mut tell: impl FnMut(&Logged<'_>) -> ControlFlow<()>,
    ) -> Result<(), DsjsonError> {
        let mut done = 0;
        self.read(|line, number| {
            let Line::Round(example) = line else { return Ok(ControlFlow::Continue(())) };
            let Example { cost, taken, pmf, arms, .. } = example.as_ref();
            // The file may have been written to since it was checked.
            if !self.costs.contains(*cost) {
                return Err(DsjsonProblem::Cost { cost: *cost });
            }
            let candidates = arms.iter().map(|(arm, features)| Candidate {
                features: *features,
                ..Candidate::new(Mode::Single, arm.clone(), 0.0)
            });
            let context = Context {
                weights: RewardWeights { e1: 1.0, e2: 0.0 },
                ..Context::new(example.embedding.clone(), example.domain.clone(), candidates.collect())
            };
            let decision = decision(number, &context, *taken, pmf)?;
            let score = self.costs.score(*cost);
            let round = LearntRound {
                propensity: pmf[*taken],
                seed: decision.seed,
                ..LearntRound::new(&context, *taken, score)
            };
            done += 1;
            progress(done, self.counts.rounds);
            Ok(tell(&Logged::Verified { decision: &decision, round }))
        })
    }

    /// Reads line after line until `each` breaks off.
    fn read(
        &self,
        mut each: impl FnMut(Line, u64) -> Result<ControlFlow<()>, DsjsonProblem>,
    ) -> Result<(), DsjsonError> {
        let io = |source| DsjsonError::Io { path: self.path.clone(), source };
        let mut reader = open(&self.path).map_err(io)?;
        let (mut bytes, mut number) = (Vec::new(), 0);
        loop {
            bytes.clear();
            let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
            match read {
                Ok(0) => return Ok(()),
                Ok(_) => number += 1,
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Err(DsjsonError::CutOff { path: self.path.clone(), lines: number });
                }
                Err(error) => return Err(io(error)),
            }
            let found = |problem: DsjsonProblem, column| DsjsonError::Line {
                path: self.path.clone(),
                line: number,
                column,
                problem: Box::new(problem),
            };
            if bytes.len() as u64 == LINE_BYTES_MAX {
                return Err(found(DsjsonProblem::TooLong, 1));
            }
            let text =
                std::str::from_utf8(&bytes).map_err(|error| found(DsjsonProblem::NotText, error.valid_up_to() + 1))?;
            let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text }.trim();
            if text.is_empty() {
                continue;
            }
            let each = Line::parse(text).and_then(|line| each(line, number));
            match each.map_err(|problem| {
                let column = problem.column(text);
                found(problem, column)
            })? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(()) => return Ok(()),
            }
        }
    }
}

/// The decision as a journal would hold it. Its id, and so its seed, is the line's number.
fn decision(line: u64, context: &Context, taken: usize, pmf: &[f64]) -> Result<Decision, DsjsonProblem> {
    let id = DecisionId::from(u128::from(line));
    let propensity = Propensity::new(pmf[taken]).map_err(|_| DsjsonProblem::Probability { p: pmf[taken] })?;
    let Candidate { mode, arm, .. } = &context.candidates[taken];
    let entry = |(candidate, p): (&Candidate, &f64)| Probability {
        mode: candidate.mode,
        arm: candidate.arm.clone(),
        p: *p,
        expected: None,
    };
    let best = pmf.iter().all(|p| *p <= pmf[taken]);
    Ok(Decision {
        id,
        task_id: TaskId::new(format!("line-{line}")).map_err(|error| DsjsonProblem::Other(error.to_string()))?,
        mode: *mode,
        arm: arm.clone(),
        propensity,
        pmf: context.candidates.iter().zip(pmf).map(entry).collect(),
        voters: Vec::new(),
        policy: PolicyRef { name: "dsjson".into(), version: 1, card: String::new() },
        shadow: None,
        learnt_rounds: 0,
        state_at: 0,
        reason: if best { Reason::Exploit } else { Reason::Explore },
        seed: id.seed(),
    })
}

/// The file, decompressed as it is read where it begins as gzip does.
fn open(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::new(File::open(path)?);
    let compressed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if compressed { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) })
}

#[cfg(test)]
mod tests;
