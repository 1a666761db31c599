//! Models made by hand: what they decide, and what is read of a damaged file.

use std::fs;

use super::{
    super::{PolicySettings, build, environment::context, mode_router},
    *,
};
use crate::round::{ArmId, Domain, Embedding, Mode};

/// The compiled-in card with a model for each classifier: arm 0 is good at positive first coordinates and at sorting,
/// arm 1 at the others, arm 2 is a constant .6.
pub(in crate::action::policy) fn settings(dimension: usize) -> PolicySettings {
    let mut settings = PolicySettings::default();
    settings.classifier.loaded = Some(Arc::new(embedding_model(dimension)));
    settings.tfidf_classifier.loaded = Some(Arc::new(tfidf_model()));
    settings.mode_router.loaded = Some(Arc::new(mode_router::tests::checkpoint()));
    settings
}

fn arm(intercept: f32, weights: Vec<f32>, domain_weights: Vec<f32>) -> ArmModel {
    let held_out = HeldOut {
        rounds: 10,
        accuracy: 0.75,
        log_loss: 0.5,
        base_accuracy: 0.5,
        base_log_loss: std::f64::consts::LN_2,
    };
    let (alpha, held_out) = (Some(1.0), Some(held_out));
    ArmModel { rounds: 50, successes: 30, alpha, intercept, weights, domain_weights, held_out }
}

fn model(features: Features, slopes: [f32; 2]) -> ClassifierModel {
    let weights = |slope| {
        let mut weights = vec![0.0; features.dimension()];
        weights[0] = slope;
        weights
    };
    let constant = ArmModel { alpha: None, held_out: None, ..arm(0.405, vec![], vec![]) };
    let [first, second] = slopes.map(|slope| arm(0.0, weights(slope), vec![0.0, 8.0 * slope.signum()]));
    let arms = [first, second, constant].into_iter().zip(0..);
    let arms = arms.map(|(arm, n)| ((Mode::Single, ArmId::new(format!("arm-{n}")).unwrap()), arm)).collect();
    let domains = ["code", "sorting"].map(|name| Domain::new(name).unwrap()).to_vec();
    ClassifierModel { features, trained_on: "made up".into(), trained_at_ms: 7, domains, arms, left_out: vec![] }
}

fn embedding_model(dimension: usize) -> ClassifierModel {
    model(Features::Embedding { model: "tiny".into(), dimension }, [3.0, -3.0])
}

fn tfidf_model() -> ClassifierModel {
    let terms = [("sort", 1.5), ("add", 1.25), ("sort the", 2.0)];
    let terms = terms.map(|(term, idf)| (term.to_owned(), idf)).to_vec();
    model(Features::Tfidf(Vocabulary::new(terms).unwrap()), [3.0, -3.0])
}

fn best(policy: &str, context: &Context) -> usize {
    let opinion = build(policy, &settings(4)).unwrap().decide(context, 1).unwrap();
    let place = |p: &f64| opinion.pmf.iter().position(|other| other == p);
    opinion.pmf.iter().max_by(|a, b| a.total_cmp(b)).and_then(place).unwrap()
}

#[test]
fn the_embedding_and_the_domain_choose_the_arm() {
    let mut context = context(3);
    assert_eq!(best("classifier", &context), 0);
    context.embedding = Embedding::new(vec![-1.0, 0.5, 0.0, 0.0]).unwrap();
    assert_eq!(best("classifier", &context), 1);
    context.domain = Domain::new("sorting").unwrap();
    assert_eq!(best("classifier", &context), 0);
    context.domain = Domain::new("never-seen").unwrap();
    context.embedding = Embedding::new(vec![0.01, 1.0, 0.0, 0.0]).unwrap();
    assert_eq!(best("classifier", &context), 2);
}

#[test]
fn the_words_choose_the_arm_and_without_a_text_the_priors_do() {
    let mut context = context(3);
    context.candidates[1].features.prior_mean = 0.4;
    assert_eq!(best("tfidf_classifier", &context), 1);
    context.text = "Sort the list".into();
    assert_eq!(best("tfidf_classifier", &context), 0);
    context.text = "none of these words".into();
    assert_eq!(best("tfidf_classifier", &context), 2);
}

#[test]
fn an_arm_that_the_model_does_not_know_is_worth_its_prior() {
    let mut context = context(4);
    let policy = build("classifier", &settings(4)).unwrap();
    let expected = |context: &Context| policy.decide(context, 1).unwrap().expected;
    let before = expected(&context);
    context.candidates[3].features.prior_mean = 0.99;
    let after = expected(&context);
    assert_eq!((best("classifier", &context), &before[..3]), (3, &after[..3]));
}

#[test]
fn an_embedding_of_another_dimension_is_an_error_and_not_a_guess() {
    let error = build("classifier", &settings(5)).unwrap().decide(&context(3), 1).unwrap_err();
    assert_eq!(error, PolicyError::Dimension { policy: "classifier", wanted: 5, found: 4 });
}

#[test]
fn a_model_comes_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for (model, kind) in [(embedding_model(6), TrainedKind::Classifier), (tfidf_model(), TrainedKind::TfidfClassifier)]
    {
        let path = folder.path().join("model.json");
        fs::write(&path, model.to_json()).unwrap();
        assert_eq!(ClassifierModel::read(&path, kind).unwrap(), model);
    }
}

#[test]
fn a_damaged_file_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.json");
    let good = [embedding_model(2).to_json(), tfidf_model().to_json()];
    let kinds = [TrainedKind::Classifier, TrainedKind::TfidfClassifier];
    for (which, from, to, said) in [
        (0, "{", "", "damaged"),
        (0, "\"format\":1", "\"format\":9", "format 9"),
        (0, "\"classifier\"", "\"probing\"", "kind \"probing\""),
        (0, "\"dimension\":2", "\"dimension\":3", "has 2 weights"),
        (0, "\"dimension\":2", "\"dimension\":0", "dimension is 0"),
        (0, "[\"code\",\"sorting\"]", "[\"sorting\",\"code\"]", "ascending"),
        (0, "\"arm-1\"", "\"arm-0\"", "twice"),
        (1, "\"dimension\":3", "\"dimension\":4", "has 3 terms"),
        (1, "1.25", "-1.25", "idf of \"add\""),
        (1, "[\"add\",1.25]", "[\"add\",null]", "damaged"),
    ] {
        let bad = good[which].replacen(from, to, 1);
        assert_ne!(bad, good[which], "{from}");
        fs::write(&path, bad).unwrap();
        let error = ClassifierModel::read(&path, kinds[which]).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("pointsman train classifier"), "{error}");
    }
    let error = ClassifierModel::read(&folder.path().join("none.json"), TrainedKind::Classifier).unwrap_err();
    assert!(error.to_string().contains("none.json"), "{error}");
}

#[test]
fn an_arm_with_absurd_weights_is_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.json");
    for bad in ["null", "1e7", "-1e60"] {
        fs::write(&path, embedding_model(2).to_json().replace("-3.0", bad)).unwrap();
        let model = ClassifierModel::read(&path, TrainedKind::Classifier).unwrap();
        assert_eq!((model.arms.len(), model.left_out[0].1.as_str()), (2, "arm-1"));
        assert!(model.warning().unwrap().contains("arm-1"));
    }
    assert_eq!(embedding_model(2).warning(), None);
}

#[test]
fn a_card_names_its_model_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let card = folder.path().join("card.toml");
    let text = "policy = \"classifier\"\n[classifier]\nmodel = \"model.json\"";
    fs::write(&card, text).unwrap();
    let missing = PolicySettings::load(Some(&card)).unwrap_err().to_string();
    assert!(missing.contains("classifier.model") && missing.contains("model.json"), "{missing}");
    fs::write(folder.path().join("model.json"), embedding_model(4).to_json()).unwrap();
    let settings = PolicySettings::load(Some(&card)).unwrap();
    assert_eq!(build(&settings.policy, &settings).unwrap().name(), "classifier");
    assert!(settings.check_embedding("tiny", 4).is_ok());
    for (model, dimension) in [("tiny", 5), ("other", 4)] {
        let error = settings.check_embedding(model, dimension).unwrap_err().to_string();
        assert!(error.contains("tiny"), "{error}");
    }
    // Without its file a card that names one is no card.
    let unread = PolicySettings::parse(text).unwrap_err().to_string();
    assert!(unread.contains("classifier.model"), "{unread}");
    let unnamed = PolicySettings::parse("policy = \"classifier\"").unwrap_err().to_string();
    assert!(unnamed.contains("pointsman train classifier"), "{unnamed}");
    assert!(PolicySettings::load(Some(&folder.path().join("none.toml"))).is_err());
    assert_eq!(PolicySettings::load(None).unwrap(), PolicySettings::default());
}
