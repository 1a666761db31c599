//! The catalogue: every arm under its stable id, and which of them a task may use.
//!
//! A catalogue does not change; a change makes another one, so that a decision sees one state of all arms. An arm's
//! statistics are kept under its id: an arm that leaves and comes back finds them again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::worker::Worker;
use crate::round::{ArmId, ArmPatch, Candidate, Capability, MaskReason, Masked, Mode, Task};

/// Tokens written that a cost is expected with, before any answer was seen.
const EXPECTED_OUTPUT_TOKENS: u64 = 200;

/// Calls that a mode is expected to make: rounds mostly pass at the second, and a team has a planner, two executors, a verifier
/// and a summarizer.
pub(crate) fn calls_expected(mode: Mode) -> u64 {
    match mode {
        Mode::Single => 1,
        Mode::Multi => 2,
        Mode::Agentic => 5,
    }
}

/// What an arm charges, in dollars per million tokens; both at least 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prices {
    /// For tokens read.
    pub input_usd_per_1m: f64,
    /// For tokens written.
    pub output_usd_per_1m: f64,
}

impl Prices {
    /// Dollars that running a task in a mode is expected to cost, where its text has so many tokens: each call reads it, and one
    /// output more than the one before.
    pub fn expected_cost_usd(&self, mode: Mode, input_tokens: u64) -> f64 {
        let calls = calls_expected(mode);
        let seen = EXPECTED_OUTPUT_TOKENS * (0..calls).sum::<u64>();
        self.cost_usd(calls * input_tokens + seen, calls * EXPECTED_OUTPUT_TOKENS)
    }

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
    /// What it can do that tasks may ask for.
    pub capabilities: BTreeSet<Capability>,
    /// Whether it may be chosen.
    pub enabled: bool,
    /// Whether its statistics are in doubt; it is not chosen then.
    pub quarantined: bool,
    /// What runs it.
    pub worker: Arc<dyn Worker>,
}

/// All arms.
#[derive(Clone)]
pub struct Catalogue {
    arms: BTreeMap<ArmId, Arm>,
    order: Vec<ArmId>,
}

/// What may be chosen for a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The candidates, in catalogue order; never empty.
    pub candidates: Vec<Candidate>,
    /// The arms that the task allows and that may not be chosen.
    pub masked: Vec<Masked>,
    /// Whether all candidates rest and are taken all the same.
    pub fallback: bool,
}

/// Why no catalogue could be made, or no arm found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Two arms of one name.
    #[error("arm {0} is defined twice")]
    Twice(ArmId),
    /// A name that means another arm run in some mode.
    #[error(
        "arm {0} cannot have this name: it means an arm run in a mode; choose one that does not begin with multi: or agentic:"
    )]
    Reserved(ArmId),
    /// There is no such arm.
    #[error("unknown arm {arm}; the arms are: {known}")]
    Unknown {
        /// What was asked for.
        arm: ArmId,
        /// What there is.
        known: String,
    },
    /// The last arm cannot be removed.
    #[error("{0} is the only arm; add another one before you remove it")]
    Last(ArmId),
    /// No arm may be chosen for a task.
    #[error("no arm is eligible: {}", reasons(.0))]
    NoneEligible(Vec<Masked>),
}

fn reasons(masked: &[Masked]) -> String {
    masked.iter().map(|Masked { arm, why }| format!("{arm} {why}")).collect::<Vec<_>>().join(", ")
}

impl Catalogue {
    /// Takes the arms in the order in which they are to be listed.
    pub fn new(arms: Vec<Arm>) -> Result<Self, CatalogueError> {
        let order: Vec<_> = arms.iter().map(|arm| arm.id.clone()).collect();
        let mut by_id = BTreeMap::new();
        for arm in arms {
            let id = arm.id.clone();
            Self::admits(&id)?;
            if by_id.insert(id.clone(), arm).is_some() {
                return Err(CatalogueError::Twice(id));
            }
        }
        Ok(Self { arms: by_id, order })
    }

    /// Refuses a name that means an arm run in some mode.
    pub fn admits(id: &ArmId) -> Result<(), CatalogueError> {
        match Mode::of_way(id.as_str()) {
            (Mode::Single, _) => Ok(()),
            (Mode::Multi | Mode::Agentic, _) => Err(CatalogueError::Reserved(id.clone())),
        }
    }

    /// The arm of this name.
    pub fn get(&self, id: &ArmId) -> Result<&Arm, CatalogueError> {
        self.arms.get(id).ok_or_else(|| CatalogueError::Unknown {
            arm: id.clone(),
            known: self.order.iter().map(ArmId::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    /// Every arm, in listing order.
    pub fn arms(&self) -> impl Iterator<Item = &Arm> {
        self.order.iter().filter_map(|id| self.arms.get(id))
    }

    /// With another arm, at the end; or in the place of the one of its name.
    #[must_use]
    pub fn with(&self, arm: Arm) -> Self {
        let mut changed = self.clone();
        if !changed.arms.contains_key(&arm.id) {
            changed.order.push(arm.id.clone());
        }
        changed.arms.insert(arm.id.clone(), arm);
        changed
    }

    /// Without an arm.
    pub fn without(&self, id: &ArmId) -> Result<Self, CatalogueError> {
        self.get(id)?;
        if self.order.len() == 1 {
            return Err(CatalogueError::Last(id.clone()));
        }
        let mut changed = self.clone();
        changed.arms.remove(id);
        changed.order.retain(|known| known != id);
        Ok(changed)
    }

    /// With one arm changed.
    pub fn patched(&self, id: &ArmId, patch: &ArmPatch) -> Result<Self, CatalogueError> {
        let mut arm = self.get(id)?.clone();
        arm.enabled = patch.enabled.unwrap_or(arm.enabled);
        arm.quarantined = patch.quarantined.unwrap_or(arm.quarantined);
        arm.prices.input_usd_per_1m = patch.input_usd_per_1m.unwrap_or(arm.prices.input_usd_per_1m);
        arm.prices.output_usd_per_1m = patch.output_usd_per_1m.unwrap_or(arm.prices.output_usd_per_1m);
        if let Some(capabilities) = &patch.capabilities {
            arm.capabilities = capabilities.clone();
        }
        Ok(self.with(arm))
    }

    /// What may be chosen for a task: of all arms, or those that it names, the ones that nothing speaks against. `may`
    /// tells which arms there are for whoever sends it, and `rests` which fail of late; those are chosen only when there is
    /// no other. Those that failed on this very task are not. Each may be run in any of `modes`; the ones of the first mode come
    /// first.
    pub fn select(
        &self,
        task: &Task,
        modes: &[Mode],
        may: impl Fn(&ArmId) -> bool,
        failed: &[ArmId],
        rests: impl Fn(&ArmId) -> bool,
    ) -> Result<Selection, CatalogueError> {
        if let Some(asked) = &task.constraints.arms {
            asked.iter().try_for_each(|id| self.get(id).map(|_| ()))?;
        }
        let input_tokens = estimate_tokens(task.messages.iter().map(|message| message.content.len()).sum());
        let (mut candidates, mut resting, mut masked) = (vec![], vec![], vec![]);
        for arm in self.arms() {
            if !may(&arm.id) || task.constraints.arms.as_ref().is_some_and(|asked| !asked.contains(&arm.id)) {
                continue;
            }
            let cost_usd = |mode: Mode| arm.prices.expected_cost_usd(mode, input_tokens);
            let dear = |mode: Mode| task.constraints.cost_usd_max.is_some_and(|most| cost_usd(mode) > most);
            let affordable: Vec<Mode> = modes.iter().copied().filter(|mode| !dear(*mode)).collect();
            let ways = || affordable.iter().map(|mode| Candidate::new(*mode, arm.id.clone(), cost_usd(*mode)));
            let why = if failed.contains(&arm.id) {
                Some(MaskReason::Failed)
            } else {
                arm.masked(task).or(affordable.is_empty().then_some(MaskReason::TooDear))
            };
            match why {
                Some(why) => masked.push(Masked { arm: arm.id.clone(), why }),
                None if rests(&arm.id) => {
                    masked.push(Masked { arm: arm.id.clone(), why: MaskReason::Unhealthy });
                    resting.extend(ways());
                }
                None => candidates.extend(ways()),
            }
        }
        let of_mode = |candidate: &Candidate| modes.iter().position(|mode| *mode == candidate.mode);
        candidates.sort_by_key(of_mode);
        resting.sort_by_key(of_mode);
        let fallback = candidates.is_empty();
        if fallback {
            masked.retain(|masked| masked.why != MaskReason::Unhealthy);
            candidates = resting;
        }
        if candidates.is_empty() {
            return Err(CatalogueError::NoneEligible(masked));
        }
        Ok(Selection { candidates, masked, fallback })
    }
}

impl Arm {
    /// Why it may not be chosen for a task, its health and its cost apart.
    fn masked(&self, task: &Task) -> Option<MaskReason> {
        let lacks = task.constraints.needs.iter().find(|needed| !self.capabilities.contains(*needed));
        match () {
            () if !self.enabled => Some(MaskReason::Disabled),
            () if self.quarantined => Some(MaskReason::Quarantined),
            () => lacks.cloned().map(MaskReason::Lacks),
        }
    }
}

/// Tokens in so many bytes of text, by the usual rule of four; at least one.
pub(crate) fn estimate_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4).max(1)
}
