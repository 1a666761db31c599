//! A snapshot gives back what went in, and nothing else is taken for one.

use std::{fs, io::Write};

use proptest::prelude::*;

use super::{
    super::{EdgeMemory, Filter, Memory, ScanMemory, Shape, contract::*},
    *,
};

fn filled(entries_put: u64) -> ScanMemory {
    let memory = ScanMemory::new(SLOTS);
    memory.put(0, &entries(0..entries_put)).unwrap();
    memory
}

fn store() -> (tempfile::TempDir, SnapshotStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SnapshotStore::new(folder.path().join("memory_snapshots"));
    (folder, store)
}

#[test]
fn a_snapshot_restores_into_another_store_bit_for_bit() {
    let (folder, store) = store();
    let memory = filled(17);
    let made = store.create(None, &memory, &shape(), 1_234).unwrap();
    assert_eq!((made.name.as_str(), made.manifest.created_at_ms), ("memory-000000017", 1_234));
    assert_eq!((made.manifest.first_seq, made.manifest.next_seq, made.manifest.count), (10, 17, SLOTS));
    assert_eq!(store.verify(&made.name).unwrap(), made);
    let edge = EdgeMemory::open(&folder.path().join("memory"), &shape()).unwrap();
    let mut entries = store.entries_of(&made.name, &made.digest).unwrap();
    edge.replace(Some(&made.digest), made.manifest.next_seq, &mut entries).unwrap();
    assert_eq!(edge.scan(0, 100).unwrap(), memory.scan(0, 100).unwrap());
    let query = entry(3).embedding;
    let answers = |memory: &dyn Memory| memory.query(&query, 5, -1.0, &Filter::default()).unwrap();
    assert_eq!(answers(&edge), answers(&memory));
    // The same content has the same digest, wherever it is.
    let again = store.create(Some("again"), &edge, &shape(), 1_234).unwrap();
    assert_eq!(again.digest, made.digest);
}

#[test]
fn an_empty_memory_has_a_snapshot_too() {
    let (_folder, store) = store();
    let made = store.create(Some("empty"), &ScanMemory::new(SLOTS), &shape(), 0).unwrap();
    assert_eq!((made.manifest.first_seq, made.manifest.next_seq, made.manifest.count), (0, 0, 0));
    assert_eq!(store.entries_of("empty", &made.digest).unwrap().count(), 0);
}

#[test]
fn names_are_checked_free_and_found() {
    let (_folder, store) = store();
    assert!(store.list().unwrap().is_empty());
    let memory = filled(3);
    for (name, expected) in [(None, "memory-000000003"), (None, "memory-000000003-2"), (Some("mine"), "mine")] {
        assert_eq!(store.create(name, &memory, &shape(), 0).unwrap().name, expected);
    }
    assert!(matches!(store.create(Some("mine"), &memory, &shape(), 0), Err(SnapshotError::Exists(_))));
    for bad in ["", ".hidden", "../up", "a/b", "with space", "naïve", &"x".repeat(81)] {
        assert!(matches!(store.create(Some(bad), &memory, &shape(), 0), Err(SnapshotError::Name(_))), "{bad:?}");
        assert!(matches!(store.delete(bad), Err(SnapshotError::Name(_))), "{bad:?}");
    }
    store.delete("mine").unwrap();
    assert!(matches!(store.delete("mine"), Err(SnapshotError::Unknown(_))));
    assert!(matches!(store.verify("mine"), Err(SnapshotError::Unknown(_))));
    assert_eq!(store.list().unwrap().len(), 2);
    assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 2, "nothing else is left behind");
}

#[test]
fn what_a_killed_process_left_is_removed() {
    let (_folder, store) = store();
    store.remove_parts();
    store.create(Some("made"), &filled(5), &shape(), 0).unwrap();
    let (_, left) = store.part().unwrap().keep().unwrap();
    store.remove_parts();
    assert!(!left.exists() && store.verify("made").is_ok());
}

#[test]
fn an_upload_is_checked_before_it_is_there() {
    let (_folder, store) = store();
    let made = store.create(Some("made"), &filled(5), &shape(), 0).unwrap();
    let bytes = fs::read(store.path("made").unwrap()).unwrap();
    let upload = |bytes: &[u8], name: &str| {
        let mut part = store.part().unwrap();
        part.write_all(bytes).unwrap();
        store.adopt(part, name)
    };
    assert_eq!(upload(&bytes, "copy").unwrap().digest, made.digest);
    assert!(matches!(upload(&bytes, "copy"), Err(SnapshotError::Exists(_))));
    for foreign in [&b""[..], b"not a zip file", &bytes[..bytes.len() / 2], &bytes[..bytes.len() - 1]] {
        assert!(matches!(upload(foreign, "foreign"), Err(SnapshotError::Damaged { .. })));
    }
    assert_eq!(store.list().unwrap().len(), 2);
}

#[test]
fn other_models_are_refused_and_other_caps_are_not() {
    let (_folder, store) = store();
    store.create(Some("made"), &filled(5), &shape(), 0).unwrap();
    let file = store.open("made").unwrap();
    file.fits(&Shape { cap: 1, ..shape() }).unwrap();
    for other in [Shape { model: "other".into(), ..shape() }, Shape { dimension: 9, ..shape() }] {
        assert!(matches!(file.fits(&other), Err(SnapshotError::OtherModel { .. })));
    }
}

#[test]
fn a_snapshot_that_is_gone_or_replaced_restores_nothing() {
    let (_folder, store) = store();
    let made = store.create(Some("made"), &filled(5), &shape(), 0).unwrap();
    assert_eq!(store.entries_of("made", &made.digest).unwrap().count(), 5);
    assert_eq!(store.entries_of("made", "another digest").unwrap().count(), 0);
    store.delete("made").unwrap();
    assert_eq!(store.entries_of("made", &made.digest).unwrap().count(), 0);
}

#[test]
fn manifests_that_cannot_be_true_are_refused() {
    let (_folder, store) = store();
    store.create(Some("made"), &filled(5), &shape(), 0).unwrap();
    let path = store.path("made").unwrap();
    let mut members = zip::ZipArchive::new(fs::File::open(&path).unwrap()).unwrap();
    let mut read = |name: &str| std::io::read_to_string(members.by_name(name).unwrap()).map(String::into_bytes);
    let (manifest, entries) = (read(MANIFEST).unwrap(), read(ENTRIES).unwrap());
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let mut embeddings = Vec::new();
    std::io::Read::read_to_end(&mut members.by_name(EMBEDDINGS).unwrap(), &mut embeddings).unwrap();
    let lies = [
        ("/format", serde_json::json!(99)),
        ("/count", serde_json::json!(6)),
        ("/count", serde_json::json!(u64::MAX)),
        ("/cap", serde_json::json!(3)),
        ("/dimension", serde_json::json!(0)),
        ("/dimension", serde_json::json!(7)),
        ("/next_seq", serde_json::json!(4)),
        ("/first_seq", serde_json::json!(6)),
        ("/files/entries.jsonl/sha256", serde_json::json!("00")),
        ("/files/entries.jsonl/bytes", serde_json::json!(u64::MAX)),
        ("/files/embeddings.f32/bytes", serde_json::json!(u64::MAX)),
    ];
    for (pointer, lie) in lies {
        let mut manifest = manifest.clone();
        *manifest.pointer_mut(pointer).unwrap() = lie.clone();
        let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        for (name, bytes) in
            [(ENTRIES, &entries), (EMBEDDINGS, &embeddings), (MANIFEST, &serde_json::to_vec(&manifest).unwrap())]
        {
            zip.start_file(name, options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        let refused = store.verify("made");
        assert!(
            matches!(refused, Err(SnapshotError::Damaged { .. } | SnapshotError::Newer { .. })),
            "{pointer} = {lie}: {refused:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_changed_byte_or_a_cut_is_found_or_harmless(place in 0.0..1.0f64, flip in 1u8.., cut in prop::bool::ANY) {
        let (_folder, store) = store();
        let memory = filled(5);
        let made = store.create(Some("made"), &memory, &shape(), 0).unwrap();
        let path = store.path("made").unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let place = (place * bytes.len() as f64) as usize;
        if cut { bytes.truncate(place) } else { bytes[place] ^= flip }
        fs::write(&path, bytes).unwrap();
        // Bytes of the container that nobody reads may differ; the content may not.
        if let Ok(found) = store.verify("made") {
            prop_assert_eq!(&found.digest, &made.digest);
            let entries: Result<Vec<_>, _> = store.entries_of("made", &found.digest).unwrap().collect();
            prop_assert_eq!(entries.unwrap(), memory.scan(0, 100).unwrap());
        }
    }
}

/// `golden-1.json` was computed from the file by another program.
#[test]
fn the_golden_snapshot_loads_for_ever() {
    #[derive(serde::Deserialize)]
    struct Golden {
        digest: String,
        answers: Vec<Answer>,
    }
    #[derive(serde::Deserialize)]
    struct Answer {
        query: u64,
        hits: Vec<Hit>,
    }
    #[derive(serde::Deserialize)]
    struct Hit {
        seq: u64,
        task_id: String,
        similarity: f32,
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("memory_snapshots");
    let golden: Golden = serde_json::from_slice(&fs::read(folder.join("golden-1.json")).unwrap()).unwrap();
    let store = SnapshotStore::new(folder);
    let snapshot = store.verify("golden-1").unwrap();
    assert_eq!(snapshot.digest, golden.digest);
    let temporary = tempfile::tempdir().unwrap();
    let edge = EdgeMemory::open(temporary.path(), &snapshot.manifest.shape).unwrap();
    let scan = ScanMemory::new(snapshot.manifest.shape.cap);
    for memory in [&edge as &dyn Memory, &scan] {
        let mut entries = store.entries_of("golden-1", &golden.digest).unwrap();
        memory.replace(Some(&golden.digest), snapshot.manifest.next_seq, &mut entries).unwrap();
        assert_eq!(memory.held().unwrap().count, snapshot.manifest.count);
        for Answer { query, hits } in &golden.answers {
            let (_, asked) = memory.scan(*query, 1).unwrap().remove(0);
            let found = memory.query(&asked.embedding, 10, 0.5, &Filter::default()).unwrap();
            assert_eq!(found.len(), hits.len());
            for (found, hit) in found.iter().zip(hits) {
                assert_eq!((found.seq, found.task_id.as_str()), (hit.seq, hit.task_id.as_str()));
                assert!((found.similarity - hit.similarity).abs() < 2e-5);
            }
        }
    }
}
