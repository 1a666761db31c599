//! Policies by name, with the settings of a policy card.
//!
//! Any learner can run alone (`lin_ucb`) or vote in the `ensemble`, and any of them can be wrapped (`discount:lin_ucb`), voters
//! too.

use std::path::Path;

use super::{
    Bag, BetaThompson, Classifier, ClassifierSettings, DomainPrior, Ensemble, EpsilonGreedy, Fixed, HybridLinear,
    HybridText, HybridUcb, KnnUcb, LinThompson, LinUcb, Llm, MemoryKnn, Policy, PolicySettings, Probit, SquareCb,
    TrainedKind, Ucb1, Uniform, Voter, mode_router::ModeRouter,
};
use crate::{
    action::wrap::{Affinity, Budget, Costs, Discount, NewArm, Wrapped},
    round::ArmId,
};

/// The names that [`build`] knows; `fixed:ARM` takes an arm's id.
pub const NAMES: [&str; 21] = [
    "uniform",
    "fixed:ARM",
    "epsilon_greedy",
    "ucb1",
    "beta_thompson",
    "domain_prior",
    "memory_knn",
    "knn_ucb",
    "lin_ucb",
    "lin_thompson",
    "square_cb",
    "bag",
    "hybrid_linear",
    "hybrid_text",
    "hybrid_ucb",
    "probit",
    "classifier",
    "tfidf_classifier",
    "llm",
    "mode_router",
    "ensemble",
];

/// The wrappers, which go before a name: `discount:lin_ucb`, or several, outermost first.
pub const WRAPPERS: [&str; 5] = ["affinity", "budget", "costs", "discount", "new_arm"];

/// Why there is no such policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The name is not registered.
    #[error(
        "there is no policy {0:?}; choose one of {names}, with any of {wrappers} before it",
        names = NAMES.join(", "),
        wrappers = WRAPPERS.map(|name| format!("{name}:")).join(" ")
    )]
    Unknown(String),
    /// The arm after `fixed:` is no arm's name.
    #[error("fixed:ARM needs an arm's id: {0}")]
    Arm(String),
    /// A policy that is trained offline has no model.
    #[error("{} has no model: {}", .0.name(), .0.remedy())]
    Untrained(TrainedKind),
    /// A card's key names a file, but the card was read as a text.
    #[error("{key} names the file {file}, which was not read with the card")]
    NotRead {
        /// The key.
        key: &'static str,
        /// The file.
        file: String,
    },
}

/// A policy by name, nothing learnt yet.
///
/// ```
/// use pointsman::action::policy::{PolicySettings, build};
/// let settings = PolicySettings::default();
/// assert_eq!(build("lin_ucb", &settings).unwrap().name(), "lin_ucb");
/// assert_eq!(build("fixed:gpt-5-mini", &settings).unwrap().name(), "fixed");
/// assert_eq!(build("discount:lin_ucb", &settings).unwrap().name(), "lin_ucb");
/// assert!(build("oracle", &settings).is_err());
/// ```
pub fn build(name: &str, settings: &PolicySettings) -> Result<Box<dyn Policy>, RegistryError> {
    wrapped(name, settings, &|name| plain(name, settings))
}

/// A policy, or why there is none.
type Built = Result<Box<dyn Policy>, RegistryError>;

/// The policy inside all wrappers that a name begins with, as `inner` makes it, in them.
fn wrapped(name: &str, settings: &PolicySettings, inner: &dyn Fn(&str) -> Built) -> Built {
    let Some((wrapper, rest)) = name.split_once(':').filter(|(wrapper, _)| WRAPPERS.contains(wrapper)) else {
        return inner(name);
    };
    let inner = wrapped(rest, settings, inner)?;
    Ok(match wrapper {
        "affinity" => Box::new(Wrapped::new(Affinity::new(settings.affinity), inner)),
        "budget" => Box::new(Wrapped::new(Budget::new(settings.budget), inner)),
        "costs" => Box::new(Wrapped::new(Costs::new(settings.costs), inner)),
        "discount" => Box::new(Wrapped::new(Discount::new(settings.discount), inner)),
        _ => Box::new(Wrapped::new(NewArm::new(settings.new_arm), inner)),
    })
}

/// A policy without a wrapper.
fn plain(name: &str, settings: &PolicySettings) -> Result<Box<dyn Policy>, RegistryError> {
    if name != "ensemble" {
        return single(name, settings, settings.floor);
    }
    // The vote has its own floor, so its voters need none.
    let voters = settings.voters.iter().map(|voter| {
        let policy = wrapped(&voter.policy, settings, &|name| single(name, settings, 0.0))?;
        Ok(Voter { policy, weight: voter.weight, probing: voter.probing })
    });
    let voters = voters.collect::<Result<Vec<_>, RegistryError>>()?;
    Ok(Box::new(Ensemble::new(settings.ensemble, settings.version, voters)))
}

fn single(name: &str, settings: &PolicySettings, floor: f64) -> Result<Box<dyn Policy>, RegistryError> {
    if let Some(arm) = name.strip_prefix("fixed:") {
        let arm = ArmId::new(arm).map_err(|error| RegistryError::Arm(error.to_string()))?;
        return Ok(Box::new(Fixed::new(arm)));
    }
    let PolicySettings { features, shrinkage, .. } = *settings;
    Ok(match name {
        "uniform" => Box::new(Uniform),
        "epsilon_greedy" => Box::new(EpsilonGreedy::new(settings.epsilon_greedy, shrinkage, floor)),
        "ucb1" => Box::new(Ucb1::new(settings.ucb1, shrinkage, floor)),
        "beta_thompson" => Box::new(BetaThompson::new(settings.beta_thompson, shrinkage, floor)),
        "knn_ucb" => Box::new(KnnUcb::new(settings.knn_ucb, shrinkage, floor)),
        "lin_thompson" => Box::new(LinThompson::new(settings.lin_thompson, features, floor)),
        "square_cb" => Box::new(SquareCb::new(settings.square_cb, features, floor)),
        "bag" => Box::new(Bag::new(settings.bag, features, floor)),
        "hybrid_ucb" => Box::new(HybridUcb::new(settings.hybrid_ucb, settings.hybrid_linear, floor)),
        "lin_ucb" => Box::new(LinUcb::new(settings.lin_ucb, features, floor)),
        "memory_knn" => Box::new(MemoryKnn::new(settings.memory_knn, floor)),
        "domain_prior" => {
            let prior = &settings.domain_prior;
            was_read(TrainedKind::Probing.key(), prior.probing.as_deref(), prior.probed.is_some())?;
            Box::new(DomainPrior::new(prior.clone(), floor))
        }
        "hybrid_text" => Box::new(HybridText::new(settings.hybrid_text, floor)),
        "probit" => Box::new(Probit::new(settings.probit, floor)),
        "hybrid_linear" => Box::new(HybridLinear::new(settings.hybrid_linear, floor)),
        "llm" => Box::new(Llm::new(settings.llm)),
        "classifier" => Box::new(classifier(TrainedKind::Classifier, &settings.classifier, floor)?),
        "tfidf_classifier" => Box::new(classifier(TrainedKind::TfidfClassifier, &settings.tfidf_classifier, floor)?),
        "mode_router" => {
            let of = &settings.mode_router;
            was_read(TrainedKind::ModeRouter.key(), of.model.as_deref(), of.loaded.is_some())?;
            Box::new(ModeRouter::new(&of.checkpoint(), floor))
        }
        other => return Err(RegistryError::Unknown(other.into())),
    })
}

fn classifier(kind: TrainedKind, settings: &ClassifierSettings, floor: f64) -> Result<Classifier, RegistryError> {
    was_read(kind.key(), settings.model.as_deref(), settings.loaded.is_some())?;
    settings.loaded.clone().map(|model| Classifier::new(model, floor)).ok_or(RegistryError::Untrained(kind))
}

fn was_read(key: &'static str, named: Option<&Path>, read: bool) -> Result<(), RegistryError> {
    match named {
        Some(file) if !read => Err(RegistryError::NotRead { key, file: file.display().to_string() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::classifier::tests::settings;
    use super::*;

    #[test]
    fn the_compiled_in_card_is_valid_and_builds_every_name() {
        let settings = settings(4);
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
}
