//! Replay: any policy over an outcome matrix, with exact regret since every arm's outcome is known.
//!
//! `dataset` reads the matrix, `scoring` says what an outcome is worth, `prepared` is what all policies of one stream
//! share, `runner` turns the same loop as the live router over it, with one attempt a task or a cascade of them;
//! `baselines` gives the bounds, `decisions` scores what others decided, `report` is what comes out and `page` shows it. A
//! policy sees only what a live router would: the text and its embedding, the domain, expected costs from prices, and the
//! outcomes of its own picks; `leak` proves it. Texts are embedded by the caller; `embedding_cache` keeps the vectors.

pub mod baselines;
pub mod dsjson;
pub mod embedding_cache;
pub mod leak;
pub mod off_policy;
pub mod page;
pub mod saved;

mod dataset;
mod decisions;
mod prepared;
mod report;
mod runner;
mod scoring;

pub use dataset::{Column, Dataset, DatasetError, DatasetTask, Format, Model, ReadOptions, TaskResult, UnknownFormat};
pub use decisions::{Decided, Decisions};
pub use prepared::Prepared;
pub use report::{DomainReport, PolicyReport};
pub use runner::{Learner, Order, Progress, Protocol, ReplayError, ReplayOptions, run};
pub use scoring::{Rule, Scoring, Worth};
