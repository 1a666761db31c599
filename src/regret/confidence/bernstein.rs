//! The empirical-Bernstein confidence sequence, which holds at any number of rounds.

use serde::{Deserialize, Serialize};

use super::{Interval, ROUNDS, mixing};

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
pub(super) fn boundary(v: f64, rho: f64, alpha: f64) -> f64 {
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
