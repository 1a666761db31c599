//! What must hold after the end of every life: nothing that was acknowledged is gone or changed, nothing is there twice, and
//! the daemon knows of its rounds exactly what its journal tells.

use std::time::Duration;

use pointsman::round::Feedback;
use serde_json::{Value, json};

use super::{
    client::Client,
    faults::Faults,
    found::Found,
    ledger::{Done, Ledger, What},
};

/// Decisions that are also asked of the daemon, after each start.
const ASKED: usize = 40;
/// Memory's cap in the harness's configuration.
const CAP: u64 = 500;

/// Everything acknowledged is in the journal with its content, and nothing is there twice. Returns how much of what was
/// acknowledged is there.
pub fn acknowledged(found: &Found, ledger: &Ledger, faults: &mut Faults) -> u64 {
    let mut there = 0;
    let mut count = |missing: Option<String>| match missing {
        Some(missing) => faults.lost(missing),
        None => there += 1,
    };
    ledger.done.iter().for_each(|(id, done)| count(done_is_missing(found, id, done)));
    for id in &ledger.routed {
        count((!found.decided.contains(id)).then(|| format!("the decision {id}")));
    }
    for (place, said) in &ledger.said {
        count(said_is_missing(found, (&place.0, &place.1), said));
    }
    let changes =
        ledger.policies.iter().map(|(what, body)| json!({"champion": *what == What::Promotion, "card": body["card"]}));
    in_order(changes, &found.policies, "policy").into_iter().for_each(&mut count);
    let changes = ledger.arms.iter().map(|patch| json!({"changed": patch}));
    in_order(changes, &found.arms, "arm").into_iter().for_each(&mut count);
    for (key, id) in &ledger.keys {
        if found.keys.get(key).is_none_or(|ids| !ids.contains(id)) {
            faults.lost(format!("the decision {id} of the key {key}"));
        }
    }
    once(found, faults);
    there
}

fn done_is_missing(found: &Found, id: &str, done: &Done) -> Option<String> {
    match found.ran.get(id).map(Vec::as_slice) {
        Some([outcome]) if outcome.output == done.output => {}
        other => return Some(format!("the outcome of {id}, {:?}: {other:?}", done.output)),
    }
    let place = (id.to_owned(), done.source.clone());
    let score = |feedback: &Feedback| (json!(feedback.score), json!(feedback.reward));
    match found.judged.get(&place).map(Vec::as_slice) {
        Some([judged]) if score(judged) == (done.score.clone(), done.reward.clone()) => None,
        other => Some(format!("the feedback of {place:?}, {done:?}: {other:?}")),
    }
}

fn said_is_missing(found: &Found, (id, source): (&String, &String), said: &Value) -> Option<String> {
    let place = &(id.clone(), source.clone());
    // The cost of early feedback, and with it its reward, becomes the outcome's.
    let early = said["status"] == "early";
    let same = |known: &Feedback| {
        json!(known.score) == said["score"]
            && (early
                || (json!(known.reward), json!(known.cost_usd)) == (said["reward"].clone(), said["cost_usd"].clone()))
    };
    let judged = found.judged.get(place).is_some_and(|all| all.iter().any(same));
    let there = judged || early && found.early.get(place).is_some_and(same);
    (!there).then(|| format!("the feedback of {place:?}, {said}: {:?}", found.judged.get(place)))
}

/// Which of the acknowledged changes are not among the journal's, in their order; others that were not answered may lie
/// between.
fn in_order(acknowledged: impl Iterator<Item = Value>, found: &[Value], what: &str) -> Vec<Option<String>> {
    let mut rest = found.iter();
    let missing = |change: Value| {
        (!rest.any(|known| contains(known, &change))).then(|| format!("the change of the {what} {change}"))
    };
    acknowledged.map(missing).collect()
}

/// Whether one value has all that the other one says.
fn contains(known: &Value, said: &Value) -> bool {
    match (known, said) {
        (Value::Object(known), Value::Object(said)) => {
            said.iter().all(|(key, said)| contains(known.get(key).unwrap_or(&Value::Null), said))
        }
        (known, said) => known == said,
    }
}

fn once(found: &Found, faults: &mut Faults) {
    for (key, ids) in found.keys.iter().filter(|(_, ids)| ids.len() > 1) {
        faults.doubled(format!("the key {key} names {ids:?}"));
    }
    for (id, outcomes) in found.ran.iter().filter(|(_, outcomes)| outcomes.len() > 1) {
        faults.doubled(format!("{id} has {} outcomes", outcomes.len()));
    }
    for (place, all) in found.judged.iter().filter(|(_, all)| all.len() > 1) {
        let mut keys: Vec<_> = all.iter().map(|feedback| &feedback.idempotency_key).collect();
        keys.sort();
        keys.dedup();
        // Only other keys let a source judge twice.
        if keys.len() < all.len() {
            faults.doubled(format!("{place:?} has {} feedbacks", all.len()));
        }
    }
    for (lesson, count) in found.lessons.iter().filter(|(_, count)| **count > 1) {
        faults.doubled(format!("{lesson:?} is learnt from {count} times"));
    }
    for lesson in found.scored.iter().filter(|lesson| !found.lessons.contains_key(*lesson)) {
        faults.lost(format!("the lesson of {lesson:?}"));
    }
    if found.went_back > 0 {
        faults.other(format!("the journal's time goes back {} times", found.went_back));
    }
    for unsound in &found.unsound {
        faults.other(format!("journal verify: {unsound}"));
    }
}

/// The daemon knows what its journal tells.
pub async fn recovered(client: &Client, found: &Found, ledger: &Ledger, faults: &mut Faults) {
    let (verified, both) = found.learnt();
    let (Some((_, regret)), Some((_, policies))) = (client.get("/v1/regret").await, client.get("/v1/policies").await)
    else {
        return faults.other("the daemon does not answer after its start".into());
    };
    let counts = [
        ("regret's rounds", &regret["rounds"], verified),
        ("learnt rounds", &policies["learnt_rounds"], both),
        ("memory's entries", &regret["memory"]["entries"], verified.min(CAP)),
        ("entries that memory lacks", &regret["memory"]["behind"], 0),
    ];
    for (what, known, told) in counts {
        if known.as_u64() != Some(told) {
            faults.other(format!("{what}: {known}, the journal tells {told}"));
        }
    }
    let card = policies["champion"]["card"].as_str().and_then(|label| label.split('@').next());
    let told = found.champion.as_deref().unwrap_or("default");
    if card != Some(told) {
        faults.other(format!("{card:?} decides, the journal tells {told}"));
    }
    // Every so many of all acknowledged answers, and so other ones after each start.
    let every = (ledger.done.len() / ASKED).max(1);
    for (id, done) in ledger.done.iter().skip(found.events as usize % every).step_by(every) {
        let Some((_, why)) = client.get(&format!("/v1/decisions/{id}")).await else {
            faults.other(format!("no answer to what became of {id}"));
            continue;
        };
        let feedback = why["feedback"].as_array().into_iter().flatten().filter(|known| known["source"] == *done.source);
        let scores: Vec<_> = feedback.map(|known| &known["score"]).collect();
        if why["outcome"]["output"] != done.output || scores != [&done.score] {
            faults.lost(format!("{id} as the daemon tells it: {}, {scores:?}", why["outcome"]));
        }
    }
}

/// Waits until the daemon has learnt what its journal has; returns the hash of what it learnt.
pub async fn learnt_all(client: &Client) -> Option<String> {
    let mut before = None;
    // All requests are answered, so the state stands still once the learner is level.
    for _ in 0..500 {
        let now = (client.get("/v1/regret").await?.1["memory"].clone(), client.state_hash().await?);
        if now.0["behind"] == 0 && before.as_ref() == Some(&now) {
            return Some(now.1);
        }
        before = Some(now);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    None
}
