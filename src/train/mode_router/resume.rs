//! Keeps a training in a file, and goes on from one.

use std::{collections::BTreeMap, fs, path::Path};

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{TrainError, TrainSettings, Trainer, environment::Environment, grading::Costs, optimiser::AdamW};
use crate::action::policy::mode_router::{Numbers, Weights, pack, unpack};

/// The header's key of what is kept beside the numbers.
const TRAINING: &str = "training";

/// What is kept beside the tensors.
#[derive(Serialize, Deserialize)]
struct Kept {
    settings: TrainSettings,
    done: u64,
    updates: u64,
    costs: Costs,
}

impl<'a> Trainer<'a> {
    /// Keeps all that is needed to go on.
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let wrong = |reason: String| TrainError::File { path: path.display().to_string(), reason };
        let kept = Kept {
            settings: self.settings.clone(),
            done: self.done,
            updates: self.optimiser.updates,
            costs: self.costs.clone(),
        };
        let mut numbers = Numbers::new();
        let mut keep = |part: &str, name: &str, tensor: &Tensor| -> Result<(), TrainError> {
            let read = tensor.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()?;
            numbers.insert(format!("{part}.{name}"), (tensor.dims().to_vec(), read));
            Ok(())
        };
        for (name, variable) in &self.variables {
            keep("now", name, variable)?;
        }
        for (name, [first, second]) in &self.optimiser.moments {
            keep("first", name, first)?;
            keep("second", name, second)?;
        }
        for (name, shape) in self.settings.shape.names() {
            let read = self.reference.get(&name).to_vec();
            numbers.insert(format!("reference.{name}"), (shape.to_vec(), read));
        }
        let text = serde_json::to_string(&kept).map_err(|error| wrong(error.to_string()))?;
        let bytes = pack(TRAINING, &text, &numbers).map_err(wrong)?;
        whole(path, &bytes).map_err(wrong)
    }

    /// Goes on where a training was left.
    pub fn resume(
        environment: &'a dyn Environment,
        settings: TrainSettings,
        device: Device,
        path: &Path,
    ) -> Result<Self, TrainError> {
        let wrong = |reason: String| TrainError::File { path: path.display().to_string(), reason };
        let (kept, mut found) = kept(path, TRAINING, &settings, |kept: &Kept| &kept.settings)?;
        let mut trainer = Self::new(environment, settings, device)?;
        let device = trainer.device.clone();
        let mut read = |name: &str| -> Result<Tensor, TrainError> {
            let (shape, numbers) = found.remove(name).ok_or_else(|| wrong(format!("{name} is missing")))?;
            Ok(Tensor::from_vec(numbers, shape, &device)?)
        };
        let mut numbers = BTreeMap::new();
        for (name, variable) in &trainer.variables {
            variable.set(&read(&format!("now.{name}"))?)?;
            numbers.insert(name.clone(), read(&format!("reference.{name}"))?.flatten_all()?.to_vec1()?);
        }
        let rate = if kept.done < trainer.practised() { trainer.settings.warm_up_rate } else { trainer.settings.rate };
        let mut optimiser = AdamW::new(&trainer.variables, rate, 0.0, 1.0)?;
        for (name, moments) in &mut optimiser.moments {
            *moments = [read(&format!("first.{name}"))?, read(&format!("second.{name}"))?];
        }
        optimiser.updates = kept.updates;
        trainer.optimiser = optimiser;
        trainer.reference = Weights { shape: trainer.settings.shape, numbers };
        trainer.done = kept.done;
        trainer.costs = kept.costs;
        Ok(trainer)
    }
}

/// Writes a file whole or not at all.
pub(super) fn whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let beside = path.with_extension("part");
    fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path)).map_err(|error| error.to_string())
}

/// What a training with the same settings kept: what is said under the header's key, and the numbers.
pub(super) fn kept<K: DeserializeOwned, S: Serialize>(
    path: &Path,
    key: &str,
    asked: &S,
    settings: impl Fn(&K) -> &S,
) -> Result<(K, Numbers), TrainError> {
    let shown = path.display().to_string();
    let wrong = |reason: String| TrainError::File { path: shown.clone(), reason };
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let (text, numbers) = unpack(key, &bytes).map_err(wrong)?;
    let kept: K = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match difference(settings(&kept), asked) {
        Some(what) => Err(TrainError::OtherSettings { path: shown, what }),
        None => Ok((kept, numbers)),
    }
}

/// The first setting that differs, but for the number of steps: a training may go on for longer.
fn difference<S: Serialize>(kept: &S, asked: &S) -> Option<String> {
    let json = |settings: &S| {
        let mut json = serde_json::to_value(settings).unwrap_or_default();
        if let Some(settings) = json.as_object_mut() {
            settings.remove("steps");
        }
        json
    };
    let (kept, asked) = (json(kept), json(asked));
    let differs = kept.as_object()?.iter().find(|(key, value)| asked.get(key.as_str()) != Some(value))?;
    Some(format!("{} is {} there and {} here", differs.0, differs.1, asked[differs.0.as_str()]))
}
