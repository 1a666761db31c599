//! Arms from their configuration: at the start, and while the daemon runs.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use pointsman::{
    arms::{
        Arm,
        worker::{
            HttpSettings, HttpWorker, Recorded, ReplayedWorker, ScriptedSettings, ScriptedWorker, Worker,
            upstream::client,
        },
    },
    config::{ArmConfig, WorkerConfig},
    modes::llm::{Endpoint, LlmSettings},
    replay::{Dataset, ReadOptions},
};

/// Makes workers that share HTTP clients and the datasets read so far.
pub(super) struct Workers {
    connect_timeout: Duration,
    // Guards the clients by the proxies that they use.
    clients: Mutex<HashMap<Option<String>, reqwest::Client>>,
    // Guards the datasets by their folders.
    datasets: Mutex<HashMap<PathBuf, Arc<Dataset>>>,
}

impl Workers {
    pub(super) fn new(connect_timeout: Duration) -> Self {
        Self { connect_timeout, clients: Mutex::default(), datasets: Mutex::default() }
    }

    fn client(&self, proxy: Option<&str>) -> Result<reqwest::Client> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&proxy.map(str::to_owned)) {
            return Ok(client.clone());
        }
        let client = client(self.connect_timeout, proxy).context("the HTTP client cannot start")?;
        clients.insert(proxy.map(str::to_owned), client.clone());
        Ok(client)
    }

    /// The language model that routes, where it has an endpoint of its own.
    pub(super) fn llm(&self, settings: &LlmSettings) -> Result<Option<Arc<dyn Worker>>> {
        let Endpoint::Url { api_key_env, .. } = &settings.endpoint else { return Ok(None) };
        let api_key = api_key_env.as_ref().and_then(|name| std::env::var(name).ok());
        let worker = settings.endpoint.connect(settings, api_key, self.client(None)?);
        Ok(worker.map(|worker| Arc::new(worker) as Arc<dyn Worker>))
    }

    /// One arm; `seed` makes a scripted worker's mistakes its own.
    pub(super) fn arm(&self, config: &ArmConfig, seed: u64) -> Result<Arm> {
        let worker: Arc<dyn Worker> = match &config.worker {
            WorkerConfig::Http(endpoint) => {
                let settings = HttpSettings {
                    protocol: endpoint.protocol,
                    base_url: endpoint.base_url.clone(),
                    model: endpoint.model.clone(),
                    api_key: endpoint.api_key.clone(),
                    timeout_ms: endpoint.timeout_ms,
                    idle_timeout_ms: endpoint.idle_timeout_ms,
                    retries: endpoint.retries,
                    concurrency: endpoint.concurrency,
                };
                Arc::new(HttpWorker::new(settings, self.client(endpoint.proxy.as_deref())?))
            }
            WorkerConfig::Scripted { skill, default_skill, again, planned, latency_ms } => {
                Arc::new(ScriptedWorker::new(ScriptedSettings {
                    skill: skill.clone(),
                    default_skill: *default_skill,
                    again: again.clone(),
                    planned: planned.clone(),
                    latency_ms: *latency_ms,
                    seed,
                }))
            }
            WorkerConfig::Replay { dataset, model } => {
                let mut datasets = self.datasets.lock().unwrap_or_else(PoisonError::into_inner);
                let read = match datasets.get(dataset) {
                    Some(read) => Arc::clone(read),
                    None => {
                        let read = Arc::new(Dataset::read(dataset, &ReadOptions::default())?);
                        datasets.insert(dataset.clone(), Arc::clone(&read));
                        read
                    }
                };
                Arc::new(ReplayedWorker::new(recorded(&read, model)?))
            }
        };
        let ArmConfig { id, prices, capabilities, enabled, .. } = config.clone();
        Ok(Arm { id, prices, capabilities, enabled, quarantined: false, worker })
    }
}

/// One model's outcomes by task id.
fn recorded(dataset: &Dataset, model: &str) -> Result<HashMap<String, Recorded>> {
    let Some(place) = dataset.models.iter().position(|known| known.arm.as_str() == model) else {
        let known: Vec<_> = dataset.models.iter().map(|model| model.arm.as_str()).collect();
        bail!("dataset {} has no model {model:?}; it has: {}", dataset.name, known.join(", "));
    };
    let record = |task: &pointsman::replay::DatasetTask| {
        let result = task.results[place];
        (task.id.to_string(), Recorded { text: None, score: result.score, cost_usd: Some(result.cost_usd) })
    };
    Ok(dataset.tasks.iter().map(record).collect())
}
