//! What the text formats look like.

use super::*;

async fn some() -> Fixture {
    let fixture = Fixture::new().await;
    let rounds: Vec<_> = (1..=5).map(|number| decided(number, "math")).collect();
    fixture.append(rounds.iter().map(new)).await;
    fixture.append([ran(&rounds[0], OutcomeStatus::Done)]).await;
    fixture.append([judged(&rounds[0], FeedbackSource::Verifier, Some(1.0))]).await;
    fixture.append([judged(&rounds[0], FeedbackSource::Thumbs, Some(0.5))]).await;
    fixture.append([ran(&rounds[1], OutcomeStatus::Done), judged(&rounds[1], FeedbackSource::Thumbs, Some(0.5))]).await;
    fixture.append([judged(&rounds[2], FeedbackSource::Verifier, None), abandoned(&rounds[3])]).await;
    fixture.at_known_times().await;
    fixture
}

#[tokio::test]
async fn lines_of_events() {
    let text = String::from_utf8(some().await.jsonl(&Selection::default()).await).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let shown = [lines[0], lines[1], lines[7], lines[8], lines[lines.len() - 1]];
    insta::assert_snapshot!(shown.join("\n"));
}

#[tokio::test]
async fn lines_for_vowpal_wabbit() {
    let (fixture, mut out) = (some().await, vec![]);
    let mut source = Source::open(&fixture.path()).await.unwrap();
    let selection = Selection::default();
    let mut counts = vec![];
    for embedding in [true, false] {
        let options = DsjsonOptions { embedding };
        counts.push(export_dsjson(&mut source, &selection, options, &mut out, &|_, _| {}).await.unwrap());
    }
    let (written, cost, strange) = (1, -0.95, 0);
    let of_one = DsjsonCounts { written, cost, open: 1, abandoned: 1, unverified: 1, unscored: 1, strange };
    assert_eq!(counts, [of_one; 2]);
    assert_eq!(of_one.left_out(), 4);
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}
