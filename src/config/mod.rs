//! Configuration: raw, then checked, then run.
//!
//! The user's TOML is laid over the compiled-in defaults; unknown keys fail; every problem is reported at once, each
//! with its key and a way to fix it. Only a [`Config`] reaches code that works, so nothing later warns and carries on.

mod check;
mod raw;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
};

use axum::http::HeaderValue;

use crate::{
    access::TenantSettings,
    api::{AdminKey, TlsFiles},
    arms::Prices,
    chat::Protocol,
    context::embedding::Pooling,
    feedback::verifier::{SandboxLimits, VerifierSpec},
    journal::Synchronous,
    memory::ServerSettings,
    round::{ArmId, Capability, Domain, Kept, RewardWeights, TenantId},
    router::{AuditSettings, JudgeSettings, ModeSettings},
    webhooks::WebhookSettings,
};

pub use check::{Problem, Problems, check, check_arm};

/// Checked settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder that relative paths are taken from.
    pub base: PathBuf,
    /// Where to listen. Beyond loopback only where there is a key, which is known at start.
    pub listen: SocketAddr,
    /// The largest request body, in bytes, streams excepted.
    pub body_bytes_max: usize,
    /// The longest line of a stream, in bytes.
    pub line_bytes_max: usize,
    /// Tasks of one stream in flight.
    pub stream_concurrency: usize,
    /// How long running rounds may take to finish at shutdown, in milliseconds.
    pub shutdown_ms: u64,
    /// How long a client may take to begin a request and to send its head, in milliseconds.
    pub header_timeout_ms: u64,
    /// How long a request's body may stop between two of its parts, in milliseconds.
    pub body_timeout_ms: u64,
    /// The origins whose web pages may call from a browser.
    pub cors_origins: Vec<HeaderValue>,
    /// The certificate and its key, where the daemon speaks TLS.
    pub tls: Option<TlsFiles>,
    /// The key that opens everything, also before any other was made.
    pub admin_key: Option<AdminKey>,
    /// What durable means.
    pub synchronous: Synchronous,
    /// How long a decision may wait for its outcome before it counts as abandoned, in milliseconds.
    pub lease_ms: u64,
    /// What the journal keeps of texts.
    pub prompts: Kept,
    /// Entries that memory keeps.
    pub memory_cap: u64,
    /// The Qdrant server that memory is on; it is in the data folder where there is none.
    pub memory_server: Option<ServerSettings>,
    /// The embedding model's name; none is the default one, or what the folder holds.
    pub embedding_model: Option<String>,
    /// A folder with the embedding model.
    pub embedding_model_dir: Option<PathBuf>,
    /// How the model in that folder pools.
    pub embedding_pooling: Option<Pooling>,
    /// Model sessions.
    pub embedding_sessions: usize,
    /// Tokens of a text that are embedded.
    pub embedding_max_tokens: usize,
    /// Embeddings kept in RAM.
    pub embedding_cache_entries: u64,
    /// How alike a task and a domain must be, where the client names no domain.
    pub domain_similarity: f32,
    /// Texts that may share a run of the embedding model.
    pub embedding_batch_max: usize,
    /// How long a run may be held back for more texts, in microseconds.
    pub embedding_batch_wait_us: u64,
    /// The card that decides, until another one is promoted.
    pub policy_card: String,
    /// The policy of that card, where it is not the one that the card names.
    pub policy: Option<String>,
    /// The folder of policy cards; it need not exist.
    pub policy_cards: PathBuf,
    /// How much clients' feedback weighs in learning.
    pub trust: Trust,
    /// The tenants and what each may use; any, with the weights below and no limit, when empty.
    pub tenants: BTreeMap<TenantId, TenantSettings>,
    /// Weights of the reward.
    pub reward: RewardWeights,
    /// How many other workers may take a task over when one gives no answer.
    pub fallbacks: usize,
    /// How long a worker may take to accept a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// What one verification may use.
    pub sandbox: SandboxLimits,
    /// The model that judges answers, if one is to.
    pub judge: Option<JudgeSettings>,
    /// Which tasks are run on every arm, if any are.
    pub audit: Option<AuditSettings>,
    /// Which modes tasks are run in, and how.
    pub modes: ModeSettings,
    /// Verifiers of the domains without a set of their own.
    pub default_verifiers: Vec<VerifierSpec>,
    /// The domains and their own verifiers; those without have the default ones.
    pub domains: BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    /// The arms.
    pub arms: Vec<ArmConfig>,
    /// Who is told what was finished.
    pub webhooks: Vec<WebhookSettings>,
}

/// How much feedback of each source weighs in learning, in (0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trust {
    /// A client's score, or its answer verified here.
    pub client: f64,
    /// A model asked to judge.
    pub judge: f64,
    /// A user's thumb.
    pub thumbs: f64,
}

/// One arm.
#[derive(Debug, Clone)]
pub struct ArmConfig {
    /// Its stable name.
    pub id: ArmId,
    /// What it charges.
    pub prices: Prices,
    /// What it can do that tasks may ask for.
    pub capabilities: BTreeSet<Capability>,
    /// Whether it may be chosen.
    pub enabled: bool,
    /// What runs it.
    pub worker: WorkerConfig,
}

/// A worker behind HTTP.
#[derive(Clone)]
pub struct Endpoint {
    /// What it speaks.
    pub protocol: Protocol,
    /// Up to and including `/v1`.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// The variable that holds the key, and the key.
    pub api_key: Option<(String, String)>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long an answer may stop once it has begun, in milliseconds.
    pub idle_timeout_ms: u64,
    /// How often a call that failed is tried again.
    pub retries: u32,
    /// Calls at one time.
    pub concurrency: usize,
    /// The address of a proxy, where the environment's are not to be used.
    pub proxy: Option<String>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("protocol", &self.protocol)
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("api_key_env", &self.api_key.as_ref().map(|(name, _)| name))
            .field("timeout_ms", &self.timeout_ms)
            .field("idle_timeout_ms", &self.idle_timeout_ms)
            .field("retries", &self.retries)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// What runs an arm.
#[derive(Debug, Clone)]
pub enum WorkerConfig {
    /// An endpoint of one of the chat protocols.
    Http(Endpoint),
    /// A worker of stated skill.
    Scripted {
        /// Probability of a right answer per domain.
        skill: BTreeMap<Domain, f64>,
        /// The same for every other domain.
        default_skill: f64,
        /// The probability per domain that it thinks anew when it is asked once more.
        again: BTreeMap<Domain, f64>,
        /// The probability of a right answer per domain after a plan.
        planned: BTreeMap<Domain, f64>,
        /// How long an answer takes, in milliseconds.
        latency_ms: u64,
    },
    /// A recorded model.
    Replay {
        /// The dataset's folder.
        dataset: PathBuf,
        /// The model in it.
        model: String,
    },
}

#[cfg(test)]
mod tests;
