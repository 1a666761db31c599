//! How a model is made: its sizes, and where architectures of the Llama family differ.

use candle_core::quantized::gguf_file::{Content, Value};
use serde::Deserialize;

use super::BackboneError;

/// What a file may say that it is.
const KNOWN: &str = "llama, mistral (without a sliding window), qwen2 and qwen3";

/// An architecture of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama, and what is made like it.
    Llama,
    /// Queries, keys and values have biases.
    Qwen2,
    /// Queries and keys are normalised by head.
    Qwen3,
}

/// How rotations are slowed down for texts longer than first trained on.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// As in Llama 3.1: slow ones by `factor`, fast ones not, those between in part.
    Llama3 {
        /// The most that they are slowed down.
        factor: f64,
        /// Rotations with fewer turns over the first context are slowed down in full.
        low: f64,
        /// Those with more are not.
        high: f64,
        /// The first context, in tokens.
        context: f64,
    },
    /// Each by a number of its own.
    Factors(Vec<f64>),
}

/// A model's sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// What it is.
    pub architecture: Architecture,
    /// Numbers of a token's state.
    pub width: usize,
    /// Numbers between a layer's two halves.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
    /// Heads that ask.
    pub heads: usize,
    /// Heads that are asked; divides `heads`.
    pub kv_heads: usize,
    /// Numbers of a head, even.
    pub head: usize,
    /// Tokens that it knows.
    pub vocabulary: usize,
    /// Tokens of a text at most.
    pub context: usize,
    /// Added to the mean square before its root is taken.
    pub epsilon: f64,
    /// The base of rotations.
    pub rope: f64,
    /// How they are slowed down.
    pub scaling: Scaling,
    /// Whether tokens are told by the matrix that they are read by.
    pub tied: bool,
    /// Tokens that end a text, as the files name them.
    pub ends: Vec<u32>,
}

/// `config.json`, as far as it matters here.
#[derive(Deserialize)]
struct Raw {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    #[serde(alias = "rope_parameters")]
    rope_scaling: Option<serde_json::Value>,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default = "silu")]
    hidden_act: String,
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    eos_token_id: Option<Ends>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Ends {
    One(u32),
    Several(Vec<u32>),
}

/// The base of rotations where none is said.
const ROPE: f64 = 10_000.0;

fn silu() -> String {
    "silu".into()
}

impl Config {
    /// Of a `config.json`.
    pub fn of_json(path: &str, text: &str) -> Result<Self, BackboneError> {
        let raw: Raw = serde_json::from_str(text)
            .map_err(|error| BackboneError::File { path: path.into(), reason: error.to_string() })?;
        let architecture = match raw.model_type.as_str() {
            "llama" | "mistral" => Architecture::Llama,
            "qwen2" => Architecture::Qwen2,
            "qwen3" => Architecture::Qwen3,
            _ => return Err(unknown(path, raw.model_type)),
        };
        let refused = |key: &str, reason: &str| Err(wrong(path, key, reason));
        if !matches!(raw.hidden_act.as_str(), "silu" | "swish") {
            return refused("hidden_act", "must be silu");
        }
        if raw.sliding_window.is_some() && raw.use_sliding_window.unwrap_or(architecture == Architecture::Llama) {
            return refused("sliding_window", "is not known here: take a model that sees its whole context");
        }
        let scaling = match &raw.rope_scaling {
            None | Some(serde_json::Value::Null) => Scaling::None,
            Some(scaling) => slowed(path, scaling)?,
        };
        let within = raw.rope_scaling.as_ref().and_then(|scaling| scaling.get("rope_theta")?.as_f64());
        let head = raw.head_dim.unwrap_or_else(|| raw.hidden_size / raw.num_attention_heads.max(1));
        Self {
            architecture,
            width: raw.hidden_size,
            inner: raw.intermediate_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            kv_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
            head,
            vocabulary: raw.vocab_size,
            context: raw.max_position_embeddings,
            epsilon: raw.rms_norm_eps,
            rope: raw.rope_theta.or(within).unwrap_or(ROPE),
            scaling,
            tied: raw.tie_word_embeddings,
            ends: match raw.eos_token_id {
                None => vec![],
                Some(Ends::One(end)) => vec![end],
                Some(Ends::Several(ends)) => ends,
            },
        }
        .checked(path)
    }

    /// Of a GGUF file's header. `factors` are its tensor `rope_freqs.weight`, where it has one.
    pub fn of_gguf(path: &str, content: &Content, factors: Option<Vec<f64>>) -> Result<Self, BackboneError> {
        let name = content.metadata.get("general.architecture").and_then(|value| value.to_string().ok());
        let name = name.ok_or_else(|| wrong(path, "general.architecture", "is missing"))?.as_str();
        let architecture = match name {
            "llama" => Architecture::Llama,
            "qwen2" => Architecture::Qwen2,
            "qwen3" => Architecture::Qwen3,
            _ => return Err(unknown(path, name.to_owned())),
        };
        let value = |key: &str| content.metadata.get(&format!("{name}.{key}"));
        let whole = |key: &str| value(key).and_then(whole_number);
        let needed = |key: &str| whole(key).ok_or_else(|| wrong(path, &format!("{name}.{key}"), "must be a number"));
        let real = |key: &str| value(key).and_then(real_number);
        if whole("expert_count").unwrap_or_default() > 0 {
            return Err(unknown(path, format!("{name} with experts")));
        }
        let slowed = value("rope.scaling.type").and_then(|value| value.to_string().ok());
        if slowed.is_some_and(|kind| kind != "none") {
            return Err(wrong(
                path,
                &format!("{name}.rope.scaling.type"),
                "must be none; take the model in safetensors",
            ));
        }
        let (width, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
        let head = whole("attention.key_length").or_else(|| whole("rope.dimension_count"));
        let embedded =
            content.tensor_infos.get("token_embd.weight").and_then(|info| info.shape.dims().first().copied());
        let epsilon = real("attention.layer_norm_rms_epsilon");
        Self {
            architecture,
            width,
            inner: needed("feed_forward_length")?,
            layers: needed("block_count")?,
            heads,
            kv_heads: whole("attention.head_count_kv").unwrap_or(heads),
            head: head.unwrap_or_else(|| width / heads.max(1)),
            vocabulary: embedded.or_else(|| whole("vocab_size")).unwrap_or_default(),
            context: needed("context_length")?,
            epsilon: epsilon
                .ok_or_else(|| wrong(path, &format!("{name}.attention.layer_norm_rms_epsilon"), "is missing"))?,
            rope: real("rope.freq_base").unwrap_or(ROPE),
            scaling: factors.map_or(Scaling::None, Scaling::Factors),
            tied: !content.tensor_infos.contains_key("output.weight"),
            ends: content
                .metadata
                .get("tokenizer.ggml.eos_token_id")
                .and_then(whole_number)
                .iter()
                .filter_map(|end| u32::try_from(*end).ok())
                .collect(),
        }
        .checked(path)
    }

    fn checked(self, path: &str) -> Result<Self, BackboneError> {
        let Self { width, inner, layers, heads, kv_heads, head, vocabulary, context, .. } = self;
        let sizes = [
            ("the width", width),
            ("the inner width", inner),
            ("the number of layers", layers),
            ("the number of heads", heads),
            ("the number of heads that are asked", kv_heads),
            ("a head's width", head),
            ("the vocabulary", vocabulary),
            ("the context", context),
        ];
        if let Some((key, _)) = sizes.into_iter().find(|(_, size)| *size == 0 || *size > 1 << 24) {
            return Err(wrong(path, key, "must be from 1 to 16777216"));
        }
        if heads % kv_heads != 0 {
            return Err(wrong(path, "the number of heads", "must be a multiple of that of those that are asked"));
        }
        if head % 2 != 0 {
            return Err(wrong(path, "a head's width", "must be even"));
        }
        if !(self.epsilon.is_finite() && self.epsilon > 0.0 && self.rope.is_finite() && self.rope > 0.0) {
            return Err(wrong(path, "the norms' epsilon and the rotations' base", "must be above 0"));
        }
        match &self.scaling {
            Scaling::Factors(factors) if factors.len() != head / 2 || factors.iter().any(|factor| *factor <= 0.0) => {
                Err(wrong(path, "rope_freqs.weight", "must have a number above 0 for every two of a head"))
            }
            Scaling::None | Scaling::Llama3 { .. } | Scaling::Factors(_) => Ok(self),
        }
    }

    /// Radians by which each pair of a head's numbers is turned from one token to the next, (head / 2).
    pub fn frequencies(&self) -> Vec<f64> {
        let plain = |pair: usize| self.rope.powf(-2.0 * pair as f64 / self.head as f64);
        let slowed = |(pair, frequency): (usize, f64)| match &self.scaling {
            Scaling::None => frequency,
            Scaling::Factors(factors) => frequency / factors[pair],
            Scaling::Llama3 { factor, low, high, context } => {
                let turns = context * frequency / std::f64::consts::TAU;
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                frequency * (kept + (1.0 - kept) / factor)
            }
        };
        (0..self.head / 2).map(plain).enumerate().map(slowed).collect()
    }
}

fn slowed(path: &str, scaling: &serde_json::Value) -> Result<Scaling, BackboneError> {
    let kind = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(|kind| kind.as_str());
    let number = |key: &str| {
        let found = scaling.get(key).and_then(serde_json::Value::as_f64).filter(|found| *found > 0.0);
        found.ok_or_else(|| wrong(path, &format!("rope_scaling.{key}"), "must be a number above 0"))
    };
    match kind {
        Some("default") => Ok(Scaling::None),
        Some("llama3") => {
            let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
            if high <= low {
                return Err(wrong(path, "rope_scaling.high_freq_factor", "must be above low_freq_factor"));
            }
            let context = number("original_max_position_embeddings")?;
            Ok(Scaling::Llama3 { factor: number("factor")?, low, high, context })
        }
        Some(_) | None => Err(wrong(path, "rope_scaling", "must be of the type default or llama3")),
    }
}

fn unknown(path: &str, found: String) -> BackboneError {
    BackboneError::Architecture { path: path.into(), found, known: KNOWN }
}

fn wrong(path: &str, key: &str, reason: &str) -> BackboneError {
    BackboneError::Config { path: path.into(), key: key.into(), reason: reason.into() }
}

/// A number of any width.
pub fn whole_number(value: &Value) -> Option<usize> {
    match value {
        Value::U8(n) => Some((*n).into()),
        Value::U16(n) => Some((*n).into()),
        Value::U32(n) => usize::try_from(*n).ok(),
        Value::U64(n) => usize::try_from(*n).ok(),
        Value::I8(n) => usize::try_from(*n).ok(),
        Value::I16(n) => usize::try_from(*n).ok(),
        Value::I32(n) => usize::try_from(*n).ok(),
        Value::I64(n) => usize::try_from(*n).ok(),
        Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
    }
}

fn real_number(value: &Value) -> Option<f64> {
    match value {
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA: &str = r#"{"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,
        "num_key_value_heads":2,"vocab_size":100,"max_position_embeddings":512,"rms_norm_eps":1e-5,"eos_token_id":[2,7]}"#;

    fn with(key: &str, value: &str) -> String {
        let mut json: serde_json::Value = serde_json::from_str(LLAMA).unwrap();
        json[key] = serde_json::from_str(value).unwrap();
        json.to_string()
    }

    #[test]
    fn a_config_is_read_and_what_is_missing_in_it_has_its_usual_value() {
        let config = Config::of_json("config.json", LLAMA).unwrap();
        assert_eq!((config.head, config.rope, config.ends.as_slice()), (16, 10_000.0, &[2, 7][..]));
        let plain = config.frequencies();
        assert!((plain[0] - 1.0).abs() < 1e-12 && (plain[1] - 10_000_f64.powf(-0.125)).abs() < 1e-12);
        let slowed = with(
            "rope_scaling",
            r#"{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":512}"#,
        );
        let slowed = Config::of_json("config.json", &slowed).unwrap().frequencies();
        assert_eq!(slowed[0], plain[0], "fast ones stay");
        assert!((slowed[7] - plain[7] / 8.0).abs() < 1e-12, "slow ones are slowed down in full");
        assert!(slowed[3] < plain[3] && slowed[3] > plain[3] / 8.0, "81 to 12 turns lie around: {slowed:?} {plain:?}");
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (key, value, told) in [
            ("model_type", r#""gpt2""#, "known are llama"),
            ("hidden_act", r#""gelu""#, "hidden_act must be silu"),
            ("sliding_window", "128", "sliding_window is not known here"),
            ("rope_scaling", r#"{"type":"yarn","factor":2.0}"#, "rope_scaling must be of the type"),
            ("num_key_value_heads", "3", "must be a multiple"),
            ("num_hidden_layers", "0", "the number of layers must be from 1"),
            ("head_dim", "15", "must be even"),
            ("rms_norm_eps", "0", "must be above 0"),
            ("vocab_size", r#""many""#, "invalid type"),
        ] {
            let error = Config::of_json("config.json", &with(key, value)).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("config.json"), "{key}: {error}");
        }
    }
}
