//! Files of a repository on the Hugging Face hub, or a mirror of it, over HTTPS.
//!
//! Only ever used when asked for. Each file's size and, where the hub states it (for large files), its SHA-256 are
//! compared with what arrived; redirects are followed by hand because the hub states them on the first answer. There
//! are three limits of time: to connect, between two pieces, and for everything together. What can go wrong: no
//! network, no such file, a model that needs an account, a broken or too slow connection; the error names the address.
//! Not resumed and not retried: a second run starts again.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::mpsc,
    thread,
    time::Duration,
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{HeaderMap, LOCATION},
    redirect::Policy,
};

use super::{
    EmbeddingError,
    manifest::{FileEntry, Sha256Writer},
};

const CONNECT_MAX: Duration = Duration::from_secs(20);
/// A connection that gives nothing for so long is given up.
const STALL_MAX: Duration = Duration::from_secs(60);
const REDIRECTS_MAX: usize = 6;
/// The largest model that fastembed lists has 2.3 GB.
const FILE_BYTES_MAX: u64 = 8 << 30;

/// Where models are downloaded from, and how long that may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub {
    /// Its address, such as `https://huggingface.co`.
    pub endpoint: String,
    /// The limit for all files together.
    pub deadline: Duration,
}

impl Hub {
    /// Where models are published.
    pub const ENDPOINT: &str = "https://huggingface.co";

    /// Downloads files of a repository into a folder, under their bare names; blocks. `progress` hears the bytes that
    /// have arrived, and of how many as far as that is known.
    pub(super) fn download(
        &self,
        repository: &str,
        paths: &[&str],
        into: &Path,
        progress: &dyn Fn(u64, u64),
    ) -> Result<BTreeMap<String, FileEntry>, EmbeddingError> {
        let (tell, told) = mpsc::channel();
        // On a thread with a runtime of its own, so that it works inside and outside of another runtime.
        thread::scope(|scope| {
            let downloading = scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(EmbeddingError::io(into))?;
                let tell = move |done, total| {
                    // A receiver that is gone belongs to a caller that panicked.
                    let _ = tell.send((done, total));
                };
                runtime.block_on(self.all(repository, paths, into, &tell))
            });
            told.into_iter().for_each(|(done, total)| progress(done, total));
            let panicked = |_| Err(self.failed(repository, "the download panicked"));
            downloading.join().unwrap_or_else(panicked)
        })
    }

    async fn all(
        &self,
        repository: &str,
        paths: &[&str],
        into: &Path,
        tell: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<BTreeMap<String, FileEntry>, EmbeddingError> {
        let client = Client::builder().connect_timeout(CONNECT_MAX).read_timeout(STALL_MAX).redirect(Policy::none());
        let client = client.build().map_err(|error| self.failed(repository, causes(&error)))?;
        let files = async {
            let mut entries = BTreeMap::new();
            let mut done = 0;
            for path in paths {
                let name = path.rsplit('/').next().unwrap_or(path);
                let address = format!("{}/{repository}/resolve/main/{path}", self.endpoint.trim_end_matches('/'));
                let file = Download { client: &client, address: &address, before: done, tell };
                let entry = file.write(&into.join(name)).await?;
                done += entry.bytes;
                entries.insert(name.to_owned(), entry);
            }
            Ok(entries)
        };
        let late = |_| {
            let problem = format!("not all files came within {} s; raise --deadline-s", self.deadline.as_secs());
            Err(self.failed(repository, problem))
        };
        tokio::time::timeout(self.deadline, files).await.unwrap_or_else(late)
    }

    fn failed(&self, repository: &str, problem: impl Into<String>) -> EmbeddingError {
        let url = format!("{}/{repository}", self.endpoint.trim_end_matches('/'));
        EmbeddingError::Hub { url, problem: problem.into() }
    }
}

/// One file on its way.
struct Download<'a> {
    client: &'a Client,
    address: &'a str,
    /// Bytes of the files before it.
    before: u64,
    tell: &'a (dyn Fn(u64, u64) + Sync),
}

impl Download<'_> {
    async fn write(&self, path: &Path) -> Result<FileEntry, EmbeddingError> {
        let (mut response, stated) = self.open().await?;
        let length = response.content_length().or(stated.bytes);
        let file = File::create_new(path).map_err(EmbeddingError::io(path))?;
        let (mut file, mut hasher, mut bytes) = (BufWriter::new(file), Sha256Writer::default(), 0);
        while let Some(piece) = response.chunk().await.map_err(|error| self.failed(causes(&error)))? {
            bytes += piece.len() as u64;
            if bytes > FILE_BYTES_MAX {
                return Err(self.failed(format!("it is larger than {FILE_BYTES_MAX} bytes")));
            }
            file.write_all(&piece).and_then(|()| hasher.write_all(&piece)).map_err(EmbeddingError::io(path))?;
            (self.tell)(self.before + bytes, self.before + length.unwrap_or(bytes).max(bytes));
        }
        let written = file.into_inner().map_err(|error| EmbeddingError::io(path)(error.into_error()))?;
        written.sync_all().map_err(EmbeddingError::io(path))?;
        let entry = FileEntry { bytes, sha256: hasher.finish() };
        if length.is_some_and(|length| length != bytes) {
            return Err(self.failed(format!("{bytes} bytes came instead of {}", length.unwrap_or_default())));
        }
        if stated.sha256.as_ref().is_some_and(|sha256| *sha256 != entry.sha256) {
            return Err(self.failed("what came has another SHA-256 than the hub states"));
        }
        Ok(entry)
    }

    /// The answer that carries the file, and what the hub stated of it on the way.
    async fn open(&self) -> Result<(Response, Stated), EmbeddingError> {
        let mut url = Url::parse(self.address).map_err(|error| self.failed(error.to_string()))?;
        let mut stated = Stated::default();
        for _ in 0..=REDIRECTS_MAX {
            let sent = self.client.get(url.clone()).send().await;
            let response = sent.map_err(|error| self.failed(causes(&error)))?;
            stated.read(response.headers());
            if !response.status().is_redirection() {
                return match response.status() {
                    StatusCode::OK => Ok((response, stated)),
                    StatusCode::NOT_FOUND => Err(self.failed("there is no such file (404)")),
                    StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                        let status = response.status().as_u16();
                        Err(self.failed(format!("it is not given to everyone ({status}): it may need an account")))
                    }
                    other => Err(self.failed(format!("the answer was {other}"))),
                };
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let Some(next) = location.and_then(|location| url.join(location).ok()) else {
                return Err(self.failed("it is redirected to nowhere"));
            };
            url = next;
        }
        Err(self.failed(format!("it is redirected more than {REDIRECTS_MAX} times")))
    }

    fn failed(&self, problem: impl Into<String>) -> EmbeddingError {
        EmbeddingError::Hub { url: self.address.into(), problem: problem.into() }
    }
}

/// What the hub says of a large file, beside its content.
#[derive(Default)]
struct Stated {
    bytes: Option<u64>,
    sha256: Option<String>,
}

impl Stated {
    fn read(&mut self, headers: &HeaderMap) {
        let text =
            |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(|text| text.trim_matches('"'));
        self.bytes = self.bytes.or_else(|| text("x-linked-size")?.parse().ok());
        let sha256 = text("x-linked-etag").filter(|tag| tag.len() == 64 && tag.bytes().all(|b| b.is_ascii_hexdigit()));
        self.sha256 = self.sha256.take().or_else(|| sha256.map(str::to_lowercase));
    }
}

/// An error with its causes, which reqwest's own words leave out.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
