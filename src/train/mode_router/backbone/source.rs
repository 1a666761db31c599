//! Where a model's matrices come from: a folder of safetensors, or one GGUF file. Both are asked by the names of the former.
//!
//! A GGUF file of the architecture `llama` has the rows of its query and key matrices in another order, since its programs turn neighbouring numbers where the
//! original turns a head's halves. The original order is made again here, so that there is one way to turn them and adapters fit the original model.
//!
//! What can go wrong: half a download, files of two models, sizes that are not those of the config. Each is named. A matrix that another file holds is never
//! searched outside the folder, whatever the index says.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor, quantized::gguf_file::Content, safetensors};
use serde::Deserialize;

use super::{Architecture, BackboneError, Config};

/// Gives matrices by name.
pub trait Source {
    /// Where it is, for messages.
    fn path(&self) -> &str;
    /// A matrix, if there is one of that name; each is asked for once.
    fn find(&mut self, name: &str) -> Result<Option<Tensor>, BackboneError>;
}

/// A matrix that must be there, of a size, finite, as numbers of a type.
pub fn take(source: &mut dyn Source, name: &str, size: &[usize], dtype: DType) -> Result<Tensor, BackboneError> {
    let found = take_if_there(source, name, size, dtype)?;
    found.ok_or_else(|| BackboneError::Missing { path: source.path().into(), name: name.into() })
}

/// The same for one that may be missing.
pub fn take_if_there(
    source: &mut dyn Source,
    name: &str,
    size: &[usize],
    dtype: DType,
) -> Result<Option<Tensor>, BackboneError> {
    let Some(tensor) = source.find(name)? else { return Ok(None) };
    let (path, name) = (source.path().to_owned(), name.to_owned());
    if tensor.dims() != size {
        return Err(BackboneError::Size { path, name, found: tensor.dims().to_vec(), wanted: size.to_vec() });
    }
    let tensor = tensor.to_dtype(dtype)?;
    let sum = tensor.to_dtype(DType::F32)?.abs()?.sum_all()?.to_scalar::<f32>()?;
    if !sum.is_finite() {
        return Err(BackboneError::NotFinite { path, name });
    }
    Ok(Some(tensor))
}

/// A folder with `config.json` and `*.safetensors`.
pub struct Folder {
    path: String,
    found: HashMap<String, Tensor>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

impl Folder {
    /// Reads all of its matrices.
    pub fn read(folder: &Path, device: &Device) -> Result<Self, BackboneError> {
        let mut found = HashMap::new();
        for file in Self::files(folder)? {
            let bytes = fs::read(&file).map_err(|error| unreadable(&file, &error))?;
            let tensors = safetensors::load_buffer(&bytes, device).map_err(|error| unreadable(&file, &error))?;
            found.extend(tensors);
        }
        Ok(Self { path: folder.display().to_string(), found })
    }

    fn files(folder: &Path) -> Result<Vec<PathBuf>, BackboneError> {
        let index = folder.join("model.safetensors.index.json");
        if index.exists() {
            let text = fs::read_to_string(&index).map_err(|error| unreadable(&index, &error))?;
            let read: Index = serde_json::from_str(&text).map_err(|error| unreadable(&index, &error))?;
            let names: BTreeSet<String> = read.weight_map.into_values().collect();
            let plain = |name: &String| Path::new(name).file_name().is_some_and(|file| file == name.as_str());
            if let Some(strange) = names.iter().find(|name| !plain(name)) {
                return Err(unreadable(&index, &format!("{strange:?} is no file of this folder")));
            }
            return Ok(names.iter().map(|name| folder.join(name)).collect());
        }
        let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")).collect();
        files.sort();
        if files.is_empty() { Err(BackboneError::NoModel(folder.display().to_string())) } else { Ok(files) }
    }
}

impl Source for Folder {
    fn path(&self) -> &str {
        &self.path
    }

    fn find(&mut self, name: &str) -> Result<Option<Tensor>, BackboneError> {
        Ok(self.found.remove(name))
    }
}

/// A GGUF file.
pub struct Gguf {
    path: String,
    /// Its header.
    pub content: Content,
    reader: BufReader<File>,
    device: Device,
    /// Heads of the matrices whose rows must be brought into the original order: of queries, of keys.
    permuted: Option<[usize; 2]>,
}

impl Gguf {
    /// Reads its header.
    pub fn open(file: &Path, device: &Device) -> Result<Self, BackboneError> {
        let mut reader = BufReader::new(File::open(file).map_err(|error| unreadable(file, &error))?);
        let content = Content::read(&mut reader).map_err(|error| unreadable(file, &error))?;
        Ok(Self { path: file.display().to_string(), content, reader, device: device.clone(), permuted: None })
    }

    /// Its config.
    pub fn config(&mut self) -> Result<Config, BackboneError> {
        let factors =
            self.plain("rope_freqs.weight")?.map(|tensor| tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1());
        let config = Config::of_gguf(&self.path, &self.content, factors.transpose()?)?;
        if config.architecture == Architecture::Llama {
            self.permuted = Some([config.heads, config.kv_heads]);
        }
        Ok(config)
    }

    fn plain(&mut self, name: &str) -> Result<Option<Tensor>, BackboneError> {
        if !self.content.tensor_infos.contains_key(name) {
            return Ok(None);
        }
        let read = self.content.tensor(&mut self.reader, name, &self.device);
        let read = read.and_then(|tensor| tensor.dequantize(&self.device));
        let wrong = |error| BackboneError::File { path: self.path.clone(), reason: format!("{name}: {error}") };
        read.map(Some).map_err(wrong)
    }
}

impl Source for Gguf {
    fn path(&self) -> &str {
        &self.path
    }

    fn find(&mut self, name: &str) -> Result<Option<Tensor>, BackboneError> {
        let Some(there) = gguf_name(name) else { return Ok(None) };
        let Some(tensor) = self.plain(&there)? else { return Ok(None) };
        match self.permuted {
            Some([heads, _]) if there.contains(".attn_q.") => Ok(Some(original_order(&tensor, heads)?)),
            Some([_, heads]) if there.contains(".attn_k.") => Ok(Some(original_order(&tensor, heads)?)),
            Some(_) | None => Ok(Some(tensor)),
        }
    }
}

/// Rows (pair 0 first, pair 0 second, pair 1 first, ...) of each head as (firsts, seconds).
fn original_order(rows: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
    let shape = rows.shape().clone();
    let pairs = rows.dim(0)? / heads / 2;
    rows.reshape((heads, pairs, 2, ()))?.transpose(1, 2)?.contiguous()?.reshape(shape)
}

fn gguf_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        "lm_head.weight" => return Some("output.weight".into()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (module, part) = rest.rsplit_once('.')?;
    let there = match module {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{layer}.{there}.{part}"))
}

/// A file that cannot be read.
pub fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> BackboneError {
    BackboneError::File { path: path.display().to_string(), reason: error.to_string() }
}
