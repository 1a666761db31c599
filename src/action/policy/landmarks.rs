//! Landmarks: a few centres found online in the texts' embeddings, and how near a text is to each.
//!
//! A leader clustering: a text that is unlike every centre becomes a new one while there is room, else the nearest centre
//! moves a little toward it. The nearness is soft, so that a text between two centres belongs to both. It is what a linear
//! model can learn a text's difficulty from in few rounds, where hundreds of embedding dimensions would need thousands.
//!
//! Reference: Hartigan, Clustering Algorithms, 1975 (the leader algorithm).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::round::Embedding;

/// The centres so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Landmarks {
    centres: Vec<Arc<Centre>>,
}

/// A running mean of unit vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Centre {
    n: f32,
    mean: Vec<f32>,
}

impl Centre {
    fn cosine(&self, text: &[f32]) -> f32 {
        let (mut product, mut square) = ([0.0_f32; 8], [0.0_f32; 8]);
        let rest = self.mean.len() / 8 * 8;
        for (ours, theirs) in self.mean.chunks_exact(8).zip(text.chunks_exact(8)) {
            for lane in 0..8 {
                product[lane] += ours[lane] * theirs[lane];
                square[lane] += ours[lane] * ours[lane];
            }
        }
        let tail = self.mean[rest..].iter().zip(&text[rest..]);
        let (mut product, mut square) = (product.iter().sum::<f32>(), square.iter().sum::<f32>());
        tail.for_each(|(a, b)| (product, square) = (product + a * b, square + a * a));
        product / square.sqrt().max(1e-6)
    }
}

impl Landmarks {
    /// Takes a text in and returns its nearness to each centre, which sums to about 1: max(cos, 0)^power, normalised. A
    /// new centre comes where none is nearer than `similarity`, as long as there are fewer than `most`. Nothing for a text
    /// embedded by another model.
    pub(super) fn learn(&mut self, text: &Embedding, most: usize, similarity: f64, power: i32) -> Vec<f64> {
        let text = text.as_slice();
        if self.centres.first().is_some_and(|centre| centre.mean.len() != text.len()) {
            return Vec::new();
        }
        let mut cosines: Vec<f64> = self.centres.iter().map(|centre| f64::from(centre.cosine(text))).collect();
        let nearest = (0..cosines.len()).max_by(|a, b| cosines[*a].total_cmp(&cosines[*b]));
        match nearest {
            Some(place) if cosines[place] >= similarity || self.centres.len() >= most => {
                let centre = Arc::make_mut(&mut self.centres[place]);
                centre.n += 1.0;
                centre.mean.iter_mut().zip(text).for_each(|(mean, x)| *mean += (x - *mean) / centre.n);
            }
            Some(_) | None if most > 0 => {
                self.centres.push(Arc::new(Centre { n: 1.0, mean: text.to_vec() }));
                cosines.push(1.0);
            }
            Some(_) | None => {}
        }
        let near: Vec<f64> = cosines.iter().map(|cosine| cosine.max(0.0).powi(power)).collect();
        let sum: f64 = near.iter().sum::<f64>() + 1e-9;
        near.into_iter().map(|near| near / sum).collect()
    }

    /// How many centres there are.
    pub(super) fn len(&self) -> usize {
        self.centres.len()
    }

    /// Whether the numbers could have come from texts.
    pub(super) fn is_sound(&self) -> bool {
        let dimension = self.centres.first().map_or(0, |centre| centre.mean.len());
        self.centres.iter().all(|centre| {
            centre.mean.len() == dimension && centre.n >= 1.0 && centre.mean.iter().all(|x| x.abs() <= 1.0 + 1e-3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_alike_share_a_centre_and_others_get_their_own() {
        let text = |x: f32, y: f32, z: f32| Embedding::new(vec![x, y, z]).unwrap();
        let mut landmarks = Landmarks::default();
        assert_eq!(landmarks.learn(&text(1.0, 0.0, 0.0), 2, 0.5, 6).len(), 1);
        assert_eq!(landmarks.learn(&text(0.9, 0.1, 0.0), 2, 0.5, 6).len(), 1);
        let near = landmarks.learn(&text(0.0, 1.0, 0.0), 2, 0.5, 6);
        assert!(near[1] > 0.99 && near.len() == 2, "{near:?}");
        let between = landmarks.learn(&text(0.7, 0.7, 0.0), 2, 0.5, 6);
        assert!(between.iter().all(|near| *near > 0.2), "{between:?}");
        // There is no room for a third.
        assert_eq!(landmarks.learn(&text(0.0, 0.0, 1.0), 2, 0.5, 6).len(), 2);
        assert!(landmarks.is_sound());
        assert!(landmarks.learn(&Embedding::new(vec![1.0, 0.0]).unwrap(), 2, 0.5, 6).is_empty());
        assert!(Landmarks::default().learn(&text(1.0, 0.0, 0.0), 0, 0.5, 6).is_empty());
    }
}
