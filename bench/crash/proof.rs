//! What must hold after every kill: nothing that was acknowledged is gone or changed, nothing is there twice, and the
//! daemon knows of its rounds exactly what its journal tells.
//!
//! The journal is read from a copy of the files as the kill left them, so that it is the daemon, and not the proof, that
//! recovers them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use pointsman::{
    journal::{Event, JournalReader, PolicyRole},
    round::{Channel, Feedback, Outcome},
};
use serde_json::{Value, json};

use super::{
    client::Client,
    faults::Faults,
    ledger::{Ledger, What},
};

const MODEL: &str = "all-MiniLM-L6-v2";
/// Events read at a time.
const PAGE: i64 = 2_000;
/// Decisions that are also asked of the daemon, after each start.
const ASKED: usize = 40;
/// Memory's cap in the harness's configuration.
const CAP: u64 = 500;

/// What a journal holds.
#[derive(Debug, Default)]
pub struct Found {
    pub events: u64,
    /// By idempotency key.
    pub keys: BTreeMap<String, Vec<String>>,
    pub decided: BTreeSet<String>,
    pub ran: BTreeMap<String, Vec<Outcome>>,
    /// By decision and source.
    pub judged: BTreeMap<(String, String), Vec<Feedback>>,
    pub early: BTreeMap<(String, String), Feedback>,
    /// Lessons by decision and whether they are verified.
    lessons: BTreeMap<(String, bool), u64>,
    scored: BTreeSet<(String, bool)>,
    policies: Vec<Value>,
    champion: Option<String>,
    arms: Vec<Value>,
    last_ms: i64,
    went_back: u64,
}

impl Found {
    /// Lessons learnt: of the verified channel, and of both.
    fn learnt(&self) -> (u64, u64) {
        let verified = self.lessons.keys().filter(|(_, verified)| *verified).count();
        (verified as u64, self.lessons.len() as u64)
    }

    fn take(&mut self, stored: pointsman::journal::Stored) {
        self.events += 1;
        self.went_back += u64::from(stored.at_ms < self.last_ms);
        self.last_ms = stored.at_ms;
        match stored.event {
            Event::Decided { task, decision, .. } => {
                let id = decision.id.to_string();
                if let Some(key) = &task.idempotency_key {
                    self.keys.entry(key.to_string()).or_default().push(id.clone());
                }
                self.decided.insert(id);
            }
            Event::Ran { outcome } => self.ran.entry(outcome.decision_id.to_string()).or_default().push(outcome),
            Event::Judged { feedback } => {
                let id = feedback.decision_id.to_string();
                let lesson = (id.clone(), feedback.source.channel() == Channel::Verified);
                if feedback.score.is_some() {
                    self.scored.insert(lesson.clone());
                }
                if stored.learns {
                    *self.lessons.entry(lesson).or_default() += 1;
                }
                self.judged.entry((id, feedback.source.as_str().into())).or_default().push(feedback);
            }
            Event::Early { feedback } => {
                let place = (feedback.decision_id.to_string(), feedback.source.as_str().into());
                self.early.insert(place, feedback);
            }
            Event::PolicyChanged { change } => {
                if change.role == PolicyRole::Champion {
                    self.champion = Some(change.name.clone());
                }
                let card = change.card.is_some().then_some(change.name);
                self.policies.push(json!({"champion": change.role == PolicyRole::Champion, "card": card}));
            }
            Event::ArmChanged { change, .. } => self.arms.push(serde_json::to_value(change).unwrap_or_default()),
            Event::Abandoned { .. }
            | Event::MemoryRestored { .. }
            | Event::SnapshotChanged { .. }
            | Event::VerifierChanged { .. }
            | Event::Erased { .. }
            | Event::Compacted { .. } => {}
        }
    }
}

/// Reads what a kill left. A journal that is not there yet holds nothing.
pub async fn read_journal(folder: &Path) -> Result<Found, String> {
    let (data, copy) = (folder.join("data"), folder.join("copy"));
    let mut found = Found::default();
    if !data.join("journal.sqlite").exists() {
        return Ok(found);
    }
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy).map_err(|error| error.to_string())?;
    for name in ["journal.sqlite", "journal.sqlite-wal"] {
        if data.join(name).exists() {
            fs::copy(data.join(name), copy.join(name)).map_err(|error| error.to_string())?;
        }
    }
    let open = JournalReader::open(&copy.join("journal.sqlite"), MODEL).await;
    let journal = open.map_err(|error| error.to_string())?;
    let mut after = 0;
    loop {
        let page = journal.after(after, PAGE).await.map_err(|error| error.to_string())?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        page.into_iter().for_each(|stored| found.take(stored));
    }
    journal.close_reader().await;
    Ok(found)
}

/// Everything acknowledged is in the journal with its content, and nothing is there twice.
pub fn acknowledged(found: &Found, ledger: &Ledger, faults: &mut Faults) {
    for (id, done) in &ledger.done {
        match found.ran.get(id).map(Vec::as_slice) {
            Some([outcome]) if outcome.output == done.output => {}
            other => faults.lost(format!("the outcome of {id}, {:?}: {other:?}", done.output)),
        }
        let place = (id.clone(), done.source.clone());
        let score = |feedback: &Feedback| (json!(feedback.score), json!(feedback.reward));
        match found.judged.get(&place).map(Vec::as_slice) {
            Some([judged]) if score(judged) == (done.score.clone(), done.reward.clone()) => {}
            other => faults.lost(format!("the feedback of {place:?}, {done:?}: {other:?}")),
        }
    }
    for id in ledger.routed.iter().filter(|id| !found.decided.contains(*id)) {
        faults.lost(format!("the decision {id}"));
    }
    for (key, id) in &ledger.keys {
        if found.keys.get(key).is_none_or(|ids| !ids.contains(id)) {
            faults.lost(format!("the decision {id} of the key {key}"));
        }
    }
    for ((id, source, _), said) in &ledger.said {
        let place = &(id.clone(), source.clone());
        // The cost of early feedback, and with it its reward, becomes the outcome's.
        let early = said["status"] == "early";
        let same = |known: &Feedback| {
            json!(known.score) == said["score"]
                && (early
                    || (json!(known.reward), json!(known.cost_usd))
                        == (said["reward"].clone(), said["cost_usd"].clone()))
        };
        let judged = found.judged.get(place).is_some_and(|all| all.iter().any(same));
        if !(judged || early && found.early.get(place).is_some_and(same)) {
            faults.lost(format!("the feedback of {place:?}, {said}: {:?}", found.judged.get(place)));
        }
    }
    let changes =
        ledger.policies.iter().map(|(what, body)| json!({"champion": *what == What::Promotion, "card": body["card"]}));
    in_order(changes, &found.policies, "policy", faults);
    let changes = ledger.arms.iter().map(|patch| json!({"changed": patch}));
    in_order(changes, &found.arms, "arm", faults);
    once(found, faults);
}

/// Acknowledged changes are among the journal's, in their order; others that were not answered may lie between.
fn in_order(acknowledged: impl Iterator<Item = Value>, found: &[Value], what: &str, faults: &mut Faults) {
    let mut rest = found.iter();
    for change in acknowledged {
        if !rest.any(|known| contains(known, &change)) {
            faults.lost(format!("the change of the {what} {change}"));
            return;
        }
    }
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
        let Some((_, why)) = client.get(&format!("/v1/decisions/{id}")).await else { continue };
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
