//! From a file to entries, trusting nothing in it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::{
    super::{Entry, MemoryError, Shape, payload::Payload},
    EMBEDDINGS, ENTRIES, FileDigest, MANIFEST, Manifest, SnapshotError,
    manifest::{Digesting, FORMAT, sha256},
};
use crate::round::Embedding;

const MANIFEST_BYTES_MAX: u64 = 1 << 20;
const LINE_BYTES_MAX: u64 = 1 << 22;
/// More than any entry's line: a member that unpacks to more than this an entry is no snapshot's.
const ENTRY_BYTES_MAX: u64 = 1 << 16;
/// The largest ring and embedding that can be configured.
const COUNT_MAX: u64 = 1_000_000;
const DIMENSION_MAX: usize = 1 << 16;

/// A snapshot's file whose manifest was read.
#[derive(Debug, Clone)]
pub struct SnapshotFile {
    path: PathBuf,
    file: String,
    manifest: Manifest,
    digest: String,
    bytes: u64,
    entries: Member,
    embeddings: Member,
}

/// Where a member lies in the file.
#[derive(Debug, Clone, Copy)]
struct Member {
    start: u64,
    bytes: u64,
    deflated: bool,
}

impl SnapshotFile {
    /// Reads the manifest and finds the members; their content is checked by [`SnapshotFile::verify`].
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let damaged = |problem: String| SnapshotError::Damaged { file: file.clone(), problem };
        let opened = File::open(path).map_err(SnapshotError::io(path))?;
        let bytes = opened.metadata().map_err(SnapshotError::io(path))?.len();
        let mut zip = ZipArchive::new(BufReader::new(opened)).map_err(|error| damaged(error.to_string()))?;
        let manifest = {
            let member = zip.by_name(MANIFEST).map_err(|error| damaged(format!("{MANIFEST}: {error}")))?;
            let mut text = Vec::new();
            let read = member.take(MANIFEST_BYTES_MAX).read_to_end(&mut text);
            read.map_err(|error| damaged(format!("{MANIFEST}: {error}")))?;
            text
        };
        let format = serde_json::from_slice::<Format>(&manifest).map_err(|error| damaged(error.to_string()))?.format;
        if format > FORMAT {
            return Err(SnapshotError::Newer { file, found: format, known: FORMAT });
        }
        let digest = sha256(&manifest);
        let manifest: Manifest = serde_json::from_slice(&manifest).map_err(|error| damaged(error.to_string()))?;
        let mut member = |name: &str| {
            let member = zip.by_name(name).map_err(|error| damaged(format!("{name}: {error}")))?;
            let deflated = match member.compression() {
                CompressionMethod::Stored => false,
                CompressionMethod::Deflated => true,
                other => return Err(damaged(format!("{name} is compressed by {other}"))),
            };
            let start = member.data_start().ok_or_else(|| damaged(format!("{name} has no data")))?;
            Ok(Member { start, bytes: member.compressed_size(), deflated })
        };
        let (entries, embeddings) = (member(ENTRIES)?, member(EMBEDDINGS)?);
        let snapshot = Self { path: path.into(), file, manifest, digest, bytes, entries, embeddings };
        snapshot.check()?;
        Ok(snapshot)
    }

    /// Whether the manifest's numbers can be true together.
    fn check(&self) -> Result<(), SnapshotError> {
        let Manifest { shape, first_seq, next_seq, count, .. } = &self.manifest;
        let bytes = count.saturating_mul(shape.dimension as u64).saturating_mul(4);
        let problem = match () {
            () if !(1..=COUNT_MAX).contains(&shape.cap) => format!("a cap of {} entries", shape.cap),
            () if !(1..=DIMENSION_MAX).contains(&shape.dimension) => format!("{} dimensions", shape.dimension),
            () if *count > shape.cap => format!("{count} entries under a cap of {}", shape.cap),
            () if next_seq.checked_sub(*first_seq).is_none_or(|range| range < *count || range > shape.cap) => {
                format!("{count} entries numbered from {first_seq} to {next_seq}")
            }
            () if self.digest_of(ENTRIES)?.bytes > count * ENTRY_BYTES_MAX => format!("{ENTRIES} is too long"),
            () if self.digest_of(EMBEDDINGS)?.bytes != bytes => format!("{EMBEDDINGS} should have {bytes} bytes"),
            () => return Ok(()),
        };
        Err(self.damaged(format!("its manifest is impossible: {problem}")))
    }

    /// Reads everything and compares it with the manifest.
    pub fn verify(&self) -> Result<(), SnapshotError> {
        for (name, member) in [(ENTRIES, self.entries), (EMBEDDINGS, self.embeddings)] {
            let expected = self.digest_of(name)?;
            let mut sink = Digesting::new(io::sink());
            // A byte more than there should be is enough to know; a bomb is not unpacked.
            let mut reader = self.reader(member)?.take(expected.bytes.saturating_add(1));
            io::copy(&mut reader, &mut sink).map_err(|error| self.damaged(format!("{name}: {error}")))?;
            let (_, found) = sink.finish();
            if found != *expected {
                let (found, expected) = (found.bytes, expected.bytes);
                let problem = format!("{name} differs from the manifest ({found} bytes read, {expected} expected)");
                return Err(self.damaged(problem));
            }
        }
        let mut count = 0;
        for entry in self.entries()? {
            entry.map_err(|error| self.damaged(error.to_string()))?;
            count += 1;
        }
        if count != self.manifest.count {
            return Err(self.damaged(format!("it has {count} entries instead of {}", self.manifest.count)));
        }
        Ok(())
    }

    /// Refuses a snapshot whose embeddings cannot be compared with those of `shape`. The caps may differ.
    pub fn fits(&self, shape: &Shape) -> Result<(), SnapshotError> {
        let ours = &self.manifest.shape;
        if ours.is_comparable(shape) {
            return Ok(());
        }
        let (found, wanted) = (ours.to_string(), shape.to_string());
        Err(SnapshotError::OtherModel { file: self.file.clone(), found, wanted })
    }

    /// All entries, in sequence order.
    pub fn entries(&self) -> Result<impl Iterator<Item = Result<(u64, Entry), MemoryError>> + use<>, SnapshotError> {
        let Manifest { shape, first_seq, next_seq, .. } = &self.manifest;
        Ok(Rows {
            file: self.file.clone(),
            lines: BufReader::new(self.reader(self.entries)?),
            vectors: BufReader::new(self.reader(self.embeddings)?),
            vector: vec![0; shape.dimension * 4],
            from: *first_seq,
            to: *next_seq,
            ended: false,
        })
    }

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The SHA-256 of the manifest, which covers everything else.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The file's size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn digest_of(&self, name: &str) -> Result<&FileDigest, SnapshotError> {
        self.manifest.files.get(name).ok_or_else(|| self.damaged(format!("its manifest does not list {name}")))
    }

    fn reader(&self, member: Member) -> Result<Box<dyn Read + Send>, SnapshotError> {
        let mut file = File::open(&self.path).map_err(SnapshotError::io(&self.path))?;
        file.seek(SeekFrom::Start(member.start)).map_err(SnapshotError::io(&self.path))?;
        let raw = BufReader::new(file).take(member.bytes);
        Ok(if member.deflated { Box::new(DeflateDecoder::new(raw)) } else { Box::new(raw) })
    }

    fn damaged(&self, problem: String) -> SnapshotError {
        SnapshotError::Damaged { file: self.file.clone(), problem }
    }
}

/// Read first, so that a newer manifest is told from a damaged one.
#[derive(serde::Deserialize)]
struct Format {
    format: u32,
}

/// Lines and rows side by side.
struct Rows {
    file: String,
    lines: BufReader<Box<dyn Read + Send>>,
    vectors: BufReader<Box<dyn Read + Send>>,
    vector: Vec<u8>,
    /// The lowest number that the next entry may have.
    from: u64,
    to: u64,
    ended: bool,
}

impl Rows {
    fn read(&mut self) -> Result<Option<(u64, Entry)>, String> {
        let mut line = Vec::new();
        let read = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        read.map_err(|error| format!("{ENTRIES}: {error}"))?;
        if line.is_empty() {
            return Ok(None);
        }
        let payload: Payload = serde_json::from_slice(&line).map_err(|error| format!("{ENTRIES}: {error}"))?;
        let seq = payload.seq;
        if !(self.from..self.to).contains(&seq) {
            return Err(format!("entry {seq} is out of order"));
        }
        self.from = seq + 1;
        self.vectors.read_exact(&mut self.vector).map_err(|error| format!("{EMBEDDINGS}: {error}"))?;
        let embedding = Embedding::from_bytes(&self.vector).map_err(|error| format!("entry {seq}: {error}"))?;
        Ok(Some((seq, payload.into_entry(embedding))))
    }
}

impl Iterator for Rows {
    type Item = Result<(u64, Entry), MemoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.read();
        self.ended = !matches!(row, Ok(Some(_)));
        row.map_err(|problem| SnapshotError::Damaged { file: self.file.clone(), problem }.into()).transpose()
    }
}
