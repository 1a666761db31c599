//! One contract for every store: each must agree with a plain list that forgets the oldest.

use std::{collections::VecDeque, ops::Range};

use super::*;
use crate::round::Mode;

pub(super) const DIMENSION: usize = 8;
pub(super) const SLOTS: u64 = 7;

pub(super) fn shape() -> Shape {
    Shape { model: "model".into(), dimension: DIMENSION, cap: SLOTS }
}

/// An entry that can be told from any other.
pub(crate) fn entry(seq: u64) -> Entry {
    let hash = blake3::hash(&seq.to_le_bytes());
    let vector = hash.as_bytes()[..DIMENSION].iter().map(|byte| f32::from(*byte) - 127.5).collect();
    Entry {
        task_id: TaskId::new(format!("t{seq}")).unwrap(),
        domain: Domain::new(if seq.is_multiple_of(2) { "even" } else { "odd" }).unwrap(),
        at_ms: 1_000 + seq.cast_signed(),
        embedding: Embedding::new(vector).unwrap(),
        outcomes: vec![TriedArm {
            mode: Mode::Single,
            arm: ArmId::new(format!("arm{}", seq % 3)).unwrap(),
            score: 0.5,
            cost_usd: 0.001,
            trace: "looks right, 日本語 🚂".into(),
        }],
    }
}

pub(super) fn entries(range: Range<u64>) -> Vec<Entry> {
    range.map(entry).collect()
}

/// All numbers held, in order.
pub(super) fn seqs(memory: &dyn Memory) -> Vec<u64> {
    memory.scan(0, 1_000).unwrap().into_iter().map(|(seq, _)| seq).collect()
}

/// Runs the whole contract on an empty store of [`shape`].
pub(super) fn keeps_the_contract(memory: &dyn Memory) {
    assert_eq!(memory.held().unwrap(), Held { next_seq: 0, count: 0, origin: None });
    assert!(memory.query(&entry(0).embedding, 3, -1.0, &Filter::default()).unwrap().is_empty());
    evicts_the_oldest_in_the_same_step(memory);
    finds_what_is_alike(memory);
    reads_back_what_was_put(memory);
    never_goes_back(memory);
    replaces_everything(memory);
}

fn all(memory: &dyn Memory, filter: &Filter) -> Vec<u64> {
    let hits = memory.query(&entry(0).embedding, 100, -1.0, filter).unwrap();
    let mut seqs: Vec<_> = hits.iter().map(|hit| hit.seq).collect();
    seqs.sort_unstable();
    seqs
}

fn evicts_the_oldest_in_the_same_step(memory: &dyn Memory) {
    let mut model = VecDeque::new();
    for seq in 0..40 {
        memory.put(seq, &entries(seq..seq + 1)).unwrap();
        // Putting again changes nothing.
        memory.put(seq, &entries(seq..seq + 1)).unwrap();
        model.push_back(seq);
        if model.len() as u64 > SLOTS {
            model.pop_front();
        }
        assert_eq!(all(memory, &Filter::default()), Vec::from(model.clone()));
        assert_eq!(memory.held().unwrap(), Held { next_seq: seq + 1, count: model.len() as u64, origin: None });
    }
    memory.sync().unwrap();
}

fn finds_what_is_alike(memory: &dyn Memory) {
    let even = Filter { domain: Some(Domain::new("even").unwrap()), arm: None };
    assert_eq!(all(memory, &even), [34, 36, 38]);
    assert_eq!(all(memory, &Filter { arm: Some(ArmId::new("arm1").unwrap()), ..even }), [34]);
    assert_eq!(all(memory, &Filter { domain: None, arm: Some(ArmId::new("nobody").unwrap()) }), [0; 0]);
    let hits = memory.query(&entry(37).embedding, 3, 0.5, &Filter::default()).unwrap();
    assert_eq!((hits[0].seq, hits[0].task_id.as_str()), (37, "t37"));
    assert!((hits[0].similarity - 1.0).abs() < 1e-5);
    assert!(hits.len() <= 3 && hits.windows(2).all(|pair| pair[0].similarity >= pair[1].similarity));
    assert!(hits.iter().all(|hit| hit.similarity >= 0.5));
    assert_eq!(hits[0].outcomes, entry(37).outcomes);
    // The similarity is that of the vectors as we compute it, whatever the store said.
    for hit in memory.query(&entry(3).embedding, 7, -1.0, &Filter::default()).unwrap() {
        assert!((hit.similarity - entry(3).embedding.cosine(&entry(hit.seq).embedding)).abs() < 1e-6);
    }
    let wide = Embedding::new(vec![1.0; DIMENSION + 1]).unwrap();
    let refused = memory.query(&wide, 3, 0.0, &Filter::default());
    assert!(matches!(refused, Ok(hits) if hits.iter().all(|hit| hit.similarity == 0.0)) || refused_as_invalid(memory));
}

/// A store with a dimension of its own says so.
fn refused_as_invalid(memory: &dyn Memory) -> bool {
    let wide = Entry { embedding: Embedding::new(vec![1.0; DIMENSION + 1]).unwrap(), ..entry(40) };
    let put = memory.put(40, std::slice::from_ref(&wide));
    let query = memory.query(&wide.embedding, 3, 0.0, &Filter::default());
    matches!((put, query), (Err(MemoryError::Invalid(_)), Err(MemoryError::Invalid(_))))
}

fn reads_back_what_was_put(memory: &dyn Memory) {
    let held = memory.scan(0, 1_000).unwrap();
    assert_eq!(held, (33..40).map(|seq| (seq, entry(seq))).collect::<Vec<_>>(), "bit for bit, in order");
    assert_eq!(memory.scan(36, 2).unwrap().iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [36, 37]);
    assert!(memory.scan(40, 10).unwrap().is_empty());
    let paged: Vec<_> = pages(34, 2, |from, n| memory.scan(from, n)).map(|entry| entry.unwrap().0).collect();
    assert_eq!(paged, [34, 35, 36, 37, 38, 39]);
}

fn never_goes_back(memory: &dyn Memory) {
    // A late retry of what was evicted long ago.
    memory.put(20, &entries(20..24)).unwrap();
    assert_eq!(seqs(memory), [33, 34, 35, 36, 37, 38, 39]);
    // A batch longer than the ring leaves its end.
    memory.put(30, &entries(30..45)).unwrap();
    assert_eq!(seqs(memory), [38, 39, 40, 41, 42, 43, 44]);
    assert_eq!(memory.held().unwrap(), Held { next_seq: 45, count: SLOTS, origin: None });
}

fn replaces_everything(memory: &dyn Memory) {
    let mut few = (2..5).map(|seq| Ok((seq, entry(seq))));
    memory.replace(Some("few"), 5, &mut few).unwrap();
    assert_eq!(memory.held().unwrap(), Held { next_seq: 5, count: 3, origin: Some("few".into()) });
    assert_eq!(seqs(memory), [2, 3, 4]);
    memory.put(5, &entries(5..7)).unwrap();
    assert_eq!(seqs(memory), [2, 3, 4, 5, 6]);
    let mut many = (10..40).map(|seq| Ok((seq, entry(seq))));
    memory.replace(Some("origin"), 40, &mut many).unwrap();
    assert_eq!(seqs(memory), [33, 34, 35, 36, 37, 38, 39]);
    memory.put(40, &entries(40..44)).unwrap();
    assert_eq!(seqs(memory), [37, 38, 39, 40, 41, 42, 43]);
    memory.sync().unwrap();
    assert_eq!(memory.held().unwrap(), Held { next_seq: 44, count: SLOTS, origin: Some("origin".into()) });
}
