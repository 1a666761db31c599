//! `pointsman memory copy`: all entries from one store to another.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman::memory::{ApiKey, EdgeMemory, Memory, ServerMemory, ServerSettings, Shape, pages};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::{
    super::{
        daemon::open_server,
        folders::{DataFolder, Folders, Owner},
        progress,
    },
    Place,
};

/// Entries read at a time.
const PAGE: usize = 512;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman memory copy --from edge --to http://127.0.0.1:6334
  QDRANT_API_KEY=... pointsman memory copy --from https://qdrant.example:6334 --to edge --data-dir ./state

The daemons of both must be stopped. Entries keep their numbers, so that a daemon on the same journal goes on with the copy.")]
pub(super) struct CopyArguments {
    /// `edge` for the data folder, or the gRPC address of a Qdrant server, such as http://127.0.0.1:6334.
    #[arg(long, value_name = "STORE")]
    from: String,
    /// The same; what it held before is replaced.
    #[arg(long, value_name = "STORE")]
    to: String,
    /// The collection on the server.
    #[arg(long, value_name = "NAME", default_value = "pointsman_memory")]
    collection: String,
    /// The variable that holds the server's key, if it is set.
    #[arg(long, value_name = "VARIABLE", default_value = "QDRANT_API_KEY")]
    api_key_env: String,
}

pub(super) async fn run(arguments: CopyArguments, place: &Place, folders: &Folders) -> Result<()> {
    if arguments.from == arguments.to {
        bail!("--from and --to are the same store");
    }
    // Held until the end, so that no daemon starts on it meanwhile.
    let mut data = None;
    if [&arguments.from, &arguments.to].contains(&&"edge".to_owned()) {
        let path = place.data_dir.as_deref().unwrap_or(&folders.data);
        if !path.exists() {
            bail!("there is no data folder {}: give the daemon's with --data-dir DIR", path.display());
        }
        let Owner::Us(ours) = DataFolder::owner(path)? else {
            bail!("the data folder {} is used by a daemon: stop it first", path.display());
        };
        data = Some(ours);
    }
    let (from, shape) = arguments.open(&arguments.from, data.as_ref(), None).await?;
    let (to, _) = arguments.open(&arguments.to, data.as_ref(), Some(shape)).await?;
    let copied = spawn_blocking(move || copy(&*from, &*to)).await??;
    println!("{copied} entries copied from {} to {}", arguments.from, arguments.to);
    Ok(())
}

fn copy(from: &dyn Memory, to: &dyn Memory) -> Result<u64> {
    let held = from.held()?;
    let bar = progress::bar(held.count, "copying");
    let entries = pages(0, PAGE, |from_seq, n| from.scan(from_seq, n));
    to.replace(held.origin.as_deref(), held.next_seq, &mut entries.inspect(|_| bar.inc(1)))?;
    to.sync()?;
    bar.finish_and_clear();
    let copied = to.held()?;
    if (copied.count, copied.next_seq) != (held.count, held.next_seq) {
        bail!("the copy has {} entries instead of {}: is a daemon writing to one of them?", copied.count, held.count);
    }
    Ok(copied.count)
}

impl CopyArguments {
    /// Opens a store, as it is or for a shape.
    async fn open(
        &self,
        store: &str,
        data: Option<&DataFolder>,
        wanted: Option<Shape>,
    ) -> Result<(Arc<dyn Memory>, Shape)> {
        if store == "edge" {
            let folder = data.context("the data folder is not open")?.memory();
            let shape = match wanted {
                Some(shape) => shape,
                None => EdgeMemory::shape_of(&folder)?
                    .with_context(|| format!("there is no memory in {}", folder.display()))?,
            };
            return Ok((Arc::new(EdgeMemory::open(&folder, &shape)?), shape));
        }
        let settings = ServerSettings {
            url: store.into(),
            api_key: std::env::var(&self.api_key_env).ok().map(ApiKey::new),
            collection: self.collection.clone(),
            connect_timeout_ms: 5_000,
            write_timeout_ms: 60_000,
            recall_timeout_ms: 60_000,
        };
        settings.validate()?;
        let (asked, place) = (settings.clone(), settings.place());
        let found = spawn_blocking(move || ServerMemory::shape_of(&asked, Handle::current())).await??;
        let shape = wanted.or(found).with_context(|| format!("there is no memory in {place}"))?;
        Ok((Arc::new(open_server(settings, shape.clone()).await?), shape))
    }
}
