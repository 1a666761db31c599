//! Shrinkage: what to expect of an arm in a domain from few rounds, as all policies of counts compute it.
//!
//! An arm's mean in a domain is shrunk toward its mean everywhere, and that toward a guess, so that neither a new
//! domain nor a new arm starts from nothing. It goes wrong where a domain is unlike all others: then it takes about
//! `domain_mass` rounds to find out.

use serde::Deserialize;

use super::{
    Standings, action_of,
    card::{Checks, LARGE, TINY},
    standings::Cell,
};
use crate::round::{Candidate, Domain};

/// How much little is believed.
///
/// global_a = (sum_a + M g) / (n_a + M); mean_ad = (sum_ad + m global_a) / (n_ad + m).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShrinkageSettings {
    /// g: the score expected of an arm never tried, in [0, 1].
    pub prior_mean: f64,
    /// M: rounds that the expectation counts for, above 0.
    pub arm_mass: f64,
    /// m: rounds that an arm's mean everywhere counts for in a domain, above 0; 4 to 10 work.
    pub domain_mass: f64,
}

/// What is expected of one candidate in one domain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shrunk {
    /// mean_ad.
    pub(super) mean: f64,
    /// global_a.
    pub(super) everywhere: f64,
    /// What was seen in the domain itself.
    pub(super) here: Cell,
    /// The rounds that the mean is worth: n_ad + 1 / (1 / m + 1 / (n_a + M)).
    ///
    /// The second term is the precision of global_a as a guess of the domain's mean, in rounds: the domain strays from
    /// it as the mean of m rounds would, and it is itself the mean of n_a + M. So rounds elsewhere count for at
    /// most m, and an arm never tried for a little less than the smaller of m and M, never for 0.
    pub(super) rounds: f64,
}

impl ShrinkageSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.number("prior_mean", self.prior_mean, 0.0, 1.0);
        checks.number("arm_mass", self.arm_mass, TINY, LARGE);
        checks.number("domain_mass", self.domain_mass, TINY, LARGE);
    }

    pub(super) fn shrunk(&self, standings: &Standings, domain: &Domain, candidate: &Candidate) -> Shrunk {
        let Self { prior_mean, arm_mass, domain_mass } = *self;
        let action = action_of(candidate);
        let (total, here) = (standings.total(&action), standings.cell(domain, &action));
        let everywhere = total.shrunk_mean(prior_mean, arm_mass);
        let elsewhere = 1.0 / (1.0 / domain_mass + 1.0 / (total.n + arm_mass));
        Shrunk { mean: here.shrunk_mean(everywhere, domain_mass), everywhere, here, rounds: here.n + elsewhere }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::environment::context, *};

    #[test]
    fn a_new_domain_starts_from_what_the_arm_did_elsewhere() {
        let shrinkage = ShrinkageSettings { prior_mean: 0.5, arm_mass: 4.0, domain_mass: 4.0 };
        let candidate = &context(1).candidates[0];
        let mut standings = Standings::default();
        let untried = shrunk(&shrinkage, &standings, candidate);
        assert_eq!((untried.mean, untried.rounds), (0.5, 2.0));
        for _ in 0..8 {
            standings.add(&Domain::new("elsewhere").unwrap(), action_of(candidate), 1.0, 1.0);
        }
        // (8 + 4 * .5) / 12 = 5 / 6; 1 / (1 / 4 + 1 / 12) = 3 rounds.
        let new_domain = shrunk(&shrinkage, &standings, candidate);
        assert!((new_domain.mean - 5.0 / 6.0).abs() < 1e-12 && (new_domain.rounds - 3.0).abs() < 1e-12);
        standings.add(&Domain::unknown(), action_of(candidate), 1.0, 1.0);
        assert!(shrunk(&shrinkage, &standings, candidate).rounds > 4.0);
    }

    fn shrunk(shrinkage: &ShrinkageSettings, standings: &Standings, candidate: &Candidate) -> Shrunk {
        shrinkage.shrunk(standings, &Domain::unknown(), candidate)
    }
}
