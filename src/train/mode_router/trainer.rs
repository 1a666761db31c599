//! The trainer: one step after another, kept in a file now and then.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use rand::Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    advantage::{Advantage, Scale},
    environment::{Environment, World},
    grading::{Costs, Group, Weighing, weigh},
    loss::{Batch, Counts, Kind, LossSettings, loss, number, support},
    network::{Network, Sequence, variables, weights_of},
    optimiser::{AdamW, add, gather},
    plans::{FixedWays, tokens},
    rollout::{Free, Rollout, look, picked, prefix, roll, seeded},
    schedule::Schedule,
    warm_up,
};
use crate::{
    action::policy::mode_router::{Frozen, Piece, Prefix, Shape, Weights},
    round::Mode,
};

/// Trajectories that gradients are made of at one time, where that is not a processor: what bounds memory.
const PIECE: usize = 256;
/// Numbers of a tensor that candle shares out among threads on a processor.
const NUMBERS: usize = 1 << 16;

/// How a mode-router is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSettings {
    /// The network's size.
    pub shape: Shape,
    /// Seeds everything.
    pub seed: u64,
    /// Steps in which the rules are practised.
    pub warm_up: u64,
    /// Steps after them in which the best fixed ways of each domain are practised.
    pub practice: u64,
    /// Steps after them.
    pub steps: u64,
    /// Queries of a step.
    pub queries: usize,
    /// Trajectories of a query, at least 2.
    pub rollouts: usize,
    /// The optimiser's rate; it falls to a tenth over the steps in which modes are free.
    pub rate: f64,
    /// The same in practice.
    pub warm_up_rate: f64,
    /// The alphas that are trained on, evenly, in [0, 1].
    pub alpha: [f64; 2],
    /// Whether modes and what is done within them are told apart.
    pub comet: bool,
    /// What differences within a group are divided by.
    pub scale: Scale,
    /// How exploration goes on.
    pub schedule: Schedule,
    /// How the loss is made.
    pub loss: LossSettings,
    /// How often the rules alone declare each mode; they sum to 1.
    pub prior: [f64; 3],
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            shape: Shape { width: 64, layers: 2, heads: 4 },
            seed: 1,
            warm_up: 300,
            practice: 800,
            steps: 1_600,
            queries: 64,
            rollouts: 8,
            rate: 3e-4,
            warm_up_rate: 2e-3,
            alpha: [0.0, 0.5],
            comet: true,
            scale: Scale::Batch,
            // Several times as long as published: a step is that of a network 10,000 times smaller.
            schedule: Schedule { cold: 150, anneal: 450, support: 0.5, ..Schedule::default() },
            loss: LossSettings { beta: 0.01, ..LossSettings::default() },
            prior: [1.0 / 3.0; 3],
        }
    }
}

/// Why training cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The arithmetic failed.
    #[error("the network: {0}")]
    Network(#[from] candle_core::Error),
    /// A file cannot be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        reason: String,
    },
    /// It belongs to another training.
    #[error(
        "{path} is of a training with other settings ({what}): go on with the same, or begin another run in another folder"
    )]
    OtherSettings {
        /// The file.
        path: String,
        /// The first that differs.
        what: String,
    },
    /// There is nothing to train on.
    #[error("there is no task to train on")]
    NoQueries,
}

/// What one step came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The step, from 0; those in which the rules are learnt first.
    pub step: u64,
    /// Whether it was one of those.
    pub warm_up: bool,
    /// The loss.
    pub loss: f64,
    /// The part of it that mode tokens have.
    #[serde(default)]
    pub loss_mode: f64,
    /// The part of it that all other tokens of the policy have.
    #[serde(default)]
    pub loss_inner: f64,
    /// The part of the queries whose mode was forced.
    pub rho: f64,
    /// Mean reward of the rollouts, (1 - alpha) task + alpha efficiency; task alone in the cold start.
    pub reward: f64,
    /// Mean score of those that answered.
    pub score: f64,
    /// Mean dollars of those.
    pub cost_usd: f64,
    /// Mean calls of those.
    pub calls: f64,
    /// What part of the free rollouts chose each mode.
    pub modes: [f64; 3],
    /// Mean task reward of the rollouts of each mode, forced or free; 0 where there were none.
    pub by_mode: [f64; 3],
    /// Mean size of the modes' advantages, over free rollouts.
    pub advantage_mode: f64,
    /// Mean size of the others.
    pub advantage_inner: f64,
    /// Mean distance from the reference.
    pub kl: f64,
    /// The term that keeps modes alive, times its weight.
    pub support: f64,
    /// How long the gradient was.
    pub gradient: f64,
    /// Rollouts by the rule that they broke, and those that never ended.
    pub violations: BTreeMap<String, u64>,
    /// Rollouts.
    pub rollouts: u64,
}

/// A training under way.
pub struct Trainer<'a> {
    environment: &'a dyn Environment,
    pub(super) settings: TrainSettings,
    pub(super) device: Device,
    pub(super) variables: BTreeMap<String, Var>,
    pub(super) optimiser: AdamW,
    pub(super) reference: Weights,
    pub(super) done: u64,
    pub(super) costs: Costs,
    /// The best fixed ways, once they are needed.
    fixed: Option<FixedWays>,
}

impl<'a> Trainer<'a> {
    /// Begins.
    pub fn new(environment: &'a dyn Environment, settings: TrainSettings, device: Device) -> Result<Self, TrainError> {
        if environment.queries().is_empty() {
            return Err(TrainError::NoQueries);
        }
        let first = Weights::first(settings.shape, settings.seed);
        let variables = variables(&first, DType::F32, &device)?;
        let optimiser = AdamW::new(&variables, settings.warm_up_rate, 0.0, 1.0)?;
        Ok(Self {
            environment,
            settings,
            device,
            variables,
            optimiser,
            reference: first,
            done: 0,
            costs: Costs::default(),
            fixed: None,
        })
    }

    /// Steps that are done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// All steps.
    pub fn steps(&self) -> u64 {
        self.practised() + self.settings.steps
    }

    /// Steps of practice, before anything is tried.
    pub(super) fn practised(&self) -> u64 {
        self.settings.warm_up + self.settings.practice
    }

    /// The settings.
    pub fn settings(&self) -> &TrainSettings {
        &self.settings
    }

    /// Dollars at which a trajectory's cost halves its reward in a pool of workers: the 95th percentile of the trajectories
    /// in which the rules are practised, of the cold start's where they are not.
    pub fn cost_reference_usd(&self, pool: usize) -> f64 {
        self.costs.reference_usd(pool)
    }

    /// The network's numbers, as they are now.
    pub fn weights(&self) -> Result<Weights, TrainError> {
        Ok(weights_of(self.settings.shape, &self.variables)?)
    }

    /// One step more.
    pub fn step(&mut self) -> Result<StepReport, TrainError> {
        let practised = self.practised();
        let report = if self.done < practised { self.practise() } else { self.learn(self.done - practised) };
        self.done += 1;
        if self.done == self.settings.warm_up {
            self.costs.freeze();
        }
        if self.done == practised {
            self.reference = self.weights()?;
            self.optimiser = AdamW::new(&self.variables, self.settings.rate, 0.0, 1.0)?;
        }
        report
    }

    fn rng(&self, what: &[u8], numbers: &[u64]) -> rand_chacha::ChaCha8Rng {
        seeded(self.settings.seed, what, numbers)
    }

    fn queries(&self, step: u64) -> Vec<usize> {
        picked(self.settings.seed, self.environment.queries().len(), self.settings.queries, step)
    }

    /// What a query looks like in a step: its alpha, its workers' order, its prefix.
    fn look(&self, step: u64, query: usize) -> (f64, Vec<usize>, Prefix) {
        let workers = self.environment.queries()[query].workers.len();
        let (alpha, order) = look(self.settings.seed, self.settings.alpha, workers, step, query);
        let prefix = prefix(&self.environment.queries()[query], alpha, &order);
        (alpha, order, prefix)
    }

    fn practise(&mut self) -> Result<StepReport, TrainError> {
        let network = Frozen::new(self.weights()?);
        let (step, of_rules) = (self.done, self.done < self.settings.warm_up);
        if !of_rules && self.fixed.is_none() {
            let reference_usd = |pool| self.costs.reference_usd(pool);
            self.fixed = Some(FixedWays::search(self.environment, self.settings.alpha, reference_usd));
        }
        let write = |(place, query): (usize, usize)| {
            let (alpha, order, prefix) = self.look(step, query);
            let world = self.environment.world(query, self.settings.seed ^ step);
            let mut rng = self.rng(b"rules", &[step, place as u64]);
            let (mut shown, mut modes) = (vec![], self.settings.prior);
            if let (false, Some(fixed)) = (of_rules, &self.fixed) {
                let plans = fixed.of(self.environment.queries()[query].domain, alpha);
                shown = tokens(&*world, &plans[rng.random_range(0..plans.len())].0, &order);
                modes = warm_up::modes(plans.each_ref().map(|(_, reward)| *reward));
            }
            let mut rules = warm_up::Rules { modes, rng: &mut rng, targets: vec![] };
            let begun = network.begin(&prefix);
            let mut writer = warm_up::Shown { rules: &mut rules, tokens: shown.into_iter() };
            let rollout = roll(&network, &begun, &prefix, &order, &*world, None, &mut writer);
            let pool = self.environment.queries()[query].pool;
            (Group { pool, alpha, forced: true, rollouts: vec![rollout] }, rules.targets)
        };
        let queries: Vec<(usize, usize)> =
            self.queries(step).into_iter().cycle().take(2 * self.settings.queries).enumerate().collect();
        let (groups, targets): (Vec<Group<Rollout>>, Vec<Vec<_>>) = queries.into_par_iter().map(write).unzip();
        self.costs.see(&groups, true);
        let written: Vec<(&Sequence, Vec<_>)> =
            groups.iter().flat_map(|group| &group.rollouts).map(|rollout| &rollout.sequence).zip(targets).collect();
        let choices = written.iter().map(|(_, targets)| targets.len()).sum();
        let network = Network::learning(self.settings.shape, &self.variables);
        let piece = |piece: &[usize]| {
            let sequences: Vec<&Sequence> = piece.iter().map(|row| written[*row].0).collect();
            let targets: Vec<_> = piece.iter().flat_map(|row| written[*row].1.clone()).collect();
            let workers = sequences.iter().map(|sequence| sequence.prefix.workers.len()).max().unwrap_or_default();
            let loss = warm_up::loss(&network.read(&sequences)?, &targets, workers, choices)?;
            let mut gradients = BTreeMap::new();
            gather(&mut gradients, &self.variables, &loss.backward()?)?;
            Ok((number(&loss)?, gradients))
        };
        let (mut loss, mut gradients) = (0.0, BTreeMap::new());
        for (part, found) in self.each(&self.pieces((0..written.len()).collect(), |row| written[row].0), piece)? {
            loss += part;
            add(&mut gradients, found)?;
        }
        let gradient = self.optimiser.step(&self.variables, &gradients)?;
        Ok(StepReport { step, warm_up: true, loss, gradient, rho: 1.0, ..StepReport::default() })
    }

    fn learn(&mut self, step: u64) -> Result<StepReport, TrainError> {
        let groups = self.groups(step)?;
        let cold = self.settings.schedule.is_cold(step);
        self.costs.see(&groups, cold);
        let mut report = StepReport { step: self.done, rho: self.settings.schedule.rho(step), ..StepReport::default() };
        let weighing = Weighing { cold, comet: self.settings.comet, scale: self.settings.scale };
        let weights = weigh(&groups, &self.costs, weighing, &mut report).concat();
        let rows: Vec<&Rollout> = groups.iter().flat_map(|group| &group.rollouts).collect();
        let mut gradients = BTreeMap::new();
        self.descend(&rows, &weights, &mut gradients, &mut report)?;
        self.keep_modes_alive(step, &mut gradients, &mut report)?;
        self.optimiser.rate = self.settings.rate * self.cooled(step);
        report.gradient = self.optimiser.step(&self.variables, &gradients)?;
        Ok(report)
    }

    /// What part of the rate a step has: all of it until modes are free, then less and less, a tenth at the end.
    fn cooled(&self, step: u64) -> f64 {
        let TrainSettings { steps, schedule, .. } = &self.settings;
        let free = schedule.cold + schedule.anneal;
        let gone = step.saturating_sub(free) as f64 / steps.saturating_sub(free).max(1) as f64;
        1.0 - 0.9 * gone.min(1.0)
    }

    /// Every query's rollouts, written side by side.
    fn groups(&self, step: u64) -> Result<Vec<Group<Rollout>>, TrainError> {
        let network = Frozen::new(self.weights()?);
        let write = |query: usize| {
            let (alpha, order, prefix) = self.look(self.done, query);
            let world: Box<dyn World + '_> = self.environment.world(query, self.settings.seed ^ self.done);
            let forced = self.settings.schedule.forced(step, self.settings.seed, &self.environment.queries()[query].id);
            let begun = network.begin(&prefix);
            let rollout = |number: usize| {
                let mut writer = Free::new(&network, self.rng(b"rollout", &[self.done, query as u64, number as u64]));
                roll(&network, &begun, &prefix, &order, &*world, forced, &mut writer)
            };
            let pool = self.environment.queries()[query].pool;
            let rollouts = (0..self.settings.rollouts).map(rollout).collect();
            Group { pool, alpha, forced: forced.is_some(), rollouts }
        };
        Ok(self.queries(self.done).into_par_iter().map(write).collect())
    }

    /// The gradient of the loss, piece by piece.
    fn descend(
        &self,
        rows: &[&Rollout],
        weights: &[Option<Advantage>],
        gradients: &mut BTreeMap<String, Tensor>,
        report: &mut StepReport,
    ) -> Result<(), TrainError> {
        let kinds = |rollout: &Rollout, weight: &Option<Advantage>| -> Vec<Kind> {
            if weight.is_some() { rollout.kinds.clone() } else { vec![Kind::Masked; rollout.kinds.len()] }
        };
        let all: Vec<Kind> = rows.iter().zip(weights).flat_map(|(rollout, weight)| kinds(rollout, weight)).collect();
        // Forced declarations are counted, though they have no gradient: else the few free ones that there are when exploration begins
        // to end would move the modes as far as a whole batch of them does, each step anew, to wherever chance points.
        let counts = Counts { mode: rows.len(), ..Counts::of(&all) };
        let reference = Network::fixed(&self.reference, DType::F32, &self.device)?;
        let network = Network::learning(self.settings.shape, &self.variables);
        let settings = LossSettings { apart: self.settings.comet, ..self.settings.loss };
        let piece = |piece: &[usize]| -> Result<Piecemeal, TrainError> {
            let sequences: Vec<&Sequence> = piece.iter().map(|row| &rows[*row].sequence).collect();
            let kind: Vec<Kind> = piece.iter().flat_map(|row| kinds(rows[*row], &weights[*row])).collect();
            let advantage = if self.settings.comet { apart(piece, rows, weights) } else { plain(piece, rows, weights) };
            let said = network.read(&sequences)?;
            let log_ref = reference.read(&sequences)?.log_pi.detach();
            let log_old = said.log_pi.detach();
            let batch = Batch {
                log_pi: &said.log_pi,
                log_old: &log_old,
                log_ref: &log_ref,
                advantage: &advantage,
                kind: &kind,
            };
            let loss = loss(&batch, counts, &settings)?;
            let mut gradients = BTreeMap::new();
            gather(&mut gradients, &self.variables, &loss.total.backward()?)?;
            Ok(Piecemeal { total: number(&loss.total)?, mode: loss.mode, inner: loss.inner, kl: loss.kl, gradients })
        };
        let order: Vec<usize> = (0..rows.len()).filter(|row| !rows[*row].kinds.is_empty()).collect();
        let pieces = self.pieces(order, |row| &rows[row].sequence);
        for part in self.each(&pieces, piece)? {
            report.loss += part.total;
            report.loss_mode += part.mode;
            report.loss_inner += part.inner;
            report.kl += part.kl;
            add(gradients, part.gradients)?;
        }
        Ok(())
    }

    /// Cuts a batch: trajectories of a length together, so that little is padding. On processors no tensor may be so large that candle would share single
    /// operations out among threads that wait for each other; the pieces are shared out instead.
    fn pieces<'s>(&self, mut order: Vec<usize>, sequence: impl Fn(usize) -> &'s Sequence) -> Vec<Vec<usize>> {
        let length = |row: usize| 2 + sequence(row).prefix.workers.len() + sequence(row).pieces.len();
        order.sort_by_key(|row| length(*row));
        if !self.device.is_cpu() {
            return order.chunks(PIECE).map(<[usize]>::to_vec).collect();
        }
        let mut pieces: Vec<Vec<usize>> = Vec::new();
        for row in order {
            match pieces.last_mut() {
                Some(piece) if (piece.len() + 1) * length(row) * 4 * self.settings.shape.width < NUMBERS => {
                    piece.push(row);
                }
                Some(_) | None => pieces.push(vec![row]),
            }
        }
        pieces
    }

    /// What becomes of each piece, in their order.
    fn each<T: Send>(
        &self,
        pieces: &[Vec<usize>],
        of: impl Fn(&[usize]) -> Result<T, TrainError> + Sync + Send,
    ) -> Result<Vec<T>, TrainError> {
        if self.device.is_cpu() {
            pieces.par_iter().map(|piece| of(piece)).collect()
        } else {
            pieces.iter().map(|piece| of(piece)).collect()
        }
    }

    fn keep_modes_alive(
        &self,
        step: u64,
        gradients: &mut BTreeMap<String, Tensor>,
        report: &mut StepReport,
    ) -> Result<(), TrainError> {
        let lambda = self.settings.schedule.lambda(step);
        if lambda <= 0.0 {
            return Ok(());
        }
        let start = |query: usize| {
            let (_, _, prefix) = self.look(self.done, query);
            let choice = super::network::Choice { at: 0, token: crate::grammar::Token::Mode(Mode::Single), nodes: 0 };
            Sequence { prefix, pieces: vec![Piece::Start], choices: vec![choice] }
        };
        let starts: Vec<Sequence> = self.queries(self.done).into_iter().map(start).collect();
        let said = Network::learning(self.settings.shape, &self.variables).read(&starts.iter().collect::<Vec<_>>())?;
        let term = (support(&said.log_modes, self.settings.loss.floor)? * lambda)?;
        report.support = number(&term)?;
        Ok(gather(gradients, &self.variables, &term.backward()?)?)
    }
}

/// A piece's part of the loss and of the gradients.
struct Piecemeal {
    total: f64,
    mode: f64,
    inner: f64,
    kl: f64,
    gradients: BTreeMap<String, Tensor>,
}

/// Weights of all tokens: those that declare a mode and the others.
fn apart(piece: &[usize], rows: &[&Rollout], weights: &[Option<Advantage>]) -> Vec<f64> {
    let of = |row: &usize| {
        let weight = weights[*row].unwrap_or_default();
        let kinds = rows[*row].kinds.iter();
        kinds.map(move |kind| if *kind == Kind::Mode { weight.mode } else { weight.inner })
    };
    piece.iter().flat_map(of).collect()
}

/// Weights of all tokens where modes are not told apart.
fn plain(piece: &[usize], rows: &[&Rollout], weights: &[Option<Advantage>]) -> Vec<f64> {
    let of = |row: &usize| {
        let weight = weights[*row].unwrap_or_default();
        std::iter::repeat_n(weight.mode + weight.inner, rows[*row].kinds.len())
    };
    piece.iter().flat_map(of).collect()
}
