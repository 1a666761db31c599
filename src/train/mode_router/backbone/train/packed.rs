//! Trajectories of one beginning, read as one tree.

use candle_core::Tensor;

use super::super::{Chosen, Text, TextRollout};
use crate::train::mode_router::{advantage::Advantage, loss::Kind};

/// Trajectories of one beginning as a tree, and what the policy chose in it.
pub struct Packed {
    pub text: Text,
    pub chosen: Vec<Chosen>,
    pub kinds: Vec<Kind>,
    pub advantages: Vec<f64>,
}

impl Packed {
    pub fn of(beginning: &[u32], rows: &[(&TextRollout, Advantage)], comet: bool) -> Self {
        let branches: Vec<&[u32]> = rows.iter().map(|(rollout, _)| rollout.tokens.as_slice()).collect();
        let mut packed =
            Self { text: Text::tree(beginning, &branches), chosen: vec![], kinds: vec![], advantages: vec![] };
        let mut start = beginning.len();
        for (rollout, weight) in rows {
            for (place, (token, kind)) in rollout.tokens.iter().zip(&rollout.kinds).enumerate() {
                let advantage = match kind {
                    Kind::Masked => continue,
                    // Without COMET a mode token weighs what all others do.
                    Kind::Mode | Kind::Inner if !comet => weight.mode + weight.inner,
                    Kind::Mode => weight.mode,
                    Kind::Inner => weight.inner,
                };
                let after = if place == 0 { beginning.len() - 1 } else { start + place - 1 };
                packed.chosen.push(Chosen { after, token: *token });
                packed.kinds.push(*kind);
                packed.advantages.push(advantage);
            }
            start += rollout.tokens.len();
        }
        packed
    }

    /// What may be declared after a beginning.
    pub fn declarations(beginning: &[u32], branches: [&[u32]; 3]) -> Self {
        let mut chosen = Vec::new();
        let mut start = beginning.len();
        for branch in branches {
            chosen.extend(branch.iter().enumerate().map(|(place, token)| {
                let after = if place == 0 { beginning.len() - 1 } else { start + place - 1 };
                Chosen { after, token: *token }
            }));
            start += branch.len();
        }
        Self { text: Text::tree(beginning, &branches), chosen, kinds: vec![], advantages: vec![] }
    }
}

/// Rows in order, as many together as have room; one that has none by itself is alone.
pub fn chunks<'r, 'w>(
    rows: &'r [(&'w TextRollout, Advantage)],
    room: usize,
) -> Vec<&'r [(&'w TextRollout, Advantage)]> {
    let (mut chunks, mut first, mut tokens) = (Vec::new(), 0, 0);
    for (place, (rollout, _)) in rows.iter().enumerate() {
        if place > first && tokens + rollout.tokens.len() > room {
            chunks.push(&rows[first..place]);
            (first, tokens) = (place, 0);
        }
        tokens += rollout.tokens.len();
    }
    if first < rows.len() {
        chunks.push(&rows[first..]);
    }
    chunks
}

/// Log-probabilities of whole declarations, (3).
pub fn sums(log_pi: &Tensor, branches: [&[u32]; 3]) -> candle_core::Result<Tensor> {
    let mut start = 0;
    let mut sum = |branch: &[u32]| {
        let sum = log_pi.narrow(0, start, branch.len())?.sum_all()?;
        start += branch.len();
        Ok(sum)
    };
    let sums = branches.into_iter().map(&mut sum).collect::<candle_core::Result<Vec<_>>>()?;
    Tensor::stack(&sums, 0)
}
