//! From raw to checked: collects every problem before it gives up.

mod audit;
mod llm;
mod modes;
mod tenants;
mod verifiers;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    path::Path,
};

use axum::http::HeaderValue;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{ArmConfig, Config, Endpoint, Trust, WorkerConfig, raw};
use crate::{
    action::policy::lay_over,
    api::TlsFiles,
    arms::Prices,
    chat::Protocol,
    context::embedding::KnownModel,
    feedback::verifier::{SandboxLimits, VerifierSpec},
    memory::{ApiKey, ServerSettings},
    round::{ArmId, Domain, Kept},
};

const DEFAULTS: &str = include_str!("defaults.toml");
const SECTIONS: [&str; 17] = [
    "server",
    "journal",
    "memory",
    "embedding",
    "context",
    "policy",
    "reward",
    "feedback",
    "tenants",
    "verifiers",
    "workers",
    "modes",
    "judge",
    "audit",
    "domains",
    "arms",
    "webhooks",
];

/// One thing that is wrong, and how to put it right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, such as `arms[1].base_url`.
    pub key: String,
    /// What is wrong and what would be right.
    pub advice: String,
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.len();
        write!(f, "the configuration has {n} problem{}:", if n == 1 { "" } else { "s" })?;
        self.0.iter().try_for_each(|Problem { key, advice }| write!(f, "\n  {key}: {advice}"))
    }
}

impl std::error::Error for Problems {}

impl Problems {
    fn add(&mut self, key: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Problem { key: key.into(), advice: advice.into() });
    }

    fn require(&mut self, holds: bool, key: impl Into<String>, advice: &str) {
        if !holds {
            self.add(key, advice);
        }
    }
}

/// Checks the text of a configuration file against the defaults. Relative paths in it are taken from `base`; `env`
/// looks up variables that hold keys.
pub fn check(text: &str, base: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Problems> {
    let mut problems = Problems::default();
    let user: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            problems.add("(file)", format!("is not TOML: {}", one_line(&error)));
            return Err(problems);
        }
    };
    let mut table: Table = DEFAULTS.parse().expect("the compiled-in defaults are TOML, a test reads them");
    for key in user.keys().filter(|key| !SECTIONS.contains(&key.as_str())) {
        problems.add(key, format!("is not a section; the sections are {}", SECTIONS.join(", ")));
    }
    lay_over(&mut table, user);
    let mut checker = Checker { table, base, env, problems };
    let config = checker.config();
    let problems = checker.problems;
    match config {
        Some(config) if problems.0.is_empty() => Ok(config),
        _ => Err(problems),
    }
}

/// Checks one arm, written as an `[[arms]]` table in JSON. Any domain may be named in its skills.
pub fn check_arm(
    table: &serde_json::Value,
    base: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<ArmConfig, Problems> {
    let mut checker = Checker { table: Table::new(), base, env, problems: Problems::default() };
    let arm = match Value::try_from(table) {
        Ok(value) => checker.arm("arm", value, &BTreeMap::new()),
        Err(error) => {
            checker.problems.add("arm", one_line(&error));
            None
        }
    };
    arm.filter(|_| checker.problems.0.is_empty()).ok_or(checker.problems)
}

fn one_line(error: &dyn fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Checker<'a> {
    table: Table,
    base: &'a Path,
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: Problems,
}

impl Checker<'_> {
    fn config(&mut self) -> Option<Config> {
        // Every section is read before any is given up, so that all problems are seen together.
        let server: Option<raw::Server> = self.section("server");
        let journal: Option<raw::JournalSection> = self.section("journal");
        let memory: Option<raw::MemorySection> = self.section("memory");
        let embedding: Option<raw::Embedding> = self.section("embedding");
        let context: Option<raw::ContextSection> = self.section("context");
        let policy: Option<raw::Policy> = self.section("policy");
        let reward: Option<raw::Reward> = self.section("reward");
        let feedback: Option<raw::FeedbackSection> = self.section("feedback");
        let workers: Option<raw::WorkersSection> = self.section("workers");
        let verifiers: Option<raw::Verifiers> = self.section("verifiers");
        let domains = self.domains();
        let tenants = self.tenants(reward, &domains);
        let arms = self.arms(&domains);
        let judge = self.judge(&arms, &domains);
        let audit = self.audit(&domains);
        let modes = self.modes(&domains, &arms);
        let webhooks = self.webhooks(&domains, &tenants);
        let admin_key = server.as_ref().and_then(|server| self.admin_key(&server.admin_key_env));
        let cors_origins = server.as_ref().map_or_else(Vec::new, |server| self.origins(&server.cors_origins));
        let listen = server.as_ref().and_then(|server| self.server(server));
        if let Some(embedding) = &embedding {
            self.embedding(embedding);
        }
        if let Some(memory) = &memory {
            self.problems.require((1..=1_000_000).contains(&memory.cap), "memory.cap", "must be from 1 to 1000000");
        }
        if let Some(journal) = &journal {
            let fits = (1_000..=31_536_000_000).contains(&journal.lease_ms);
            self.problems.require(fits, "journal.lease_ms", "must be from 1000 (a second) to 31536000000 (a year)");
        }
        let memory_server = memory.as_ref().and_then(|memory| memory.server.as_ref());
        let memory_server = memory_server.and_then(|server| self.memory_server(server));
        if let Some(context) = &context {
            let fits = (0.0..=1.0).contains(&context.domain_similarity);
            self.problems.require(fits, "context.domain_similarity", "must be from 0 to 1");
        }
        if let Some(Err(error)) = reward.as_ref().map(raw::Reward::validate) {
            self.problems.add(error.field, error.problem);
        }
        let trust = feedback.map(|feedback| self.trust(feedback));
        if let Some(verifiers) = &verifiers {
            self.limits(verifiers);
        }
        if let Some(workers) = &workers {
            let p = &mut self.problems;
            p.require(workers.fallbacks <= 16, "workers.fallbacks", "must be from 0 (none) to 16");
            let timely = (1..=60_000).contains(&workers.connect_timeout_ms);
            p.require(timely, "workers.connect_timeout_ms", "must be from 1 to 60000");
        }
        let default_verifiers = verifiers.as_ref().map(|raw| self.verifier_set("verifiers.default", &raw.default));
        let (server, journal, memory, embedding) = (server?, journal?, memory?, embedding?);
        let (context, policy, reward, verifiers) = (context?, policy?, reward?, verifiers?);
        let workers = workers?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Some(Config {
            base: self.base.to_path_buf(),
            listen: listen?,
            body_bytes_max: server.body_bytes_max,
            line_bytes_max: server.line_bytes_max,
            stream_concurrency: server.stream_concurrency,
            shutdown_ms: server.shutdown_ms,
            header_timeout_ms: server.header_timeout_ms,
            body_timeout_ms: server.body_timeout_ms,
            cors_origins,
            tls: server
                .tls
                .map(|tls| TlsFiles { certificate: self.base.join(tls.certificate), key: self.base.join(tls.key) }),
            admin_key,
            synchronous: journal.synchronous,
            lease_ms: journal.lease_ms,
            prompts: match journal.prompts {
                raw::Prompts::Whole => Kept::Whole,
                raw::Prompts::Hashed => Kept::Hashed,
                raw::Prompts::Dropped => Kept::Dropped,
            },
            memory_cap: memory.cap,
            memory_server,
            embedding_model: embedding.model,
            embedding_model_dir: embedding.model_dir.map(|dir| self.base.join(dir)),
            embedding_pooling: embedding.pooling,
            embedding_sessions: if embedding.sessions == 0 { cores } else { embedding.sessions },
            embedding_max_tokens: embedding.max_tokens,
            embedding_cache_entries: embedding.cache_entries,
            embedding_batch_max: embedding.batch_max,
            embedding_batch_wait_us: embedding.batch_wait_us,
            domain_similarity: context.domain_similarity,
            policy_card: policy.card,
            policy: policy.name,
            policy_cards: self.base.join(policy.cards),
            trust: trust?,
            tenants,
            reward,
            fallbacks: workers.fallbacks,
            connect_timeout_ms: workers.connect_timeout_ms,
            sandbox: SandboxLimits {
                fuel: verifiers.fuel,
                deadline_ms: verifiers.deadline_ms,
                memory_bytes: verifiers.memory_bytes,
                concurrency: cores,
                queue_max: verifiers.queue_max,
            },
            judge,
            audit,
            modes: modes?,
            default_verifiers: default_verifiers?,
            domains,
            arms,
            webhooks,
        })
    }

    fn section<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = self.table.get(name).cloned().unwrap_or(Value::Table(Table::new()));
        value.try_into().map_err(|error: toml::de::Error| self.problems.add(name, one_line(&error))).ok()
    }

    fn server(&mut self, server: &raw::Server) -> Option<SocketAddr> {
        let p = &mut self.problems;
        let sized = |bytes: usize| (1_024..=1 << 30).contains(&bytes);
        p.require(sized(server.body_bytes_max), "server.body_bytes_max", "must be from 1024 to 1073741824");
        p.require(sized(server.line_bytes_max), "server.line_bytes_max", "must be from 1024 to 1073741824");
        let streams = (1..=1_024).contains(&server.stream_concurrency);
        p.require(streams, "server.stream_concurrency", "must be from 1 to 1024");
        for (key, limit_ms) in
            [("header_timeout_ms", server.header_timeout_ms), ("body_timeout_ms", server.body_timeout_ms)]
        {
            let sane = (100..=3_600_000).contains(&limit_ms);
            p.require(sane, format!("server.{key}"), "must be from 100 to 3600000");
        }
        for (key, file) in server.tls.iter().flat_map(|tls| [("certificate", &tls.certificate), ("key", &tls.key)]) {
            let there = self.base.join(file).is_file();
            p.require(there, format!("server.tls.{key}"), "there is no such file; both must be PEM files");
        }
        match server.listen.parse::<SocketAddr>() {
            // Whether there are keys, which others than this machine's programs need, is known at start.
            Ok(address) => Some(address),
            Err(_) => {
                p.add("server.listen", format!("{:?} must be an address such as 127.0.0.1:7700", server.listen));
                None
            }
        }
    }

    /// Origins as browsers write them: scheme and host, and the port where it is not the scheme's.
    fn origins(&mut self, origins: &[String]) -> Vec<HeaderValue> {
        let mut read = Vec::new();
        for (index, origin) in origins.iter().enumerate() {
            let own = reqwest::Url::parse(origin).ok().map(|url| url.origin().ascii_serialization());
            match HeaderValue::try_from(origin) {
                Ok(value) if own.as_ref() == Some(origin) && origin.starts_with("http") => read.push(value),
                Ok(_) | Err(_) => self.problems.add(
                    format!("server.cors_origins[{index}]"),
                    format!("{origin:?} must be an origin such as https://app.example.org, without a path"),
                ),
            }
        }
        read
    }

    fn memory_server(&mut self, raw: &raw::MemoryServer) -> Option<ServerSettings> {
        let api_key = raw.api_key_env.as_deref().map(|name| (self.env)(name).ok_or(name));
        let settings = ServerSettings {
            url: raw.url.clone(),
            api_key: api_key.clone().and_then(Result::ok).map(ApiKey::new),
            collection: raw.collection.clone(),
            connect_timeout_ms: raw.connect_timeout_ms,
            write_timeout_ms: raw.write_timeout_ms,
            recall_timeout_ms: raw.recall_timeout_ms,
        };
        if let Some(Err(name)) = api_key {
            self.problems.add("memory.server.api_key_env", format!("the variable {name} is not set"));
        }
        if let Err(error) = settings.validate() {
            self.problems.add("memory.server", error.to_string());
        }
        Some(settings)
    }

    fn embedding(&mut self, embedding: &raw::Embedding) {
        let p = &mut self.problems;
        match (&embedding.model_dir, &embedding.model) {
            (Some(dir), _) if !self.base.join(dir).is_dir() => {
                p.add("embedding.model_dir", format!("{} is not a folder", self.base.join(dir).display()));
            }
            (None, Some(name)) if KnownModel::find(name).is_none() => {
                let advice = format!(
                    "{name:?} is not known; `pointsman models list` names the models, and one of your own needs \
                     embedding.model_dir"
                );
                p.add("embedding.model", advice);
            }
            (Some(_) | None, Some(_) | None) => {}
        }
        let pooled = embedding.pooling.is_none() || embedding.model_dir.is_some();
        p.require(pooled, "embedding.pooling", "is known of every named model; give it with embedding.model_dir only");
        p.require(embedding.sessions <= 64, "embedding.sessions", "must be from 0 (one per core) to 64");
        // The model's own limit is known when it is loaded.
        let tokens = (8..=8_192).contains(&embedding.max_tokens);
        p.require(tokens, "embedding.max_tokens", "must be from 8 to what the model reads, at most 8192");
        let batch = (1..=64).contains(&embedding.batch_max);
        p.require(batch, "embedding.batch_max", "must be from 1 (no batches) to 64");
        let wait = embedding.batch_wait_us <= 10_000;
        p.require(wait, "embedding.batch_wait_us", "must be from 0 (never hold back) to 10000");
    }

    fn trust(&mut self, raw: raw::FeedbackSection) -> Trust {
        for (key, trust) in [("client", raw.client), ("judge", raw.judge), ("thumbs", raw.thumbs)] {
            let fits = trust > 0.0 && trust <= 1.0;
            self.problems.require(
                fits,
                format!("feedback.{key}"),
                "must be above 0 and at most 1, a verifier's weight",
            );
        }
        Trust { client: raw.client, judge: raw.judge, thumbs: raw.thumbs }
    }

    fn domains(&mut self) -> BTreeMap<Domain, Option<Vec<VerifierSpec>>> {
        let mut domains = BTreeMap::new();
        match self.table.get("domains").cloned() {
            None => {}
            Some(Value::Table(table)) => {
                for (name, value) in table {
                    let key = format!("domains.{name}");
                    let section = value.try_into::<raw::DomainSection>().map_err(|error| one_line(&error));
                    match (Domain::new(&name), section) {
                        (Ok(domain), Ok(section)) => {
                            let own = section.verifiers.map(|set| self.verifier_set(&format!("{key}.verifiers"), &set));
                            domains.insert(domain, own);
                        }
                        (domain, section) => {
                            let found = domain.err().map(|error| error.problem).into_iter().chain(section.err());
                            found.for_each(|advice| self.problems.add(&key, advice));
                        }
                    }
                }
            }
            Some(_) => self.problems.add("domains", "must be tables, such as [domains.math]"),
        }
        domains
    }

    fn arms(&mut self, domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>) -> Vec<ArmConfig> {
        let listed = match self.table.get("arms").cloned() {
            Some(Value::Array(list)) if !list.is_empty() => list,
            Some(Value::Array(_)) | None => {
                self.problems.add("arms", "at least one [[arms]] is needed; see pointsman.example.toml");
                return vec![];
            }
            Some(_) => {
                self.problems.add("arms", "must be a list: write [[arms]] above each arm");
                return vec![];
            }
        };
        let mut seen = BTreeSet::new();
        let mut arms = Vec::with_capacity(listed.len());
        for (index, value) in listed.into_iter().enumerate() {
            let key = format!("arms[{index}]");
            if let Some(arm) = self.arm(&key, value, domains) {
                if !seen.insert(arm.id.clone()) {
                    self.problems.add(format!("{key}.id"), format!("{} is defined twice", arm.id));
                }
                arms.push(arm);
            }
        }
        arms
    }

    fn arm(
        &mut self,
        key: &str,
        value: Value,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> Option<ArmConfig> {
        let Value::Table(table) = value else {
            self.problems.add(key, "must be a table");
            return None;
        };
        let (of_arm, of_worker): (Table, Table) =
            table.into_iter().partition(|(name, _)| raw::ARM_KEYS.contains(&name.as_str()));
        let mut read = |error: toml::de::Error| self.problems.add(key, one_line(&error));
        let arm = Value::Table(of_arm).try_into::<raw::Arm>().map_err(&mut read).ok();
        let worker = Value::Table(of_worker).try_into::<raw::Worker>().map_err(&mut read).ok();
        let (arm, worker) = (arm?, self.worker(key, worker?, domains));
        let raw::Arm { id, input_usd_per_1m, output_usd_per_1m, capabilities, enabled } = arm;
        let prices = self.prices(key, Prices { input_usd_per_1m, output_usd_per_1m });
        match ArmId::new(&id) {
            Ok(id) => Some(ArmConfig { id, prices, capabilities, enabled, worker }),
            Err(error) => {
                self.problems.add(format!("{key}.id"), error.problem);
                None
            }
        }
    }

    fn prices(&mut self, key: &str, prices: Prices) -> Prices {
        let Prices { input_usd_per_1m, output_usd_per_1m } = prices;
        for (name, price) in [("input_usd_per_1m", input_usd_per_1m), ("output_usd_per_1m", output_usd_per_1m)] {
            let sane = (0.0..=1e6).contains(&price);
            self.problems.require(sane, format!("{key}.{name}"), "must be dollars per million tokens, 0 or more");
        }
        prices
    }

    fn worker(
        &mut self,
        key: &str,
        worker: raw::Worker,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> WorkerConfig {
        match worker {
            raw::Worker::Openai(raw) => WorkerConfig::Http(self.endpoint(key, Protocol::OpenAi, raw)),
            raw::Worker::Anthropic(raw) => WorkerConfig::Http(self.endpoint(key, Protocol::Anthropic, raw)),
            raw::Worker::Scripted { skill, default_skill, again, planned, latency_ms } => {
                let skill = self.skill(&format!("{key}.skill"), skill, domains);
                let again = self.skill(&format!("{key}.again"), again, domains);
                let planned = self.skill(&format!("{key}.planned"), planned, domains);
                let known = (0.0..=1.0).contains(&default_skill);
                self.problems.require(known, format!("{key}.default_skill"), "must be from 0 to 1");
                WorkerConfig::Scripted { skill, default_skill, again, planned, latency_ms }
            }
            raw::Worker::Replay { dataset, model } => {
                let dataset = self.base.join(dataset);
                if !dataset.is_dir() {
                    self.problems.add(format!("{key}.dataset"), format!("{} is not a folder", dataset.display()));
                }
                WorkerConfig::Replay { dataset, model }
            }
        }
    }

    fn endpoint(&mut self, key: &str, protocol: Protocol, raw: raw::Endpoint) -> Endpoint {
        let raw::Endpoint { base_url, model, api_key_env, timeout_ms, idle_timeout_ms, retries, concurrency, proxy } =
            raw;
        let web = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        let p = &mut self.problems;
        p.require(web(&base_url), format!("{key}.base_url"), "must start with http:// or https:// and end with /v1");
        p.require(!model.is_empty(), format!("{key}.model"), "must be the model's name at that endpoint");
        for (name, ms) in [("timeout_ms", timeout_ms), ("idle_timeout_ms", idle_timeout_ms)] {
            p.require((1..=3_600_000).contains(&ms), format!("{key}.{name}"), "must be from 1 to 3600000");
        }
        p.require(retries <= 10, format!("{key}.retries"), "must be from 0 to 10");
        p.require((1..=10_000).contains(&concurrency), format!("{key}.concurrency"), "must be from 1 to 10000");
        let proxied = proxy.as_deref().is_none_or(|proxy| web(proxy) && reqwest::Proxy::all(proxy).is_ok());
        p.require(proxied, format!("{key}.proxy"), "must be an address such as http://proxy.example.com:3128");
        let api_key = api_key_env.and_then(|name| self.api_key(key, name));
        Endpoint { protocol, base_url, model, api_key, timeout_ms, idle_timeout_ms, retries, concurrency, proxy }
    }

    /// The key in a variable that an endpoint names, with the variable's name.
    fn api_key(&mut self, key: &str, name: String) -> Option<(String, String)> {
        let found = (self.env)(&name).filter(|value| !value.is_empty());
        if found.is_none() {
            let advice = format!("${name} is not set; export it, or remove api_key_env if no key is needed");
            self.problems.add(format!("{key}.api_key_env"), advice);
        }
        found.map(|value| (name, value))
    }

    fn skill(
        &mut self,
        key: &str,
        skill: BTreeMap<String, f64>,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> BTreeMap<Domain, f64> {
        let mut checked = BTreeMap::new();
        for (name, probability) in skill {
            let key = format!("{key}.{name}");
            self.problems.require((0.0..=1.0).contains(&probability), &key, "must be from 0 to 1");
            match Domain::new(&name) {
                Ok(domain) if domains.is_empty() || domains.contains_key(&domain) => {
                    checked.insert(domain, probability);
                }
                Ok(_) => self.problems.add(&key, format!("there is no [domains.{name}]")),
                Err(error) => self.problems.add(&key, error.problem),
            }
        }
        checked
    }
}
