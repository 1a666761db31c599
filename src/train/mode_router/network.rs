//! The network with tensors: what [`Frozen`](crate::action::policy::mode_router::Frozen) computes, differentiable and many trajectories
//! at a time.
//!
//! Made of basic operations only: candle's fused ones (softmax, layer norm, rope) have no backward pass and drop gradients
//! without a word. A test asserts that every variable gets one.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, Var};

use super::softmax::{log_softmax, softmax};
use crate::{
    action::policy::mode_router::{
        ALPHA, EMBEDDING, NODES_MAX, PLACES, PLAIN, Piece, Prefix, ROWS, Shape, TASK, WORKER, Weights, logit_place,
        logits,
    },
    grammar::Token,
};

/// What is added where nothing may be looked at.
const NEVER: f32 = -1e9;

/// A trajectory as the network reads it, and the choices that were made in it.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// What was known before the first token.
    pub prefix: Prefix,
    /// What came after it; the first is the start.
    pub pieces: Vec<Piece>,
    /// The choices, in order.
    pub choices: Vec<Choice>,
}

/// One choice of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The piece whose state decides.
    pub at: usize,
    /// What was chosen.
    pub token: Token,
    /// Calls that could be referred to.
    pub nodes: usize,
}

/// What the network says of a batch.
pub struct Said {
    /// Log-probabilities of every token at every choice, choices in order, (choices, tokens).
    pub log_tokens: Tensor,
    /// Of what was chosen, (choices).
    pub log_pi: Tensor,
    /// Of the three modes at each trajectory's start, among themselves, (trajectories, 3).
    pub log_modes: Tensor,
}

/// The network.
pub struct Network {
    shape: Shape,
    device: Device,
    dtype: DType,
    tensors: BTreeMap<String, Tensor>,
}

/// Variables of all numbers.
pub fn variables(weights: &Weights, dtype: DType, device: &Device) -> Result<BTreeMap<String, Var>> {
    let variable = |(name, shape): (String, [usize; 2])| {
        let tensor = Tensor::from_slice(weights.get(&name), (shape[0], shape[1]), device)?.to_dtype(dtype)?;
        Ok((name, Var::from_tensor(&tensor)?))
    };
    weights.shape.names().into_iter().map(variable).collect()
}

/// The numbers of variables.
pub fn weights_of(shape: Shape, variables: &BTreeMap<String, Var>) -> Result<Weights> {
    let numbers = |(name, variable): (&String, &Var)| {
        Ok((name.clone(), variable.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?))
    };
    Ok(Weights { shape, numbers: variables.iter().map(numbers).collect::<Result<_>>()? })
}

impl Network {
    /// A network that learns: gradients reach the variables.
    pub fn learning(shape: Shape, variables: &BTreeMap<String, Var>) -> Self {
        let tensors: BTreeMap<_, _> =
            variables.iter().map(|(name, variable)| (name.clone(), variable.as_tensor().clone())).collect();
        Self::of(shape, tensors)
    }

    /// One that does not.
    pub fn fixed(weights: &Weights, dtype: DType, device: &Device) -> Result<Self> {
        let fixed = variables(weights, dtype, device)?;
        Ok(Self::of(
            weights.shape,
            fixed.into_iter().map(|(name, variable)| (name, variable.as_tensor().detach())).collect(),
        ))
    }

    fn of(shape: Shape, tensors: BTreeMap<String, Tensor>) -> Self {
        let rows = &tensors["rows"];
        let (device, dtype) = (rows.device().clone(), rows.dtype());
        Self { shape, device, dtype, tensors }
    }

    fn tensor(&self, shape: impl Into<candle_core::Shape>, numbers: Vec<f32>) -> Result<Tensor> {
        Tensor::from_vec(numbers, shape, &self.device)?.to_dtype(self.dtype)
    }

    fn get(&self, name: &str) -> &Tensor {
        &self.tensors[name]
    }

    fn of_layer(&self, layer: usize, part: &str) -> &Tensor {
        &self.tensors[&format!("layers.{layer}.{part}")]
    }

    /// What it says of trajectories.
    pub fn read(&self, sequences: &[&Sequence]) -> Result<Said> {
        let plan = Plan::of(sequences);
        let (batch, length, d) = (sequences.len(), plan.length, self.shape.width);
        let mut states = self.inputs(sequences, &plan)?;
        let mask = self.tensor((batch, 1, length, length), plan.mask(sequences))?;
        for layer in 0..self.shape.layers {
            states = self.attend(layer, &states, &mask)?;
            states = self.think(layer, &states)?;
        }
        let states = self.norm(&states, self.get("norm.last"))?;
        let scores = self.scores(sequences, &plan, &states)?.reshape((batch * length, logits(plan.workers)))?;
        debug_assert_eq!(states.dim(2)?, d);
        let (places, absent, chosen) = plan.choices(sequences);
        let choices = places.len();
        let places = Tensor::from_vec(places, choices, &self.device)?;
        let absent = self.tensor((choices, logits(plan.workers)), absent)?;
        let log_tokens = log_softmax(&(scores.index_select(&places, 0)? + absent)?)?;
        let chosen = Tensor::from_vec(chosen, (choices, 1), &self.device)?;
        let log_pi = log_tokens.gather(&chosen, 1)?.squeeze(1)?;
        let starts: Vec<u32> = (0..batch).map(|row| (row * length + plan.first()) as u32).collect();
        let starts = Tensor::from_vec(starts, batch, &self.device)?;
        let log_modes = log_softmax(&scores.index_select(&starts, 0)?.narrow(1, 0, 3)?.contiguous()?)?;
        Ok(Said { log_tokens, log_pi, log_modes })
    }

    /// The pieces' first states, (batch, length, width).
    fn inputs(&self, sequences: &[&Sequence], plan: &Plan) -> Result<Tensor> {
        let (batch, d) = (sequences.len(), self.shape.width);
        let table = Tensor::cat(&[self.get("rows"), self.get("places")], 0)?;
        let counts = self.tensor((batch * plan.length, ROWS + PLACES), plan.rows(sequences))?;
        let rows = counts.matmul(&table)?.reshape((batch, plan.length, d))?;
        let embeddings: Vec<f32> =
            sequences.iter().flat_map(|sequence| sequence.prefix.embedding.iter().copied()).collect();
        let task = self.tensor((batch, EMBEDDING), embeddings)?.matmul(self.get("task"))?.unsqueeze(1)?;
        let task = task.pad_with_zeros(1, 0, plan.length - 1)?;
        let (about, described) = plan.about(sequences);
        let described = self.tensor((batch * plan.workers, described.len() / (batch * plan.workers)), described)?;
        let inner = described.matmul(self.get("worker.in"))?.broadcast_add(self.get("worker.bias"))?.silu()?;
        let workers = inner.matmul(self.get("worker.out"))?.reshape((batch, plan.workers, d))?;
        let about = self.tensor((batch, plan.length, plan.workers), about)?.matmul(&workers)?;
        (rows + task)? + about
    }

    fn norm(&self, states: &Tensor, gain: &Tensor) -> Result<Tensor> {
        let scale = (states.sqr()?.mean_keepdim(2)? + 1e-6)?.sqrt()?;
        states.broadcast_div(&scale)?.broadcast_mul(gain)
    }

    fn product(&self, states: &Tensor, matrix: &Tensor) -> Result<Tensor> {
        let (batch, length, inputs) = states.dims3()?;
        states.reshape((batch * length, inputs))?.matmul(matrix)?.reshape((batch, length, matrix.dim(1)?))
    }

    fn attend(&self, layer: usize, states: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (batch, length, d) = states.dims3()?;
        let (heads, head) = (self.shape.heads, d / self.shape.heads);
        let normed = self.norm(states, self.of_layer(layer, "norm.attention"))?;
        let split = |part: &str| {
            let product = self.product(&normed, self.of_layer(layer, part))?;
            product.reshape((batch, length, heads, head))?.transpose(1, 2)?.contiguous()
        };
        let (query, key, value) = (split("query")?, split("key")?, split("value")?);
        let scores = (query.matmul(&key.transpose(2, 3)?.contiguous()?)? * (1.0 / (head as f64).sqrt()))?;
        let weights = softmax(&scores.broadcast_add(mask)?)?;
        let taken = weights.matmul(&value)?.transpose(1, 2)?.contiguous()?.reshape((batch, length, d))?;
        states + self.product(&taken, self.of_layer(layer, "mix"))?
    }

    fn think(&self, layer: usize, states: &Tensor) -> Result<Tensor> {
        let normed = self.norm(states, self.of_layer(layer, "norm.inner"))?;
        let inner = self.product(&normed, self.of_layer(layer, "inner.in"))?;
        let inner = inner.broadcast_add(self.of_layer(layer, "inner.bias"))?.silu()?;
        states + self.product(&inner, self.of_layer(layer, "inner.out"))?
    }

    /// The logits of all tokens at all places, (batch, length, tokens).
    fn scores(&self, sequences: &[&Sequence], plan: &Plan, states: &Tensor) -> Result<Tensor> {
        let (batch, d) = (sequences.len(), self.shape.width);
        let plain = self.product(states, self.get("head.plain"))?.broadcast_add(self.get("head.bias"))?;
        let nodes = self.tensor((batch, NODES_MAX, plan.length), plan.nodes(sequences))?.matmul(states)?;
        let workers = states.narrow(1, 2, plan.workers)?.contiguous()?;
        let bias = self.get("pointer.bias");
        let point = |name: &str, of: &Tensor, place: usize| {
            let query = self.product(states, self.get(&format!("{name}.query")))?;
            let key = self.product(of, self.get(&format!("{name}.key")))?.transpose(1, 2)?.contiguous()?;
            (query.matmul(&key)? * (1.0 / (d as f64).sqrt()))?.broadcast_add(&bias.narrow(1, place, 1)?)
        };
        Tensor::cat(&[plain, point("call", &workers, 0)?, point("ref", &nodes, 1)?, point("answer", &nodes, 2)?], 2)
    }
}

/// How a batch is laid out.
struct Plan {
    workers: usize,
    length: usize,
}

impl Plan {
    fn of(sequences: &[&Sequence]) -> Self {
        let workers = sequences.iter().map(|sequence| sequence.prefix.workers.len()).max().unwrap_or_default();
        let pieces = sequences.iter().map(|sequence| sequence.pieces.len()).max().unwrap_or_default();
        Self { workers, length: 2 + workers + pieces }
    }

    /// Where the pieces begin.
    fn first(&self) -> usize {
        2 + self.workers
    }

    fn rows(&self, sequences: &[&Sequence]) -> Vec<f32> {
        let width = ROWS + PLACES;
        let mut counts = vec![0.0; sequences.len() * self.length * width];
        for (row, sequence) in sequences.iter().enumerate() {
            let start = row * self.length;
            let mut set = |place: usize, column: usize, value: f32| counts[(start + place) * width + column] += value;
            set(0, TASK, 1.0);
            set(1, ALPHA, 1.0);
            set(1, ALPHA + 1, sequence.prefix.alpha);
            (0..sequence.prefix.workers.len()).for_each(|worker| set(2 + worker, WORKER, 1.0));
            for (place, piece) in sequence.pieces.iter().enumerate() {
                piece.rows().0.into_iter().for_each(|column| set(self.first() + place, column, 1.0));
                set(self.first() + place, ROWS + place.min(PLACES - 1), 1.0);
            }
        }
        counts
    }

    /// Which piece is about which worker, and what workers are described by.
    fn about(&self, sequences: &[&Sequence]) -> (Vec<f32>, Vec<f32>) {
        let mut about = vec![0.0; sequences.len() * self.length * self.workers];
        let mut described = Vec::new();
        for (row, sequence) in sequences.iter().enumerate() {
            let mut set =
                |place: usize, worker: usize| about[(row * self.length + place) * self.workers + worker] = 1.0;
            (0..sequence.prefix.workers.len()).for_each(|worker| set(2 + worker, worker));
            for (place, piece) in sequence.pieces.iter().enumerate() {
                if let Some(worker) = piece.rows().1 {
                    set(self.first() + place, worker);
                }
            }
            let lacking = self.workers - sequence.prefix.workers.len();
            described.extend(sequence.prefix.workers.iter().flat_map(|worker| worker.numbers()));
            described.extend(std::iter::repeat_n([0.0; 5], lacking).flatten());
        }
        (about, described)
    }

    /// 0 where a place may look, else very low. Every place may look at itself, so that padding is finite.
    fn mask(&self, sequences: &[&Sequence]) -> Vec<f32> {
        let mut mask = vec![NEVER; sequences.len() * self.length * self.length];
        for (row, sequence) in sequences.iter().enumerate() {
            let prefix = 2 + sequence.prefix.workers.len();
            for from in 0..self.length {
                let line = &mut mask[(row * self.length + from) * self.length..][..self.length];
                line[from] = 0.0;
                line[..prefix].fill(0.0);
                if from >= self.first() {
                    line[self.first()..=from].fill(0.0);
                }
            }
        }
        mask
    }

    /// Which place is which call's.
    fn nodes(&self, sequences: &[&Sequence]) -> Vec<f32> {
        let mut nodes = vec![0.0; sequences.len() * NODES_MAX * self.length];
        for (row, sequence) in sequences.iter().enumerate() {
            for (place, piece) in sequence.pieces.iter().enumerate() {
                if let Piece::Seen { node, .. } = piece {
                    nodes[(row * NODES_MAX + node) * self.length + self.first() + place] = 1.0;
                }
            }
        }
        nodes
    }

    /// Of every choice its place, what there is not to choose, and what was chosen.
    fn choices(&self, sequences: &[&Sequence]) -> (Vec<u32>, Vec<f32>, Vec<u32>) {
        let (mut places, mut absent, mut chosen) = (vec![], vec![], vec![]);
        for (row, sequence) in sequences.iter().enumerate() {
            let lacking = self.workers - sequence.prefix.workers.len();
            for choice in &sequence.choices {
                places.push((row * self.length + self.first() + choice.at) as u32);
                chosen.push(logit_place(choice.token, self.workers) as u32);
                absent.extend(std::iter::repeat_n(0.0, PLAIN + self.workers - lacking));
                absent.extend(std::iter::repeat_n(NEVER, lacking));
                for _ in 0..2 {
                    absent.extend(std::iter::repeat_n(0.0, choice.nodes));
                    absent.extend(std::iter::repeat_n(NEVER, NODES_MAX - choice.nodes));
                }
            }
        }
        (places, absent, chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        action::policy::mode_router::{Descriptor, Seen},
        round::Mode,
    };

    /// A trajectory among so many workers: two calls, the first one's output.
    fn rounds(workers: usize) -> Sequence {
        let call = |worker| Piece::Written(Token::Call(worker));
        let seen = |node, worker, seen| Piece::Seen { node, role: None, worker, seen };
        let last = workers - 1;
        let described = (0..workers).map(|n| Descriptor { domain_mean: 0.1 * n as f32, ..Descriptor::default() });
        let (pieces, mode) = (vec![Piece::Start], Token::Mode(Mode::Multi));
        let pieces = [
            pieces,
            vec![Piece::Written(mode), call(0), seen(0, 0, Seen::Fail), call(last), seen(1, last, Seen::Pass)],
        ];
        let choice = |at, token, nodes| Choice { at, token, nodes };
        Sequence {
            prefix: Prefix {
                embedding: (0..EMBEDDING).map(|n| (n as f32).sin() / 14.0).collect(),
                alpha: 0.1 * workers as f32,
                workers: described.collect(),
            },
            pieces: pieces.concat(),
            choices: vec![
                choice(0, mode, 0),
                choice(1, Token::Call(0), 0),
                choice(3, Token::Call(last), 1),
                choice(5, Token::Answer(1), 2),
            ],
        }
    }

    #[test]
    fn pools_of_several_sizes_in_a_batch_change_nothing_for_each_other() {
        let weights = Weights::first(Shape { width: 16, layers: 2, heads: 2 }, 9);
        let network = Network::fixed(&weights, DType::F64, &Device::Cpu).unwrap();
        let (mut longer, mut all) = (rounds(5), vec![rounds(2), rounds(3)]);
        longer
            .pieces
            .extend([Piece::Written(Token::Call(1)), Piece::Seen { node: 2, role: None, worker: 1, seen: Seen::Pass }]);
        longer.choices.push(Choice { at: 7, token: Token::Answer(2), nodes: 3 });
        all.push(longer);
        let together = network.read(&all.iter().collect::<Vec<_>>()).unwrap();
        let together: Vec<f64> = together.log_pi.to_vec1().unwrap();
        let alone = all.iter().flat_map(|one| network.read(&[one]).unwrap().log_pi.to_vec1::<f64>().unwrap());
        for (together, alone) in together.iter().zip(alone) {
            assert!((together - alone).abs() < 1e-9 && alone > -20.0, "{together} {alone}");
        }
    }

    #[test]
    fn what_comes_later_changes_nothing_that_was_said_before() {
        let weights = Weights::first(Shape { width: 16, layers: 2, heads: 2 }, 9);
        let network = Network::fixed(&weights, DType::F64, &Device::Cpu).unwrap();
        let (one, mut other) = (rounds(3), rounds(3));
        other.pieces[5] = Piece::Seen { node: 1, role: None, worker: 2, seen: Seen::Fail };
        let of = |sequence: &Sequence| network.read(&[sequence]).unwrap().log_pi.to_vec1::<f64>().unwrap();
        let (one, other) = (of(&one), of(&other));
        assert_eq!(one[..3], other[..3]);
        assert_ne!(one[3], other[3]);
    }
}
