//! Replay: any policy over an outcome matrix, with exact regret since every arm's outcome is known.
//!
//! `dataset` reads the matrix, `runner` turns the same loop as the live router over shuffled orders, `baselines` gives
//! the bounds, `report` is what comes out. The policy sees only what a live router would: the prompt's embedding, the
//! domain, expected costs from prices, and the outcomes of its own picks. Prompts are embedded by the caller;
//! `embedding_cache` keeps the vectors.

pub mod baselines;
pub mod dsjson;
pub mod embedding_cache;
pub mod off_policy;

mod dataset;
mod report;
mod runner;

pub use dataset::{Dataset, DatasetError, DatasetTask, Model, TaskResult};
pub use report::PolicyReport;
pub use runner::{Progress, ReplayError, ReplayOptions, run};
