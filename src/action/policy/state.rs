//! What was learnt, as JSON: written beside the journal so that a start need not fold it all again.
//!
//! Numbers survive bit for bit. What is read is not trusted: a row (one action's numbers) with NaN, infinity or a value
//! that no round could have led to is left out and its action named, so that one arm is quarantined and the rest go on.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Action;
use crate::round::{ArmId, Mode};

/// Why a stored state cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It is of another policy, of other settings or damaged.
    #[error("the stored state does not fit: {0}")]
    Shape(String),
}

/// One action's numbers. JSON has no NaN: serde writes null, which is read as NaN.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) mode: Mode,
    pub(super) arm: ArmId,
    pub(super) numbers: Vec<Option<f64>>,
}

impl Row {
    pub(super) fn new((mode, arm): &Action, numbers: impl IntoIterator<Item = f64>) -> Self {
        Self { mode: *mode, arm: arm.clone(), numbers: numbers.into_iter().map(Some).collect() }
    }

    pub(super) fn action(&self) -> Action {
        (self.mode, self.arm.clone())
    }

    /// The numbers, with NaN for null.
    pub(super) fn values(&self) -> Vec<f64> {
        self.numbers.iter().map(|number| number.unwrap_or(f64::NAN)).collect()
    }
}

/// Writes a state.
pub(in crate::action) fn write(state: &impl Serialize) -> Value {
    serde_json::to_value(state).unwrap_or(Value::Null)
}

/// Reads a state of a known shape.
pub(in crate::action) fn read<T: DeserializeOwned>(state: &Value) -> Result<T, StateError> {
    serde_json::from_value(state.clone()).map_err(|error| StateError::Shape(error.to_string()))
}
