//! Softmax of the last dimension, out of operations that have gradients: candle's fused one drops them without a word.

use candle_core::{D, Result, Tensor};

/// Probabilities.
pub fn softmax(scores: &Tensor) -> Result<Tensor> {
    let parts = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
    parts.broadcast_div(&parts.sum_keepdim(D::Minus1)?)
}

/// Their logarithms.
pub fn log_softmax(scores: &Tensor) -> Result<Tensor> {
    let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?;
    scores.broadcast_sub(&scores.exp()?.sum_keepdim(D::Minus1)?.log()?)
}
