//! Classifiers: one logistic regression per arm, its regularisation chosen on rounds held out.
//!
//! A success is a score of at least 0.5: linfa's regression takes no weights, so scores between are not split. Features
//! are made comparable as a whole, not one by one: embeddings are centred and scaled by one number to a mean squared
//! length of 1 (their directions mean together; scaling each would blow up those that hardly vary), TF-IDF weights have
//! length 1 already, and a domain is one column of 0 or 1. So one grid of strengths does for both, and a domain with many
//! rounds is hardly shrunk while a direction of the embedding is. What was scaled is folded back into the weights.

use std::{
    cell::Cell,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{
    Inputs, Provenance, TrainError, TrainingSet,
    fit::{Linear, Problem},
    tfidf::vocabulary,
};
use crate::{
    action::policy::{Action, ArmModel, ClassifierModel, Features, HeldOut, MODEL_DOMAINS_MAX},
    round::Domain,
};

/// Strengths tried, strongest first: each fit starts from the one before, and the weakest take the longest.
const ALPHAS: [f64; 7] = [100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1];
/// Strengths in a row that may do worse than the best before the rest is not tried.
const WORSE_MAX: u32 = 2;
/// One task in so many is held out.
const HELD_OUT_ONE_IN: usize = 5;
/// Seeds the choice of tasks held out.
const HELD_OUT_SEED: u64 = 1958;
/// Successes and failures that an arm needs each to be more than a constant.
const EACH_MIN: usize = 16;
/// An arm's rounds that are used, the last ones: 20,000 of 2,256 numbers take 360 MB a thread.
const ROUNDS_MAX: usize = 20_000;
/// Arms trained at the same time, at most.
const THREADS_MAX: usize = 4;
/// Rounds that the mean over all arms counts for in a constant.
const CONSTANT_MASS: f64 = 4.0;

/// A trained model, and which of its arms are constants.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The model.
    pub model: ClassifierModel,
    /// Arms that are no more than a rate of success, and why.
    pub constants: Vec<(Action, Constant)>,
}

/// Why an arm is a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// It has too few successes or too few failures.
    TooFew,
    /// No strength beat the rate of success on the rounds held out.
    NoGain,
    /// The solver found no solution.
    Unsolved,
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooFew => "too few of a kind",
            Self::NoGain => "no gain",
            Self::Unsolved => "unsolved",
        })
    }
}

/// Trains a classifier. `progress` is told (done, total) steps, from several threads.
pub fn train(
    set: &TrainingSet,
    provenance: &Provenance,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Trained, TrainError> {
    let rows = Rows::of(set)?;
    let arms: Vec<_> = set.scores.iter().collect();
    let (successes, rounds) = arms
        .iter()
        .flat_map(|(_, scores)| *scores)
        .fold((0, 0), |(successes, rounds), (_, score)| (successes + usize::from(is_success(*score)), rounds + 1));
    let everywhere = rate(successes, rounds, 0.5, 2.0);
    let steps = (ALPHAS.len() + 1) as u64;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Guards the arms' results; each worker adds one per arm.
    let results = Mutex::new(Vec::new());
    let worker = || {
        while let Some((action, scores)) = arms.get(next.fetch_add(1, Ordering::Relaxed)) {
            let of_arm = Cell::new(0);
            let step = || {
                of_arm.set(of_arm.get() + 1);
                let done = done.fetch_add(1, Ordering::Relaxed) as u64 + 1;
                progress(done, steps * arms.len() as u64);
            };
            let (arm, constant) = rows.train(scores, everywhere, &step);
            (of_arm.get()..steps).for_each(|_| step());
            results.lock().unwrap_or_else(PoisonError::into_inner).push(((*action).clone(), arm, constant));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(arms.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by(|one, other| one.0.cmp(&other.0));
    let constants = results.iter().filter_map(|(action, _, constant)| Some((action.clone(), (*constant)?))).collect();
    let Provenance { trained_on, trained_at_ms } = provenance.clone();
    let model = ClassifierModel {
        features: rows.features,
        trained_on,
        trained_at_ms,
        domains: rows.domains,
        arms: results.into_iter().map(|(action, arm, _)| (action, arm)).collect(),
        left_out: Vec::new(),
    };
    Ok(Trained { model, constants })
}

fn is_success(score: f64) -> bool {
    score >= 0.5
}

/// The rate of success, shrunk toward `prior` as if that had been seen `mass` times.
fn rate(successes: usize, rounds: usize, prior: f64, mass: f64) -> f64 {
    (successes as f64 + mass * prior) / (rounds as f64 + mass)
}

fn count(rounds: &[(usize, bool)]) -> usize {
    rounds.iter().filter(|(_, success)| *success).count()
}

/// A strength, what was fitted with it, and how that does.
struct Chosen {
    alpha: f64,
    linear: Linear,
    held_out: HeldOut,
}

/// The tasks as rows of numbers.
struct Rows<'a> {
    inputs: &'a Inputs,
    features: Features,
    /// What is known of each text; empty for embeddings.
    sparse: Vec<Vec<(usize, f32)>>,
    /// The embeddings' mean, and what they are multiplied by once it is taken off.
    centre: Vec<f64>,
    scale: f64,
    domains: Vec<Domain>,
    /// Each task's domain among those.
    domain_of: Vec<Option<usize>>,
    held_out: Vec<bool>,
}

impl<'a> Rows<'a> {
    fn of(set: &'a TrainingSet) -> Result<Self, TrainError> {
        let mut domains = set.domains.clone();
        domains.sort();
        domains.dedup();
        domains.truncate(MODEL_DOMAINS_MAX);
        let domain_of = set.domains.iter().map(|domain| domains.binary_search(domain).ok()).collect();
        let (mut centre, mut scale, mut sparse) = (Vec::new(), 1.0, Vec::new());
        let features = match &set.inputs {
            Inputs::Embeddings { model, vectors } => {
                let dimension = vectors.first().map_or(0, |vector| vector.as_slice().len());
                centre = vec![0.0; dimension];
                for vector in vectors {
                    centre.iter_mut().zip(vector.as_slice()).for_each(|(sum, x)| *sum += f64::from(*x));
                }
                centre.iter_mut().for_each(|sum| *sum /= vectors.len() as f64);
                // Vectors are of length 1, so their mean squared distance from the mean is 1 - |mean|^2.
                let spread = 1.0 - centre.iter().map(|x| x * x).sum::<f64>();
                if spread > 1e-6 {
                    scale = spread.sqrt().recip();
                }
                Features::Embedding { model: model.clone(), dimension }
            }
            Inputs::Texts(texts) => {
                let vocabulary = vocabulary(texts)?;
                sparse = texts.iter().map(|text| vocabulary.weigh(text)).collect();
                Features::Tfidf(vocabulary)
            }
        };
        let mut order: Vec<usize> = (0..set.tasks()).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(HELD_OUT_SEED));
        let mut held_out = vec![false; set.tasks()];
        order.into_iter().step_by(HELD_OUT_ONE_IN).for_each(|task| held_out[task] = true);
        Ok(Self { inputs: &set.inputs, features, sparse, centre, scale, domains, domain_of, held_out })
    }

    /// Tells the cells of a task's row that are not 0, with their columns.
    fn each_cell(&self, task: usize, mut tell: impl FnMut(usize, f64)) {
        match self.inputs {
            Inputs::Embeddings { vectors, .. } => {
                for (column, (x, centre)) in vectors[task].as_slice().iter().zip(&self.centre).enumerate() {
                    tell(column, (f64::from(*x) - centre) * self.scale);
                }
            }
            Inputs::Texts(_) => self.sparse[task].iter().for_each(|(column, x)| tell(*column, f64::from(*x))),
        }
        if let Some(domain) = self.domain_of[task] {
            tell(self.features.dimension() + domain, 1.0);
        }
    }

    fn problem(&self, rounds: &[(usize, bool)]) -> Option<Problem> {
        let mut cells = vec![0.0; rounds.len() * (self.features.dimension() + self.domains.len())];
        for (row, (task, _)) in rounds.iter().enumerate() {
            self.each_cell(*task, |column, x| cells[column * rounds.len() + row] = x);
        }
        Problem::new(cells, rounds.iter().map(|(_, success)| *success).collect())
    }

    fn train(&self, scores: &[(usize, f64)], everywhere: f64, step: &dyn Fn()) -> (ArmModel, Option<Constant>) {
        let scores = &scores[scores.len().saturating_sub(ROUNDS_MAX)..];
        let all: Vec<(usize, bool)> = scores.iter().map(|(task, score)| (*task, is_success(*score))).collect();
        let successes = count(&all);
        let constant = |held_out, why| {
            let p = rate(successes, all.len(), everywhere, CONSTANT_MASS);
            (self.arm(&all, None, Linear { intercept: (p / (1.0 - p)).ln(), weights: Vec::new() }, held_out), Some(why))
        };
        if successes.min(all.len() - successes) < EACH_MIN {
            return constant(None, Constant::TooFew);
        }
        let Some(Chosen { alpha, linear, held_out }) = self.choose(&all, step) else {
            return constant(None, Constant::Unsolved);
        };
        if held_out.log_loss.is_nan() || held_out.log_loss >= held_out.base_log_loss {
            return constant(Some(held_out), Constant::NoGain);
        }
        match self.problem(&all).and_then(|problem| problem.solve(alpha, Some(&linear))) {
            Some(linear) => (self.arm(&all, Some(alpha), linear, Some(held_out)), None),
            None => constant(Some(held_out), Constant::Unsolved),
        }
    }

    /// The strength that does best on the rounds held out, fitted to the others. None when none can be solved.
    fn choose(&self, all: &[(usize, bool)], step: &dyn Fn()) -> Option<Chosen> {
        let (unseen, seen): (Vec<_>, Vec<_>) = all.iter().copied().partition(|(task, _)| self.held_out[*task]);
        let base = rate(count(&seen), seen.len(), 0.5, 2.0);
        let problem = self.problem(&seen)?;
        let (mut start, mut best, mut worse): (Option<Linear>, Option<Chosen>, u32) = (None, None, 0);
        for alpha in ALPHAS {
            let solved = problem.solve(alpha, start.as_ref());
            step();
            let Some(linear) = solved else { continue };
            let held_out = self.judge(&linear, &unseen, base);
            if best.as_ref().is_none_or(|best| held_out.log_loss < best.held_out.log_loss) {
                (best, worse) = (Some(Chosen { alpha, linear: linear.clone(), held_out }), 0);
            } else {
                worse += 1;
            }
            if worse == WORSE_MAX {
                break;
            }
            start = Some(linear);
        }
        best
    }

    /// How a linear function does on rounds that it was not fitted to, against always saying `base`.
    fn judge(&self, linear: &Linear, unseen: &[(usize, bool)], base: f64) -> HeldOut {
        let rounds = unseen.len() as f64;
        let (mut right, mut loss, mut base_right, mut base_loss) = (0.0, 0.0, 0.0, 0.0);
        for (task, success) in unseen {
            let mut log_odds = linear.intercept;
            self.each_cell(*task, |column, x| log_odds += linear.weights[column] * x);
            let toward = if *success { log_odds } else { -log_odds };
            // log(1 + exp(-t)), which does not overflow.
            loss += (-toward.abs()).exp().ln_1p() + (-toward).max(0.0);
            right += f64::from(u8::from((log_odds >= 0.0) == *success));
            base_loss -= if *success { base.ln() } else { (1.0 - base).ln() };
            base_right += f64::from(u8::from((base >= 0.5) == *success));
        }
        HeldOut {
            rounds: unseen.len() as u64,
            accuracy: right / rounds,
            log_loss: loss / rounds,
            base_accuracy: base_right / rounds,
            base_log_loss: base_loss / rounds,
        }
    }

    /// The arm's model, in terms of the features as they come: the scaling is folded into the weights.
    fn arm(&self, all: &[(usize, bool)], alpha: Option<f64>, linear: Linear, held_out: Option<HeldOut>) -> ArmModel {
        let (weights, domain_weights) = linear.weights.split_at(linear.weights.len().min(self.features.dimension()));
        let centred: f64 = weights.iter().zip(&self.centre).map(|(w, x)| w * x).sum();
        ArmModel {
            rounds: all.len() as u64,
            successes: count(all) as u64,
            alpha,
            intercept: (linear.intercept - self.scale * centred) as f32,
            weights: weights.iter().map(|w| (self.scale * w) as f32).collect(),
            domain_weights: domain_weights.iter().map(|w| *w as f32).collect(),
            held_out,
        }
    }
}
