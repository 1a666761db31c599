use proptest::prelude::*;

use super::*;
use crate::round::{OnError, VerdictStatus};

const HOUR: i64 = 3_600_000;

fn names() -> (Domain, [ArmId; 2]) {
    (Domain::new("math").unwrap(), ["a", "b"].map(|name| ArmId::new(name).unwrap()))
}

fn lived<'a>(domain: &'a Domain, arm: &'a ArmId, at_ms: i64, reward: f64) -> Lived<'a> {
    Lived {
        at_ms,
        domain,
        arm,
        mode: Mode::Single,
        failed: reward == 0.0,
        score: reward,
        reward,
        cost_usd: 0.001,
        exploring: Some(0.1),
        exact_regret: 1.0 - reward,
        estimated_regret: 0.5,
        voters: &[],
        verdicts: &[],
    }
}

fn verdict(status: VerdictStatus, score: Option<f64>, duration_us: u64) -> Verdict {
    Verdict {
        verifier: "rules".into(),
        version: "1".into(),
        sha256: String::new(),
        status,
        score,
        weight: 1.0,
        gate: false,
        on_error: OnError::default(),
        signals: vec![],
        trace: vec![],
        fuel: 100,
        duration_us,
    }
}

#[test]
fn a_view_reads_the_finest_ring_that_reaches_back_far_enough_and_knows_what_was_before() {
    let (domain, [a, b]) = names();
    let mut history = History::default();
    // A round a minute for two days; at first only two.
    let minutes = 2 * 24 * 60;
    for minute in 0..minutes {
        if minute == 2 {
            let early = history.all().report(Range::default(), true);
            assert_eq!((early.width_ms, early.points.len()), (1_000, 2));
        }
        let arm = if minute % 4 == 0 { &b } else { &a };
        history.add(&lived(&domain, arm, minute * 60_000, f64::from(minute % 2 == 0)));
    }
    let end = minutes * 60_000;
    let of = |from_ms: Option<i64>| history.all().report(Range { from_ms, to_ms: None }, true);
    let hour = of(Some(end - HOUR));
    assert_eq!((hour.width_ms, hour.points.len()), (1_000, 60), "a ring reaches further back where little happened");
    assert_eq!(
        (hour.before.rounds, hour.points.iter().map(|point| point.rounds).sum::<u64>()),
        (minutes as u64 - 60, 60)
    );
    assert_eq!(hour.arms, [a.clone(), b.clone()]);
    assert_eq!(hour.points.iter().map(|point| point.arms[1]).sum::<u64>(), 15);
    let day = of(Some(end - 23 * HOUR));
    assert_eq!((day.width_ms, day.points.len()), (300_000, 23 * 12));
    let whole = of(None);
    assert_eq!((whole.width_ms, whole.points.len(), whole.before.rounds), (10_800_000, 16, 0));
    let regret = whole.points.iter().map(|point| point.regret).sum::<f64>();
    assert!((regret - minutes as f64 / 2.0).abs() < 1e-9, "{regret}");
    let part = history.all().report(Range { from_ms: Some(end - 2 * HOUR), to_ms: Some(end - HOUR) }, false);
    let rounds: u64 = part.points.iter().map(|point| point.rounds).sum();
    assert!((60..=65).contains(&rounds) && part.before.rounds + rounds < minutes as u64, "{rounds}");
    assert!((part.points[0].regret - 0.5 * part.points[0].rounds as f64).abs() < 1e-9, "the estimate was asked for");
}

#[test]
fn a_clock_that_was_set_back_loses_no_round() {
    let (domain, [a, _]) = names();
    let mut history = History::default();
    for at_ms in [100 * HOUR, 50 * HOUR, 99 * HOUR, i64::MAX, i64::MIN, 0, -1] {
        history.add(&lived(&domain, &a, at_ms, 1.0));
    }
    let report = history.all().report(Range::default(), true);
    assert_eq!(report.points.iter().map(|point| point.rounds).sum::<u64>(), 7);
    assert!(report.points.is_sorted_by_key(|point| point.at_ms));
    assert_eq!(history.all().totals().rounds, 7);
}

#[test]
fn what_is_kept_is_bounded_whatever_comes() {
    let mut history = History::default();
    for round in 0..40_000_i64 {
        let domain = Domain::new(format!("domain-{}", round % 300)).unwrap();
        let arm = ArmId::new(format!("arm-{}", round % 1_000)).unwrap();
        history.add(&lived(&domain, &arm, round * 20_000, 1.0));
    }
    assert_eq!(history.domains().count(), DOMAINS_MAX);
    let whole = history.all().report(Range::default(), true);
    assert!(
        whole.points.len() <= 400
            && whole.points.iter().all(|point| point.arms.iter().filter(|n| **n > 0).count() <= 64)
    );
    let told = |point: &Point| point.arms.iter().sum::<u64>() + point.others == point.rounds;
    assert!(whole.points.iter().all(told) && whole.points.iter().any(|point| point.others > 0));
    assert_eq!(history.all().recent().rounds, 1_000);
}

#[test]
fn a_restart_reads_back_the_same_bits_and_goes_on_alike() {
    let (domain, [a, b]) = names();
    let voters = [("linucb".to_owned(), 0.7), ("knn".to_owned(), 0.3)];
    let verdicts = [verdict(VerdictStatus::Scored, Some(0.3), 70)];
    let rounds = |from: i64, history: &mut History| {
        for round in from..from + 500 {
            let arm = if round % 3 == 0 { &a } else { &b };
            let base = lived(&domain, arm, round * 7_001, 1.0 / (round % 7 + 1) as f64);
            history.add(&Lived { voters: &voters, verdicts: &verdicts, ..base });
        }
    };
    let mut live = History::default();
    rounds(0, &mut live);
    let kept = serde_json::to_string(&live).unwrap();
    let mut again: History = serde_json::from_str(&kept).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), kept);
    rounds(500, &mut live);
    rounds(500, &mut again);
    assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&live).unwrap());
}

#[test]
fn weights_are_in_one_order_and_a_voter_that_comes_late_has_none_before() {
    let (domain, [a, _]) = names();
    let mut history = History::default();
    let first = [("linucb".to_owned(), 1.0)];
    let later = [("knn".to_owned(), 0.25), ("linucb".to_owned(), 0.75)];
    for voters in [&first[..], &later[..], &[][..]] {
        history.add(&Lived { voters, ..lived(&domain, &a, 5, 1.0) });
    }
    let report = history.domain(&domain).unwrap().weights();
    assert_eq!(report.policies, ["linucb", "knn"]);
    let weights: Vec<_> = report.points.iter().map(|point| (point.round, point.weights.clone())).collect();
    assert_eq!(weights, [(1, vec![Some(1.0)]), (2, vec![Some(0.75), Some(0.25)])]);
}

#[test]
fn a_verifiers_runs_are_counted_by_how_they_ended() {
    let (domain, [a, _]) = names();
    let mut history = History::default();
    for run in 0..200_u64 {
        let (status, score) = match run % 10 {
            0 => (VerdictStatus::Error, None),
            1 => (VerdictStatus::LimitExceeded, Some(0.0)),
            2 => (VerdictStatus::NotApplicable, None),
            n => (VerdictStatus::Scored, Some(if n < 6 { 0.2 } else { 0.9 })),
        };
        let verdicts = [verdict(status, score, run)];
        history.add(&Lived { verdicts: &verdicts, ..lived(&domain, &a, 5, 1.0) });
    }
    let (name, record) = history.domain(&domain).unwrap().verifiers().next().unwrap();
    assert_eq!((name, record.runs, record.scored, record.passed), ("rules", 200, 140, 80));
    assert_eq!((record.errors, record.limits, record.not_applicable), (20, 20, 20));
    assert!((record.score_mean.unwrap() - (3.0 * 0.2 + 4.0 * 0.9) / 7.0).abs() < 1e-9);
    let recent = record.recent;
    assert_eq!((recent.runs, recent.duration_us_p50, recent.duration_us_p95), (128, Some(135), Some(193)));
    assert_eq!(recent.fuel_mean, Some(100.0));
}

#[test]
fn a_posterior_is_wide_without_rounds_and_ends_at_the_mean() {
    let (domain, [a, b]) = names();
    let mut history = History::default();
    for round in 0..1_000 {
        history.add(&lived(&domain, &a, round, f64::from(round % 4 == 0)));
    }
    history.add(&lived(&domain, &b, 0, 1.0));
    let arms = history.domain(&domain).unwrap().arms();
    let prior = arms.reward_mean().unwrap();
    let sure = arms.record(&a).unwrap().posterior(prior);
    // 0.25 -+ 1.96 sqrt(0.25 * 0.75 / 1000), which the prior hardly moves.
    assert!((sure.mean - 0.25).abs() < 1e-3 && (sure.high - sure.mean - 0.0269).abs() < 5e-4, "{sure:?}");
    let unsure = arms.record(&b).unwrap().posterior(prior);
    assert!(unsure.low < 0.0 && unsure.high > 1.0 && unsure.mean > 0.5, "{unsure:?}");
    assert!(ArmRecord::default().posterior(0.5).high > 1.0);
}

proptest! {
    #[test]
    fn every_round_is_in_exactly_one_point_or_before_them(times in prop::collection::vec(0..40_000_000_000_i64, 1..300), from in 0..40_000_000_000_i64) {
        let (domain, [a, _]) = names();
        let mut history = History::default();
        for at_ms in &times {
            history.add(&lived(&domain, &a, *at_ms, 1.0));
        }
        for from_ms in [None, Some(from)] {
            let report = history.all().report(Range { from_ms, to_ms: None }, true);
            let points = report.points.iter().map(|point| point.rounds).sum::<u64>();
            prop_assert_eq!(report.before.rounds + points, times.len() as u64);
            prop_assert!(report.points.is_sorted_by_key(|point| point.at_ms));
        }
    }
}
