//! Where the model is and how it is asked.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    arms::worker::{HttpSettings, HttpWorker},
    chat::Protocol,
    grammar::dialect::router_r1::{Names, ROUTING_TURNS_MAX},
    round::{ArmId, Dialect},
};

/// Where the model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Where an arm is, with its key, limits and prices. The arm need not be enabled for tasks.
    Arm(ArmId),
    /// An endpoint of its own.
    Url {
        /// Such as `http://127.0.0.1:8000/v1`.
        base_url: String,
        /// The model's name there.
        model: String,
        /// The environment variable that holds its key, where it needs one.
        api_key_env: Option<String>,
    },
}

/// Calls of the model at one time; more wait for a place.
const CONCURRENCY: usize = 32;

impl Endpoint {
    /// The worker behind an endpoint of its own; none for an arm, which has one. The key was read from the variable that the endpoint
    /// names.
    pub fn connect(
        &self,
        settings: &LlmSettings,
        api_key: Option<String>,
        client: reqwest::Client,
    ) -> Option<HttpWorker> {
        let Self::Url { base_url, model, api_key_env } = self else { return None };
        let settings = HttpSettings {
            protocol: Protocol::OpenAi,
            base_url: base_url.clone(),
            model: model.clone(),
            api_key: api_key_env.clone().zip(api_key),
            timeout_ms: settings.timeout_ms,
            idle_timeout_ms: settings.timeout_ms,
            // A turn that did not come is written by nobody: the decision does not wait for a second try.
            retries: 0,
            concurrency: CONCURRENCY,
        };
        Some(HttpWorker::new(settings, client))
    }
}

/// How the model is shown what was written before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Its turns are messages of the assistant, and what it is told messages of the user. Any endpoint can do that.
    Turns,
    /// One message of the assistant that the model goes on with, as checkpoints are trained that write a trajectory in one go. The
    /// endpoint must know `continue_final_message` (vLLM, SGLang) or go on with a last message of the assistant (llama.cpp).
    Continued,
}

/// How the model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmSettings {
    /// Where it is.
    pub endpoint: Endpoint,
    /// What it speaks.
    pub dialect: Dialect,
    /// Sampling temperature, in [0, 2].
    pub temperature: f64,
    /// Nucleus sampling, in (0, 1].
    pub top_p: f64,
    /// Tokens of a turn, 16 to 65,536.
    pub tokens_max: u32,
    /// Tokens of the turn that declares the mode, 8 to 65,536. More than 64 only for models that think aloud first.
    pub mode_tokens_max: u32,
    /// How long a proposal, and each later turn, may take, in milliseconds, 1 to 600,000.
    pub timeout_ms: u64,
    /// How often a turn of a proposal that was refused is written once more, 0 to 8. A trajectory's own turns are the executor's to
    /// ask for again.
    pub resamples: u32,
    /// How much of the question the model is shown, in characters, 100 to 1,000,000.
    pub question_chars_max: usize,
    /// Whether it is told what the verifiers say of outputs. Checkpoints that were trained without do better without.
    pub verdicts: bool,
    /// How it is shown what was written before.
    pub history: History,
    /// The names that it knows workers by, in router-r1; an arm without one is `worker_k`. Names of arms that are not offered for a task
    /// are told from names of nobody.
    pub names: BTreeMap<ArmId, String>,
    /// What takes the place of the built-in prompt, for a checkpoint that was trained on its own: one message of the user in which
    /// `{question}` and `{workers}` are filled in.
    pub prompt: Option<String>,
}

impl LlmSettings {
    /// The built-in settings for a dialect: a temperature of 0.8 and top-p of 0.95, as both were trained with; 64 tokens for a mode.
    pub fn new(endpoint: Endpoint, dialect: Dialect) -> Self {
        let history = match dialect {
            Dialect::Routeweaver => History::Turns,
            Dialect::RouterR1 => History::Continued,
        };
        Self {
            endpoint,
            dialect,
            temperature: 0.8,
            top_p: 0.95,
            tokens_max: 2_048,
            mode_tokens_max: 64,
            timeout_ms: 10_000,
            resamples: 1,
            question_chars_max: 20_000,
            verdicts: true,
            history,
            names: BTreeMap::new(),
            prompt: None,
        }
    }

    /// What is out of range: each setting's name and what would be right. Empty where all is well.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = vec![];
        let mut require = |ok: bool, key: &'static str, what: &str| {
            if !ok {
                problems.push((key, what.to_owned()));
            }
        };
        match &self.endpoint {
            Endpoint::Arm(_) => {}
            Endpoint::Url { base_url, model, .. } => {
                let http = base_url.starts_with("http://") || base_url.starts_with("https://");
                require(http, "base_url", "must begin with http:// or https://");
                require(!model.trim().is_empty(), "model", "must name the model as its server does");
            }
        }
        require((0.0..=2.0).contains(&self.temperature), "temperature", "must be from 0 to 2");
        require(self.top_p > 0.0 && self.top_p <= 1.0, "top_p", "must be above 0 and at most 1");
        require((16..=65_536).contains(&self.tokens_max), "tokens_max", "must be from 16 to 65536");
        require((8..=65_536).contains(&self.mode_tokens_max), "mode_tokens_max", "must be from 8 to 65536");
        require((1..=600_000).contains(&self.timeout_ms), "timeout_ms", "must be from 1 to 600000");
        require(self.resamples <= 8, "resamples", "must be from 0 to 8");
        let shown = (100..=1_000_000).contains(&self.question_chars_max);
        require(shown, "question_chars_max", "must be from 100 to 1000000");
        let filled = self.prompt.as_ref().is_none_or(|prompt| prompt.matches("{question}").count() == 1);
        require(filled, "prompt", "must hold {question} once, and {workers} where the workers are to be listed");
        let numbered = self.names.values().any(|name| name.to_lowercase().starts_with("worker_"));
        require(!numbered, "names", "must not begin with worker_, which arms without a name are called by");
        let spoken = self.names.is_empty() || self.dialect == Dialect::RouterR1;
        require(spoken, "names", "are known in the dialect router-r1 alone; leave them out");
        if let Err(error) = Names::new(self.names.values().cloned().collect(), vec![]) {
            require(false, "names", &error.to_string());
        }
        problems
    }

    /// Calls that a trajectory may make one after the other.
    pub(super) fn rounds_max(&self, most: usize) -> usize {
        match self.dialect {
            Dialect::Routeweaver => most,
            Dialect::RouterR1 => most.min(ROUTING_TURNS_MAX),
        }
    }
}
