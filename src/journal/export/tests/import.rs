//! What is imported is what was exported, or an error that says how far it came.

use super::*;

async fn imported(text: &[u8], path: &Path) -> Result<Imported, Stopped> {
    import(&mut &text[..], path, &|_| {}).await
}

/// Three rounds, decided and judged.
async fn some() -> Fixture {
    let fixture = Fixture::new().await;
    for number in 1..=3 {
        let round = decided(number, "math");
        fixture.append([new(&round), judged(&round, FeedbackSource::Client, Some(1.0))]).await;
    }
    fixture
}

fn lines(text: &[u8]) -> Vec<String> {
    String::from_utf8(text.to_vec()).unwrap().split_inclusive('\n').map(String::from).collect()
}

#[tokio::test]
async fn an_import_that_was_interrupted_goes_on() {
    let (fixture, folder) = (some().await, tempfile::tempdir().unwrap());
    let (text, path) = (fixture.jsonl(&Selection::default()).await, folder.path().join("j"));
    let stopped = imported(lines(&text)[..4].concat().as_bytes(), &path).await.unwrap_err();
    assert!(matches!(stopped.reason, ImportError::CutOff(4)), "{stopped}");
    assert_eq!(stopped.imported, Imported { stored: 3, skipped: 0, last_seq: 3 });
    // Cut off within a line.
    let stopped = imported(&text[..text.len() * 2 / 3], &path).await.unwrap_err();
    assert!(matches!(stopped.reason, ImportError::CutOff(_)), "{stopped}");
    let there = stopped.imported.last_seq.unsigned_abs();
    let whole = imported(&text, &path).await.unwrap();
    assert_eq!(whole, Imported { stored: 6 - there, skipped: there, last_seq: 6 });
    assert_eq!(imported(&text, &path).await.unwrap(), Imported { stored: 0, skipped: 6, last_seq: 6 });
    assert!(jsonl(&path, &Selection::default()).await == text);
}

#[tokio::test]
async fn a_later_part_brings_a_copy_up_to_date_and_alone_is_refused() {
    let (fixture, folder) = (some().await, tempfile::tempdir().unwrap());
    fixture.at_known_times().await;
    let time = Some(1_764_000_004_000);
    let early = fixture.jsonl(&Selection { until_ms: time, ..Selection::default() }).await;
    let late = fixture.jsonl(&Selection { from_ms: time, ..Selection::default() }).await;
    let path = folder.path().join("j");
    let alone = imported(&late, &path).await.unwrap_err();
    assert!(matches!(alone.reason, ImportError::Gap { after: 3, last: 0 }), "{alone}");
    assert_eq!(imported(&early, &path).await.unwrap().stored, 3);
    assert_eq!(imported(&late, &path).await.unwrap().stored, 3);
    let whole = fixture.jsonl(&Selection::default()).await;
    assert!(jsonl(&path, &Selection::default()).await == whole);
    let math = Selection { domain: Some(Domain::new("math").unwrap()), ..Selection::default() };
    let refused = imported(&fixture.jsonl(&math).await, &folder.path().join("k")).await.unwrap_err();
    assert!(matches!(refused.reason, ImportError::OneDomain(_)), "{refused}");
}

#[tokio::test]
async fn what_is_damaged_is_named_by_its_line() {
    let (fixture, folder) = (some().await, tempfile::tempdir().unwrap());
    let good = lines(&fixture.jsonl(&Selection::default()).await);
    let with = |place: usize, line: &str| {
        let mut lines = good.clone();
        lines[place] = line.into();
        lines.concat()
    };
    let twice = good[2].replace("\"seq\":2", "\"seq\":4");
    let no_embedding = good[3].replace("\"embedding\":\"mpkZP83MTD8=\"", "\"embedding\":null");
    assert_ne!(no_embedding, good[3]);
    for (place, line, says) in [
        (4, "{\"seq\":4\n", "line 5"),
        (4, "\n", "line 5"),
        (4, "{\"seq\":4,\"at_ms\":1,\"event\":{\"kind\":\"unheard_of\"}}\n", "unheard_of"),
        (4, twice.as_str(), "line 5: its key is that of an earlier event"),
        (4, good[2].as_str(), "line 5: event 2 does not come after event 3"),
        (3, no_embedding.as_str(), "line 4: its embedding is missing"),
    ] {
        let path = folder.path().join(format!("{}.sqlite", blake3::hash(line.as_bytes()).to_hex()));
        let stopped = imported(with(place, line).as_bytes(), &path).await.unwrap_err();
        assert!(stopped.to_string().contains(says), "{stopped}");
        assert!(stopped.imported.last_seq < 4);
    }
}

#[tokio::test]
async fn what_was_changed_or_is_something_else_is_refused() {
    let (fixture, folder) = (some().await, tempfile::tempdir().unwrap());
    let good = lines(&fixture.jsonl(&Selection::default()).await);
    let refused = async |lines: &[String]| {
        let path = tempfile::tempdir_in(folder.path()).unwrap().keep().join("j");
        imported(lines.concat().as_bytes(), &path).await.unwrap_err()
    };
    let mut changed = good.clone();
    changed[2] = changed[2].replace("\"score\":1.0", "\"score\":0.0");
    assert_ne!(changed, good);
    assert!(matches!(refused(&changed).await.reason, ImportError::Changed));
    let without = [&good[..3], &good[4..]].concat();
    assert!(matches!(refused(&without).await.reason, ImportError::Changed));
    let more = [&good[..], &good[1..2]].concat();
    assert!(matches!(refused(&more).await.reason, ImportError::Line { line: 9, .. }));
    let mut newer = good.clone();
    newer[0] = newer[0].replace("\"version\":1", "\"version\":2,\"what\":[]");
    assert!(refused(&newer).await.to_string().contains("upgrade pointsman"));
    assert!(matches!(refused(&good[1..]).await.reason, ImportError::NoHeader(_)));
    assert!(matches!(refused(&["a\n".to_owned()]).await.reason, ImportError::NoHeader(_)));
    assert!(matches!(refused(&[]).await.reason, ImportError::CutOff(0)));
}

#[tokio::test]
async fn another_journals_events_are_refused_with_their_place() {
    let (fixture, other) = (some().await, Fixture::new().await);
    for number in [1, 7, 8] {
        let round = decided(number, "math");
        other.append([new(&round), judged(&round, FeedbackSource::Client, Some(1.0))]).await;
    }
    for fixture in [&fixture, &other] {
        fixture.at_known_times().await;
    }
    let text = fixture.jsonl(&Selection::default()).await;
    let stopped = imported(&text, &other.path()).await.unwrap_err();
    assert!(matches!(stopped.reason, ImportError::Differs { seq: 3, what: "the event" }), "{stopped}");
    assert_eq!(other.rounds(&Selection::default()).await.len(), 3);
}

#[tokio::test]
async fn the_key_of_hashes_goes_along_only_when_asked_for() {
    let (fixture, folder) = (some().await, tempfile::tempdir().unwrap());
    let mut source = Source::open(&fixture.path()).await.unwrap();
    let mut with_key = vec![];
    let (selection, options) = (Selection::default(), JsonlOptions { key: true });
    export_jsonl(&mut source, &selection, options, &mut with_key, &|_, _| {}).await.unwrap();
    let key = source.reader().secret().await.unwrap();
    for (name, text, same) in [("a", &with_key, true), ("b", &fixture.jsonl(&selection).await, false)] {
        let path = folder.path().join(name);
        imported(text, &path).await.unwrap();
        assert_eq!(Source::open(&path).await.unwrap().reader().secret().await.unwrap() == key, same);
    }
    assert_eq!(imported(&with_key, &folder.path().join("a")).await.unwrap().skipped, 6);
    let refused = imported(&with_key, &folder.path().join("b")).await.unwrap_err();
    assert!(matches!(refused.reason, ImportError::OtherKey), "{refused}");
}
