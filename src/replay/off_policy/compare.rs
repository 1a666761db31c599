//! Which of two policies would have brought more, from the same rounds.
//!
//! Each round has a doubly robust term of either policy; their differences have a confidence sequence of their own. What a
//! round brought is in both terms, so most of its noise is not in the difference: two policies that mostly agree are told
//! apart long before their own intervals part. The sequence holds at every round at once, so the comparison may be made as
//! often as one likes while rounds come in, and ended when it says something.

use serde::Serialize;

use super::{Evaluation, Logged, OffPolicyError, OffPolicyReport, estimate::Weight};
use crate::regret::{ConfidenceSequence, Interval};

/// Two policies on the same rounds.
pub struct Comparison {
    a: Evaluation,
    b: Evaluation,
    difference: ConfidenceSequence,
    alpha: f64,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonReport {
    /// The first policy.
    pub a: OffPolicyReport,
    /// The second.
    pub b: OffPolicyReport,
    /// The mean of the differences between their doubly robust terms, the first's less the second's.
    pub difference: Option<f64>,
    /// Where the true one is, at every round at once (asymptotic).
    pub interval: Option<Interval>,
    /// How often the interval may ever miss.
    pub alpha: f64,
    /// What follows from it.
    pub verdict: Verdict,
    /// About how many more rounds would show a difference of this size, at this variance. Absent where it is told already,
    /// and where there is no difference to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_rounds: Option<u64>,
}

/// Which policy is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The first.
    A,
    /// The second.
    B,
    /// Both said the same of every round.
    Same,
    /// It cannot be told yet.
    Unknown,
}

impl Comparison {
    /// Two evaluations that have seen nothing yet; intervals ever miss with probability `alpha`, in (0, 1).
    pub fn new(a: Evaluation, b: Evaluation, alpha: f64) -> Self {
        Self { a: a.with_alpha(alpha), b: b.with_alpha(alpha), difference: ConfidenceSequence::default(), alpha }
    }

    /// Takes the log's next round, as [`Evaluation::take`] does.
    pub fn take(&mut self, logged: &Logged<'_>) -> Result<(), OffPolicyError> {
        let (a, b) = (self.a.term(logged)?, self.b.term(logged)?);
        let (Some(a), Some(b), Ok(checked)) = (a, b, logged.check()) else { return Ok(()) };
        // The models are the same; the weight of what they are off by is the difference of both weights.
        let weight = Weight::of(a.pmf.iter().zip(&b.pmf).map(|(a, b)| a - b), &checked);
        let (square, fourth) = weight.powers(a.off);
        self.difference.add_expecting(a.value - b.value, square, fourth);
        Ok(())
    }

    /// What was found so far.
    pub fn report(&self) -> ComparisonReport {
        let (a, b) = (self.a.report(), self.b.report());
        let usable = a.unusable.is_none();
        let difference = self.difference.mean().filter(|_| usable);
        let interval = self.difference.interval(self.alpha).filter(|_| usable);
        let same = difference == Some(0.0) && self.difference.variance() == Some(0.0);
        let verdict = match interval {
            _ if same => Verdict::Same,
            Some(Interval { low, .. }) if low > 0.0 => Verdict::A,
            Some(Interval { high, .. }) if high < 0.0 => Verdict::B,
            Some(_) | None => Verdict::Unknown,
        };
        let more_rounds = difference.filter(|_| verdict == Verdict::Unknown).and_then(|difference| {
            let rounds = self.difference.rounds_until(difference.abs(), self.alpha)?;
            Some(rounds.saturating_sub(self.difference.rounds())).filter(|more| *more > 0)
        });
        ComparisonReport { a, b, difference, interval, alpha: self.alpha, verdict, more_rounds }
    }
}
