//! A candidate in its context as a short vector: what the linear policies regress on.
//!
//! Intercept, one-hot of the domain, a random projection of the embedding, then what is known of the candidate (its
//! prior, its recall, its price). A linear bandit pays for every dimension with exploration, so the embedding's hundreds
//! of dimensions are projected to `text_dimensions` (Johnson and Lindenstrauss): p_j = sum_i s_ij x_i / sqrt(dimensions)
//! with random signs s_ij, which keeps inner products within about 1 / sqrt(dimensions). The signs are a hash of the seed
//! and the coordinate, so no matrix is stored and any embedding model fits. Domains get their slot when first
//! learnt; when all are taken, or the domain is new, the one-hot is zero and the intercept speaks.
//!
//! Reference: Achlioptas, Database-friendly random projections, 2003.

use std::{collections::BTreeMap, sync::Arc};

use ndarray::{Array1, s};
use serde::Deserialize;
use serde_json::Value;

use super::{
    LearntRound,
    state::{StateError, read, write},
};
use crate::round::{Candidate, Context, Domain};

/// The most dimensions of the projected embedding: one bit of a hash each.
pub(super) const TEXT_DIMENSIONS_MAX: usize = 64;
/// Domains with a slot of their own.
const DOMAIN_SLOTS: usize = 16;
/// Dimensions of what is known of the candidate.
const ARM_DIMENSIONS: usize = 3;
/// Neighbours of similarity 1 at which a candidate's recall counts for half.
const RECALL_MASS: f64 = 5.0;

/// What the vectors hold.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSettings {
    /// Length of the domain's part, in [0, 10]; the intercept's is 1. Smaller shrinks more.
    pub domain_scale: f64,
    /// Length of the projected embedding, in [0, 10]; 0 leaves the text out.
    pub text_scale: f64,
    /// Dimensions of the projected embedding, 1 to 64.
    pub text_dimensions: usize,
    /// Length of what is known of the candidate, in [0, 10]; 0 leaves it out.
    pub arm_scale: f64,
    /// Seeds the projection's signs.
    pub projection_seed: u64,
}

/// Turns contexts into vectors.
#[derive(Debug, Clone)]
pub(super) struct Features {
    settings: FeatureSettings,
    slots: Arc<BTreeMap<Domain, usize>>,
}

impl Features {
    pub(super) fn new(settings: FeatureSettings) -> Self {
        Self { settings, slots: Arc::default() }
    }

    /// Dimensions of a vector.
    pub(super) fn dimensions(&self) -> usize {
        1 + DOMAIN_SLOTS + self.settings.text_dimensions + ARM_DIMENSIONS
    }

    /// Gives a domain its slot, if one is free.
    fn learn(&mut self, domain: &Domain) {
        let slot = self.slots.len();
        if slot < DOMAIN_SLOTS && !self.slots.contains_key(domain) {
            Arc::make_mut(&mut self.slots).insert(domain.clone(), slot);
        }
    }

    /// The part that all candidates of a context share; [`Features::complete`] adds the rest.
    pub(super) fn shared(&self, context: &Context) -> Array1<f64> {
        let FeatureSettings { domain_scale, text_scale, projection_seed, text_dimensions, .. } = self.settings;
        let mut vector = Array1::zeros(self.dimensions());
        vector[0] = 1.0;
        if let Some(slot) = self.slots.get(&context.domain) {
            vector[1 + slot] = domain_scale;
        }
        if text_scale > 0.0 {
            let projected = project(projection_seed, context.embedding.as_slice(), text_dimensions);
            for (target, value) in vector.slice_mut(s![1 + DOMAIN_SLOTS..]).iter_mut().zip(projected) {
                *target = text_scale * f64::from(value);
            }
        }
        vector
    }

    /// The vector of the candidate that a round took, whose domain gets its slot; None when it is no candidate.
    pub(super) fn learnt(&mut self, round: &LearntRound<'_>) -> Option<Array1<f64>> {
        let candidate = &round.context.candidates[round.place()?];
        self.learn(&round.context.domain);
        let mut vector = self.shared(round.context);
        self.complete(&mut vector, round.context, candidate);
        Some(vector)
    }

    /// Writes what is known of one candidate into the shared vector: how far its prior is from a half, how far its recall
    /// is from its prior (shrunk when few neighbours tried it), and its price as a share of the dearest one's.
    pub(super) fn complete(&self, vector: &mut Array1<f64>, context: &Context, candidate: &Candidate) {
        let scale = self.settings.arm_scale;
        if scale == 0.0 {
            return;
        }
        let features = &candidate.features;
        let dearest_usd = context.candidates.iter().map(|candidate| candidate.cost_usd).fold(0.0, f64::max);
        let [prior, recall, mass] = [features.prior_mean, features.recall_mean, features.recall_mass].map(f64::from);
        // A journal from before these features has none.
        let prior = if prior == 0.0 && features.prior_rounds == 0.0 { 0.5 } else { prior };
        let known = [
            prior - 0.5,
            (recall - prior) * mass / (mass + RECALL_MASS),
            if dearest_usd > 0.0 { candidate.cost_usd / dearest_usd } else { 0.0 },
        ];
        let start = self.dimensions() - ARM_DIMENSIONS;
        known.into_iter().zip(vector.slice_mut(s![start..])).for_each(|(known, target)| *target = scale * known);
    }

    pub(super) fn state(&self) -> Value {
        write(&*self.slots)
    }

    pub(super) fn restore(&mut self, state: &Value) -> Result<(), StateError> {
        let slots: BTreeMap<Domain, usize> = read(state)?;
        let mut taken: Vec<usize> = slots.values().copied().collect();
        taken.sort_unstable();
        if !taken.iter().copied().eq(0..slots.len()) || slots.len() > DOMAIN_SLOTS {
            return Err(StateError::Shape("the domains' slots".into()));
        }
        self.slots = Arc::new(slots);
        Ok(())
    }
}

fn project(seed: u64, embedding: &[f32], dimensions: usize) -> Vec<f32> {
    let mut projected = vec![0.0; dimensions.min(TEXT_DIMENSIONS_MAX)];
    for (coordinate, x) in (0_u64..).zip(embedding) {
        let signs = split_mix(seed ^ coordinate.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for (bit, sum) in projected.iter_mut().enumerate() {
            // Flipping the float's sign bit instead of branching on it: half of the branches would be mispredicted.
            *sum += f32::from_bits(x.to_bits() ^ ((((signs >> bit) & 1) as u32) << 31));
        }
    }
    let length = (dimensions as f32).sqrt();
    projected.iter_mut().for_each(|sum| *sum /= length);
    projected
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn split_mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(number: u64) -> Vec<f32> {
        let raw: Vec<f32> =
            (0..384_u64).map(|i| (split_mix(number * 1_000 + i) >> 40) as f32 / 8_388_608.0 - 1.0).collect();
        let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
        raw.iter().map(|x| x / length).collect()
    }

    #[test]
    fn the_projection_keeps_lengths_on_average() {
        let squares: Vec<f32> = (0..200).map(|n| project(7, &unit(n), 16).iter().map(|x| x * x).sum()).collect();
        let mean = squares.iter().sum::<f32>() / 200.0;
        assert!((mean - 1.0).abs() < 0.1, "mean squared length {mean}");
    }

    #[test]
    fn the_projection_depends_on_the_seed_alone() {
        assert_eq!(project(7, &unit(1), 16), project(7, &unit(1), 16));
        assert_ne!(project(7, &unit(1), 16), project(8, &unit(1), 16));
    }
}
