//! What the network reads, piece by piece: the prefix, the tokens that were written and what was seen of calls. Each piece is a
//! sum of rows of one table, and of a worker's vector where it is about a worker.

use super::Seen;
use crate::{
    grammar::{Role, Token},
    round::Mode,
};

/// Calls that a trajectory may have.
pub const NODES_MAX: usize = 8;
/// Workers that may be offered.
pub const WORKERS_MAX: usize = 32;
/// Pieces after the prefix that are told apart by their place; later ones count as the last.
pub const PLACES: usize = 80;

/// Rows of the table.
pub const ROWS: usize = ROLELESS + 1;
const START: usize = 0;
const MODE: usize = 1;
const CALL: usize = 4;
const ROLE: usize = 5;
const REF: usize = 9;
const END: usize = 10;
const SEEN: usize = 11;
const NODE: usize = 12;
const KIND: usize = NODE + NODES_MAX;
/// The task's own row.
pub const TASK: usize = KIND + Seen::KINDS;
/// The row of every worker in the prefix.
pub const WORKER: usize = TASK + 1;
/// The row of alpha's piece, and the one that alpha is multiplied by.
pub const ALPHA: usize = WORKER + 1;
const ROLELESS: usize = ALPHA + 2;

/// One piece after the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// The first one, before anything is written.
    Start,
    /// A token that was written.
    Written(Token),
    /// What was seen of a call.
    Seen {
        /// The call, by place.
        node: usize,
        /// Its part.
        role: Option<Role>,
        /// Its worker, by place.
        worker: usize,
        /// What was seen.
        seen: Seen,
    },
}

impl Piece {
    /// The rows of the table that it is the sum of, and the worker that it is about.
    pub fn rows(self) -> (Vec<usize>, Option<usize>) {
        match self {
            Self::Start => (vec![START], None),
            Self::Written(Token::Mode(mode)) => (vec![MODE + mode_place(mode)], None),
            Self::Written(Token::Call(worker)) => (vec![CALL], Some(worker)),
            Self::Written(Token::Role(role)) => (vec![ROLE + role_place(role)], None),
            Self::Written(Token::Ref(node)) => (vec![REF, NODE + node.min(NODES_MAX - 1)], None),
            Self::Written(Token::EndLayer) => (vec![END], None),
            // Nothing follows it.
            Self::Written(Token::Answer(node)) => (vec![END, NODE + node.min(NODES_MAX - 1)], None),
            Self::Seen { node, role, worker, seen } => {
                let role = role.map_or(ROLELESS, |role| ROLE + role_place(role));
                (vec![SEEN, NODE + node.min(NODES_MAX - 1), role, KIND + seen.place()], Some(worker))
            }
        }
    }
}

/// A mode's place among their tokens.
pub fn mode_place(mode: Mode) -> usize {
    match mode {
        Mode::Single => 0,
        Mode::Multi => 1,
        Mode::Agentic => 2,
    }
}

fn role_place(role: Role) -> usize {
    match role {
        Role::Planner => 0,
        Role::Executor => 1,
        Role::Verifier => 2,
        Role::Summarizer => 3,
    }
}

/// Tokens that are no pointers: the modes, the roles and the layer's end.
pub const PLAIN: usize = 8;

/// A token's place among the logits of one step: plain ones, then calls of each worker, references to and answers with each call.
pub fn logit_place(token: Token, workers: usize) -> usize {
    match token {
        Token::Mode(mode) => mode_place(mode),
        Token::Role(role) => 3 + role_place(role),
        Token::EndLayer => 7,
        Token::Call(worker) => PLAIN + worker,
        Token::Ref(node) => PLAIN + workers + node,
        Token::Answer(node) => PLAIN + workers + NODES_MAX + node,
    }
}

/// How many logits a step has.
pub fn logits(workers: usize) -> usize {
    PLAIN + workers + 2 * NODES_MAX
}
