//! What the mode-router knows of a worker and of a call: numbers that were measured, no names and no price lists.

use serde::{Deserialize, Serialize};

/// One worker as the mode-router sees it for one task. Everything but the means is relative to the mean over the workers
/// offered, so that a pool as a whole may be dearer or slower than the one trained on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Mean score in the task's domain, in [0, 1].
    pub domain_mean: f32,
    /// Mean score over all domains, in [0, 1].
    pub mean: f32,
    /// Natural logarithm of its median output tokens over the pool's mean of that; 0 where unknown.
    pub log_output_tokens: f32,
    /// Class of its median latency against the pool's: the logarithm to base 2, rounded, in [-2, 2]; 0 where unknown.
    pub latency_class: f32,
    /// Natural logarithm of the median dollars that a call of it was measured to cost, over the pool's mean of that; 0 where unknown.
    pub log_cost: f32,
}

impl Descriptor {
    /// How many numbers that are.
    pub const NUMBERS: usize = 5;

    /// The numbers, in the order that checkpoints are trained on.
    pub fn numbers(&self) -> [f32; Self::NUMBERS] {
        [self.domain_mean, self.mean, self.log_output_tokens, self.latency_class, self.log_cost]
    }
}

/// What is told of a call once it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Nothing but that it was made.
    Nothing,
    /// Its output passed verification.
    Pass,
    /// It did not.
    Fail,
    /// A verifier's opinion of it, in five bins from 0 (poor) to 4.
    Bin(u8),
}

impl Seen {
    /// How many different ones there are.
    pub const KINDS: usize = 8;

    /// Its place among them.
    pub fn place(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Pass => 1,
            Self::Fail => 2,
            Self::Bin(bin) => 3 + usize::from(bin.min(4)),
        }
    }

    /// The bin of a score in [0, 1].
    pub fn bin(score: f64) -> Self {
        Self::Bin((score.clamp(0.0, 1.0) * 5.0).floor().min(4.0) as u8)
    }
}
