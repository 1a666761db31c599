//! A context as a short vector: intercept, one-hot of the domain, and a random projection of the embedding.
//!
//! A linear bandit pays for every dimension with exploration, so the embedding's hundreds of dimensions are projected
//! to [`PROJECTED`] (Johnson and Lindenstrauss): p_j = sum_i s_ij x_i / sqrt(PROJECTED) with random signs s_ij, which
//! keeps inner products within about 1 / sqrt(PROJECTED). The signs are a hash of the seed and the coordinate, so no
//! matrix is stored and any embedding model fits. Domains get their slot when first learnt; when all are taken, or
//! the domain is new, the one-hot is zero and the arm's intercept speaks.
//!
//! Reference: Achlioptas, Database-friendly random projections, 2003.

use std::{collections::BTreeMap, sync::Arc};

use ndarray::Array1;

use crate::round::{Context, Domain};

/// Dimensions of the projected embedding.
pub(super) const PROJECTED: usize = 16;

/// Domains with a slot of their own.
pub(super) const DOMAIN_SLOTS: usize = 16;

/// Dimensions of a whole feature vector.
pub(super) const DIMENSIONS: usize = 1 + DOMAIN_SLOTS + PROJECTED;

/// Turns contexts into vectors.
#[derive(Debug, Clone)]
pub(super) struct Features {
    seed: u64,
    domain_scale: f64,
    text_scale: f64,
    slots: Arc<BTreeMap<Domain, usize>>,
}

impl Features {
    pub(super) fn new(seed: u64, domain_scale: f64, text_scale: f64) -> Self {
        Self { seed, domain_scale, text_scale, slots: Arc::default() }
    }

    /// Gives a domain its slot, if one is free.
    pub(super) fn learn(&mut self, domain: &Domain) {
        let slot = self.slots.len();
        if slot < DOMAIN_SLOTS && !self.slots.contains_key(domain) {
            Arc::make_mut(&mut self.slots).insert(domain.clone(), slot);
        }
    }

    /// The vector of one context.
    pub(super) fn vector(&self, context: &Context) -> Array1<f64> {
        let mut vector = Array1::zeros(DIMENSIONS);
        vector[0] = 1.0;
        if let Some(slot) = self.slots.get(&context.domain) {
            vector[1 + slot] = self.domain_scale;
        }
        if self.text_scale > 0.0 {
            let projected = project(self.seed, context.embedding.as_slice());
            for (target, value) in vector.iter_mut().skip(1 + DOMAIN_SLOTS).zip(projected) {
                *target = self.text_scale * f64::from(value);
            }
        }
        vector
    }
}

fn project(seed: u64, embedding: &[f32]) -> [f32; PROJECTED] {
    let mut projected = [0.0; PROJECTED];
    for (coordinate, x) in (0_u64..).zip(embedding) {
        let signs = split_mix(seed ^ coordinate.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for (bit, sum) in projected.iter_mut().enumerate() {
            // Flipping the float's sign bit instead of branching on it: half of the branches would be mispredicted.
            *sum += f32::from_bits(x.to_bits() ^ ((((signs >> bit) & 1) as u32) << 31));
        }
    }
    projected.map(|sum| sum / (PROJECTED as f32).sqrt())
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
        let squares: Vec<f32> = (0..200).map(|n| project(7, &unit(n)).iter().map(|x| x * x).sum()).collect();
        let mean = squares.iter().sum::<f32>() / 200.0;
        assert!((mean - 1.0).abs() < 0.1, "mean squared length {mean}");
    }

    #[test]
    fn the_projection_depends_on_the_seed_alone() {
        assert_eq!(project(7, &unit(1)), project(7, &unit(1)));
        assert_ne!(project(7, &unit(1)), project(8, &unit(1)));
    }
}
