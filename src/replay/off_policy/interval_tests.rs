//! Where the truth is, which logs are refused, which propensities are doubted, and which policy is better.

use super::{
    tests::{ARMS, CANDIDATE, COSTS_USD, LOGGED, Row, SUCCESS, evaluate, told, world},
    *,
};
use crate::{
    action::policy::{PolicySettings, build},
    round::{Propensity, RewardWeights},
};

const SCORES: RewardWeights = RewardWeights { e1: 1.0, e2: 0.0 };

/// A log whose reward is the score.
fn scored(seed: u64, rounds: u128) -> Vec<Row> {
    let mut rows = world(seed, rounds, &LOGGED);
    rows.iter_mut().for_each(|row| row.context.weights = SCORES);
    rows
}

fn score_of(pmf: impl Fn(usize, usize) -> f64) -> f64 {
    (0..2)
        .flat_map(|domain| (0..ARMS).map(move |arm| (domain, arm)))
        .map(|(d, a)| 0.5 * pmf(d, a) * SUCCESS[d][a])
        .sum()
}

/// `scores` decides whether the exact interval applies.
fn covers(scores: bool) {
    let truth = |weights: RewardWeights| {
        let value = |d: usize, a: usize| weights.reward(SUCCESS[d][a], COSTS_USD[a]);
        (0..2).flat_map(|d| (0..ARMS).map(move |a| 0.5 * CANDIDATE[d][a] * value(d, a))).sum::<f64>()
    };
    let logs = 40;
    let (mut missed, mut ever, mut width) = ([0; 4], [0; 4], [0.0; 4]);
    for seed in 0..logs {
        let rows = if scores { scored(seed, 800) } else { world(seed, 800, &LOGGED) };
        let truth = truth(rows[0].context.weights);
        let mut evaluation = Evaluation::new("candidate", &told);
        let mut ever_missed = [false; 4];
        for (row, round) in rows.iter().zip(1..) {
            evaluation.take(&row.logged()).unwrap();
            if round % 80 != 0 {
                continue;
            }
            let report = evaluation.report();
            let estimates = [&report.rejection, &report.ips, &report.snips, &report.dr];
            for (place, estimate) in estimates.into_iter().enumerate() {
                let misses = estimate.interval.is_some_and(|interval| !interval.contains(truth));
                ever_missed[place] |= misses;
                if round == 800 {
                    missed[place] += usize::from(misses);
                    width[place] += estimate.interval.unwrap().width() / logs as f64;
                    let exact = scores && place == 1;
                    let kind = if exact { IntervalKind::EmpiricalBernstein } else { IntervalKind::Asymptotic };
                    assert_eq!(estimate.interval_kind, Some(kind));
                }
            }
        }
        ever.iter_mut().zip(ever_missed).for_each(|(ever, missed)| *ever += usize::from(missed));
    }
    println!("of {logs}: missed at the end {missed:?}, ever {ever:?}, widths {width:?}");
    assert!(ever.iter().all(|ever| *ever <= logs as usize / 10), "{ever:?}");
    // An interval that holds always and says nothing would pass as well.
    assert!(width.iter().all(|width| *width < 0.4), "{width:?}");
}

#[test]
fn intervals_hold_the_truth_at_all_rounds_at_once_where_rewards_are_scores() {
    covers(true);
}

#[test]
fn intervals_hold_the_truth_at_all_rounds_at_once_where_money_counts() {
    covers(false);
}

#[test]
fn one_round_of_money_makes_the_exact_interval_an_asymptotic_one() {
    let mut rows = scored(1, 300);
    assert_eq!(evaluate(&rows, &told).ips.interval_kind, Some(IntervalKind::EmpiricalBernstein));
    rows[7].context.weights = RewardWeights { e1: 1.0, e2: -0.5 };
    assert_eq!(evaluate(&rows, &told).ips.interval_kind, Some(IntervalKind::Asymptotic));
}

#[test]
fn a_smaller_alpha_is_a_wider_interval() {
    let rows = scored(2, 600);
    let widths = [0.2, 0.05, 0.001].map(|alpha| {
        let mut evaluation = Evaluation::new("candidate", &told).with_alpha(alpha);
        rows.iter().for_each(|row| evaluation.take(&row.logged()).unwrap());
        let report = evaluation.report();
        assert_eq!(report.alpha, alpha);
        [&report.ips, &report.snips, &report.dr].map(|estimate| estimate.interval.unwrap().width())
    });
    let [wide, usual, narrow] = [widths[2], widths[1], widths[0]];
    assert!(narrow.iter().zip(&usual).chain(usual.iter().zip(&wide)).all(|(less, more)| less < more), "{widths:?}");
}

#[test]
fn a_log_that_says_nothing_of_others_is_refused_with_the_reason() {
    let greedy = evaluate(&world(2, 500, &[[1.0, 0.0, 0.0]; 2]), &told);
    assert_eq!(greedy.unusable, Some(Unusable::Deterministic));
    assert_eq!((greedy.ips, greedy.dr, greedy.rejection), Default::default());
    assert!(greedy.logged.value.is_some() && greedy.unusable.unwrap().to_string().contains("deterministic"));
    let alone = world(2, 50, &[[1.0, 0.0, 0.0]; 2]).into_iter().map(|mut row| {
        row.context.candidates.truncate(1);
        row.decision.pmf.truncate(1);
        row.context.candidates[0].features.recall_mean = 1.0;
        row
    });
    assert_eq!(evaluate(&alone.collect::<Vec<_>>(), &told).unusable, Some(Unusable::NoChoice));
    let unstated = world(2, 50, &LOGGED).into_iter().map(|mut row| {
        row.decision.pmf.clear();
        row
    });
    let report = evaluate(&unstated.collect::<Vec<_>>(), &told);
    assert_eq!((report.unusable, report.refused.without_propensity), (Some(Unusable::NoPropensities), 50));
    // A single draw makes a log usable, and nothing is neither.
    let mut rows = world(2, 50, &[[1.0, 0.0, 0.0]; 2]);
    rows.extend(world(3, 1, &LOGGED));
    assert_eq!(evaluate(&rows, &told).unusable, None);
    assert_eq!(evaluate(&[], &told).unusable, None);
}

#[test]
fn propensities_that_do_not_match_how_often_arms_were_taken_are_told() {
    let truthful = (0..20).map(|seed| evaluate(&world(seed, 1_000, &LOGGED), &told).miscalibrated.len());
    assert_eq!(truthful.sum::<usize>(), 0);
    let lying = world(1, 1_000, &LOGGED).into_iter().map(|mut row| {
        row.decision.pmf.iter_mut().for_each(|entry| entry.p = 1.0 / ARMS as f64);
        row.decision.propensity = Propensity::new(1.0 / ARMS as f64).unwrap();
        row
    });
    let report = evaluate(&lying.collect::<Vec<_>>(), &told);
    let told: Vec<_> = report.miscalibrated.iter().map(|arm| arm.arm.as_str()).collect();
    // arm-1 is drawn in 30 % of both domains, which a thousand rounds do not tell from a third.
    assert_eq!(told, ["arm-0", "arm-2"]);
    let first = &report.miscalibrated[0];
    assert!((first.expected - 1_000.0 / 3.0).abs() < 1e-6 && (first.standard_error - 14.9).abs() < 0.1, "{first:?}");
    let words = first.to_string();
    assert!(words.starts_with(&format!("arm-0 was taken {} times in 1000 verified rounds", first.taken)), "{words}");
    assert!(words.contains("sum to 333.3 (standard error 14.9;"), "{words}");
}

fn compared(rows: &[Row], a: &str, b: &str) -> ComparisonReport {
    let evaluation = |name: &str| Evaluation::new(name, &|| build(name, &PolicySettings::default()).unwrap());
    let mut comparison = Comparison::new(evaluation(a), evaluation(b), ALPHA);
    rows.iter().for_each(|row| comparison.take(&row.logged()).unwrap());
    comparison.report()
}

#[test]
fn the_better_policy_is_told_by_its_own_interval_of_the_difference() {
    let truth = score_of(|_, arm| f64::from(u8::from(arm == 1))) - score_of(|_, _| 1.0 / ARMS as f64);
    let rows = scored(3, 3_000);
    let found = compared(&rows, "fixed:arm-0", "fixed:arm-1");
    let (difference, interval) = (found.difference.unwrap(), found.interval.unwrap());
    // 0.5 and 0.45: too close for three thousand rounds.
    assert_eq!(found.verdict, Verdict::Unknown);
    assert!(interval.contains(0.05) && interval.contains(difference) && found.more_rounds > Some(1_000), "{found:?}");
    let uniform = compared(&rows, "fixed:arm-1", "uniform");
    assert!(uniform.interval.unwrap().contains(truth), "{truth} is not in {uniform:?}");
    // Paired: what a round brought is in both.
    let apart = uniform.a.dr.interval.unwrap().width() + uniform.b.dr.interval.unwrap().width();
    assert!(uniform.interval.unwrap().width() < 0.8 * apart, "{} and {apart}", uniform.interval.unwrap().width());
    // A policy that learns which arm suits which domain, either way round.
    let better = compared(&rows, "domain_prior", "uniform");
    let worse = compared(&rows, "uniform", "domain_prior");
    assert_eq!((better.verdict, worse.verdict), (Verdict::A, Verdict::B));
    assert!((better.difference.unwrap() + worse.difference.unwrap()).abs() < 1e-12);
    assert_eq!((better.more_rounds, better.a.dr), (None, worse.b.dr));
}

#[test]
fn the_same_policy_twice_is_no_difference_and_too_few_rounds_say_nothing() {
    let same = compared(&scored(4, 300), "domain_prior", "domain_prior");
    assert_eq!((same.verdict, same.difference, same.more_rounds), (Verdict::Same, Some(0.0), None));
    let few = compared(&scored(4, 40), "domain_prior", "uniform");
    assert_eq!((few.verdict, few.interval), (Verdict::Unknown, None));
    assert!(few.difference.is_some() && few.more_rounds.is_some());
    let none = compared(&[], "domain_prior", "uniform");
    assert_eq!((none.verdict, none.difference, none.more_rounds), (Verdict::Unknown, None, None));
    let greedy = compared(&world(2, 300, &[[1.0, 0.0, 0.0]; 2]), "uniform", "fixed:arm-1");
    assert_eq!((greedy.verdict, greedy.difference, greedy.interval), (Verdict::Unknown, None, None));
}
