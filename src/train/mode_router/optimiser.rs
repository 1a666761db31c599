//! AdamW whose moments can be kept, so that a training goes on exactly where it was left.
//!
//! Reference: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.

use std::collections::BTreeMap;

use candle_core::{DType, Result, Tensor, Var, backprop::GradStore};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.98;
const EPSILON: f64 = 1e-8;

/// The optimiser.
pub struct AdamW {
    /// How far a step goes.
    pub rate: f64,
    decay: f64,
    /// The longest that all gradients together may be.
    norm_max: f64,
    /// Updates so far.
    pub updates: u64,
    /// First and second moments by name.
    pub moments: BTreeMap<String, [Tensor; 2]>,
}

impl AdamW {
    /// Nothing moved yet.
    pub fn new(variables: &BTreeMap<String, Var>, rate: f64, decay: f64, norm_max: f64) -> Result<Self> {
        let moments = variables.iter().map(|(name, variable)| {
            let zero = variable.as_tensor().zeros_like()?;
            Ok((name.clone(), [zero.clone(), zero]))
        });
        Ok(Self { rate, decay, norm_max, updates: 0, moments: moments.collect::<Result<_>>()? })
    }

    /// Moves the variables against their gradients; returns how long the gradients were together. A gradient that is not
    /// finite moves nothing.
    pub fn step(&mut self, variables: &BTreeMap<String, Var>, gradients: &BTreeMap<String, Tensor>) -> Result<f64> {
        let mut squares = 0.0;
        for gradient in gradients.values() {
            squares += gradient.sqr()?.sum_all()?.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        }
        let norm = squares.sqrt();
        if !norm.is_finite() {
            return Ok(norm);
        }
        self.updates += 1;
        let scale = if norm > self.norm_max { self.norm_max / norm } else { 1.0 };
        let age = i32::try_from(self.updates).unwrap_or(i32::MAX);
        let (fresh1, fresh2) = (1.0 - BETA1.powi(age), 1.0 - BETA2.powi(age));
        for (name, variable) in variables {
            let (Some(gradient), Some([first, second])) = (gradients.get(name), self.moments.get_mut(name)) else {
                continue;
            };
            let gradient = (gradient * scale)?;
            *first = ((&*first * BETA1)? + (&gradient * (1.0 - BETA1))?)?;
            *second = ((&*second * BETA2)? + (gradient.sqr()? * (1.0 - BETA2))?)?;
            let size = (((&*second / fresh2)?.sqrt()?) + EPSILON)?;
            let towards = ((&*first / fresh1)? / size)?;
            let shrunk = (variable.as_tensor() * (1.0 - self.rate * self.decay))?;
            variable.set(&(shrunk - (towards * self.rate)?)?)?;
        }
        Ok(norm)
    }
}

/// The gradients of variables, added to those that are there.
pub fn gather(
    into: &mut BTreeMap<String, Tensor>,
    variables: &BTreeMap<String, Var>,
    gradients: &GradStore,
) -> Result<()> {
    for (name, variable) in variables {
        if let Some(gradient) = gradients.get(variable) {
            // A gradient remembers what it was made of, which would keep every step's tensors alive.
            let gradient = gradient.detach();
            let sum = match into.get(name) {
                Some(before) => (before + gradient)?,
                None => gradient,
            };
            into.insert(name.clone(), sum);
        }
    }
    Ok(())
}

/// Adds gradients to those that are there.
pub fn add(into: &mut BTreeMap<String, Tensor>, more: BTreeMap<String, Tensor>) -> Result<()> {
    for (name, gradient) in more {
        let sum = match into.get(&name) {
            Some(before) => (before + gradient)?,
            None => gradient,
        };
        into.insert(name, sum);
    }
    Ok(())
}
