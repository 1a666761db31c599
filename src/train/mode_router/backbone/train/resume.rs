//! A training that was broken off goes on exactly where it was left: the adapters, their moments, what they are kept near, and all that was counted.

use std::{fs, path::Path};

use candle_core::DType;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Adapters, Backbone,
        keep::{TRAINING_FILE, keep, taken, write_adapters},
        lora,
    },
    BackboneSettings, BackboneTrainer,
};
use crate::{
    action::policy::mode_router::{Numbers, pack},
    train::mode_router::{
        TrainError,
        environment::Environment,
        grading::Costs,
        optimiser::AdamW,
        resume::{kept, whole},
    },
};

/// The header's key of what is kept beside the numbers.
const TRAINING: &str = "backbone_training";

/// What is kept beside the tensors.
#[derive(Serialize, Deserialize)]
struct Kept {
    settings: BackboneSettings,
    model: String,
    done: u64,
    updates: u64,
    costs: Costs,
    reference: bool,
}

impl<'a> BackboneTrainer<'a> {
    /// Writes the adapters into a folder, and what is needed to go on.
    pub fn save(&self, folder: &Path) -> Result<(), TrainError> {
        let wrong = |reason: String| TrainError::File { path: folder.display().to_string(), reason };
        fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
        let now = || self.variables.iter().map(|(name, variable)| (name, variable.as_tensor()));
        let mut adapters = Numbers::new();
        keep(&mut adapters, "", now())?;
        write_adapters(folder, &self.backbone.path, &self.settings.lora, &adapters).map_err(wrong)?;
        let mut numbers = Numbers::new();
        keep(&mut numbers, "now.", now())?;
        for (place, part) in [(0, "first."), (1, "second.")] {
            let moments = self.optimiser.moments.iter().map(|(name, moments)| (name, &moments[place]));
            keep(&mut numbers, part, moments)?;
        }
        keep(&mut numbers, "reference.", self.reference.iter().flatten())?;
        let kept = Kept {
            settings: self.settings.clone(),
            model: self.fingerprint()?,
            done: self.done,
            updates: self.optimiser.updates,
            costs: self.costs.clone(),
            reference: self.reference.is_some(),
        };
        let text = serde_json::to_string(&kept).map_err(|error| wrong(error.to_string()))?;
        let bytes = pack(TRAINING, &text, &numbers).map_err(wrong)?;
        whole(&folder.join(TRAINING_FILE), &bytes).map_err(wrong)
    }

    /// What tells one model from another: a hash of what it says to a few tokens.
    fn fingerprint(&self) -> Result<String, TrainError> {
        let decoder = &self.backbone.decoder;
        let ids: Vec<u32> = (0..8).map(|n| n * 7 % decoder.config().vocabulary as u32).collect();
        let scores = decoder.read_on(&mut decoder.begin(), &ids, &Adapters::none())?;
        let likeliest: Vec<f32> = scores.to_dtype(DType::F32)?.to_vec1()?;
        let mut order: Vec<usize> = (0..likeliest.len()).collect();
        order.sort_by(|a, b| likeliest[*b].total_cmp(&likeliest[*a]));
        let bytes: Vec<u8> = order.iter().take(16).flat_map(|place| (*place as u64).to_le_bytes()).collect();
        Ok(format!("{:?} {}", decoder.config().layers, blake3::hash(&bytes).to_hex()))
    }

    /// Goes on where a training was left.
    pub fn resume(
        environment: &'a dyn Environment,
        backbone: Backbone,
        settings: BackboneSettings,
        folder: &Path,
    ) -> Result<Self, TrainError> {
        let file = folder.join(TRAINING_FILE);
        let (kept, mut found) = kept(&file, TRAINING, &settings, |kept: &Kept| &kept.settings)?;
        let path = file.display().to_string();
        let wrong = |reason: String| TrainError::File { path: path.clone(), reason };
        let mut trainer = Self::new(environment, backbone, settings)?;
        if trainer.fingerprint()? != kept.model {
            return Err(TrainError::OtherSettings { path, what: "the model is another one".into() });
        }
        let decoder = &trainer.backbone.decoder;
        let sizes = lora::sizes(decoder.config(), &trainer.settings.lora);
        let mut take = |part: &str| taken(&mut found, part, &sizes, decoder.fine(), decoder.device()).map_err(wrong);
        for (name, tensor) in take("now.")? {
            if let Some(variable) = trainer.variables.get(&name) {
                variable.set(&tensor)?;
            }
        }
        let (first, second) = (take("first.")?, take("second.")?);
        let reference = if kept.reference { Some(take("reference.")?) } else { None };
        let rate =
            if kept.done < trainer.settings.warm_up { trainer.settings.warm_up_rate } else { trainer.settings.rate };
        let mut optimiser = AdamW::new(&trainer.variables, rate, 0.0, 1.0)?;
        optimiser.updates = kept.updates;
        optimiser.moments = first
            .into_iter()
            .zip(second.into_values())
            .map(|((name, first), second)| (name, [first, second]))
            .collect();
        trainer.optimiser = optimiser;
        trainer.reference = reference;
        trainer.done = kept.done;
        trainer.costs = kept.costs;
        Ok(trainer)
    }
}
