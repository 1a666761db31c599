//! A change of an arm while the router runs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Capability, Invalid};

/// A change of an arm; what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(min_properties = 1)]
pub struct ArmPatch {
    /// Whether it may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether its statistics are in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<bool>,
    /// Dollars per million tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub input_usd_per_1m: Option<f64>,
    /// Dollars per million tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub output_usd_per_1m: Option<f64>,
    /// What it can do, instead of what was stated before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Capability>>)]
    pub capabilities: Option<BTreeSet<Capability>>,
}

impl ArmPatch {
    /// Refuses prices out of range, and a patch that changes nothing.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (field, price) in
            [("input_usd_per_1m", self.input_usd_per_1m), ("output_usd_per_1m", self.output_usd_per_1m)]
        {
            if price.is_some_and(|price| !(0.0..=1e6).contains(&price)) {
                return Err(Invalid::new(field, "must be dollars per million tokens, 0 to 1000000"));
            }
        }
        if *self == Self::default() {
            return Err(Invalid::new(
                "enabled",
                "is missing; send enabled, quarantined, input_usd_per_1m, output_usd_per_1m or capabilities",
            ));
        }
        Ok(())
    }
}
