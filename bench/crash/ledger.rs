//! What the client knows: what it asked, what was acknowledged, and what got no answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{client::Answer, faults::Faults};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Task,
    Route,
    Feedback,
    /// A policy that is to decide.
    Promotion,
    /// A policy that is to be on trial, or none.
    Trial,
    /// A change of the arm `bad`.
    Arm,
}

impl What {
    pub fn path(self) -> &'static str {
        match self {
            Self::Task => "/v1/tasks",
            Self::Route => "/v1/route",
            Self::Feedback => "/v1/feedback",
            Self::Promotion => "/v1/policies/promote",
            Self::Trial => "/v1/policies/shadow",
            Self::Arm => "/v1/arms/bad",
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub number: u64,
    pub what: What,
    pub body: Value,
}

impl Asked {
    /// The key under which it may be sent again.
    pub fn key(&self) -> Option<&str> {
        self.body["idempotency_key"].as_str()
    }

    /// Whether sending it again cannot do it twice.
    pub fn is_repeatable(&self) -> bool {
        match self.what {
            What::Task | What::Route => self.key().is_some(),
            // A source judges a decision once, with a key or without.
            What::Feedback => true,
            What::Promotion | What::Trial | What::Arm => false,
        }
    }
}

/// An answered task.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub output: String,
    pub source: String,
    pub score: Value,
    pub reward: Value,
}

/// All that the client knows.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Answered tasks by decision.
    pub done: BTreeMap<String, Done>,
    /// Decisions that were answered to `/v1/route`.
    pub routed: BTreeSet<String>,
    /// The decision that each acknowledged key names.
    pub keys: BTreeMap<String, String>,
    /// Acknowledged feedback by decision, source and key; the key is empty where there was none.
    pub said: BTreeMap<(String, String, String), Value>,
    /// Routed decisions that nobody has judged yet.
    pub open: Vec<String>,
    /// Acknowledged changes of policies: role, card and policy, oldest first.
    pub policies: Vec<(What, Value)>,
    /// Acknowledged changes of the arm.
    pub arms: Vec<Value>,
    /// Answers that refused, by problem; the daemon may do that, but says why.
    pub refused: BTreeMap<String, u64>,
    pub acknowledged: u64,
    /// Answers that break a promise by themselves.
    pub faults: Faults,
    waiting: BTreeMap<u64, Asked>,
    next: u64,
}

impl Ledger {
    /// Notes a request that is about to be sent.
    pub fn ask(&mut self, what: What, body: Value) -> Asked {
        self.next += 1;
        let asked = Asked { number: self.next, what, body };
        self.waiting.insert(asked.number, asked.clone());
        asked
    }

    /// How many different things are acknowledged.
    pub fn held(&self) -> u64 {
        let all = [self.done.len(), self.routed.len(), self.said.len(), self.policies.len(), self.arms.len()];
        all.into_iter().sum::<usize>() as u64
    }

    /// Requests without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = &Asked> {
        self.waiting.values()
    }

    /// The same, which from now on are forgotten.
    pub fn take_unanswered(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// Notes an answer. One that breaks a promise by itself is a fault.
    pub fn answered(&mut self, asked: &Asked, answer: Answer) {
        let Some((status, body)) = answer else {
            self.waiting.insert(asked.number, asked.clone());
            return;
        };
        self.waiting.remove(&asked.number);
        if status != 200 {
            let problem = body["type"].as_str().unwrap_or("no problem document").to_owned();
            *self.refused.entry(problem).or_default() += 1;
            return;
        }
        self.acknowledged += 1;
        match asked.what {
            What::Task => self.done(asked, &body),
            What::Route => self.routed(asked, &body),
            What::Feedback => self.judged(asked, &body),
            What::Promotion | What::Trial => self.policies.push((asked.what, asked.body.clone())),
            What::Arm => self.arms.push(asked.body.clone()),
        }
    }

    fn done(&mut self, asked: &Asked, body: &Value) {
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let id = text("decision_id");
        self.name(asked, &id);
        let done = Done {
            output: text("output"),
            source: text("source"),
            score: body["score"].clone(),
            reward: body["reward"].clone(),
        };
        if let Some(before) = self.done.insert(id.clone(), done.clone())
            && before != done
        {
            self.faults.lost(format!("{id} was answered with {before:?}, and now with {done:?}"));
        }
    }

    fn routed(&mut self, asked: &Asked, body: &Value) {
        let id = body["decision_id"].as_str().unwrap_or_default().to_owned();
        self.name(asked, &id);
        if self.routed.insert(id.clone()) {
            self.open.push(id);
        }
    }

    fn name(&mut self, asked: &Asked, id: &str) {
        let Some(key) = asked.key() else { return };
        if let Some(before) = self.keys.insert(key.to_owned(), id.to_owned())
            && before != id
        {
            self.faults.doubled(format!("the key {key} named {before}, and now {id}"));
        }
    }

    fn judged(&mut self, asked: &Asked, body: &Value) {
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let key = asked.key().unwrap_or_default().to_owned();
        let (place, status) = ((text("decision_id"), text("source"), key), text("status"));
        match self.said.get(&place) {
            Some(_) if status == "stored" => {
                self.faults.doubled(format!("{place:?} was stored before, and is stored again"));
            }
            // What comes back for a duplicate without a key is what was said now, not what counts.
            Some(_) => {}
            // Of a duplicate that the client did not hear of before only the journal knows the content.
            None if status == "duplicate" => {}
            None => {
                self.said.insert(place, body.clone());
            }
        }
    }
}
