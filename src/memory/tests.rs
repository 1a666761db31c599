//! The embedded store beyond the contract: what it refuses, reopening, and what it replaces itself with.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{contract::*, *};

fn open(folder: &std::path::Path) -> EdgeMemory {
    EdgeMemory::open(folder, &shape()).unwrap()
}

#[test]
fn scan_keeps_the_contract() {
    keeps_the_contract(&ScanMemory::new(SLOTS));
}

#[test]
fn edge_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    keeps_the_contract(&open(folder.path()));
    let held = open(folder.path()).held().unwrap();
    assert_eq!((held.next_seq, held.origin.as_deref()), (44, Some("origin")), "it survives being closed");
}

#[test]
fn edge_refuses_another_model_or_dimension_and_a_second_owner() {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(folder.path());
    assert!(matches!(EdgeMemory::open(folder.path(), &shape()), Err(MemoryError::Locked(_))));
    drop(memory);
    for other in [Shape { model: "other".into(), ..shape() }, Shape { dimension: DIMENSION + 1, ..shape() }] {
        let refused = EdgeMemory::open(folder.path(), &other);
        let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("memory rebuild"), "{said}");
    }
    open(folder.path());
}

#[test]
fn a_damaged_folder_is_an_error_that_names_it() {
    for damage in ["ring.json", "shard-0/segments", "shard-0/wal"] {
        let folder = tempfile::tempdir().unwrap();
        let memory = open(folder.path());
        memory.put(0, &entries(0..5)).unwrap();
        memory.sync().unwrap();
        drop(memory);
        let path = folder.path().join(damage);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
            std::fs::write(&path, "no folder").unwrap();
        } else {
            std::fs::write(&path, "no marker").unwrap();
        }
        match EdgeMemory::open(folder.path(), &shape()) {
            Err(MemoryError::Corrupt { path, .. }) => assert!(path.starts_with(folder.path())),
            Err(other) => panic!("{damage}: {other}"),
            Ok(_) => panic!("{damage}: a damaged folder was opened"),
        }
    }
}

#[test]
fn embeddings_of_a_real_length_come_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let memory = EdgeMemory::open(folder.path(), &Shape { dimension: 384, cap: 5_000, ..shape() }).unwrap();
    let put: Vec<Entry> = (0..5_000)
        .map(|seq: u64| {
            let mut bytes = [0; 384];
            blake3::Hasher::new().update(&seq.to_le_bytes()).finalize_xof().fill(&mut bytes);
            let vector = bytes.iter().map(|byte| f32::from(*byte) - 127.5).collect();
            Entry { embedding: Embedding::new(vector).unwrap(), ..entry(seq) }
        })
        .collect();
    memory.put(0, &put).unwrap();
    let changed = memory.scan(0, 5_000).unwrap().into_iter().zip(&put).filter(|((_, read), put)| read != *put).count();
    assert_eq!(changed, 0);
}

#[test]
fn recall_from_ram_is_that_of_the_shard() {
    let folder = tempfile::tempdir().unwrap();
    let memory = EdgeMemory::open(folder.path(), &Shape { cap: 300, ..shape() }).unwrap();
    let even = Filter { domain: entry(0).domain.into(), arm: None };
    // All in one domain: asking for it changes nothing but who answers.
    memory.put(0, &(0..500).map(|n| Entry { domain: entry(0).domain, ..entry(n) }).collect::<Vec<_>>()).unwrap();
    let asked: Vec<_> = (450..550).map(|n| entry(n).embedding).collect();
    for (embedding, answer) in asked.iter().zip(memory.query_all(&asked, RECALL_K, 0.0)) {
        let answer = answer.unwrap();
        assert_eq!(answer.len(), RECALL_K);
        assert_eq!(answer, memory.query(embedding, RECALL_K, 0.0, &even).unwrap());
        assert_eq!(answer, memory.query(embedding, RECALL_K, 0.0, &Filter::default()).unwrap());
    }
}

#[test]
fn another_cap_keeps_the_newest_entries_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(folder.path());
    memory.put(0, &entries(0..10)).unwrap();
    memory.sync().unwrap();
    drop(memory);
    let smaller = EdgeMemory::open(folder.path(), &Shape { cap: 4, ..shape() }).unwrap();
    assert_eq!(seqs(&smaller), [6, 7, 8, 9]);
    smaller.put(10, &entries(10..11)).unwrap();
    assert_eq!(seqs(&smaller), [7, 8, 9, 10]);
    smaller.sync().unwrap();
    drop(smaller);
    let larger = EdgeMemory::open(folder.path(), &Shape { cap: 100, ..shape() }).unwrap();
    assert_eq!(seqs(&larger), [7, 8, 9, 10]);
    assert_eq!(larger.held().unwrap().next_seq, 11);
    let shards = std::fs::read_dir(folder.path()).unwrap().flatten();
    assert_eq!(shards.filter(|entry| entry.path().is_dir()).count(), 1, "old shards are removed");
}

#[test]
fn leaving_the_log_behind_changes_nothing_that_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(folder.path());
    memory.put(0, &entries(0..10)).unwrap();
    let (before, held) = (memory.scan(0, 100).unwrap(), memory.held().unwrap());
    memory.rewrite().unwrap();
    assert_eq!((memory.scan(0, 100).unwrap(), memory.held().unwrap()), (before, held));
    memory.put(10, &entries(10..11)).unwrap();
    assert_eq!(seqs(&memory), (4..11).collect::<Vec<_>>());
    drop(memory);
    // The rewriting flushed; what came after is the journal's to write again.
    assert_eq!(open(folder.path()).held().unwrap().next_seq, 10);
    assert!(!folder.path().join("shard-0").exists() && folder.path().join("shard-1").exists());
}

#[test]
fn a_crash_while_content_is_replaced_leaves_the_old() {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(folder.path());
    memory.put(0, &entries(0..5)).unwrap();
    memory.sync().unwrap();
    let broken = (0..3).map(|seq| Ok((seq, entry(seq)))).chain([Err(MemoryError::Other("the source broke".into()))]);
    assert!(memory.replace(Some("new"), 3, &mut broken.into_iter()).is_err());
    assert_eq!(seqs(&memory), [0, 1, 2, 3, 4]);
    drop(memory);
    // What a process that was killed half-way leaves.
    std::fs::create_dir(folder.path().join("shard-1")).unwrap();
    let memory = open(folder.path());
    assert_eq!((seqs(&memory), memory.held().unwrap().origin), (vec![0, 1, 2, 3, 4], None));
    assert!(!folder.path().join("shard-1").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn fifo_order_is_that_of_a_deque_across_reopening(
        steps in prop::collection::vec((1u64..12, prop::bool::ANY, prop::bool::ANY), 1..6),
        asked in 0u64..80,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (scan, mut deque) = (ScanMemory::new(SLOTS), VecDeque::new());
        let (mut next, mut flushed) = (0, 0);
        for (step, one_by_one, sync) in steps {
            let memory = open(folder.path());
            // What was not flushed is put again, as the journal does.
            prop_assert_eq!(memory.held().unwrap().next_seq, flushed);
            memory.put(flushed, &entries(flushed..next)).unwrap();
            let fresh = next..next + step;
            if one_by_one {
                fresh.clone().for_each(|seq| memory.put(seq, &entries(seq..seq + 1)).unwrap());
            } else {
                memory.put(next, &entries(fresh.clone())).unwrap();
            }
            scan.put(next, &entries(fresh.clone())).unwrap();
            deque.extend(fresh);
            while deque.len() as u64 > SLOTS {
                deque.pop_front();
            }
            next += step;
            prop_assert_eq!(seqs(&memory), Vec::from(deque.clone()));
            prop_assert_eq!(memory.held().unwrap().count, deque.len() as u64);
            let query = &entry(asked).embedding;
            let ours = memory.query(query, 5, 0.0, &Filter::default()).unwrap();
            prop_assert_eq!(ours, scan.query(query, 5, 0.0, &Filter::default()).unwrap());
            if sync {
                memory.sync().unwrap();
                flushed = next;
            }
        }
    }
}
