//! What becomes of a decision is found however it came, and whenever.

use super::*;

fn score(judged: Option<&Judged>) -> Option<f64> {
    judged.unwrap().feedback.score.map(|score| score.get())
}

#[tokio::test]
async fn rounds_come_in_the_order_of_their_decisions_with_feedback_of_long_after() {
    let fixture = Fixture::new().await;
    // More than a page, so that feedback lies in other pages than its decision.
    let rounds: Vec<_> = (1..=1_100).map(|number| decided(number, "math")).collect();
    for some in rounds.chunks(100) {
        fixture.append(some.iter().map(new)).await;
    }
    fixture.append(rounds.iter().rev().map(|round| judged(round, FeedbackSource::Client, Some(1.0)))).await;
    let joined = fixture.rounds(&Selection::default()).await;
    let ids: Vec<_> = joined.iter().map(|round| round.decision.id).collect();
    assert_eq!(ids, rounds.iter().map(|round| round.decision.id).collect::<Vec<_>>());
    assert!(joined.iter().all(|round| score(round.verified.as_ref()) == Some(1.0) && round.weak.is_none()));
    assert!(joined.iter().all(|round| round.status() == RoundStatus::Done), "its client ran it and says so");
    assert_eq!(joined[0].cost_usd(), Some(0.5), "what the feedback was charged");
}

#[tokio::test]
async fn verified_and_weak_feedback_stand_side_by_side_and_the_learnt_one_counts() {
    let fixture = Fixture::new().await;
    let round = decided(1, "math");
    fixture.append([new(&round), ran(&round, OutcomeStatus::Done)]).await;
    for (source, score) in [
        (FeedbackSource::Thumbs, Some(0.25)),
        // Nothing is learnt from it, and so the next one counts.
        (FeedbackSource::Verifier, None),
        (FeedbackSource::Client, Some(0.5)),
        (FeedbackSource::Judge, Some(1.0)),
    ] {
        fixture.append([judged(&round, source, score)]).await;
    }
    let joined = fixture.rounds(&Selection::default()).await;
    let [joined] = &joined[..] else { panic!("{joined:?}") };
    assert_eq!(score(joined.verified.as_ref()), Some(0.5));
    assert_eq!(joined.verified.as_ref().unwrap().feedback.source, FeedbackSource::Client);
    assert_eq!(score(joined.weak.as_ref()), Some(0.25));
    assert!(joined.verified.as_ref().unwrap().learns && joined.weak.as_ref().unwrap().learns);
    assert_eq!(joined.outcome.as_ref().unwrap().calls[0].input_tokens, 11);
    assert_eq!(joined.embedding, round.context.embedding);
}

#[tokio::test]
async fn open_failed_and_abandoned_rounds_are_told_apart() {
    let fixture = Fixture::new().await;
    let rounds: Vec<_> = (1..=6).map(|number| decided(number, "math")).collect();
    fixture.append(rounds.iter().map(new)).await;
    fixture.append([ran(&rounds[1], OutcomeStatus::Failed), ran(&rounds[2], OutcomeStatus::Done)]).await;
    fixture.append([abandoned(&rounds[3]), abandoned(&rounds[4])]).await;
    fixture.append([judged(&rounds[4], FeedbackSource::Client, Some(1.0))]).await;
    fixture.append([judged(&rounds[5], FeedbackSource::Failure, Some(0.0))]).await;
    let status: Vec<_> = fixture.rounds(&Selection::default()).await.iter().map(Round::status).collect();
    use RoundStatus::{Abandoned, Done, Failed, Open};
    assert_eq!(status, [Open, Failed, Done, Abandoned, Done, Failed], "one that was given up may still be judged");
}

#[tokio::test]
async fn a_selection_is_of_decisions_and_keeps_what_became_of_them_later() {
    let fixture = Fixture::new().await;
    let rounds = [decided(1, "math"), decided(2, "code"), decided(3, "math"), decided(4, "math")];
    fixture.append(rounds.iter().map(new)).await;
    fixture.append(rounds.iter().map(|round| judged(round, FeedbackSource::Client, Some(1.0)))).await;
    fixture.at_known_times().await;
    let at = |seq: i64| Some(1_764_000_000_000 + 1_000 * seq);
    let of = async |selection: &Selection| -> Vec<i64> {
        let rounds = fixture.rounds(selection).await;
        assert!(rounds.iter().all(|round| round.verified.is_some()));
        rounds.iter().map(|round| round.seq).collect()
    };
    let math = Some(Domain::new("math").unwrap());
    assert_eq!(of(&Selection { from_ms: at(2), until_ms: at(4), domain: None }).await, [2, 3], "until is not included");
    assert_eq!(of(&Selection { from_ms: at(2), until_ms: at(4), domain: math.clone() }).await, [3]);
    assert_eq!(of(&Selection { from_ms: None, until_ms: at(3), domain: math.clone() }).await, [1]);
    assert!(of(&Selection { from_ms: at(9), until_ms: None, domain: None }).await.is_empty());
    // Events of a domain are found by their decision, also where that is not in the selection.
    let text = fixture.jsonl(&Selection { from_ms: at(4), until_ms: None, domain: math }).await;
    let seqs: Vec<i64> = String::from_utf8(text)
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<Line>(line).ok().map(|line| line.seq))
        .collect();
    assert_eq!(seqs, [4, 5, 7, 8]);
}

#[tokio::test]
async fn a_table_has_typed_columns_and_a_row_for_each_decision() {
    use arrow_array::{Array, Float64Array, RecordBatch, StringArray, UInt64Array};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

    let fixture = Fixture::new().await;
    let rounds: Vec<_> = (1..=3).map(|number| decided(number, "math")).collect();
    fixture.append(rounds.iter().map(new)).await;
    fixture
        .append([ran(&rounds[0], OutcomeStatus::Done), judged(&rounds[0], FeedbackSource::Verifier, Some(1.0))])
        .await;
    let file = fixture.folder.path().join("rounds.parquet");
    let mut source = Source::open(&fixture.path()).await.unwrap();
    let out = std::fs::File::create(&file).unwrap();
    assert_eq!(export_parquet(&mut source, &Selection::default(), out, &|_, _| {}).await.unwrap(), 3);
    let reader = ParquetRecordBatchReader::try_new(std::fs::File::open(&file).unwrap(), 10).unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let [batch] = &batches[..] else { panic!("{batches:?}") };
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let scores = column("score").as_any().downcast_ref::<Float64Array>().unwrap();
    assert_eq!(scores.iter().collect::<Vec<_>>(), [Some(1.0), None, None]);
    let status = column("status").as_any().downcast_ref::<StringArray>().unwrap();
    assert_eq!(status.iter().flatten().collect::<Vec<_>>(), ["done", "open", "open"]);
    let seed = column("seed").as_any().downcast_ref::<UInt64Array>().unwrap();
    assert_eq!(seed.value(0), u64::MAX - 1);
    let fields: Vec<_> =
        batch.schema().fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
    insta::assert_snapshot!(fields.join("\n"));
}
