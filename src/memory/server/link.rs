//! The connection to the server: deadlines, and what to do when it does not answer.
//!
//! After silence the client is made anew: a connection that was cut without a word would otherwise be waited on for many
//! minutes. Connecting is left to the next request.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ::qdrant_client::{Qdrant, QdrantError, config::QdrantConfig};
use arc_swap::ArcSwap;
use tokio::{runtime::Handle, time::timeout};

use super::{
    super::MemoryError,
    breaker::Breaker,
    failure::Failure,
    settings::{Checked, Place},
};

/// A server, spoken to from threads that may block.
pub(super) struct Link {
    handle: Handle,
    config: QdrantConfig,
    client: ArcSwap<Qdrant>,
    pub place: Place,
    limit: Duration,
    recall: Duration,
    // Guards when to ask again.
    breaker: Mutex<Breaker>,
    /// Counts the silences. What was true of the server before one need not be true after it.
    silences: AtomicU64,
}

impl Link {
    /// Connects to nothing yet.
    pub fn new(checked: Checked, handle: Handle) -> Result<Self, MemoryError> {
        let Checked { config, place, limit, recall } = checked;
        let client = Qdrant::new(config.clone()).map_err(|error| MemoryError::Other(format!("{place}: {error}")))?;
        Ok(Self {
            handle,
            config,
            client: ArcSwap::from_pointee(client),
            place,
            limit,
            recall,
            breaker: Mutex::default(),
            silences: AtomicU64::new(0),
        })
    }

    /// How often the server fell silent.
    pub fn silences(&self) -> u64 {
        self.silences.load(Ordering::Acquire)
    }

    /// Sends one request and waits for its answer, but not for ever.
    pub async fn ask<T>(&self, request: impl AsyncFnOnce(&Qdrant) -> Result<T, QdrantError>) -> Result<T, Failure> {
        self.ask_within(self.limit, request).await
    }

    /// The same with a limit of its own, if that is the longer one.
    pub async fn ask_within<T>(
        &self,
        limit: Duration,
        request: impl AsyncFnOnce(&Qdrant) -> Result<T, QdrantError>,
    ) -> Result<T, Failure> {
        let (client, limit) = (self.client.load_full(), limit.max(self.limit));
        match timeout(limit, request(&client)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::NoAnswer(format!("no answer within {} ms", limit.as_millis()))),
        }
    }

    /// Runs requests to their end. Blocks.
    pub fn run<T>(&self, requests: impl Future<Output = Result<T, Failure>>) -> Result<T, MemoryError> {
        let done = self.handle.block_on(requests);
        self.note(done)
    }

    /// Runs the requests of one recall: at once an error while the server is away, and within the recall's deadline.
    pub fn recall<T>(&self, requests: impl Future<Output = Result<T, Failure>>) -> Result<T, MemoryError> {
        let admitted = self.breaker().admit(Instant::now());
        if let Err(left) = admitted {
            let (place, left) = (&self.place, left.as_millis().max(1));
            return Err(MemoryError::Unavailable(format!("{place} did not answer, trying again in {left} ms")));
        }
        let done = self.handle.block_on(async {
            timeout(self.recall, requests).await.unwrap_or_else(|_| {
                Err(Failure::NoAnswer(format!("no answer within recall's {} ms", self.recall.as_millis())))
            })
        });
        self.note(done)
    }

    fn note<T>(&self, done: Result<T, Failure>) -> Result<T, MemoryError> {
        let silent = done.as_ref().is_err_and(Failure::is_silence);
        let changed = if silent { self.breaker().failed(Instant::now()) } else { self.breaker().succeeded() };
        let done = done.map_err(|failure| failure.at(&self.place));
        match &done {
            Err(error) if silent => {
                self.silences.fetch_add(1, Ordering::AcqRel);
                if let Ok(client) = Qdrant::new(self.config.clone()) {
                    self.client.store(Arc::new(client));
                }
                if changed {
                    tracing::warn!(%error, "the memory server does not answer");
                }
            }
            _ if changed => tracing::info!(place = %self.place, "the memory server answers again"),
            _ => {}
        }
        done
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
