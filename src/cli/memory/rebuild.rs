//! `pointsman memory rebuild`: memory anew from the journal.

use std::{fs, sync::Arc};

use anyhow::{Context, Result, bail};
use pointsman::{
    context::{chat::essence, embedding::EmbeddingPool},
    journal::Journal,
    memory::{Memory, Shape},
    router::fill_memory,
};

use super::{
    super::{
        daemon::{embedding_settings, open_memory},
        folders::{DataFolder, Folders, Owner},
        models, progress, serve,
    },
    Place,
    target::open_journal,
};

/// Tasks embedded before they are stored, so that an interrupted run goes on where it was.
const BATCH: i64 = 256;

pub(super) async fn run(place: &Place, folders: &Folders) -> Result<()> {
    let path = place.data_dir.as_deref().unwrap_or(&folders.data);
    if !path.join("journal.sqlite").exists() {
        bail!("there is no journal in {}: give the daemon's data folder with --data-dir DIR", path.display());
    }
    let config = place.config.as_deref().context("give the daemon's configuration with --config FILE")?;
    let config = serve::read(config, None)?;
    let Owner::Us(data) = DataFolder::owner(path)? else {
        bail!("the data folder {} is used by a daemon: stop it first", path.display());
    };
    let settings = embedding_settings(&config, folders);
    let files = models::find_or_fetch(folders, &settings)?;
    let shape = Shape { model: files.model_id().into(), dimension: files.dimension(), cap: config.memory_cap };
    let journal = open_journal(&data, &shape.model).await?;
    let missing = journal.unembedded().await?;
    if missing > 0 {
        eprintln!("{missing} tasks were embedded by another model; embedding them by {}.", shape.model);
        embed_again(&journal, &EmbeddingPool::start(files, &settings)?, missing).await?;
    }
    set_aside(&data)?;
    let (memory, where_it_is) = open_memory(&config, &data, &shape).await?;
    empty(&memory).await?;
    let snapshots = data.snapshots();
    let bar = progress::bar(0, "reading the journal");
    let given = fill_memory(&journal, memory, &shape, snapshots, &where_it_is, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    let given = given.await?;
    bar.finish_and_clear();
    journal.close().await;
    println!("{given} entries written to {where_it_is}");
    Ok(())
}

async fn embed_again(journal: &Journal, embedder: &EmbeddingPool, missing: u64) -> Result<()> {
    let bar = progress::bar(missing, "embedding");
    loop {
        let tasks = journal.first_unembedded(BATCH).await?;
        if tasks.is_empty() {
            bar.finish_and_clear();
            return Ok(());
        }
        let texts: Vec<_> = tasks.iter().map(|(_, task)| essence(&task.messages)).collect();
        let embeddings = embedder.embed_many(&texts, &|_, _| bar.inc(1)).await?;
        let embedded: Vec<_> = tasks.iter().map(|(seq, _)| *seq).zip(embeddings).collect();
        journal.embed_again(&embedded).await?;
    }
}

/// Whatever a server's collection holds is written again from the journal.
async fn empty(memory: &Arc<dyn Memory>) -> Result<()> {
    let memory = Arc::clone(memory);
    let replaced = tokio::task::spawn_blocking(move || memory.replace(None, 0, &mut std::iter::empty())).await?;
    Ok(replaced?)
}

/// Moves the memory folder out of the way.
pub(crate) fn set_aside(data: &DataFolder) -> Result<()> {
    let (folder, aside) = (data.memory(), data.path.join("memory.aside"));
    if !folder.exists() {
        return Ok(());
    }
    if aside.exists() {
        fs::remove_dir_all(&aside).with_context(|| format!("cannot remove {}", aside.display()))?;
    }
    fs::rename(&folder, &aside).with_context(|| format!("cannot move {} aside; delete it", folder.display()))
}
