//! A language model as mode-router: adapters on a model of the Llama family, trained by the same rewards, schedule and loss as the compact policy.
//!
//! The model writes trajectories as text, in the dialect of modes and roles (`rollout`), each turn after what it is told of the calls before; that text is nobody's decision
//! and has no gradient. Low-rank adapters are what is learnt (`lora`); the model itself stays as it is, and is what the adapters are kept near. `decoder` is the model, out of
//! operations that have gradients; `gradient` goes down through it layer by layer, so that memory is that of one layer; `source` and `words` read its files: a folder of
//! safetensors, or one GGUF file, quantised or not. `practice` has the rules learnt first where a model is too small to follow them when told.
//!
//! What comes out is a folder as PEFT writes it, which vLLM and SGLang load beside the model; the policy `llm` then serves it.
//!
//! What can go wrong: a model too small for the task. On a processor one step of a model with 135 million parameters takes minutes; this is meant for a GPU (`--features cuda`).
//!
//! References: RouteWeaver (COMET-GRPO on language models); Hu et al., LoRA, 2021.

mod config;
mod decoder;
mod error;
mod gradient;
mod keep;
mod lora;
mod practice;
mod rollout;
mod source;
mod speaker;
#[cfg(test)]
mod tests;
mod train;
mod words;

use std::path::Path;

use candle_core::{DType, Device};

pub use config::{Architecture, Config, Scaling};
pub use decoder::{Cache, Decoder, Text};
pub use error::BackboneError;
pub use gradient::{Chosen, Gradients};
pub use keep::CONFIG_FILE;
pub use lora::{Adapters, LoraSettings, Target};
pub use rollout::{Sampling, TextRollout};
pub use train::{BackboneSettings, BackboneTrainer};
pub use words::Words;

use source::{Folder, Gguf, unreadable};

/// A language model, read whole.
pub struct Backbone {
    /// Its matrices.
    pub decoder: Decoder,
    /// Its words.
    pub words: Words,
    /// Where it was read from.
    pub path: String,
}

impl Backbone {
    /// Reads a model: one GGUF file (with a `tokenizer.json` beside it, or its own), or a folder with `config.json`, `tokenizer.json` and
    /// `*.safetensors`. On a processor its numbers are 32 bits wide, on a GPU 16 (bfloat16).
    pub fn load(path: &Path, device: &Device) -> Result<Self, BackboneError> {
        let dtype = if device.is_cpu() { DType::F32 } else { DType::BF16 };
        Self::load_as(path, device, dtype)
    }

    /// The same, as numbers of a type: `F32`, `F64` or `BF16`.
    pub fn load_as(path: &Path, device: &Device, dtype: DType) -> Result<Self, BackboneError> {
        let shown = path.display().to_string();
        let (decoder, words) = if path.is_dir() {
            let file = path.join("config.json");
            if !file.exists() {
                return Err(BackboneError::NoModel(shown));
            }
            let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, &error))?;
            let config = Config::of_json(&file.display().to_string(), &text)?;
            // What is quick to find wrong is looked at first.
            let words = Words::of_json(&path.join("tokenizer.json"), &config.ends)?;
            let mut folder = Folder::read(path, device)?;
            (Decoder::read(&mut folder, config, dtype, device)?, words)
        } else if path.extension().is_some_and(|extension| extension == "gguf") {
            let mut gguf = Gguf::open(path, device)?;
            let config = gguf.config()?;
            let beside = path.with_file_name("tokenizer.json");
            let words = match beside.exists() {
                true => Words::of_json(&beside, &config.ends)?,
                false => Words::of_gguf(&shown, &gguf.content, &config.ends)?,
            };
            (Decoder::read(&mut gguf, config, dtype, device)?, words)
        } else {
            return Err(BackboneError::NoModel(shown));
        };
        let (known, told) = (decoder.config().vocabulary, words.len());
        if told > known {
            let reason = format!("it has tokens up to {told} and the model knows {known}");
            return Err(BackboneError::Tokenizer { path: shown, reason });
        }
        Ok(Self { decoder, words, path: shown })
    }
}
