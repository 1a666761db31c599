//! Whatever is in a journal comes back bit for bit.

use proptest::prelude::*;
use sqlx::Row;

use super::*;
use crate::{
    journal::{ArmChange, PolicyChange, PolicyOrigin, PolicyRole},
    round::{ArmPatch, IdempotencyKey},
};

/// What happens to a journal.
#[derive(Debug, Clone)]
enum Step {
    Decide { words: String, numbers: Vec<f32>, key: Option<String> },
    Judge { which: usize, source: FeedbackSource, score: Option<f64> },
    Run { which: usize, done: bool },
    Abandon { which: usize },
    Patch { usd: f64 },
    Change { card: String },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let numbers = prop::collection::vec((-1_000..1_000_i16).prop_map(|x| f32::from(x) / 7.0 + 0.01), 1..5);
    let decide = (".{0,20}", numbers, prop::option::of("[a-z]{1,3}")).prop_map(|(words, numbers, key)| Step::Decide {
        words,
        numbers,
        key,
    });
    let source = prop::sample::select(vec![FeedbackSource::Verifier, FeedbackSource::Thumbs, FeedbackSource::Client]);
    let judge = (any::<usize>(), source, prop::option::of(0.0..=1.0_f64))
        .prop_map(|(which, source, score)| Step::Judge { which, source, score });
    let run = (any::<usize>(), any::<bool>()).prop_map(|(which, done)| Step::Run { which, done });
    let step = prop_oneof![
        4 => decide,
        3 => judge,
        2 => run,
        1 => any::<usize>().prop_map(|which| Step::Abandon { which }),
        1 => (0.0..1e6_f64).prop_map(|usd| Step::Patch { usd }),
        1 => ".{0,30}".prop_map(|card| Step::Change { card }),
    ];
    prop::collection::vec(step, 0..30)
}

async fn filled(steps: &[Step]) -> Fixture {
    let fixture = Fixture::new().await;
    let mut rounds: Vec<Arc<Decided>> = vec![];
    for step in steps {
        let event = match step {
            Step::Decide { words, numbers, key } => {
                let mut round = Decided::clone(&decided(rounds.len() as u128 + 1, "math"));
                round.task.messages[0].content = words.clone();
                round.task.idempotency_key = key.as_ref().map(|key| IdempotencyKey::new(key).unwrap());
                round.context.embedding = Embedding::new(numbers.clone()).unwrap();
                rounds.push(Arc::new(round));
                new(&rounds[rounds.len() - 1])
            }
            Step::Patch { usd } => {
                let patch = ArmPatch { input_usd_per_1m: Some(*usd), ..ArmPatch::default() };
                NewEvent::alone(Event::ArmChanged { arm: arm("a"), change: ArmChange::Changed(patch) })
            }
            Step::Change { card } => {
                let (role, origin) = (PolicyRole::Shadow, PolicyOrigin::Asked);
                let (name, policy) = ("card".into(), "uniform".into());
                let change = PolicyChange { role, origin, name, policy, card: Some(card.clone()) };
                NewEvent::alone(Event::PolicyChanged { change })
            }
            Step::Judge { .. } | Step::Run { .. } | Step::Abandon { .. } if rounds.is_empty() => continue,
            Step::Judge { which, source, score } => judged(&rounds[which % rounds.len()], *source, *score),
            Step::Run { which, done } => {
                let status = if *done { OutcomeStatus::Done } else { OutcomeStatus::Failed };
                ran(&rounds[which % rounds.len()], status)
            }
            Step::Abandon { which } => abandoned(&rounds[which % rounds.len()]),
        };
        fixture.append([event]).await;
    }
    fixture
}

/// Every cell of a table.
async fn cells(path: &Path, table: &'static str) -> Vec<Vec<Option<Vec<u8>>>> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let rows = sqlx::query(table).fetch_all(&mut connection).await.unwrap();
    let cell = |row: &sqlx::sqlite::SqliteRow, place: usize| row.try_get_unchecked(place).unwrap();
    rows.iter().map(|row| (0..row.len()).map(|place| cell(row, place)).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_import_has_the_same_rows_and_exports_the_same_lines(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (fixture, folder) = (filled(&steps).await, tempfile::tempdir().unwrap());
            let (text, path) = (fixture.jsonl(&Selection::default()).await, folder.path().join("j"));
            let imported = import(&mut &text[..], &path, &|_| {}).await.unwrap();
            assert_eq!(imported.stored, fixture.journal.last_seq().await.unwrap().unsigned_abs());
            assert_eq!(cells(&path, "SELECT * FROM events").await, cells(&fixture.path(), "SELECT * FROM events").await);
            assert!(jsonl(&path, &Selection::default()).await == text);
        });
    }
}

#[tokio::test]
async fn embeddings_by_other_models_and_a_compacted_state_come_along() {
    let fixture = Fixture::new().await;
    let rounds = [decided(1, "math"), decided(2, "math")];
    fixture.append(rounds.iter().map(new)).await;
    sql(
        &fixture.path(),
        "INSERT INTO reembedded(seq, model, embedding) VALUES (1, 'other', x'0000803f'), (2, 'other', x'000080bf')",
    )
    .await;
    let state = crate::journal::pack::pack(b"{\"learnt\":1}").unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(fixture.path());
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::query("INSERT INTO base(id, seq, at_ms, state, sum) VALUES (1, 1, 5, ?, ?)")
        .bind(&state)
        .bind(crate::journal::pack::checksum(&[&state]))
        .execute(&mut connection)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (text, path) = (fixture.jsonl(&Selection::default()).await, folder.path().join("j"));
    for stored in [2, 0] {
        assert_eq!(import(&mut &text[..], &path, &|_| {}).await.unwrap().stored, stored);
        for table in ["SELECT * FROM reembedded ORDER BY seq, model", "SELECT * FROM base"] {
            assert_eq!(cells(&path, table).await, cells(&fixture.path(), table).await);
        }
    }
    let base = Source::open(&path).await.unwrap().reader().base().await.unwrap().unwrap();
    assert_eq!((base.seq, base.at_ms, base.state.as_str()), (1, 5, "{\"learnt\":1}"));
    sql(&path, "UPDATE reembedded SET embedding = x'00000040' WHERE seq = 2").await;
    let stopped = import(&mut &text[..], &path, &|_| {}).await.unwrap_err();
    assert!(matches!(stopped.reason, ImportError::Differs { seq: 2, .. }), "{stopped}");
}
