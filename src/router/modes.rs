//! Running a decision in its mode, and which modes a task may be run in.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use super::{LlmRouting, Router, RouterError, audit::RunBy};
use crate::{
    action::{
        policy::{
            CardError, Standings,
            mode_router::{Checkpoint, ModeRouter},
            same_embedding,
        },
        sample::{Stream, stream},
    },
    arms::{
        Arm, Catalogue,
        worker::{Ask, WorkerError},
    },
    journal::{Decided, now_ms},
    modes::{
        self, Checked, Guardrails, Ran, Team, Watch,
        driver::{Compact, Driver, Rule},
    },
    round::{ArmId, Candidate, Domain, Feedback, Mode, Score, Task},
};

/// How much of the verifiers' words is kept of each call, and shown to later ones.
const TRACE_CHARS: usize = 400;
/// What metadata may say without a verifier that reads it knowing the right answer. Words of a set that may know more, such as a
/// reference or hidden tests, are not shown to workers: they would only have to copy it.
const TELLS_NO_ANSWER: [&str; 9] = [
    "answer",
    "answer_language",
    "choices",
    "difficulty",
    "entry_point",
    "format",
    "language",
    "max_chars",
    "min_chars",
];

/// Which modes tasks are run in, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct ModeSettings {
    /// The modes of domains without ones of their own; never empty.
    pub enabled: Vec<Mode>,
    /// The modes of single domains; never empty.
    pub domains: BTreeMap<Domain, Vec<Mode>>,
    /// Whether chats that came by a chat protocol may be run in modes of more than one call. Their own settings, such as a
    /// temperature, do not reach the workers then.
    pub chats: bool,
    /// What cost weighs where neither the task nor its tenant says so, in [0, 1].
    pub alpha: f64,
    /// Workers that a trajectory may choose from.
    pub offered_max: usize,
    /// The limits.
    pub guardrails: Guardrails,
    /// Who writes the turns.
    pub driver: ModeDriver,
    /// The language model that routes, where there is one.
    pub llm: Option<LlmRouting>,
}

/// Who writes the turns of modes of more than one call.
#[derive(Debug, Clone, PartialEq)]
pub enum ModeDriver {
    /// A fixed rule.
    Rule,
    /// A trained mode-router.
    Compact(Arc<Checkpoint>),
    /// The language model that routes.
    Llm,
}

impl ModeSettings {
    /// The modes of a domain.
    fn of(&self, domain: &Domain) -> &[Mode] {
        self.domains.get(domain).unwrap_or(&self.enabled)
    }

    /// The mode-router that writes turns, where one does.
    pub(super) fn mode_router(&self) -> Option<Arc<ModeRouter>> {
        match &self.driver {
            ModeDriver::Rule | ModeDriver::Llm => None,
            ModeDriver::Compact(checkpoint) => Some(Arc::new(ModeRouter::new(checkpoint, 0.0))),
        }
    }

    /// Whether the mode-router that writes turns understands the embeddings in use; those of another model would be read, and mean nothing.
    pub(super) fn check_embedding(&self, model: &str, dimension: usize) -> Result<(), CardError> {
        match &self.driver {
            ModeDriver::Rule | ModeDriver::Llm => Ok(()),
            ModeDriver::Compact(checkpoint) => {
                same_embedding("modes.model", checkpoint.card.embedding(), (model, dimension))
            }
        }
    }

    /// Whether any mode but single is on somewhere.
    fn is_more_than_single(&self) -> bool {
        self.domains.values().chain([&self.enabled]).flatten().any(|mode| *mode != Mode::Single)
    }
}

impl Router {
    /// The modes that a task may be run in.
    pub(super) fn modes(&self, task: &Task, by: RunBy) -> Result<Vec<Mode>, RouterError> {
        let on = self.settings.modes.of(&task.domain);
        let asked = task.constraints.modes.as_deref();
        // A caller that runs the model itself makes one call, unless it says that it can do more.
        let caller_default = [Mode::Single];
        let asked = asked.or((by == RunBy::Caller && on.contains(&Mode::Single)).then_some(&caller_default[..]));
        let modes: Vec<Mode> =
            on.iter().copied().filter(|mode| asked.is_none_or(|asked| asked.contains(mode))).collect();
        if modes.is_empty() {
            let name = |modes: &[Mode]| modes.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(", ");
            return Err(RouterError::ModesOff {
                domain: task.domain.clone(),
                on: name(on),
                asked: name(asked.unwrap_or(&[])),
            });
        }
        Ok(modes)
    }

    /// A chat is run once, unless chats may be run in other ways and this one pins no arm and brings nothing but text.
    pub(super) fn restrict_chat(&self, task: &mut Task) {
        let Task { constraints, .. } = task;
        let free = self.settings.modes.chats && constraints.arms.is_none() && constraints.needs.is_empty();
        if constraints.modes.is_none() && !free && self.settings.modes.is_more_than_single() {
            constraints.modes = Some(vec![Mode::Single]);
        }
    }

    /// The true expected score of a candidate, where it is known by construction.
    pub(super) fn expected_score(&self, catalogue: &Catalogue, task: &Task, candidate: &Candidate) -> Option<f64> {
        let calls_max = self.settings.modes.guardrails.rules.multi_calls_max;
        // Of trajectories that a policy writes it is known of none.
        if candidate.mode != Mode::Single && self.settings.modes.driver != ModeDriver::Rule {
            return None;
        }
        catalogue.get(&candidate.arm).ok()?.worker.expected_score(task, candidate.mode, calls_max)
    }

    /// Runs a task in a mode: what a decision drew, or what a probe tries.
    pub(super) async fn run_mode(&self, decided: &Decided, ask: &Ask<'_>, mode: Mode, arm: &ArmId, seen: bool) -> Ran {
        let catalogue = self.catalogue.load_full();
        let id = decided.decision.id;
        let mut ran = match (catalogue.get(arm), mode) {
            (Err(error), _) => modes::not_run(id, arm, &error.to_string()),
            (Ok(arm), Mode::Single) if seen => modes::run_single(id, ask, arm).await,
            (Ok(arm), Mode::Single) => modes::run_unseen(id, ask, arm).await,
            (Ok(arm), Mode::Multi | Mode::Agentic) => self.run_in_calls(decided, mode, arm, &catalogue).await,
        };
        if seen {
            ran.outcome.cost_usd += decided.proposal_usd();
        }
        let (cost_usd, weights) = (ran.outcome.cost_usd, self.weights(&decided.task));
        ran.judged = ran.judged.map(|feedback| {
            let reward = feedback.score.map(|score| weights.reward(score.get(), cost_usd));
            Feedback { cost_usd, reward, ..feedback }
        });
        ran
    }

    async fn run_in_calls(&self, decided: &Decided, mode: Mode, first: &Arm, catalogue: &Catalogue) -> Ran {
        let (offered, best) = offered(decided, first, catalogue, self.settings.modes.offered_max);
        let Writer { mut driver, alpha, model } = self.writer(decided, &offered);
        let team = Team {
            decision_id: decided.decision.id,
            task: &decided.task,
            mode,
            offered,
            best,
            alpha,
            model,
            guardrails: &self.settings.modes.guardrails,
        };
        let watcher = Watcher { router: self, decided, judged: Mutex::default() };
        let mut ran = modes::run_team(&team, driver.as_mut(), &watcher).await;
        let mut judged = watcher.judged.into_inner().unwrap_or_else(PoisonError::into_inner);
        ran.judged = judged.remove(&ran.outcome.output);
        ran
    }
}

impl Router {
    /// Who writes a decision's turns.
    fn writer(&self, decided: &Decided, offered: &[Arm]) -> Writer {
        let by_rule = || Writer { driver: Box::new(Rule), alpha: decided.context.alpha, model: None };
        if self.settings.modes.driver == ModeDriver::Llm
            && let Some((driver, model)) = self.llm_driver(decided, offered)
        {
            return Writer { driver: Box::new(driver), alpha: decided.context.alpha, model: Some(model) };
        }
        let Some(router) = &self.mode_router else { return by_rule() };
        let arms: Vec<ArmId> = offered.iter().map(|arm| arm.id.clone()).collect();
        match router.prefix_of(&decided.context, &arms) {
            Ok(prefix) => {
                let rng = stream(decided.decision.seed, Stream::Trajectory);
                let driver = Box::new(Compact::new(Arc::clone(router), prefix, rng));
                let alpha = router.clamped(decided.context.alpha);
                Writer { driver, alpha, model: Some(router.hash().to_owned()) }
            }
            Err(error) => {
                tracing::warn!(%error, decision = %decided.decision.id, "the mode-router cannot go on; turns are written by rule");
                by_rule()
            }
        }
    }

    /// Writes what calls of the candidates' arms are like into their features, where a mode-router may look at it.
    pub(super) fn tell_habits(&self, candidates: &mut [Candidate], standings: &Standings) {
        if !self.settings.modes.is_more_than_single() {
            return;
        }
        for candidate in candidates {
            let single = (Mode::Single, candidate.arm.clone());
            candidate.features.everywhere_mean =
                standings.total(&single).shrunk_mean(UNKNOWN_MEAN, UNKNOWN_MASS) as f32;
            self.habits.tell(&candidate.arm, &mut candidate.features);
        }
    }
}

/// The score expected of an arm never tried, and the rounds that this counts for.
const UNKNOWN_MEAN: f64 = 0.5;
const UNKNOWN_MASS: f64 = 4.0;

/// A driver with what the trajectory records of it.
struct Writer {
    driver: Box<dyn Driver>,
    alpha: f64,
    model: Option<String>,
}

/// The workers that a trajectory may choose from, the one drawn first, then by what is known of them in the domain; and the place of
/// the one that does best.
fn offered(decided: &Decided, first: &Arm, catalogue: &Catalogue, most: usize) -> (Vec<Arm>, usize) {
    let mut known: BTreeMap<&ArmId, f32> = BTreeMap::new();
    for candidate in &decided.context.candidates {
        let mean = known.entry(&candidate.arm).or_default();
        *mean = mean.max(candidate.features.prior_mean);
    }
    let mean = |arm: &ArmId| known.get(arm).copied().unwrap_or_default();
    let mut others: Vec<&ArmId> = known.keys().copied().filter(|arm| **arm != first.id).collect();
    others.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    let others = others.into_iter().filter_map(|arm| catalogue.get(arm).ok().cloned());
    let offered: Vec<Arm> = std::iter::once(first.clone()).chain(others).take(most.max(1)).collect();
    let best = (0..offered.len()).max_by(|a, b| mean(&offered[*a].id).total_cmp(&mean(&offered[*b].id)).then(b.cmp(a)));
    (offered, best.unwrap_or_default())
}

/// Has outputs verified by the domain's set, once each.
struct Watcher<'a> {
    router: &'a Router,
    decided: &'a Decided,
    // Guards what was said of outputs, by their text.
    judged: Mutex<HashMap<String, Feedback>>,
}

#[async_trait]
impl Watch for Watcher<'_> {
    async fn check(&self, output: &str) -> Checked {
        let known = self.judged.lock().unwrap_or_else(PoisonError::into_inner).get(output).cloned();
        let feedback = match known {
            Some(feedback) => feedback,
            None => {
                let Decided { task, decision, .. } = self.decided;
                let weights = self.router.weights(task);
                let feedback = self.router.registry.judge(decision.id, task, output, 0.0, weights).await;
                let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
                judged.insert(output.to_owned(), feedback.clone());
                feedback
            }
        };
        let words = feedback.verdicts.iter().flat_map(|verdict| verdict.trace.iter().map(String::as_str));
        let trace: String = words.collect::<Vec<_>>().join("; ").chars().take(TRACE_CHARS).collect();
        let tells_no_answer = self.decided.task.metadata.keys().all(|key| TELLS_NO_ANSWER.contains(&key.as_str()));
        let words = if tells_no_answer { trace.clone() } else { String::new() };
        Checked { score: feedback.score.map(Score::get), trace, words }
    }

    fn called(&self, arm: &Arm, failure: Option<&WorkerError>) {
        self.router.health.note(&arm.id, failure, now_ms());
    }
}
