//! A model in a folder of the usual layout, without a manifest of ours: what its own files say of it.
//!
//! The layout is that of the hub's repositories: `model.onnx` or `onnx/model.onnx`, perhaps with data files beside it,
//! and `config.json`, `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json`. Nothing is guessed: what
//! neither the settings, fastembed nor the files tell is asked for. What can go wrong: a file is absent or not what it
//! should be, or the pooling is not known; the error names the file or the setting.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    EmbeddingError, KnownModel, Pooling,
    manifest::{CONFIG, FileEntry, ONNX, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG, weights_sha256},
};

/// A `model_max_length` above this stands for none.
const TOKENS_MAX: f64 = 1e6;

/// What a folder's files tell.
pub(super) struct Folder {
    pub onnx: PathBuf,
    pub data: Vec<PathBuf>,
    pub weights_sha256: String,
    pub dimension: usize,
    pub tokens_max: usize,
    pub pooling: Pooling,
}

impl Folder {
    /// Reads a folder; the weights are read whole for their SHA-256, at some 0.5 GB/s. `known` is what fastembed tells
    /// of the model, if the settings name one that it knows.
    pub fn read(dir: &Path, known: Option<&KnownModel>, pooling: Option<Pooling>) -> Result<Self, EmbeddingError> {
        let reader = Reader { dir };
        for name in [CONFIG, TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS] {
            if !dir.join(name).is_file() {
                return Err(reader.wrong(format!("it has no {name}")));
            }
        }
        let config = reader.json(CONFIG)?;
        let pooling = match (pooling, known) {
            (Some(pooling), _) => pooling,
            (None, Some(known)) => known.pooling(),
            (None, None) => reader.pooling()?,
        };
        let dimension = match (known, number(&config, &["hidden_size", "d_model", "dim", "n_embd"])) {
            (Some(known), _) => known.dimension(),
            (None, Some(dimension)) => dimension,
            (None, None) => return Err(reader.wrong(format!("{CONFIG} has no hidden_size"))),
        };
        let tokens_max = reader.tokens_max(&config)?;
        let onnx = reader.onnx(known)?;
        let data = reader.data(&onnx, known)?;
        let sha256 = |path: &Path| FileEntry::of(path).map(|entry| entry.sha256).map_err(EmbeddingError::io(path));
        let of_data = data.iter().map(|path| sha256(path)).collect::<Result<Vec<_>, _>>()?;
        let weights_sha256 = weights_sha256(sha256(&onnx)?, of_data.into_iter());
        Ok(Self { onnx, data, weights_sha256, dimension, tokens_max, pooling })
    }
}

/// Tokens that a model can read at most, as the files beside it tell.
pub(super) fn tokens_max(dir: &Path) -> Result<usize, EmbeddingError> {
    let reader = Reader { dir };
    reader.tokens_max(&reader.json(CONFIG)?)
}

struct Reader<'a> {
    dir: &'a Path,
}

impl Reader<'_> {
    fn wrong(&self, problem: String) -> EmbeddingError {
        EmbeddingError::Folder { dir: self.dir.into(), problem }
    }

    fn json(&self, name: &str) -> Result<Value, EmbeddingError> {
        let path = self.dir.join(name);
        let bytes = fs::read(&path).map_err(EmbeddingError::io(path))?;
        serde_json::from_slice(&bytes).map_err(|error| self.wrong(format!("{name}: {error}")))
    }

    /// What sentence-transformers wrote beside its models.
    fn pooling(&self) -> Result<Pooling, EmbeddingError> {
        const FILE: &str = "1_Pooling/config.json";
        let unknown = || self.wrong("how it pools is not known: set `embedding.pooling` to \"mean\" or \"cls\"".into());
        if !self.dir.join(FILE).is_file() {
            return Err(unknown());
        }
        let config = self.json(FILE)?;
        let on = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
        match (on("pooling_mode_mean_tokens"), on("pooling_mode_cls_token")) {
            (true, false) => Ok(Pooling::Mean),
            (false, true) => Ok(Pooling::Cls),
            (true, true) | (false, false) => Err(unknown()),
        }
    }

    /// The smaller of the positions that the model has and of what its tokeniser allows.
    fn tokens_max(&self, config: &Value) -> Result<usize, EmbeddingError> {
        let tokenizer = self.json(TOKENIZER_CONFIG)?;
        let Some(allowed) = tokenizer.get("model_max_length").and_then(Value::as_f64) else {
            return Err(self.wrong(format!("{TOKENIZER_CONFIG} has no model_max_length")));
        };
        // RoBERTa's positions start after that of the padding token.
        let kind = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let unused = match kind {
            "roberta" | "xlm-roberta" | "camembert" | "mpnet" => number(config, &["pad_token_id"]).unwrap_or(1) + 1,
            _ => 0,
        };
        let positions = number(config, &["max_position_embeddings", "n_positions"]).map(|n| n.saturating_sub(unused));
        let allowed = (1.0..=TOKENS_MAX).contains(&allowed).then_some(allowed as usize);
        let limits = [positions, allowed].into_iter().flatten();
        limits.min().ok_or_else(|| self.wrong(format!("neither {CONFIG} nor {TOKENIZER_CONFIG} limits its tokens")))
    }

    fn onnx(&self, known: Option<&KnownModel>) -> Result<PathBuf, EmbeddingError> {
        let known = known.map_or(ONNX, KnownModel::onnx);
        let bare = known.rsplit('/').next().unwrap_or(known);
        let places = [bare.to_owned(), format!("onnx/{bare}")];
        let found = places.iter().map(|place| self.dir.join(place)).find(|path| path.is_file());
        found.ok_or_else(|| self.wrong(format!("it has neither {} nor {}", places[0], places[1])))
    }

    /// The files that the ONNX file refers to: those that fastembed lists, else those beside it that extend its name.
    fn data(&self, onnx: &Path, known: Option<&KnownModel>) -> Result<Vec<PathBuf>, EmbeddingError> {
        let folder = onnx.parent().unwrap_or(self.dir);
        if let Some(known) = known {
            let beside = |path: &String| folder.join(path.rsplit('/').next().unwrap_or(path));
            let data: Vec<_> = known.data().iter().map(beside).collect();
            return match data.iter().find(|path| !path.is_file()) {
                Some(path) => Err(self.wrong(format!("it has no {}", path.display()))),
                None => Ok(data),
            };
        }
        let stem = onnx.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut data = vec![];
        for entry in fs::read_dir(folder).map_err(EmbeddingError::io(folder))? {
            let path = entry.map_err(EmbeddingError::io(folder))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.strip_prefix(&stem).is_some_and(|rest| rest.starts_with(['_', '.'])) {
                data.push(path);
            }
        }
        data.sort();
        Ok(data)
    }
}

/// The first of the keys that holds a whole number.
fn number(value: &Value, keys: &[&str]) -> Option<usize> {
    keys.iter().find_map(|key| value.get(key)?.as_u64()).and_then(|number| usize::try_from(number).ok())
}
