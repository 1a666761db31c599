//! Training on seeded, made-up outcomes.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{
    action::{
        policy::{Classifier, ClassifierModel, Policy, TrainedKind},
        sample::sample,
    },
    round::{ArmId, Candidate, Context},
};

const ARMS: [&str; 4] = ["left", "right", "middling", "hopeless"];
/// What the best arm of each task gets, and the best arm overall.
const BEST: f64 = 0.9;
const BEST_FIXED: f64 = 0.5;

/// One arm is good at tasks to the left (or with a word for it), another at the others.
struct World {
    embeddings: Vec<Embedding>,
    texts: Vec<Arc<str>>,
    domains: Vec<Domain>,
    chances: Vec<[f64; 4]>,
    scores: Vec<[f64; 4]>,
}

fn world(seed: u64, tasks: usize) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World { embeddings: vec![], texts: vec![], domains: vec![], chances: vec![], scores: vec![] };
    for _ in 0..tasks {
        let left = rng.random::<bool>();
        let mut vector: Vec<f32> = (0..12).map(|_| rng.random_range(-0.5..0.5)).collect();
        vector[3] = if left { -1.0 } else { 1.0 };
        world.embeddings.push(Embedding::new(vector).unwrap());
        let noise: Vec<_> = (0..4).map(|_| format!("word{}", rng.random_range(0..12))).collect();
        world.texts.push(format!("{} {}", if left { "Prove it" } else { "Code, please" }, noise.join(" ")).into());
        world.domains.push(Domain::new(["one", "two"][rng.random_range(0..2)]).unwrap());
        let chances = if left { [0.9, 0.1, 0.5, 0.0] } else { [0.1, 0.9, 0.5, 0.0] };
        world.scores.push(chances.map(|chance| f64::from(u8::from(rng.random_bool(chance)))));
        world.chances.push(chances);
    }
    world
}

fn action(arm: usize) -> Action {
    (Mode::Single, ArmId::new(ARMS[arm]).unwrap())
}

fn embedded(world: &World) -> Inputs {
    Inputs::Embeddings { model: "tiny".into(), vectors: world.embeddings.clone() }
}

/// The world's outcomes, one arm a task or all of them.
fn set(world: &World, inputs: Inputs, all: bool) -> TrainingSet {
    if !all {
        let rounds = world.domains.iter().zip(&world.scores).enumerate();
        let rounds = rounds.map(|(n, (domain, scores))| (domain.clone(), action(n % 4), scores[n % 4])).collect();
        return TrainingSet::of_rounds(inputs, rounds).unwrap();
    }
    let of_arm = |arm: usize| (action(arm), world.scores.iter().map(|scores| scores[arm]).enumerate().collect());
    let scores = (0..ARMS.len()).map(of_arm).collect();
    TrainingSet { inputs, domains: world.domains.clone(), scores }.checked().unwrap()
}

fn trained(set: &TrainingSet) -> Trained {
    let provenance = Provenance { trained_on: "made up".into(), trained_at_ms: 7 };
    train(set, &provenance, &|done, total| assert!(done <= total)).unwrap()
}

/// The mean chance of success that a model gets on a new world.
fn mean(model: ClassifierModel) -> f64 {
    let policy = Classifier::new(Arc::new(model), 0.02);
    let world = world(2, 1_000);
    let mut sum = 0.0;
    for task in 0..world.texts.len() {
        let candidate = |arm| Candidate::new(Mode::Single, action(arm).1, 0.0);
        let candidates = (0..ARMS.len()).map(candidate).collect();
        let mut context = Context::new(world.embeddings[task].clone(), world.domains[task].clone(), candidates);
        context.text = Arc::clone(&world.texts[task]);
        let pmf = policy.decide(&context, 1).unwrap().pmf;
        sum += world.chances[task][sample(&pmf, task as u64).unwrap()];
    }
    sum / world.texts.len() as f64
}

#[test]
fn a_classifier_gets_most_of_what_the_best_arm_of_each_task_would() {
    let world = world(1, 1_200);
    for inputs in [embedded(&world), Inputs::Texts(world.texts.clone())] {
        for all in [true, false] {
            let Trained { model, constants } = trained(&set(&world, inputs.clone(), all));
            assert_eq!(constants.iter().map(|(_, why)| *why).filter(|why| *why == Constant::TooFew).count(), 1);
            assert_eq!(constants[0].0, action(3), "{constants:?}");
            let mean = mean(model);
            // Three quarters of the way from the best fixed arm to the best arm of each task; uniform gets .375.
            assert!(mean > BEST_FIXED + 0.75 * (BEST - BEST_FIXED), "{mean}");
        }
    }
}

#[test]
fn held_out_figures_beat_the_base_rate_where_there_is_something_to_learn() {
    let world = world(1, 1_200);
    let Trained { model, constants } = trained(&set(&world, embedded(&world), true));
    for arm in [0, 1] {
        let found = model.arms[&action(arm)].held_out.unwrap();
        assert_eq!(found.rounds, 240);
        assert!(found.accuracy > found.base_accuracy + 0.25 && found.log_loss < found.base_log_loss - 0.2, "{found:?}");
    }
    // A coin has nothing to learn: at most a trace of it is fitted.
    let coin = model.arms[&action(2)].held_out.unwrap();
    assert!(coin.log_loss > coin.base_log_loss - 0.02, "{coin:?} {constants:?}");
    let hopeless = &model.arms[&action(3)];
    assert!(hopeless.weights.is_empty() && hopeless.intercept < -5.0, "{hopeless:?}");
}

#[test]
fn the_same_set_gives_the_same_file_and_the_file_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.json");
    let world = world(3, 400);
    for (inputs, kind) in [
        (embedded(&world), TrainedKind::Classifier),
        (Inputs::Texts(world.texts.clone()), TrainedKind::TfidfClassifier),
    ] {
        let [first, second] = [(); 2].map(|()| trained(&set(&world, inputs.clone(), true)).model);
        assert_eq!(first.to_json(), second.to_json());
        store(&path, &first.to_json()).unwrap();
        assert_eq!(ClassifierModel::read(&path, kind).unwrap(), first);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    assert!(store(&folder.path().join("none/model.json"), "").is_err());
}

#[test]
fn a_set_that_makes_no_sense_is_refused() {
    let world = world(1, 3);
    let rounds = |score: f64| vec![(Domain::unknown(), action(0), score)];
    let refused = |inputs, rounds| TrainingSet::of_rounds(inputs, rounds).unwrap_err();
    assert_eq!(refused(Inputs::Texts(vec![]), vec![]), TrainError::Empty);
    assert_eq!(refused(embedded(&world), rounds(1.0)), TrainError::Inputs { inputs: 3, tasks: 1 });
    assert!(matches!(refused(Inputs::Texts(vec!["a".into()]), rounds(1.5)), TrainError::Score { .. }));
    let vectors = [vec![1.0], vec![1.0, 0.0]].map(|vector| Embedding::new(vector).unwrap()).to_vec();
    let two = rounds(1.0).into_iter().chain(rounds(0.0)).collect();
    assert_eq!(refused(Inputs::Embeddings { model: "m".into(), vectors }, two), TrainError::Dimensions(1, 2));
    let wordless = TrainingSet::of_rounds(Inputs::Texts(vec!["".into()]), rounds(1.0)).unwrap();
    let provenance = Provenance { trained_on: "".into(), trained_at_ms: 0 };
    assert!(matches!(train(&wordless, &provenance, &|_, _| {}), Err(TrainError::Vocabulary(_))));
}

#[test]
fn a_probing_set_counts_by_domain_and_arm() {
    let world = world(1, 200);
    let provenance = Provenance { trained_on: "made up".into(), trained_at_ms: 7 };
    let probed = probing_set(&set(&world, Inputs::Texts(world.texts.clone()), true), &provenance);
    assert_eq!(probed.cells.len(), 8);
    let middling = probed.cells.iter().filter(|cell| cell.action == action(2));
    let (rounds, sum) = middling
        .fold((0, 0.0), |(rounds, sum), cell| (rounds + cell.rounds, sum + cell.mean_score * cell.rounds as f64));
    let expected: f64 = world.scores.iter().map(|scores| scores[2]).sum();
    assert!(rounds == 200 && (sum - expected).abs() < 1e-9, "{rounds} {sum} {expected}");
}
