//! Uniform: every candidate with the same probability. The baseline of every comparison, and the router's fallback.

use super::{LearntRound, Opinion, Policy, PolicyError};
use crate::round::Context;

/// p_a = 1 / K.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{Policy, Uniform};
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.001);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// assert_eq!(Uniform.decide(&context, 1).unwrap().pmf, [0.5, 0.5]);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Uniform;

impl Policy for Uniform {
    fn name(&self) -> &'static str {
        "uniform"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let p = 1.0 / context.candidates.len() as f64;
        Ok(Opinion { pmf: vec![p; context.candidates.len()], ..Opinion::default() })
    }

    fn learn(&mut self, _round: &LearntRound<'_>) {}

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(*self)
    }
}
