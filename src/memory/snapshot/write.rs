//! From a store to a file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Seek, Write},
    path::Path,
};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{
    super::{Memory, Shape, pages, payload::Payload},
    EMBEDDINGS, ENTRIES, MANIFEST, Manifest, PAGE, SnapshotError,
    manifest::{Digesting, FORMAT},
};

/// Writes everything a store holds into `file`, which is at `path`. The store must stand still meanwhile.
pub(super) fn write(
    file: File,
    path: &Path,
    memory: &dyn Memory,
    shape: &Shape,
    created_at_ms: i64,
) -> Result<(), SnapshotError> {
    let failed = |error: io::Error| SnapshotError::io(path)(error);
    let zipped = |error: zip::result::ZipError| SnapshotError::io(path)(error.into());
    let next_seq = memory.held()?.next_seq;
    let options = SimpleFileOptions::default().large_file(true);
    let mut zip = ZipWriter::new(BufWriter::new(file));
    zip.start_file(ENTRIES, options.compression_method(CompressionMethod::Deflated)).map_err(zipped)?;
    let mut lines = Digesting::new(&mut zip);
    // A zip file takes one member at a time, so the embeddings wait in a file without a name.
    let mut vectors = Digesting::new(BufWriter::new(tempfile::tempfile().map_err(failed)?));
    let (mut first_seq, mut count) = (next_seq, 0);
    for entry in pages(0, PAGE, |from, n| memory.scan(from, n)) {
        let (seq, entry) = entry?;
        first_seq = first_seq.min(seq);
        count += 1;
        serde_json::to_writer(&mut lines, &Payload::new(seq, &entry)).map_err(|error| failed(error.into()))?;
        lines.write_all(b"\n").map_err(failed)?;
        vectors.write_all(&entry.embedding.to_bytes()).map_err(failed)?;
    }
    let (_, entries) = lines.finish();
    let (vectors, embeddings) = vectors.finish();
    let mut vectors = vectors.into_inner().map_err(|error| failed(error.into_error()))?;
    vectors.rewind().map_err(failed)?;
    zip.start_file(EMBEDDINGS, options.compression_method(CompressionMethod::Stored)).map_err(zipped)?;
    io::copy(&mut vectors, &mut zip).map_err(failed)?;
    let manifest = Manifest {
        format: FORMAT,
        created_at_ms,
        shape: shape.clone(),
        first_seq,
        next_seq,
        count,
        files: BTreeMap::from([(ENTRIES.to_owned(), entries), (EMBEDDINGS.to_owned(), embeddings)]),
    };
    zip.start_file(MANIFEST, options.compression_method(CompressionMethod::Stored)).map_err(zipped)?;
    serde_json::to_writer_pretty(&mut zip, &manifest).map_err(|error| failed(error.into()))?;
    let file = zip.finish().map_err(zipped)?.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)
}
