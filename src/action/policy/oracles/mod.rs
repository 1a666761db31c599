//! What others' implementations compute, as data: `ridge.json` is MABWiser's LinUCB and LinTS, `explore.json` Vowpal
//! Wabbit's epsilon-greedy and SquareCB. The scripts beside them made them and say how.

use std::collections::BTreeMap;

use ndarray::{Array1, ArrayView1};
use serde::Deserialize;

use super::{Action, PolicySettings, SquareCbSettings, ridge::Ridges};
use crate::{
    action::explore::{epsilon_greedy, optimistic, square_cb},
    round::{ArmId, Mode},
};

#[derive(Deserialize)]
struct Mabwiser {
    alpha: f64,
    rounds: Vec<(usize, f64, Vec<f64>)>,
    asked: Vec<Vec<f64>>,
    bounds: Vec<Vec<f64>>,
    means: Vec<Vec<f64>>,
    covariances: Vec<Vec<Vec<f64>>>,
}

#[derive(Deserialize)]
struct VowpalWabbit {
    epsilon_greedy: Vec<Epsilon>,
    square_cb: Vec<Gamma>,
}

#[derive(Deserialize)]
struct Epsilon {
    epsilon: f64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Gamma {
    gamma_scale: f64,
    gamma_exponent: f64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    learnt: u64,
    costs: Vec<f64>,
    pmf: Vec<f64>,
}

fn arm(number: usize) -> Action {
    (Mode::Single, ArmId::new(format!("arm-{number}")).unwrap())
}

fn mabwiser() -> (Mabwiser, Ridges) {
    let data: Mabwiser = serde_json::from_str(include_str!("ridge.json")).unwrap();
    let mut ridges = Ridges::new(data.rounds[0].2.len(), 1.0);
    for (taken, score, x) in &data.rounds {
        ridges.learn(arm(*taken), ArrayView1::from(x), *score, 1.0);
    }
    (data, ridges)
}

#[test]
fn upper_bounds_are_those_of_mabwisers_lin_ucb() {
    let (data, ridges) = mabwiser();
    for (x, bounds) in data.asked.iter().zip(&data.bounds) {
        let estimate = |number| ridges.estimate(&arm(number), ArrayView1::from(x));
        let (means, widths): (Vec<f64>, Vec<f64>) =
            (0..bounds.len()).map(estimate).map(|(mean, width)| (mean, data.alpha * width)).unzip();
        for ((mean, width), bound) in means.iter().zip(&widths).zip(bounds) {
            assert!((mean + width - bound).abs() < 1e-9, "{} {bound}", mean + width);
        }
        let best = (0..bounds.len()).max_by(|a, b| bounds[*a].total_cmp(&bounds[*b])).unwrap();
        assert_eq!(optimistic(&means, &widths, 0.0).unwrap()[best], 1.0);
    }
}

#[test]
fn posteriors_are_those_of_mabwisers_lin_ts() {
    let (data, ridges) = mabwiser();
    for (number, (mean, covariance)) in data.means.iter().zip(&data.covariances).enumerate() {
        let of = |x: &Array1<f64>| ridges.estimate(&arm(number), x.view());
        let unit = |place| Array1::from_shape_fn(mean.len(), |other| f64::from(u8::from(other == place)));
        let variance = |x: &Array1<f64>| of(x).1.powi(2);
        for (row, (mean, covariances)) in mean.iter().zip(covariance).enumerate() {
            assert!((of(&unit(row)).0 - mean).abs() < 1e-9);
            for (column, covariance) in covariances.iter().enumerate() {
                // Var(a + b) - Var(a - b) = 4 Cov(a, b).
                let (sum, difference) = (unit(row) + unit(column), unit(row) - unit(column));
                let entry = (variance(&sum) - variance(&difference)) / 4.0;
                assert!((entry - covariance).abs() < 1e-9);
            }
        }
    }
}

/// Rewards are costs with the sign turned; VW computes in 32 bits.
fn agrees(case: &Case, rule: impl FnOnce(&[f64]) -> Vec<f64>) {
    let scores: Vec<f64> = case.costs.iter().map(|cost| -cost).collect();
    for (ours, theirs) in rule(&scores).iter().zip(&case.pmf) {
        assert!((ours - theirs).abs() < 1e-6, "after {} rounds: {ours} {theirs}", case.learnt);
    }
}

#[test]
fn explorations_are_those_of_vowpal_wabbit() {
    let data: VowpalWabbit = serde_json::from_str(include_str!("explore.json")).unwrap();
    for Epsilon { epsilon, cases } in &data.epsilon_greedy {
        cases.iter().for_each(|case| agrees(case, |scores| epsilon_greedy(scores, *epsilon).unwrap()));
    }
    let ours = PolicySettings::default().square_cb;
    let mut defaults = BTreeMap::new();
    for Gamma { gamma_scale, gamma_exponent, cases } in data.square_cb {
        let settings = SquareCbSettings { gamma_scale, gamma_exponent, ..ours };
        for case in &cases {
            agrees(case, |scores| square_cb(scores, settings.gamma(case.learnt)).unwrap());
        }
        *defaults.entry(settings == ours).or_insert(0) += cases.len();
    }
    assert_eq!(defaults, BTreeMap::from([(false, 7), (true, 14)]), "VW's defaults are ours");
}
