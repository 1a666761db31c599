//! Memory for operators: look into it, keep snapshots of it, put one in its place, all while tasks flow.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{Router, RouterError, run_blocking};
use crate::{
    journal::{Appended, Event, Journal, NewEvent, Restored, SnapshotChange, now_ms},
    memory::{
        Filter, Memory, MemoryError,
        map::{self, Map},
        snapshot::{Listed, Snapshot, SnapshotError, SnapshotStore},
        view::{self, Record, Stats},
    },
};

/// How often to look whether the learner has come to a restoration.
const POLL: Duration = Duration::from_millis(2);

/// How long a map stands although memory has changed.
const MAP_STANDS: Duration = Duration::from_secs(30);

/// The last map that was drawn.
pub(super) struct Drawn {
    points: u64,
    next_seq: u64,
    when: Instant,
    map: Arc<Map>,
}

/// The event that says that memory's content is a snapshot's from now on; appended before it is.
pub fn restoration(snapshot: &Snapshot) -> NewEvent {
    let restored = Restored {
        snapshot: snapshot.name.clone(),
        digest: snapshot.digest.clone(),
        next_seq: snapshot.manifest.next_seq,
        entries: snapshot.manifest.count,
    };
    NewEvent::alone(Event::MemoryRestored { restored })
}

fn snapshot_changed(name: &str, change: SnapshotChange) -> NewEvent {
    NewEvent::alone(Event::SnapshotChanged { snapshot: name.into(), change })
}

/// An error for the snapshot that memory was restored from last: a rebuild needs it.
pub async fn refuse_in_use(journal: &Journal, name: &str) -> Result<(), RouterError> {
    let in_use = journal.last_restored().await?.is_some_and(|(_, restored)| restored.snapshot == name);
    if in_use { Err(SnapshotError::InUse(name.into()).into()) } else { Ok(()) }
}

impl Router {
    /// Counts what memory holds; reads all of it.
    pub async fn memory_stats(&self) -> Result<Stats, RouterError> {
        let shape = self.memory_shape.clone();
        self.with_memory(move |memory| view::stats(memory, &shape)).await
    }

    /// A map of at most so many entries. Drawing one takes a while, so a map stands for a while too.
    pub async fn memory_map(&self, points: u64) -> Result<Arc<Map>, RouterError> {
        let mut drawn = self.map.lock().await;
        let next_seq = self.policy.load().memory_seq;
        if let Some(Drawn { points: of, next_seq: at, when, map }) = &*drawn
            && *of == points
            && (*at == next_seq || when.elapsed() < MAP_STANDS)
        {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(self.with_memory(move |memory| map::draw(memory, points, now_ms())).await?);
        *drawn = Some(Drawn { points, next_seq, when: Instant::now(), map: Arc::clone(&map) });
        Ok(map)
    }

    /// The entries most alike to a text.
    pub async fn memory_search(
        &self,
        text: &str,
        k: usize,
        min_similarity: f32,
        filter: Filter,
    ) -> Result<Vec<Record>, RouterError> {
        let embedding = self.embedder.embed(text).await?;
        self.with_memory(move |memory| view::search(memory, &embedding, k, min_similarity, &filter)).await
    }

    /// One entry, while memory holds it.
    pub async fn memory_entry(&self, seq: u64) -> Result<Option<Record>, RouterError> {
        self.with_memory(move |memory| view::inspect(memory, seq)).await
    }

    /// Writes a snapshot of memory as it is at one moment. Tasks flow meanwhile; what is learnt waits its turn.
    pub async fn create_snapshot(&self, name: Option<String>) -> Result<Snapshot, RouterError> {
        let (snapshots, memory) = (Arc::clone(&self.snapshots), Arc::clone(&self.memory));
        let (writer, shape) = (Arc::clone(&self.memory_writer), self.memory_shape.clone());
        let created = run_blocking(move || {
            let _still = writer.hold();
            snapshots.create(name.as_deref(), &*memory, &shape, now_ms())
        });
        let snapshot = created.await??;
        let change = SnapshotChange::Created { digest: snapshot.digest.clone(), entries: snapshot.manifest.count };
        self.append(vec![snapshot_changed(&snapshot.name, change)]).await?;
        Ok(snapshot)
    }

    /// All snapshots.
    pub async fn list_snapshots(&self) -> Result<Vec<Listed>, RouterError> {
        self.with_snapshots(|snapshots| snapshots.list()).await
    }

    /// Reads all of a snapshot and compares it with its manifest.
    pub async fn verify_snapshot(&self, name: String) -> Result<Snapshot, RouterError> {
        self.with_snapshots(move |snapshots| snapshots.verify(&name)).await
    }

    /// Puts a snapshot's entries in the place of all that memory holds; rounds learnt later follow them. The journal says
    /// so first, so that a crash in between ends with the snapshot in place. Returns when recall finds the new entries.
    pub async fn restore_snapshot(&self, name: String) -> Result<Snapshot, RouterError> {
        let shape = self.memory_shape.clone();
        let snapshot = self.with_snapshots(move |snapshots| snapshots.verify_for(&name, &shape)).await?;
        // One after the other, so that each knows when its own is done.
        let _restoring = self.restoring.lock().await;
        let restorations = self.restorations.load(Ordering::Acquire);
        let appended = self.append(vec![restoration(&snapshot)]).await?;
        if !matches!(appended.as_slice(), [Appended::Stored { .. }]) {
            return Err(RouterError::Internal("a restoration was in the journal already".into()));
        }
        // The learner comes to it in its turn and hands it to the writer.
        while self.restorations.load(Ordering::Acquire) == restorations {
            if !self.is_learning() {
                let reason = "learning has stopped; the snapshot is restored at the next start";
                return Err(RouterError::Internal(reason.into()));
            }
            tokio::time::sleep(POLL).await;
        }
        let writer = Arc::clone(&self.memory_writer);
        run_blocking(move || writer.wait(|_| {})).await??;
        Ok(snapshot)
    }

    /// Deletes a snapshot, unless memory rests on it.
    pub async fn delete_snapshot(&self, name: String) -> Result<(), RouterError> {
        refuse_in_use(&self.journal, &name).await?;
        let deleted = name.clone();
        self.with_snapshots(move |snapshots| snapshots.delete(&deleted)).await?;
        self.append(vec![snapshot_changed(&name, SnapshotChange::Deleted)]).await?;
        Ok(())
    }

    /// The folder of snapshots, for up- and downloads.
    pub fn snapshots(&self) -> &Arc<SnapshotStore> {
        &self.snapshots
    }

    async fn with_memory<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Memory) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, RouterError> {
        let memory = Arc::clone(&self.memory);
        Ok(run_blocking(move || ask(&*memory)).await??)
    }

    async fn with_snapshots<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&SnapshotStore) -> Result<T, SnapshotError> + Send + 'static,
    ) -> Result<T, RouterError> {
        let snapshots = Arc::clone(&self.snapshots);
        Ok(run_blocking(move || ask(&snapshots)).await??)
    }
}
