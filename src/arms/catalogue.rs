//! The catalogue: every arm under its stable id.

use std::{collections::BTreeMap, sync::Arc};

use super::worker::Worker;
use crate::round::{ArmId, Candidate, Mode, Task};

/// Tokens written that a cost is expected with, before any answer was seen.
const EXPECTED_OUTPUT_TOKENS: u64 = 200;

/// What an arm charges, in dollars per million tokens; both at least 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prices {
    /// For tokens read.
    pub input_usd_per_1m: f64,
    /// For tokens written.
    pub output_usd_per_1m: f64,
}

impl Prices {
    /// Dollars for so many tokens.
    pub fn cost_usd(&self, input_tokens: u64, output_tokens: u64) -> f64 {
        (input_tokens as f64 * self.input_usd_per_1m + output_tokens as f64 * self.output_usd_per_1m) / 1e6
    }
}

/// One arm: a worker under a stable name with its prices.
#[derive(Clone)]
pub struct Arm {
    /// The stable name.
    pub id: ArmId,
    /// What it charges.
    pub prices: Prices,
    /// What runs it.
    pub worker: Arc<dyn Worker>,
}

/// All arms.
pub struct Catalogue {
    arms: BTreeMap<ArmId, Arm>,
    order: Vec<ArmId>,
}

/// Why no catalogue could be made, or no arm found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Two arms of one name.
    #[error("arm {0} is defined twice")]
    Twice(ArmId),
    /// There is no such arm.
    #[error("unknown arm {arm}; the arms are: {known}")]
    Unknown {
        /// What was asked for.
        arm: ArmId,
        /// What there is.
        known: String,
    },
}

impl Catalogue {
    /// Takes the arms in the order in which they are to be listed.
    pub fn new(arms: Vec<Arm>) -> Result<Self, CatalogueError> {
        let order: Vec<_> = arms.iter().map(|arm| arm.id.clone()).collect();
        let mut by_id = BTreeMap::new();
        for arm in arms {
            let id = arm.id.clone();
            if by_id.insert(id.clone(), arm).is_some() {
                return Err(CatalogueError::Twice(id));
            }
        }
        Ok(Self { arms: by_id, order })
    }

    /// The arm of this name.
    pub fn get(&self, id: &ArmId) -> Result<&Arm, CatalogueError> {
        self.arms.get(id).ok_or_else(|| CatalogueError::Unknown {
            arm: id.clone(),
            known: self.order.iter().map(ArmId::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    /// Every arm's name, in listing order.
    pub fn ids(&self) -> &[ArmId] {
        &self.order
    }

    /// What may be chosen for a task: all arms, or those that it names.
    pub fn candidates(&self, task: &Task) -> Result<Vec<Candidate>, CatalogueError> {
        if let Some(asked) = &task.constraints.arms {
            asked.iter().try_for_each(|id| self.get(id).map(|_| ()))?;
        }
        let allowed = |id: &&ArmId| task.constraints.arms.as_ref().is_none_or(|asked| asked.contains(id));
        let input_tokens = estimate_tokens(task.messages.iter().map(|message| message.content.len()).sum());
        self.order
            .iter()
            .filter(allowed)
            .map(|id| {
                let cost_usd = self.get(id)?.prices.cost_usd(input_tokens, EXPECTED_OUTPUT_TOKENS);
                Ok(Candidate::new(Mode::Single, id.clone(), cost_usd))
            })
            .collect()
    }
}

/// Tokens in so many bytes of text, by the usual rule of four; at least one.
pub(crate) fn estimate_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4).max(1)
}
