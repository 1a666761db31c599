//! ACT: from a context to a distribution over actions, and from the distribution to one action.
//!
//! `policy` holds the learners, one file per algorithm; `explore` turns their scores into probabilities; `sample`
//! draws; `wrap` puts policies around policies. Policies never draw an action and nothing here reads a clock: the same rounds and the same seed give the
//! same probabilities bit for bit, so that a replay of the journal repeats every decision.

mod cholesky;
pub mod explore;
pub mod policy;
pub mod sample;
pub mod wrap;
