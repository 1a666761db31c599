//! Small models with random weights, for tests: real ONNX files, tokenisers and configurations, in kilobytes to
//! megabytes.

use std::{collections::BTreeMap, fs, path::Path};

use safetensors::{Dtype, tensor::TensorView};

use super::{
    manifest::{CONFIG, ONNX, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG},
    onnx::{BertConfig, convert},
};

/// The configuration of a BERT of one layer.
pub(super) const SMALLEST: &str = r#"{"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "intermediate_size": 16, "max_position_embeddings": 12, "vocab_size": 20, "type_vocab_size": 2,
    "hidden_act": "gelu", "layer_norm_eps": 1e-12}"#;

/// The files of a model of one layer by name: a tokeniser of single characters, 64 tokens at most.
pub(super) fn model(dimension: usize) -> BTreeMap<String, Vec<u8>> {
    let pieces: Vec<String> =
        (b'!'..=b'~').map(|c| (c as char).to_string()).filter(|c| *c == c.to_lowercase()).collect();
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(str::to_owned);
    let tails = pieces.iter().map(|piece| format!("##{piece}"));
    let vocabulary: Vec<String> = special.into_iter().chain(pieces.iter().cloned()).chain(tails).collect();
    let config = serde_json::json!({
        "model_type": "bert", "hidden_size": dimension, "num_attention_heads": 8, "num_hidden_layers": 1,
        "intermediate_size": 64, "max_position_embeddings": 64, "vocab_size": vocabulary.len(), "type_vocab_size": 2,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0,
    });
    let ids: BTreeMap<&String, usize> = vocabulary.iter().enumerate().map(|(id, piece)| (piece, id)).collect();
    let token = |id: &str| serde_json::json!({"SpecialToken": {"id": id, "type_id": 0}});
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [token("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, token("[SEP]")], "pair": [],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids},
    });
    let special = serde_json::json!({"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"});
    let settings = serde_json::json!({"model_max_length": 1e30, "pad_token": "[PAD]"});
    let config = config.to_string().into_bytes();
    let weights = weights(&BertConfig::parse(&config).unwrap(), "");
    let text = |value: serde_json::Value| value.to_string().into_bytes();
    [
        (ONNX, convert(&config, &weights).unwrap()),
        (CONFIG, config),
        (TOKENIZER, text(tokenizer)),
        (TOKENIZER_CONFIG, text(settings)),
        (SPECIAL_TOKENS, text(special)),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

/// Writes a model into a folder.
pub(super) fn write(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Random weights of a configuration, as `model.safetensors`; the tensor named `skip` is left out.
pub(super) fn weights(config: &BertConfig, skip: &str) -> Vec<u8> {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![config.vocab_size, hidden]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![config.type_vocab_size, hidden]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![config.max_position_embeddings, hidden]),
    ];
    let layers = (0..config.num_hidden_layers).map(|layer| format!("encoder.layer.{layer}"));
    let mut norms = vec!["embeddings".to_owned()];
    for layer in layers {
        norms.extend([format!("{layer}.attention.output"), format!("{layer}.output")]);
        for (name, inputs, outputs) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", hidden, inner),
            ("output.dense", inner, hidden),
        ] {
            shapes.push((format!("{layer}.{name}.weight"), vec![outputs, inputs]));
            shapes.push((format!("{layer}.{name}.bias"), vec![outputs]));
        }
    }
    for norm in norms {
        shapes.push((format!("{norm}.LayerNorm.weight"), vec![hidden]));
        shapes.push((format!("{norm}.LayerNorm.bias"), vec![hidden]));
    }
    let mut seed = 1_u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let data: BTreeMap<_, _> = shapes
        .into_iter()
        .filter(|(name, _)| name != skip)
        .map(|(name, shape)| {
            let bytes: Vec<u8> = (0..shape.iter().product()).flat_map(|_| random().to_le_bytes()).collect();
            (name, (shape, bytes))
        })
        .collect();
    let views = data
        .iter()
        .map(|(name, (shape, bytes))| (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}
