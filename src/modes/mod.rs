//! Modes: how a worker is run. So far one: a single call.

mod single;

pub use single::{Ran, called, not_run, run_single, run_unseen, trace_end, traced};
