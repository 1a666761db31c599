//! Formulas beside independent computations, and coverage over all rounds at once on seeded streams.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{bernstein::boundary, *};

#[test]
fn moments_agree_with_two_passes_over_the_terms() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let terms: Vec<f64> = (0..500).map(|_| rng.random::<f64>().powi(4) * 30.0 - 2.0).collect();
    let mut sequence = ConfidenceSequence::default();
    terms.iter().for_each(|term| sequence.add(*term));
    let mean = terms.iter().sum::<f64>() / 500.0;
    let power = |exponent| terms.iter().map(|term| (term - mean).powi(exponent)).sum::<f64>();
    for (ours, theirs) in
        [(sequence.mean, mean), (sequence.m2, power(2)), (sequence.m3, power(3)), (sequence.m4, power(4))]
    {
        assert!((ours / theirs - 1.0).abs() < 1e-9, "{ours} for {theirs}");
    }
}

#[test]
fn a_sequence_comes_back_from_json_bit_for_bit_and_goes_on_alike() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut sequence, mut bounded) = (ConfidenceSequence::default(), EmpiricalBernstein::default());
    for _ in 0..300 {
        let value: f64 = rng.random();
        sequence.add(value / 3.0);
        bounded.add(value * 2.0, 0.1);
    }
    let text = serde_json::to_string(&(&sequence, &bounded)).unwrap();
    let (mut again, bounded_again): (ConfidenceSequence, EmpiricalBernstein) = serde_json::from_str(&text).unwrap();
    assert_eq!((&again, &bounded_again), (&sequence, &bounded));
    again.add(0.7);
    sequence.add(0.7);
    assert_eq!(again.interval(0.05), sequence.interval(0.05));
}

#[test]
fn nothing_is_said_before_the_variance_is_known() {
    let mut sequence = ConfidenceSequence::default();
    assert_eq!((sequence.mean(), sequence.interval(0.05)), (None, None));
    (0..99).for_each(|round| sequence.add(f64::from(round % 2)));
    assert_eq!(sequence.interval(0.05), None);
    sequence.add(1.0);
    assert!(sequence.interval(0.05).is_some_and(|interval| interval.contains(0.5)));
    assert_eq!((sequence.interval(0.0), sequence.interval(1.0), sequence.interval(f64::NAN)), (None, None, None));
    // A term that is no number changes nothing.
    let before = sequence.clone();
    sequence.add(f64::NAN);
    assert_eq!(sequence, before);
    // All alike, and all alike but one.
    let mut constant = ConfidenceSequence::default();
    (0..1_000).for_each(|_| constant.add(0.5));
    assert_eq!(constant.interval(0.05), None);
    constant.add(50.0);
    assert_eq!(constant.interval(0.05), None);
}

#[test]
fn it_is_tightest_where_it_was_told_to_be() {
    for rounds in [500, 20_000] {
        let width = |tightest_at: u64| ConfidenceSequence::tightest_at(tightest_at).half_width(rounds as f64, 0.05);
        let best = width(rounds);
        assert!(width(rounds / 4) > best && width(rounds * 4) > best);
        assert!(width(rounds / 10) < 1.15 * best && width(rounds * 10) < 1.3 * best);
    }
}

#[test]
fn tells_how_many_rounds_a_width_takes() {
    let mut sequence = ConfidenceSequence::default();
    (0..400).for_each(|round| sequence.add(f64::from(round % 2)));
    let rounds = sequence.rounds_until(0.01, 0.05).unwrap();
    let half = |n: u64| sequence.half_width(n as f64, 0.05) * sequence.variance().unwrap().sqrt();
    assert!(half(rounds) <= 0.01 && half(rounds - 1) > 0.01);
    assert_eq!(sequence.rounds_until(0.0, 0.05), None);
}

/// The mixture by numerical integration over l, with the truncated gamma density of 1 - l.
fn mixture(s: f64, v: f64, rho: f64) -> f64 {
    let steps = 200_000;
    let (mut mixed, mut mass) = (0.0, 0.0);
    for step in 0..steps {
        let rest = (f64::from(step) + 0.5) / f64::from(steps);
        let density = (rho - 1.0) * rest.ln() - rho * rest;
        let bet = 1.0 - rest;
        mass += density.exp();
        mixed += (density + bet * s + v * (rest.ln() + bet)).exp();
    }
    mixed / mass
}

#[test]
fn the_boundary_is_where_the_integrated_mixture_reaches_one_over_alpha() {
    for (v, rho, alpha) in [(0.0, 30.0, 0.025), (5.0, 60.0, 0.05), (400.0, 60.0, 0.025), (5_000.0, 100.0, 0.005)] {
        let s = boundary(v, rho, alpha);
        let reached = mixture(s, v, rho) * alpha;
        assert!((reached - 1.0).abs() < 1e-3, "v {v}: {reached}");
    }
}

/// Of `streams` seeded streams, how many an interval ever missed, and its mean width at the end. A stream gives each term
/// with its conditional mean.
fn ever_missed(
    streams: u64,
    rounds: u32,
    add: impl Fn(u64, u32) -> Vec<(Option<Interval>, f64)>,
) -> (Vec<f64>, Vec<f64>) {
    let mut missed = [0.0; 2];
    let mut width = [0.0; 2];
    for stream in 0..streams {
        let seen = add(stream, rounds);
        for (at, half) in seen.chunks(seen.len() / 2).enumerate() {
            let ever = half.iter().any(|(interval, truth)| interval.is_some_and(|interval| !interval.contains(*truth)));
            missed[at] += f64::from(u8::from(ever)) / streams as f64;
            width[at] +=
                half.last().and_then(|(interval, _)| *interval).map_or(f64::NAN, |i| i.width()) / streams as f64;
        }
    }
    (missed.to_vec(), width.to_vec())
}

#[test]
fn both_cover_a_moving_mean_at_all_rounds_at_once() {
    // Terms of weights 0 to 5 whose means drift; one look every ten rounds.
    let (missed, width) = ever_missed(200, 2_000, |seed, rounds| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut asymptotic, mut bounded) = (ConfidenceSequence::default(), EmpiricalBernstein::default());
        let (mut truth, mut first, mut second) = (0.0, vec![], vec![]);
        for round in 1..=rounds {
            let mean = 0.3 + 0.4 * f64::from(round) / f64::from(rounds);
            let weight = if rng.random_bool(0.2) { 5.0 } else { 0.0 };
            let value = f64::from(u8::from(rng.random_bool(mean)));
            truth += mean;
            asymptotic.add(weight * value);
            bounded.add(weight, value);
            if round % 10 == 0 {
                let mean = truth / f64::from(round);
                first.push((asymptotic.interval(0.05), mean));
                second.push((bounded.interval(0.05), mean));
            }
        }
        first.extend(second);
        first
    });
    println!("missed {missed:?}, widths {width:?}");
    assert!(missed.iter().all(|share| *share <= 0.06), "{missed:?}");
    assert!(width[0] < 0.35 && width[1] < 0.4, "{width:?}");
}

#[test]
fn a_variance_that_is_known_beforehand_holds_where_one_that_was_seen_does_not() {
    // Weights of 1, and after 500 rounds of 20 once in 20: until the first comes nothing has been seen of them.
    let (missed, width) = ever_missed(200, 1_500, |seed, rounds| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut seen, mut known) = (ConfidenceSequence::default(), ConfidenceSequence::default());
        let (mut first, mut second) = (vec![], vec![]);
        for round in 1..=rounds {
            let largest = if round <= 500 { 1.0 } else { 20.0 };
            let weight = if rng.random_bool(1.0 / largest) { largest } else { 0.0 };
            let term = weight * f64::from(u8::from(rng.random_bool(0.5)));
            seen.add(term);
            known.add_expecting(term, 0.5 * largest, 0.25 * largest.powi(3));
            if round % 10 == 0 {
                first.push((seen.interval(0.05), 0.5));
                second.push((known.interval(0.05), 0.5));
            }
        }
        first.extend(second);
        first
    });
    println!("missed {missed:?}, widths {width:?}");
    assert!(missed[0] > 0.1 && missed[1] <= 0.05, "{missed:?}");
    assert!(width[1] < 0.5, "{width:?}");
}
