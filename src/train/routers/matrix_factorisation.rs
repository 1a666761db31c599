//! RouteLLM's matrix factorisation, for any number of arms: delta(a, q) = v_a . (W e_q + b).
//!
//! Fitted to preferences: on each known task, an arm with a higher reward should beat one with a lower reward, with
//! probability sigmoid(delta(a) - delta(b)) (Bradley-Terry). RouteLLM's w2 is absorbed into v_a, which has the same reach.
//! The text's embedding is our own model's, where the paper uses a commercial one.
//!
//! Reference: Ong et al., RouteLLM: Learning to Route LLMs with Preference Data, 2025.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{
    Judge, Known, KnownTask, RouterError,
    network::{BATCH, SEED, first_weights},
};
use crate::round::Context;

/// Dimensions of the space in which arms and texts meet: as many as the paper has.
const DIMENSIONS: usize = 128;
const EPOCHS: usize = 20;
const RATE: f64 = 0.003;
const DECAY: f64 = 0.01;
/// Rewards that differ by less are no preference.
const MARGIN: f64 = 1e-6;

pub(super) struct MatrixFactorisation {
    /// W^T v_a for each arm, so that deciding is one product.
    arms: Vec<Vec<f32>>,
    /// b . v_a.
    bias: Vec<f32>,
}

impl MatrixFactorisation {
    pub fn fit(known: &Known) -> std::result::Result<Self, RouterError> {
        Ok(solve(known)?)
    }
}

impl Judge for MatrixFactorisation {
    fn scores(&self, context: &Context) -> Vec<f64> {
        let text = context.embedding.as_slice();
        let of = |(arm, bias): (&Vec<f32>, &f32)| bias + arm.iter().zip(text).map(|(a, b)| a * b).sum::<f32>();
        self.arms.iter().zip(&self.bias).map(|pair| f64::from(of(pair))).collect()
    }
}

/// 1 where the first arm should beat the second one.
fn preferences(task: &KnownTask) -> impl Iterator<Item = f32> + '_ {
    let beats = |a: &f64, b: &f64| if a - b > MARGIN { 1.0 } else { 0.0 };
    task.rewards.iter().flat_map(move |a| task.rewards.iter().map(move |b| beats(a, b)))
}

fn solve(known: &Known) -> Result<MatrixFactorisation> {
    let device = Device::Cpu;
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let (arms, inputs) = (known.arms.len(), known.tasks[0].embedding.as_slice().len());
    let of_text = first_weights(&mut rng, inputs, DIMENSIONS, &device)?;
    let bias = Var::zeros(DIMENSIONS, DType::F32, &device)?;
    let of_arm = first_weights(&mut rng, DIMENSIONS, arms, &device)?;
    let fitted = vec![of_text.clone(), bias.clone(), of_arm.clone()];
    let mut optimiser = AdamW::new(fitted, ParamsAdamW { lr: RATE, weight_decay: DECAY, ..ParamsAdamW::default() })?;
    let mut order: Vec<usize> = (0..known.tasks.len()).collect();
    for _ in 0..EPOCHS {
        order.shuffle(&mut rng);
        for batch in order.chunks(BATCH) {
            let tasks = || batch.iter().map(|place| &known.tasks[*place]);
            let texts: Vec<f32> = tasks().flat_map(|task| task.embedding.as_slice().iter().copied()).collect();
            let beats: Vec<f32> = tasks().flat_map(preferences).collect();
            let pairs = beats.iter().sum::<f32>();
            if pairs == 0.0 {
                continue;
            }
            let texts = Tensor::from_vec(texts, (batch.len(), inputs), &device)?;
            let beats = Tensor::from_vec(beats, (batch.len(), arms, arms), &device)?;
            let delta = texts.matmul(&of_text)?.broadcast_add(&bias)?.matmul(&of_arm)?;
            let gap = delta.unsqueeze(2)?.broadcast_sub(&delta.unsqueeze(1)?)?;
            // -log sigmoid(gap), which does not overflow.
            let loss = (gap.neg()?.relu()? + (gap.abs()?.neg()?.exp()? + 1.0)?.log()?)?;
            let loss = ((loss * beats)?.sum_all()? / f64::from(pairs))?;
            optimiser.backward_step(&loss)?;
        }
    }
    let joined = of_text.matmul(&of_arm)?.t()?.contiguous()?.to_vec2()?;
    let bias = bias.unsqueeze(0)?.matmul(&of_arm)?.squeeze(0)?.to_vec1()?;
    Ok(MatrixFactorisation { arms: joined, bias })
}
