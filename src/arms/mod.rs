//! Arms: the workers that can be chosen, with their prices.
//!
//! Arms come, change and leave while the daemon runs. A worker turns a task into an answer or a named failure; it never
//! sees the policy, and it never retries by itself.

mod catalogue;
mod habits;
mod health;
pub mod worker;

pub use catalogue::{Arm, Catalogue, CatalogueError, Prices, Selection};
pub(crate) use catalogue::{calls_expected, estimate_tokens};
pub use habits::Habits;
pub use health::Health;
