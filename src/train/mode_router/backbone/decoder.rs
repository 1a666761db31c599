//! A decoder of the Llama family, out of operations that have gradients: norms by the mean square, rotated positions, grouped heads, gated halves.
//!
//! candle's fused forms of softmax, rotation and norms are quicker, and pass on no gradient without a word; they are not used. The model's own matrices are no
//! variables, so that gradients come to adapters alone.
//!
//! Shapes: n tokens of one text, each (width). A text may be a tree ([`Text`]): several continuations of one beginning, read at once.
//!
//! References: Touvron et al., LLaMA, 2023; Su et al., RoFormer, 2021; Ainslie et al., GQA, 2023.

use candle_core::{D, DType, Device, Result, Tensor};

use super::{
    Adapters, Architecture, BackboneError, Config, Target,
    source::{Source, take, take_if_there},
};
use crate::train::mode_router::softmax::softmax;

/// Tokens, each with what it may look back on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Tokens.
    pub ids: Vec<u32>,
    /// Their places in their text.
    positions: Vec<usize>,
    /// The branch that each is on; 0 is the beginning that all share.
    branches: Vec<usize>,
}

impl Text {
    /// One text.
    pub fn new(ids: &[u32]) -> Self {
        Self::tree(ids, &[])
    }

    /// A beginning, and continuations of it that do not see each other.
    pub fn tree(trunk: &[u32], branches: &[&[u32]]) -> Self {
        let mut text =
            Self { ids: trunk.to_vec(), positions: (0..trunk.len()).collect(), branches: vec![0; trunk.len()] };
        for (place, branch) in branches.iter().enumerate() {
            text.ids.extend_from_slice(branch);
            text.positions.extend(trunk.len()..trunk.len() + branch.len());
            text.branches.extend(std::iter::repeat_n(place + 1, branch.len()));
        }
        text
    }

    /// What is added to scores: nothing where a token may look, so much that nothing is left where it may not, (n, n).
    fn mask(&self, dtype: DType, device: &Device) -> Result<Tensor> {
        let n = self.ids.len();
        let mut mask = vec![HIDDEN; n * n];
        for (row, branch) in self.branches.iter().enumerate() {
            for column in 0..=row {
                let other = self.branches[column];
                if other == 0 || other == *branch {
                    mask[row * n + column] = 0.0;
                }
            }
        }
        Tensor::from_vec(mask, (n, n), device)?.to_dtype(dtype)
    }
}

const HIDDEN: f32 = -1e9;

/// A frozen matrix with its bias.
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

/// A layer's own matrices.
struct Layer {
    before_heads: Tensor,
    before_gate: Tensor,
    q_norm: Option<Tensor>,
    k_norm: Option<Tensor>,
    linear: Vec<Linear>,
}

/// Turns of a text's tokens: cosines and sines, (n, head / 2) each.
pub(super) struct Turns {
    cos: Tensor,
    sin: Tensor,
}

/// What was read of a text, to go on from: keys and values of each layer, (kv heads, n, head).
#[derive(Debug, Clone)]
pub struct Cache {
    layers: Vec<Option<(Tensor, Tensor)>>,
    /// Tokens read.
    pub len: usize,
}

/// A model.
pub struct Decoder {
    config: Config,
    dtype: DType,
    device: Device,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
    frequencies: Vec<f64>,
}

impl Decoder {
    /// Takes a model's matrices, as numbers of a type.
    pub fn read(
        source: &mut dyn Source,
        config: Config,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Self, BackboneError> {
        let size = [config.vocabulary, config.width];
        let embedding = take(source, "model.embed_tokens.weight", &size, dtype)?;
        let head = if config.tied { embedding.clone() } else { take(source, "lm_head.weight", &size, dtype)? };
        let norm = take(source, "model.norm.weight", &[config.width], dtype)?;
        let layers = (0..config.layers)
            .map(|layer| Layer::read(source, &config, layer, dtype))
            .collect::<std::result::Result<_, _>>()?;
        let frequencies = config.frequencies();
        Ok(Self { config, dtype, device: device.clone(), embedding, layers, norm, head, frequencies })
    }

    /// Its sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it is computed.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The type of its numbers.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The type that norms, scores and probabilities are computed in.
    pub fn fine(&self) -> DType {
        if self.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    /// Nothing read yet.
    pub fn begin(&self) -> Cache {
        Cache { layers: vec![None; self.layers.len()], len: 0 }
    }

    /// Reads on; gives the scores of what may follow the last token, (vocabulary).
    pub fn read_on(&self, cache: &mut Cache, ids: &[u32], adapters: &Adapters) -> Result<Tensor> {
        let turns = self.turns(&(cache.len..cache.len + ids.len()).collect::<Vec<_>>())?;
        let mask = if ids.len() == 1 { None } else { Some(self.mask_after(cache.len, ids.len())?) };
        let mut x = self.embed(ids)?;
        for layer in 0..self.layers.len() {
            let past = cache.layers[layer].take();
            let (out, seen) = self.layer(layer, &x, &turns, mask.as_ref(), past.as_ref(), adapters)?;
            cache.layers[layer] = Some(seen);
            x = out;
        }
        cache.len += ids.len();
        self.scores(&x.narrow(0, ids.len() - 1, 1)?)?.squeeze(0)
    }

    fn mask_after(&self, past: usize, n: usize) -> Result<Tensor> {
        let row = |row: usize| (0..past + n).map(move |column| if column <= past + row { 0.0 } else { HIDDEN });
        let mask: Vec<f32> = (0..n).flat_map(row).collect();
        Tensor::from_vec(mask, (n, past + n), &self.device)?.to_dtype(self.fine())
    }

    /// Tokens' first states, (n, width).
    pub(super) fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        self.embedding.index_select(&Tensor::new(ids, &self.device)?, 0)
    }

    /// How a text's tokens are turned, and what they may not see.
    pub(super) fn frame(&self, text: &Text) -> Result<(Turns, Tensor)> {
        Ok((self.turns(&text.positions)?, text.mask(self.fine(), &self.device)?))
    }

    fn turns(&self, positions: &[usize]) -> Result<Turns> {
        let angle = |position: &usize| {
            let position = *position as f64;
            self.frequencies.iter().map(move |frequency| position * frequency)
        };
        let angles: Vec<f64> = positions.iter().flat_map(angle).collect();
        let of = |function: fn(f64) -> f64| {
            let turned: Vec<f64> = angles.iter().map(|angle| function(*angle)).collect();
            Tensor::from_vec(turned, (positions.len(), self.frequencies.len()), &Device::Cpu)?
                .to_dtype(self.fine())?
                .to_device(&self.device)
        };
        Ok(Turns { cos: of(f64::cos)?, sin: of(f64::sin)? })
    }

    /// One layer: states, and the keys and values of all tokens so far.
    pub(super) fn layer(
        &self,
        place: usize,
        x: &Tensor,
        turns: &Turns,
        mask: Option<&Tensor>,
        past: Option<&(Tensor, Tensor)>,
        adapters: &Adapters,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let layer = &self.layers[place];
        let linear = |target: Target, x: &Tensor| {
            let y = layer.linear(target).forward(x)?;
            match adapters.added(place, target, x)? {
                Some(added) => y + added,
                None => Ok(y),
            }
        };
        let Config { heads, kv_heads, head, .. } = self.config;
        let n = x.dim(0)?;
        let normed = self.normed(x, &layer.before_heads)?;
        let split = |y: Tensor, heads: usize| y.reshape((n, heads, head))?.transpose(0, 1)?.contiguous();
        let mut q = split(linear(Target::QProj, &normed)?, heads)?;
        let mut k = split(linear(Target::KProj, &normed)?, kv_heads)?;
        let v = split(linear(Target::VProj, &normed)?, kv_heads)?;
        if let (Some(q_norm), Some(k_norm)) = (&layer.q_norm, &layer.k_norm) {
            (q, k) = (self.normed(&q, q_norm)?, self.normed(&k, k_norm)?);
        }
        let (q, k) = (self.turned(&q, turns)?, self.turned(&k, turns)?);
        let (k, v) = match past {
            Some((before, values)) => (Tensor::cat(&[before, &k], 1)?, Tensor::cat(&[values, &v], 1)?),
            None => (k, v),
        };
        let asked = self.attend(&q, &k, &v, mask)?;
        let x = (x + linear(Target::OProj, &asked)?)?;
        let normed = self.normed(&x, &layer.before_gate)?;
        let gated = (linear(Target::GateProj, &normed)?.silu()? * linear(Target::UpProj, &normed)?)?;
        let out = (&x + linear(Target::DownProj, &gated)?)?;
        Ok((out, (k, v)))
    }

    /// What each head finds, (n, heads * head); queries of a group share its keys and values.
    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let Config { heads, kv_heads, head, .. } = self.config;
        let (n, group) = (q.dim(1)?, heads / kv_heads);
        let q = q.reshape((kv_heads, group * n, head))?;
        let scores = (q.matmul(&k.t()?)? * (head as f64).sqrt().recip())?.to_dtype(self.fine())?;
        let scores = match mask {
            Some(mask) => scores.reshape((heads, n, ()))?.broadcast_add(mask)?.reshape((kv_heads, group * n, ()))?,
            None => scores,
        };
        let found = softmax(&scores)?.to_dtype(self.dtype)?.matmul(&v.contiguous()?)?;
        found.reshape((heads, n, head))?.transpose(0, 1)?.reshape((n, heads * head))
    }

    /// A head's halves turned against each other, each pair by its own angle.
    fn turned(&self, x: &Tensor, turns: &Turns) -> Result<Tensor> {
        let half = self.config.head / 2;
        let fine = x.to_dtype(self.fine())?;
        let (first, second) = (fine.narrow(D::Minus1, 0, half)?, fine.narrow(D::Minus1, half, half)?);
        let (cos, sin) = (&turns.cos, &turns.sin);
        let left = (first.broadcast_mul(cos)? - second.broadcast_mul(sin)?)?;
        let right = (second.broadcast_mul(cos)? + first.broadcast_mul(sin)?)?;
        Tensor::cat(&[left, right], D::Minus1)?.to_dtype(self.dtype)
    }

    fn normed(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let fine = x.to_dtype(self.fine())?;
        let size = (fine.sqr()?.mean_keepdim(D::Minus1)? + self.config.epsilon)?.sqrt()?;
        fine.broadcast_div(&size)?.to_dtype(self.dtype)?.broadcast_mul(weight)
    }

    /// The scores of what may follow states, (n, vocabulary), in the fine type.
    pub(super) fn scores(&self, states: &Tensor) -> Result<Tensor> {
        self.normed(states, &self.norm)?.matmul(&self.head.t()?)?.to_dtype(self.fine())
    }
}

impl Layer {
    fn read(
        source: &mut dyn Source,
        config: &Config,
        layer: usize,
        dtype: DType,
    ) -> std::result::Result<Self, BackboneError> {
        let prefix = format!("model.layers.{layer}");
        let mut vector = |name: &str, size: usize| take(source, &format!("{prefix}.{name}.weight"), &[size], dtype);
        let before_heads = vector("input_layernorm", config.width)?;
        let before_gate = vector("post_attention_layernorm", config.width)?;
        let normed = config.architecture == Architecture::Qwen3;
        let mut of_head = |name: &str| normed.then(|| vector(name, config.head)).transpose();
        let (q_norm, k_norm) = (of_head("self_attn.q_norm")?, of_head("self_attn.k_norm")?);
        let linear = |target: Target| {
            let name = |part: &str| format!("{prefix}.{}.{part}", target.module());
            let [out, within] = target.size(config);
            let weight = take(source, &name("weight"), &[out, within], dtype)?;
            let needed = config.architecture == Architecture::Qwen2
                && matches!(target, Target::QProj | Target::KProj | Target::VProj);
            let bias = match needed {
                true => Some(take(source, &name("bias"), &[out], dtype)?),
                false => take_if_there(source, &name("bias"), &[out], dtype)?,
            };
            Ok(Linear { weight, bias })
        };
        let linear = Target::ALL.into_iter().map(linear).collect::<std::result::Result<_, BackboneError>>()?;
        Ok(Self { before_heads, before_gate, q_norm, k_norm, linear })
    }

    fn linear(&self, target: Target) -> &Linear {
        // In the order of all targets, each of which every layer has.
        &self.linear[target as usize]
    }
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.weight.t()?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}
