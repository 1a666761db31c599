//! Any policy as a cascade: it is asked again for the arms that were not tried, until an answer is right.

use serde_json::Value;

use super::{Attempt, Cascade, NextStep, SOLVED, best_score};
use crate::{
    action::policy::{Action, LearntRound, Opinion, Policy, PolicyError, StateError, scale},
    round::Context,
};

/// Verify and escalate: a policy picks among the arms not tried yet, until an answer is right, no arm is left, or none is
/// expected to bring more than it costs.
///
/// An arm's expected gain is (e1 * expected score + e2 * its cost) - e1 * the best score so far, from the policy's own
/// estimates as if nothing had failed; a policy that estimates nothing goes on to the end. Each attempt is learnt as a round
/// of its own, in the context of the arms that were left.
///
/// Reference: the verify-and-escalate cascade of Agent-as-a-Router (arXiv 2606.22902), with a learner in place of its fixed
/// chain.
pub struct Escalate {
    policy: Box<dyn Policy>,
}

impl Escalate {
    /// Asks this policy.
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Self { policy }
    }
}

/// The context without the arms that were tried, and where the others stood.
fn untried(context: &Context, attempts: &[Attempt]) -> (Context, Vec<usize>) {
    let left: Vec<usize> =
        (0..context.candidates.len()).filter(|place| !attempts.iter().any(|attempt| attempt.place == *place)).collect();
    let candidates = left.iter().map(|place| context.candidates[*place].clone()).collect();
    (Context { candidates, ..context.clone() }, left)
}

impl Cascade for Escalate {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn next(&self, context: &Context, attempts: &[Attempt], seed: u64) -> Result<NextStep, PolicyError> {
        let mut step = NextStep { pmf: vec![0.0; context.candidates.len()], ..NextStep::default() };
        let best = best_score(attempts);
        let (left_over, left) = untried(context, attempts);
        if left.is_empty() || best >= SOLVED {
            step.stop = 1.0;
            return Ok(step);
        }
        let Opinion { pmf, expected, voters, .. } = match self.policy.decide(&left_over, seed) {
            // A policy of one arm has nothing to escalate to.
            Err(PolicyError::NotEligible(_)) if !attempts.is_empty() => {
                step.stop = 1.0;
                return Ok(step);
            }
            opinion => opinion?,
        };
        let gained = context.weights.e1 * best;
        let gains = expected.iter().any(|utility| utility * scale(&left_over) > gained);
        if !(attempts.is_empty() || expected.is_empty() || gains) {
            step.stop = 1.0;
            return Ok(step);
        }
        left.iter().zip(pmf).for_each(|(place, p)| step.pmf[*place] = p);
        step.voters = voters;
        Ok(step)
    }

    fn learn(&mut self, context: &Context, attempts: &[Attempt]) {
        for (made, attempt) in attempts.iter().enumerate() {
            let (left_over, _) = untried(context, &attempts[..made]);
            let round = attempt.round(&left_over, &context.candidates[attempt.place]);
            self.policy.learn(&round);
        }
    }

    fn snapshot(&self) -> Box<dyn Cascade> {
        Box::new(Self { policy: self.policy.snapshot() })
    }

    fn state(&self) -> Value {
        self.policy.state()
    }

    fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        self.policy.restore(state)
    }
}

impl Attempt {
    /// The attempt as a round of its own, which took `candidate` in `context`.
    pub fn round<'a>(&'a self, context: &'a Context, candidate: &'a crate::round::Candidate) -> LearntRound<'a> {
        LearntRound {
            context,
            mode: candidate.mode,
            arm: &candidate.arm,
            propensity: self.propensity,
            seed: self.seed,
            voters: &self.voters,
            score: self.score,
            reward: context.weights.reward(self.score, self.cost_usd),
            cost_usd: self.cost_usd,
            trust: 1.0,
            probing: false,
        }
    }
}
