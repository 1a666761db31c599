//! Modes: how workers are run. Single is one call. Multi is rounds of one call each, agentic a small team; a [`driver`] writes their
//! turns and [`run_team`] runs them, within limits.

pub mod driver;
pub mod llm;

mod prompt;
mod single;
mod team;
#[cfg(test)]
mod tests;

pub use single::{Ran, called, not_run, run_single, run_unseen, trace_end, traced};
pub use team::{Checked, Guardrails, Team, Watch, run_team};
