use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::*;
use crate::{
    journal::Observed,
    round::{Context, Embedding, Kept, Metadata, PolicyRef, Reason, Score},
    webhooks::Secrets,
};

fn id() -> DecisionId {
    DecisionId::from(7)
}

fn decided() -> Decided {
    let mut task = crate::round::Task::plain(
        TaskId::new("t-1").unwrap(),
        Domain::new("math").unwrap(),
        "What is 19 plus 23?",
        Metadata::new(),
    );
    task.tenant = Some(TenantId::new("acme").unwrap());
    let decision = crate::round::Decision {
        id: id(),
        task_id: task.id.clone(),
        mode: Mode::Single,
        arm: ArmId::new("large").unwrap(),
        propensity: Propensity::new(0.25).unwrap(),
        pmf: vec![],
        voters: vec![],
        policy: PolicyRef { name: "uniform".into(), version: 1, card: String::new() },
        shadow: None,
        learnt_rounds: 0,
        state_at: 0,
        reason: Reason::Explore,
        seed: 1,
    };
    let context = Context::new(Embedding::new(vec![1.0]).unwrap(), task.domain.clone(), vec![]);
    Decided { task, context, observed: Observed::of("m"), decision }
}

fn outcome() -> Outcome {
    Outcome {
        decision_id: id(),
        status: OutcomeStatus::Done,
        output: "It is 42.".into(),
        tool_calls: vec![],
        kept: Kept::Whole,
        calls: vec![],
        cost_usd: 0.5,
        latency_ms: 12.0,
        trajectory: None,
    }
}

fn judged(source: FeedbackSource) -> Event {
    let feedback = Feedback {
        decision_id: id(),
        source,
        score: Some(Score::new(0.75).unwrap()),
        reward: Some(0.7),
        cost_usd: 0.5,
        trust: 1.0,
        idempotency_key: None,
        verdicts: vec![],
    };
    Event::Judged { feedback }
}

fn stored(seq: i64, event: Event) -> Stored {
    Stored { seq, at_ms: 951_782_400_007, learns: false, event, embedding: None }
}

fn settings(texts: bool) -> WebhookSettings {
    WebhookSettings {
        name: WebhookName::new("billing").unwrap(),
        url: "https://example.com/hooks?key=hunter2".parse().unwrap(),
        secrets: Secrets::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(),
        events: BTreeSet::from([EventType::TaskFinished]),
        domains: None,
        tenants: None,
        timeout: Duration::from_secs(1),
        texts,
    }
}

fn told(kind: EventType, event: Event, story: &Story, texts: bool) -> (String, Value) {
    let message = message(kind, &stored(9, event), story, &settings(texts)).unwrap();
    (message.id, serde_json::from_slice(&message.body).unwrap())
}

#[test]
fn a_finished_task_is_told_without_texts_unless_they_are_asked_for() {
    let story = Story { decided: decided(), outcome: Some(outcome()) };
    let (name, said) = told(EventType::TaskFinished, judged(FeedbackSource::Verifier), &story, false);
    assert_eq!(name, "msg_00000000000000000000000000000007_finished");
    let data = json!({
        "decision_id": "00000000-0000-0000-0000-000000000007", "task_id": "t-1", "domain": "math", "tenant": "acme",
        "session": null, "arm": "large", "mode": "single", "propensity": 0.25, "status": "done", "source": "verifier",
        "score": 0.75, "reward": 0.7, "cost_usd": 0.5, "latency_ms": 12.0,
    });
    assert_eq!(said, json!({"type": "task.finished", "timestamp": "2000-02-29T00:00:00.007Z", "data": data}));
    let (same, with_texts) = told(EventType::TaskFinished, judged(FeedbackSource::Verifier), &story, true);
    assert_eq!(same, name);
    assert_eq!(with_texts["data"]["messages"], json!([{"role": "user", "content": "What is 19 plus 23?"}]));
    assert_eq!(with_texts["data"]["output"], "It is 42.");
}

#[test]
fn texts_that_are_not_kept_are_not_told() {
    let mut story = Story { decided: decided(), outcome: Some(outcome()) };
    story.decided.observed.kept = Kept::Hashed;
    story.outcome.as_mut().unwrap().kept = Kept::Erased;
    let (_, said) = told(EventType::TaskFinished, judged(FeedbackSource::Verifier), &story, true);
    assert!(said["data"].get("messages").is_none() && said["data"].get("output").is_none(), "{said}");
}

#[test]
fn each_feedback_has_an_id_of_its_own_and_an_abandoned_decision_has_one() {
    let story = Story { decided: decided(), outcome: None };
    let (name, said) = told(EventType::FeedbackGiven, judged(FeedbackSource::Thumbs), &story, true);
    assert_eq!(name, "msg_00000000000000000000000000000007_feedback_9");
    assert_eq!((&said["data"]["source"], &said["data"]["trust"]), (&json!("thumbs"), &json!(1.0)));
    let (name, said) = told(EventType::DecisionAbandoned, Event::Abandoned { decision_id: id() }, &story, true);
    assert_eq!(name, "msg_00000000000000000000000000000007_abandoned");
    assert_eq!((&said["type"], &said["data"]["arm"]), (&json!("decision.abandoned"), &json!("large")));
}

#[test]
fn a_task_is_finished_once_by_what_was_found_here_or_by_the_client_that_ran_it() {
    let ran = || Event::Ran { outcome: outcome() };
    let finishes = |events: Vec<Event>| {
        let events: Vec<_> = (1..).zip(events).map(|(seq, event)| stored(seq, event)).collect();
        finishes_at(&events)
    };
    use FeedbackSource::{Client, Failure, Judge, Thumbs, Verifier};
    assert_eq!(finishes(vec![ran(), judged(Verifier)]), Some(2));
    assert_eq!(finishes(vec![ran(), judged(Failure)]), Some(2));
    assert_eq!(finishes(vec![ran(), judged(Client), judged(Verifier)]), Some(3), "early feedback is joined first");
    assert_eq!(finishes(vec![judged(Thumbs), judged(Client), ran(), judged(Verifier)]), Some(2), "and not again");
    assert_eq!(finishes(vec![ran(), judged(Thumbs)]), None, "it waits for its verdict");
    assert_eq!(finishes(vec![judged(Judge), judged(Thumbs)]), None);
}

#[test]
fn filters_go_by_domain_and_tenant() {
    let (math, text) = (Domain::new("math").unwrap(), Domain::new("text").unwrap());
    let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("other").unwrap());
    let all = settings(false);
    assert!(all.wants(&math, None) && all.wants(&text, Some(&other)));
    let some = WebhookSettings {
        domains: Some(BTreeSet::from([math.clone()])),
        tenants: Some(BTreeSet::from([acme.clone()])),
        ..all
    };
    assert!(some.wants(&math, Some(&acme)));
    assert!(!some.wants(&text, Some(&acme)) && !some.wants(&math, Some(&other)) && !some.wants(&math, None));
}

#[test]
fn the_address_is_shown_without_its_query() {
    let shown = format!("{:?}", settings(false));
    assert!(shown.contains("https://example.com/hooks") && !shown.contains("hunter2"), "{shown}");
}
