//! Arms: the workers that can be chosen, with their prices.
//!
//! The catalogue is fixed while the daemon runs. A worker turns a task into an answer or a named failure; it never
//! sees the policy, and it never retries by itself.

mod catalogue;
pub mod worker;

pub(crate) use catalogue::estimate_tokens;
pub use catalogue::{Arm, Catalogue, CatalogueError, Prices};
