//! The network's numbers: their names, shapes and first values. Serving reads them as they are, training makes variables of them.
//!
//! Every matrix is (inputs, outputs), row by row.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::{
    Descriptor,
    piece::{PLACES, PLAIN, ROWS},
};

/// Numbers of a task's embedding.
pub const EMBEDDING: usize = 384;

/// How large a network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Numbers of a piece's state; a multiple of the heads, at most 512.
    pub width: usize,
    /// Layers, from 1 to 12.
    pub layers: usize,
    /// Heads of attention.
    pub heads: usize,
}

impl Default for Shape {
    /// About 0.8 million numbers.
    fn default() -> Self {
        Self { width: 128, layers: 4, heads: 4 }
    }
}

impl std::str::FromStr for Shape {
    type Err = String;

    /// Reads `WIDTHxLAYERSxHEADS`, such as `128x4x4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<usize> = text.split('x').filter_map(|part| part.parse().ok()).collect();
        match numbers[..] {
            [width, layers, heads] if text.split('x').count() == 3 => {
                let shape = Self { width, layers, heads };
                if shape.is_sound() { Ok(shape) } else { Err(shape.advice()) }
            }
            _ => Err(format!("{text:?} must be WIDTHxLAYERSxHEADS, such as 128x4x4")),
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.width, self.layers, self.heads)
    }
}

impl Shape {
    /// Whether such a network can be made.
    pub fn is_sound(&self) -> bool {
        (8..=512).contains(&self.width)
            && (1..=12).contains(&self.layers)
            && self.heads > 0
            && self.width.is_multiple_of(self.heads)
    }

    fn advice(&self) -> String {
        format!("{self}: the width must be from 8 to 512 and a multiple of the heads, the layers from 1 to 12")
    }

    /// Every matrix and vector, by name, with its shape.
    pub fn names(&self) -> Vec<(String, [usize; 2])> {
        let d = self.width;
        let mut names = vec![
            ("rows".to_owned(), [ROWS, d]),
            ("places".into(), [PLACES, d]),
            ("task".into(), [EMBEDDING, d]),
            ("worker.in".into(), [Descriptor::NUMBERS, d]),
            ("worker.bias".into(), [1, d]),
            ("worker.out".into(), [d, d]),
        ];
        for layer in 0..self.layers {
            let name = |part: &str| format!("layers.{layer}.{part}");
            names.extend([
                (name("norm.attention"), [1, d]),
                (name("query"), [d, d]),
                (name("key"), [d, d]),
                (name("value"), [d, d]),
                (name("mix"), [d, d]),
                (name("norm.inner"), [1, d]),
                (name("inner.in"), [d, 4 * d]),
                (name("inner.bias"), [1, 4 * d]),
                (name("inner.out"), [4 * d, d]),
            ]);
        }
        names.extend([
            ("norm.last".to_owned(), [1, d]),
            ("head.plain".into(), [d, PLAIN]),
            ("head.bias".into(), [1, PLAIN]),
            ("call.query".into(), [d, d]),
            ("call.key".into(), [d, d]),
            ("ref.query".into(), [d, d]),
            ("ref.key".into(), [d, d]),
            ("answer.query".into(), [d, d]),
            ("answer.key".into(), [d, d]),
            ("pointer.bias".into(), [1, 3]),
        ]);
        names
    }
}

/// A network's numbers by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// The network's size.
    pub shape: Shape,
    /// Each matrix, row by row.
    pub numbers: BTreeMap<String, Vec<f32>>,
}

impl Weights {
    /// First values: normal with variance 1 / inputs, those that end a layer smaller by its depth, norms 1, biases 0.
    pub fn first(shape: Shape, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let deep = 1.0 / (2.0 * shape.layers as f32).sqrt();
        let mut numbers = BTreeMap::new();
        for (name, [inputs, outputs]) in shape.names() {
            let deviation = match name.as_str() {
                _ if name.contains("bias") => 0.0,
                "rows" | "places" => 0.3,
                // An embedding is of unit length, so each of its numbers is small.
                "task" => 1.0,
                _ if name.ends_with("mix") || name.ends_with("inner.out") => deep / (inputs as f32).sqrt(),
                _ => 1.0 / (inputs as f32).sqrt(),
            };
            let one = name.contains("norm");
            let mut number = || -> f32 {
                let normal: f32 = StandardNormal.sample(&mut rng);
                if one { 1.0 } else { deviation * normal }
            };
            numbers.insert(name, (0..inputs * outputs).map(|_| number()).collect());
        }
        Self { shape, numbers }
    }

    /// The numbers of one name.
    ///
    /// # Panics
    /// Never for a name of the shape: [`Weights`] are made whole.
    pub fn get(&self, name: &str) -> &[f32] {
        self.numbers.get(name).expect("weights are made with every name of their shape")
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.numbers.values().map(Vec::len).sum()
    }
}
