//! The embeddings of a dataset's texts, for the commands that replay it and that train on it.

use anyhow::{Context, Result};
use pointsman::{
    context::embedding::{EmbeddingPool, EmbeddingSettings},
    replay::{
        Dataset, DatasetTask,
        embedding_cache::{CacheKey, Cached, load, store},
    },
    round::Embedding,
};

use super::{folders::Folders, models, progress};

/// Embeddings and the model that made them.
pub(super) struct Embedded {
    pub model: String,
    pub dimension: usize,
    /// One per task, in order.
    pub vectors: Vec<Embedding>,
}

/// Takes them from the cache where they were computed before.
pub(super) async fn embedded(dataset: &Dataset, folders: &Folders) -> Result<Embedded> {
    let settings = EmbeddingSettings::new(&folders.cache);
    let files = models::find_or_fetch(folders, &settings)?;
    let (model, dimension) = (files.model_id().to_owned(), files.dimension());
    let prompts: Vec<&str> = dataset.tasks.iter().map(DatasetTask::text).collect();
    let key = CacheKey::new(files.model_id(), prompts.iter().copied());
    let folder = folders.cache.join("embeddings");
    match load(&folder, &key).with_context(|| format!("cannot read the embedding cache {}", folder.display()))? {
        Cached::Hit(vectors) => return Ok(Embedded { model, dimension, vectors }),
        Cached::Miss => {}
        Cached::Corrupt(problem) => eprintln!("The embedding cache is computed again: {problem}"),
    }
    let pool = EmbeddingPool::start(files, &settings)?;
    let bar = progress::bar(prompts.len() as u64, "embedding");
    let vectors = pool.embed_many(&prompts, &|done, _| bar.set_position(done as u64)).await?;
    bar.finish_and_clear();
    if let Err(error) = store(&folder, &key, &vectors) {
        eprintln!("The embeddings could not be cached in {}: {error}", folder.display());
    }
    Ok(Embedded { model, dimension, vectors })
}
