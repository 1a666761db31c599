//! Off-policy evaluation: what another policy would have brought, from the rounds of one's own journal.
//!
//! The journal knows what one policy took and how probable that was, not what any other action would have given. So
//! rounds are weighed by w = the candidate's probability of what was taken / its propensity, in journal order, while the
//! candidate learns as it would have on trial. r is the round's reward, m a model of it ([`reward_model`]):
//!
//! | Estimator | Formula | What it costs |
//! |---|---|---|
//! | `rejection` | mean r of the rounds that are kept ([`rejection`]) | most rounds |
//! | `ips` | sum w r / n | variance where weights are large |
//! | `snips` | sum w r / sum w | a bias of order 1/n |
//! | `dr` | sum (sum_a p(a) m(a) + w (r - m(taken))) / n | nothing; the better the model, the steadier |
//!
//! For `ips`, `snips` and `dr` the candidate learns from every logged round after it was evaluated on it (progressive
//! validation), as a policy on trial does; for `rejection` a second copy learns from what is kept alone, as if it had
//! acted. Weak feedback teaches and is not evaluated, and money spent without a score is charged. What the journal recorded
//! of neighbours and standings comes from the policy that acted; a candidate that acted would have seen others.
//!
//! What can go wrong: where the logged policy never took what the candidate wants, nothing can be said; that share is
//! `unsupported`, and the first estimates leave it out. A log that could never say anything (no propensities, a
//! deterministic policy's) is refused with the reason ([`Unusable`]), and arms that were not taken as often as was stated are
//! told ([`Miscalibrated`]). Standard errors take the rounds as independent and hold at one number of rounds; intervals are
//! confidence sequences ([`crate::regret::ConfidenceSequence`]), hold at every round at once, and cover the mean over the rounds
//! of what the candidate, as far as it had learnt, was worth:
//!
//! | Estimator | Interval |
//! |---|---|
//! | `ips` | exact where the reward is a score (e2 = 0): w r and w (1 - r) are at least 0, whatever the weights; else asymptotic |
//! | `dr` | asymptotic, of its terms |
//! | `snips`, `rejection` | asymptotic, of the terms by linearisation |
//!
//! The asymptotic ones know beforehand how a term will vary, since the log says with what probability each action, and so
//! each weight, would come. An exact interval for `dr` needs the model clipped where weights are large, and was at best a
//! fifth narrower than that for `ips`.
//!
//! References: Li, Chu, Langford and Wang, Unbiased Offline Evaluation of Contextual-bandit-based News Article
//! Recommendation Algorithms, 2011; Strehl, Langford, Li and Kakade, Learning from Logged Implicit Exploration Data, 2010;
//! Swaminathan and Joachims, The Self-Normalized Estimator for Counterfactual Learning, 2015; Dudik, Langford and Li,
//! Doubly Robust Policy Evaluation and Learning, 2011.

mod calibration;
mod compare;
mod estimate;
mod logged;
mod rejection;
mod report;
mod reward_model;

use std::time::Instant;

use crate::{
    action::{
        policy::{Opinion, Policy, PolicyError},
        sample::{PmfError, normalised},
    },
    round::DecisionId,
};

use calibration::Calibration;
use estimate::{Mean, MeanSquare, RewardMean, Weight, WeightedMean};
use logged::Checked;
use rejection::Rejection;
use reward_model::RewardModel;

pub use calibration::Miscalibrated;
pub use compare::{Comparison, ComparisonReport, Verdict};
pub use estimate::{Estimate, IntervalKind};
pub use logged::{Logged, Refusal, Unusable};
pub use report::{OffPolicyReport, Refused};

/// Refused rounds that are named; the rest are only counted.
const NAMED_MAX: usize = 10;
/// How often an interval may ever miss, unless it is said.
pub const ALPHA: f64 = 0.05;

/// Evaluates one policy. Rounds come in journal order, one at a time, so that any journal fits.
///
/// ```
/// use pointsman::{action::policy::{LearntRound, PolicySettings, build}, replay::off_policy::{Evaluation, Logged}};
/// # use pointsman::round::*;
/// # let arm = |name| Candidate::new(Mode::Single, ArmId::new(name).unwrap(), 0.0);
/// # let embedding = Embedding::new(vec![1.0, 0.0]).unwrap();
/// # let context = Context::new(embedding, Domain::unknown(), vec![arm("a"), arm("b")]);
/// # let decision = |place: usize| Decision {
/// #     id: DecisionId::generate(), task_id: TaskId::generate(), mode: Mode::Single,
/// #     arm: context.candidates[place].arm.clone(), propensity: Propensity::new(0.5).unwrap(),
/// #     pmf: context.candidates.iter()
/// #         .map(|c| Probability { mode: c.mode, arm: c.arm.clone(), p: 0.5, expected: None }).collect(),
/// #     voters: vec![], policy: PolicyRef { name: "uniform".into(), version: 1, card: String::new() }, shadow: None,
/// #     learnt_rounds: 0, state_at: 1, reason: Reason::Explore, seed: place as u64,
/// # };
/// let mut evaluation = Evaluation::new("fixed:a", &|| build("fixed:a", &PolicySettings::default()).unwrap());
/// for round in 0..200 {
///     // Both arms were drawn equally often; a scores 1, b scores 0.
///     let (place, score) = (round % 2, 1.0 - (round % 2) as f64);
///     let round = LearntRound::new(&context, place, score);
///     evaluation.take(&Logged::Verified { decision: &decision(place), round }).unwrap();
/// }
/// let report = evaluation.report();
/// assert_eq!((report.logged.value, report.ips.value), (Some(0.5), Some(1.0)));
/// ```
pub struct Evaluation {
    policy: String,
    looking_on: Box<dyn Policy>,
    rejection: Rejection,
    model: RewardModel,
    logged: RewardMean,
    ips: RewardMean,
    snips: WeightedMean,
    dr: Mean,
    /// What the model of rewards was off by.
    off: MeanSquare,
    calibration: Calibration,
    unsupported_sum: f64,
    /// Verified rounds with more than one candidate, and those of them whose arm was not certain.
    with_choice: u64,
    drawn: u64,
    alpha: f64,
    weak: u64,
    unscored: u64,
    refused: Refused,
    started: Instant,
}

/// What one round says by the doubly robust estimator.
struct Term {
    value: f64,
    /// The mean square of what the model of rewards was off by, before the round.
    off: f64,
    /// What the policy said.
    pmf: Vec<f64>,
}

/// Why an evaluation ended early.
#[derive(Debug, thiserror::Error)]
pub enum OffPolicyError {
    /// The policy had no opinion.
    #[error("{policy} failed on decision {decision}: {source}")]
    Policy {
        /// The policy.
        policy: String,
        /// The decision.
        decision: DecisionId,
        /// Why.
        source: PolicyError,
    },
    /// The policy stated something that is no distribution.
    #[error("what {policy} said of decision {decision} is no distribution: {source}")]
    Pmf {
        /// The policy.
        policy: String,
        /// The decision.
        decision: DecisionId,
        /// Why.
        source: PmfError,
    },
}

impl Evaluation {
    /// Nothing seen yet. `factory` makes a policy that learnt nothing.
    pub fn new(policy: impl Into<String>, factory: &dyn Fn() -> Box<dyn Policy>) -> Self {
        Self {
            policy: policy.into(),
            looking_on: factory(),
            rejection: Rejection::new(factory()),
            model: RewardModel::default(),
            logged: RewardMean::default(),
            ips: RewardMean::default(),
            snips: WeightedMean::default(),
            dr: Mean::default(),
            off: MeanSquare::default(),
            calibration: Calibration::default(),
            unsupported_sum: 0.0,
            with_choice: 0,
            drawn: 0,
            alpha: ALPHA,
            weak: 0,
            unscored: 0,
            refused: Refused::default(),
            started: Instant::now(),
        }
    }

    /// The same with intervals that ever miss with this probability, in (0, 1).
    pub fn with_alpha(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }

    /// Takes the journal's next round. One that cannot be used is refused, counted and named in the report; a policy that
    /// fails ends the evaluation, since a silent fallback would be counted as its own.
    pub fn take(&mut self, logged: &Logged<'_>) -> Result<(), OffPolicyError> {
        self.term(logged).map(|_| ())
    }

    /// Takes the next round, and gives its doubly robust term where it is evaluated.
    fn term(&mut self, logged: &Logged<'_>) -> Result<Option<Term>, OffPolicyError> {
        let checked = match logged.check() {
            Ok(checked) => checked,
            Err(why) => {
                self.refused.add(logged.decision().id, why, NAMED_MAX);
                return Ok(None);
            }
        };
        let mut term = None;
        match logged {
            Logged::Verified { round, .. } => {
                term = Some(self.evaluate(&checked, round.reward)?);
                self.rejection.learn(&self.policy, &checked, round)?;
                self.looking_on.learn(round);
                self.model.learn(round);
            }
            Logged::Weak { round, .. } => {
                self.weak += 1;
                self.rejection.learn(&self.policy, &checked, round)?;
                self.looking_on.learn(round);
            }
            Logged::Unscored { cost_usd, .. } => {
                self.unscored += 1;
                self.rejection.charge(&self.policy, &checked, *cost_usd)?;
                self.looking_on.charge(*cost_usd);
            }
        }
        Ok(term)
    }

    fn evaluate(&mut self, logged: &Checked<'_>, reward: f64) -> Result<Term, OffPolicyError> {
        let Opinion { pmf, .. } = opinion(&self.policy, self.looking_on.as_ref(), logged)?;
        let weight = Weight::of(pmf.iter().copied(), logged);
        let expected = self.model.rewards(logged.context);
        let baseline: f64 = pmf.iter().zip(&expected).map(|(p, expected)| p * expected).sum();
        let off = reward - expected[logged.taken];
        let term =
            Term { value: baseline + weight.value * off, off: self.off.expected(logged.context.weights.e1), pmf };
        let bounded = logged.context.weights.e2 == 0.0 && logged.context.weights.e1 <= 1.0;
        self.logged.add(&Weight::certain(1.0, logged), reward, bounded);
        self.ips.add(&weight, reward, bounded);
        self.snips.add(&weight, reward);
        self.dr.add(&weight, term.value, term.off);
        self.off.add(off);
        self.calibration.add(logged);
        self.with_choice += u64::from(logged.pmf.len() > 1);
        self.drawn += u64::from(logged.pmf.len() > 1 && logged.propensity < 1.0);
        let unsupported = term.pmf.iter().zip(&logged.pmf).filter(|(_, p)| **p == 0.0).map(|(p, _)| p);
        self.unsupported_sum += unsupported.sum::<f64>();
        self.rejection.evaluate(&self.policy, logged, reward)?;
        Ok(term)
    }

    /// Why the log as a whole says nothing, if it does not.
    fn unusable(&self) -> Option<Unusable> {
        let rounds = self.logged.rounds();
        if rounds == 0 {
            let all = self.refused.rounds > 0 && self.refused.rounds == self.refused.without_propensity;
            return all.then_some(Unusable::NoPropensities);
        }
        match (self.with_choice, self.drawn) {
            (0, _) => Some(Unusable::NoChoice),
            (_, 0) => Some(Unusable::Deterministic),
            _ => None,
        }
    }

    /// What was found so far.
    pub fn report(&self) -> OffPolicyReport {
        let (rounds, unusable) = (self.logged.rounds(), self.unusable());
        let estimate = |of: &dyn Fn(f64) -> Estimate| {
            if unusable.is_some() {
                return Estimate::default();
            }
            let mut estimate = of(self.alpha);
            estimate.warn(rounds);
            estimate
        };
        OffPolicyReport {
            policy: self.policy.clone(),
            rounds,
            weak: self.weak,
            unscored: self.unscored,
            refused: self.refused.clone(),
            unusable,
            miscalibrated: self.calibration.wrong(),
            alpha: self.alpha,
            unsupported: if rounds == 0 { 0.0 } else { self.unsupported_sum / rounds as f64 },
            logged: self.logged.estimate(self.alpha),
            rejection: estimate(&|alpha| self.rejection.estimate(alpha)),
            ips: estimate(&|alpha| self.ips.estimate(alpha)),
            snips: estimate(&|alpha| self.snips.estimate(alpha)),
            dr: estimate(&|alpha| self.dr.estimate(alpha)),
            seconds: self.started.elapsed().as_secs_f64(),
        }
    }
}

/// What a policy says of a logged context. It sees the seed of the decision: its posterior draws are independent of the
/// draw of the action, which has a stream of its own, and the policy that acted says again what it said.
fn opinion(name: &str, policy: &dyn Policy, logged: &Checked<'_>) -> Result<Opinion, OffPolicyError> {
    let decision = logged.decision;
    let mut opinion = policy.decide(logged.context, logged.seed).map_err(|source| OffPolicyError::Policy {
        policy: name.into(),
        decision,
        source,
    })?;
    opinion.pmf =
        normalised(opinion.pmf).map_err(|source| OffPolicyError::Pmf { policy: name.into(), decision, source })?;
    Ok(opinion)
}

#[cfg(test)]
mod interval_tests;
#[cfg(test)]
mod tests;
