//! A language model that routes: it proposes a mode and a first worker for a task, and drives the trajectory if that is drawn.
//!
//! It speaks one of the [`dialects`](crate::grammar::dialect) behind any OpenAI-compatible endpoint (vLLM, SGLang, llama.cpp), so that published
//! checkpoints can be served as well as general instruct models. [`Llm::propose`] is asked while a task is observed; the proposal is
//! journaled with the context, and the policy `llm` makes probabilities of it. [`LlmDriver`] goes on from the proposal's turns where
//! the decision drew what was proposed, else from a mode that is declared for it.
//!
//! router-r1 has no modes. Its searches are calls one after the other, so that a proposal of it that searches is one of multi (of
//! single where multi is off, since its first call is the same); one that answers without a call names a mode and no worker, because an
//! answer of the router's own is nothing that can be drawn with a probability, run or learnt of. The drawn worker is then asked first.
//!
//! What can go wrong: the endpoint is slow, down or talks nonsense. A proposal then says why there is none, and other policies decide; a
//! driver fails, and the trajectory ends with the best output so far or one call of the domain's best worker. What workers write is
//! escaped before the model sees it. All texts have limits: the question shown, tokens per turn, turns kept.

mod ask;
mod conversation;
mod driver;
mod propose;
mod settings;
#[cfg(test)]
mod tests;
mod tongue;

use std::sync::Arc;

pub use driver::LlmDriver;
pub use settings::{Endpoint, History, LlmSettings};

use crate::{
    arms::{Prices, worker::Worker},
    round::ArmId,
};

/// A worker as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The arm; its name is not told, but for a name that the settings give it in router-r1.
    pub arm: ArmId,
    /// What it is good at, in a line.
    pub description: String,
}

/// The model.
#[derive(Clone)]
pub struct Llm {
    settings: LlmSettings,
    worker: Arc<dyn Worker>,
    prices: Prices,
}

impl Llm {
    /// Behind a worker: that of an arm, or one that [`Endpoint::connect`] made. The prices are what its tokens cost. The settings must
    /// be checked ([`LlmSettings::problems`]).
    pub fn new(settings: LlmSettings, worker: Arc<dyn Worker>, prices: Prices) -> Self {
        Self { settings, worker, prices }
    }

    /// Its settings.
    pub fn settings(&self) -> &LlmSettings {
        &self.settings
    }

    /// The model's name at its endpoint.
    pub fn model(&self) -> &str {
        self.worker.about().model
    }
}
