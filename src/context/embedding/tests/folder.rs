//! A folder of the user's, in the usual layout.

use std::collections::BTreeMap;

use prost::Message;

use super::*;
use crate::context::embedding::{
    proto::{Entry, Model, Tensor},
    tiny,
};

/// A folder with a tiny model and a library's name, so that no model needs to be installed to look at it.
fn folder(dimension: usize) -> TempDir {
    let dir = TempDir::with_prefix("my model-").unwrap();
    tiny::write(dir.path(), &tiny::model(dimension));
    fs::write(dir.path().join("libonnxruntime.so.0"), "").unwrap();
    dir
}

fn settings(dir: &TempDir) -> EmbeddingSettings {
    EmbeddingSettings { model_dir: Some(dir.path().into()), ..EmbeddingSettings::new("/nowhere") }
}

fn pooled(dir: &TempDir, pooling: Pooling) -> EmbeddingSettings {
    EmbeddingSettings { pooling: Some(pooling), ..settings(dir) }
}

fn edit(dir: &TempDir, name: &str, from: &str, to: &str) {
    let text = fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(dir.path().join(name), text.replace(from, to)).unwrap();
}

fn problem(settings: &EmbeddingSettings) -> String {
    ModelFiles::resolve(settings).unwrap_err().to_string()
}

#[test]
fn its_id_names_folder_weights_and_pooling() {
    let dir = folder(8);
    let files = ModelFiles::resolve(&pooled(&dir, Pooling::Cls)).unwrap();
    assert_eq!((files.dimension(), files.tokens_max(), files.dir()), (8, 64, dir.path()));
    let sha256 = FileEntry::of(&dir.path().join(ONNX)).unwrap().sha256;
    let name = dir.path().file_name().unwrap().to_str().unwrap().replace(' ', "-");
    assert_eq!(files.model_id(), format!("{name}@{}+cls", &sha256[..12]));
    let mean = ModelFiles::resolve(&pooled(&dir, Pooling::Mean)).unwrap();
    assert!(mean.model_id().ends_with("+mean"), "{}", mean.model_id());
    let named = EmbeddingSettings { model: Some("ours/v2".into()), ..pooled(&dir, Pooling::Cls) };
    assert_eq!(ModelFiles::resolve(&named).unwrap().model_id(), format!("ours/v2@{}+cls", &sha256[..12]));
    assert!(files.verify().unwrap_err().to_string().contains("MANIFEST.json"));
}

#[test]
fn a_known_name_tells_pooling_and_dimension() {
    let dir = folder(8);
    let named = EmbeddingSettings { model: Some("BAAI/bge-small-en-v1.5".into()), ..settings(&dir) };
    let files = ModelFiles::resolve(&named).unwrap();
    assert_eq!((files.pooling, files.dimension()), (Pooling::Cls, 384));
    assert!(files.model_id().starts_with("bge-small-en-v1.5@") && !files.model_id().contains('+'));
}

#[test]
fn pooling_is_read_or_asked_for_and_never_guessed() {
    let dir = folder(8);
    assert!(problem(&settings(&dir)).contains("embedding.pooling"));
    fs::create_dir(dir.path().join("1_Pooling")).unwrap();
    let write = |text: &str| fs::write(dir.path().join("1_Pooling/config.json"), text).unwrap();
    write(r#"{"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}"#);
    assert_eq!(ModelFiles::resolve(&settings(&dir)).unwrap().pooling, Pooling::Mean);
    write(r#"{"pooling_mode_cls_token": true}"#);
    assert_eq!(ModelFiles::resolve(&settings(&dir)).unwrap().pooling, Pooling::Cls);
    write(r#"{"pooling_mode_max_tokens": true}"#);
    assert!(problem(&settings(&dir)).contains("embedding.pooling"));
}

#[test]
fn the_limit_of_tokens_follows_the_files() {
    let dir = folder(8);
    let cls = pooled(&dir, Pooling::Cls);
    let limit = || ModelFiles::resolve(&cls).unwrap().tokens_max();
    edit(&dir, CONFIG, "\"bert\"", "\"xlm-roberta\"");
    assert_eq!(limit(), 63, "position 0 is the padding's");
    edit(&dir, TOKENIZER_CONFIG, "1e+30", "32");
    assert_eq!(limit(), 32);
    edit(&dir, CONFIG, "max_position_embeddings", "other");
    assert_eq!(limit(), 32);
    edit(&dir, TOKENIZER_CONFIG, "32", "1e30");
    assert!(problem(&cls).contains("limits its tokens"));
    edit(&dir, TOKENIZER_CONFIG, "model_max_length", "other");
    assert!(problem(&cls).contains("model_max_length"));
}

#[test]
fn what_is_missing_is_named() {
    for name in [ONNX, CONFIG, TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS] {
        let dir = folder(8);
        fs::remove_file(dir.path().join(name)).unwrap();
        let problem = problem(&pooled(&dir, Pooling::Cls));
        assert!(problem.contains(name), "{problem}");
    }
    let dir = folder(8);
    edit(&dir, CONFIG, "hidden_size", "other");
    assert!(problem(&pooled(&dir, Pooling::Cls)).contains("hidden_size"));
    let large = EmbeddingSettings { model: Some("multilingual-e5-large".into()), ..settings(&dir) };
    assert!(problem(&large).contains("model.onnx_data"), "{}", problem(&large));
}

#[test]
fn an_installed_folder_is_not_taken_for_another_model() {
    let cache = TempDir::new().unwrap();
    let dir = installed(cache.path());
    let settings = EmbeddingSettings { model_dir: Some(dir), ..EmbeddingSettings::new(cache.path()) };
    let ours = EmbeddingSettings { model: Some("sentence-transformers/all-MiniLM-L6-v2".into()), ..settings.clone() };
    assert_eq!(ModelFiles::resolve(&ours).unwrap().model_id(), MODEL_ID);
    let other = EmbeddingSettings { model: Some("bge-small-en-v1.5".into()), ..settings.clone() };
    assert!(problem(&other).contains("it holds all-MiniLM-L6-v2"));
    let pooled = EmbeddingSettings { pooling: Some(Pooling::Cls), ..settings };
    assert!(problem(&pooled).contains("embedding.pooling"));
}

#[test]
fn names_that_are_not_installed_or_not_known_say_what_to_do() {
    let cache = TempDir::new().unwrap();
    let named = |name: &str| EmbeddingSettings { model: Some(name.into()), ..EmbeddingSettings::new(cache.path()) };
    assert!(problem(&named("BGESmallENV15")).contains("fetch --model bge-small-en-v1.5 --from-hub"));
    assert!(problem(&named("bge")).contains("models list"));
}

// With the real runtime library.

/// Settings of a tiny model in a folder, with the installed model's library; none where that is not installed.
fn runnable(dir: &TempDir) -> Option<EmbeddingSettings> {
    let real = real()?;
    fs::remove_file(dir.path().join("libonnxruntime.so.0")).unwrap();
    let model_dir = Some(dir.path().into());
    Some(EmbeddingSettings { model_dir, pooling: Some(Pooling::Cls), max_tokens: 64, ..real })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_cls_model_goes_through_the_whole_pool() {
    let dir = folder(1_024);
    let Some(settings) = runnable(&dir) else { return };
    let files = ModelFiles::resolve(&settings).unwrap();
    let mut embedder = Embedder::load(&files, 64).unwrap();
    let texts: Vec<_> = (100..160).map(|n| format!("{n}{}", " x".repeat(n % 5 * 20))).collect();
    let alone = embedder.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let pool = EmbeddingPool::start(files.clone(), &settings).unwrap();
    assert_eq!((pool.dimension(), pool.batch_max()), (1_024, 16));
    assert_eq!(pool.embed_many(&texts, &|_, _| ()).await.unwrap(), alone);
    let mean = EmbeddingSettings { pooling: Some(Pooling::Mean), ..settings.clone() };
    let mut mean = Embedder::load(&ModelFiles::resolve(&mean).unwrap(), 64).unwrap();
    assert!(mean.embed(&[&texts[0]]).unwrap()[0].cosine(&alone[0]) < 0.99);
    let long = EmbeddingSettings { max_tokens: 65, ..settings };
    let error = EmbeddingPool::start(files, &long).err().unwrap().to_string();
    assert!(error.contains("8 to 64"), "{error}");
}

#[test]
fn weights_in_a_data_file_are_found_and_their_absence_is_named() {
    let dir = folder(8);
    let Some(settings) = runnable(&dir) else { return };
    let inline = Embedder::load(&ModelFiles::resolve(&settings).unwrap(), 64).unwrap().embed_one("text").unwrap();
    let files = tiny::model(8);
    let mut model = Model::decode(files[ONNX].as_slice()).unwrap();
    let mut data = vec![];
    for tensor in &mut model.graph.as_mut().unwrap().initializer {
        if tensor.name.ends_with("word_embeddings.weight") {
            let entry = |key: &str, value: String| Entry { key: key.into(), value };
            tensor.external_data = vec![
                entry("location", "model.onnx_data".into()),
                entry("offset", "0".into()),
                entry("length", tensor.raw_data.len().to_string()),
            ];
            tensor.data_location = Tensor::EXTERNAL;
            data = std::mem::take(&mut tensor.raw_data);
        }
    }
    fs::remove_file(dir.path().join(ONNX)).unwrap();
    let parts = [("onnx/model.onnx", model.encode_to_vec()), ("onnx/model.onnx_data", data)];
    let parts: BTreeMap<_, _> = parts.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    tiny::write(dir.path(), &parts);
    let files = ModelFiles::resolve(&settings).unwrap();
    assert_eq!(Embedder::load(&files, 64).unwrap().embed_one("text").unwrap(), inline);
    fs::remove_file(dir.path().join("onnx/model.onnx_data")).unwrap();
    let without = ModelFiles::resolve(&settings).unwrap();
    assert_ne!(without.model_id(), files.model_id(), "the id is of all the weights");
    let error = Embedder::load(&without, 64).err().unwrap().to_string();
    assert!(error.contains("model.onnx_data"), "{error}");
}

#[test]
fn a_wrong_dimension_is_seen_at_the_start() {
    let dir = folder(8);
    let Some(settings) = runnable(&dir) else { return };
    edit(&dir, CONFIG, "\"hidden_size\":8", "\"hidden_size\":9");
    let error = EmbeddingPool::start(ModelFiles::resolve(&settings).unwrap(), &settings).err().unwrap();
    assert!(error.to_string().contains("8 numbers instead of 9"), "{error}");
}
