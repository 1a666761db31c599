//! Why a log cannot be used, where, and what to do.

use std::path::PathBuf;

use super::{CostRange, DsjsonCounts};

/// Why a log cannot be read or used.
#[derive(Debug, thiserror::Error)]
pub enum DsjsonError {
    /// It cannot be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The compressed file ends too early.
    #[error("{path}: the compressed file is cut off after line {lines}: copy it again from where it came")]
    CutOff {
        /// The file.
        path: PathBuf,
        /// The last whole line.
        lines: u64,
    },
    /// A line is not as it should be.
    #[error("{path}:{line}:{column}: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// In bytes, from 1.
        column: usize,
        /// What is wrong.
        problem: Box<DsjsonProblem>,
    },
    /// There is no round in it.
    #[error(
        "{path} holds no round with a cost: {} lines have none, {} are not to be learnt from, {} have no actions",
        .counts.unlabelled, .counts.not_to_learn, .counts.without_actions
    )]
    Empty {
        /// The file.
        path: PathBuf,
        /// What was left out.
        counts: DsjsonCounts,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum DsjsonProblem {
    /// It is no text.
    #[error("is not UTF-8")]
    NotText,
    /// It is too long.
    #[error("is longer than 64 MiB")]
    TooLong,
    /// It is no JSON, or a field has another type.
    #[error("is no decision-service JSON: {0}")]
    Json(serde_json::Error),
    /// It is of a kind that has no single action.
    #[error(
        "{field} belongs to decisions of several slots or of continuous actions: only one action out of a list can be read"
    )]
    OtherKind {
        /// What gives it away.
        field: &'static str,
    },
    /// There is no propensity.
    #[error(
        "{field} missing: without the probabilities that the action was drawn with, nobody can say what another policy would \
         have brought. Log them with each decision, as Vowpal Wabbit's explorers give them"
    )]
    NoProbability {
        /// What is missing.
        field: &'static str,
    },
    /// A probability is none.
    #[error("the probability {p} of what was taken is not above 0 and at most 1")]
    Probability {
        /// What is said.
        p: f64,
    },
    /// The distribution is none.
    #[error("p {0}")]
    Pmf(String),
    /// The propensity is said twice, and differently.
    #[error("_label_probability is {label}, but p gives what was taken {p}")]
    Disagree {
        /// What the label says.
        label: f64,
        /// What the distribution says.
        p: f64,
    },
    /// An action that does not exist, or is not in the list.
    #[error("{field} names action {action} (from 1), but there are {actions}")]
    Action {
        /// Who says it.
        field: &'static str,
        /// From 1.
        action: u64,
        /// How many there are.
        actions: usize,
    },
    /// What is said of the actions cannot all be true.
    #[error("{field} {problem}")]
    Actions {
        /// Who says it.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The context is missing or odd.
    #[error("{field} is missing: {what}")]
    Missing {
        /// What is missing.
        field: &'static str,
        /// What it should be.
        what: &'static str,
    },
    /// The cost is in no known range.
    #[error(
        "a cost of {cost} has no score in [0, 1] with those before it: costs from {} to {} and from {} to {} are understood, \
         others need --cost-range LOW,HIGH, the costs of the best and of the worst outcome",
        CostRange::REWARD.low, CostRange::REWARD.high, CostRange::LOSS.low, CostRange::LOSS.high
    )]
    Cost {
        /// The cost.
        cost: f64,
    },
    /// Rounds were dropped with different probabilities.
    #[error(
        "pdrop is {now} here and {first} before: rounds that were kept with different probabilities cannot be averaged as they \
         are. Give a log of one pdrop"
    )]
    Dropped {
        /// The first line's.
        first: f64,
        /// This line's.
        now: f64,
    },
    /// `pdrop` is no share below 1.
    #[error("pdrop is {0}, not at least 0 and below 1")]
    DroppedAll(f64),
    /// The embedding has another length than before.
    #[error("Embedding has {now} numbers here and {first} before")]
    Dimension {
        /// The first line's.
        first: usize,
        /// This line's.
        now: usize,
    },
    /// Something else.
    #[error("{0}")]
    Other(String),
}

impl DsjsonProblem {
    /// Where in the line it is, from 1: at the field that it is about, where that is there.
    pub(super) fn column(&self, text: &str) -> usize {
        let field = match self {
            Self::Json(error) => return error.column().max(1),
            Self::OtherKind { field } | Self::Action { field, .. } | Self::Actions { field, .. } => field,
            Self::Probability { .. } | Self::Disagree { .. } => "_label_probability",
            Self::Pmf(_) => "p",
            Self::Cost { .. } => "_label_cost",
            Self::Dropped { .. } | Self::DroppedAll(_) => "pdrop",
            Self::Dimension { .. } => "Embedding",
            Self::NoProbability { .. } | Self::Missing { .. } | Self::NotText | Self::TooLong | Self::Other(_) => {
                return 1;
            }
        };
        let at = (1..=2).find_map(|depth| key_at(text, field, depth));
        at.map_or(1, |at| at + 1)
    }
}

/// Where a key of an object at this depth begins.
fn key_at(text: &str, field: &str, wanted: usize) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != b'"' {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                let is_key = text.get(end + 1..).is_some_and(|rest| rest.trim_start().starts_with(':'));
                if is_key && depth == wanted && text.get(at + 1..end) == Some(field) {
                    return Some(at);
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    None
}
