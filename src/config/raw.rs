//! The file as written: every section a struct that refuses unknown keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::Deserialize;

use crate::{
    context::embedding::Pooling,
    journal::Synchronous,
    modes::llm::History,
    round::{Capability, Dialect, Mode, OnError, RewardWeights},
    webhooks::EventType,
};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub listen: String,
    pub body_bytes_max: usize,
    pub line_bytes_max: usize,
    pub stream_concurrency: usize,
    pub shutdown_ms: u64,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub cors_origins: Vec<String>,
    #[serde(default)]
    pub tls: Option<Tls>,
    pub admin_key_env: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JournalSection {
    pub synchronous: Synchronous,
    pub lease_ms: u64,
    pub prompts: Prompts,
}

/// What can be asked for; erased is not.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Prompts {
    Whole,
    Hashed,
    Dropped,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemorySection {
    pub cap: u64,
    #[serde(default)]
    pub server: Option<MemoryServer>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryServer {
    pub url: String,
    #[serde(default = "default_collection")]
    pub collection: String,
    #[serde(default)]
    pub api_key_env: Option<String>,
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    #[serde(default = "default_write_timeout_ms")]
    pub write_timeout_ms: u64,
    #[serde(default = "default_recall_timeout_ms")]
    pub recall_timeout_ms: u64,
}

fn default_collection() -> String {
    "pointsman_memory".into()
}

/// A server that is there accepts at once.
fn default_connect_timeout_ms() -> u64 {
    1_000
}

/// A batch of 256 entries on a busy cluster.
fn default_write_timeout_ms() -> u64 {
    10_000
}

/// Tasks wait for it; a healthy server takes milliseconds.
fn default_recall_timeout_ms() -> u64 {
    250
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Embedding {
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub model_dir: Option<PathBuf>,
    #[serde(default)]
    pub pooling: Option<Pooling>,
    pub sessions: usize,
    pub max_tokens: usize,
    pub cache_entries: u64,
    pub batch_max: usize,
    pub batch_wait_us: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContextSection {
    pub domain_similarity: f32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub card: String,
    #[serde(default)]
    pub name: Option<String>,
    pub cards: PathBuf,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FeedbackSection {
    pub client: f64,
    pub judge: f64,
    pub thumbs: f64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tenant {
    pub reward: Option<Reward>,
    pub alpha: Option<f64>,
    pub domains: Option<Vec<String>>,
    pub arms: Option<Vec<String>>,
    pub requests_per_minute: Option<u32>,
    pub usd_per_day: Option<f64>,
    pub usd_per_month: Option<f64>,
    pub concurrency: Option<u32>,
}

pub(super) type Reward = RewardWeights;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Judge {
    pub arm: String,
    #[serde(default)]
    pub rubric: Option<String>,
    #[serde(default = "whole")]
    pub share: f64,
    #[serde(default)]
    pub domains: Option<Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Audit {
    pub share: f64,
    #[serde(default)]
    pub usd_per_day: Option<f64>,
    #[serde(default)]
    pub domains: Option<Vec<String>>,
    pub concurrency: usize,
    pub deadline_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Driver {
    Rule,
    ModeRouter,
    Llm,
}

/// What is left out is as the dialect has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModeLlm {
    pub dialect: Dialect,
    pub arm: Option<String>,
    pub base_url: Option<String>,
    pub model: Option<String>,
    pub api_key_env: Option<String>,
    #[serde(default)]
    pub input_usd_per_1m: f64,
    #[serde(default)]
    pub output_usd_per_1m: f64,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub tokens_max: Option<u32>,
    pub mode_tokens_max: Option<u32>,
    pub timeout_ms: Option<u64>,
    pub resamples: Option<u32>,
    pub question_chars_max: Option<usize>,
    pub verdicts: Option<bool>,
    pub history: Option<History>,
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    pub prompt_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Modes {
    pub driver: Driver,
    #[serde(default)]
    pub model: Option<PathBuf>,
    #[serde(default)]
    pub llm: Option<ModeLlm>,
    pub enabled: BTreeSet<Mode>,
    #[serde(default)]
    pub domains: BTreeMap<String, BTreeSet<Mode>>,
    pub chats: bool,
    pub alpha: f64,
    pub workers_max: usize,
    pub rounds_min: usize,
    pub rounds_max: usize,
    pub team_calls_max: usize,
    #[serde(default)]
    pub cost_usd_max: Option<f64>,
    pub wall_ms: u64,
    pub shown_bytes_max: usize,
    pub pass_score: f64,
}

fn whole() -> f64 {
    1.0
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verifiers {
    pub fuel: u64,
    pub deadline_ms: u32,
    pub memory_bytes: usize,
    pub queue_max: usize,
    pub default: Vec<Verifier>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verifier {
    pub name: String,
    #[serde(default)]
    pub component: Option<PathBuf>,
    pub weight: f64,
    #[serde(default)]
    pub gate: bool,
    #[serde(default)]
    pub on_error: OnError,
    #[serde(default)]
    pub config: Option<toml::Table>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkersSection {
    pub fallbacks: usize,
    pub connect_timeout_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DomainSection {
    #[serde(default)]
    pub verifiers: Option<Vec<Verifier>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Webhook {
    pub name: String,
    pub url: String,
    pub secret_env: String,
    #[serde(default = "finished")]
    pub events: BTreeSet<EventType>,
    #[serde(default)]
    pub domains: Option<Vec<String>>,
    #[serde(default)]
    pub tenants: Option<Vec<String>>,
    #[serde(default = "default_webhook_timeout_ms")]
    pub timeout_ms: u64,
    #[serde(default)]
    pub texts: bool,
}

fn finished() -> BTreeSet<EventType> {
    BTreeSet::from([EventType::TaskFinished])
}

/// A receiver has to store a message and no more.
fn default_webhook_timeout_ms() -> u64 {
    10_000
}

/// The keys of an arm that do not depend on its kind.
pub(super) const ARM_KEYS: [&str; 5] = ["id", "input_usd_per_1m", "output_usd_per_1m", "capabilities", "enabled"];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arm {
    pub id: String,
    #[serde(default)]
    pub input_usd_per_1m: f64,
    #[serde(default)]
    pub output_usd_per_1m: f64,
    #[serde(default)]
    pub capabilities: BTreeSet<Capability>,
    #[serde(default = "enabled")]
    pub enabled: bool,
}

fn enabled() -> bool {
    true
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub(super) enum Worker {
    Openai(Endpoint),
    Anthropic(Endpoint),
    Scripted {
        #[serde(default)]
        skill: BTreeMap<String, f64>,
        default_skill: f64,
        #[serde(default)]
        again: BTreeMap<String, f64>,
        #[serde(default)]
        planned: BTreeMap<String, f64>,
        #[serde(default)]
        latency_ms: u64,
    },
    Replay {
        dataset: PathBuf,
        model: String,
    },
}

/// A worker behind HTTP.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Endpoint {
    pub base_url: String,
    pub model: String,
    #[serde(default)]
    pub api_key_env: Option<String>,
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    #[serde(default = "default_idle_timeout_ms")]
    pub idle_timeout_ms: u64,
    #[serde(default = "default_retries")]
    pub retries: u32,
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    #[serde(default)]
    pub proxy: Option<String>,
}

/// Long enough for a slow model's long answer.
fn default_timeout_ms() -> u64 {
    120_000
}

/// A model that thinks sends nothing for a while.
fn default_idle_timeout_ms() -> u64 {
    60_000
}

/// What fails for a moment mostly works the second time.
fn default_retries() -> u32 {
    2
}

/// More than most providers allow one key.
fn default_concurrency() -> usize {
    256
}
