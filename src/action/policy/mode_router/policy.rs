//! The trained network as a policy, and as a writer of trajectories.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;

use super::{
    Checkpoint, Descriptor, Raw,
    frozen::{Frozen, Prefix, Reading},
    piece::{Piece, WORKERS_MAX},
    weights::EMBEDDING,
};
use crate::{
    action::policy::{
        LearntRound, Opinion, Policy, PolicyError,
        trained::{TrainedError, TrainedKind},
    },
    grammar::{Rules, Token, Writing},
    round::{ArmId, Candidate, Context, Mode},
};

const NAME: &str = "mode_router";

/// Settings of `mode_router`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeRouterSettings {
    /// The checkpoint, as `pointsman train mode-router` writes it, relative to the card's folder; where none is named, the one that comes with
    /// the program.
    pub model: Option<PathBuf>,
    /// What the file holds, once read.
    #[serde(skip)]
    pub loaded: Option<Arc<Checkpoint>>,
}

impl ModeRouterSettings {
    /// The checkpoint that is named, once read, else the one that comes with the program.
    pub fn checkpoint(&self) -> Arc<Checkpoint> {
        self.loaded.clone().unwrap_or_else(Checkpoint::shipped)
    }

    pub(in crate::action::policy) fn load(&mut self, folder: &Path) -> Result<(), TrainedError> {
        if let Some(model) = &self.model {
            let path = folder.join(model);
            let wrong = |error: super::CheckpointError| TrainedError::Damaged {
                path: path.clone(),
                problem: error.to_string(),
                wanted: TrainedKind::ModeRouter,
            };
            self.loaded = Some(Arc::new(Checkpoint::read(&path).map_err(wrong)?));
        }
        Ok(())
    }
}

/// A trained mode-router.
#[derive(Debug, Clone)]
pub struct ModeRouter {
    trained: Arc<Trained>,
    floor: f64,
}

#[derive(Debug)]
struct Trained {
    network: Frozen,
    alpha: [f64; 2],
    model: String,
    hash: String,
}

impl ModeRouter {
    /// Takes what was trained. Each of K candidates keeps a probability of at least floor / K.
    pub fn new(checkpoint: &Checkpoint, floor: f64) -> Self {
        let Checkpoint { card, weights, hash } = checkpoint;
        let trained = Trained {
            network: Frozen::new(weights.clone()),
            alpha: card.alpha,
            model: card.embedding_model.clone(),
            hash: hash.clone(),
        };
        Self { trained: Arc::new(trained), floor }
    }

    /// The network.
    pub fn network(&self) -> &Frozen {
        &self.trained.network
    }

    /// The first digits of its checkpoint's hash.
    pub fn hash(&self) -> &str {
        &self.trained.hash
    }

    /// The model whose embeddings it understands.
    pub fn embedding_model(&self) -> &str {
        &self.trained.model
    }

    /// Alpha brought into the range that it was trained on.
    pub fn clamped(&self, alpha: f64) -> f64 {
        let [low, high] = self.trained.alpha;
        alpha.clamp(low, high)
    }

    /// What it sees of a context before the first token, and the arms in the order of its workers.
    pub fn prefix(&self, context: &Context) -> Result<(Prefix, Vec<ArmId>), PolicyError> {
        let embedding = context.embedding.as_slice();
        if embedding.len() != EMBEDDING {
            return Err(PolicyError::Dimension { policy: NAME, wanted: EMBEDDING, found: embedding.len() });
        }
        let (arms, workers) = described(&context.candidates);
        if arms.len() > WORKERS_MAX {
            return Err(PolicyError::Abstains { policy: NAME, why: "there are more arms than it tells apart" });
        }
        let alpha = self.clamped(context.alpha) as f32;
        Ok((Prefix { embedding: embedding.into(), alpha, workers: workers.into() }, arms))
    }

    /// The same for some of the arms, in their order.
    pub fn prefix_of(&self, context: &Context, arms: &[ArmId]) -> Result<Prefix, PolicyError> {
        let mut candidates = Vec::new();
        for arm in arms {
            candidates.extend(context.candidates.iter().filter(|candidate| candidate.arm == *arm).cloned());
        }
        self.prefix(&Context { candidates, ..context.clone() }).map(|(prefix, _)| prefix)
    }

    /// The probability of each mode with its first worker: pi(mode) pi(worker | mode), over what is offered.
    pub fn joint(&self, prefix: &Prefix, offered: &[(Mode, usize)]) -> Vec<f64> {
        let writing = Writing::new(prefix.workers.len(), Rules::default());
        let reading = self.network().begin(prefix);
        let modes = self.among(
            &reading,
            &writing,
            |token| matches!(token, Token::Mode(mode) if offered.iter().any(|(offered, _)| *offered == mode)),
        );
        let mut pmf = vec![0.0; offered.len()];
        for (mode, p_mode) in modes {
            let Token::Mode(mode) = mode else { continue };
            let (mut writing, mut reading) = (writing.clone(), reading.clone());
            if writing.push(Token::Mode(mode)).is_err() {
                continue;
            }
            self.network().read(&mut reading, Piece::Written(Token::Mode(mode)));
            let workers = self.among(
                &reading,
                &writing,
                |token| matches!(token, Token::Call(worker) if offered.contains(&(mode, worker))),
            );
            for (place, (offered_mode, worker)) in offered.iter().enumerate() {
                let p = workers.iter().find(|(token, _)| *token == Token::Call(*worker)).map_or(0.0, |(_, p)| *p);
                pmf[place] += if *offered_mode == mode { p_mode * p } else { 0.0 };
            }
        }
        pmf
    }

    /// The next token under the grammar's mask, drawn by `u` in [0, 1), with its probability; nothing at the end.
    pub fn choose(&self, reading: &Reading, writing: &Writing, u: f64) -> Option<(Token, f64)> {
        draw(&self.among(reading, writing, |token| writing.allows(token)), u)
    }

    fn among(&self, reading: &Reading, writing: &Writing, may: impl Fn(Token) -> bool) -> Vec<(Token, f64)> {
        let logits: Vec<(Token, f32)> =
            self.network().logits(reading, writing).into_iter().filter(|(token, _)| may(*token)).collect();
        pmf(&logits)
    }
}

/// The probability of each token among these.
pub fn pmf(logits: &[(Token, f32)]) -> Vec<(Token, f64)> {
    let most = logits.iter().map(|(_, logit)| *logit).fold(f32::NEG_INFINITY, f32::max);
    let parts: Vec<f64> = logits.iter().map(|(_, logit)| f64::from(logit - most).exp()).collect();
    let whole: f64 = parts.iter().sum();
    logits.iter().zip(parts).map(|((token, _), part)| (*token, part / whole)).collect()
}

/// The entry that `u` in [0, 1) falls on.
pub fn draw(entries: &[(Token, f64)], u: f64) -> Option<(Token, f64)> {
    let mut sum = 0.0;
    let found = entries.iter().find(|(_, p)| {
        sum += p;
        u < sum
    });
    // Rounding may leave the sum a little below 1.
    found.or_else(|| entries.iter().rev().find(|(_, p)| *p > 0.0)).copied()
}

/// The arms among the candidates, each once, and what was measured of them, set against each other.
pub fn described(candidates: &[Candidate]) -> (Vec<ArmId>, Vec<Descriptor>) {
    let mut arms: Vec<ArmId> = Vec::new();
    let mut known: Vec<Raw> = Vec::new();
    // A single call says best what a worker is like.
    let single = candidates.iter().filter(|candidate| candidate.mode == Mode::Single);
    for candidate in single.chain(candidates) {
        if !arms.contains(&candidate.arm) {
            arms.push(candidate.arm.clone());
            let features = candidate.features;
            known.push(Raw {
                domain_mean: features.prior_mean,
                mean: if features.everywhere_mean > 0.0 { features.everywhere_mean } else { features.prior_mean },
                output_tokens: features.output_tokens,
                latency_ms: features.latency_ms,
                cost_usd: if features.cost_usd > 0.0 { features.cost_usd } else { candidate.cost_usd as f32 },
            });
        }
    }
    (arms, Descriptor::relative(&known))
}

impl Policy for ModeRouter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        if context.candidates.is_empty() {
            return Err(PolicyError::NoCandidate);
        }
        let (prefix, arms) = self.prefix(context)?;
        let place = |candidate: &Candidate| arms.iter().position(|arm| *arm == candidate.arm).unwrap_or_default();
        let offered: Vec<(Mode, usize)> =
            context.candidates.iter().map(|candidate| (candidate.mode, place(candidate))).collect();
        let pmf = self.joint(&prefix, &offered);
        let whole: f64 = pmf.iter().sum();
        if !(whole.is_finite() && whole > 0.0) {
            return Err(PolicyError::NotFinite { policy: NAME, what: "probability" });
        }
        let share = self.floor / pmf.len() as f64;
        let pmf = pmf.into_iter().map(|p| (1.0 - self.floor) * p / whole + share).collect();
        Ok(Opinion { pmf, ..Opinion::default() })
    }

    fn learn(&mut self, _round: &LearntRound<'_>) {}

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
