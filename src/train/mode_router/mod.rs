//! Training of `mode_router`: COMET-GRPO with progressive exploration, in a world made of recorded outcomes.
//!
//! First the network learns the rules (`warm_up`), then the best fixed ways of each domain (`plans`). Then, step by step, several trajectories of each of some queries are written without the
//! grammar's mask (`rollout`) in one world (`environment`); what they came to is compared within each group (`advantage`), and the network is moved towards what
//! came to more (`loss`, `optimiser`). At first every group's mode is forced, so that each mode is learnt before modes compete (`schedule`).
//!
//! The same settings give the same network bit for bit on one kind of machine, and a training that was broken off goes on exactly where it was left: every random number is
//! made of the seed and of what it is for.
//!
//! Reference: RouteWeaver.

pub mod advantage;
pub mod backbone;
pub mod environment;
pub mod evaluate;
pub mod grading;
pub mod loss;
pub mod network;
pub mod optimiser;
pub mod plans;
pub mod plots;
mod resume;
pub mod rollout;
pub mod schedule;
mod softmax;
pub mod toy;
mod trainer;
mod warm_up;

#[cfg(test)]
mod tests;

pub use trainer::{StepReport, TrainError, TrainSettings, Trainer};
