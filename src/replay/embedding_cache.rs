//! Embeddings on disk, so that a second replay of a dataset embeds nothing.
//!
//! One file per (model, texts): its name is a hash of both, so another model or an edited prompt never finds it. All
//! little-endian: the magic `PMEMBED`, a zero byte, version (u32), key (32 bytes), count (u64), dimension (u32),
//! count x dimension f32, and a blake3 hash of all before. A file that does not check out is reported as corrupt and
//! is to be computed again; writing replaces it whole, through a temporary file beside it.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::round::Embedding;

const MAGIC: &[u8; 8] = b"PMEMBED\0";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 32 + 8 + 4;
const HASH_BYTES: usize = 32;

/// What the cache knows of some texts.
#[derive(Debug, Clone, PartialEq)]
pub enum Cached {
    /// Their embeddings, in order, bit for bit as stored.
    Hit(Vec<Embedding>),
    /// Nothing is stored.
    Miss,
    /// What is stored cannot be used; the text says why. Compute and store again.
    Corrupt(String),
}

/// Identifies the embeddings of `texts` by the model `model_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheKey(blake3::Hash);

impl CacheKey {
    /// Hashes the model's id and every text with its length, so that no two lists of texts collide by joining.
    pub fn new<'a>(model_id: &'a str, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for text in std::iter::once(model_id).chain(texts) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        Self(hasher.finalize())
    }

    /// The file in a cache folder.
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.embeddings", self.0.to_hex()))
    }
}

/// Reads the embeddings stored under a key. Only a failing disk is an error.
pub fn load(folder: &Path, key: &CacheKey) -> io::Result<Cached> {
    match std::fs::read(key.path(folder)) {
        Ok(bytes) => Ok(parse(&bytes, key).map_or_else(|problem| Cached::Corrupt(problem.into()), Cached::Hit)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Cached::Miss),
        Err(error) => Err(error),
    }
}

/// Stores embeddings, all of one dimension, under a key; the folder is made if it is missing.
pub fn store(folder: &Path, key: &CacheKey, embeddings: &[Embedding]) -> io::Result<()> {
    let dimension = embeddings.first().map_or(0, |embedding| embedding.as_slice().len());
    if embeddings.iter().any(|embedding| embedding.as_slice().len() != dimension) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the embeddings differ in dimension"));
    }
    let dimension = u32::try_from(dimension).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    std::fs::create_dir_all(folder)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + embeddings.len() * dimension as usize * 4 + HASH_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(key.0.as_bytes());
    bytes.extend((embeddings.len() as u64).to_le_bytes());
    bytes.extend(dimension.to_le_bytes());
    embeddings.iter().for_each(|embedding| bytes.extend(embedding.to_bytes()));
    bytes.extend(blake3::hash(&bytes).as_bytes());
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&bytes)?;
    file.as_file().sync_all()?;
    file.persist(key.path(folder))?;
    Ok(())
}

fn parse(bytes: &[u8], key: &CacheKey) -> Result<Vec<Embedding>, &'static str> {
    let body = bytes.len().checked_sub(HASH_BYTES).filter(|body| *body >= HEADER_BYTES).ok_or("it is too short")?;
    let (body, hash) = bytes.split_at(body);
    let (header, vectors) = body.split_at(HEADER_BYTES);
    if &header[..8] != MAGIC {
        return Err("it is no embedding cache");
    }
    if header[8..12] != VERSION.to_le_bytes() {
        return Err("it is of another version");
    }
    if blake3::hash(body).as_bytes() != hash {
        return Err("its hash does not match");
    }
    if &header[12..44] != key.0.as_bytes() {
        return Err("it holds other texts");
    }
    let count = header[44..52].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let dimension = header[52..56].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    if dimension == 0 && count == 0 && vectors.is_empty() {
        return Ok(Vec::new());
    }
    if dimension == 0 || count.checked_mul(dimension * 4) != Some(vectors.len() as u64) {
        return Err("its length does not match its header");
    }
    let vectors = vectors.chunks_exact(vectors.len() / count.max(1) as usize);
    vectors.map(|vector| Embedding::from_bytes(vector).map_err(|_| "a vector is not finite")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embeddings() -> Vec<Embedding> {
        [[1.0, 2.0, 3.0], [0.1, -0.2, 0.7]].map(|vector| Embedding::new(vector.to_vec()).unwrap()).to_vec()
    }

    #[test]
    fn what_is_stored_is_loaded_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let key = CacheKey::new("model", ["one", "two"]);
        assert_eq!(load(folder.path(), &key).unwrap(), Cached::Miss);
        store(folder.path(), &key, &embeddings()).unwrap();
        assert_eq!(load(folder.path(), &key).unwrap(), Cached::Hit(embeddings()));
        store(folder.path(), &key, &[]).unwrap();
        assert_eq!(load(folder.path(), &key).unwrap(), Cached::Hit(vec![]));
    }

    #[test]
    fn another_model_or_another_cut_of_the_texts_is_another_key() {
        let key = CacheKey::new("model", ["one", "two"]);
        assert_ne!(key, CacheKey::new("other", ["one", "two"]));
        assert_ne!(key, CacheKey::new("model", ["onet", "wo"]));
        assert_ne!(key, CacheKey::new("model", ["two", "one"]));
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let key = CacheKey::new("model", ["one", "two"]);
        store(folder.path(), &key, &embeddings()).unwrap();
        let good = std::fs::read(key.path(folder.path())).unwrap();
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            assert!(parse(&bad, &key).is_err(), "byte {index}");
            assert!(parse(&good[..index], &key).is_err(), "cut at {index}");
        }
        std::fs::write(key.path(folder.path()), &good[1..]).unwrap();
        assert!(matches!(load(folder.path(), &key).unwrap(), Cached::Corrupt(_)));
        assert!(parse(&good, &CacheKey::new("other", [])).is_err());
    }
}
