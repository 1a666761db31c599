//! Verifiers as the journal knows them: which component judges a domain, how much it weighs, and how that changed.

use serde::{Deserialize, Serialize};

use super::Invalid;

/// What an error of a verifier means for the whole. It never counts as a good answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The verifier leaves the sum.
    #[default]
    Skip,
    /// It counts as a score of 0, and closes a gate.
    Zero,
    /// There is no score at all, and nothing is learnt.
    Reject,
}

impl OnError {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a component is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComponentSource {
    /// It comes with the program, under this name.
    FirstParty(String),
    /// It was handed in; its file is kept in the data folder, under this SHA-256.
    Stored(String),
}

/// How a verifier counts in its domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerifierSettings {
    /// Its weight, above 0 and at most 1000.
    #[schema(exclusive_minimum = 0, maximum = 1_000)]
    pub weight: f64,
    /// Whether its 0 forces the whole to 0.
    #[serde(default)]
    pub gate: bool,
    /// What its errors mean.
    #[serde(default)]
    pub on_error: OnError,
    /// Its own configuration, a JSON object.
    #[serde(default = "no_config")]
    pub config: String,
}

fn no_config() -> String {
    "{}".into()
}

impl VerifierSettings {
    /// This much weight, and nothing else out of the ordinary.
    pub fn of_weight(weight: f64) -> Self {
        Self { weight, gate: false, on_error: OnError::Skip, config: no_config() }
    }

    /// Refuses what cannot be, saying what is allowed.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !(self.weight > 0.0 && self.weight <= 1_000.0) {
            return Err(Invalid::new("weight", "must be above 0 and at most 1000"));
        }
        match serde_json::from_str(&self.config) {
            Ok(serde_json::Value::Object(_)) => Ok(()),
            Ok(_) | Err(_) => Err(Invalid::new("config", "must be a JSON object, such as {}")),
        }
    }
}

/// What is to be different about a verifier; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifierPatch {
    /// Another weight.
    #[schema(exclusive_minimum = 0, maximum = 1_000)]
    pub weight: Option<f64>,
    /// Whether it is a gate.
    pub gate: Option<bool>,
    /// What its errors mean.
    pub on_error: Option<OnError>,
    /// Another configuration.
    #[schema(value_type = Option<Object>)]
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
}

impl VerifierPatch {
    /// The settings with the patch laid over them.
    pub fn over(&self, settings: &VerifierSettings) -> VerifierSettings {
        VerifierSettings {
            weight: self.weight.unwrap_or(settings.weight),
            gate: self.gate.unwrap_or(settings.gate),
            on_error: self.on_error.unwrap_or(settings.on_error),
            config: self
                .config
                .clone()
                .map_or_else(|| settings.config.clone(), |config| serde_json::Value::Object(config).to_string()),
        }
    }
}

/// Why a version of a verifier came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionOrigin {
    /// The configuration names it.
    Configured,
    /// A component was handed in, or chosen.
    Installed,
    /// Its settings were changed.
    Changed,
    /// An earlier version came back.
    RolledBack {
        /// That version's number.
        to: u32,
    },
}

/// One version of a verifier: the component and its settings, swapped as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerifierVersion {
    /// The component.
    pub component: ComponentSource,
    /// Its SHA-256, in hexadecimal, when the version came.
    pub sha256: String,
    /// How it counts.
    #[serde(flatten)]
    pub settings: VerifierSettings,
    /// Why it came.
    pub origin: VersionOrigin,
    /// When, in milliseconds since 1970; 0 of a configured one.
    pub at_ms: i64,
}

/// What became of a verifier of a domain's set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifierChange {
    /// This version judges from now on.
    Put(VerifierVersion),
    /// It is gone, with its earlier versions.
    Removed,
}
