//! A dataset's file, plain or gzip, read piece by piece.
//!
//! A byte order mark at the start is taken off. Lines are counted as they pass, so that a reader which works by characters
//! (JSON) or by records (CSV) can say where it is, and one record may not take more than [`RECORD_BYTES_MAX`]: a quote that
//! is never closed, or a file that is no table at all, would otherwise be read into memory whole.

use std::{
    cell::Cell,
    fs::File,
    io::{self, BufRead, BufReader, Chain, Cursor, Read},
    path::{Path, PathBuf},
    rc::Rc,
};

use flate2::read::MultiGzDecoder;

use super::error::{Column, DatasetError, words};

/// The longest line, table row or JSON object.
pub(super) const RECORD_BYTES_MAX: u64 = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How far a file is read; shared by the source and by whoever reads from it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    newlines: Cell<u64>,
    bytes: Cell<u64>,
    last: Cell<u8>,
    of_record: Cell<u64>,
}

impl Progress {
    /// The line that the next byte is in, from 1.
    pub(super) fn line(&self) -> u64 {
        self.newlines.get() + 1
    }

    /// Whether these are all the bytes read so far and the last of them ends no line.
    pub(super) fn ends_without_newline(&self, bytes: u64) -> bool {
        bytes == self.bytes.get() && self.last.get() != b'\n'
    }

    /// Says that a record is over and the next one may again be as long as any.
    pub(super) fn next_record(&self) {
        self.of_record.set(0);
    }

    fn passed(&self, bytes: &[u8]) {
        let newlines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.newlines.set(self.newlines.get() + newlines as u64);
        self.bytes.set(self.bytes.get() + bytes.len() as u64);
        self.of_record.set(self.of_record.get() + bytes.len() as u64);
        self.last.set(bytes.last().copied().unwrap_or(self.last.get()));
    }
}

/// The bytes of a file after decompression and without a byte order mark.
pub(super) struct Source {
    path: PathBuf,
    inner: Chain<Cursor<Vec<u8>>, Inner>,
    progress: Rc<Progress>,
}

enum Inner {
    Plain(BufReader<File>),
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<File>>>>),
}

impl Source {
    /// Opens a file. It is decompressed if its name ends in .gz or it starts as gzip does.
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        let failed = |source| DatasetError::Io { path: path.into(), source };
        let mut plain = BufReader::new(File::open(path).map_err(failed)?);
        let named = path.extension().is_some_and(|extension| extension == "gz");
        let gzip = named || plain.fill_buf().map_err(failed)?.starts_with(b"\x1F\x8B");
        let mut inner =
            if gzip { Inner::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(plain)))) } else { Inner::Plain(plain) };
        let mut start = Vec::with_capacity(BYTE_ORDER_MARK.len());
        (&mut inner)
            .take(BYTE_ORDER_MARK.len() as u64)
            .read_to_end(&mut start)
            .map_err(|error| read_error(path, 1, error))?;
        if start.starts_with(b"\xFF\xFE") || start.starts_with(b"\xFE\xFF") {
            let problem = "the file is UTF-16: save it as UTF-8".into();
            return Err(DatasetError::Line { path: path.into(), line: 1, column: None, problem });
        }
        if start == BYTE_ORDER_MARK {
            start.clear();
        }
        Ok(Self { path: path.into(), inner: Cursor::new(start).chain(inner), progress: Rc::default() })
    }

    /// How far it is read.
    pub(super) fn progress(&self) -> Rc<Progress> {
        Rc::clone(&self.progress)
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.progress.of_record.get() > RECORD_BYTES_MAX {
            let megabytes = RECORD_BYTES_MAX >> 20;
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a record is longer than {megabytes} MiB: is a quote never closed?"),
            ));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // What is to be consumed is buffered, so this reads nothing.
        if let Ok(buffer) = self.inner.fill_buf() {
            self.progress.passed(&buffer[..amount.min(buffer.len())]);
        }
        self.inner.consume(amount);
    }
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let buffer = self.fill_buf()?;
        let taken = buffer.len().min(into.len());
        into[..taken].copy_from_slice(&buffer[..taken]);
        self.consume(taken);
        Ok(taken)
    }
}

impl Read for Inner {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(into),
            Self::Gzip(reader) => reader.read(into),
        }
    }
}

impl BufRead for Inner {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Plain(reader) => reader.fill_buf(),
            Self::Gzip(reader) => reader.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Self::Plain(reader) => reader.consume(amount),
            Self::Gzip(reader) => reader.consume(amount),
        }
    }
}

/// The lines of a file, without their ends; blank ones are passed over.
pub(super) struct Lines {
    source: Source,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        Ok(Self { source: Source::open(path)?, buffer: Vec::new() })
    }

    /// The next line and its number.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &str)>, DatasetError> {
        loop {
            let line = self.source.progress.line();
            self.source.progress.next_record();
            self.buffer.clear();
            let read = self.source.read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|error| read_error(&self.source.path, self.source.progress.line(), error))?;
            if read == 0 {
                return Ok(None);
            }
            if !self.buffer.trim_ascii().is_empty() {
                let text = utf8(&self.buffer).map_err(|column| {
                    let (path, column) = (self.source.path.clone(), Some(Column::Character(column, None)));
                    DatasetError::Line { path, line, column, problem: NOT_UTF8.into() }
                })?;
                return Ok(Some((line, text.trim_end_matches(['\n', '\r']))));
            }
        }
    }
}

/// What is said of bytes that are no text.
pub(super) const NOT_UTF8: &str = "the text is not UTF-8: save the file as UTF-8";

/// The text, or the number of the first character that is none, from 1.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, usize> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        String::from_utf8_lossy(valid).chars().count() + 1
    })
}

/// What a failure to read means: a gzip stream that ends early or is damaged, or a failing disk.
pub(super) fn read_error(path: &Path, line: u64, error: io::Error) -> DatasetError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::UnexpectedEof => DatasetError::Truncated { path, line },
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            let problem = format!("the file cannot be read on: {}", words(error));
            DatasetError::Line { path, line, column: None, problem }
        }
        _ => DatasetError::Io { path, source: error },
    }
}

/// The folder that a file is in.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file, or the same name with .gz.
pub(super) fn plain_or_gz(plain: &Path) -> Option<PathBuf> {
    let mut compressed = plain.as_os_str().to_owned();
    compressed.push(".gz");
    [plain.to_owned(), compressed.into()].into_iter().find(|path| path.is_file())
}
