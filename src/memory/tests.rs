//! One contract for every store: each must agree with a plain list that forgets the oldest.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::round::Mode;

const DIMENSION: usize = 8;
const CAP: u64 = 7;

fn entry(seq: u64) -> Entry {
    // Seeded by the number, so that any store's entry can be told from any other.
    let hash = blake3::hash(&seq.to_le_bytes());
    let vector = hash.as_bytes()[..DIMENSION].iter().map(|byte| f32::from(*byte) - 127.5).collect();
    Entry {
        task_id: TaskId::new(format!("t{seq}")).unwrap(),
        domain: Domain::new(if seq.is_multiple_of(2) { "even" } else { "odd" }).unwrap(),
        embedding: Embedding::new(vector).unwrap(),
        outcomes: vec![TriedArm {
            mode: Mode::Single,
            arm: ArmId::new(format!("arm{}", seq % 3)).unwrap(),
            score: 0.5,
            cost_usd: 0.001,
            trace: "looks right".into(),
        }],
    }
}

fn all(memory: &dyn Memory, filter: &Filter) -> Vec<u64> {
    let mut seqs: Vec<_> =
        memory.query(&entry(0).embedding, 100, -1.0, filter).unwrap().iter().map(|hit| hit.seq).collect();
    seqs.sort_unstable();
    seqs
}

fn keeps_the_contract(memory: &dyn Memory) {
    assert_eq!((memory.count().unwrap(), memory.next_seq().unwrap()), (0, 0));
    let mut model = VecDeque::new();
    for seq in 0..40 {
        memory.put(seq, &entry(seq)).unwrap();
        memory.put(seq, &entry(seq)).unwrap();
        model.push_back(seq);
        if model.len() as u64 > CAP {
            model.pop_front();
        }
        assert_eq!(all(memory, &Filter::default()), Vec::from(model.clone()));
        assert_eq!(memory.count().unwrap(), model.len() as u64);
        assert_eq!(memory.next_seq().unwrap(), seq + 1);
    }
    let even = Filter { domain: Some(Domain::new("even").unwrap()), arm: None };
    assert!(all(memory, &even).iter().all(|seq| seq.is_multiple_of(2)));
    let arm = Filter { arm: Some(ArmId::new("arm1").unwrap()), ..even };
    assert_eq!(all(memory, &arm), [34]);
    let hits = memory.query(&entry(37).embedding, 3, 0.5, &Filter::default()).unwrap();
    assert_eq!((hits[0].seq, hits[0].task_id.as_str()), (37, "t37"));
    assert!((hits[0].similarity - 1.0).abs() < 1e-5);
    assert!(hits.len() <= 3 && hits.windows(2).all(|pair| pair[0].similarity >= pair[1].similarity));
    assert!(hits.iter().all(|hit| hit.similarity >= 0.5));
    assert_eq!(hits[0].outcomes, entry(37).outcomes);
}

#[test]
fn scan_keeps_the_contract() {
    keeps_the_contract(&ScanMemory::new(CAP));
}

#[test]
fn edge_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    keeps_the_contract(&EdgeMemory::open(folder.path(), "m", DIMENSION, CAP).unwrap());
}

#[test]
fn edge_refuses_another_dimension_model_or_cap_and_a_second_owner() {
    let folder = tempfile::tempdir().unwrap();
    let memory = EdgeMemory::open(folder.path(), "m", DIMENSION, CAP).unwrap();
    let wide = Entry { embedding: Embedding::new(vec![1.0; DIMENSION + 1]).unwrap(), ..entry(0) };
    assert!(matches!(memory.put(0, &wide), Err(MemoryError::Invalid(_))));
    assert!(matches!(memory.query(&wide.embedding, 1, 0.0, &Filter::default()), Err(MemoryError::Invalid(_))));
    assert!(matches!(EdgeMemory::open(folder.path(), "m", DIMENSION, CAP), Err(MemoryError::Locked(_))));
    drop(memory);
    assert!(matches!(EdgeMemory::open(folder.path(), "m", DIMENSION + 1, CAP), Err(MemoryError::Corrupt { .. })));
    assert!(matches!(EdgeMemory::open(folder.path(), "other", DIMENSION, CAP), Err(MemoryError::Corrupt { .. })));
    assert!(matches!(EdgeMemory::open(folder.path(), "m", DIMENSION, CAP + 1), Err(MemoryError::Corrupt { .. })));
    assert!(EdgeMemory::open(folder.path(), "m", DIMENSION, CAP).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn edge_agrees_with_a_scan_across_reopening(steps in prop::collection::vec(1u64..12, 1..5), asked in 0u64..60) {
        let folder = tempfile::tempdir().unwrap();
        let model = ScanMemory::new(CAP);
        let mut seq = 0;
        for step in steps {
            let memory = EdgeMemory::open(folder.path(), "m", DIMENSION, CAP).unwrap();
            prop_assert_eq!(memory.next_seq().unwrap(), seq);
            for _ in 0..step {
                memory.put(seq, &entry(seq)).unwrap();
                model.put(seq, &entry(seq)).unwrap();
                seq += 1;
            }
            let query = &entry(asked).embedding;
            let ours = memory.query(query, 5, 0.0, &Filter::default()).unwrap();
            let theirs = model.query(query, 5, 0.0, &Filter::default()).unwrap();
            let seqs = |hits: &[Neighbour]| hits.iter().map(|hit| hit.seq).collect::<Vec<_>>();
            prop_assert_eq!(seqs(&ours), seqs(&theirs));
            memory.sync().unwrap();
        }
    }
}
