//! Learning the rules first, for models that do not follow them when told: whole trajectories drawn evenly under the grammar's mask, written as text, and imitated.
//!
//! Large instruct models need none of it. A small one writes no whole trajectory by itself, and what never happens is never rewarded. What comes out of practice is what the policy is then kept near.

use candle_core::{Result, Tensor};
use rand_chacha::ChaCha8Rng;

use super::{
    Backbone, TextRollout,
    rollout::{Goes, Transcript, written},
};
use crate::{
    grammar::{Role, Rules, Turn, Writing},
    train::mode_router::{environment::World, warm_up},
};

/// A trajectory by the rules alone.
pub(super) fn practised(
    backbone: &Backbone,
    order: &[usize],
    world: &dyn World,
    rng: &mut ChaCha8Rng,
) -> std::result::Result<TextRollout, String> {
    let mut rules = warm_up::Rules { modes: [1.0 / 3.0; 3], rng, targets: vec![] };
    let mut writing = Writing::new(order.len(), Rules::default());
    let mut transcript = Transcript::new(backbone, order, world);
    while let Some(token) = rules.draw(&writing) {
        let Ok(taken) = writing.push(token) else { break };
        let Some(mut turn) = taken else { continue };
        if let Turn::Calls(calls) = &mut turn {
            calls.iter_mut().for_each(|call| call.task = task(call.role).into());
        }
        let text = written(&turn);
        let mut tokens = backbone.words.tokens(&text)?;
        tokens.push(backbone.words.end());
        let kind = transcript.kind();
        if transcript.take(&tokens, &text, kind)? == Goes::Ended {
            break;
        }
    }
    Ok(transcript.finish())
}

/// What a worker is asked in practice.
fn task(role: Option<Role>) -> &'static str {
    match role {
        None | Some(Role::Executor) => "Answer the question.",
        Some(Role::Planner) => "Say how to go about it.",
        Some(Role::Verifier) => "Check it.",
        Some(Role::Summarizer) => "Make one answer of it.",
    }
}

/// What is made small: the mean surprise of so many tokens.
pub(super) fn loss(log_pi: &Tensor, tokens: usize) -> Result<Tensor> {
    log_pi.sum_all()?.neg()? / tokens.max(1) as f64
}
