//! Llm: what a language model that routes proposed for the task.
//!
//! The model is asked while the task is observed, by the modes' own code, and what it said came with the context. So this policy asks
//! nobody and draws nothing: a replay gives the same probabilities, bit for bit. It learns nothing either; in a vote its weight is
//! learnt like any voter's. Without a proposal that can be used it abstains: the model was not asked or could not be, wrote nothing
//! that can be read, or proposed what no candidate is.

use serde::Deserialize;

use super::{LearntRound, Opinion, Policy, PolicyError, card::Checks};
use crate::round::{Candidate, Context, Proposal};

/// p = (1 - floor) for the candidate proposed, and floor shared by all. Where the proposal has a mode and no worker that is a candidate
/// in it, the mode's candidates share what the one would have.
///
/// ```
/// # use pointsman::round::*;
/// use pointsman::action::policy::{Llm, LlmPolicySettings, Policy};
/// # let arm = |name| ArmId::new(name).unwrap();
/// # let candidates = [Mode::Single, Mode::Multi].map(|mode| Candidate::new(mode, arm("a"), 0.001)).to_vec();
/// # let mut context = Context::new(Embedding::new(vec![1.0, 0.0]).unwrap(), Domain::unknown(), candidates);
/// let policy = Llm::new(LlmPolicySettings { floor: 0.2 });
/// assert!(policy.decide(&context, 1).is_err(), "nobody proposed anything");
/// let proposal = Proposal::new(Dialect::Routeweaver, vec![arm("a")]);
/// context.proposal = Some(Proposal { mode: Some(Mode::Multi), arm: Some(arm("a")), ..proposal });
/// assert_eq!(policy.decide(&context, 1).unwrap().pmf, [0.1, 0.9]);
/// ```
#[derive(Debug, Clone)]
pub struct Llm {
    settings: LlmPolicySettings,
}

/// Settings of [`Llm`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmPolicySettings {
    /// The share of all candidates alike, in [0, 1].
    pub floor: f64,
}

impl LlmPolicySettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("floor", self.floor, 0.0, 1.0);
    }
}

impl Llm {
    /// It needs no state.
    pub fn new(settings: LlmPolicySettings) -> Self {
        Self { settings }
    }
}

impl Policy for Llm {
    fn name(&self) -> &'static str {
        "llm"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let candidates = &context.candidates;
        if candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let abstains = |why| PolicyError::Abstains { policy: self.name(), why };
        let Some(Proposal { mode: Some(mode), arm, .. }) = &context.proposal else {
            return Err(abstains("no language model proposed a mode"));
        };
        let in_mode = |candidate: &Candidate| candidate.mode == *mode;
        let named = |candidate: &Candidate| in_mode(candidate) && arm.as_ref() == Some(&candidate.arm);
        let is_named = candidates.iter().any(named);
        let proposed = |candidate: &Candidate| if is_named { named(candidate) } else { in_mode(candidate) };
        let alike = candidates.iter().filter(|candidate| proposed(candidate)).count();
        if alike == 0 {
            return Err(abstains("no arm may be run in the mode that was proposed"));
        }
        let floor = self.settings.floor / candidates.len() as f64;
        let share = (1.0 - self.settings.floor) / alike as f64;
        let p = |candidate: &Candidate| floor + if proposed(candidate) { share } else { 0.0 };
        Ok(Opinion { pmf: candidates.iter().map(p).collect(), ..Opinion::default() })
    }

    fn learn(&mut self, _round: &LearntRound<'_>) {}

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{ArmId, Dialect, Domain, Embedding, Mode};

    fn context(mode: Option<Mode>, named: Option<&str>) -> Context {
        let arm = |name: &str| ArmId::new(name).unwrap();
        let ways = [(Mode::Single, "a"), (Mode::Single, "b"), (Mode::Multi, "a"), (Mode::Multi, "b")];
        let candidates = ways.map(|(mode, name)| Candidate::new(mode, arm(name), 0.001)).to_vec();
        let proposal = Proposal::new(Dialect::Routeweaver, vec![arm("a"), arm("b")]);
        Context {
            proposal: Some(Proposal { mode, arm: named.map(arm), ..proposal }),
            ..Context::new(Embedding::new(vec![1.0, 0.0]).unwrap(), Domain::unknown(), candidates)
        }
    }

    #[test]
    fn the_proposal_gets_all_but_the_floor() {
        let policy = Llm::new(LlmPolicySettings { floor: 0.1 });
        let pmf = |mode, arm| policy.decide(&context(mode, arm), 7).map(|opinion| opinion.pmf);
        let near = |found: Vec<f64>, wanted: [f64; 4]| {
            assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{found:?}");
        };
        near(pmf(Some(Mode::Multi), Some("b")).unwrap(), [0.025, 0.025, 0.025, 0.925]);
        near(pmf(Some(Mode::Single), None).unwrap(), [0.475, 0.475, 0.025, 0.025]);
        // Masked since it was asked: the mode stands.
        near(pmf(Some(Mode::Single), Some("c")).unwrap(), [0.475, 0.475, 0.025, 0.025]);
        for (mode, why) in [(None, "no language model proposed"), (Some(Mode::Agentic), "no arm may be run")] {
            let error = pmf(mode, Some("a")).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        for floor in [0.0, 0.3, 1.0] {
            let policy = Llm::new(LlmPolicySettings { floor });
            let pmf = policy.decide(&context(Some(Mode::Multi), None), 7).unwrap().pmf;
            assert!((pmf.iter().sum::<f64>() - 1.0).abs() < 1e-12 && pmf.iter().all(|p| *p >= floor / 4.0));
        }
    }
}
