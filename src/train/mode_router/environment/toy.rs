//! A toy in which every mode is best somewhere: what progressive exploration is for can be seen in it within a minute.
//!
//! Three kinds of task, four workers. The score of a trajectory is 1 with the probability of its mode on its kind of task, times the part of its
//! calls that went to the right worker, which differs by mode and kind. A policy that knows all of it scores .883; one that only ever
//! makes single calls, at most .533.

use std::{ops::Range, sync::Arc};

use super::{Environment, Failed, Made, Outcome, Query, World};
use crate::{
    action::policy::mode_router::{Descriptor, EMBEDDING, Seen},
    grammar::Role,
    train::mode_router::rollout::stream,
};
use rand::Rng;

const KINDS: usize = 3;
const WORKERS: usize = 4;
/// The probability of success by kind of task and mode: single, multi, agentic.
const BASE: [[f64; 3]; KINDS] = [[0.90, 0.70, 0.50], [0.40, 0.85, 0.60], [0.30, 0.50, 0.90]];

/// The toy.
pub struct Toy {
    domains: Vec<String>,
    workers: Vec<String>,
    queries: Vec<Query>,
}

impl Toy {
    /// The score of a policy that knows all of it.
    pub const OPTIMUM: f64 = (0.90 + 0.85 + 0.90) / 3.0;

    /// So many queries.
    pub fn new(queries: usize) -> Self {
        let query = |n: usize| {
            let kind = n % KINDS;
            let mut embedding = vec![0.0; EMBEDDING];
            embedding[kind] = 1.0;
            // Workers are told apart by what they are described by.
            let worker = |worker: usize| Descriptor {
                domain_mean: if worker == 0 { 1.0 } else { 0.0 },
                mean: if worker == 1 { 1.0 } else { 0.0 },
                log_output_tokens: if worker == 2 { 1.0 } else { 0.0 },
                ..Descriptor::default()
            };
            Query {
                pool: 0,
                id: format!("toy-{n}").into(),
                text: format!("kind {kind}").into(),
                domain: kind,
                embedding: embedding.into(),
                workers: (0..WORKERS).map(worker).collect(),
            }
        };
        Self {
            domains: (0..KINDS).map(|kind| format!("kind-{kind}")).collect(),
            workers: (0..WORKERS).map(|worker| format!("worker-{worker}")).collect(),
            queries: (0..queries).map(query).collect(),
        }
    }
}

impl Environment for Toy {
    fn domains(&self) -> &[String] {
        &self.domains
    }

    fn workers(&self) -> &[String] {
        &self.workers
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn world(&self, query: usize, seed: u64) -> Box<dyn World + '_> {
        let id = Arc::clone(&self.queries[query].id);
        // One coin for the group: better plays succeed wherever worse ones do.
        let coin = stream(&[b"toy", &seed.to_le_bytes(), id.as_bytes()]).random::<f64>();
        Box::new(ToyWorld { kind: query % KINDS, coin })
    }
}

struct ToyWorld {
    kind: usize,
    coin: f64,
}

impl ToyWorld {
    fn mode(made: &[Made]) -> usize {
        match made {
            [Made { role: None, .. }] => 0,
            [Made { role: None, .. }, ..] | [] => 1,
            [Made { role: Some(Role::Planner | Role::Executor | Role::Verifier | Role::Summarizer), .. }, ..] => 2,
        }
    }
}

impl World for ToyWorld {
    fn run(&self, _made: &[Made], new: Range<usize>) -> Result<Vec<Seen>, Failed> {
        Ok(vec![Seen::Nothing; new.len()])
    }

    fn close(&self, made: &[Made], _answer: usize) -> Result<Outcome, Failed> {
        let mode = Self::mode(made);
        let wanted = (self.kind + mode) % WORKERS;
        let right = made.iter().filter(|call| call.worker == wanted).count() as f64 / made.len().max(1) as f64;
        let score = f64::from(u8::from(self.coin < BASE[self.kind][mode] * right));
        Ok(Outcome { score, cost_usd: Some(made.len() as f64), latency_ms: 0.0 })
    }
}
