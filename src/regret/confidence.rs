//! Confidence sequences for a running mean: intervals that hold at every round at once.
//!
//! People look at a figure while its data comes in and stop when they like it; an ordinary interval, which holds at one
//! stated number of rounds, then errs far more often than it says. A confidence sequence may be looked at after each
//! round, for ever: the chance that it ever misses is alpha. What it covers is (1/n) sum E[x_i | what came before], the
//! mean of the terms' conditional means, so the terms may come from a policy that learns; they need not be alike.
//!
//! | Sequence | Asks of the terms | Holds |
//! |---|---|---|
//! | [`ConfidenceSequence`] | a variance that settles | in the limit, as the central limit theorem does; from a burn-in on |
//! | [`EmpiricalBernstein`] | a value in \[0, 1\], times a weight of mean 1 | exactly, from the first round on; a few per cent wider where weights are alike |
//!
//! What can go wrong: the first believes the variance that was seen, so it is too narrow while rare terms that carry much
//! of it have not come. It gives nothing before 100 rounds, nor while the squared deviations are worth fewer than 20.
//!
//! References: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence
//! sequences, 2024; Howard, Ramdas, McAuliffe and Sekhon, Time-uniform, nonparametric, nonasymptotic confidence sequences,
//! 2021; Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, Anytime-valid off-policy inference for contextual bandits,
//! 2022.

use serde::{Deserialize, Serialize};

/// Where sequences are tightest, unless it is said.
const ROUNDS: u64 = 1_000;
/// Fewer rounds say nothing of a variance.
const ROUNDS_MIN: u64 = 100;
/// (sum d^2)^2 / sum d^4, with d a term's distance from the mean: how many equal squares would say as much. Below it a few
/// terms are most of the variance, and more of their kind have yet to come.
const SQUARES_MIN: f64 = 20.0;

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
}

impl Default for ConfidenceSequence {
    fn default() -> Self {
        Self::tightest_at(ROUNDS)
    }
}

impl ConfidenceSequence {
    /// Nothing seen yet; tightest at so many rounds.
    pub fn tightest_at(rounds: u64) -> Self {
        Self { tightest_at: rounds.max(1), n: 0, mean: 0.0, m2: 0.0, m3: 0.0, m4: 0.0 }
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

    /// Terms so far.
    pub fn rounds(&self) -> u64 {
        self.n
    }

    /// Their mean.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then_some(self.mean)
    }

    /// Their sample variance.
    pub fn variance(&self) -> Option<f64> {
        (self.n > 1).then(|| (self.m2 / (self.n as f64 - 1.0)).max(0.0))
    }

    /// The interval at this round, of a sequence that ever misses with probability `alpha`, in (0, 1). None during the
    /// burn-in, and while all terms were the same.
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        let settled = self.n >= ROUNDS_MIN && self.m2 > 0.0 && self.m2 * self.m2 >= SQUARES_MIN * self.m4;
        let variance = self.variance().filter(|_| settled && alpha > 0.0 && alpha < 1.0)?;
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

/// The empirical-Bernstein confidence sequence of weighed values in \[0, 1\], by two one-sided ones: w r is above 0 and so
/// bounds the mean from below, w (1 - r) does the same for what is missing to 1. So no bound on the weights is asked for.
///
/// Each side, for terms x >= 0 with centres c <= 1 that were known before (here the mean so far): with S the sum of
/// x_i - E x_i and V that of (x_i - c_i)^2, exp(l S - V (-ln(1 - l) - l)) is a supermartingale for l in \[0, 1) (Fan et al.,
/// 2015); mixed over l with a gamma density of 1 - l it is rho / (V + rho) * F(V + rho + 1, S + V + rho) / F(rho + 1, rho), with
/// F(b, x) = 1F1(1; b; x), and the bound is where it reaches 1 / alpha.
///
/// ```
/// use pointsman::regret::EmpiricalBernstein;
/// let mut sequence = EmpiricalBernstein::default();
/// for round in 0..1_000 {
///     sequence.add(1.0, f64::from(round % 4 == 0));
/// }
/// let interval = sequence.interval(0.05).unwrap();
/// assert!(interval.contains(0.25) && interval.width() < 0.12);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmpiricalBernstein {
    reached: Side,
    missing: Side,
}

/// Sums of terms that are at least 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Side {
    n: u64,
    sum: f64,
    variation: f64,
}

impl EmpiricalBernstein {
    /// Adds a value in \[0, 1\] with its weight of at least 0, whose conditional mean is 1. What is out of range is left out.
    pub fn add(&mut self, weight: f64, value: f64) {
        if weight >= 0.0 && weight.is_finite() && (0.0..=1.0).contains(&value) {
            self.reached.add(weight * value);
            self.missing.add(weight * (1.0 - value));
        }
    }

    /// Values so far.
    pub fn rounds(&self) -> u64 {
        self.reached.n
    }

    /// The mean of the weighed values.
    pub fn mean(&self) -> Option<f64> {
        (self.reached.n > 0).then(|| self.reached.sum / self.reached.n as f64)
    }

    /// The interval at this round, within \[0, 1\], of a sequence that ever misses with probability `alpha`, in (0, 1).
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        if self.reached.n == 0 || !(alpha > 0.0 && alpha < 1.0) {
            return None;
        }
        let low = self.reached.bound(alpha / 2.0).clamp(0.0, 1.0);
        let high = (1.0 - self.missing.bound(alpha / 2.0)).clamp(0.0, 1.0);
        Some(Interval { low: low.min(high), high: high.max(low) })
    }
}

impl Side {
    fn add(&mut self, term: f64) {
        // Half a term of one half stands in for the mean before there is one.
        let centre = ((self.sum + 0.25) / (self.n as f64 + 0.5)).min(1.0);
        self.variation += (term - centre) * (term - centre);
        self.sum += term;
        self.n += 1;
    }

    /// Below this the mean is, at some round, with probability `alpha` at most.
    fn bound(&self, alpha: f64) -> f64 {
        let n = self.n as f64;
        (self.sum - boundary(self.variation, 0.25 * ROUNDS as f64 / mixing(2.0 * alpha), alpha)) / n
    }
}

/// How far a sum of terms of conditional mean 0, each at least -1 and at most 1, may ever be from 0 with probability
/// 1 - `alpha`, where `variation` is the sum of their squares: [`EmpiricalBernstein`]'s bound, on both sides.
pub(crate) fn furthest(variation: f64, alpha: f64) -> f64 {
    boundary(variation, 0.25 * ROUNDS as f64 / mixing(alpha), alpha / 2.0)
}

/// The S at which the gamma-exponential mixture reaches 1 / alpha, for a variation v.
fn boundary(v: f64, rho: f64, alpha: f64) -> f64 {
    if !v.is_finite() {
        return f64::INFINITY;
    }
    let wanted = (v + rho) / (rho * alpha) * confluent(rho + 1.0, rho, f64::INFINITY);
    let reaches = |s: f64| confluent(v + rho + 1.0, s + v + rho, wanted) >= wanted;
    let mut high = (v + rho).sqrt();
    while !reaches(high) {
        high *= 2.0;
    }
    let mut low = 0.0;
    while high - low > 1e-7 * high {
        let middle = 0.5 * (low + high);
        if reaches(middle) { high = middle } else { low = middle }
    }
    high
}

/// 1F1(1; b; x) for b > 1 and x >= 0 by its series x^k / (b (b + 1) ... (b + k - 1)), or what of it is above `enough`.
fn confluent(b: f64, x: f64, enough: f64) -> f64 {
    let (mut sum, mut term, mut next) = (1.0, 1.0, b);
    while sum < enough && (term > 1e-15 * sum || next < x) {
        term *= x / next;
        sum += term;
        next += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests;
