//! Fixed: always one arm. What an operator had before a router, and the baseline that a router must beat.

use super::{LearntRound, Opinion, Policy, PolicyError};
use crate::round::{ArmId, Context};

/// p = 1 for one arm (shared equally between its modes), 0 for the others. It fails when the arm is no candidate.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{Fixed, Policy};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// assert_eq!(Fixed::new(ArmId::new("b").unwrap()).decide(&context, 1).unwrap().pmf, [0.0, 1.0]);
/// ```
#[derive(Debug, Clone)]
pub struct Fixed {
    arm: ArmId,
}

impl Fixed {
    /// Always `arm`.
    pub fn new(arm: ArmId) -> Self {
        Self { arm }
    }
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let modes = context.candidates.iter().filter(|candidate| candidate.arm == self.arm).count();
        if modes == 0 {
            return Err(PolicyError::NotEligible(self.arm.clone()));
        }
        let p = |arm: &ArmId| if *arm == self.arm { 1.0 / modes as f64 } else { 0.0 };
        Ok(Opinion {
            pmf: context.candidates.iter().map(|candidate| p(&candidate.arm)).collect(),
            ..Opinion::default()
        })
    }

    fn learn(&mut self, _round: &LearntRound<'_>) {}

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
