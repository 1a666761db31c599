//! The embeddings of a dataset's texts, for the commands that replay it and that train on it.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};
use pointsman::{
    context::embedding::{EmbeddingPool, EmbeddingSettings, ModelFiles},
    replay::{
        Dataset,
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

/// Takes them from the cache where they were computed before, split by split, so that another choice of splits embeds nothing
/// twice.
pub(super) async fn embedded(dataset: &Dataset, folders: &Folders) -> Result<Embedded> {
    let settings = EmbeddingSettings::new(&folders.cache);
    let files = models::find_or_fetch(folders, &settings)?;
    let (model, dimension) = (files.model_id().to_owned(), files.dimension());
    let mut splits: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, task) in dataset.tasks.iter().enumerate() {
        splits.entry(task.split.as_str()).or_default().push(place);
    }
    let folder = folders.cache.join("embeddings");
    let mut pool = None;
    let mut vectors: Vec<Option<Embedding>> = vec![None; dataset.tasks.len()];
    for places in splits.values() {
        let texts: Vec<&str> = places.iter().map(|place| dataset.tasks[*place].text()).collect();
        let key = CacheKey::new(&model, texts.iter().copied());
        let known = load(&folder, &key);
        let found = match known.with_context(|| format!("cannot read the embedding cache {}", folder.display()))? {
            Cached::Hit(found) => found,
            Cached::Miss => computed(&mut pool, &files, &settings, &texts, (&folder, &key)).await?,
            Cached::Corrupt(problem) => {
                eprintln!("The embedding cache is computed again: {problem}");
                computed(&mut pool, &files, &settings, &texts, (&folder, &key)).await?
            }
        };
        places.iter().zip(found).for_each(|(place, vector)| vectors[*place] = Some(vector));
    }
    let vectors: Option<Vec<Embedding>> = vectors.into_iter().collect();
    Ok(Embedded { model, dimension, vectors: vectors.context("the embedding cache lacks a text")? })
}

/// Embeds texts and keeps what comes out; the model is loaded for the first ones.
async fn computed(
    pool: &mut Option<EmbeddingPool>,
    files: &ModelFiles,
    settings: &EmbeddingSettings,
    texts: &[&str],
    (folder, key): (&Path, &CacheKey),
) -> Result<Vec<Embedding>> {
    let pool = match pool {
        Some(pool) => pool,
        None => pool.insert(EmbeddingPool::start(files.clone(), settings)?),
    };
    let bar = progress::bar(texts.len() as u64, "embedding");
    let vectors = pool.embed_many(texts, &|done, _| bar.set_position(done as u64)).await?;
    bar.finish_and_clear();
    if let Err(error) = store(folder, key, &vectors) {
        eprintln!("The embeddings could not be cached in {}: {error}", folder.display());
    }
    Ok(vectors)
}
