//! One copy of the model, ready to run.
//!
//! `fastembed` tokenises, runs ONNX Runtime and pools; here are its settings. Pooling is always stated because its
//! default is CLS, which for all-MiniLM-L6-v2 agrees to 0.52 with the truth. One thread without spinning: spinning
//! burns a core for nothing, and parallelism is the pool's. The runtime library is loaded once per process and never
//! unloaded. What can go wrong: the library or the model does not load, or a text is blank.

use std::{
    fs,
    path::{self, Path},
    sync::{Mutex, PoisonError},
};

use fastembed::{InitOptionsUserDefined, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel};
use ort::environment::Environment;

use super::{
    EmbeddingError, ModelFiles,
    manifest::{CONFIG, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG},
    pool::{Count, Encoder},
    text::{head_and_tail, prepare},
};
use crate::round::Embedding;

/// Fewer tokens than this hold no sentence.
const MAX_TOKENS_MIN: usize = 8;

/// One copy of the model: about 120 MB, one thread.
pub struct Embedder {
    model: TextEmbedding,
    max_tokens: usize,
    /// Tokens that the tokeniser adds to every text.
    special_tokens: usize,
    dimension: usize,
}

impl Embedder {
    /// Loads the model, in 0.3 to 1.2 s; blocks. `max_tokens` is 8 to [`ModelFiles::tokens_max`].
    pub fn load(files: &ModelFiles, max_tokens: usize) -> Result<Self, EmbeddingError> {
        if !(MAX_TOKENS_MIN..=files.tokens_max()).contains(&max_tokens) {
            let limit = files.tokens_max();
            let problem = format!("embedding.max_tokens is {max_tokens}: it must be {MAX_TOKENS_MIN} to {limit}");
            return Err(EmbeddingError::Settings(problem));
        }
        let failed = |problem: String| EmbeddingError::Load { dir: files.dir().into(), problem };
        let environment = runtime(files.runtime())?;
        let tokenizer = TokenizerFiles {
            tokenizer_file: files.read(TOKENIZER)?,
            config_file: files.read(CONFIG)?,
            special_tokens_map_file: files.read(SPECIAL_TOKENS)?,
            tokenizer_config_file: files.read(TOKENIZER_CONFIG)?,
        };
        let read = |path: &Path| fs::read(path).map_err(EmbeddingError::io(path));
        let mut model = UserDefinedEmbeddingModel::new(read(&files.onnx)?, tokenizer)
            .with_pooling(files.pooling.into())
            .with_quantization(files.quantization);
        model.output_key = files.output.clone();
        for data in &files.data {
            let name = data.file_name().unwrap_or_default().to_string_lossy().into_owned();
            model = model.with_external_initializer(name, read(data)?);
        }
        let options = InitOptionsUserDefined::new()
            .with_max_length(max_tokens)
            .with_intra_threads(1)
            .with_session_config("session.intra_op.allow_spinning", "0")
            .with_environment(environment);
        let model =
            TextEmbedding::try_new_from_user_defined(model, options).map_err(|error| failed(error.to_string()))?;
        let empty = model.tokenizer.encode("", true).map_err(|error| failed(error.to_string()))?;
        Ok(Self { model, max_tokens, special_tokens: empty.len(), dimension: files.dimension() })
    }

    /// The vector of each text, in order; blocks. One text at a time: batches are the pool's. Refuses blank texts; of
    /// long ones head and tail count.
    pub fn embed(&mut self, texts: &[&str]) -> Result<Vec<Embedding>, EmbeddingError> {
        texts.iter().map(|text| self.embed_one(text)).collect()
    }

    pub(super) fn embed_one(&mut self, text: &str) -> Result<Embedding, EmbeddingError> {
        let one = self.embed_together(&[text])?;
        one.into_iter().next().ok_or_else(|| EmbeddingError::Inference("the model gave no vector".into()))
    }

    /// The vectors of texts in one run of the model. Where their token lengths differ the short ones are padded.
    fn embed_together(&mut self, texts: &[&str]) -> Result<Vec<Embedding>, EmbeddingError> {
        let mut cut = Vec::with_capacity(texts.len());
        for text in texts {
            let text = prepare(text, self.max_tokens)?;
            cut.push(self.within_tokens(&text)?);
        }
        let failed = EmbeddingError::Inference;
        let vectors = self.model.embed(&cut, Some(cut.len())).map_err(|error| failed(error.to_string()))?;
        let checked = |vector: Vec<f32>| match (vector.len(), self.dimension) {
            (found, wanted) if found == wanted => Embedding::new(vector).map_err(|error| failed(error.to_string())),
            (found, wanted) => Err(failed(format!("the vector has {found} numbers instead of {wanted}"))),
        };
        vectors.into_iter().map(checked).collect()
    }

    /// Cuts the middle out of a text that has more tokens than the model reads; its truncation would lose the tail.
    fn within_tokens(&mut self, text: &str) -> Result<String, EmbeddingError> {
        let budget = self.max_tokens.saturating_sub(self.special_tokens).max(1);
        // A token is at least one byte, so short texts need no counting.
        if text.len() <= budget {
            return Ok(text.into());
        }
        // With truncation on, the tokeniser stops early and never sees the tail.
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| EmbeddingError::Inference(error.to_string());
        let tokenizer = &mut self.model.tokenizer;
        let truncation = tokenizer.get_truncation().cloned();
        tokenizer.with_truncation(None).map_err(failed)?;
        let encoded = tokenizer.encode(text, false);
        tokenizer.with_truncation(truncation).map_err(failed)?;
        let tokens: Vec<_> = encoded.map_err(failed)?.get_offsets().iter().map(|&(start, end)| start..end).collect();
        Ok(head_and_tail(text, &tokens, budget).into_owned())
    }
}

impl Encoder for Embedder {
    fn encode(&mut self, texts: &[&str]) -> Result<Vec<Embedding>, EmbeddingError> {
        self.embed_together(texts)
    }

    fn counter(&self) -> Count {
        let mut tokenizer = self.model.tokenizer.clone();
        let max_tokens = self.max_tokens;
        // What a longer text is cut to has about `max_tokens`, not exactly so many: it goes alone.
        let uncut = tokenizer.with_truncation(None).is_ok();
        let fits = move |&tokens: &usize| uncut && tokens <= max_tokens;
        Box::new(move |text| tokenizer.encode(text, true).ok().map(|encoded| encoded.len()).filter(fits))
    }
}

/// Guards the process's one ONNX Runtime: empty until the first library loads, then never changed.
static RUNTIME: Mutex<Option<Environment>> = Mutex::new(None);

/// The process's ONNX Runtime; the first caller's library is used by all.
fn runtime(file: &Path) -> Result<Environment, EmbeddingError> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*runtime {
        return Ok(environment.clone());
    }
    // ort looks for a relative path beside the executable.
    let file = path::absolute(file).map_err(EmbeddingError::io(file))?;
    let failed = |problem: String| EmbeddingError::Runtime { file: file.clone(), problem };
    let builder = ort::init_from(&file).map_err(|error| failed(error.to_string()))?;
    let environment = builder.with_telemetry(false).build().map_err(|error| failed(error.to_string()))?;
    Ok(runtime.insert(environment).clone())
}
