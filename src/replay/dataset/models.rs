//! The models of a dataset: listed with their prices, or met in the rows.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    Model,
    builder::USD_MAX,
    error::{DatasetError, shown},
    json::{Next, elements, entries},
    spot::{Names, Part, Spot, file_name},
};
use crate::round::ArmId;

/// The models, in the order that they were listed or met.
#[derive(Debug)]
pub(super) struct Models {
    /// Those asked for; all if empty.
    wanted: Vec<String>,
    /// The file that lists all there are.
    list: Option<PathBuf>,
    /// None for a model that is not asked for.
    by_name: HashMap<String, Option<usize>>,
    pub(super) known: Vec<Known>,
}

/// One model.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) model: Model,
    /// Whether its prices are listed.
    pub(super) listed: bool,
    /// Rows whose cost follows the listed prices.
    pub(super) following: u64,
    /// Rows whose cost does not, and where the first is.
    pub(super) departing: Option<(u64, String)>,
}

/// A price list's entry, as the shared layout has it and as LLMRouter has it.
#[derive(Deserialize)]
struct Listed {
    model: Option<String>,
    #[serde(alias = "input_price")]
    input_per_1m: f64,
    #[serde(alias = "output_price")]
    output_per_1m: f64,
}

impl Models {
    pub(super) fn new(wanted: Vec<String>) -> Self {
        Self { wanted, list: None, by_name: HashMap::new(), known: Vec::new() }
    }

    /// Reads `{"models": [{"model", "input_per_1m", "output_per_1m"}]}`. Other models are unknown from then on.
    pub(super) fn list(&mut self, path: &Path) -> Result<(), DatasetError> {
        self.list = Some(path.into());
        let names = Names::fields(&[(Part::Model, "model"), (Part::Cost, "input_per_1m or output_per_1m")]);
        elements(path, "models", &[], &mut |_| Ok(Next::Elements), &mut |line, _, listed: Listed| {
            let spot = Spot { path, line, names: &names };
            let name = listed.model.clone().ok_or_else(|| spot.error(Part::Model, "is missing"))?;
            self.add_listed(&spot, &name, &listed)
        })?;
        self.checked(path)
    }

    /// Reads `{"NAME": {"input_price", "output_price"}}`.
    pub(super) fn list_by_name(&mut self, path: &Path) -> Result<(), DatasetError> {
        self.list = Some(path.into());
        let names = Names::fields(&[(Part::Model, "model"), (Part::Cost, "input_price or output_price")]);
        entries(path, &mut |line, name, listed: Listed| {
            self.add_listed(&Spot { path, line, names: &names }, name, &listed)
        })?;
        self.checked(path)
    }

    fn checked(&self, path: &Path) -> Result<(), DatasetError> {
        match self.by_name.is_empty() {
            true => Err(DatasetError::Layout { path: path.into(), problem: "names no model".into() }),
            false => Ok(()),
        }
    }

    fn add_listed(&mut self, spot: &Spot<'_>, name: &str, listed: &Listed) -> Result<(), DatasetError> {
        if self.by_name.contains_key(name) {
            return Err(spot.error(Part::Model, format!("{} is named twice", shown(name))));
        }
        let prices = [listed.input_per_1m, listed.output_per_1m];
        if !prices.iter().all(|price| (0.0..=USD_MAX).contains(price)) {
            let problem = format!("the prices of {} must be numbers of at least 0", shown(name));
            return Err(spot.error(Part::Cost, problem));
        }
        self.add(spot, name, Some(prices)).map(drop)
    }

    fn add(&mut self, spot: &Spot<'_>, name: &str, prices: Option<[f64; 2]>) -> Result<Option<usize>, DatasetError> {
        let arm = ArmId::new(name).map_err(|error| spot.error(Part::Model, error.problem))?;
        let place = (self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name)).then(|| {
            let [input_per_1m, output_per_1m] = prices.unwrap_or_default();
            let model = Model { arm, input_per_1m, output_per_1m };
            self.known.push(Known { model, listed: prices.is_some(), following: 0, departing: None });
            self.known.len() - 1
        });
        self.by_name.insert(name.to_owned(), place);
        Ok(place)
    }

    /// A row's model; None if it is not asked for. It must be listed if there is a list.
    pub(super) fn find(&mut self, spot: &Spot<'_>, name: &str) -> Result<Option<usize>, DatasetError> {
        match (self.by_name.get(name), &self.list) {
            (Some(place), _) => Ok(*place),
            (None, Some(list)) => {
                Err(spot.error(Part::Model, format!("model {} is not in {}", shown(name), file_name(list))))
            }
            (None, None) => self.add(spot, name, None),
        }
    }

    /// Whether there is a list.
    pub(super) fn are_listed(&self) -> bool {
        self.list.is_some()
    }

    /// The list's name, for messages.
    pub(super) fn list_name(&self) -> String {
        self.list.as_deref().map_or_else(|| "the price list".into(), file_name)
    }

    /// Whether all models asked for are there.
    pub(super) fn all_wanted(&self) -> Result<(), DatasetError> {
        let missing = self.wanted.iter().find(|wanted| !self.by_name.contains_key(*wanted));
        match missing {
            None => Ok(()),
            Some(wanted) => {
                let mut models: Vec<String> = self.by_name.keys().cloned().collect();
                models.sort();
                Err(DatasetError::NoModel { wanted: wanted.clone(), models })
            }
        }
    }
}
