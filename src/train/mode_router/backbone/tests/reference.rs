//! The same arithmetic number by number, as it is written in the papers.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};

use super::super::Architecture;

type Matrix = Vec<Vec<f64>>;

/// One layer's matrices.
struct Layer<'a> {
    tensors: &'a BTreeMap<String, Tensor>,
    architecture: Architecture,
    place: usize,
    head: usize,
}

impl Layer<'_> {
    fn name(&self, part: &str) -> String {
        format!("model.layers.{}.{part}", self.place)
    }

    fn vector(&self, part: &str) -> Vec<f64> {
        self.tensors[&self.name(part)].to_dtype(DType::F64).unwrap().to_vec1().unwrap()
    }

    fn linear(&self, part: &str, x: &[f64]) -> Vec<f64> {
        let bias = format!("{part}.bias");
        let bias = self.tensors.contains_key(&self.name(&bias)).then(|| self.vector(&bias));
        let rows = matrix(self.tensors, &self.name(&format!("{part}.weight")));
        let row = |(row, weights): (usize, &Vec<f64>)| dot(weights, x) + bias.as_ref().map_or(0.0, |bias| bias[row]);
        rows.iter().enumerate().map(row).collect()
    }

    /// Heads of queries or keys, turned by their position.
    fn turned(&self, which: char, x: &[f64], position: usize) -> Matrix {
        let of = |head: &[f64]| match self.architecture {
            Architecture::Qwen3 => {
                turn(&normed(head, &self.vector(&format!("self_attn.{which}_norm.weight"))), position)
            }
            Architecture::Llama | Architecture::Qwen2 => turn(head, position),
        };
        self.linear(&format!("self_attn.{which}_proj"), x).chunks(self.head).map(of).collect()
    }

    fn read(&self, states: &Matrix) -> Matrix {
        let (mut q, mut k, mut v) = (vec![], vec![], vec![]);
        for (position, state) in states.iter().enumerate() {
            let x = normed(state, &self.vector("input_layernorm.weight"));
            q.push(self.turned('q', &x, position));
            k.push(self.turned('k', &x, position));
            v.push(self.linear("self_attn.v_proj", &x).chunks(self.head).map(<[f64]>::to_vec).collect::<Matrix>());
        }
        let next = |(position, state): (usize, &Vec<f64>)| {
            let mut asked = vec![];
            for of in 0..4 {
                let score = |other: usize| dot(&q[position][of], &k[other][of / 2]) / (self.head as f64).sqrt();
                let weights: Vec<f64> = (0..=position).map(|other| score(other).exp()).collect();
                let whole: f64 = weights.iter().sum();
                let found = |at: usize| (0..=position).map(|other| weights[other] / whole * v[other][of / 2][at]).sum();
                asked.extend((0..self.head).map(found).collect::<Vec<f64>>());
            }
            let x = sum(state, &self.linear("self_attn.o_proj", &asked));
            let y = normed(&x, &self.vector("post_attention_layernorm.weight"));
            let gate = self.linear("mlp.gate_proj", &y).into_iter().map(|gate| gate / (1.0 + (-gate).exp()));
            let inner: Vec<f64> = gate.zip(self.linear("mlp.up_proj", &y)).map(|(gate, up)| gate * up).collect();
            sum(&x, &self.linear("mlp.down_proj", &inner))
        };
        states.iter().enumerate().map(next).collect()
    }
}

/// The scores of what may follow every token.
pub fn scores(architecture: Architecture, tensors: &BTreeMap<String, Tensor>, ids: &[u32]) -> Matrix {
    let head = if architecture == Architecture::Qwen3 { 16 } else { 8 };
    let embedding = matrix(tensors, "model.embed_tokens.weight");
    let mut states: Matrix = ids.iter().map(|id| embedding[*id as usize].clone()).collect();
    for place in 0..2 {
        states = Layer { tensors, architecture, place, head }.read(&states);
    }
    let told = if tensors.contains_key("lm_head.weight") { matrix(tensors, "lm_head.weight") } else { embedding };
    let norm: Vec<f64> = tensors["model.norm.weight"].to_dtype(DType::F64).unwrap().to_vec1().unwrap();
    let last = |state: &Vec<f64>| {
        let x = normed(state, &norm);
        told.iter().map(|weights| dot(weights, &x)).collect()
    };
    states.iter().map(last).collect()
}

fn matrix(tensors: &BTreeMap<String, Tensor>, name: &str) -> Matrix {
    tensors[name].to_dtype(DType::F64).unwrap().to_vec2().unwrap()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn normed(x: &[f64], weight: &[f64]) -> Vec<f64> {
    let size = (dot(x, x) / x.len() as f64 + 1e-5).sqrt();
    x.iter().zip(weight).map(|(x, weight)| x / size * weight).collect()
}

/// Number `i` and number `half + i` are a point in the plane, which is turned.
fn turn(x: &[f64], position: usize) -> Vec<f64> {
    let half = x.len() / 2;
    let angle = |i: usize| position as f64 * 10_000_f64.powf(-2.0 * i as f64 / x.len() as f64);
    let left = (0..half).map(|i| x[i] * angle(i).cos() - x[half + i] * angle(i).sin());
    let right = (0..half).map(|i| x[half + i] * angle(i).cos() + x[i] * angle(i).sin());
    left.chain(right).collect()
}
