//! Adapters as files: a folder as PEFT writes it, and beside it what a training needs to go on.

use std::{collections::BTreeMap, path::Path};

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::{LoraSettings, Target};
use crate::{
    action::policy::mode_router::{Numbers, pack},
    train::mode_router::resume::whole,
};

/// The adapters' numbers.
pub const ADAPTERS_FILE: &str = "adapter_model.safetensors";
/// What is said of them.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// What a training goes on from.
pub const TRAINING_FILE: &str = "training.safetensors";

/// Numbers of tensors, under names with a part before them.
pub fn keep<'a>(
    numbers: &mut Numbers,
    part: &str,
    tensors: impl IntoIterator<Item = (&'a String, &'a Tensor)>,
) -> candle_core::Result<()> {
    for (name, tensor) in tensors {
        let read = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
        numbers.insert(format!("{part}{name}"), (tensor.dims().to_vec(), read));
    }
    Ok(())
}

/// Takes tensors out again, each of the size that it must have.
pub fn taken(
    numbers: &mut Numbers,
    part: &str,
    sizes: &BTreeMap<String, [usize; 2]>,
    dtype: DType,
    device: &Device,
) -> Result<BTreeMap<String, Tensor>, String> {
    let take = |(name, size): (&String, &[usize; 2])| {
        let (found, read) =
            numbers.remove(&format!("{part}{name}")).ok_or_else(|| format!("{part}{name} is missing"))?;
        if found != size {
            return Err(format!("{part}{name} is of the size {found:?} and must be of {size:?}"));
        }
        let tensor = Tensor::from_vec(read, found, device).and_then(|tensor| tensor.to_dtype(dtype));
        Ok((name.clone(), tensor.map_err(|error| error.to_string())?))
    };
    sizes.iter().map(take).collect()
}

/// Writes adapters so that vLLM, SGLang and PEFT load them beside the model that `base` names.
pub fn write_adapters(folder: &Path, base: &str, settings: &LoraSettings, numbers: &Numbers) -> Result<(), String> {
    let targets: Vec<&str> = settings.targets.iter().map(|target| Target::as_str(*target)).collect();
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "lora_dropout": 0.0,
        "target_modules": targets,
        "bias": "none",
        "fan_in_fan_out": false,
        "init_lora_weights": true,
        "inference_mode": true,
        "modules_to_save": null,
    });
    let config = serde_json::to_vec_pretty(&config).map_err(|error| error.to_string())?;
    whole(&folder.join(ADAPTERS_FILE), &pack("format", "pt", numbers)?)?;
    whole(&folder.join(CONFIG_FILE), &config)
}
