//! The network as it is served: reads pieces one by one and keeps what it made of them, so that each token costs one pass.
//!
//! A pre-norm transformer. The prefix (the task, alpha, a piece for each worker) sees all of itself and has no places, so that the
//! order of the workers does not matter; what follows sees the prefix and all before it. Workers and calls are pointed at: a
//! token's logit is the scaled product of a query made of the last piece and a key made of the worker's or the call's own piece.
//!
//! Plain arithmetic on 32-bit numbers, always in this order, so always the same bits. Training computes the same with
//! tensors; a test compares them.

use std::sync::Arc;

use multiversion::multiversion;

use super::{
    Descriptor,
    piece::{ALPHA, PLACES, PLAIN, Piece, TASK, WORKER, logit_place},
    weights::{EMBEDDING, Weights},
};
use crate::grammar::{Token, Writing};

/// Keeps norms away from dividing by 0.
pub(super) const EPSILON: f32 = 1e-6;

/// What is known before the first token.
#[derive(Debug, Clone, PartialEq)]
pub struct Prefix {
    /// The task's embedding, of unit length.
    pub embedding: Arc<[f32]>,
    /// What cost weighs, in [0, 1].
    pub alpha: f32,
    /// The workers offered.
    pub workers: Arc<[Descriptor]>,
}

/// The network.
#[derive(Debug, Clone)]
pub struct Frozen {
    weights: Weights,
    layers: Vec<Layer>,
}

/// One layer's numbers.
#[derive(Debug, Clone)]
struct Layer {
    attention_norm: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    mix: Vec<f32>,
    inner_norm: Vec<f32>,
    inner_in: Vec<f32>,
    inner_bias: Vec<f32>,
    inner_out: Vec<f32>,
}

/// What was read so far.
#[derive(Debug, Clone)]
pub struct Reading {
    // Of each layer the keys and the values of every piece, one after the other.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    // Of each worker: its vector, and the key that it is called by.
    workers: Vec<f32>,
    call_keys: Vec<f32>,
    // Of each call that was seen.
    ref_keys: Vec<f32>,
    answer_keys: Vec<f32>,
    // Pieces after the prefix.
    pieces: usize,
    // The last piece's state.
    state: Vec<f32>,
}

impl Frozen {
    /// Takes a network's numbers.
    pub fn new(weights: Weights) -> Self {
        let layer = |layer: usize| {
            let of = |part: &str| weights.get(&format!("layers.{layer}.{part}")).to_vec();
            Layer {
                attention_norm: of("norm.attention"),
                query: of("query"),
                key: of("key"),
                value: of("value"),
                mix: of("mix"),
                inner_norm: of("norm.inner"),
                inner_in: of("inner.in"),
                inner_bias: of("inner.bias"),
                inner_out: of("inner.out"),
            }
        };
        Self { layers: (0..weights.shape.layers).map(layer).collect(), weights }
    }

    /// The numbers.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    fn width(&self) -> usize {
        self.weights.shape.width
    }

    /// Reads the prefix and the start.
    pub fn begin(&self, prefix: &Prefix) -> Reading {
        let (d, layers) = (self.width(), self.layers.len());
        let workers: Vec<f32> = prefix.workers.iter().flat_map(|worker| self.worker(worker)).collect();
        let row = |row: usize| self.row("rows", row);
        let mut task = row(TASK).to_vec();
        debug_assert_eq!(prefix.embedding.len(), EMBEDDING);
        add_product(&mut task, &prefix.embedding, self.weights.get("task"));
        let alpha: Vec<f32> = row(ALPHA).iter().zip(row(ALPHA + 1)).map(|(a, b)| a + prefix.alpha * b).collect();
        let mut states = vec![task, alpha];
        states.extend(workers.chunks_exact(d).map(|vector| sum(&[row(WORKER), vector])));
        let mut reading = Reading {
            keys: vec![vec![]; layers],
            values: vec![vec![]; layers],
            workers,
            call_keys: vec![],
            ref_keys: vec![],
            answer_keys: vec![],
            pieces: 0,
            state: vec![],
        };
        for (place, layer) in self.layers.iter().enumerate() {
            let normed: Vec<Vec<f32>> = states.iter().map(|state| norm(state, &layer.attention_norm)).collect();
            for state in &normed {
                remember(&mut reading, place, layer, state);
            }
            for (state, normed) in states.iter_mut().zip(&normed) {
                self.attend(&reading, place, normed, state);
                think(layer, state);
            }
        }
        for state in &states[2..] {
            let normed = norm(state, self.weights.get("norm.last"));
            reading.call_keys.extend(product(&normed, self.weights.get("call.key"), d));
        }
        self.read(&mut reading, Piece::Start);
        reading
    }

    /// Reads one piece more.
    pub fn read(&self, reading: &mut Reading, piece: Piece) {
        let d = self.width();
        let (rows, worker) = piece.rows();
        let mut state = self.row("places", reading.pieces.min(PLACES - 1)).to_vec();
        for row in rows {
            add(&mut state, self.row("rows", row));
        }
        if let Some(worker) = worker {
            add(&mut state, &reading.workers[worker * d..(worker + 1) * d]);
        }
        for (place, layer) in self.layers.iter().enumerate() {
            let normed = norm(&state, &layer.attention_norm);
            remember(reading, place, layer, &normed);
            self.attend(reading, place, &normed, &mut state);
            think(layer, &mut state);
        }
        let state = norm(&state, self.weights.get("norm.last"));
        if matches!(piece, Piece::Seen { .. }) {
            reading.ref_keys.extend(product(&state, self.weights.get("ref.key"), d));
            reading.answer_keys.extend(product(&state, self.weights.get("answer.key"), d));
        }
        reading.pieces += 1;
        reading.state = state;
    }

    /// The logits of all tokens that there are at this place, allowed or not.
    pub fn logits(&self, reading: &Reading, writing: &Writing) -> Vec<(Token, f32)> {
        let d = self.width();
        let state = &reading.state;
        let mut plain = self.weights.get("head.bias").to_vec();
        add_product(&mut plain, state, self.weights.get("head.plain"));
        let query = |name: &str| product(state, self.weights.get(name), d);
        let (call, reference, answer) = (query("call.query"), query("ref.query"), query("answer.query"));
        let bias = self.weights.get("pointer.bias");
        let scale = 1.0 / (d as f32).sqrt();
        let point = |query: &[f32], keys: &[f32], place: usize, bias: f32| {
            dot(query, &keys[place * d..(place + 1) * d]) * scale + bias
        };
        let logit = |token: Token| match token {
            Token::Mode(_) | Token::Role(_) | Token::EndLayer => {
                let place = logit_place(token, 0);
                debug_assert!(place < PLAIN);
                plain[place]
            }
            Token::Call(worker) => point(&call, &reading.call_keys, worker, bias[0]),
            Token::Ref(node) => point(&reference, &reading.ref_keys, node, bias[1]),
            Token::Answer(node) => point(&answer, &reading.answer_keys, node, bias[2]),
        };
        writing.tokens().map(|token| (token, logit(token))).collect()
    }

    fn worker(&self, worker: &Descriptor) -> Vec<f32> {
        let mut inner = self.weights.get("worker.bias").to_vec();
        add_product(&mut inner, &worker.numbers(), self.weights.get("worker.in"));
        inner.iter_mut().for_each(|x| *x = silu(*x));
        product(&inner, self.weights.get("worker.out"), self.width())
    }

    fn row(&self, table: &str, row: usize) -> &[f32] {
        &self.weights.get(table)[row * self.width()..(row + 1) * self.width()]
    }

    /// Adds what a piece takes from all that are remembered.
    fn attend(&self, reading: &Reading, place: usize, normed: &[f32], state: &mut [f32]) {
        let (d, heads, layer) = (self.width(), self.weights.shape.heads, &self.layers[place]);
        let (head, query) = (d / heads, product(normed, &layer.query, d));
        let (keys, values) = (&reading.keys[place], &reading.values[place]);
        let scale = 1.0 / (head as f32).sqrt();
        let mut taken = vec![0.0; d];
        for first in (0..d).step_by(head) {
            let part = first..first + head;
            let mut weights: Vec<f32> =
                keys.chunks_exact(d).map(|key| dot(&query[part.clone()], &key[part.clone()]) * scale).collect();
            softmax(&mut weights);
            for (weight, value) in weights.iter().zip(values.chunks_exact(d)) {
                add_scaled(&mut taken[part.clone()], *weight, &value[part.clone()]);
            }
        }
        add_product(state, &taken, &layer.mix);
    }
}

fn remember(reading: &mut Reading, place: usize, layer: &Layer, normed: &[f32]) {
    reading.keys[place].extend(product(normed, &layer.key, normed.len()));
    reading.values[place].extend(product(normed, &layer.value, normed.len()));
}

/// Adds what a piece makes of itself.
fn think(layer: &Layer, state: &mut [f32]) {
    let normed = norm(state, &layer.inner_norm);
    let mut inner = layer.inner_bias.clone();
    add_product(&mut inner, &normed, &layer.inner_in);
    inner.iter_mut().for_each(|x| *x = silu(*x));
    add_product(state, &inner, &layer.inner_out);
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

fn sum(parts: &[&[f32]]) -> Vec<f32> {
    let mut whole = parts[0].to_vec();
    parts[1..].iter().for_each(|part| add(&mut whole, part));
    whole
}

fn add(to: &mut [f32], more: &[f32]) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to += more);
}

#[inline(always)]
fn add_scaled(to: &mut [f32], by: f32, more: &[f32]) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to += by * more);
}

/// Adds x W, row by row of W, so that outputs are summed side by side: by instructions as wide as the processor has, and always the
/// same bits, since each output is summed by itself.
#[multiversion(targets("x86_64+avx2"))]
fn add_product(to: &mut [f32], x: &[f32], matrix: &[f32]) {
    for (x, row) in x.iter().zip(matrix.chunks_exact(to.len())) {
        add_scaled(to, *x, row);
    }
}

fn product(x: &[f32], matrix: &[f32], outputs: usize) -> Vec<f32> {
    let mut y = vec![0.0; outputs];
    add_product(&mut y, x, matrix);
    y
}

#[multiversion(targets("x86_64+avx2"))]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in left.zip(right) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    lanes.iter().sum::<f32>() + rest
}

fn norm(state: &[f32], gain: &[f32]) -> Vec<f32> {
    let scale = 1.0 / (dot(state, state) / state.len() as f32 + EPSILON).sqrt();
    state.iter().zip(gain).map(|(x, gain)| x * scale * gain).collect()
}

fn softmax(logits: &mut [f32]) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|x| *x = (*x - most).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|x| *x /= sum);
}
