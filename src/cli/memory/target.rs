//! Who answers: a daemon, or the data folder itself.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use pointsman::{
    context::embedding::{EmbeddingPool, EmbeddingSettings},
    journal::{Journal, JournalSettings, Synchronous, now_ms},
    memory::{
        EdgeMemory, Filter, Memory, ServerMemory, Shape,
        snapshot::{Listed, Snapshot, SnapshotStore},
        view::{self, Record, Stats},
    },
    router::{refuse_in_use, restoration},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::{
    super::{
        ask::Running,
        daemon::{embedding_settings, open_server},
        folders::{DataFolder, Folders, Owner},
        models, serve,
    },
    Place,
};

/// Who answers.
pub(super) enum Target {
    Daemon(Running),
    Here(Here),
}

/// A data folder that is ours for the moment.
pub(super) struct Here {
    pub data: DataFolder,
    pub memory: Arc<dyn Memory>,
    pub shape: Shape,
    pub snapshots: SnapshotStore,
}

impl Target {
    /// The daemon that was named or that has the folder, else the folder.
    pub async fn find(place: &Place, folders: &Folders) -> Result<Self> {
        let daemon = |url: &str| -> Result<Self> { Ok(Self::Daemon(Running::at(url)?)) };
        if let Some(url) = &place.url {
            return daemon(url);
        }
        let path = place.data_dir.as_deref().unwrap_or(&folders.data);
        if !path.exists() {
            bail!(
                "there is no data folder {}: give the daemon's with --data-dir DIR, or its --url URL",
                path.display()
            );
        }
        match DataFolder::owner(path)? {
            Owner::Other { url: Some(url) } => daemon(&url),
            Owner::Other { url: None } => {
                bail!("the data folder {} is used by another process; wait until it ends", path.display())
            }
            Owner::Us(data) => Ok(Self::Here(Here::open(data, place).await?)),
        }
    }

    pub async fn stats(&self) -> Result<Stats> {
        match self {
            Self::Daemon(daemon) => daemon.get("/v1/memory", &[]).await,
            Self::Here(here) => {
                let shape = here.shape.clone();
                here.ask(move |memory| Ok(view::stats(memory, &shape)?)).await
            }
        }
    }

    pub async fn search(
        &self,
        text: &str,
        k: usize,
        min_similarity: f32,
        filter: Filter,
        place: &Place,
        folders: &Folders,
    ) -> Result<Vec<Record>> {
        match self {
            Self::Daemon(daemon) => {
                let (k, least) = (k.to_string(), min_similarity.to_string());
                let mut query = vec![("text", text), ("k", &k), ("min_similarity", &least)];
                query.extend(filter.domain.as_ref().map(|domain| ("domain", domain.as_str())));
                query.extend(filter.arm.as_ref().map(|arm| ("arm", arm.as_str())));
                daemon.get("/v1/memory/search", &query).await
            }
            Self::Here(here) => {
                let mut settings = match &place.config {
                    Some(config) => embedding_settings(&serve::read(config, None)?, folders),
                    None => EmbeddingSettings::new(&folders.cache),
                };
                settings.sessions = 1;
                let embedder = EmbeddingPool::start(models::find_or_fetch(folders, &settings)?, &settings)?;
                if embedder.model_id() != here.shape.model {
                    let (ours, theirs) = (embedder.model_id(), &here.shape.model);
                    bail!(
                        "memory holds embeddings of {theirs}, here {ours} is installed: start the daemon and ask again"
                    );
                }
                let embedding = embedder.embed(text).await?;
                here.ask(move |memory| Ok(view::search(memory, &embedding, k, min_similarity, &filter)?)).await
            }
        }
    }

    pub async fn inspect(&self, seq: u64) -> Result<Option<Record>> {
        match self {
            Self::Daemon(daemon) => daemon.get_if_there(&format!("/v1/memory/entries/{seq}")).await,
            Self::Here(here) => here.ask(move |memory| Ok(view::inspect(memory, seq)?)).await,
        }
    }

    pub async fn create_snapshot(&self, name: Option<String>) -> Result<Snapshot> {
        match self {
            Self::Daemon(daemon) => daemon.post("/v1/memory/snapshots", json!({ "name": name })).await,
            Self::Here(here) => {
                let (snapshots, shape) = (here.snapshots.clone(), here.shape.clone());
                here.ask(move |memory| Ok(snapshots.create(name.as_deref(), memory, &shape, now_ms())?)).await
            }
        }
    }

    pub async fn list_snapshots(&self) -> Result<Vec<Listed>> {
        match self {
            Self::Daemon(daemon) => daemon.get("/v1/memory/snapshots", &[]).await,
            Self::Here(here) => Ok(here.snapshots.list()?),
        }
    }

    pub async fn verify_snapshot(&self, name: &str) -> Result<Snapshot> {
        match self {
            Self::Daemon(daemon) => daemon.post(&format!("/v1/memory/snapshots/{name}/verify"), Value::Null).await,
            Self::Here(here) => Ok(here.snapshots.verify(name)?),
        }
    }

    pub async fn restore_snapshot(&self, name: &str) -> Result<Snapshot> {
        match self {
            Self::Daemon(daemon) => daemon.post(&format!("/v1/memory/snapshots/{name}/restore"), Value::Null).await,
            Self::Here(here) => here.restore(name).await,
        }
    }

    pub async fn delete_snapshot(&self, name: &str) -> Result<()> {
        match self {
            Self::Daemon(daemon) => {
                daemon.send(Method::DELETE, &format!("/v1/memory/snapshots/{name}"), |request| request).await?;
                Ok(())
            }
            Self::Here(here) => {
                let journal = here.journal().await?;
                let refused = refuse_in_use(&journal, name).await;
                journal.close().await;
                refused?;
                Ok(here.snapshots.delete(name)?)
            }
        }
    }

    /// Writes a snapshot's file to `to`, which must not exist.
    pub async fn download_snapshot(&self, name: &str, to: PathBuf) -> Result<u64> {
        let mut file =
            tokio::fs::File::create_new(&to).await.with_context(|| format!("cannot create {}", to.display()))?;
        let copied = match self {
            Self::Daemon(daemon) => {
                let mut response =
                    daemon.send(Method::GET, &format!("/v1/memory/snapshots/{name}"), |request| request).await?;
                let mut bytes = 0;
                while let Some(chunk) = response.chunk().await.context("the download broke off")? {
                    bytes += chunk.len() as u64;
                    tokio::io::AsyncWriteExt::write_all(&mut file, &chunk).await?;
                }
                bytes
            }
            Self::Here(here) => {
                let mut from = tokio::fs::File::open(here.snapshots.path(name)?)
                    .await
                    .with_context(|| format!("cannot read snapshot {name}"))?;
                tokio::io::copy(&mut from, &mut file).await?
            }
        };
        file.sync_all().await?;
        Ok(copied)
    }

    /// Takes a snapshot's file in, after reading all of it.
    pub async fn upload_snapshot(&self, from: PathBuf, name: &str) -> Result<Snapshot> {
        let cannot_read = || format!("cannot read {}", from.display());
        match self {
            Self::Daemon(daemon) => {
                let file = tokio::fs::File::open(&from).await.with_context(cannot_read)?;
                let bytes = file.metadata().await.with_context(cannot_read)?.len();
                let path = format!("/v1/memory/snapshots/{name}");
                let sent =
                    daemon.send(Method::PUT, &path, |request| request.header("content-length", bytes).body(file));
                Ok(sent.await?.json().await?)
            }
            Self::Here(here) => {
                let mut part = here.snapshots.part()?;
                let mut file = std::fs::File::open(&from).with_context(cannot_read)?;
                std::io::copy(&mut file, &mut part).with_context(cannot_read)?;
                Ok(here.snapshots.adopt(part, name)?)
            }
        }
    }
}

impl Here {
    /// Opens the memory of a data folder as it is, or the one on the server that the configuration names.
    pub async fn open(data: DataFolder, place: &Place) -> Result<Self> {
        let snapshots = data.snapshots();
        let config = place.config.as_deref().map(|config| serve::read(config, None)).transpose()?;
        if let Some(settings) = config.and_then(|config| config.memory_server) {
            let (place, asked) = (settings.place(), settings.clone());
            let handle = Handle::current();
            let shape = spawn_blocking(move || ServerMemory::shape_of(&asked, handle)).await??;
            let Some(shape) = shape else {
                bail!("there is no memory in {place} yet: it comes with the daemon's first start")
            };
            let memory: Arc<dyn Memory> = Arc::new(open_server(settings, shape.clone()).await?);
            return Ok(Self { data, memory, shape, snapshots });
        }
        let folder = data.memory();
        let Some(shape) = EdgeMemory::shape_of(&folder)? else {
            bail!(
                "there is no memory in {}: it comes with the daemon's first start; where it is on a server, give the \
                 daemon's configuration with --config FILE",
                data.path.display()
            );
        };
        let memory: Arc<dyn Memory> = Arc::new(EdgeMemory::open(&folder, &shape)?);
        Ok(Self { data, memory, shape, snapshots })
    }

    pub async fn journal(&self) -> Result<Journal> {
        open_journal(&self.data, &self.shape.model).await
    }

    async fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&dyn Memory) -> Result<T> + Send + 'static) -> Result<T> {
        let memory = Arc::clone(&self.memory);
        spawn_blocking(move || ask(&*memory)).await?
    }

    /// First the journal, then memory, as the daemon does: a crash in between ends with the snapshot in place.
    async fn restore(&self, name: &str) -> Result<Snapshot> {
        let snapshot = self.snapshots.verify_for(name, &self.shape)?;
        let journal = self.journal().await?;
        let appended = journal.append(vec![restoration(&snapshot)]).await;
        journal.close().await;
        appended?;
        let (snapshots, digest) = (self.snapshots.clone(), snapshot.digest.clone());
        let (name, next_seq) = (name.to_owned(), snapshot.manifest.next_seq);
        let replace = move |memory: &dyn Memory| {
            let mut entries = snapshots.entries_of(&name, &digest)?;
            Ok(memory.replace(Some(&digest), next_seq, &mut entries)?)
        };
        self.ask(replace).await?;
        Ok(snapshot)
    }
}

/// The journal of a data folder, for a process that runs no rounds.
pub(crate) async fn open_journal(data: &DataFolder, model: &str) -> Result<Journal> {
    // Nobody learns here: what is committed goes nowhere.
    let (committed, _) = tokio::sync::mpsc::channel(1);
    let settings =
        JournalSettings { path: data.journal(), synchronous: Synchronous::Full, embedding_model: model.into() };
    Ok(Journal::open(&settings, committed).await?)
}
