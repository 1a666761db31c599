//! The grammar of a trajectory: what a policy that runs workers may write, turn by turn.
//!
//! ```text
//! trajectory := mode (turn observations)* answer
//! turn       := call                    single: exactly one; multi: two to four, one a turn
//!             | layer                   agentic: calls side by side, with roles and references; eight calls at most
//! ```
//!
//! [`Episode`] takes whole turns, whoever wrote them, and names the first thing wrong with them: a [`Violation`] with a stable
//! code. [`Writing`] takes the same trajectory token by token, which is how the compact policy writes it, and knows which
//! tokens may come next. `dialect` reads and writes the two text forms that language models are trained on. There is one set
//! of rules: [`Writing`] ends each turn by giving it to the episode.
//!
//! What can go wrong: a trajectory that nobody ends. The episode counts turns and calls, so that it always ends.
//!
//! References: RouteWeaver (modes, roles, layers, references); Router-R1 (arXiv 2506.09033) for the second text form.

pub mod dialect;

mod episode;
#[cfg(test)]
mod tests;
mod violation;
mod writing;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use episode::{Episode, Node, Rules};
pub use violation::Violation;
pub use writing::{Token, Writing};

use crate::round::Mode;

/// The part that a worker plays in agentic mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Says how to go about it; never answers.
    Planner,
    /// Answers.
    Executor,
    /// Says PASS or FAIL of what it refers to; never answers.
    Verifier,
    /// Makes one answer of what it refers to: the trajectory's last call.
    Summarizer,
}

impl Role {
    /// Every role, in the order of their tokens.
    pub const ALL: [Self; 4] = [Self::Planner, Self::Executor, Self::Verifier, Self::Summarizer];

    /// Its name, as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Executor => "executor",
            Self::Verifier => "verifier",
            Self::Summarizer => "summarizer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One worker call that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The worker's place among those offered, from 0.
    pub worker: usize,
    /// Its part; none in single and multi.
    pub role: Option<Role>,
    /// The earlier calls that it sees, by place from 0 (node n1 is 0); none in single and multi.
    pub refs: Vec<usize>,
    /// What it is asked beside the question itself; never blank where a text was written.
    pub task: String,
}

/// How a trajectory ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// With the output of this call, by place.
    Node(usize),
    /// With a text of the policy's own.
    Text(String),
}

/// What is written in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// The first turn: how the workers are run.
    Mode(Mode),
    /// The next call, or the next layer of calls side by side.
    Calls(Vec<Request>),
    /// The last turn.
    Answer(Answer),
}
