//! Where an export goes: standard output, or a file that has its name only once it is whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Stdout, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 20;

/// An export under way. Dropped before it is finished, its file is removed.
pub(super) struct Output {
    to: To,
    file: Option<Names>,
}

enum To {
    Stdout(BufWriter<Stdout>),
    Plain(BufWriter<File>),
    Gz(Box<GzEncoder<BufWriter<File>>>),
    Finished,
}

/// A file's name, and the one that it has until it is whole.
struct Names {
    whole: PathBuf,
    part: PathBuf,
}

impl Output {
    /// Standard output where no file is named. A text file is compressed where its name ends with `.gz`.
    pub fn open(file: Option<&Path>) -> Result<Self> {
        let Some(whole) = file else {
            return Ok(Self { to: To::Stdout(BufWriter::with_capacity(BUFFER, io::stdout())), file: None });
        };
        let mut name = whole.file_name().with_context(|| format!("{} is no file's name", whole.display()))?.to_owned();
        name.push(".part");
        let part = whole.with_file_name(name);
        let opened = private().open(&part).with_context(|| format!("cannot write {}", part.display()))?;
        let opened = BufWriter::with_capacity(BUFFER, opened);
        let to = if is_gz(whole) {
            To::Gz(Box::new(GzEncoder::new(opened, Compression::default())))
        } else {
            To::Plain(opened)
        };
        Ok(Self { to, file: Some(Names { whole: whole.into(), part }) })
    }

    /// Writes what is left, and gives the file its name.
    pub fn finish(mut self) -> io::Result<()> {
        let file = match std::mem::replace(&mut self.to, To::Finished) {
            To::Stdout(mut out) => return out.flush(),
            To::Plain(file) => file,
            To::Gz(encoder) => encoder.finish()?,
            To::Finished => return Ok(()),
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        match self.file.take() {
            Some(names) => fs::rename(names.part, names.whole),
            None => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(names) = &self.file {
            // It may be gone already; there is nobody to tell.
            let _ = fs::remove_file(&names.part);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stdout(out) => out.write(bytes),
            To::Plain(out) => out.write(bytes),
            To::Gz(out) => out.write(bytes),
            To::Finished => Err(io::Error::other("the export is finished")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::Plain(out) => out.flush(),
            To::Gz(out) => out.flush(),
            To::Finished => Ok(()),
        }
    }
}

/// Whether a file is compressed, by its name.
pub(super) fn is_gz(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// An export holds prompts and answers: it is for its owner, like the data folder.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
