//! Low-rank adapters: what is learnt beside a model's own matrices, which stay as they are.
//!
//! `y = W x + (alpha / rank) B (A x)`, A (rank, in) normal with variance 1 / in, B (out, rank) zero, so that nothing is changed at first.
//!
//! Reference: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor, Var};
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::Config;
use crate::train::mode_router::rollout::seeded;

/// A matrix of a layer that may have an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Queries.
    QProj,
    /// Keys.
    KProj,
    /// Values.
    VProj,
    /// What the heads' values are brought together by.
    OProj,
    /// The gate of a layer's second half.
    GateProj,
    /// The way up of it.
    UpProj,
    /// The way down of it.
    DownProj,
}

impl Target {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::QProj, Self::KProj, Self::VProj, Self::OProj, Self::GateProj, Self::UpProj, Self::DownProj];

    /// Its name, as adapters' settings have it.
    pub fn as_str(self) -> &'static str {
        self.module().rsplit_once('.').map_or("", |(_, name)| name)
    }

    /// Where it is in a layer.
    pub fn module(self) -> &'static str {
        match self {
            Self::QProj => "self_attn.q_proj",
            Self::KProj => "self_attn.k_proj",
            Self::VProj => "self_attn.v_proj",
            Self::OProj => "self_attn.o_proj",
            Self::GateProj => "mlp.gate_proj",
            Self::UpProj => "mlp.up_proj",
            Self::DownProj => "mlp.down_proj",
        }
    }

    /// Its size: (out, in).
    pub fn size(self, config: &Config) -> [usize; 2] {
        let Config { width, inner, heads, kv_heads, head, .. } = *config;
        match self {
            Self::QProj => [heads * head, width],
            Self::KProj | Self::VProj => [kv_heads * head, width],
            Self::OProj => [width, heads * head],
            Self::GateProj | Self::UpProj => [inner, width],
            Self::DownProj => [width, inner],
        }
    }
}

/// How adapters are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraSettings {
    /// Their rank, at least 1.
    pub rank: usize,
    /// What they weigh, times the rank.
    pub alpha: f64,
    /// Where they are.
    pub targets: Vec<Target>,
}

impl Default for LoraSettings {
    fn default() -> Self {
        Self { rank: 16, alpha: 32.0, targets: Target::ALL[..4].to_vec() }
    }
}

impl LoraSettings {
    /// What an adapter's part is multiplied by.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }
}

/// An adapter's two matrices, by the name that PEFT gives it.
pub fn name(layer: usize, target: Target, part: char) -> String {
    format!("base_model.model.model.layers.{layer}.{}.lora_{part}.weight", target.module())
}

/// The size of every matrix, by name.
pub fn sizes(config: &Config, settings: &LoraSettings) -> BTreeMap<String, [usize; 2]> {
    let of_layer = |layer: usize| {
        settings.targets.iter().flat_map(move |target| {
            let [out, within] = target.size(config);
            [(name(layer, *target, 'A'), [settings.rank, within]), (name(layer, *target, 'B'), [out, settings.rank])]
        })
    };
    (0..config.layers).flat_map(of_layer).collect()
}

/// Adapters that nothing was learnt by yet.
pub fn first(
    config: &Config,
    settings: &LoraSettings,
    seed: u64,
    dtype: DType,
    device: &Device,
) -> Result<BTreeMap<String, Var>> {
    let mut rng = seeded(seed, b"lora", &[]);
    let mut variable = |(name, [rows, columns]): (String, [usize; 2])| {
        let numbers: Vec<f64> = if name.ends_with("lora_A.weight") {
            let spread = (columns as f64).sqrt().recip();
            (0..rows * columns)
                .map(|_| {
                    let normal: f64 = StandardNormal.sample(&mut rng);
                    normal * spread
                })
                .collect()
        } else {
            vec![0.0; rows * columns]
        };
        let tensor = Tensor::from_vec(numbers, (rows, columns), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)?;
        Ok((name, Var::from_tensor(&tensor)?))
    };
    sizes(config, settings).into_iter().map(&mut variable).collect()
}

/// Adapters as a model reads them.
#[derive(Debug, Clone, Default)]
pub struct Adapters {
    tensors: BTreeMap<String, Tensor>,
    scale: f64,
}

impl Adapters {
    /// None: the model as it is.
    pub fn none() -> Self {
        Self::default()
    }

    /// Of tensors by the names that PEFT gives them, each `alpha / rank` times.
    pub fn of(tensors: BTreeMap<String, Tensor>, scale: f64) -> Self {
        Self { tensors, scale }
    }

    /// Of variables, which gradients then come to.
    pub fn learning(variables: &BTreeMap<String, Var>, scale: f64) -> Self {
        let tensors = variables.iter().map(|(name, variable)| (name.clone(), variable.as_tensor().clone()));
        Self { tensors: tensors.collect(), scale }
    }

    /// As they are now, which nothing is learnt by. Numbers are copied, since a variable's may change.
    pub fn frozen(variables: &BTreeMap<String, Var>, scale: f64) -> Result<Self> {
        Ok(Self { tensors: copies(variables)?, scale })
    }

    /// What an adapter adds, (n, out); none where there is no adapter. It is computed in the input's type.
    pub fn added(&self, layer: usize, target: Target, x: &Tensor) -> Result<Option<Tensor>> {
        let part = |part: char| self.tensors.get(&name(layer, target, part));
        let (Some(a), Some(b)) = (part('A'), part('B')) else { return Ok(None) };
        let within = x.matmul(&a.to_dtype(x.dtype())?.t()?)?;
        Ok(Some((within.matmul(&b.to_dtype(x.dtype())?.t()?)? * self.scale)?))
    }
}

/// What variables are now.
pub fn copies(variables: &BTreeMap<String, Var>) -> Result<BTreeMap<String, Tensor>> {
    variables.iter().map(|(name, variable)| Ok((name.clone(), variable.as_tensor().copy()?.detach()))).collect()
}
