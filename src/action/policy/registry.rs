//! Policies by name, with the settings of a policy card.
//!
//! A card is one TOML file that states every setting; unknown keys and numbers out of range are refused, all together.
//! The default card is compiled in. Any learner can run alone (`lin_ucb`) or vote in the `ensemble`.

use serde::Deserialize;

use super::{
    DomainPrior, DomainPriorSettings, Ensemble, EnsembleSettings, Fixed, HybridLinear, HybridLinearSettings, LinUcb,
    LinUcbSettings, MemoryKnn, MemoryKnnSettings, Policy, Uniform,
};
use crate::round::ArmId;

/// The names that [`build`] knows; `fixed:ARM` takes an arm's id.
pub const NAMES: [&str; 7] =
    ["uniform", "fixed:ARM", "lin_ucb", "memory_knn", "domain_prior", "hybrid_linear", "ensemble"];

const DEFAULT_CARD: &str = include_str!("../../../policies/default.toml");

/// A checked policy card.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySettings {
    /// The card's name.
    pub name: String,
    /// Raised when a change makes the same state decide differently.
    pub version: u32,
    /// Where the methods come from.
    pub citations: Vec<String>,
    /// Uniform share of a learner that runs by itself, in [0, 1].
    pub floor: f64,
    /// The vote.
    pub ensemble: EnsembleSettings,
    /// Who votes, in order; at least one.
    pub voters: Vec<VoterSettings>,
    /// Settings of `hybrid_linear`.
    pub hybrid_linear: HybridLinearSettings,
    /// Settings of `domain_prior`.
    pub domain_prior: DomainPriorSettings,
    /// Settings of `memory_knn`.
    pub memory_knn: MemoryKnnSettings,
    /// Settings of `lin_ucb`.
    pub lin_ucb: LinUcbSettings,
}

/// One voter of the ensemble.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoterSettings {
    /// Any registered policy but the ensemble itself.
    pub policy: String,
    /// Its starting weight, above 0; the weights are normalised.
    pub weight: f64,
}

/// Why there is no such policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The name is not registered.
    #[error("there is no policy {0:?}; choose one of {names}", names = NAMES.join(", "))]
    Unknown(String),
    /// The arm after `fixed:` is no arm's name.
    #[error("fixed:ARM needs an arm's id: {0}")]
    Arm(String),
    /// The card is not TOML of the right shape.
    #[error("the policy card cannot be read: {0}")]
    Card(String),
    /// Settings are out of range; every one is listed.
    #[error("the policy card is out of range: {}", .0.join("; "))]
    Range(Vec<String>),
}

impl Default for PolicySettings {
    /// The compiled-in card, `policies/default.toml`.
    fn default() -> Self {
        Self::parse(DEFAULT_CARD).expect("the compiled-in card is valid: a test parses it")
    }
}

impl PolicySettings {
    /// Reads and checks a card.
    pub fn parse(card: &str) -> Result<Self, RegistryError> {
        let settings: Self = toml::from_str(card).map_err(|error| RegistryError::Card(error.to_string()))?;
        let problems = settings.problems();
        if problems.is_empty() { Ok(settings) } else { Err(RegistryError::Range(problems)) }
    }

    fn problems(&self) -> Vec<String> {
        let Self {
            floor, ensemble, hybrid_linear: hybrid, domain_prior: domain, memory_knn: knn, lin_ucb: lin, ..
        } = self;
        let tiny = 1e-9;
        let large = 1e9;
        let checks = [
            ("floor", *floor, 0.0, 1.0),
            ("ensemble.floor", ensemble.floor, 1e-6, 1.0),
            ("ensemble.rate", ensemble.rate, 0.0, 10.0),
            ("ensemble.share", ensemble.share, 0.0, 1.0),
            ("ensemble.ratio_max", ensemble.ratio_max, 1.0, large),
            ("hybrid_linear.domain_precision", hybrid.domain_precision, tiny, large),
            ("hybrid_linear.arm_precision", hybrid.arm_precision, tiny, large),
            ("hybrid_linear.cell_precision", hybrid.cell_precision, tiny, large),
            ("hybrid_linear.noise", hybrid.noise, tiny, large),
            ("hybrid_linear.scale_start", hybrid.scale_start, 0.0, 100.0),
            ("hybrid_linear.scale_end", hybrid.scale_end, 0.0, 100.0),
            ("hybrid_linear.draws", hybrid.draws.into(), 1.0, 4096.0),
            ("domain_prior.prior_mean", domain.prior_mean, -1.0, 1.0),
            ("domain_prior.arm_mass", domain.arm_mass, tiny, large),
            ("domain_prior.domain_mass", domain.domain_mass, tiny, large),
            ("domain_prior.noise", domain.noise, tiny, large),
            ("domain_prior.scale", domain.scale, 0.0, 100.0),
            ("domain_prior.draws", domain.draws.into(), 1.0, 4096.0),
            ("memory_knn.prior_mean", knn.prior_mean, -1.0, 1.0),
            ("memory_knn.arm_mass", knn.arm_mass, tiny, large),
            ("memory_knn.domain_mass", knn.domain_mass, tiny, large),
            ("memory_knn.neighbour_mass", knn.neighbour_mass, tiny, large),
            ("memory_knn.power", knn.power, 0.0, 64.0),
            ("memory_knn.noise", knn.noise, tiny, large),
            ("memory_knn.scale", knn.scale, 0.0, 100.0),
            ("memory_knn.draws", knn.draws.into(), 1.0, 4096.0),
            ("lin_ucb.alpha", lin.alpha, 0.0, 100.0),
            ("lin_ucb.l2", lin.l2, 1e-6, 1e6),
            ("lin_ucb.prior_mean", lin.prior_mean, -1.0, 1.0),
            ("lin_ucb.domain_scale", lin.domain_scale, 0.0, 10.0),
            ("lin_ucb.text_scale", lin.text_scale, 0.0, 10.0),
        ];
        let out = checks.into_iter().filter(|(_, value, least, most)| !(*least..=*most).contains(value));
        let mut problems: Vec<String> =
            out.map(|(key, value, least, most)| format!("{key} = {value} must be from {least} to {most}")).collect();
        if self.voters.is_empty() {
            problems.push("voters must name at least one policy".into());
        }
        for (place, VoterSettings { policy, weight }) in self.voters.iter().enumerate() {
            if !(tiny..=large).contains(weight) {
                problems.push(format!("voters[{place}].weight = {weight} must be above 0"));
            }
            if let Err(error) = single(policy, self, 0.0) {
                problems.push(format!("voters[{place}].policy: {error}"));
            }
        }
        problems
    }
}

/// A policy by name, nothing learnt yet.
///
/// ```
/// use pointsman::action::policy::{PolicySettings, build};
/// let settings = PolicySettings::default();
/// assert_eq!(build("lin_ucb", &settings).unwrap().name(), "lin_ucb");
/// assert_eq!(build("fixed:gpt-5-mini", &settings).unwrap().name(), "fixed");
/// assert!(build("oracle", &settings).is_err());
/// ```
pub fn build(name: &str, settings: &PolicySettings) -> Result<Box<dyn Policy>, RegistryError> {
    if name != "ensemble" {
        return single(name, settings, settings.floor);
    }
    // The vote has its own floor, so its voters need none.
    let voters = settings.voters.iter().map(|voter| Ok((single(&voter.policy, settings, 0.0)?, voter.weight)));
    let voters = voters.collect::<Result<Vec<_>, RegistryError>>()?;
    Ok(Box::new(Ensemble::new(settings.ensemble, settings.version, voters)))
}

fn single(name: &str, settings: &PolicySettings, floor: f64) -> Result<Box<dyn Policy>, RegistryError> {
    if let Some(arm) = name.strip_prefix("fixed:") {
        let arm = ArmId::new(arm).map_err(|error| RegistryError::Arm(error.to_string()))?;
        return Ok(Box::new(Fixed::new(arm)));
    }
    Ok(match name {
        "uniform" => Box::new(Uniform),
        "lin_ucb" => Box::new(LinUcb::new(settings.lin_ucb, floor)),
        "memory_knn" => Box::new(MemoryKnn::new(settings.memory_knn, floor)),
        "domain_prior" => Box::new(DomainPrior::new(settings.domain_prior, floor)),
        "hybrid_linear" => Box::new(HybridLinear::new(settings.hybrid_linear, floor)),
        other => return Err(RegistryError::Unknown(other.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_card_is_valid_and_builds_every_name() {
        let settings = PolicySettings::parse(DEFAULT_CARD).unwrap();
        for name in NAMES {
            let policy = build(name, &settings).unwrap();
            assert!(name.starts_with(policy.name()));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = build("linucb", &PolicySettings::default()).err().unwrap().to_string();
        assert!(NAMES.iter().all(|name| error.contains(name)), "{error}");
        assert!(matches!(build("fixed:two words", &PolicySettings::default()), Err(RegistryError::Arm(_))));
    }

    #[test]
    fn a_card_with_an_unknown_key_or_a_missing_one_is_refused() {
        for card in [DEFAULT_CARD.replace("alpha =", "alfa ="), DEFAULT_CARD.replace("ratio_max = 10.0\n", "")] {
            assert!(matches!(PolicySettings::parse(&card), Err(RegistryError::Card(_))));
        }
    }

    #[test]
    fn every_number_out_of_range_is_reported_at_once() {
        let card = DEFAULT_CARD.replace("ratio_max = 10.0", "ratio_max = 0.5").replace("l2 = 1.0", "l2 = nan");
        let card = card.replace("policy = \"lin_ucb\"", "policy = \"ensemble\"");
        let Err(RegistryError::Range(problems)) = PolicySettings::parse(&card) else { panic!("accepted") };
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
