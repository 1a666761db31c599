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
    length: f32,
}

impl Centre {
    fn new(text: &[f32]) -> Self {
        Self { n: 1.0, mean: text.to_vec(), length: length(text) }
    }

    fn cosine(&self, text: &[f32]) -> f32 {
        dot(&self.mean, text) / self.length.max(1e-6)
    }

    fn add(&mut self, text: &[f32]) {
        self.n += 1.0;
        self.mean.iter_mut().zip(text).for_each(|(mean, x)| *mean += (x - *mean) / self.n);
        self.length = length(&self.mean);
    }
}

fn length(vector: &[f32]) -> f32 {
    dot(vector, vector).sqrt()
}

/// Sixteen sums side by side, which the processor adds at once; always in this order, so always the same bits.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 16];
    let (left, right) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (left, right) in left.zip(right) {
        lanes.iter_mut().zip(left.iter().zip(right)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter().sum::<f32>() + rest
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
        let mut cosines = self.cosines(text);
        let nearest = (0..cosines.len()).max_by(|a, b| cosines[*a].total_cmp(&cosines[*b]));
        match nearest {
            Some(place) if cosines[place] >= similarity || self.centres.len() >= most => {
                Arc::make_mut(&mut self.centres[place]).add(text);
            }
            Some(_) | None if most > 0 => {
                self.centres.push(Arc::new(Centre::new(text)));
                cosines.push(1.0);
            }
            Some(_) | None => {}
        }
        nearness(&cosines, power)
    }

    /// A text's nearness to each centre as it is now.
    pub(super) fn nearness(&self, text: &Embedding, power: i32) -> Vec<f64> {
        let text = text.as_slice();
        if self.centres.first().is_none_or(|centre| centre.mean.len() != text.len()) {
            return Vec::new();
        }
        nearness(&self.cosines(text), power)
    }

    fn cosines(&self, text: &[f32]) -> Vec<f64> {
        self.centres.iter().map(|centre| f64::from(centre.cosine(text))).collect()
    }

    /// How many centres there are.
    pub(super) fn len(&self) -> usize {
        self.centres.len()
    }

    /// Whether the numbers could have come from texts.
    pub(super) fn is_sound(&self) -> bool {
        let dimension = self.centres.first().map_or(0, |centre| centre.mean.len());
        self.centres.iter().all(|centre| {
            centre.mean.len() == dimension
                && centre.n >= 1.0
                && centre.length >= 0.0
                && centre.mean.iter().all(|x| x.abs() <= 1.0 + 1e-3)
        })
    }
}

fn nearness(cosines: &[f64], power: i32) -> Vec<f64> {
    let near: Vec<f64> = cosines.iter().map(|cosine| cosine.max(0.0).powi(power)).collect();
    let sum: f64 = near.iter().sum::<f64>() + 1e-9;
    near.into_iter().map(|near| near / sum).collect()
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
        assert_eq!(landmarks.nearness(&text(0.0, 1.0, 0.0), 6).len(), 2);
        // There is no room for a third.
        assert_eq!(landmarks.learn(&text(0.0, 0.0, 1.0), 2, 0.5, 6).len(), 2);
        assert!(landmarks.is_sound());
        assert!(landmarks.learn(&Embedding::new(vec![1.0, 0.0]).unwrap(), 2, 0.5, 6).is_empty());
        assert!(Landmarks::default().learn(&text(1.0, 0.0, 0.0), 0, 0.5, 6).is_empty());
    }
}
