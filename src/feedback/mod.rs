//! Learn: what an answer is worth.
//!
//! A domain has a set of verifiers, WebAssembly components that check the answer in a sandbox. Their scores are
//! combined into one, from which comes the reward r = e1 * score + e2 * cost_usd.

pub mod verifier;
