//! The sandbox: compiles components and runs each verification in a fresh, bounded instance.
//!
//! Verifications run on threads of their own, so that a guest that computes for a second holds up no request; only the
//! first third of a millisecond of a small one is the caller's. As many run at one time as there are places; more wait,
//! and `backlog` says how many, so that new work can be refused before it is paid for. Compiling is slow (CPython takes 12 s) and goes to threads of the lowest priority; what was compiled
//! once is found again in the cache, under the hash of the component, of the engine's version and of its settings.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    sync::{Semaphore, oneshot},
    time::Instant,
};
use wasmtime::{
    Cache, CacheConfig, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, Linker},
};

use super::{
    admission::{Admitted, Refusal, admit},
    components::digest,
    contract::{
        judging::{
            VerifierPre,
            exports::pointsman::verifier::verify::{
                Budget, Manifest as Said, Response, Task as GuestTask, VerifyError,
            },
        },
        running::ExecVerifierPre,
    },
    guest::{self, Allowance, Guest, Second, TABLE_ELEMENTS_MAX},
    manifest::Manifest,
    verified::Verified,
};
use crate::{
    round::{Task, VerdictStatus},
    telemetry::Metric,
};

/// Of a verification's fuel and time, what the second instance may use: the rest is for the tests to say what happened.
const SECOND_FUEL: f64 = 0.75;
const SECOND_TIME: f64 = 0.7;
/// Core instances, tables and memories of one component: componentize-py makes dozens of the first two.
const PARTS_MAX: u32 = 64;
const MEMORIES_MAX: u32 = 8;
/// Bytes of an instance's own records; CPython needs about 1 MiB.
const RECORDS_BYTES_MAX: usize = 4 << 20;
/// Memory and tables that a small instance's place keeps for the next one.
const SMALL_RESIDENT_BYTES: usize = 1 << 20;
const SMALL_RESIDENT_TABLE_BYTES: usize = 16 << 10;
/// The same of a large one: all of CPython's.
const LARGE_RESIDENT_BYTES: usize = 32 << 20;
const LARGE_RESIDENT_TABLE_BYTES: usize = 512 << 10;
/// Wasm stack, and the thread's stack that it lies on.
const STACK_BYTES: usize = 1 << 20;
const FIBER_BYTES: usize = 2 << 20;
/// A larger component, such as one with an interpreter in it, takes a millisecond only to begin.
const SMALL_BYTES_MAX: usize = 4 << 20;
/// Lowest but one: compiling gives way to everything.
const COMPILER_NICENESS: i32 = 15;

/// What one verification may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxLimits {
    /// Wasm instructions, roughly; decides the verdict.
    pub fuel: u64,
    /// Wall time, in milliseconds; guards liveness.
    pub deadline_ms: u32,
    /// Linear memory of each instance, in bytes.
    pub memory_bytes: usize,
    /// Verifications at one time; more wait.
    pub concurrency: usize,
    /// Verifications that may wait before new tasks are refused.
    pub queue_max: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        let concurrency = thread::available_parallelism().map_or(2, usize::from);
        Self { fuel: 2_000_000_000, deadline_ms: 2_000, memory_bytes: 128 << 20, concurrency, queue_max: 1_024 }
    }
}

impl SandboxLimits {
    fn allowance(&self, started: Instant) -> Allowance {
        let deadline = started + Duration::from_millis(u64::from(self.deadline_ms));
        Allowance { fuel: self.fuel, deadline, memory_bytes: self.memory_bytes }
    }
}

/// The sandbox could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox for verifiers cannot start: {0}")]
pub struct SandboxError(String);

/// A compiled verifier, shared by all its verifications.
pub struct Compiled {
    judging: VerifierPre<Guest>,
    running: Option<ExecVerifierPre<Guest>>,
    /// The component's hash, in hexadecimal.
    pub sha256: String,
    /// Its size.
    pub bytes: usize,
    /// What it says of itself.
    pub manifest: Arc<Manifest>,
}

/// An engine with what its guests may import.
struct Host {
    engine: Engine,
    linker: Linker<Guest>,
}

/// Runs verifiers.
pub struct Sandbox {
    small: Host,
    large: Host,
    limits: SandboxLimits,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    // Taken when dropped, since a runtime may not wait for its threads inside another one.
    runtime: Option<runtime::Runtime>,
    compilers: rayon::ThreadPool,
}

impl Sandbox {
    /// Starts the engine. Compiled code is kept under `cache_dir`, if given.
    pub fn new(limits: SandboxLimits, cache_dir: Option<&Path>) -> Result<Self, SandboxError> {
        let cache = cache_dir.map(|folder| {
            let mut cache = CacheConfig::new();
            cache.with_directory(folder);
            Cache::new(cache)
        });
        let cache = cache.transpose().map_err(|error| SandboxError(cause(&error)))?;
        let concurrency = limits.concurrency.max(1);
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(concurrency)
            .thread_name("verifier")
            // Timers are looked at between any two turns: a guest's turn is long.
            .event_interval(1)
            .enable_all()
            .build()
            .map_err(|error| SandboxError(error.to_string()))?;
        let compilers = rayon::ThreadPoolBuilder::new()
            .num_threads(concurrency)
            .thread_name(|_| "compiler".into())
            .start_handler(|_| give_way())
            .build()
            .map_err(|error| SandboxError(error.to_string()))?;
        Ok(Self {
            small: Host::new(small_pool(&limits), cache.clone())?,
            large: Host::new(large_pool(&limits), cache)?,
            limits,
            places: Arc::new(Semaphore::new(concurrency)),
            waiting: AtomicUsize::new(0),
            runtime: Some(runtime),
            compilers,
        })
    }

    /// Takes a component in: looks at its edges, compiles it, asks it who it is and has it judge a plain task. A core
    /// module is made a component first. Blocks for as long as compiling takes.
    pub fn compile(&self, bytes: &[u8]) -> Result<Compiled, Refusal> {
        let Admitted { component, runs_code } = admit(bytes)?;
        let started = Instant::now();
        let Host { engine, linker } = if is_small(component.len()) { &self.small } else { &self.large };
        let compiled = self.compilers.install(|| Component::new(engine, &component));
        metrics::histogram!(Metric::VerifierCompileSeconds.name()).record(started.elapsed().as_secs_f64());
        let compiled = compiled.map_err(|error| Refusal::DoesNotCompile(cause(&error)))?;
        let refused = |error: wasmtime::Error| Refusal::DoesNotInstantiate(cause(&error));
        let pre = linker.instantiate_pre(&compiled).map_err(refused)?;
        let judging = VerifierPre::new(pre.clone()).map_err(refused)?;
        let running = if runs_code { Some(ExecVerifierPre::new(pre).map_err(refused)?) } else { None };
        let manifest = Arc::new(Manifest::check(self.describe(&judging)?)?);
        let sha256 = digest(&component);
        let compiled = Compiled { judging, running, sha256, bytes: component.len(), manifest };
        self.probe(&compiled)?;
        Ok(compiled)
    }

    fn describe(&self, pre: &VerifierPre<Guest>) -> Result<Said, Refusal> {
        let (engine, pre, allowance) = (pre.engine().clone(), pre.clone(), self.limits.allowance(Instant::now()));
        let described = self.wait_for(async move {
            let failed = |error: &wasmtime::Error, refused| match guest::limit(error, refused) {
                Some(why) => Refusal::DescribeFailed(why.into()),
                None => Refusal::DescribeFailed(guest::reason(error)),
            };
            let mut store = guest::store(&engine, allowance, None).map_err(|error| failed(&error, false))?;
            let instance =
                pre.instantiate_async(&mut store).await.map_err(|error| Refusal::DoesNotInstantiate(cause(&error)))?;
            let call = instance.pointsman_verifier_verify().call_describe(&mut store);
            match tokio::time::timeout_at(allowance.deadline, call).await {
                Ok(Ok(said)) => Ok(said),
                Ok(Err(error)) => Err(failed(&error, store.data().memory_refused)),
                Err(_) => Err(Refusal::DescribeFailed(guest::OUT_OF_TIME.into())),
            }
        });
        described.unwrap_or_else(|| Err(Refusal::DescribeFailed("the sandbox is closing".into())))
    }

    /// A verifier has to get through a plain task, with a score or with the word that it does not apply.
    fn probe(&self, compiled: &Compiled) -> Result<(), Refusal> {
        let task = GuestTask {
            id: "probe".into(),
            domain: compiled.manifest.domains.iter().find(|domain| *domain != "*").cloned().unwrap_or("probe".into()),
            prompt: "What is 6 times 7?".into(),
            metadata: "{}".into(),
        };
        let response = Response { text: "6 times 7 is 42.".into() };
        let job = self.job(compiled, task, response, String::new());
        let probed = self.wait_for(async { job.run().await.0 });
        let probed = probed.unwrap_or_else(|| Verified::failed("the sandbox is closing"));
        match probed.status {
            VerdictStatus::Scored | VerdictStatus::NotApplicable | VerdictStatus::InvalidTask => Ok(()),
            VerdictStatus::Error | VerdictStatus::LimitExceeded => Err(Refusal::ProbeFailed(probed.trace.join("; "))),
        }
    }

    /// Waits, without a runtime or inside one, for something that runs on the sandbox's own threads.
    fn wait_for<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (done, wait) = mpsc::channel();
        self.runtime.as_ref()?.spawn(async move {
            // Nobody waits any more only when the caller's thread is gone.
            let _ = done.send(work.await);
        });
        wait.recv().ok()
    }

    /// How many verifications wait for a place.
    pub fn backlog(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether so many wait that new tasks should be refused.
    pub fn is_overloaded(&self) -> bool {
        self.backlog() > self.limits.queue_max
    }

    /// Checks one answer, waiting for a free place.
    pub async fn verify(&self, compiled: &Compiled, task: &Task, answer: &str, config: &str) -> Verified {
        let guest = GuestTask {
            id: task.id.to_string(),
            domain: task.domain.to_string(),
            prompt: task.prompt().to_owned(),
            metadata: serde_json::to_string(&task.metadata).unwrap_or_else(|_| "{}".into()),
        };
        let job = self.job(compiled, guest, Response { text: answer.to_owned() }, config.to_owned());
        let Some(runtime) = &self.runtime else { return Verified::failed("the sandbox is closing") };
        let waiting = Waiting::enter(&self.waiting);
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return Verified::failed("the sandbox is closing");
        };
        drop(waiting);
        let (done, answer) = oneshot::channel();
        let mut running = Box::pin(async move {
            let (verified, instance) = job.run().await;
            // Nobody waits any more where the caller went away. The memory of the instance is put back after that.
            let _ = done.send(verified);
            drop(instance);
            drop(place);
        });
        // A small component is done in its first turn, and changing threads would cost more than that.
        if !is_small(compiled.bytes) || futures::poll!(&mut running).is_pending() {
            runtime.spawn(running);
        }
        answer.await.unwrap_or_else(|_| Verified::failed("the host failed: the verification panicked"))
    }

    fn job(&self, compiled: &Compiled, task: GuestTask, response: Response, config: String) -> Job {
        Job {
            limits: self.limits,
            judging: compiled.judging.clone(),
            running: compiled.running.clone(),
            manifest: Arc::clone(&compiled.manifest),
            task,
            response,
            config,
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One verification.
struct Job {
    limits: SandboxLimits,
    judging: VerifierPre<Guest>,
    running: Option<ExecVerifierPre<Guest>>,
    manifest: Arc<Manifest>,
    task: GuestTask,
    response: Response,
    config: String,
}

impl Job {
    /// Also gives the instance, whose end may take as long as its work.
    async fn run(self) -> (Verified, Option<Store<Guest>>) {
        let started = Instant::now();
        let allowance = self.limits.allowance(started);
        let Allowance { fuel, deadline, memory_bytes } = allowance;
        let second = self.running.map(|pre| {
            let fuel = (fuel as f64 * SECOND_FUEL) as u64;
            let deadline = started + (deadline - started).mul_f64(SECOND_TIME);
            Second::new(pre, Allowance { fuel, deadline, memory_bytes })
        });
        let mut store = match guest::store(self.judging.engine(), allowance, second) {
            Ok(store) => store,
            Err(error) => return (Verified::failed(&guest::reason(&error)), None),
        };
        let budget = Budget { deadline_ms: self.limits.deadline_ms, memory_bytes: memory_bytes as u64 };
        let call = async {
            let instance = self.judging.instantiate_async(&mut store).await?;
            let verify = instance.pointsman_verifier_verify();
            verify.call_verify(&mut store, &self.task, &self.response, &self.config, budget).await
        };
        let mut verified = match tokio::time::timeout_at(deadline, call).await {
            Ok(Ok(Ok(said))) => Verified::check(said, &self.manifest),
            Ok(Ok(Err(VerifyError::NotApplicable(why)))) => Verified::silent(VerdictStatus::NotApplicable, &why),
            Ok(Ok(Err(VerifyError::InvalidTask(why)))) => Verified::silent(VerdictStatus::InvalidTask, &why),
            Ok(Ok(Err(VerifyError::Internal(why)))) => Verified::failed(&why),
            Ok(Err(trap)) => match guest::limit(&trap, store.data().memory_refused) {
                Some(why) => Verified::silent(VerdictStatus::LimitExceeded, why),
                None => Verified::failed(&format!("it trapped: {}", guest::reason(&trap))),
            },
            Err(_) => Verified::silent(VerdictStatus::LimitExceeded, guest::OUT_OF_TIME),
        };
        let second = store.data().second.as_ref().map_or(0, |second| second.fuel);
        verified.fuel = fuel.saturating_sub(store.get_fuel().unwrap_or(0)) + second;
        verified.duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        (verified, Some(store))
    }
}

/// Counts one that waits, for as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Self {
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        metrics::gauge!(Metric::VerificationsWaiting.name()).set((before + 1) as f64);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!(Metric::VerificationsWaiting.name()).set(before.saturating_sub(1) as f64);
    }
}

/// Room for two instances of each running verification, and some for describing.
fn pool(limits: &SandboxLimits) -> PoolingAllocationConfig {
    let instances = u32::try_from(limits.concurrency * 2 + 4).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(PARTS_MAX))
        .total_memories(instances)
        .total_tables(instances.saturating_mul(8))
        .total_stacks(instances)
        .max_core_instances_per_component(PARTS_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(PARTS_MAX)
        .max_component_instance_size(RECORDS_BYTES_MAX)
        .max_core_instance_size(RECORDS_BYTES_MAX)
        .max_memory_size(limits.memory_bytes)
        .table_elements(TABLE_ELEMENTS_MAX);
    pool
}

/// Small instances write few pages. Where the kernel can say which, only these are put back, and stay mapped.
fn small_pool(limits: &SandboxLimits) -> PoolingAllocationConfig {
    let mut pool = pool(limits);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(SMALL_RESIDENT_BYTES)
            .table_keep_resident(SMALL_RESIDENT_TABLE_BYTES);
    }
    pool
}

/// CPython writes 800 pages here and there. Faults on each of them took half of the time of its checks, so its memory stays
/// mapped and is put back whole, when the verdict is out.
fn large_pool(limits: &SandboxLimits) -> PoolingAllocationConfig {
    let mut pool = pool(limits);
    pool.linear_memory_keep_resident(LARGE_RESIDENT_BYTES).table_keep_resident(LARGE_RESIDENT_TABLE_BYTES);
    pool
}

fn is_small(component_bytes: usize) -> bool {
    component_bytes <= SMALL_BYTES_MAX
}

impl Host {
    fn new(pool: PoolingAllocationConfig, cache: Option<Cache>) -> Result<Self, SandboxError> {
        let failed = |error: wasmtime::Error| SandboxError(cause(&error));
        let mut config = Config::new();
        config.wasm_component_model(true).consume_fuel(true);
        config.max_wasm_stack(STACK_BYTES).async_stack_size(FIBER_BYTES);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).cache(cache);
        let engine = Engine::new(&config).map_err(failed)?;
        Ok(Self { linker: guest::linker(&engine).map_err(failed)?, engine })
    }
}

/// Lets the calling thread run only when others do not want to.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), COMPILER_NICENESS) {
        tracing::debug!(%error, "compiling runs at the usual priority");
    }
}

fn cause(error: &wasmtime::Error) -> String {
    format!("{error:#}")
}
