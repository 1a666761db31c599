//! Confidence sequences for a running mean: intervals that hold at every round at once.
//!
//! People look at a figure while its data comes in and stop when they like it; an ordinary interval, which holds at one
//! stated number of rounds, then errs far more often than it says. A confidence sequence may be looked at after each
//! round, for ever: the chance that it ever misses is alpha. What it covers is (1/n) sum E[x_i | what came before], the
//! mean of the terms' conditional means, so the terms may come from a policy that learns; they need not be alike.
//!
//! | Sequence | Asks of the terms | Holds |
//! |---|---|---|
//! | [`ConfidenceSequence`] | a variance that is known in the end | in the limit, as the central limit theorem does; from a burn-in on |
//! | [`EmpiricalBernstein`] | a value in \[0, 1\], times a weight of mean 1 | exactly, from the first round on; a few per cent wider where weights are alike |
//!
//! What can go wrong: the first believes a variance that was seen, and is too narrow while rare terms that carry much of it
//! have not come: on the tests' streams whose weights grow after 500 rounds it loses the truth in one of six. So whoever
//! knows beforehand how a term will vary, as one does who knows the weights that it may get, says so
//! ([`ConfidenceSequence::add_expecting`]): the larger of both variances counts, and it holds there. It gives nothing before
//! 100 rounds, nor while a few terms are most of the variance.
//!
//! References: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence
//! sequences, 2024; Howard, Ramdas, McAuliffe and Sekhon, Time-uniform, nonparametric, nonasymptotic confidence sequences,
//! 2021; Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, Anytime-valid off-policy inference for contextual bandits,
//! 2022.

mod bernstein;

use serde::{Deserialize, Serialize};

pub use bernstein::EmpiricalBernstein;
pub(crate) use bernstein::furthest;

/// Where sequences are tightest, unless it is said.
const ROUNDS: u64 = 1_000;
/// Fewer rounds say nothing of a variance.
const ROUNDS_MIN: u64 = 100;
/// (sum d^2)^2 / sum d^4, with d a term's distance from the mean: how many equal squares would say as much. Below it a few
/// terms are most of the variance, and more of their kind have yet to come.
const SQUARES_MIN: f64 = 20.0;
/// The same where it was known beforehand how terms would vary, for what was seen and for what was expected.
const EXPECTED_SQUARES_MIN: f64 = 5.0;

/// Both ends are part of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` is in it.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// How wide it is.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The asymptotic confidence sequence: mean -+ sd * sqrt(2 (n rho^2 + 1) / (n^2 rho^2) * ln(sqrt(n rho^2 + 1) / alpha)),
/// with rho^2 = (2 ln(1 / alpha) + ln(2 ln(1 / alpha) + 1)) / n0, which makes it tightest at n0 rounds (theorem 2.2 and
/// appendix B.2 of the paper). At ten times as many rounds it is 7 % wider than it could be, at a
/// tenth 27 %.
///
/// ```
/// use pointsman::regret::ConfidenceSequence;
/// let mut sequence = ConfidenceSequence::default();
/// for round in 0..1_000 {
///     sequence.add(f64::from(round % 4 == 0));
/// }
/// let interval = sequence.interval(0.05).unwrap();
/// assert!(interval.contains(0.25) && interval.width() < 0.1);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceSequence {
    tightest_at: u64,
    n: u64,
    mean: f64,
    /// Sums of the second, third and fourth powers of the distances from the mean.
    m2: f64,
    m3: f64,
    m4: f64,
    /// Terms whose powers were expected, and the sums of the second and fourth ones.
    expecting: u64,
    squares: f64,
    fourths: f64,
}

impl Default for ConfidenceSequence {
    fn default() -> Self {
        Self::tightest_at(ROUNDS)
    }
}

impl ConfidenceSequence {
    /// Nothing seen yet; tightest at so many rounds.
    pub fn tightest_at(rounds: u64) -> Self {
        Self {
            tightest_at: rounds.max(1),
            n: 0,
            mean: 0.0,
            m2: 0.0,
            m3: 0.0,
            m4: 0.0,
            expecting: 0,
            squares: 0.0,
            fourths: 0.0,
        }
    }

    /// Adds the next term. One that is not finite is left out, since it would end all that is known.
    pub fn add(&mut self, term: f64) {
        if !term.is_finite() {
            return;
        }
        // One step of the update of central moments by Pebay, 2008.
        let before = self.n as f64;
        self.n += 1;
        let n = self.n as f64;
        let delta = term - self.mean;
        let step = delta / n;
        let square = delta * step * before;
        self.mean += step;
        self.m4 += square * step * step * (n * n - 3.0 * n + 3.0) + 6.0 * step * step * self.m2 - 4.0 * step * self.m3;
        self.m3 += square * step * (n - 2.0) - 3.0 * step * self.m2;
        self.m2 += square;
    }

    /// Adds the next term, of which was known before it came what the square and the fourth power of its distance from its
    /// mean would be on average, or somewhat more. For a term w y in which the weight w is drawn by known probabilities
    /// these are E w^2 E y^2 and E w^4 (E y^2)^2, whatever w came.
    pub fn add_expecting(&mut self, term: f64, square: f64, fourth: f64) {
        if term.is_finite() && square.is_finite() && fourth.is_finite() {
            self.add(term);
            self.expecting += 1;
            self.squares += square;
            self.fourths += fourth;
        }
    }

    /// Terms so far.
    pub fn rounds(&self) -> u64 {
        self.n
    }

    /// Their mean.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then_some(self.mean)
    }

    /// Their sample variance, or the one that was expected of them, if that is larger.
    pub fn variance(&self) -> Option<f64> {
        let expected = if self.expecting == self.n { self.squares / self.n as f64 } else { 0.0 };
        (self.n > 1).then(|| (self.m2 / (self.n as f64 - 1.0)).max(expected).max(0.0))
    }

    /// Whether enough terms make up the variance.
    fn is_settled(&self) -> bool {
        let seen = |least: f64| self.m2 > 0.0 && self.m2 * self.m2 >= least * self.m4;
        self.n >= ROUNDS_MIN
            && if self.expecting == self.n {
                let expected = self.squares * self.squares >= EXPECTED_SQUARES_MIN * self.fourths;
                expected && seen(EXPECTED_SQUARES_MIN)
            } else {
                seen(SQUARES_MIN)
            }
    }

    /// The interval at this round, of a sequence that ever misses with probability `alpha`, in (0, 1). None during the
    /// burn-in, and while all terms were the same.
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        let variance = self.variance().filter(|_| self.is_settled() && alpha > 0.0 && alpha < 1.0)?;
        let half = self.half_width(self.n as f64, alpha) * variance.sqrt();
        Some(Interval { low: self.mean - half, high: self.mean + half })
    }

    /// About how many rounds it takes until the interval is no wider than `half` on either side, at the variance so far.
    pub fn rounds_until(&self, half: f64, alpha: f64) -> Option<u64> {
        let deviation = self.variance()?.sqrt();
        if !(half > 0.0 && deviation > 0.0 && alpha > 0.0 && alpha < 1.0) {
            return None;
        }
        let wide = |rounds: u64| self.half_width(rounds as f64, alpha) * deviation > half;
        let mut high = ROUNDS_MIN;
        while wide(high) {
            high = high.checked_mul(2)?;
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if wide(middle) { low = middle } else { high = middle }
        }
        Some(high)
    }

    /// Half the width after n rounds, in standard deviations.
    fn half_width(&self, n: f64, alpha: f64) -> f64 {
        let scaled = n * mixing(alpha) / self.tightest_at as f64;
        (2.0 * (scaled + 1.0) / (n * scaled) * ((scaled + 1.0).sqrt() / alpha).ln()).sqrt()
    }
}

/// Rounds times rho^2 where a normal mixture is tightest.
fn mixing(alpha: f64) -> f64 {
    let surprise = -2.0 * alpha.ln();
    surprise + (surprise + 1.0).ln()
}

#[cfg(test)]
mod tests;
