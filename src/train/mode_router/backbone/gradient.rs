//! Log-probabilities of a text's tokens, and the gradient of a loss of them, in bounded memory.
//!
//! Only the states between layers are kept on the way up. On the way down each layer is computed once more with its gradients and then forgotten
//! (checkpointing), so that memory is that of one layer and one state per token and layer, however deep the model is. Scores over the vocabulary, which may have
//! 150,000 entries, are computed for [`ROWS`] tokens at a time and only where the loss asks for them.
//!
//! Reference: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.

use std::collections::BTreeMap;

use candle_core::{D, Result, Tensor, Var};

use super::{
    Adapters,
    decoder::{Decoder, Text},
};
use crate::train::mode_router::optimiser::gather;

/// Tokens whose scores are computed at one time.
const ROWS: usize = 64;

/// A token that was written: after which place of a text, and which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// The place of the token before it.
    pub after: usize,
    /// The token.
    pub token: u32,
}

/// Gradients by variable's name.
pub type Gradients = BTreeMap<String, Tensor>;

impl Decoder {
    /// Log-probabilities of what was chosen, at a temperature, (chosen); nothing is learnt by them.
    pub fn log_pi(&self, text: &Text, chosen: &[Chosen], adapters: &Adapters, temperature: f64) -> Result<Tensor> {
        let (_, last) = self.up(text, adapters)?;
        self.log_pi_of(&last, chosen, temperature)
    }

    /// Adds the gradient of a loss to those that are there. The loss is given the log-probabilities of what was chosen, (chosen); its value is returned.
    pub fn descend(
        &self,
        (text, chosen): (&Text, &[Chosen]),
        (variables, scale): (&BTreeMap<String, Var>, f64),
        temperature: f64,
        into: &mut Gradients,
        loss: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let frozen = Adapters::frozen(variables, scale)?;
        let (states, last) = self.up(text, &frozen)?;
        let log_pi = Var::from_tensor(&self.log_pi_of(&last, chosen, temperature)?)?;
        let loss = loss(log_pi.as_tensor())?;
        let found = loss.backward()?;
        let Some(slopes) = found.get(&log_pi) else { return Ok(loss.detach()) };
        let mut slope = self.down_to_states(&last, chosen, &slopes.detach(), temperature)?;
        let learning = Adapters::learning(variables, scale);
        let (turns, mask) = self.frame(text)?;
        for (layer, state) in states.iter().enumerate().rev() {
            let state = Var::from_tensor(state)?;
            let (out, _) = self.layer(layer, &state, &turns, Some(&mask), None, &learning)?;
            let found = (out * &slope)?.sum_all()?.backward()?;
            gather(into, variables, &found)?;
            slope = match found.get(&state) {
                Some(slope) => slope.detach(),
                None => slope.zeros_like()?,
            };
        }
        Ok(loss.detach())
    }

    /// The states that every layer reads, and the last.
    fn up(&self, text: &Text, adapters: &Adapters) -> Result<(Vec<Tensor>, Tensor)> {
        let (turns, mask) = self.frame(text)?;
        let mut state = self.embed(&text.ids)?;
        let mut states = Vec::with_capacity(self.config().layers);
        for layer in 0..self.config().layers {
            let (out, _) = self.layer(layer, &state, &turns, Some(&mask), None, adapters)?;
            states.push(std::mem::replace(&mut state, out));
        }
        Ok((states, state))
    }

    fn log_pi_of(&self, states: &Tensor, chosen: &[Chosen], temperature: f64) -> Result<Tensor> {
        let some = |some: &[Chosen]| self.log_probabilities(&select(states, some)?, some, temperature);
        let parts = chosen.chunks(ROWS).map(some).collect::<Result<Vec<_>>>()?;
        if parts.is_empty() { Tensor::zeros(0, self.fine(), self.device()) } else { Tensor::cat(&parts, 0) }
    }

    /// The gradient of the states, (n, width), from that of the log-probabilities.
    fn down_to_states(&self, states: &Tensor, chosen: &[Chosen], slopes: &Tensor, temperature: f64) -> Result<Tensor> {
        let mut sum = states.zeros_like()?;
        for (piece, some) in chosen.chunks(ROWS).enumerate() {
            let rows = Var::from_tensor(&select(states, some)?)?;
            let log_pi = self.log_probabilities(&rows, some, temperature)?;
            let slopes = slopes.narrow(0, piece * ROWS, some.len())?;
            if let Some(slope) = (log_pi * slopes)?.sum_all()?.backward()?.get(&rows) {
                sum = sum.index_add(&places(states, some)?, &slope.detach(), 0)?;
            }
        }
        Ok(sum)
    }

    fn log_probabilities(&self, states: &Tensor, chosen: &[Chosen], temperature: f64) -> Result<Tensor> {
        let scores = (self.scores(states)? / temperature)?;
        let tokens: Vec<u32> = chosen.iter().map(|chosen| chosen.token).collect();
        let tokens = Tensor::from_vec(tokens, (chosen.len(), 1), self.device())?;
        let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?;
        let sums = scores.exp()?.sum_keepdim(D::Minus1)?.log()?;
        (scores.gather(&tokens, 1)? - sums)?.squeeze(1)
    }
}

fn places(states: &Tensor, chosen: &[Chosen]) -> Result<Tensor> {
    let places: Vec<u32> = chosen.iter().map(|chosen| chosen.after as u32).collect();
    Tensor::new(places, states.device())
}

fn select(states: &Tensor, chosen: &[Chosen]) -> Result<Tensor> {
    states.index_select(&places(states, chosen)?, 0)
}
