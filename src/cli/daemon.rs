//! A running daemon: the router behind its HTTP server, for `serve` and `demo`.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
    time::Instant,
};

use anyhow::{Context, Result, anyhow, bail};
use pointsman::{
    api::{ApiLimits, ApiState, Feed, Pulse, Serving, routes, serve},
    arms::Catalogue,
    config::{Config, check_arm},
    context::embedding::{EmbeddingPool, EmbeddingSettings},
    feedback::verifier::{Components, Registry, Sandbox, VerifierSpec},
    journal::now_ms,
    memory::{EdgeMemory, Memory, MemoryError, ServerMemory, ServerSettings, Shape},
    router::{ArmMaker, Opened, Router, RouterError, RouterParts, RouterSettings, Trust, keys_of},
    telemetry,
    webhooks::Webhooks,
};
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    folders::{DataFolder, Folders, reports},
    memory::set_aside,
    models, progress,
    verify::setup,
    workers::Workers,
};

/// A daemon that takes requests.
pub(super) struct Daemon {
    /// Where it listens, with its scheme.
    pub url: String,
    pub opened: Opened,
    pub state: ApiState,
    server: JoinHandle<std::io::Result<()>>,
    shutdown: Duration,
    _data: DataFolder,
}

impl Daemon {
    /// Puts the parts together, folds the journal and starts to listen.
    pub(super) async fn start(config: &Config, folders: &Folders, data: DataFolder) -> Result<Self> {
        let exposed = !config.listen.ip().is_loopback();
        if exposed && config.admin_key.is_none() && !keys_of(&data.journal()).await?.any_usable(None, now_ms()) {
            bail!(
                "{} would let anyone who reaches it spend your money, since there is no key: make one with `pointsman keys create --name me \
                 --role admin`, or listen on a loopback address such as 127.0.0.1:7700",
                config.listen
            );
        }
        allow_open_files();
        let listener = listen(config.listen)?;
        let address = listener.local_addr().context("the listening address is unknown")?;
        let metrics = telemetry::install_recorder().context("metrics cannot be recorded")?;
        let bar = progress::bar(0, "reading the journal");
        let opening = || async {
            let (parts, memory_place) = parts(config, folders, &data).await?;
            let settings = RouterSettings {
                reward: config.reward,
                tenants: config.tenants.clone(),
                trust: Trust { client: config.trust.client, judge: config.trust.judge, thumbs: config.trust.thumbs },
                domains: config.domains.keys().cloned().collect(),
                domain_similarity: config.domain_similarity,
                memory_place,
                journal: data.journal(),
                synchronous: config.synchronous,
                prompts: config.prompts,
                checkpoint: data.checkpoint(),
                fallbacks: config.fallbacks,
                lease: Duration::from_millis(config.lease_ms),
                card: config.policy_card.clone(),
                policy: config.policy.clone(),
                cards: Some(config.policy_cards.clone()),
                judge: config.judge.clone(),
                audit: config.audit.clone(),
                modes: config.modes.clone(),
            };
            let opened = Router::open(parts, settings, |done, total| {
                bar.set_length(total);
                bar.set_position(done);
            });
            anyhow::Ok(opened.await)
        };
        let (router, opened) = match opening().await? {
            // The journal is the truth: a memory that knows of more is another one's.
            Err(RouterError::Memory(error @ MemoryError::Ahead { .. })) if config.memory_server.is_none() => {
                tracing::warn!(%error, "memory is put aside as memory.aside and rebuilt from the journal");
                set_aside(&data)?;
                opening().await??
            }
            opened => opened?,
        };
        bar.finish_and_clear();
        data.remove_outdated();
        // Before the first request: all that is finished from here on is told.
        let webhooks = Webhooks::start(config.webhooks.clone(), &data.webhooks(), &router).await?;
        let (progress, started, stopping) = (Arc::default(), Instant::now(), CancellationToken::new());
        let pulse = Pulse { progress: Arc::clone(&progress), started };
        let feed = Feed::start(Arc::clone(&router), pulse, stopping.clone());
        let state = ApiState {
            router,
            feed: Arc::new(feed),
            reports: reports(&data.path),
            webhooks: Arc::new(webhooks),
            limits: ApiLimits {
                body_bytes_max: config.body_bytes_max,
                line_bytes_max: config.line_bytes_max,
                stream_concurrency: config.stream_concurrency,
                body_timeout: Duration::from_millis(config.body_timeout_ms),
            },
            admin_key: config.admin_key,
            exposed,
            cors_origins: config.cors_origins.clone().into(),
            metrics: Some(metrics),
            progress,
            stopping,
            started,
        };
        let shutdown = Duration::from_millis(config.shutdown_ms);
        let header_timeout = Duration::from_millis(config.header_timeout_ms);
        let settings = Serving { header_timeout, shutdown, tls: config.tls.clone() };
        let server = serve(listener, routes(state.clone()), settings, state.stopping.clone()).await?;
        // Commands on this machine reach a daemon that listens everywhere by loopback.
        let near = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
            IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
            IpAddr::V4(_) | IpAddr::V6(_) => address,
        };
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        if let Err(error) = data.announce(&format!("{scheme}://{near}")) {
            tracing::warn!(%error, "commands will not find this daemon by its data folder");
        }
        Ok(Self { url: format!("{scheme}://{address}"), opened, state, server, shutdown, _data: data })
    }

    /// Stops taking requests, finishes those in flight within the deadline, learns the last round, keeps what was learnt,
    /// flushes and closes.
    pub(super) async fn stop(self) -> Result<()> {
        let Self { state, mut server, shutdown, .. } = self;
        let began = Instant::now();
        state.stopping.cancel();
        if tokio::time::timeout(shutdown, &mut server).await.is_err() {
            tracing::warn!("some requests did not finish in time and were cut off");
            server.abort();
        }
        state.feed.stop().await;
        // What is finished after this is told at the next start.
        state.webhooks.stop().await;
        let cut_off = state.router.close(shutdown.saturating_sub(began.elapsed())).await;
        if cut_off > 0 {
            eprintln!(
                "{cut_off} rounds did not finish within {shutdown:?}: their decisions are in the journal; a request repeated under \
                 its idempotency key finishes them"
            );
        }
        Ok(())
    }
}

/// Takes all the open files that the system grants: a stream holds two, and shells start programs with room for a thousand.
fn allow_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            tracing::debug!(%error, "the number of open files stays as it is");
        }
    }
}

/// Ends at Ctrl-C or SIGTERM. They are waited for from the call on, not only once it is awaited: who is told that the daemon
/// listens may ask it to stop at once.
#[cfg(unix)]
pub(super) fn asked_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let asked = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        match asked {
            (Ok(mut interrupt), Ok(mut terminate)) => {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            }
            (Ok(mut one), Err(_)) | (Err(_), Ok(mut one)) => drop(one.recv().await),
            (Err(_), Err(_)) => std::future::pending().await,
        }
    }
}

/// Ends at Ctrl-C.
#[cfg(not(unix))]
pub(super) async fn asked_to_stop() {
    drop(tokio::signal::ctrl_c().await);
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => "another program uses it: stop that one, or choose a port with --listen",
            ErrorKind::PermissionDenied => "ports below 1024 need privileges: choose a higher one with --listen",
            _ => "choose another address with --listen",
        };
        anyhow!("cannot listen on {address} ({error}): {advice}")
    })
}

/// The parts of a router, and where its memory is.
async fn parts(config: &Config, folders: &Folders, data: &DataFolder) -> Result<(RouterParts, String)> {
    let embedding = embedding_settings(config, folders);
    let files = models::find_or_fetch(folders, &embedding)?;
    let embedder = EmbeddingPool::start(files, &embedding)?;
    let sandbox = Arc::new(Sandbox::new(config.sandbox, Some(&folders.cache.join("verifiers")))?);
    let own: BTreeMap<_, _> =
        config.domains.iter().filter_map(|(domain, own)| Some((domain.clone(), own.clone()?))).collect();
    let used =
        own.values().flatten().chain(&config.default_verifiers).any(|spec: &VerifierSpec| setup::is_python(spec));
    if used {
        setup::python(folders, &|step| eprintln!("{step}"))?;
    }
    let components = Components::new(data.verifiers(), setup::built(folders));
    let registry = Registry::load(sandbox, components, &config.default_verifiers, &own)?;
    let memory_shape =
        Shape { model: embedder.model_id().into(), dimension: embedder.dimension(), cap: config.memory_cap };
    let (memory, place) = match open_memory(config, data, &memory_shape).await {
        Err(error) if matches!(error.downcast_ref(), Some(MemoryError::Corrupt { .. })) => {
            tracing::warn!(%error, "memory is put aside as memory.aside and rebuilt from the journal");
            set_aside(data)?;
            open_memory(config, data, &memory_shape).await?
        }
        opened => opened?,
    };
    let snapshots = data.snapshots();
    snapshots.remove_parts();
    let workers = Arc::new(Workers::new(Duration::from_millis(config.connect_timeout_ms)));
    let arms = config.arms.iter().enumerate().map(|(index, arm)| workers.arm(arm, index as u64));
    let catalogue = Catalogue::new(arms.collect::<Result<_>>()?)?;
    let llm = match &config.modes.llm {
        Some(routing) => workers.llm(&routing.settings)?,
        None => None,
    };
    let base = config.base.clone();
    let arm_maker: ArmMaker = Arc::new(move |table| {
        let config = check_arm(table, &base, &|name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
        // Scripted arms of one name answer alike, whenever they come.
        let seed = config.id.as_str().bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
        workers.arm(&config, seed).map_err(|error| format!("{error:#}"))
    });
    Ok((RouterParts { embedder, memory, memory_shape, snapshots, catalogue, arm_maker, registry, llm }, place))
}

/// How tasks are embedded.
pub(super) fn embedding_settings(config: &Config, folders: &Folders) -> EmbeddingSettings {
    EmbeddingSettings {
        model: config.embedding_model.clone(),
        model_dir: config.embedding_model_dir.clone(),
        pooling: config.embedding_pooling,
        sessions: config.embedding_sessions,
        max_tokens: config.embedding_max_tokens,
        cache_entries: config.embedding_cache_entries,
        batch_max: config.embedding_batch_max,
        batch_wait: Duration::from_micros(config.embedding_batch_wait_us),
        ..EmbeddingSettings::new(&folders.cache)
    }
}

/// Opens memory; also tells where it is, for messages.
pub(super) async fn open_memory(
    config: &Config,
    data: &DataFolder,
    shape: &Shape,
) -> Result<(Arc<dyn Memory>, String)> {
    if let Some(settings) = &config.memory_server {
        let place = settings.place();
        return Ok((Arc::new(open_server(settings.clone(), shape.clone()).await?), place));
    }
    let folder = data.memory();
    let place = folder.display().to_string();
    Ok((Arc::new(EdgeMemory::open(&folder, shape)?), place))
}

/// Opens memory on a server; one that does not answer is no error.
pub(super) async fn open_server(settings: ServerSettings, shape: Shape) -> Result<ServerMemory> {
    let handle = Handle::current();
    Ok(tokio::task::spawn_blocking(move || ServerMemory::open(&settings, &shape, handle)).await??)
}
