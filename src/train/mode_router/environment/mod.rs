//! What a mode-router is trained in: queries, and for each a world that answers its calls.

mod matrix;
mod pool;
mod toy;

use std::{ops::Range, sync::Arc};

pub use matrix::{Matrix, MatrixError, VerifierSettings, Worth};
pub use pool::Pool;
pub use toy::Toy;

use crate::{
    action::policy::mode_router::{Descriptor, Seen},
    grammar::{Request, Role},
};

/// One task to practise on.
#[derive(Debug, Clone)]
pub struct Query {
    /// Its id: what is drawn for it depends on this and a seed alone.
    pub id: Arc<str>,
    /// Its text, for policies that read text.
    pub text: Arc<str>,
    /// The pool of workers whose it is: what a trajectory usually costs is told for each apart.
    pub pool: usize,
    /// Its domain, by place in [`Environment::domains`].
    pub domain: usize,
    /// Its embedding, of unit length.
    pub embedding: Arc<[f32]>,
    /// The workers as they are seen for this query, in the environment's order.
    pub workers: Arc<[Descriptor]>,
}

/// A call of a trajectory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The worker, in the environment's order.
    pub worker: usize,
    /// Its part; none in single and multi.
    pub role: Option<Role>,
    /// The earlier calls that it saw.
    pub refs: Vec<usize>,
    /// The layer that it ran in.
    pub layer: usize,
}

impl Made {
    /// The calls of one layer, as a policy asks for them that knows the workers in an order of its own.
    pub fn all<'c>(calls: &'c [Request], order: &'c [usize], layer: usize) -> impl Iterator<Item = Self> + 'c {
        calls.iter().map(move |call| Self {
            worker: order[call.worker],
            role: call.role,
            refs: call.refs.clone(),
            layer,
        })
    }
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

/// A call failed for reasons of its own: the trajectory is no evidence of anything.
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

/// One query's world. Calls change nothing in it.
pub trait World: Send + Sync {
    /// What is seen of the calls `new` of `made`, which ends with them.
    fn run(&self, made: &[Made], new: Range<usize>) -> Result<Vec<Seen>, Failed>;
    /// What a trajectory came to that ended with the output of call `answer`.
    fn close(&self, made: &[Made], answer: usize) -> Result<Outcome, Failed>;
}
