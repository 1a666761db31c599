//! Models small enough to be looked through: random numbers, and a tokenizer made of the texts that it is to read.

use std::{collections::BTreeMap, fs, fs::File, path::Path, sync::OnceLock};

use candle_core::{
    DType, Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
    safetensors,
};
use rand::Rng;
use serde_json::json;
use tokenizers::{
    AddedToken, Tokenizer,
    models::{TrainerWrapper, bpe::BPE, bpe::BpeTrainer},
    pre_tokenizers::byte_level::ByteLevel,
};

use super::super::{Architecture, Backbone};
use crate::{
    grammar::{Rules, dialect::routeweaver},
    round::Mode,
    train::mode_router::rollout::seeded,
};

pub const MARKS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
/// More than there are tokens, as many models have it.
pub const VOCABULARY: usize = 720;

/// A byte-level tokenizer that knows the words of the rules.
pub fn tokenizer() -> &'static Tokenizer {
    static MADE: OnceLock<Tokenizer> = OnceLock::new();
    MADE.get_or_init(|| {
        let marks: Vec<AddedToken> = MARKS.iter().map(|mark| AddedToken::from(*mark, true)).collect();
        let trainer = BpeTrainer::builder()
            .vocab_size(700)
            .show_progress(false)
            .special_tokens(marks)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        let mut tokenizer = Tokenizer::new(BPE::default());
        let bytes = || ByteLevel::new(false, true, true);
        tokenizer.with_pre_tokenizer(Some(bytes())).with_decoder(Some(bytes()));
        let texts = [routeweaver::rules(&Mode::ALL, &Rules::default()), routeweaver::question("kind 0", ["right"; 4])];
        tokenizer.train(&mut TrainerWrapper::from(trainer), texts.iter()).unwrap();
        tokenizer
    })
}

pub fn config(architecture: Architecture) -> serde_json::Value {
    let (name, head) = match architecture {
        Architecture::Llama => ("llama", 8),
        Architecture::Qwen2 => ("qwen2", 8),
        Architecture::Qwen3 => ("qwen3", 16),
    };
    json!({
        "model_type": name, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": head, "vocab_size": VOCABULARY, "max_position_embeddings": 8_192,
        "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "tie_word_embeddings": architecture == Architecture::Qwen3, "eos_token_id": 0
    })
}

/// Random matrices by their usual names.
pub fn tensors(architecture: Architecture, seed: u64) -> BTreeMap<String, Tensor> {
    let head = if architecture == Architecture::Qwen3 { 16 } else { 8 };
    let mut sizes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, 32]),
        ("model.norm.weight".to_owned(), vec![32]),
    ];
    if architecture != Architecture::Qwen3 {
        sizes.push(("lm_head.weight".into(), vec![VOCABULARY, 32]));
    }
    for layer in 0..2 {
        let mut add = |name: &str, size: &[usize]| sizes.push((format!("model.layers.{layer}.{name}"), size.to_vec()));
        add("input_layernorm.weight", &[32]);
        add("post_attention_layernorm.weight", &[32]);
        for (name, heads) in [("q", 4), ("k", 2), ("v", 2)] {
            add(&format!("self_attn.{name}_proj.weight"), &[heads * head, 32]);
            if architecture == Architecture::Qwen2 {
                add(&format!("self_attn.{name}_proj.bias"), &[heads * head]);
            }
        }
        if architecture == Architecture::Qwen3 {
            add("self_attn.q_norm.weight", &[head]);
            add("self_attn.k_norm.weight", &[head]);
        }
        add("self_attn.o_proj.weight", &[32, 4 * head]);
        add("mlp.gate_proj.weight", &[64, 32]);
        add("mlp.up_proj.weight", &[64, 32]);
        add("mlp.down_proj.weight", &[32, 64]);
    }
    let mut rng = seeded(seed, b"tiny", &[]);
    let tensor = |(name, size): (String, Vec<usize>)| {
        let middle = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        let count = size.iter().product::<usize>();
        let numbers: Vec<f32> = (0..count).map(|_| middle + 0.4 * (rng.random::<f32>() - 0.5)).collect();
        (name, Tensor::from_vec(numbers, size, &Device::Cpu).unwrap())
    };
    sizes.into_iter().map(tensor).collect()
}

/// Writes a model as a folder.
pub fn folder(at: &Path, architecture: Architecture, seed: u64) {
    fs::create_dir_all(at).unwrap();
    fs::write(at.join("config.json"), config(architecture).to_string()).unwrap();
    tokenizer().save(at.join("tokenizer.json"), false).unwrap();
    let tensors = tensors(architecture, seed).into_iter().collect();
    safetensors::save(&tensors, at.join("model.safetensors")).unwrap();
}

/// A model, read as numbers of a type.
pub fn backbone(architecture: Architecture, dtype: DType) -> Backbone {
    let at = tempfile::tempdir().unwrap();
    folder(at.path(), architecture, 3);
    Backbone::load_as(at.path(), &Device::Cpu, dtype).unwrap()
}

/// A header's entries.
pub type Header = BTreeMap<String, Value>;

/// What the header of a GGUF file of the model says.
pub fn header(architecture: Architecture) -> Header {
    let config = config(architecture);
    let name = config["model_type"].as_str().unwrap().to_owned();
    let whole = |key: &str| Value::U32(config[key].as_u64().unwrap() as u32);
    let read: serde_json::Value = serde_json::from_str(&tokenizer().to_string(false).unwrap()).unwrap();
    let known = read["model"]["vocab"].as_object().unwrap();
    let mut tokens: Vec<(String, u64)> =
        known.iter().map(|(token, id)| (token.clone(), id.as_u64().unwrap())).collect();
    tokens.sort_by_key(|(_, id)| *id);
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
    let kinds = tokens.iter().map(|(token, _)| Value::I32(if MARKS.contains(&token.as_str()) { 3 } else { 1 }));
    let merge = |merge: &serde_json::Value| match merge.as_array() {
        Some(pair) => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        None => merge.as_str().unwrap().to_owned(),
    };
    let merges = read["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    let mut header = Header::from([
        ("general.architecture".into(), Value::String(name.clone())),
        ("tokenizer.ggml.model".into(), Value::String("gpt2".into())),
        ("tokenizer.ggml.pre".into(), Value::String("gpt-2".into())),
        ("tokenizer.ggml.token_type".into(), Value::Array(kinds.collect())),
        ("tokenizer.ggml.merges".into(), texts(merges)),
        ("tokenizer.ggml.eos_token_id".into(), Value::U32(0)),
        ("tokenizer.ggml.tokens".into(), texts(tokens.into_iter().map(|(token, _)| token).collect())),
    ]);
    for (key, of) in [
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("block_count", "num_hidden_layers"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
        ("context_length", "max_position_embeddings"),
    ] {
        header.insert(format!("{name}.{key}"), whole(of));
    }
    header.insert(format!("{name}.attention.layer_norm_rms_epsilon"), Value::F32(1e-5));
    header.insert(format!("{name}.rope.freq_base"), Value::F32(10_000.0));
    header
}

/// Writes a model as a GGUF file. Of a Llama the rows of queries and keys go into the order that such files have.
pub fn gguf(at: &Path, architecture: Architecture, header: &Header, matrices: GgmlDType) {
    let quantised = |(name, tensor): (String, Tensor)| {
        let (there, heads) = there(&name);
        let tensor = match heads {
            Some(heads) if architecture == Architecture::Llama => interleaved(&tensor, heads),
            Some(_) | None => tensor,
        };
        let dtype = if tensor.rank() == 1 { GgmlDType::F32 } else { matrices };
        (there, QTensor::quantize(&tensor, dtype).unwrap())
    };
    let tensors: Vec<(String, QTensor)> = tensors(architecture, 3).into_iter().map(quantised).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let header: Vec<(&str, &Value)> = header.iter().map(|(key, value)| (key.as_str(), value)).collect();
    gguf_file::write(&mut File::create(at).unwrap(), &header, &tensors).unwrap();
}

fn there(name: &str) -> (String, Option<usize>) {
    let heads = if name.contains("q_proj.weight") { Some(4) } else { name.contains("k_proj.weight").then_some(2) };
    let mut name = name.to_owned();
    for (from, to) in [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers.", "blk."),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ] {
        name = name.replace(from, to);
    }
    (name, heads)
}

/// Row `2 i + s` of a head is its row `s half + i`.
fn interleaved(rows: &Tensor, heads: usize) -> Tensor {
    let head = rows.dim(0).unwrap() / heads;
    let from = |row: usize| {
        let (of, within) = (row / head, row % head);
        (of * head + (within % 2) * (head / 2) + within / 2) as u32
    };
    let from: Vec<u32> = (0..rows.dim(0).unwrap()).map(from).collect();
    rows.index_select(&Tensor::new(from, &Device::Cpu).unwrap(), 0).unwrap()
}
