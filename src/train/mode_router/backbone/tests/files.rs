//! Files: the same model in every form, and files that are broken.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use candle_core::{
    DType, Device, Tensor,
    quantized::{GgmlDType, gguf_file::Value},
    safetensors,
};
use serde_json::json;

use super::{
    super::{Adapters, Architecture, Backbone},
    reference, tiny,
};

const CPU: Device = Device::Cpu;
const TEXT: &str = "Choose the mode: 12 questions,\n  one <answer> é";

fn last_scores(backbone: &Backbone, ids: &[u32]) -> Vec<f64> {
    let scores = backbone.decoder.read_on(&mut backbone.decoder.begin(), ids, &Adapters::none()).unwrap();
    scores.to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

fn apart(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
}

#[test]
fn every_architecture_computes_what_is_written_of_it_whatever_the_file() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        let at = tempfile::tempdir().unwrap();
        tiny::folder(at.path(), architecture, 3);
        let folder = Backbone::load_as(at.path(), &CPU, DType::F64).unwrap();
        let ids = folder.words.tokens(TEXT).unwrap();
        let wanted = reference::scores(architecture, &tiny::tensors(architecture, 3), &ids);
        let found = last_scores(&folder, &ids);
        assert!(apart(&found, wanted.last().unwrap()) < 1e-9, "{architecture:?}");
        let file = at.path().join("model.gguf");
        fs::remove_file(at.path().join("tokenizer.json")).unwrap();
        tiny::gguf(&file, architecture, &tiny::header(architecture), GgmlDType::F32);
        let gguf = Backbone::load_as(&file, &CPU, DType::F64).unwrap();
        assert_eq!(gguf.words.tokens(TEXT).unwrap(), ids, "its own tokenizer cuts alike");
        assert_eq!(gguf.words.text(&ids).unwrap(), TEXT);
        assert!(apart(&last_scores(&gguf, &ids), &found) < 1e-9, "{architecture:?}");
        // In 8 bits it is nearly the same.
        tiny::gguf(&file, architecture, &tiny::header(architecture), GgmlDType::Q8_0);
        let quantised = last_scores(&Backbone::load(&file, &CPU).unwrap(), &ids);
        let error = apart(&quantised, &found);
        assert!(error > 1e-6 && error < 0.05, "{error}");
    }
}

#[test]
fn a_model_in_several_files_is_that_in_one() {
    let at = tempfile::tempdir().unwrap();
    tiny::folder(at.path(), Architecture::Llama, 3);
    let whole = Backbone::load(at.path(), &CPU).unwrap();
    fs::remove_file(at.path().join("model.safetensors")).unwrap();
    let (mut parts, mut map) = ([HashMap::new(), HashMap::new()], serde_json::Map::new());
    for (place, (name, tensor)) in tiny::tensors(Architecture::Llama, 3).into_iter().enumerate() {
        map.insert(name.clone(), json!(format!("part-{}.safetensors", place % 2)));
        parts[place % 2].insert(name, tensor);
    }
    for (place, part) in parts.iter().enumerate() {
        safetensors::save(part, at.path().join(format!("part-{place}.safetensors"))).unwrap();
    }
    // Files that the index does not name are no part of the model.
    fs::write(at.path().join("other.safetensors"), "nothing").unwrap();
    fs::write(at.path().join("model.safetensors.index.json"), json!({ "weight_map": map }).to_string()).unwrap();
    let parted = Backbone::load(at.path(), &CPU).unwrap();
    assert_eq!(last_scores(&parted, &[5, 6, 7]), last_scores(&whole, &[5, 6, 7]));
}

fn told(path: &Path) -> String {
    match Backbone::load(path, &CPU) {
        Ok(_) => panic!("{} was read", path.display()),
        Err(error) => error.to_string(),
    }
}

fn changed(at: &Path, change: impl FnOnce(&mut HashMap<String, Tensor>)) {
    let mut tensors: HashMap<String, Tensor> = tiny::tensors(Architecture::Llama, 3).into_iter().collect();
    change(&mut tensors);
    safetensors::save(&tensors, at.join("model.safetensors")).unwrap();
}

fn refused(change: impl FnOnce(&Path), wanted: &[&str]) {
    let at = tempfile::tempdir().unwrap();
    tiny::folder(at.path(), Architecture::Llama, 3);
    change(at.path());
    let error = told(at.path());
    assert!(wanted.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn a_folder_without_all_of_its_files_is_refused_and_the_message_says_where() {
    let remove = |name: &'static str| move |at: &Path| fs::remove_file(at.join(name)).unwrap();
    let write = |name: &'static str, text: &'static str| move |at: &Path| fs::write(at.join(name), text).unwrap();
    let index = |text: &'static str| write("model.safetensors.index.json", text);
    refused(remove("config.json"), &["holds no model", "GGUF"]);
    refused(remove("model.safetensors"), &["holds no model"]);
    refused(remove("tokenizer.json"), &["there is no tokenizer", "put the model's own tokenizer.json"]);
    refused(write("config.json", "{"), &["config.json", "EOF"]);
    refused(write("config.json", r#"{"model_type":"gpt2"}"#), &["config.json"]);
    refused(write("tokenizer.json", "{}"), &["tokenizer.json"]);
    refused(index(r#"{"weight_map":{"a":"../b.safetensors"}}"#), &["no file of this folder"]);
    refused(index(r#"{"weight_map":{"a":"b.safetensors"}}"#), &["b.safetensors"]);
    refused(index("[]"), &["index.json"]);
    assert!(told(Path::new("/nowhere/model.bin")).contains("holds no model"));
}

#[test]
fn matrices_that_are_missing_cut_off_or_of_another_size_are_named() {
    let cut = |at: &Path| {
        let bytes = fs::read(at.join("model.safetensors")).unwrap();
        fs::write(at.join("model.safetensors"), &bytes[..bytes.len() / 2]).unwrap();
    };
    refused(cut, &["model.safetensors"]);
    let up = "model.layers.1.mlp.up_proj.weight";
    let without = |at: &Path| {
        changed(at, |tensors| {
            tensors.remove(up);
        });
    };
    refused(without, &[up, "is missing", "get it again"]);
    let with = |tensor: Tensor| {
        move |at: &Path| {
            changed(at, |tensors| {
                tensors.insert(up.into(), tensor);
            });
        }
    };
    refused(with(Tensor::zeros((32, 64), DType::F32, &CPU).unwrap()), &[up, "[32, 64]", "[64, 32]"]);
    refused(with(Tensor::full(f32::NAN, (64, 32), &CPU).unwrap()), &[up, "not finite"]);
    let few = |at: &Path| {
        let mut config = tiny::config(Architecture::Llama);
        config["vocab_size"] = json!(300);
        fs::write(at.join("config.json"), config.to_string()).unwrap();
        let some = Tensor::zeros((300, 32), DType::F32, &CPU).unwrap();
        changed(at, |tensors| {
            tensors.insert("lm_head.weight".into(), some.clone());
            tensors.insert("model.embed_tokens.weight".into(), some);
        });
    };
    refused(few, &["the model knows 300"]);
}

#[test]
fn a_broken_gguf_file_is_refused_and_the_message_says_why() {
    let at = tempfile::tempdir().unwrap();
    let file: PathBuf = at.path().join("model.gguf");
    let refused = |key: &str, value: Option<Value>, wanted: &[&str]| {
        let mut header = tiny::header(Architecture::Llama);
        match value {
            Some(value) => header.insert(key.into(), value),
            None => header.remove(key),
        };
        tiny::gguf(&file, Architecture::Llama, &header, GgmlDType::F32);
        let error = told(&file);
        assert!(wanted.iter().all(|part| error.contains(part)), "{error}");
    };
    let text = |text: &str| Some(Value::String(text.into()));
    let number = |number: u32| Some(Value::U32(number));
    refused("general.architecture", text("mamba"), &["mamba", "known are"]);
    refused("general.architecture", None, &["general.architecture is missing"]);
    refused("llama.block_count", None, &["llama.block_count must be a number"]);
    refused("llama.block_count", number(3), &["model.layers.2.", "is missing"]);
    refused("llama.feed_forward_length", number(96), &["[64, 32]", "[96, 32]"]);
    refused("llama.rope.scaling.type", text("yarn"), &["rope.scaling.type must be none"]);
    refused("llama.expert_count", number(8), &["experts"]);
    refused("tokenizer.ggml.model", text("llama"), &["of the kind \"llama\"", "tokenizer.json"]);
    refused("tokenizer.ggml.model", None, &["holds no tokenizer", "tokenizer.json"]);
    refused("tokenizer.ggml.pre", text("new"), &["by the rule \"new\""]);
    refused("tokenizer.ggml.merges", None, &["table of merges is missing"]);
    tiny::gguf(&file, Architecture::Llama, &tiny::header(Architecture::Llama), GgmlDType::F32);
    let bytes = fs::read(&file).unwrap();
    for part in [bytes.len() - 100_000, 3_000, 10] {
        fs::write(&file, &bytes[..part]).unwrap();
        assert!(told(&file).contains("model.gguf"));
    }
    fs::write(&file, b"GGML and then nothing").unwrap();
    assert!(told(&file).contains("magic"));
}
