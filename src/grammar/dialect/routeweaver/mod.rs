//! The dialect of modes, roles and references.
//!
//! ```text
//! trajectory := mode (turn observation+)* answer
//! mode       := <mode>single|multi|agentic</mode>                       its own first turn
//! turn       := <route model="worker_k">task</route>                    single, multi
//!             | (<route model="worker_k" role="R" refs="n1,n2">task</route>)+       agentic, a layer
//! R          := planner | executor | verifier | summarizer
//! answer     := <answer>...</answer>
//! observation := <observation [id="nK" role="R"]>...</observation>      written by the environment only
//! ```
//!
//! An answer that is nothing but a call's name (`n2`) stands for that call's output ([`named`]).
//!
//! [`parse`] reads one turn of the policy's, without what a model may have thought aloud before it; the
//! [`Episode`](crate::grammar::Episode) then says whether it may be taken. Both name what is wrong by the same codes. Workers are
//! `worker_1` to `worker_n`: neither names nor prices are told.
//!
//! Reference: RouteWeaver, its action grammar.

mod parse;
mod render;
#[cfg(test)]
mod tests;

pub use parse::{named, parse};
pub use render::{MODE_TAKEN, note, observations, question, render, rules};

/// The tags that a turn or its observations may have.
pub(super) const NAMES: [&str; 4] = ["mode", "route", "answer", "observation"];

/// The longest first turn, in bytes: what 64 tokens come to at most.
pub const MODE_BYTES_MAX: usize = 256;

/// The longest turn, in bytes.
pub const TURN_BYTES_MAX: usize = 1 << 20;
