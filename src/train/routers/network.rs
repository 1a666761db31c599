//! Networks on words: multinomial logistic regression, and one hidden layer (TF-IDF + MLP).
//!
//! Inputs: the text's TF-IDF weights (words and pairs of words), one column per domain, and its length. Output: the
//! probability of each arm to be the best one, softmax(W2 relu(W1 x + b1) + b2), or softmax(W x + b) without a hidden layer.
//! Fitted to the best arm of each known task by cross-entropy with AdamW.
//!
//! References: the LogReg and TF-IDF + MLP routers of Agent-as-a-Router (arXiv 2606.22902); Loshchilov and Hutter, Decoupled
//! Weight Decay Regularization, 2019.

use std::sync::Arc;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, loss::cross_entropy};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::{Judge, Known, RouterError};
use crate::{
    action::policy::Vocabulary,
    round::{Context, Domain},
    train::tfidf::vocabulary,
};

/// Characters that count as a length of 1.
const LENGTH_CHARS: f32 = 10_000.0;
/// Tasks whose gradients are added up.
pub(super) const BATCH: usize = 128;
/// Seeds the first weights and the order of the tasks.
pub(super) const SEED: u64 = 1986;

/// What differs between the networks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Units of the hidden layer; 0 for none.
    hidden: usize,
    epochs: usize,
    rate: f64,
    /// Shrinks weights, per step and rate.
    decay: f64,
}

/// Linear, so it can learn quickly; it stops moving after about ten passes.
pub(super) const LOGREG: Shape = Shape { hidden: 0, epochs: 15, rate: 0.01, decay: 0.01 };
/// More passes or units only fit the known tasks better.
pub(super) const MLP: Shape = Shape { hidden: 64, epochs: 8, rate: 0.003, decay: 0.01 };

/// A fitted network.
pub(super) struct Network {
    inputs: Inputs,
    hidden: Option<Layer>,
    output: Layer,
}

/// From a context to the network's columns.
struct Inputs {
    vocabulary: Vocabulary,
    domains: Vec<Domain>,
}

/// y = W x + b; `weights` are a row for each input.
struct Layer {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Inputs {
    fn of(known: &Known) -> std::result::Result<Self, RouterError> {
        let texts: Vec<Arc<str>> = known.tasks.iter().map(|task| task.text.clone()).collect();
        let vocabulary = vocabulary(&texts).map_err(|error| RouterError::Vocabulary(error.to_string()))?;
        let mut domains: Vec<Domain> = known.tasks.iter().map(|task| task.domain.clone()).collect();
        domains.sort();
        domains.dedup();
        Ok(Self { vocabulary, domains })
    }

    fn columns(&self) -> usize {
        self.vocabulary.terms().len() + self.domains.len() + 1
    }

    /// The columns that are not 0.
    fn row(&self, text: &str, domain: &Domain) -> Vec<(usize, f32)> {
        let terms = self.vocabulary.terms().len();
        let mut row = self.vocabulary.weigh(text);
        row.extend(self.domains.binary_search(domain).ok().map(|place| (terms + place, 1.0)));
        row.push((self.columns() - 1, text.chars().count().min(LENGTH_CHARS as usize) as f32 / LENGTH_CHARS));
        row
    }
}

impl Layer {
    fn read(weights: &Var, bias: &Var) -> Result<Self> {
        Ok(Self { weights: weights.flatten_all()?.to_vec1()?, bias: bias.to_vec1()? })
    }

    fn apply(&self, inputs: impl Iterator<Item = (usize, f32)>) -> Vec<f32> {
        let mut outputs = self.bias.clone();
        let units = outputs.len();
        for (input, value) in inputs {
            let row = &self.weights[input * units..(input + 1) * units];
            outputs.iter_mut().zip(row).for_each(|(output, weight)| *output += value * weight);
        }
        outputs
    }
}

impl Network {
    pub fn fit(known: &Known, shape: Shape) -> std::result::Result<Self, RouterError> {
        let inputs = Inputs::of(known)?;
        let rows: Vec<_> = known.tasks.iter().map(|task| inputs.row(&task.text, &task.domain)).collect();
        let labels: Vec<u32> = known.tasks.iter().map(|task| task.best() as u32).collect();
        let (hidden, output) = solve(&rows, &labels, inputs.columns(), known.arms.len(), shape)?;
        Ok(Self { inputs, hidden, output })
    }
}

impl Judge for Network {
    fn scores(&self, context: &Context) -> Vec<f64> {
        let row = self.inputs.row(&context.text, &context.domain).into_iter();
        let outputs = match &self.hidden {
            Some(hidden) => {
                let units = hidden.apply(row);
                self.output.apply(units.into_iter().map(|unit| unit.max(0.0)).enumerate())
            }
            None => self.output.apply(row),
        };
        outputs.into_iter().map(f64::from).collect()
    }
}

/// A matrix of small normal numbers: variance 2 / rows (He et al., 2015), so that signals keep their size.
pub(super) fn first_weights(rng: &mut ChaCha8Rng, rows: usize, columns: usize, device: &Device) -> Result<Var> {
    let deviation = (2.0 / rows as f32).sqrt();
    let mut normal = || -> f32 { StandardNormal.sample(rng) };
    let weights: Vec<f32> = (0..rows * columns).map(|_| deviation * normal()).collect();
    Var::from_tensor(&Tensor::from_vec(weights, (rows, columns), device)?)
}

/// Minimises the mean cross-entropy; returns the hidden layer, where there is one, and the output's.
fn solve(
    rows: &[Vec<(usize, f32)>],
    labels: &[u32],
    columns: usize,
    arms: usize,
    shape: Shape,
) -> Result<(Option<Layer>, Layer)> {
    let device = Device::Cpu;
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let units = if shape.hidden > 0 { shape.hidden } else { columns };
    let first = (shape.hidden > 0).then(|| first_weights(&mut rng, columns, units, &device)).transpose()?;
    let first_bias = Var::zeros(units, DType::F32, &device)?;
    let last = first_weights(&mut rng, units, arms, &device)?;
    let last_bias = Var::zeros(arms, DType::F32, &device)?;
    let mut fitted = vec![last.clone(), last_bias.clone()];
    if let Some(first) = &first {
        fitted.extend([first.clone(), first_bias.clone()]);
    }
    let parameters = ParamsAdamW { lr: shape.rate, weight_decay: shape.decay, ..ParamsAdamW::default() };
    let mut optimiser = AdamW::new(fitted, parameters)?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    for _ in 0..shape.epochs {
        order.shuffle(&mut rng);
        for batch in order.chunks(BATCH) {
            let mut cells = vec![0.0_f32; batch.len() * columns];
            for (place, task) in batch.iter().enumerate() {
                rows[*task].iter().for_each(|(column, value)| cells[place * columns + column] = *value);
            }
            let mut signal = Tensor::from_vec(cells, (batch.len(), columns), &device)?;
            if let Some(first) = &first {
                signal = signal.matmul(first)?.broadcast_add(&first_bias)?.relu()?;
            }
            let logits = signal.matmul(&last)?.broadcast_add(&last_bias)?;
            let wanted: Vec<u32> = batch.iter().map(|task| labels[*task]).collect();
            let wanted = Tensor::from_vec(wanted, batch.len(), &device)?;
            optimiser.backward_step(&cross_entropy(&logits.contiguous()?, &wanted)?)?;
        }
    }
    debug_assert_eq!(last.dim(D::Minus1)?, arms);
    let hidden = first.map(|first| Layer::read(&first, &first_bias)).transpose()?;
    Ok((hidden, Layer::read(&last, &last_bias)?))
}
