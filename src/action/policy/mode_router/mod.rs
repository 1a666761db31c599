//! `mode_router`: a small transformer, trained by reinforcement learning, that picks the mode and the first worker, and may go on
//! to write every call of the trajectory.
//!
//! What it sees of a task is its embedding and alpha; of a worker the numbers of [`Descriptor`], no name and no price list. So one
//! policy serves any pool and every alpha that it was trained on. It was trained without the grammar's mask, so that it had to
//! learn the rules, and is served under it, so that it cannot break them. It learns nothing while it serves: the ensemble weighs it.
//!
//! References: RouteWeaver (COMET-GRPO, progressive exploration); see `train::mode_router` for how it comes about.

mod checkpoint;
mod descriptor;
mod frozen;
mod packed;
mod piece;
mod policy;
#[cfg(test)]
pub(in crate::action::policy) mod tests;
mod weights;

pub use checkpoint::{Card, Checkpoint, CheckpointError};
pub use descriptor::{Descriptor, Raw, Seen};
pub use frozen::{Frozen, Prefix, Reading};
pub use packed::{Numbers, pack, unpack};
pub use piece::{
    ALPHA, NODES_MAX, PLACES, PLAIN, Piece, ROWS, TASK, WORKER, WORKERS_MAX, logit_place, logits, mode_place,
};
pub use policy::{ModeRouter, ModeRouterSettings, described, draw, pmf};
pub use weights::{EMBEDDING, Shape, Weights};
