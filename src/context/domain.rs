//! Which domain a task belongs to, where its client says none: the nearest centroid (Rocchio 1971).
//!
//! The centroid of a domain is the mean direction of the embeddings of its tasks, c_d = sum_i x_i / |sum_i x_i|; a task
//! belongs to the domain with the largest cosine x . c_d, if that is at least a threshold, else to none. Only tasks whose
//! client named the domain count, so that a mistake does not teach itself. What can go wrong: a task of a kind never
//! seen is nearest to something all the same; the threshold decides how often that is found out (`bench/domains.rs`
//! measures both errors).

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::round::{Domain, Embedding};

/// A domain takes part from so many tasks on; fewer are no mean.
const SEEN_MIN: u64 = 5;
/// Domains told apart; later ones are not learnt.
const DOMAINS_MAX: usize = 64;

/// The domains' mean directions. Cheap to clone: a copy shares what does not change.
///
/// ```
/// # use pointsman::{context::domain::Centroids, round::{Domain, Embedding}};
/// let at = |degrees: f32| Embedding::new(vec![degrees.to_radians().cos(), degrees.to_radians().sin()]).unwrap();
/// let (east, north) = (Domain::new("east").unwrap(), Domain::new("north").unwrap());
/// let mut centroids = Centroids::default();
/// for degrees in [-10.0, -5.0, 0.0, 5.0, 10.0] {
///     centroids.learn(&east, &at(degrees));
///     centroids.learn(&north, &at(degrees + 90.0));
/// }
/// let (nearest, cosine) = centroids.nearest(&at(20.0), 0.5).unwrap();
/// assert!(nearest == east && cosine > 0.9);
/// assert!(centroids.nearest(&at(225.0), 0.5).is_none());
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Centroids {
    domains: BTreeMap<Domain, Arc<Centroid>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Centroid {
    sum: Vec<f64>,
    seen: u64,
}

impl Centroids {
    /// One more task of a domain. Ignored where the embedding's length differs from the domain's, or 64 domains are known.
    pub fn learn(&mut self, domain: &Domain, embedding: &Embedding) {
        let x = embedding.as_slice();
        if let Some(centroid) = self.domains.get_mut(domain) {
            if centroid.sum.len() == x.len() {
                let centroid = Arc::make_mut(centroid);
                centroid.seen += 1;
                centroid.sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += f64::from(*x));
            }
        } else if self.domains.len() < DOMAINS_MAX {
            let sum = x.iter().copied().map(f64::from).collect();
            self.domains.insert(domain.clone(), Arc::new(Centroid { sum, seen: 1 }));
        }
    }

    /// The nearest domain and its cosine, if that is at least `least`, in [-1, 1].
    pub fn nearest(&self, embedding: &Embedding, least: f32) -> Option<(Domain, f32)> {
        let known = self.domains.iter().filter(|(_, centroid)| centroid.seen >= SEEN_MIN);
        let cosines = known.map(|(domain, centroid)| (domain, centroid.cosine(embedding.as_slice())));
        let (domain, cosine) = cosines.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (cosine >= f64::from(least)).then(|| (domain.clone(), cosine as f32))
    }
}

impl Centroid {
    /// 0 where the lengths differ.
    fn cosine(&self, x: &[f32]) -> f64 {
        if self.sum.len() != x.len() {
            return 0.0;
        }
        let dot: f64 = self.sum.iter().zip(x).map(|(sum, x)| sum * f64::from(*x)).sum();
        let length = self.sum.iter().map(|sum| sum * sum).sum::<f64>().sqrt();
        if length > 0.0 { dot / length } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedding(vector: [f32; 3]) -> Embedding {
        Embedding::new(vector.to_vec()).unwrap()
    }

    #[test]
    fn a_domain_takes_part_once_enough_was_seen() {
        let (domain, x) = (Domain::new("code").unwrap(), embedding([1.0, 0.0, 0.0]));
        let mut centroids = Centroids::default();
        for seen in 1..=SEEN_MIN {
            assert!(centroids.nearest(&x, -1.0).is_none(), "after {} tasks", seen - 1);
            centroids.learn(&domain, &x);
        }
        assert_eq!(centroids.nearest(&x, 0.9).unwrap().0, domain);
        assert!(centroids.nearest(&embedding([0.0, 1.0, 0.0]), 0.1).is_none());
    }

    #[test]
    fn opposite_embeddings_and_other_lengths_do_no_harm() {
        let domain = Domain::new("odd").unwrap();
        let mut centroids = Centroids::default();
        for _ in 0..SEEN_MIN {
            centroids.learn(&domain, &embedding([1.0, 0.0, 0.0]));
            centroids.learn(&domain, &embedding([-1.0, 0.0, 0.0]));
        }
        assert_eq!(centroids.nearest(&embedding([1.0, 0.0, 0.0]), -1.0), Some((domain.clone(), 0.0)));
        let short = Embedding::new(vec![1.0]).unwrap();
        centroids.learn(&domain, &short);
        assert_eq!(centroids.nearest(&short, -1.0), Some((domain, 0.0)));
    }

    #[test]
    fn the_number_of_domains_is_bounded() {
        let mut centroids = Centroids::default();
        for n in 0..2 * DOMAINS_MAX {
            for _ in 0..SEEN_MIN {
                centroids.learn(&Domain::new(format!("d{n}")).unwrap(), &embedding([n as f32, 1.0, 0.0]));
            }
        }
        assert_eq!(centroids.domains.len(), DOMAINS_MAX);
    }
}
