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

/// What was measured of one worker, before it is set against the others; 0 where unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Raw {
    /// Mean score in the task's domain, in [0, 1].
    pub domain_mean: f32,
    /// Mean score over all domains, in [0, 1].
    pub mean: f32,
    /// Median output tokens of a call.
    pub output_tokens: f32,
    /// Median milliseconds of a call.
    pub latency_ms: f32,
    /// Median dollars of a call.
    pub cost_usd: f32,
}

impl Descriptor {
    /// The workers offered, set against each other.
    pub fn relative(offered: &[Raw]) -> Vec<Self> {
        let tokens = logs(offered, |raw| raw.output_tokens);
        let latency = logs(offered, |raw| raw.latency_ms);
        let cost = logs(offered, |raw| raw.cost_usd);
        let described = offered.iter().enumerate().map(|(place, raw)| Self {
            domain_mean: raw.domain_mean,
            mean: raw.mean,
            log_output_tokens: tokens[place],
            latency_class: (latency[place] / std::f32::consts::LN_2).round().clamp(-2.0, 2.0),
            log_cost: cost[place],
        });
        described.collect()
    }
}

impl Descriptor {
    /// The same in words, for a language model. What is not known is left out.
    pub fn words(&self) -> String {
        let Self { domain_mean, mean, log_output_tokens, latency_class, log_cost } = self;
        let mut words =
            format!("right on {:.0} % of such questions, {:.0} % of all", 100.0 * domain_mean, 100.0 * mean);
        let times = [(log_cost.exp(), "cost"), (log_output_tokens.exp(), "length"), (latency_class.exp2(), "time")];
        for (times, what) in times.into_iter().filter(|(times, _)| *times != 1.0) {
            words.push_str(&format!("; {times:.2} times the usual {what}"));
        }
        words
    }
}

/// Natural logarithms less their mean over those that are known; 0 where unknown.
fn logs(offered: &[Raw], of: impl Fn(&Raw) -> f32) -> Vec<f32> {
    let known: Vec<Option<f32>> = offered.iter().map(|raw| Some(of(raw)).filter(|x| *x > 0.0).map(f32::ln)).collect();
    let count = known.iter().flatten().count().max(1) as f32;
    let mean = known.iter().flatten().sum::<f32>() / count;
    known.into_iter().map(|log| log.map_or(0.0, |log| (log - mean).clamp(-8.0, 8.0))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_described_against_each_other_and_the_unknown_is_neutral() {
        let raw = |tokens, latency_ms, cost_usd| Raw { output_tokens: tokens, latency_ms, cost_usd, ..Raw::default() };
        let described =
            Descriptor::relative(&[raw(100.0, 1_000.0, 0.01), raw(400.0, 4_000.0, 0.0), raw(0.0, 0.0, 0.04)]);
        let half = 0.5 * 4.0_f32.ln();
        assert!(
            (described[0].log_output_tokens + half).abs() < 1e-5
                && (described[1].log_output_tokens - half).abs() < 1e-5
        );
        assert_eq!([described[0].latency_class, described[1].latency_class], [-1.0, 1.0]);
        assert_eq!([described[2].log_output_tokens, described[2].latency_class, described[1].log_cost], [0.0; 3]);
        assert!((described[2].log_cost - half).abs() < 1e-5);
    }
}
