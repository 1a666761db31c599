//! The sandbox: compiles components and runs each verification in a fresh, bounded instance.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use wasmtime::{
    Cache, CacheConfig, Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, ResourceLimiter, Store,
    Trap,
    component::{Component, Linker},
};

use super::contract::{
    VerifierPre,
    exports::pointsman::verifier::verify::{
        Budget, Manifest, Response, Task as GuestTask, Verdict as Said, VerifyError,
    },
};
use crate::round::{Signal, Task, VerdictStatus};

/// How often the deadline is looked at.
const TICK: Duration = Duration::from_millis(10);
/// The most signals and trace lines that are kept of one verdict.
const LINES_MAX: usize = 64;
/// The most bytes that are kept of one detail or trace line.
const LINE_BYTES_MAX: usize = 2_000;
/// The largest component that is taken.
const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// What one verification may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxLimits {
    /// Wasm instructions, roughly; decides the verdict.
    pub fuel: u64,
    /// Wall time, in milliseconds; guards liveness.
    pub deadline_ms: u32,
    /// Linear memory, in bytes.
    pub memory_bytes: usize,
    /// Verifications at one time; more wait.
    pub concurrency: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        let concurrency = thread::available_parallelism().map_or(2, usize::from);
        Self { fuel: 2_000_000_000, deadline_ms: 2_000, memory_bytes: 64 << 20, concurrency }
    }
}

/// Why a component was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The engine could not be made.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// It is not a component that this host runs.
    #[error("not a verifier: {0}")]
    NotAVerifier(String),
    /// Its `describe` failed or lied.
    #[error("the verifier's describe failed: {0}")]
    Describe(String),
}

/// A compiled verifier, shared by all its verifications.
pub struct Compiled {
    pre: VerifierPre<Limiter>,
    /// The component's hash, in hexadecimal.
    pub sha256: String,
    /// The name it states.
    pub name: String,
    /// The version it states.
    pub version: String,
}

/// What one verification gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    pub status: VerdictStatus,
    pub score: Option<f64>,
    pub signals: Vec<Signal>,
    pub trace: Vec<String>,
    pub fuel: u64,
    pub duration_us: u64,
}

/// Runs verifiers.
pub struct Sandbox {
    engine: Engine,
    linker: Linker<Limiter>,
    limits: SandboxLimits,
    permits: Arc<Semaphore>,
}

impl Sandbox {
    /// Starts the engine. Compiled code is kept under `cache_dir`, if given.
    pub fn new(limits: SandboxLimits, cache_dir: Option<&Path>) -> Result<Self, SandboxError> {
        let failed = |error: wasmtime::Error| SandboxError::Engine(format!("{error:#}"));
        let mut config = Config::new();
        config.wasm_component_model(true).epoch_interruption(true).consume_fuel(true).max_wasm_stack(1 << 20);
        let mut pool = PoolingAllocationConfig::new();
        let instances = u32::try_from(limits.concurrency * 2 + 4).unwrap_or(u32::MAX);
        pool.total_component_instances(instances)
            .total_core_instances(instances * 4)
            .total_memories(instances)
            .total_tables(instances * 4)
            .max_memory_size(limits.memory_bytes)
            .table_elements(20_000);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        if let Some(folder) = cache_dir {
            let mut cache = CacheConfig::new();
            cache.with_directory(folder);
            config.cache(Some(Cache::new(cache).map_err(failed)?));
        }
        let engine = Engine::new(&config).map_err(failed)?;
        tick(&engine);
        let permits = Arc::new(Semaphore::new(limits.concurrency.max(1)));
        Ok(Self { linker: Linker::new(&engine), engine, limits, permits })
    }

    /// Compiles a component and asks it who it is. Takes tenths of a second the first time, so never on a request's
    /// path.
    pub fn compile(&self, bytes: &[u8]) -> Result<Compiled, SandboxError> {
        let refused = |error: wasmtime::Error| SandboxError::NotAVerifier(format!("{error:#}"));
        if bytes.len() > COMPONENT_BYTES_MAX {
            return Err(SandboxError::NotAVerifier(format!(
                "it is {} bytes, at most {COMPONENT_BYTES_MAX} are taken",
                bytes.len()
            )));
        }
        if Engine::detect_precompiled(bytes).is_some() {
            return Err(SandboxError::NotAVerifier("precompiled native code is never loaded".into()));
        }
        let component = Component::new(&self.engine, bytes).map_err(refused)?;
        let pre = self.linker.instantiate_pre(&component).and_then(VerifierPre::new).map_err(refused)?;
        let manifest = self.describe(&pre).map_err(|error| SandboxError::Describe(format!("{error:#}")))?;
        let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Compiled { pre, sha256, name: cut(&manifest.name), version: cut(&manifest.version) })
    }

    fn describe(&self, pre: &VerifierPre<Limiter>) -> wasmtime::Result<Manifest> {
        let mut store = self.store()?;
        pre.instantiate(&mut store)?.pointsman_verifier_verify().call_describe(&mut store)
    }

    fn store(&self) -> wasmtime::Result<Store<Limiter>> {
        let mut store =
            Store::new(&self.engine, Limiter { memory_bytes_max: self.limits.memory_bytes, refused: false });
        store.limiter(|limiter| limiter);
        store.set_fuel(self.limits.fuel)?;
        let ticks = Duration::from_millis(u64::from(self.limits.deadline_ms)).as_millis() / TICK.as_millis();
        store.set_epoch_deadline(u64::try_from(ticks).unwrap_or(u64::MAX).max(1));
        store.epoch_deadline_trap();
        Ok(store)
    }

    /// Checks one answer, waiting for a free place in the pool.
    pub async fn verify(
        self: &Arc<Self>,
        compiled: &Arc<Compiled>,
        task: &Task,
        answer: &str,
        config: &str,
    ) -> Verified {
        let Ok(_permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Verified::failed("the sandbox is closed");
        };
        let (sandbox, compiled) = (Arc::clone(self), Arc::clone(compiled));
        let guest = GuestTask {
            id: task.id.to_string(),
            domain: task.domain.to_string(),
            prompt: task.prompt().to_owned(),
            metadata: serde_json::to_string(&task.metadata).unwrap_or_else(|_| "{}".into()),
        };
        let (response, config) = (Response { text: answer.to_owned() }, config.to_owned());
        tokio::task::spawn_blocking(move || sandbox.run(&compiled, &guest, &response, &config))
            .await
            .unwrap_or_else(|error| Verified::failed(&format!("the host failed: {error}")))
    }

    fn run(&self, compiled: &Compiled, task: &GuestTask, response: &Response, config: &str) -> Verified {
        let started = Instant::now();
        let mut store = match self.store() {
            Ok(store) => store,
            Err(error) => return Verified::failed(&format!("{error:#}")),
        };
        let budget = Budget { deadline_ms: self.limits.deadline_ms, memory_bytes: self.limits.memory_bytes as u64 };
        let called = compiled.pre.instantiate(&mut store).and_then(|instance| {
            instance.pointsman_verifier_verify().call_verify(&mut store, task, response, config, budget)
        });
        let mut verified = match called {
            Ok(Ok(said)) => check(said),
            Ok(Err(VerifyError::NotApplicable(why))) => Verified::silent(VerdictStatus::NotApplicable, &why),
            Ok(Err(VerifyError::InvalidTask(why))) => Verified::silent(VerdictStatus::InvalidTask, &why),
            Ok(Err(VerifyError::Internal(why))) => Verified::failed(&why),
            Err(trap) => trapped(&trap, store.data().refused),
        };
        verified.fuel = self.limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0));
        verified.duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        verified
    }
}

/// Advances the epoch until the engine is gone.
fn tick(engine: &Engine) {
    let weak = engine.weak();
    thread::spawn(move || {
        while let Some(engine) = weak.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(TICK);
        }
    });
}

/// Trusts nothing: a score is recomputed from the signals, and a number out of range makes the verdict an error.
fn check(said: Said) -> Verified {
    let sane = said
        .signals
        .iter()
        .all(|signal| (0.0..=1.0).contains(&signal.score) && signal.weight >= 0.0 && signal.weight.is_finite());
    let weights: f64 = said.signals.iter().map(|signal| signal.weight).sum();
    let score = if weights > 0.0 {
        said.signals.iter().map(|signal| signal.weight * signal.score).sum::<f64>() / weights
    } else {
        said.score
    };
    if !sane || !(0.0..=1.0 + 1e-9).contains(&score) {
        return Verified::failed("it gave a score or weight out of range");
    }
    let signals = said
        .signals
        .into_iter()
        .take(LINES_MAX)
        .map(|signal| Signal {
            name: cut(&signal.name),
            score: signal.score,
            weight: signal.weight,
            detail: cut(&signal.detail),
        })
        .collect();
    Verified {
        status: VerdictStatus::Scored,
        score: Some(score.min(1.0)),
        signals,
        trace: said.trace.iter().take(LINES_MAX).map(|line| cut(line)).collect(),
        fuel: 0,
        duration_us: 0,
    }
}

fn trapped(trap: &wasmtime::Error, memory_refused: bool) -> Verified {
    let limit = match trap.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Some("it ran out of fuel"),
        Some(Trap::Interrupt) => Some("it ran out of time"),
        Some(Trap::StackOverflow) => Some("it ran out of stack"),
        _ if memory_refused => Some("it ran out of memory"),
        _ => None,
    };
    match limit {
        Some(why) => Verified::silent(VerdictStatus::LimitExceeded, why),
        None => Verified::failed(&format!("it trapped: {}", trap.root_cause())),
    }
}

fn cut(line: &str) -> String {
    let mut end = line.len().min(LINE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_owned()
}

impl Verified {
    fn silent(status: VerdictStatus, why: &str) -> Self {
        Self { status, score: None, signals: vec![], trace: vec![cut(why)], fuel: 0, duration_us: 0 }
    }

    fn failed(why: &str) -> Self {
        Self::silent(VerdictStatus::Error, why)
    }
}

/// Bounds an instance's memory and remembers that it asked for more.
pub(super) struct Limiter {
    memory_bytes_max: usize,
    refused: bool,
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let granted = desired <= self.memory_bytes_max;
        self.refused |= !granted;
        Ok(granted)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= 20_000)
    }
}
