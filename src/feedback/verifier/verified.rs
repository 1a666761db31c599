//! What a verification gave, after nothing of it was trusted.

use serde::Serialize;

use super::{contract::judging::exports::pointsman::verifier::verify::Verdict as Said, manifest::Manifest};
use crate::round::{Signal, VerdictStatus};

/// The most signals and trace lines that are kept of one verdict.
const LINES_MAX: usize = 64;
/// The most bytes that are kept of one detail or trace line.
const LINE_BYTES_MAX: usize = 2_000;

/// What one verification gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verified {
    /// How it ended.
    pub status: VerdictStatus,
    /// In [0, 1]; absent where there is no opinion.
    pub score: Option<f64>,
    /// What it looked at.
    pub signals: Vec<Signal>,
    /// Its words, or why there is no score.
    pub trace: Vec<String>,
    /// Wasm instructions spent, in both instances.
    pub fuel: u64,
    /// Wall time, in microseconds.
    pub duration_us: u64,
}

impl Verified {
    /// Clamps scores to [0, 1], refuses what is no number and recomputes the whole from the signals, which the manifest
    /// must name.
    pub(super) fn check(said: Said, manifest: &Manifest) -> Self {
        let mut signals = Vec::with_capacity(said.signals.len().min(LINES_MAX));
        for signal in said.signals {
            if !manifest.names(&signal.name) {
                let name = cut(&signal.name);
                return Self::failed(&format!("it lies about its manifest, which names no signal {name:?}"));
            }
            if signal.score.is_nan() {
                return Self::failed(&format!("it gave signal {:?} the score NaN", signal.name));
            }
            if !(signal.weight.is_finite() && signal.weight >= 0.0) {
                let weight = signal.weight;
                return Self::failed(&format!("it gave signal {:?} the weight {weight}", signal.name));
            }
            signals.push(Signal {
                name: signal.name,
                score: signal.score.clamp(0.0, 1.0),
                weight: signal.weight,
                detail: cut(&signal.detail),
            });
        }
        if said.score.is_nan() {
            return Self::failed("it gave the score NaN");
        }
        // Weights are brought to at most 1 before they are added: each may be finite and their sum not.
        let heaviest = signals.iter().map(|signal| signal.weight).fold(0.0, f64::max);
        let share = |signal: &Signal| signal.weight / heaviest;
        let score = if heaviest > 0.0 {
            let weights: f64 = signals.iter().map(share).sum();
            signals.iter().map(|signal| share(signal) * signal.score).sum::<f64>() / weights
        } else {
            said.score
        };
        signals.truncate(LINES_MAX);
        Self {
            status: VerdictStatus::Scored,
            score: Some(score.clamp(0.0, 1.0)),
            signals,
            trace: said.trace.iter().take(LINES_MAX).map(|line| cut(line)).collect(),
            fuel: 0,
            duration_us: 0,
        }
    }

    /// No score, and why.
    pub(super) fn silent(status: VerdictStatus, why: &str) -> Self {
        Self { status, score: None, signals: vec![], trace: vec![cut(why)], fuel: 0, duration_us: 0 }
    }

    /// The verifier failed, not the answer.
    pub(super) fn failed(why: &str) -> Self {
        Self::silent(VerdictStatus::Error, why)
    }
}

fn cut(line: &str) -> String {
    let mut end = line.len().min(LINE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_owned()
}
