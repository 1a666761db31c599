//! Several environments as one: a policy that is trained on all of them serves each of their pools.

use super::{Environment, Query, World};

/// Environments, each with workers and domains of its own.
pub struct Pool<'a> {
    parts: Vec<&'a dyn Environment>,
    domains: Vec<String>,
    workers: Vec<String>,
    queries: Vec<Query>,
    /// Of each query, whose it is and its place there.
    places: Vec<(usize, usize)>,
}

impl<'a> Pool<'a> {
    /// Puts them together.
    pub fn new(parts: Vec<&'a dyn Environment>) -> Self {
        let mut pool = Self { domains: vec![], workers: vec![], queries: vec![], places: vec![], parts };
        for (part, environment) in pool.parts.iter().enumerate() {
            let first = pool.domains.len();
            pool.domains.extend(environment.domains().iter().cloned());
            pool.workers.extend(environment.workers().iter().cloned());
            for (place, query) in environment.queries().iter().enumerate() {
                pool.queries.push(Query { pool: part, domain: first + query.domain, ..query.clone() });
                pool.places.push((part, place));
            }
        }
        pool
    }
}

impl Environment for Pool<'_> {
    fn domains(&self) -> &[String] {
        &self.domains
    }

    /// All of them; a query's own are as many as it describes.
    fn workers(&self) -> &[String] {
        &self.workers
    }

    fn queries(&self) -> &[Query] {
        &self.queries
    }

    fn world(&self, query: usize, seed: u64) -> Box<dyn World + '_> {
        let (part, place) = self.places[query];
        self.parts[part].world(place, seed)
    }
}
