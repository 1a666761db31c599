//! ACRouter's ensemble, frozen: in each domain the voter whose picks did best on held-out tasks decides.
//!
//! Its voters are fitted on the known tasks but the last seventh; there each one's picks are scored, per domain; then all are
//! fitted again on everything that is known.
//!
//! Reference: Agent-as-a-Router (arXiv 2606.22902), its voter selection per dimension on a tuning split.

use std::{collections::BTreeMap, sync::Arc};

use super::{Judge, Known, RouterError, highest, judge};
use crate::round::{Context, Domain};

const VOTERS: [&str; 5] = ["dimension_best", "knn_retrieval", "logreg", "tfidf_mlp", "routellm_mf"];
/// One task in so many is held out, the last ones: train and val are 6,067 and 1,013 tasks.
const HELD_OUT_ONE_IN: usize = 7;

pub(super) struct Ensemble {
    voters: Vec<Arc<dyn Judge>>,
    chosen: BTreeMap<Domain, usize>,
    /// For a domain without held-out tasks.
    everywhere: usize,
}

impl Ensemble {
    pub fn fit(known: &Known) -> Result<Self, RouterError> {
        let seen = known.tasks.len() - known.tasks.len() / HELD_OUT_ONE_IN;
        let (seen, held_out) = known.tasks.split_at(seen);
        let seen = Known { arms: known.arms.clone(), tasks: seen.to_vec() };
        let mut sums: BTreeMap<Domain, Vec<f64>> = BTreeMap::new();
        let mut all = vec![0.0; VOTERS.len()];
        for (place, voter) in VOTERS.iter().enumerate() {
            let voter = judge(voter, &seen)?;
            for task in held_out {
                let mut context = Context::new(task.embedding.clone(), task.domain.clone(), Vec::new());
                context.text = task.text.clone();
                let score = task.scores[highest(&voter.scores(&context))];
                all[place] += score;
                sums.entry(task.domain.clone()).or_insert_with(|| vec![0.0; VOTERS.len()])[place] += score;
            }
        }
        let voters = VOTERS.iter().map(|voter| judge(voter, known)).collect::<Result<_, _>>()?;
        let chosen = sums.into_iter().map(|(domain, sums)| (domain, highest(&sums))).collect();
        Ok(Self { voters, chosen, everywhere: highest(&all) })
    }
}

impl Judge for Ensemble {
    fn scores(&self, context: &Context) -> Vec<f64> {
        self.voters[self.chosen.get(&context.domain).copied().unwrap_or(self.everywhere)].scores(context)
    }
}
