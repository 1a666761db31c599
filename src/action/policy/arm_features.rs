//! What is known of each candidate when a task is decided, as a few numbers: what made few rounds enough.
//!
//! Neighbours and standings say more of an arm on a task than the text does until rounds are many. The numbers are
//! written into the context, and so into the journal: feedback that comes later teaches what the policy saw then.

use super::{
    Standings, action_of,
    recalled::{Recalled, nearness},
};
use crate::round::{ArmFeatures, Context};

/// The score expected of an arm never tried.
const UNKNOWN_MEAN: f64 = 0.5;
/// Rounds that this counts for.
const ARM_MASS: f64 = 4.0;
/// Rounds that an arm's mean everywhere counts for in a domain.
const DOMAIN_MASS: f64 = 6.0;

/// Fills in every candidate's features from the context's neighbours and what was learnt so far.
///
/// recall_mean = sum s_i y_i / sum s_i over the neighbours that tried the candidate, s_i their similarity and y_i their
/// score; recall_mass = sum s_i; recall_spread the weighted standard deviation. prior_mean is the candidate's mean score
/// in the domain, shrunk to its mean everywhere, and prior_rounds the rounds seen in the domain.
pub fn observe(context: &mut Context, standings: &Standings) {
    let Context { candidates, neighbours, domain, .. } = context;
    for candidate in candidates {
        let action = action_of(candidate);
        let everywhere = standings.total(&action).shrunk_mean(UNKNOWN_MEAN, ARM_MASS);
        let here = standings.cell(domain, &action);
        let recalled = Recalled::of(neighbours, candidate, |near| nearness(near.similarity.into(), 1.0));
        let (mean, spread) = mean_and_spread(&recalled);
        candidate.features = ArmFeatures {
            recall_mean: mean as f32,
            recall_mass: recalled.mass as f32,
            recall_spread: spread as f32,
            prior_mean: here.shrunk_mean(everywhere, DOMAIN_MASS) as f32,
            prior_rounds: here.n as f32,
            ..candidate.features
        };
    }
}

fn mean_and_spread(recalled: &Recalled) -> (f64, f64) {
    if recalled.mass <= 0.0 {
        return (0.0, 0.0);
    }
    let mean = recalled.sum / recalled.mass;
    (mean, (recalled.squares / recalled.mass - mean * mean).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::{super::environment::context, *};
    use crate::round::{Domain, Mode, Neighbour, TaskId, TriedArm};

    #[test]
    fn neighbours_and_standings_become_numbers() {
        let mut seen = context(2);
        let arm = seen.candidates[0].arm.clone();
        let neighbour = |similarity, score| Neighbour {
            seq: 0,
            task_id: TaskId::new("t").unwrap(),
            similarity,
            domain: None,
            outcomes: vec![TriedArm {
                mode: Mode::Single,
                arm: arm.clone(),
                score,
                cost_usd: 0.0,
                trace: String::new(),
            }],
        };
        seen.neighbours = vec![neighbour(0.9, 1.0), neighbour(0.6, 0.0), neighbour(-0.2, 1.0)];
        let mut standings = Standings::default();
        for score in [1.0, 1.0, 0.0, 1.0] {
            standings.add(&Domain::unknown(), (Mode::Single, arm.clone()), score, 1.0);
        }
        observe(&mut seen, &standings);
        let ArmFeatures { recall_mean, recall_mass, recall_spread, prior_mean, prior_rounds, .. } =
            seen.candidates[0].features;
        assert!((recall_mean - 0.6).abs() < 1e-6 && (recall_mass - 1.5).abs() < 1e-6);
        assert!((recall_spread - 0.24_f32.sqrt()).abs() < 1e-6);
        // Everywhere (3 + 4 * .5) / 8 = .625; here (3 + 6 * .625) / 10.
        assert!((prior_mean - 0.675).abs() < 1e-6);
        assert_eq!(prior_rounds, 4.0);
        assert_eq!(seen.candidates[1].features, ArmFeatures { prior_mean: 0.5, ..ArmFeatures::default() });
    }
}
