use std::fs;

use super::{checkpoint::Card, *};
use crate::{
    action::policy::{Policy, PolicyError},
    grammar::{Rules, Token, Writing},
    round::{ArmId, Candidate, Context, Domain, Embedding, Mode},
};

const TINY: Shape = Shape { width: 16, layers: 1, heads: 2 };

fn checkpoint() -> Checkpoint {
    Checkpoint { card: Card::new(TINY, "m".into(), [0.1, 0.4]), weights: Weights::first(TINY, 1), hash: "abc".into() }
}

fn context(arms: usize, modes: &[Mode]) -> Context {
    let candidate = |mode: &Mode| {
        let mode = *mode;
        (0..arms).map(move |arm| {
            let mut candidate = Candidate::new(mode, ArmId::new(format!("arm-{arm}")).unwrap(), 0.001);
            candidate.features.prior_mean = arm as f32 / arms as f32;
            candidate
        })
    };
    let embedding = Embedding::new((0..EMBEDDING).map(|n| (n % 7) as f32 - 3.0).collect()).unwrap();
    Context::new(embedding, Domain::unknown(), modes.iter().flat_map(candidate).collect())
}

#[test]
fn its_probabilities_are_of_modes_and_first_workers_and_cover_what_is_offered() {
    let router = ModeRouter::new(&checkpoint(), 0.0);
    let all = context(3, &Mode::ALL);
    let pmf = router.decide(&all, 1).unwrap().pmf;
    assert!(pmf.len() == 9 && (pmf.iter().sum::<f64>() - 1.0).abs() < 1e-9 && pmf.iter().all(|p| *p > 0.0));
    // Single by itself: the same, renormalised.
    let single = router.decide(&context(3, &[Mode::Single]), 1).unwrap().pmf;
    let whole: f64 = pmf[..3].iter().sum();
    assert!(single.iter().zip(&pmf).all(|(alone, among)| (alone - among / whole).abs() < 1e-9));
    // Written token by token under the mask it is the same distribution.
    let (prefix, arms) = router.prefix(&all).unwrap();
    let mut counts = vec![0.0; 9];
    for n in 0..4_000 {
        let (mut reading, mut writing) = (router.network().begin(&prefix), Writing::new(arms.len(), Rules::default()));
        let u = |k: u32| f64::from((n * 2 + k) * 7_919 % 8_000) / 8_000.0;
        let (mode, _) = router.choose(&reading, &writing, u(0)).unwrap();
        writing.push(mode).unwrap();
        router.network().read(&mut reading, Piece::Written(mode));
        let (Token::Mode(mode), Some((Token::Call(worker), _))) = (mode, router.choose(&reading, &writing, u(1)))
        else {
            panic!("a mode and then a call")
        };
        counts[3 * mode_place(mode) + worker] += 1.0 / 4_000.0;
    }
    assert!(counts.iter().zip(&pmf).all(|(found, p)| (found - p).abs() < 0.03), "{counts:?} {pmf:?}");
    // A floor leaves every candidate a part.
    let floored = ModeRouter::new(&checkpoint(), 0.09).decide(&all, 1).unwrap().pmf;
    assert!(floored.iter().all(|p| *p >= 0.01 - 1e-12) && (floored.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn alpha_is_brought_into_the_trained_range_and_what_it_cannot_read_it_refuses() {
    let router = ModeRouter::new(&checkpoint(), 0.0);
    assert_eq!([0.0, 0.25, 1.0].map(|alpha| router.clamped(alpha)), [0.1, 0.25, 0.4]);
    let mut dear = context(2, &Mode::ALL);
    dear.alpha = 0.9;
    assert_eq!(router.prefix(&dear).unwrap().0.alpha, 0.4);
    let other = Context { embedding: Embedding::new(vec![1.0, 0.0]).unwrap(), ..context(2, &Mode::ALL) };
    assert!(matches!(router.decide(&other, 1), Err(PolicyError::Dimension { wanted: EMBEDDING, found: 2, .. })));
    assert!(matches!(router.decide(&context(WORKERS_MAX + 1, &Mode::ALL), 1), Err(PolicyError::Abstains { .. })));
    assert!(router.decide(&context(WORKERS_MAX, &Mode::ALL), 1).is_ok(), "pools of any size up to that are served");
}

#[test]
fn a_checkpoint_is_read_as_it_was_written() {
    let written = checkpoint();
    let bytes = Checkpoint::to_bytes(&written.card, &written.weights).unwrap();
    let read = Checkpoint::from_bytes(&bytes, "x").unwrap();
    assert_eq!((&read.card, &read.weights), (&written.card, &written.weights));
    assert_eq!(read.hash.len(), 12);
}

#[test]
fn checkpoints_that_are_not_ours_say_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    assert!(matches!(Checkpoint::read(&path), Err(CheckpointError::File { .. })), "it is not there");
    let Checkpoint { card, weights, .. } = checkpoint();
    let error = |card: &Card, weights: &Weights| {
        fs::write(&path, Checkpoint::to_bytes(card, weights).unwrap()).unwrap();
        Checkpoint::read(&path).unwrap_err().to_string()
    };
    let other = error(&Card { grammar: "another-2".into(), ..card.clone() }, &weights);
    assert!(other.contains("another-2") && other.contains("train it again"), "{other}");
    assert!(error(&Card { embedding: 768, ..card.clone() }, &weights).contains("768"));
    assert!(error(&Card { descriptor: 4, ..card.clone() }, &weights).contains('4'));
    assert!(error(&Card { alpha: [0.5, 0.1], ..card.clone() }, &weights).contains("out of range"));
    let wider = Shape { width: 32, ..TINY };
    assert!(error(&Card { shape: wider, ..card.clone() }, &weights).contains("has the shape"));
    let mut broken = weights.clone();
    broken.numbers.get_mut("task").unwrap()[5] = f32::NAN;
    assert!(error(&card, &broken).contains("task has a number that is not finite"));
    let whole = Checkpoint::to_bytes(&card, &weights).unwrap();
    for cut in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        assert!(matches!(Checkpoint::from_bytes(&whole[..cut], "x"), Err(CheckpointError::Shape { .. })), "{cut}");
    }
    assert!("128x4".parse::<Shape>().is_err() && "100x4x3".parse::<Shape>().is_err());
    assert_eq!("128x4x4".parse::<Shape>().unwrap().to_string(), "128x4x4");
}

#[test]
fn the_policy_that_comes_with_the_program_can_be_read() {
    let shipped = Checkpoint::shipped().unwrap();
    assert_eq!(shipped.card.embedding_model, "all-MiniLM-L6-v2");
    let pmf = ModeRouter::new(&shipped, 0.0).decide(&context(4, &Mode::ALL), 1).unwrap().pmf;
    assert!((pmf.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}
