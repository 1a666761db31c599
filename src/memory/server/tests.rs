//! A real server's half of the contract; runs where `POINTSMAN_QDRANT_URL` names its gRPC port.

use std::sync::{Arc, Mutex};

use ::qdrant_client::{Qdrant, qdrant::UpdateCollectionBuilder};
use proptest::prelude::*;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    task::JoinSet,
};

use super::{
    super::{ScanMemory, contract::*, pages},
    *,
};

/// A memory of its own on the server, deleted at the end.
struct Server {
    runtime: Runtime,
    settings: ServerSettings,
    client: Qdrant,
}

impl Server {
    /// Nothing, with a word, where there is no server.
    fn get() -> Option<Self> {
        let Ok(url) = std::env::var("POINTSMAN_QDRANT_URL") else {
            println!("skipped: POINTSMAN_QDRANT_URL is not set");
            return None;
        };
        let key = std::env::var("POINTSMAN_QDRANT_API_KEY").ok();
        let client = Qdrant::from_url(&url).api_key(key.clone()).skip_compatibility_check().build().unwrap();
        let settings = ServerSettings {
            url,
            api_key: key.map(ApiKey::new),
            collection: format!("pointsman-test-{}", uuid::Uuid::now_v7()),
            connect_timeout_ms: 5_000,
            write_timeout_ms: 30_000,
            recall_timeout_ms: 30_000,
        };
        Some(Self { runtime: Runtime::new().unwrap(), settings, client })
    }

    fn open(&self) -> ServerMemory {
        self.open_for(&shape()).unwrap()
    }

    fn open_for(&self, shape: &Shape) -> Result<ServerMemory, MemoryError> {
        ServerMemory::open(&self.settings, shape, self.runtime.handle().clone())
    }

    fn ring(&self, n: u8) -> String {
        format!("{}-{n}", self.settings.collection)
    }

    fn exists(&self, collection: &str) -> bool {
        self.runtime.block_on(self.client.collection_exists(collection)).unwrap()
    }

    fn delete(&self, collection: &str) {
        self.runtime.block_on(self.client.delete_collection(collection)).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for n in [0, 1] {
            let _ = self.runtime.block_on(self.client.delete_collection(self.ring(n)));
        }
    }
}

#[test]
fn server_keeps_the_contract() {
    let Some(server) = Server::get() else { return };
    keeps_the_contract(&server.open());
    let held = server.open().held().unwrap();
    assert_eq!((held.next_seq, held.origin.as_deref()), (44, Some("origin")), "it survives being closed");
}

#[test]
fn two_opens_of_one_collection_see_the_same() {
    let Some(server) = Server::get() else { return };
    let both: Vec<_> = std::thread::scope(|scope| {
        let open = || scope.spawn(|| server.open());
        [open(), open()].into_iter().map(|opening| opening.join().unwrap()).collect()
    });
    both[0].put(0, &entries(0..3)).unwrap();
    assert_eq!(seqs(&both[1]), [0, 1, 2]);
    both[1].put(3, &entries(3..5)).unwrap();
    assert_eq!(both[0].held().unwrap(), Held { next_seq: 5, count: 5, origin: None });
    // The content is exchanged under the other's feet.
    both[1].replace(Some("new"), 2, &mut (0..2).map(|seq| Ok((seq, entry(seq))))).unwrap();
    assert_eq!(seqs(&both[0]), [0, 1]);
    assert_eq!(both[0].query(&entry(0).embedding, 9, -1.0, &Filter::default()).unwrap().len(), 2);
    assert_eq!(both[0].held().unwrap(), Held { next_seq: 2, count: 2, origin: Some("new".into()) });
}

#[test]
fn refuses_another_dimension_model_or_cap_and_a_foreign_collection() {
    let Some(server) = Server::get() else { return };
    server.open().put(0, &entries(0..3)).unwrap();
    for other in [Shape { model: "other".into(), ..shape() }, Shape { dimension: DIMENSION + 1, ..shape() }] {
        let refused = server.open_for(&other).err().unwrap();
        assert!(matches!(refused, MemoryError::Mismatch { .. }), "{refused}");
    }
    let said = server.open_for(&Shape { cap: SLOTS + 1, ..shape() }).err().unwrap().to_string();
    assert!(said.contains("memory copy") && said.contains(&server.settings.collection), "{said}");
    assert_eq!(seqs(&server.open()), [0, 1, 2], "nothing was changed");
    // Metadata is merged key by key, and a null removes its key.
    let nothing = std::collections::HashMap::from([("pointsman".to_owned(), serde_json::Value::Null)]);
    let foreign = UpdateCollectionBuilder::new(server.ring(0)).metadata(nothing);
    server.runtime.block_on(server.client.update_collection(foreign)).unwrap();
    let said = server.open_for(&shape()).err().unwrap().to_string();
    assert!(said.contains("not a Pointsman memory"), "{said}");
}

#[test]
fn embeddings_of_nearly_unit_length_come_back_bit_for_bit() {
    let Some(server) = Server::get() else { return };
    let memory = server.open_for(&Shape { dimension: 384, cap: 100, ..shape() }).unwrap();
    let nearly = (0..100u64).map(|seq| {
        let mut bytes = [0; 384];
        blake3::Hasher::new().update(&seq.to_le_bytes()).finalize_xof().fill(&mut bytes);
        let unit = Embedding::new(bytes.iter().map(|byte| f32::from(*byte) - 127.5).collect()).unwrap();
        // As models return them.
        let off = 1.0 + (seq as f32 - 50.0) * 1.5e-7;
        let embedding = Embedding::new(unit.as_slice().iter().map(|x| x * off).collect()).unwrap();
        Entry { embedding, ..entry(seq) }
    });
    let nearly: Vec<Entry> = nearly.collect();
    memory.put(0, &nearly).unwrap();
    let read: Vec<Entry> = memory.scan(0, 100).unwrap().into_iter().map(|(_, entry)| entry).collect();
    assert_eq!(read, nearly);
}

#[test]
fn a_write_applied_late_never_overwrites_a_newer_entry() {
    let Some(server) = Server::get() else { return };
    let memory = server.open();
    memory.put(0, &entries(0..10)).unwrap();
    // As it was sent when the ring ended at 5: no knowledge of ours keeps it back.
    let late: Vec<_> = entries(0..5);
    let late: Vec<Numbered<'_>> = (0..).zip(&late).collect();
    let Ring { link, .. } = &memory.ring;
    link.run(link.upsert(&link.place.collection, SLOTS, &late)).unwrap();
    assert_eq!(seqs(&memory), [3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(memory.scan(0, 1_000).unwrap(), (3..10).map(|seq| (seq, entry(seq))).collect::<Vec<_>>());
}

#[test]
fn a_collection_that_was_deleted_is_made_again_and_the_loss_is_told() {
    let Some(server) = Server::get() else { return };
    let memory = server.open();
    memory.put(0, &entries(0..5)).unwrap();
    server.delete(&server.ring(0));
    let error = memory.put(5, &entries(5..6)).unwrap_err();
    assert!(matches!(&error, MemoryError::Unavailable(said) if said.contains("lost entries")), "{error}");
    assert_eq!(memory.held().unwrap(), Held { next_seq: 0, count: 0, origin: None });
    memory.put(0, &entries(0..6)).unwrap();
    assert_eq!(seqs(&memory), [0, 1, 2, 3, 4, 5]);
    server.delete(&server.ring(0));
    assert!(memory.query(&entry(0).embedding, 3, -1.0, &Filter::default()).unwrap().is_empty());
    server.delete(&server.ring(0));
    assert!(memory.scan(0, 10).unwrap().is_empty());
    server.delete(&server.ring(0));
    memory.replace(Some("origin"), 3, &mut (0..3).map(|seq| Ok((seq, entry(seq))))).unwrap();
    assert_eq!(memory.held().unwrap(), Held { next_seq: 3, count: 3, origin: Some("origin".into()) });
    memory.put(3, &entries(3..4)).unwrap();
    assert_eq!(seqs(&memory), [0, 1, 2, 3]);
}

#[test]
fn a_replacement_that_fails_half_way_leaves_the_old_content() {
    let Some(server) = Server::get() else { return };
    let memory = server.open();
    memory.put(0, &entries(0..5)).unwrap();
    let broken = (0..3).map(|seq| Ok((seq, entry(seq)))).chain([Err(MemoryError::Other("the source broke".into()))]);
    assert!(memory.replace(Some("new"), 3, &mut broken.into_iter()).is_err());
    assert_eq!(memory.held().unwrap(), Held { next_seq: 5, count: 5, origin: None });
    assert!(server.exists(&server.ring(1)), "half-written");
    memory.replace(Some("new"), 3, &mut (0..3).map(|seq| Ok((seq, entry(seq))))).unwrap();
    assert_eq!(seqs(&memory), [0, 1, 2]);
    assert!(!server.exists(&server.ring(0)), "the old content is deleted");
    // Nothing in it, but its number and origin are kept; and no origin is one too.
    memory.replace(None, 70, &mut std::iter::empty()).unwrap();
    assert_eq!(server.open().held().unwrap(), Held { next_seq: 70, count: 0, origin: None });
    memory.put(20, &entries(20..22)).unwrap();
    assert!(seqs(&memory).is_empty(), "a ring that is at 70 has forgotten them");
}

#[test]
fn one_memory_is_copied_from_another() {
    let (Some(from), Some(to)) = (Server::get(), Server::get()) else { return };
    let (from, to) = (from.open(), to.open_for(&Shape { cap: 700, ..shape() }).unwrap());
    from.put(0, &entries(0..20)).unwrap();
    to.replace(Some("copy"), 20, &mut pages(0, 3, |seq, n| from.scan(seq, n))).unwrap();
    assert_eq!(seqs(&to), seqs(&from));
    // More than one request.
    to.put(20, &entries(20..900)).unwrap();
    assert_eq!(to.held().unwrap(), Held { next_seq: 900, count: 700, origin: Some("copy".into()) });
    assert_eq!(to.scan(0, 10_000).unwrap(), (200..900).map(|seq| (seq, entry(seq))).collect::<Vec<_>>());
}

#[test]
fn a_restart_of_the_server_is_survived() {
    let Some(mut server) = Server::get() else { return };
    let line = Line::to(&server);
    server.settings.url = format!("http://127.0.0.1:{}", line.port);
    let memory = server.open();
    memory.put(0, &entries(0..5)).unwrap();
    line.cut(&server);
    for _ in 0..2 {
        let error = memory.put(5, &entries(5..6)).unwrap_err();
        assert!(matches!(error, MemoryError::Unknown(_) | MemoryError::Unavailable(_)), "{error}");
    }
    let error = memory.query(&entry(0).embedding, 3, -1.0, &Filter::default()).unwrap_err();
    assert!(matches!(error, MemoryError::Unavailable(_)), "{error}");
    line.mend();
    memory.put(5, &entries(5..6)).unwrap();
    assert_eq!(seqs(&memory), [0, 1, 2, 3, 4, 5]);
    assert_eq!(memory.query(&entry(0).embedding, 9, -1.0, &Filter::default()).unwrap().len(), 6);
}

/// A line to the server that can be cut: what a client sees of a server that is stopped and started.
struct Line {
    port: u16,
    /// The connections; nothing while it is cut.
    connections: Arc<Mutex<Option<JoinSet<()>>>>,
}

impl Line {
    fn to(server: &Server) -> Self {
        let url = reqwest::Url::parse(&server.settings.url).unwrap();
        let address = (url.host_str().unwrap().to_owned(), url.port_or_known_default().unwrap());
        let listener = server.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(Mutex::new(Some(JoinSet::new())));
        let open = Arc::clone(&connections);
        server.runtime.spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let address = address.clone();
                if let Some(connections) = &mut *open.lock().unwrap() {
                    connections.spawn(async move {
                        let mut far = TcpStream::connect(address).await.unwrap();
                        let _ = copy_bidirectional(&mut near, &mut far).await;
                    });
                }
            }
        });
        Self { port, connections }
    }

    fn cut(&self, server: &Server) {
        let mut connections = self.connections.lock().unwrap().take().unwrap();
        server.runtime.block_on(connections.shutdown());
    }

    fn mend(&self) {
        *self.connections.lock().unwrap() = Some(JoinSet::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn agrees_with_the_model_whatever_is_put(
        steps in prop::collection::vec((0u64..12, 0u64..10), 1..8),
        asked in 0u64..80,
    ) {
        let Some(server) = Server::get() else { return Ok(()) };
        let (memory, scan) = (server.open(), ScanMemory::new(SLOTS));
        let mut next = 0u64;
        for (step, back) in steps {
            // Some of it was put before.
            let first = next.saturating_sub(back);
            next += step;
            memory.put(first, &entries(first..next)).unwrap();
            scan.put(first, &entries(first..next)).unwrap();
            prop_assert_eq!(memory.scan(0, 100).unwrap(), scan.scan(0, 100).unwrap());
            prop_assert_eq!(memory.held().unwrap(), scan.held().unwrap());
        }
        let query = &entry(asked).embedding;
        let (ours, theirs) = (memory.query(query, 5, 0.0, &Filter::default()), scan.query(query, 5, 0.0, &Filter::default()));
        prop_assert_eq!(ours.unwrap(), theirs.unwrap());
    }
}
