//! DimensionBest: in each domain the arm with the highest mean score on the known tasks.
//!
//! Reference: Agent-as-a-Router (arXiv 2606.22902), its strongest static baseline.

use std::collections::BTreeMap;

use super::{Judge, Known, means};
use crate::round::{Context, Domain};

pub(super) struct DimensionBest {
    domains: BTreeMap<Domain, Vec<f64>>,
    everywhere: Vec<f64>,
}

impl DimensionBest {
    pub fn fit(known: &Known) -> Self {
        let arms = known.arms.len();
        let mut domains: BTreeMap<Domain, Vec<&[f64]>> = BTreeMap::new();
        for task in &known.tasks {
            domains.entry(task.domain.clone()).or_default().push(&task.scores);
        }
        let of_domain = |(domain, scores): (Domain, Vec<&[f64]>)| (domain, means(arms, scores.into_iter()));
        Self {
            domains: domains.into_iter().map(of_domain).collect(),
            everywhere: means(arms, known.tasks.iter().map(|task| task.scores.as_slice())),
        }
    }
}

impl Judge for DimensionBest {
    fn scores(&self, context: &Context) -> Vec<f64> {
        self.domains.get(&context.domain).unwrap_or(&self.everywhere).clone()
    }
}
