//! The toy's experiment: with and without progressive exploration.

use candle_core::Device;

use super::{
    StepReport, TrainError, TrainSettings, Trainer,
    advantage::Scale,
    environment::{Environment, Toy},
    loss::LossSettings,
    rollout::{Ended, Masked, prefix, roll, stream},
    schedule::Schedule,
};
use crate::{
    action::policy::mode_router::{Frozen, Shape, mode_place},
    round::Mode,
};

/// What a toy training came to.
#[derive(Debug, Clone)]
pub struct ToyReport {
    /// Mean score when served, by sampling under the mask.
    pub score: f64,
    /// What part of the trajectories ran in each mode.
    pub modes: [f64; 3],
    /// Every step.
    pub steps: Vec<StepReport>,
}

/// The toy's settings: small, quick, and a network that begins with a strong preference for single calls, as language models do.
pub fn settings(seed: u64, progressive: bool) -> TrainSettings {
    TrainSettings {
        shape: Shape { width: 32, layers: 1, heads: 4 },
        seed,
        warm_up: 120,
        practice: 0,
        steps: 240,
        queries: 12,
        rollouts: 8,
        rate: 3e-3,
        warm_up_rate: 5e-3,
        alpha: [0.0, 0.0],
        scale: Scale::Group,
        schedule: Schedule { cold: 60, anneal: 120, support: 0.5, progressive },
        loss: LossSettings { beta: 0.005, ..LossSettings::default() },
        prior: [0.998, 0.001, 0.001],
        ..TrainSettings::default()
    }
}

/// Trains in the toy and serves what came out.
pub fn run(settings: TrainSettings, told: &dyn Fn(&StepReport)) -> Result<ToyReport, TrainError> {
    let toy = Toy::new(96);
    let mut trainer = Trainer::new(&toy, settings, Device::Cpu)?;
    let mut steps = Vec::new();
    while trainer.done() < trainer.steps() {
        let report = trainer.step()?;
        told(&report);
        steps.push(report);
    }
    let network = Frozen::new(trainer.weights()?);
    let (mut score, mut modes, n) = (0.0, [0.0; 3], 20 * toy.queries().len());
    for number in 0..n {
        let query = number % toy.queries().len();
        let order: Vec<usize> = (0..toy.workers().len()).collect();
        let prefix = prefix(&toy.queries()[query], 0.0, &order);
        let world = toy.world(query, 1_000_000 + number as u64);
        let mut writer = Masked::new(&network, Some(stream(&[b"serve", &(number as u64).to_le_bytes()])));
        let rollout = roll(&network, &network.begin(&prefix), &prefix, &order, &*world, None, &mut writer);
        modes[mode_place(rollout.mode.unwrap_or(Mode::Single))] += 1.0 / n as f64;
        if let Ended::Answered(outcome) = rollout.ended {
            score += outcome.score / n as f64;
        }
    }
    Ok(ToyReport { score, modes, steps })
}
