//! The trainer of adapters: the compact trainer's rewards, schedule and loss, on text.
//!
//! A query's trajectories begin alike, so they are read as one tree: the beginning once, each of them as a branch. That is most of a step's work where rules and question are long and trajectories short.
//! A tree has at most `pack_tokens_max` tokens; what does not fit goes into the next.

mod packed;
mod resume;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use candle_core::{Tensor, Var};
use serde::{Deserialize, Serialize};

use self::packed::{Packed, chunks, sums};
use super::{
    Adapters, Backbone, Gradients, LoraSettings, Sampling, TextRollout, lora,
    practice::{self, practised},
    rollout::{beginning, written},
    speaker::{RollError, Speaker},
};
use crate::{
    grammar::Turn,
    round::Mode,
    train::mode_router::{
        StepReport, TrainError,
        advantage::{Advantage, Scale},
        environment::Environment,
        grading::{Costs, Group, Weighing, weigh},
        loss::{Batch, Counts, Kind, LossSettings, loss, number, support},
        optimiser::AdamW,
        rollout::{look, picked, seeded},
        schedule::Schedule,
        softmax::log_softmax,
    },
};

/// How adapters are trained. The built-in values are those of known runs on language models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackboneSettings {
    /// Seeds everything.
    pub seed: u64,
    /// Steps in which the rules are learnt first, for small models.
    pub warm_up: u64,
    /// Steps after them.
    pub steps: u64,
    /// Queries of a step.
    pub queries: usize,
    /// Trajectories of a query, at least 2.
    pub rollouts: usize,
    /// The optimiser's rate.
    pub rate: f64,
    /// The same while the rules are learnt.
    pub warm_up_rate: f64,
    /// The alphas that are trained on, evenly, in [0, 1].
    pub alpha: [f64; 2],
    /// Whether modes and what is done within them are told apart.
    pub comet: bool,
    /// What the efficiency's differences within a group are divided by.
    pub scale: Scale,
    /// How exploration goes on.
    pub schedule: Schedule,
    /// How the loss is made.
    pub loss: LossSettings,
    /// How adapters are made.
    pub lora: LoraSettings,
    /// How turns are sampled.
    pub sampling: Sampling,
    /// Tokens that gradients are made of at one time: what bounds memory.
    pub pack_tokens_max: usize,
}

impl Default for BackboneSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            warm_up: 0,
            steps: 90,
            queries: 32,
            rollouts: 8,
            rate: 1e-6,
            warm_up_rate: 1e-4,
            alpha: [0.0, 0.5],
            comet: true,
            scale: Scale::Group,
            schedule: Schedule::default(),
            loss: LossSettings { beta: 0.001, ..LossSettings::default() },
            lora: LoraSettings::default(),
            sampling: Sampling::default(),
            pack_tokens_max: 4_096,
        }
    }
}

/// A training under way.
pub struct BackboneTrainer<'a> {
    environment: &'a dyn Environment,
    backbone: Backbone,
    settings: BackboneSettings,
    variables: BTreeMap<String, Var>,
    optimiser: AdamW,
    /// What the policy is kept near: the model as it is, or as it was after practice.
    reference: Option<BTreeMap<String, Tensor>>,
    done: u64,
    costs: Costs,
}

/// A query's trajectories, with what they begin with.
struct Written {
    beginning: Vec<u32>,
    group: Group<TextRollout>,
}

impl<'a> BackboneTrainer<'a> {
    /// Begins.
    pub fn new(
        environment: &'a dyn Environment,
        backbone: Backbone,
        settings: BackboneSettings,
    ) -> Result<Self, TrainError> {
        if environment.queries().is_empty() {
            return Err(TrainError::NoQueries);
        }
        let decoder = &backbone.decoder;
        let variables = lora::first(decoder.config(), &settings.lora, settings.seed, decoder.fine(), decoder.device())?;
        let rate = if settings.warm_up > 0 { settings.warm_up_rate } else { settings.rate };
        let optimiser = AdamW::new(&variables, rate, 0.0, 1.0)?;
        Ok(Self {
            environment,
            backbone,
            settings,
            variables,
            optimiser,
            reference: None,
            done: 0,
            costs: Costs::default(),
        })
    }

    /// Steps that are done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// All steps.
    pub fn steps(&self) -> u64 {
        self.settings.warm_up + self.settings.steps
    }

    /// The settings.
    pub fn settings(&self) -> &BackboneSettings {
        &self.settings
    }

    /// What is learnt.
    pub fn variables(&self) -> &BTreeMap<String, Var> {
        &self.variables
    }

    /// Dollars at which a trajectory's cost halves its reward.
    pub fn cost_reference_usd(&self, pool: usize) -> f64 {
        self.costs.reference_usd(pool)
    }

    /// One step more.
    pub fn step(&mut self) -> Result<StepReport, TrainError> {
        let warm_up = self.settings.warm_up;
        let report = if self.done < warm_up { self.learn_rules()? } else { self.learn(self.done - warm_up)? };
        self.done += 1;
        if self.done == warm_up {
            self.reference = Some(lora::copies(&self.variables)?);
            self.optimiser = AdamW::new(&self.variables, self.settings.rate, 0.0, 1.0)?;
        }
        Ok(report)
    }

    fn learn_rules(&mut self) -> Result<StepReport, TrainError> {
        let step = self.done;
        let mut all = Vec::new();
        for query in self.queries(step) {
            let (alpha, order) = self.look(step, query);
            let world = self.environment.world(query, step);
            let mut rng = self.rng(b"rules", &[step, query as u64]);
            let rollout = practised(&self.backbone, &order, &*world, &mut rng).map_err(|reason| self.wrong(reason))?;
            all.push((self.beginning(query, alpha, &order)?, rollout));
        }
        let tokens = all.iter().flat_map(|(_, rollout)| &rollout.kinds).filter(|kind| **kind != Kind::Masked).count();
        let mut report = StepReport { step, warm_up: true, rho: 1.0, ..StepReport::default() };
        let mut gradients = Gradients::new();
        for (beginning, rollout) in &all {
            let packed = Packed::of(beginning, &[(rollout, Advantage::default())], true);
            let loss = self.descend(&packed, &mut gradients, |log_pi| practice::loss(log_pi, tokens))?;
            report.loss += number(&loss)?;
        }
        report.gradient = self.optimiser.step(&self.variables, &gradients)?;
        Ok(report)
    }

    fn learn(&mut self, step: u64) -> Result<StepReport, TrainError> {
        let written = self.groups(step)?;
        let groups: Vec<Group<TextRollout>> = written.iter().map(|written| written.group.clone()).collect();
        let cold = self.settings.schedule.is_cold(step);
        self.costs.see(&groups, cold);
        let mut report = StepReport { step: self.done, rho: self.settings.schedule.rho(step), ..StepReport::default() };
        let weighing = Weighing { cold, comet: self.settings.comet, scale: self.settings.scale };
        let weights = weigh(&groups, &self.costs, weighing, &mut report);
        let mut gradients = Gradients::new();
        self.pull(&written, &weights, &mut gradients, &mut report)?;
        self.keep_modes_alive(step, &mut gradients, &mut report)?;
        report.gradient = self.optimiser.step(&self.variables, &gradients)?;
        Ok(report)
    }

    /// Every query's trajectories, one after the other: a model fills the machine by itself.
    fn groups(&self, step: u64) -> Result<Vec<Written>, TrainError> {
        let adapters = Adapters::frozen(&self.variables, self.settings.lora.scale())?;
        let speaker = Speaker { backbone: &self.backbone, adapters: &adapters, sampling: &self.settings.sampling };
        let write = |query: usize| {
            let (alpha, order) = self.look(self.done, query);
            let beginning = self.beginning(query, alpha, &order)?;
            let world = self.environment.world(query, self.settings.seed ^ self.done);
            let forced = self.settings.schedule.forced(step, self.settings.seed, &self.environment.queries()[query].id);
            let begun = speaker.begin(&beginning)?;
            let rollout = |number: usize| {
                let mut rng = self.rng(b"rollout", &[self.done, query as u64, number as u64]);
                speaker.roll(&begun, &order, &*world, forced, &mut rng).map_err(|error| match error {
                    RollError::Network(error) => TrainError::Network(error),
                    RollError::Words(reason) => self.wrong(reason),
                })
            };
            let rollouts = (0..self.settings.rollouts).map(rollout).collect::<Result<_, _>>()?;
            let pool = self.environment.queries()[query].pool;
            Ok(Written { beginning, group: Group { pool, alpha, forced: forced.is_some(), rollouts } })
        };
        self.queries(self.done).into_iter().map(write).collect()
    }

    /// The gradient of the loss, tree by tree.
    fn pull(
        &self,
        written: &[Written],
        weights: &[Vec<Option<Advantage>>],
        gradients: &mut Gradients,
        report: &mut StepReport,
    ) -> Result<(), TrainError> {
        let mut packs = Vec::new();
        for (written, weights) in written.iter().zip(weights) {
            let rows = written.group.rollouts.iter().zip(weights);
            let counted: Vec<(&TextRollout, Advantage)> =
                rows.filter_map(|(rollout, weight)| Some((rollout, (*weight)?))).collect();
            let room = self.settings.pack_tokens_max.saturating_sub(written.beginning.len());
            for some in chunks(&counted, room) {
                let packed = Packed::of(&written.beginning, some, self.settings.comet);
                if !packed.chosen.is_empty() {
                    packs.push(packed);
                }
            }
        }
        let counts = Counts::of(&packs.iter().flat_map(|packed| packed.kinds.clone()).collect::<Vec<_>>());
        let settings = LossSettings { apart: self.settings.comet, ..self.settings.loss };
        let reference = self.reference();
        for packed in &packs {
            let Packed { text, chosen, kinds, advantages } = packed;
            let log_ref = self.backbone.decoder.log_pi(text, chosen, &reference, self.settings.sampling.temperature)?;
            let mut parts = (0.0, 0.0, 0.0);
            let total = self.descend(packed, gradients, |log_pi| {
                let batch =
                    Batch { log_pi, log_old: &log_pi.detach(), log_ref: &log_ref, advantage: advantages, kind: kinds };
                let part = loss(&batch, counts, &settings)?;
                parts = (part.mode, part.inner, part.kl);
                Ok(part.total)
            })?;
            report.loss += number(&total)?;
            report.loss_mode += parts.0;
            report.loss_inner += parts.1;
            report.kl += parts.2;
        }
        Ok(())
    }

    /// The term that keeps every mode alive: what a model would declare is told from the three declarations, read side by side.
    fn keep_modes_alive(
        &self,
        step: u64,
        gradients: &mut Gradients,
        report: &mut StepReport,
    ) -> Result<(), TrainError> {
        let lambda = self.settings.schedule.lambda(step);
        if lambda <= 0.0 {
            return Ok(());
        }
        let declared = Mode::ALL.map(|mode| self.backbone.words.tokens(&written(&Turn::Mode(mode))));
        let [single, multi, agentic] = declared;
        let (single, multi, agentic) = (
            single.map_err(|e| self.wrong(e))?,
            multi.map_err(|e| self.wrong(e))?,
            agentic.map_err(|e| self.wrong(e))?,
        );
        let branches = [&single[..], &multi[..], &agentic[..]];
        let adapters = Adapters::frozen(&self.variables, self.settings.lora.scale())?;
        let temperature = self.settings.sampling.temperature;
        let (mut trees, mut scores) = (Vec::new(), Vec::new());
        for query in self.queries(self.done) {
            let (alpha, order) = self.look(self.done, query);
            let tree = Packed::declarations(&self.beginning(query, alpha, &order)?, branches);
            let log_pi = self.backbone.decoder.log_pi(&tree.text, &tree.chosen, &adapters, temperature)?;
            scores.push(sums(&log_pi, branches)?);
            trees.push(tree);
        }
        let scores = Var::from_tensor(&Tensor::stack(&scores, 0)?)?;
        let term = (support(&log_softmax(&scores)?, self.settings.loss.floor)? * lambda)?;
        report.support = number(&term)?;
        let found = term.backward()?;
        let Some(slopes) = found.get(&scores).filter(|_| report.support > 0.0) else { return Ok(()) };
        for (place, tree) in trees.iter().enumerate() {
            let slope = slopes.get(place)?.detach();
            self.descend(tree, gradients, |log_pi| (sums(log_pi, branches)? * &slope)?.sum_all())?;
        }
        Ok(())
    }

    fn descend(
        &self,
        packed: &Packed,
        gradients: &mut Gradients,
        loss: impl FnOnce(&Tensor) -> candle_core::Result<Tensor>,
    ) -> Result<Tensor, TrainError> {
        let learnt = (&self.variables, self.settings.lora.scale());
        let temperature = self.settings.sampling.temperature;
        Ok(self.backbone.decoder.descend((&packed.text, &packed.chosen), learnt, temperature, gradients, loss)?)
    }

    fn reference(&self) -> Adapters {
        match &self.reference {
            Some(tensors) => Adapters::of(tensors.clone(), self.settings.lora.scale()),
            None => Adapters::none(),
        }
    }

    fn beginning(&self, query: usize, alpha: f64, order: &[usize]) -> Result<Vec<u32>, TrainError> {
        let sampling = &self.settings.sampling;
        let query = &self.environment.queries()[query];
        let beginning =
            beginning(&self.backbone, query, alpha, order, sampling).map_err(|reason| self.wrong(reason))?;
        let room = sampling.tokens_max.min(self.backbone.decoder.config().context);
        if beginning.len() + sampling.mode_tokens_max > room {
            let (id, needed) = (&query.id, beginning.len());
            return Err(self.wrong(format!(
                "the task {id} begins with {needed} tokens, of {room} that a trajectory may have: show less of questions, allow more, or take a model with a longer context"
            )));
        }
        Ok(beginning)
    }

    fn wrong(&self, reason: String) -> TrainError {
        TrainError::File { path: self.backbone.path.clone(), reason }
    }

    fn rng(&self, what: &[u8], numbers: &[u64]) -> rand_chacha::ChaCha8Rng {
        seeded(self.settings.seed, what, numbers)
    }

    fn queries(&self, step: u64) -> Vec<usize> {
        picked(self.settings.seed, self.environment.queries().len(), self.settings.queries, step)
    }

    /// What a query looks like in a step: its alpha, its workers' order.
    fn look(&self, step: u64, query: usize) -> (f64, Vec<usize>) {
        let workers = self.environment.queries()[query].workers.len();
        look(self.settings.seed, self.settings.alpha, workers, step, query)
    }
}
