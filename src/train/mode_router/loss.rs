//! The loss of COMET-GRPO, on log-probabilities, whichever network made them.
//!
//! ```text
//! L = sum over mode tokens l / N_mode + sum over other tokens l / N_inner
//!     + beta mean over all policy tokens k3 + lambda L_support
//! l = -min(ratio A, clip(ratio, 1 - eps, 1 + eps) A)      k3 = exp(delta) - delta - 1,  delta = log pi_ref - log pi
//! L_support = 1/3 sum over modes max(0, log delta - log(pibar(m) + 1e-12))
//! ```
//!
//! N_mode and N_inner count the tokens of the whole mini-batch, at least 1, so that a long trajectory weighs no more in the choice of its mode than a short one, and a
//! batch may be cut into pieces: each piece is given the counts of the whole. Tokens that the policy did not write, forced declarations and rows that count nowhere are not among them.
//!
//! References: RouteWeaver (COMET-GRPO); Schulman et al., Proximal Policy Optimization, 2017; Schulman, Approximating KL divergence, 2020 (k3).

use candle_core::{DType, Result, Tensor};
use serde::{Deserialize, Serialize};

/// Which part of a trajectory a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It declares the mode.
    Mode,
    /// Any other that the policy wrote.
    Inner,
    /// Not the policy's, or of a row that counts nowhere.
    Masked,
}

/// Policy tokens of a mini-batch, or of a piece of one, in one order.
pub struct Batch<'a> {
    /// Log-probabilities under the network that is trained, (n).
    pub log_pi: &'a Tensor,
    /// Under the network that wrote them, (n).
    pub log_old: &'a Tensor,
    /// Under the network that it is kept near, (n).
    pub log_ref: &'a Tensor,
    /// What each is weighed by, (n).
    pub advantage: &'a [f64],
    /// What each is, (n).
    pub kind: &'a [Kind],
}

/// Tokens of the whole mini-batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// That declare a mode.
    pub mode: usize,
    /// All others of the policy.
    pub inner: usize,
}

impl Counts {
    /// Counts tokens.
    pub fn of(kinds: &[Kind]) -> Self {
        let of = |kind: Kind| kinds.iter().filter(|other| **other == kind).count();
        Self { mode: of(Kind::Mode), inner: of(Kind::Inner) }
    }
}

/// How the loss is made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossSettings {
    /// How far the ratio may go, in (0, 1).
    pub clip: f64,
    /// Weight of the distance from the reference.
    pub beta: f64,
    /// The least mean probability of a mode that is nothing to the support term, in (0, 1/3).
    pub floor: f64,
    /// Whether mode tokens and others are averaged apart; else all together (no COMET).
    pub apart: bool,
}

impl Default for LossSettings {
    fn default() -> Self {
        Self { clip: 0.2, beta: 0.01, floor: 0.05, apart: true }
    }
}

/// A loss and its parts.
pub struct Loss {
    /// What is made small, a scalar.
    pub total: Tensor,
    /// The mode tokens' part.
    pub mode: f64,
    /// The others' part.
    pub inner: f64,
    /// The mean distance from the reference.
    pub kl: f64,
}

/// The loss of a batch, or of a piece of one with the counts of the whole.
pub fn loss(batch: &Batch<'_>, counts: Counts, settings: &LossSettings) -> Result<Loss> {
    let Batch { log_pi, log_old, log_ref, advantage, kind } = batch;
    let (dtype, device) = (log_pi.dtype(), log_pi.device());
    let vector = |numbers: Vec<f64>| Tensor::new(numbers, device)?.to_dtype(dtype);
    let all = (counts.mode + counts.inner).max(1) as f64;
    let (of_mode, of_inner) =
        if settings.apart { (counts.mode.max(1) as f64, counts.inner.max(1) as f64) } else { (all, all) };
    let weight = |wanted: Kind, of: f64| kind.iter().map(|kind| if *kind == wanted { 1.0 / of } else { 0.0 }).collect();
    let (mode, inner) = (vector(weight(Kind::Mode, of_mode))?, vector(weight(Kind::Inner, of_inner))?);
    let written = vector(kind.iter().map(|kind| if *kind == Kind::Masked { 0.0 } else { 1.0 / all }).collect())?;
    let advantage = vector(advantage.to_vec())?;
    let ratio = (*log_pi - *log_old)?.exp()?;
    let free = (&ratio * &advantage)?;
    let clipped = (ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)? * &advantage)?;
    let terms = free.minimum(&clipped)?.neg()?;
    let delta = (*log_ref - *log_pi)?;
    let k3 = ((delta.exp()? - &delta)? - 1.0)?;
    let (mode, inner) = ((&terms * mode)?.sum_all()?, (&terms * inner)?.sum_all()?);
    let kl = (k3 * written)?.sum_all()?;
    let total = ((&mode + &inner)? + (&kl * settings.beta)?)?;
    Ok(Loss { total, mode: number(&mode)?, inner: number(&inner)?, kl: number(&kl)? })
}

/// The term that keeps every mode alive, of the three modes' log-probabilities of each query, (queries, 3).
pub fn support(log_modes: &Tensor, floor: f64) -> Result<Tensor> {
    let mean = log_modes.exp()?.mean(0)?;
    let short = ((mean + 1e-12)?.log()?.neg()? + floor.ln())?;
    short.relu()?.sum_all()? / 3.0
}

/// A scalar's value.
pub fn number(scalar: &Tensor) -> Result<f64> {
    scalar.to_dtype(DType::F64)?.to_scalar()
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    const CPU: Device = Device::Cpu;

    fn log_softmax(scores: &Tensor) -> Tensor {
        let sums = scores.exp().unwrap().sum_keepdim(1).unwrap().log().unwrap();
        scores.broadcast_sub(&sums).unwrap()
    }

    #[test]
    fn support_agrees_with_the_reference_and_is_nothing_where_all_modes_live() {
        let scores = Var::new(&[[2.0_f64, 0.0, -3.0], [3.0, -1.0, -4.0]], &CPU).unwrap();
        let term = support(&log_softmax(&scores), 0.05).unwrap();
        assert!((number(&term).unwrap() - 0.896_356).abs() < 1e-6);
        let gradient = term.backward().unwrap().get(&scores).unwrap().to_vec2::<f64>().unwrap();
        for (found, wanted) in gradient[0].iter().zip([0.25343, 0.0343, -0.28773]) {
            assert!((found - wanted).abs() < 1e-5, "{gradient:?}");
        }
        let even = Tensor::new(&[[1.0_f64, 0.5, 0.2], [0.1, 0.2, 0.3]], &CPU).unwrap();
        assert_eq!(number(&support(&log_softmax(&even), 0.05).unwrap()).unwrap(), 0.0);
        // Alive even where a mode is all but dead.
        let dead = Var::new(&[[14.0_f64, 0.0, 0.0]], &CPU).unwrap();
        let gradient = support(&log_softmax(&dead), 0.05).unwrap().backward().unwrap();
        let gradient = gradient.get(&dead).unwrap().to_vec2::<f64>().unwrap();
        assert!(gradient[0][1] < -0.1 && gradient[0][2] < -0.1, "{gradient:?}");
    }

    struct Case {
        log_pi: Vec<f64>,
        advantage: Vec<f64>,
        kind: Vec<Kind>,
    }

    impl Case {
        fn loss(&self, counts: Counts, settings: &LossSettings) -> (Loss, Vec<f64>) {
            let log_pi = Var::new(self.log_pi.as_slice(), &CPU).unwrap();
            let old = log_pi.as_tensor().detach();
            let batch =
                Batch { log_pi: &log_pi, log_old: &old, log_ref: &old, advantage: &self.advantage, kind: &self.kind };
            let loss = loss(&batch, counts, settings).unwrap();
            let gradient = loss.total.backward().unwrap().get(&log_pi).unwrap().to_vec1().unwrap();
            (loss, gradient)
        }
    }

    #[test]
    fn what_is_masked_has_no_gradient_and_modes_and_others_are_averaged_apart() {
        let kind = vec![Kind::Mode, Kind::Inner, Kind::Inner, Kind::Masked, Kind::Mode, Kind::Inner, Kind::Masked];
        let advantage = vec![0.5, 0.2, 0.2, 9.0, -0.5, -0.4, 9.0];
        let case = Case { log_pi: vec![-1.0; 7], advantage: advantage.clone(), kind: kind.clone() };
        let (loss, gradient) = case.loss(Counts::of(&kind), &LossSettings { beta: 0.0, ..LossSettings::default() });
        let wanted = [-0.25, -0.2 / 3.0, -0.2 / 3.0, 0.0, 0.25, 0.4 / 3.0, 0.0];
        assert!(gradient.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{gradient:?}");
        assert!(loss.mode.abs() < 1e-12 && loss.inner.abs() < 1e-12, "advantages sum to 0");
        // At ratio 1 a mode token's gradient is that of GRPO with its part of the advantage, before it is averaged.
        let plain = LossSettings { beta: 0.0, apart: false, ..LossSettings::default() };
        let (_, together) = case.loss(Counts::of(&kind), &plain);
        assert!((together[0] * 5.0 - gradient[0] * 2.0).abs() < 1e-12);
    }

    /// The parts within a mode sum to 0 and all rollouts of a mode move it alike, so that telling the parts apart changes nothing for the
    /// mode itself.
    #[test]
    fn a_modes_gradient_is_that_of_grpo_before_it_is_averaged() {
        const MODES: [usize; 8] = [0, 0, 1, 1, 1, 2, 2, 2];
        const REWARDS: [f64; 8] = [1.0, 0.0, 1.0, 1.0, 0.0, -1.0, 1.0, 0.0];
        let mean_of = |mode: usize| {
            let of: Vec<f64> = (0..8).filter(|row| MODES[*row] == mode).map(|row| REWARDS[row]).collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        let (mu, sigma) = (0.375, 0.744_024);
        let gradient = |advantage: [f64; 8]| -> Vec<f64> {
            let scores = Var::new(&[[1.0_f64, -0.5, 0.2]], &CPU).unwrap();
            let chosen = Tensor::new(&MODES.map(|mode| mode as u32), &CPU).unwrap();
            let log_pi = log_softmax(&scores).squeeze(0).unwrap().index_select(&chosen, 0).unwrap();
            let old = log_pi.detach();
            let batch =
                Batch { log_pi: &log_pi, log_old: &old, log_ref: &old, advantage: &advantage, kind: &[Kind::Mode; 8] };
            let settings = LossSettings { beta: 0.0, ..LossSettings::default() };
            let whole = (loss(&batch, Counts { mode: 8, inner: 24 }, &settings).unwrap().total * 8.0).unwrap();
            whole.backward().unwrap().get(&scores).unwrap().flatten_all().unwrap().to_vec1().unwrap()
        };
        let apart = gradient(MODES.map(|mode| (mean_of(mode) - mu) / sigma));
        let grpo = gradient(REWARDS.map(|reward| (reward - mu) / sigma));
        assert!(grpo.iter().any(|g| g.abs() > 0.1), "{grpo:?}");
        assert!(apart.iter().zip(&grpo).all(|(apart, grpo)| (apart - grpo).abs() < 1e-12), "{apart:?} {grpo:?}");
    }

    #[test]
    fn length_changes_nothing_at_the_same_mean_and_pieces_add_up() {
        let short = Case {
            log_pi: vec![-0.5, -1.0, -1.0],
            advantage: vec![0.3, 0.7, 0.1],
            kind: vec![Kind::Mode, Kind::Inner, Kind::Inner],
        };
        let long = Case {
            log_pi: vec![-0.5, -1.0, -1.0, -1.0, -1.0],
            advantage: vec![0.3, 0.7, 0.1, 0.7, 0.1],
            kind: vec![Kind::Mode, Kind::Inner, Kind::Inner, Kind::Inner, Kind::Inner],
        };
        let settings = LossSettings::default();
        let of = |case: &Case| case.loss(Counts::of(&case.kind), &settings).0;
        let (short, whole) = (of(&short), of(&long));
        assert!((short.mode - whole.mode).abs() < 1e-12 && (short.inner - whole.inner).abs() < 1e-12);
        let counts = Counts::of(&long.kind);
        let piece = |range: std::ops::Range<usize>| {
            let piece = Case {
                log_pi: long.log_pi[range.clone()].to_vec(),
                advantage: long.advantage[range.clone()].to_vec(),
                kind: long.kind[range].to_vec(),
            };
            number(&piece.loss(counts, &settings).0.total).unwrap()
        };
        assert!((piece(0..2) + piece(2..5) - number(&whole.total).unwrap()).abs() < 1e-12);
    }

    #[test]
    fn without_a_free_row_the_loss_is_the_mean_over_all_tokens() {
        let case = Case { log_pi: vec![-1.0; 4], advantage: vec![0.4, -0.1, 0.3, 0.2], kind: vec![Kind::Inner; 4] };
        let (loss, _) = case.loss(Counts::of(&case.kind), &LossSettings::default());
        assert!((number(&loss.total).unwrap() + 0.2).abs() < 1e-12);
    }

    #[test]
    fn the_ratio_is_clipped_and_the_distance_is_k3() {
        let log_pi = Tensor::new(&[0.5_f64.ln(), 0.2_f64.ln()], &CPU).unwrap();
        let old = Tensor::new(&[0.25_f64.ln(), 0.4_f64.ln()], &CPU).unwrap();
        let batch =
            Batch { log_pi: &log_pi, log_old: &old, log_ref: &old, advantage: &[1.0, 1.0], kind: &[Kind::Inner; 2] };
        let loss = loss(&batch, Counts { mode: 0, inner: 2 }, &LossSettings::default()).unwrap();
        // Ratios 2 and .5: the first is cut to 1.2, the second is the lesser by itself.
        assert!((loss.inner + (1.2 + 0.5) / 2.0).abs() < 1e-12);
        let k3 = |p: f64, r: f64| r / p - (r / p).ln() - 1.0;
        assert!((loss.kl - (k3(0.5, 0.25) + k3(0.2, 0.4)) / 2.0).abs() < 1e-12);
    }
}
