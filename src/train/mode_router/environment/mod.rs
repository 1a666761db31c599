//! What a mode-router is trained in: queries, and for each a world that answers its calls.

use std::sync::Arc;

use crate::{
    action::policy::mode_router::{Descriptor, Seen},
    grammar::{Answer, Episode, Request},
};

/// One task to practise on.
#[derive(Debug, Clone)]
pub struct Query {
    /// Its id: what is drawn for it depends on this and a seed alone.
    pub id: Arc<str>,
    /// Its text, for policies that read text.
    pub text: Arc<str>,
    /// Its domain, by place in [`Environment::domains`].
    pub domain: usize,
    /// Its embedding, of unit length.
    pub embedding: Arc<[f32]>,
    /// The workers as they are seen for this query, in the environment's order.
    pub workers: Arc<[Descriptor]>,
}

/// How a trajectory went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The answer's score in [0, 1].
    pub score: f64,
    /// Dollars of all calls; none where that is not known for one of them.
    pub cost_usd: Option<f64>,
    /// Milliseconds, calls side by side counted once; 0 where unknown.
    pub latency_ms: f64,
}

/// A call that failed for reasons of its own: the trajectory is no evidence of anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// Queries and their worlds. The same (query, seed) gives the same world, bit for bit.
pub trait Environment: Send + Sync {
    /// The names of the domains.
    fn domains(&self) -> &[String];
    /// The names of the workers.
    fn workers(&self) -> &[String];
    /// All queries.
    fn queries(&self) -> &[Query];
    /// The world of a query, as every rollout of one group shares it.
    fn world(&self, query: usize, seed: u64) -> Box<dyn World + '_>;
}

/// One query's world. Calls change nothing in it, so that rollouts of a group can take turns.
pub trait World: Send + Sync {
    /// Makes the calls `requests`, the last of `episode`'s nodes, whose refs are places of earlier nodes; tells what is seen
    /// of each. Worker places are in the environment's order.
    fn run(&self, episode: &Episode, requests: &[Request]) -> Result<Vec<Seen>, Failed>;
    /// What a finished trajectory came to. `refs` has the refs of every node, in order.
    fn close(&self, episode: &Episode, refs: &[Vec<usize>], answer: &Answer) -> Result<Outcome, Failed>;
}
