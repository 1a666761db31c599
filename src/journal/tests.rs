use std::{path::Path, sync::Arc};

use tokio::sync::mpsc;

use super::*;
use crate::round::{
    Candidate, Context, Decision, DecisionId, Domain, Embedding, Feedback, FeedbackSource, IdempotencyKey, Kept,
    Message, Mode, Outcome, OutcomeStatus, PolicyRef, Propensity, Reason, Recall, RewardWeights, Score, Task, TaskId,
};

const MODEL: &str = "all-MiniLM-L6-v2";

fn decided(number: u128, key: Option<&str>) -> Arc<Decided> {
    let arm = crate::round::ArmId::new("a").unwrap();
    let task = Task {
        id: TaskId::new(format!("t{number}")).unwrap(),
        domain: Domain::new("math").unwrap(),
        messages: vec![Message { role: "user".into(), content: "1 + 1?".into() }],
        metadata: Default::default(),
        constraints: Default::default(),
        reward: None,
        alpha: Some(0.25),
        session: None,
        tenant: None,
        idempotency_key: key.map(|key| IdempotencyKey::new(key).unwrap()),
    };
    let context = Context {
        text: "".into(),
        embedding: Embedding::new(vec![0.6, 0.8]).unwrap(),
        domain: task.domain.clone(),
        neighbours: vec![],
        recall: Recall::Ok,
        candidates: vec![Candidate::new(Mode::Single, arm.clone(), 0.01)],
        last: None,
        weights: RewardWeights::default(),
        alpha: 0.25,
        proposal: None,
    };
    let decision = Decision {
        id: DecisionId::from(number),
        task_id: task.id.clone(),
        mode: Mode::Single,
        arm,
        propensity: Propensity::CERTAIN,
        pmf: vec![],
        voters: vec![],
        policy: PolicyRef { name: "uniform".into(), version: 1, card: String::new() },
        shadow: None,
        learnt_rounds: 0,
        state_at: 0,
        reason: Reason::Forced,
        seed: 7,
    };
    Arc::new(Decided { task, context, observed: Observed::of(MODEL), decision })
}

fn new(decided: &Arc<Decided>) -> NewEvent {
    NewEvent::of(decided, decided.to_event())
}

fn judged(decided: &Arc<Decided>, source: FeedbackSource, score: f64) -> NewEvent {
    let feedback = Feedback {
        decision_id: decided.decision.id,
        source,
        score: Some(Score::new(score).unwrap()),
        reward: Some(score),
        cost_usd: 0.0,
        trust: 1.0,
        idempotency_key: None,
        verdicts: vec![],
    };
    NewEvent::of(decided, Event::Judged { feedback })
}

async fn open(path: &Path) -> (Journal, mpsc::Receiver<Committed>) {
    let (committed, to_learn) = mpsc::channel(1_000);
    let settings =
        JournalSettings { path: path.into(), synchronous: Synchronous::Normal, embedding_model: MODEL.into() };
    (Journal::open(&settings, committed).await.unwrap(), to_learn)
}

#[tokio::test]
async fn what_was_appended_is_read_back_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let (journal, _learner) = open(&path).await;
    let round = decided(1, None);
    journal.append(vec![new(&round)]).await.unwrap();
    journal.close().await;
    assert!(matches!(journal.append(vec![new(&round)]).await, Err(JournalError::Closed)));
    let (journal, _learner) = open(&path).await;
    assert_eq!(journal.decided(round.decision.id).await.unwrap().unwrap(), *round);
    assert_eq!((journal.after(0, 100).await.unwrap().len(), journal.verified_after(0).await.unwrap()), (1, 0));
    assert!(journal.decided(DecisionId::from(2)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_decision_is_learnt_from_once_whoever_judges_first() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut to_learn) = open(&folder.path().join("journal.sqlite")).await;
    let round = decided(1, None);
    journal.append(vec![new(&round)]).await.unwrap();
    let first = journal.append(vec![judged(&round, FeedbackSource::Client, 1.0)]).await.unwrap();
    let late = journal.append(vec![judged(&round, FeedbackSource::Verifier, 0.0)]).await.unwrap();
    let again = journal.append(vec![judged(&round, FeedbackSource::Client, 0.5)]).await.unwrap();
    assert!(matches!(first[..], [Appended::Stored { learns: true, .. }]));
    assert!(matches!(late[..], [Appended::Stored { learns: false, .. }]));
    assert_eq!(again, [Appended::Duplicate]);
    journal.close().await;
    let mut learnt = 0;
    while let Some(committed) = to_learn.recv().await {
        learnt += usize::from(committed.learns);
    }
    assert_eq!(learnt, 1);
}

#[tokio::test]
async fn an_idempotency_key_names_one_decision() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _learner) = open(&folder.path().join("journal.sqlite")).await;
    let (first, second) = (decided(1, Some("k")), decided(2, Some("k")));
    let appended = tokio::join!(journal.append(vec![new(&first)]), journal.append(vec![new(&second)]));
    let stored = [appended.0.unwrap(), appended.1.unwrap()]
        .iter()
        .filter(|appended| matches!(appended[..], [Appended::Stored { .. }]))
        .count();
    assert_eq!(stored, 1);
    let key = IdempotencyKey::new("k").unwrap();
    assert!(journal.by_idempotency_key(None, &key).await.unwrap().is_some());
    assert!(journal.by_idempotency_key(None, &IdempotencyKey::new("other").unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn events_of_one_append_are_one_unit() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _learner) = open(&folder.path().join("journal.sqlite")).await;
    let round = decided(1, None);
    let outcome = Outcome {
        decision_id: round.decision.id,
        status: OutcomeStatus::Done,
        output: "2".into(),
        tool_calls: vec![],
        kept: Kept::Whole,
        calls: vec![],
        cost_usd: 0.0,
        latency_ms: 1.0,
        trajectory: None,
    };
    let ran = NewEvent::of(&round, Event::Ran { outcome });
    let unit = vec![ran, judged(&round, FeedbackSource::Verifier, 1.0)];
    assert!(journal.append(unit.clone()).await.unwrap().iter().all(|event| *event != Appended::Duplicate));
    assert_eq!(journal.append(unit).await.unwrap(), [Appended::Duplicate; 2]);
    assert_eq!(journal.of_decision(round.decision.id).await.unwrap().len(), 2);

    // One event that was there before takes none with it that comes after it.
    let round = decided(2, None);
    journal.append(vec![judged(&round, FeedbackSource::Client, 1.0)]).await.unwrap();
    let client = judged(&round, FeedbackSource::Client, 0.0);
    let unit = vec![new(&round), client, judged(&round, FeedbackSource::Verifier, 1.0)];
    let appended = journal.append(unit).await.unwrap();
    assert!(matches!(appended[..], [Appended::Stored { .. }, Appended::Duplicate, Appended::Stored { .. }]));
}

#[tokio::test]
async fn many_appends_come_back_in_journal_order() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut to_learn) = open(&folder.path().join("journal.sqlite")).await;
    let journal = Arc::new(journal);
    let appends = (0..200).map(|number| {
        let journal = Arc::clone(&journal);
        tokio::spawn(async move { journal.append(vec![new(&decided(number, None))]).await.unwrap() })
    });
    futures::future::join_all(appends).await;
    journal.close().await;
    let mut seqs = vec![];
    while let Some(committed) = to_learn.recv().await {
        seqs.push(committed.seq);
    }
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
}

/// A full disk once left the writer with a transaction that it took for open, and every later append failed.
#[tokio::test]
async fn the_journal_goes_on_after_its_disk_was_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let (journal, _learner) = open(&path).await;
    journal.append(vec![new(&decided(1, None))]).await.unwrap();
    // A trigger plays the full disk: like it, RAISE(ROLLBACK) ends the transaction without the connection's asking.
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut other = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ROLLBACK, 'disk is full'); END";
    sqlx::raw_sql(refuse).execute(&mut other).await.unwrap();
    for number in 2..5 {
        assert!(journal.append(vec![new(&decided(number, None))]).await.is_err());
    }
    sqlx::raw_sql("DROP TRIGGER full").execute(&mut other).await.unwrap();
    journal.append(vec![new(&decided(5, None))]).await.unwrap();
    assert_eq!(journal.after(0, 100).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_journal_of_a_newer_version_or_no_journal_at_all_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let (journal, _learner) = open(&path).await;
    journal.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::raw_sql("PRAGMA user_version = 99").execute(&mut connection).await.unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    let settings = |path: &Path| JournalSettings {
        path: path.into(),
        synchronous: Synchronous::Full,
        embedding_model: MODEL.into(),
    };
    let (committed, _learner) = mpsc::channel(1);
    let newer = Journal::open(&settings(&path), committed.clone()).await.err().unwrap();
    assert!(newer.to_string().contains("upgrade pointsman"), "{newer}");
    std::fs::write(folder.path().join("text"), "x".repeat(9_000)).unwrap();
    let foreign = Journal::open(&settings(&folder.path().join("text")), committed).await.err().unwrap();
    assert!(matches!(foreign, JournalError::Open { .. }), "{foreign}");
}

/// A file as the first release made it, with its records, stays readable for ever, and can be appended to.
#[tokio::test]
async fn a_journal_of_format_one_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut old = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let schema = "CREATE TABLE events(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, decision_id BLOB NOT NULL,
        once TEXT UNIQUE, learns BLOB UNIQUE, body TEXT NOT NULL, embedding BLOB) STRICT;
        CREATE INDEX events_by_decision ON events(decision_id); PRAGMA user_version = 1";
    sqlx::raw_sql(schema).execute(&mut old).await.unwrap();
    for (index, line) in include_str!("format1.jsonl").lines().enumerate() {
        let event: Event = serde_json::from_str(line).unwrap();
        let embedding =
            matches!(event, Event::Decided { .. }).then(|| Embedding::new(vec![0.6, 0.8]).unwrap().to_bytes());
        sqlx::query("INSERT INTO events(at_ms, decision_id, body, embedding) VALUES (?, ?, ?, ?)")
            .bind(1_000 + index as i64)
            .bind(event.decision_id().unwrap().as_bytes().as_slice())
            .bind(line)
            .bind(embedding)
            .execute(&mut old)
            .await
            .unwrap();
    }
    sqlx::Connection::close(old).await.unwrap();
    let reader = JournalReader::open(&path, MODEL).await.unwrap();
    let kinds = |stored: Vec<Stored>| stored.iter().map(|stored| stored.event.kind()).collect::<Vec<_>>();
    assert_eq!(kinds(reader.after(0, 10).await.unwrap()), ["decided", "ran", "judged"]);
    let (journal, _learner) = open(&path).await;
    journal.append(vec![new(&decided(1, None))]).await.unwrap();
    assert_eq!(kinds(journal.after(0, 10).await.unwrap()), ["decided", "ran", "judged", "decided"]);
    let first = journal.at(1).await.unwrap().unwrap().into_decided().unwrap();
    assert_eq!((first.task.id.as_str(), first.decision.state_at), ("llmrouter_test_00054", 0));
    assert_eq!(journal.open_decisions(0, 100, 10).await.unwrap().len(), 2, "the format-1 task is another decision's");
    journal.close().await;
}

/// Every column counts: also the time, and `learns`, which says what is learnt from zero.
#[tokio::test]
async fn a_record_that_the_disk_garbled_is_named_and_no_other_is_lost() {
    for garbled in [
        "embedding = zeroblob(length(embedding))",
        "packed = CAST(packed || x'00' AS BLOB)",
        "at_ms = at_ms + 1",
        "learns = decision_id",
        "kind = 'ran'",
        "model = 'another'",
        "once = 'task:k'",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.sqlite");
        let (journal, _learner) = open(&path).await;
        for number in 1..4 {
            journal.append(vec![new(&decided(number, None))]).await.unwrap();
        }
        journal.close().await;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
        let mut other = sqlx::ConnectOptions::connect(&options).await.unwrap();
        let flip = format!("UPDATE events SET {garbled} WHERE seq = 2");
        sqlx::raw_sql(sqlx::AssertSqlSafe(flip)).execute(&mut other).await.unwrap();
        let (journal, _learner) = open(&path).await;
        let refused = journal.after(0, 10).await.unwrap_err();
        assert!(matches!(refused, JournalError::Damaged { seq: 2, .. }), "{garbled}: {refused}");
        assert!(journal.at(1).await.unwrap().is_some() && journal.at(3).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn open_decisions_are_those_that_nobody_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _learner) = open(&folder.path().join("journal.sqlite")).await;
    let rounds: Vec<_> = (1..5).map(|number| decided(number, None)).collect();
    for round in &rounds {
        journal.append(vec![new(round)]).await.unwrap();
    }
    let Event::Judged { feedback } = judged(&rounds[0], FeedbackSource::Client, 1.0).event else { unreachable!() };
    journal.append(vec![NewEvent::of(&rounds[0], Event::Early { feedback })]).await.unwrap();
    journal.append(vec![judged(&rounds[1], FeedbackSource::Client, 1.0)]).await.unwrap();
    let abandoned = Event::Abandoned { decision_id: rounds[2].decision.id };
    journal.append(vec![NewEvent::of(&rounds[2], abandoned.clone())]).await.unwrap();
    let again = journal.append(vec![NewEvent::of(&rounds[2], abandoned)]).await.unwrap();
    assert_eq!(again, [Appended::Duplicate]);
    let seqs = |open: Vec<Open>| open.iter().map(|open| open.seq).collect::<Vec<_>>();
    assert_eq!(seqs(journal.open_decisions(0, 100, 10).await.unwrap()), [1, 4]);
    assert_eq!(seqs(journal.open_decisions(1, 3, 10).await.unwrap()), [0; 0]);
    assert_eq!(journal.last_before(0).await.unwrap(), 0);
    assert_eq!(journal.last_before(i64::MAX).await.unwrap(), 7);
}

#[test]
fn texts_are_kept_as_the_setting_says_and_numbers_always() {
    let round = decided(1, None);
    let keep = |kept: Kept| {
        let event = Keeping::new(kept, [7; 32]).keep(new(&round));
        let Event::Decided { task, .. } = event.event else { unreachable!() };
        assert_eq!(event.decided.unwrap().task, task, "who learns from it sees what is kept");
        task.messages[0].content.clone()
    };
    assert_eq!(keep(Kept::Whole), "1 + 1?");
    assert_eq!(keep(Kept::Dropped), "");
    let hashed = keep(Kept::Hashed);
    assert!(hashed.starts_with("blake3:") && hashed == keep(Kept::Hashed));
    let other = Keeping::new(Kept::Hashed, [8; 32]).keep(new(&round));
    assert_ne!(other.decided.unwrap().task.messages[0].content, hashed, "the key is part of the hash");
}

#[tokio::test]
async fn tasks_of_another_model_are_refused_until_they_are_embedded_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let (journal, _learner) = open(&path).await;
    let rounds: Vec<_> = (1..4).map(|number| decided(number, None)).collect();
    for round in &rounds {
        journal.append(vec![new(round), judged(round, FeedbackSource::Verifier, 1.0)]).await.unwrap();
    }
    assert_eq!(journal.unembedded().await.unwrap(), 0);
    journal.close().await;

    let settings =
        JournalSettings { path: path.clone(), synchronous: Synchronous::Normal, embedding_model: "other".into() };
    let (committed, _learner) = mpsc::channel(100);
    let journal = Journal::open(&settings, committed).await.unwrap();
    let refused = journal.after(0, 100).await.unwrap_err();
    assert!(refused.to_string().contains("pointsman memory rebuild"), "{refused}");
    assert_eq!(journal.unembedded().await.unwrap(), 3);
    let first = journal.first_unembedded(2).await.unwrap();
    assert_eq!(first.iter().map(|(_, task)| task.id.as_str()).collect::<Vec<_>>(), ["t1", "t2"]);
    let again = Embedding::new(vec![1.0, 0.0, 0.0]).unwrap();
    let embedded: Vec<_> = first.iter().map(|(seq, _)| (*seq, again.clone())).collect();
    journal.embed_again(&embedded).await.unwrap();
    // Interrupted here, it goes on with what is left.
    let rest = journal.first_unembedded(2).await.unwrap();
    assert_eq!(rest.len(), 1);
    journal.embed_again(&[(rest[0].0, again.clone())]).await.unwrap();
    assert_eq!(journal.unembedded().await.unwrap(), 0);
    let read = journal.decided(rounds[1].decision.id).await.unwrap().unwrap();
    assert_eq!((&read.context.embedding, read.observed.embedding_model.as_str()), (&again, MODEL));
    journal.close().await;

    // The first model's embeddings are still there.
    let (journal, _learner) = open(&path).await;
    assert_eq!(journal.decided(rounds[1].decision.id).await.unwrap().unwrap(), *rounds[1]);
    journal.close().await;
}

#[tokio::test]
async fn the_last_restoration_of_memory_is_found_with_what_was_learnt_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut to_learn) = open(&folder.path().join("journal.sqlite")).await;
    assert_eq!(journal.last_restored().await.unwrap(), None);
    let restored = |next_seq| Restored { snapshot: "s".into(), digest: "d".into(), next_seq, entries: 3 };
    let restore = |next_seq| vec![NewEvent::alone(Event::MemoryRestored { restored: restored(next_seq) })];
    let round = |number| {
        let round = decided(number, None);
        vec![new(&round), judged(&round, FeedbackSource::Verifier, 1.0)]
    };
    for events in [round(1), restore(10), round(2), restore(20), round(3), round(4)] {
        journal.append(events).await.unwrap();
    }
    let (seq, last) = journal.last_restored().await.unwrap().unwrap();
    assert_eq!((seq, last, journal.verified_after(seq).await.unwrap()), (6, restored(20), 2));
    // The last two lessons and the one before the restoration.
    assert_eq!(journal.verified_back(seq, 5).await.unwrap(), (2, 2));
    assert_eq!(journal.verified_back(i64::MAX, 3).await.unwrap(), (5, 3));
    let stored = journal.after(5, 1).await.unwrap();
    assert_eq!(stored[0].event, Event::MemoryRestored { restored: restored(20) });
    let mut handed_on = vec![];
    while let Ok(committed) = to_learn.try_recv() {
        handed_on.push(committed.seq);
    }
    assert_eq!(handed_on, (1..=10).collect::<Vec<_>>(), "the learner gets them in their place");
}

#[tokio::test]
async fn a_closed_journal_is_one_file_also_while_another_program_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let log = folder.path().join("journal.sqlite-wal");
    let (journal, _learner) = open(&path).await;
    journal.append(vec![new(&decided(1, None))]).await.unwrap();
    assert_eq!(journal.after(0, 10).await.unwrap().len(), 1);
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    journal.close().await;
    assert!(!log.exists());

    let (journal, _learner) = open(&path).await;
    let other = JournalReader::open(&path, MODEL).await.unwrap();
    assert_eq!(other.after(0, 10).await.unwrap().len(), 1);
    journal.append(vec![new(&decided(2, None))]).await.unwrap();
    journal.close().await;
    let copy = folder.path().join("copy.sqlite");
    std::fs::copy(&path, &copy).unwrap();
    let copied = JournalReader::open(&copy, MODEL).await.unwrap();
    assert_eq!(copied.after(0, 10).await.unwrap().len(), 2);
    assert_eq!(other.after(0, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_sealed_journal_takes_nothing_more_and_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut to_learn) = open(&folder.path().join("journal.sqlite")).await;
    journal.append(vec![new(&decided(1, None))]).await.unwrap();
    journal.seal();
    assert!(to_learn.recv().await.is_some());
    assert!(to_learn.recv().await.is_none());
    assert!(matches!(journal.append(vec![new(&decided(2, None))]).await, Err(JournalError::Closed)));
    assert_eq!(journal.after(0, 10).await.unwrap().len(), 1);
    journal.close().await;
    assert!(matches!(journal.after(0, 10).await, Err(JournalError::Closed)));
}

#[tokio::test]
async fn a_clock_that_was_put_back_does_not_turn_the_journals_time_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.sqlite");
    let (journal, _learner) = open(&path).await;
    journal.close().await;
    // The last event is of tomorrow.
    let tomorrow = now_ms() + 24 * 3_600_000;
    let options = schema::options(&path, Synchronous::Normal);
    let connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let (committed, mut learner) = mpsc::channel(10);
    let (queue, appends) = mpsc::channel(10);
    let (done, answer) = tokio::sync::oneshot::channel();
    let events = vec![new(&decided(1, None))];
    let rows = events.iter().map(|event| writer::Row::of(event).unwrap()).collect();
    queue.send(writer::Append { events, rows, done }).await.unwrap();
    drop(queue);
    let (_, nobody_reads) = tokio::sync::oneshot::channel();
    let writer = writer::Writer::new(options, connection, tomorrow, committed, tokio::sync::watch::channel(0).0);
    writer.run(appends, Default::default(), nobody_reads).await;
    assert!(matches!(answer.await.unwrap().unwrap()[..], [Appended::Stored { .. }]));
    assert_eq!(learner.recv().await.unwrap().at_ms, tomorrow);
    assert_eq!(open(&path).await.0.after(0, 10).await.unwrap()[0].at_ms, tomorrow);
}
