//! kNN retrieval: the arm with the highest mean reward on the most similar known tasks.
//!
//! Reference: the retrieval router of Agent-as-a-Router (arXiv 2606.22902); Hu et al., RouterBench, 2024 (kNN router).

use super::{Judge, Known, means};
use crate::round::{Context, Embedding};

/// Neighbours: RouterBench's kNN is best at 10 to 40, and one of ten is still a tenth of the vote.
const NEIGHBOURS: usize = 20;

pub(super) struct KnnRetrieval {
    arms: usize,
    tasks: Vec<(Embedding, Vec<f64>)>,
}

impl KnnRetrieval {
    pub fn fit(known: &Known) -> Self {
        let tasks = known.tasks.iter().map(|task| (task.embedding.clone(), task.rewards.clone())).collect();
        Self { arms: known.arms.len(), tasks }
    }
}

impl Judge for KnnRetrieval {
    fn scores(&self, context: &Context) -> Vec<f64> {
        let mut near: Vec<(f32, usize)> =
            self.tasks.iter().zip(0..).map(|((text, _), place)| (context.embedding.cosine(text), place)).collect();
        let order = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if near.len() > NEIGHBOURS {
            near.select_nth_unstable_by(NEIGHBOURS - 1, order);
            near.truncate(NEIGHBOURS);
        }
        // Sums depend on their order.
        near.sort_by(order);
        means(self.arms, near.iter().map(|(_, place)| self.tasks[*place].1.as_slice()))
    }
}
