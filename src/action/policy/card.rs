//! Policy cards: one TOML file that says which policy acts, who votes in it and with what settings.
//!
//! A card is laid over the compiled-in default one key by key, so it states only what it changes. Unknown keys,
//! numbers out of range and weights that do not sum to 1 are refused, all together.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use toml::{Table, Value};

use super::{
    BagSettings, BetaThompsonSettings, Cascade, CascadeSettings, ClassifierSettings, DomainPriorSettings,
    EnsembleSettings, EpsilonGreedySettings, FeatureSettings, Features, HybridLinearSettings, HybridTextSettings,
    HybridUcbSettings, KnnUcbSettings, Latent, LinThompsonSettings, LinUcbSettings, LlmPolicySettings,
    MemoryKnnSettings, ProbingSet, ProbitSettings, ShrinkageSettings, SquareCbSettings, TrainedError, TrainedKind,
    Ucb1Settings, features::TEXT_DIMENSIONS_MAX, mode_router::ModeRouterSettings, registry::build,
};
use crate::action::wrap::{AffinitySettings, BudgetSettings, CostsSettings, DiscountSettings, NewArmSettings};

const DEFAULT_CARD: &str = include_str!("../../../policies/default.toml");

/// The least positive setting.
pub(super) const TINY: f64 = 1e-9;
/// The largest setting.
pub(super) const LARGE: f64 = 1e9;
/// How far from 1 the voters' weights may sum.
const WEIGHTS_TOLERANCE: f64 = 1e-6;

/// A checked policy card.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySettings {
    /// The card's name.
    pub name: String,
    /// Raised when a change makes the same state decide differently.
    pub version: u32,
    /// The policy that acts.
    pub policy: String,
    /// Where the methods come from.
    pub citations: Vec<String>,
    /// Uniform share of a learner that runs by itself, in [0, 1].
    pub floor: f64,
    /// The vote.
    pub ensemble: EnsembleSettings,
    /// Who votes, in order; at least one. The weights sum to 1.
    pub voters: Vec<VoterSettings>,
    /// Settings of the wrapper `affinity:`.
    pub affinity: AffinitySettings,
    /// Settings of the wrapper `budget:`.
    pub budget: BudgetSettings,
    /// Settings of the wrapper `costs:`.
    pub costs: CostsSettings,
    /// Settings of the wrapper `discount:`.
    pub discount: DiscountSettings,
    /// Settings of the wrapper `new_arm:`.
    pub new_arm: NewArmSettings,
    /// What the linear policies see.
    pub features: FeatureSettings,
    /// What the policies of counts that do not vote by default expect of an arm of which little is known.
    pub shrinkage: ShrinkageSettings,
    /// Settings of `hybrid_text`.
    pub hybrid_text: HybridTextSettings,
    /// Settings of `probit`.
    pub probit: ProbitSettings,
    /// Settings of the cascade.
    pub cascade: CascadeSettings,
    /// Settings of `hybrid_linear`.
    pub hybrid_linear: HybridLinearSettings,
    /// Settings of `domain_prior`.
    pub domain_prior: DomainPriorSettings,
    /// Settings of `memory_knn`.
    pub memory_knn: MemoryKnnSettings,
    /// Settings of `lin_ucb`.
    pub lin_ucb: LinUcbSettings,
    /// Settings of `epsilon_greedy`.
    pub epsilon_greedy: EpsilonGreedySettings,
    /// Settings of `ucb1`.
    pub ucb1: Ucb1Settings,
    /// Settings of `beta_thompson`.
    pub beta_thompson: BetaThompsonSettings,
    /// Settings of `lin_thompson`.
    pub lin_thompson: LinThompsonSettings,
    /// Settings of `square_cb`.
    pub square_cb: SquareCbSettings,
    /// Settings of `knn_ucb`.
    pub knn_ucb: KnnUcbSettings,
    /// Settings of `bag`.
    pub bag: BagSettings,
    /// Settings of `hybrid_ucb`.
    pub hybrid_ucb: HybridUcbSettings,
    /// Settings of `llm`.
    pub llm: LlmPolicySettings,
    /// Settings of `classifier`.
    pub classifier: ClassifierSettings,
    /// Settings of `tfidf_classifier`.
    pub tfidf_classifier: ClassifierSettings,
    /// Settings of `mode_router`.
    pub mode_router: ModeRouterSettings,
}

/// One voter of the ensemble.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoterSettings {
    /// Any registered policy but the ensemble itself.
    pub policy: String,
    /// Its starting weight, above 0.
    pub weight: f64,
    /// Whether it learns from a probing set too; one that does not starts cold, and need not unlearn what misleads.
    #[serde(default = "yes")]
    pub probing: bool,
}

/// Why a card is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// The card is not TOML of the right shape.
    #[error("the policy card cannot be read: {0}")]
    Shape(String),
    /// Settings are out of range; every one is listed.
    #[error("the policy card is out of range: {}", .0.join("; "))]
    Range(Vec<String>),
    /// The card's file is not there or is not readable.
    #[error("cannot read the policy card {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// A file that the card names cannot be used.
    #[error("{key}: {source}")]
    Trained {
        /// The key that names it.
        key: &'static str,
        /// What is wrong.
        source: TrainedError,
    },
    /// A model was trained on another embedding model's vectors than those in use.
    #[error(
        "{key} was trained on embeddings of {trained} ({trained_dimension} numbers), in use is {used} \
         ({used_dimension}): train it again, or set the embedding model back"
    )]
    OtherEmbedding {
        /// The key that names it.
        key: &'static str,
        /// What it was trained on.
        trained: String,
        /// Its dimension.
        trained_dimension: usize,
        /// What is in use.
        used: String,
        /// Its dimension.
        used_dimension: usize,
    },
}

/// Whether what `key` names was trained on the embeddings in use: the model and how many numbers it gives.
pub fn same_embedding(key: &'static str, trained: (&str, usize), used: (&str, usize)) -> Result<(), CardError> {
    if trained == used {
        return Ok(());
    }
    Err(CardError::OtherEmbedding {
        key,
        trained: trained.0.into(),
        trained_dimension: trained.1,
        used: used.0.into(),
        used_dimension: used.1,
    })
}

fn yes() -> bool {
    true
}

/// Collects what is out of range, under the section's name.
pub(in crate::action) struct Checks {
    section: &'static str,
    problems: Vec<String>,
}

impl Checks {
    /// The section that the next numbers are in; empty for the card's top.
    fn section(&mut self, section: &'static str) -> &mut Self {
        self.section = section;
        self
    }

    /// A number must be in a range, both ends included.
    pub(in crate::action) fn number(&mut self, key: &str, value: f64, least: f64, most: f64) {
        if !(least..=most).contains(&value) {
            let dot = if self.section.is_empty() { "" } else { "." };
            self.problems.push(format!("{}{dot}{key} = {value} must be from {least} to {most}", self.section));
        }
    }
}

impl Checks {
    /// The two settings of every ridge regression.
    pub(super) fn ridge(&mut self, l2: f64, prior_mean: f64) {
        self.number("l2", l2, 1e-6, 1e6);
        self.number("prior_mean", prior_mean, 0.0, 1.0);
    }

    /// Numbers that have to be above 0.
    pub(super) fn positive<const N: usize>(&mut self, numbers: [(&str, f64); N]) {
        numbers.into_iter().for_each(|(key, value)| self.number(key, value, TINY, LARGE));
    }

    /// How a joint model is explored by posterior draws.
    pub(super) fn draws(&mut self, scale_start: f64, scale_end: f64, draws: u32) {
        self.number("scale_start", scale_start, 0.0, 100.0);
        self.number("scale_end", scale_end, 0.0, 100.0);
        self.number("draws", draws.into(), 1.0, 4096.0);
    }
}

impl Default for PolicySettings {
    /// The compiled-in card, `policies/default.toml`.
    fn default() -> Self {
        Self::parse("").expect("the compiled-in card is valid: a test parses it")
    }
}

impl PolicySettings {
    /// Reads a card, lays it over the default one and checks the result.
    ///
    /// ```
    /// use pointsman::action::policy::PolicySettings;
    /// let card = PolicySettings::parse("name = \"wide\"\n[lin_ucb]\nalpha = 2.0").unwrap();
    /// assert_eq!((card.lin_ucb.alpha, card.lin_ucb.l2), (2.0, 1.0));
    /// assert!(PolicySettings::parse("[lin_ucb]\nalfa = 2.0").unwrap_err().to_string().contains("alfa"));
    /// ```
    pub fn parse(card: &str) -> Result<Self, CardError> {
        Self::laid_over_default(card)?.checked()
    }

    /// Reads a card from its file, with the files that it names; the compiled-in card when there is none. What the
    /// files hold is checked too.
    pub fn load(path: Option<&Path>) -> Result<Self, CardError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = fs::read_to_string(path)
            .map_err(|error| CardError::Read { path: path.into(), reason: error.to_string() })?;
        Self::parse_in(&text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Reads a card's text and the files that it names, which are taken from `folder`.
    pub fn parse_in(card: &str, folder: &Path) -> Result<Self, CardError> {
        let mut settings = Self::laid_over_default(card)?;
        settings.load_trained(folder)?;
        settings.checked()
    }

    /// The files that the card names, as it names them.
    pub fn trained_files(&self) -> impl Iterator<Item = &Path> {
        let models =
            [&self.classifier.model, &self.tfidf_classifier.model, &self.domain_prior.probing, &self.mode_router.model];
        models.into_iter().flatten().map(PathBuf::as_path)
    }

    /// The cascade that learns, nothing learnt yet.
    pub fn cascade(&self) -> Box<dyn Cascade> {
        Box::new(Latent::new(self.cascade))
    }

    /// Whether what was trained on embeddings fits the embedding model in use.
    pub fn check_embedding(&self, model: &str, dimension: usize) -> Result<(), CardError> {
        let used = (model, dimension);
        match self.classifier.loaded.as_ref().map(|loaded| &loaded.features) {
            Some(Features::Embedding { model, dimension }) => {
                same_embedding(TrainedKind::Classifier.key(), (model, *dimension), used)?;
            }
            Some(Features::Tfidf(_)) | None => {}
        }
        let named = |policy: &str| policy.split(':').any(|name| name == TrainedKind::ModeRouter.name());
        let votes = self.voters.iter().any(|voter| named(&voter.policy));
        if self.mode_router.loaded.is_none() && !named(&self.policy) && !votes {
            return Ok(());
        }
        same_embedding(TrainedKind::ModeRouter.key(), self.mode_router.checkpoint().card.embedding(), used)
    }

    /// What was left out of the files that the card names, one sentence each, to be shown.
    pub fn warnings(&self) -> Vec<String> {
        let models = [&self.classifier, &self.tfidf_classifier].into_iter().flat_map(|settings| &settings.loaded);
        let probed = self.domain_prior.probed.as_ref().and_then(|set| set.warning());
        models.filter_map(|model| model.warning()).chain(probed).collect()
    }

    fn load_trained(&mut self, folder: &Path) -> Result<(), CardError> {
        let failed = |kind: TrainedKind| move |source| CardError::Trained { key: kind.key(), source };
        for (settings, kind) in [
            (&mut self.classifier, TrainedKind::Classifier),
            (&mut self.tfidf_classifier, TrainedKind::TfidfClassifier),
        ] {
            settings.load(folder, kind).map_err(failed(kind))?;
        }
        self.mode_router.load(folder).map_err(failed(TrainedKind::ModeRouter))?;
        if let Some(probing) = &self.domain_prior.probing {
            let set = ProbingSet::read(&folder.join(probing)).map_err(failed(TrainedKind::Probing))?;
            self.domain_prior.probed = Some(Arc::new(set));
        }
        Ok(())
    }

    fn laid_over_default(card: &str) -> Result<Self, CardError> {
        let shape = |error: &dyn std::fmt::Display| {
            CardError::Shape(error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let mut table: Table = DEFAULT_CARD.parse().expect("the compiled-in card is TOML: a test parses it");
        lay_over(&mut table, card.parse().map_err(|error: toml::de::Error| shape(&error))?);
        table.try_into().map_err(|error: toml::de::Error| shape(&error))
    }

    fn checked(self) -> Result<Self, CardError> {
        let problems = self.problems();
        if problems.is_empty() { Ok(self) } else { Err(CardError::Range(problems)) }
    }

    fn problems(&self) -> Vec<String> {
        let mut checks = Checks { section: "", problems: Vec::new() };
        checks.number("floor", self.floor, 0.0, 1.0);
        self.ensemble.check(checks.section("ensemble"));
        self.affinity.check(checks.section("affinity"));
        self.budget.check(checks.section("budget"));
        self.costs.check(checks.section("costs"));
        self.probit.check(checks.section("probit"));
        self.cascade.check(checks.section("cascade"));
        self.cascade.probit.check(checks.section("cascade.probit"));
        self.discount.check(checks.section("discount"));
        self.new_arm.check(checks.section("new_arm"));
        self.features.check(checks.section("features"));
        self.hybrid_text.check(checks.section("hybrid_text"));
        self.hybrid_linear.check(checks.section("hybrid_linear"));
        self.domain_prior.check(checks.section("domain_prior"));
        self.memory_knn.check(checks.section("memory_knn"));
        self.lin_ucb.check(checks.section("lin_ucb"));
        self.shrinkage.check(checks.section("shrinkage"));
        self.epsilon_greedy.check(checks.section("epsilon_greedy"));
        self.ucb1.check(checks.section("ucb1"));
        self.beta_thompson.check(checks.section("beta_thompson"));
        self.lin_thompson.check(checks.section("lin_thompson"));
        self.square_cb.check(checks.section("square_cb"));
        self.knn_ucb.check(checks.section("knn_ucb"));
        self.bag.check(checks.section("bag"));
        self.hybrid_ucb.check(checks.section("hybrid_ucb"));
        self.llm.check(checks.section("llm"));
        let mut problems = checks.problems;
        if self.voters.is_empty() {
            problems.push("voters must name at least one policy".into());
        }
        for (place, VoterSettings { policy, weight, .. }) in self.voters.iter().enumerate() {
            if !(TINY..=1.0).contains(weight) {
                problems.push(format!("voters[{place}].weight = {weight} must be above 0 and at most 1"));
            }
            if policy.ends_with("ensemble") {
                problems.push(format!("voters[{place}].policy: the ensemble cannot vote in itself"));
            } else if let Err(error) = build(policy, self) {
                problems.push(format!("voters[{place}].policy: {error}"));
            }
        }
        let sum: f64 = self.voters.iter().map(|voter| voter.weight).sum();
        if !self.voters.is_empty() && (sum - 1.0).abs() > WEIGHTS_TOLERANCE {
            problems.push(format!("the voters' weights sum to {sum}, they must sum to 1"));
        }
        if problems.is_empty()
            && let Err(error) = build(&self.policy, self)
        {
            problems.push(format!("policy: {error}"));
        }
        problems
    }
}

impl FeatureSettings {
    fn check(&self, checks: &mut Checks) {
        checks.number("domain_scale", self.domain_scale, 0.0, 10.0);
        checks.number("text_scale", self.text_scale, 0.0, 10.0);
        checks.number("text_dimensions", self.text_dimensions as f64, 1.0, TEXT_DIMENSIONS_MAX as f64);
        checks.number("arm_scale", self.arm_scale, 0.0, 10.0);
    }
}

/// Lays one TOML table over another: tables are merged key by key, everything else is replaced.
pub fn lay_over(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(outer)) => lay_over(inner, outer),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_states_only_what_it_changes() {
        let card = PolicySettings::parse("name = \"mine\"\n[domain_prior]\nscale = 0.25").unwrap();
        let default = PolicySettings::default();
        assert_eq!((card.name.as_str(), card.domain_prior.scale), ("mine", 0.25));
        assert_eq!((card.voters, card.domain_prior.noise), (default.voters, default.domain_prior.noise));
    }

    #[test]
    fn what_is_not_toml_or_an_unknown_key_is_refused() {
        for card in ["name = ", "colour = 1", "[lin_ucb]\nalfa = 1.0", "voters = 3", "[[voters]]\npolicy = \"uniform\""]
        {
            assert!(matches!(PolicySettings::parse(card), Err(CardError::Shape(_))), "{card}");
        }
    }

    #[test]
    fn every_number_out_of_range_is_reported_at_once() {
        let card = "floor = 2\npolicy = \"linucb\"\nvoters = [{ policy = \"ensemble\", weight = 0.5 }]
            [ensemble]\nratio_max = 0.5\n[lin_ucb]\nl2 = nan";
        let Err(CardError::Range(problems)) = PolicySettings::parse(card) else { panic!("accepted") };
        assert_eq!(problems.len(), 5, "{problems:#?}");
        let Err(CardError::Range(problems)) = PolicySettings::parse("policy = \"linucb\"") else { panic!("accepted") };
        assert!(problems[0].contains("choose one of"), "{problems:?}");
    }
}
