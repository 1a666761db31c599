//! Learning the rules before learning what pays: a network with its first numbers would never write a whole trajectory of a team, and what
//! never happens is never rewarded.
//!
//! Trajectories are drawn under the grammar's mask, evenly among the kinds of token that may come next and then among those of a kind, and the network
//! learns that distribution (soft targets, so that each step teaches all that is not allowed). It is part of the cold start; what comes out of it is what the policy is kept near.

use candle_core::{Result, Tensor};
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::{network::Said, rollout::Writer};
use crate::{
    action::policy::mode_router::{Reading, logit_place, logits},
    grammar::{Role, Token, Writing},
    round::Mode,
};

/// The kind of token that refers to a call.
const REF: u8 = 3;
/// What part of the probability the rules keep where a trajectory is shown: something is left to be tried.
const DOUBT: f64 = 0.03;
/// By how much of reward a mode must be better to be e times as likely, where fixed ways are practised.
const APART: f64 = 0.02;

/// What the rules alone would do.
pub struct Rules<'a> {
    /// How often each mode is declared; they sum to 1.
    pub modes: [f64; 3],
    /// Random numbers.
    pub rng: &'a mut ChaCha8Rng,
    /// The distribution at every choice, as it was drawn from.
    pub targets: Vec<Vec<(Token, f64)>>,
}

/// How often each mode is to be declared where the best fixed way in it comes to this reward.
pub fn modes(rewards: [f64; 3]) -> [f64; 3] {
    let most = rewards.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let weights = rewards.map(|reward| ((reward - most) / APART).exp());
    let sum: f64 = weights.iter().sum();
    weights.map(|weight| DOUBT / 3.0 + (1.0 - DOUBT) * weight / sum)
}

impl Rules<'_> {
    fn distribution(&self, writing: &Writing) -> Vec<(Token, f64)> {
        let allowed = writing.allowed();
        let kind = |token: &Token| match token {
            Token::Mode(_) => 0,
            Token::Call(_) => 1,
            Token::Role(_) => 2,
            Token::Ref(_) => REF,
            Token::EndLayer => 4,
            Token::Answer(_) => 5,
        };
        // Most outputs are referred to: a second opinion that nobody reads would only teach that it costs.
        let weight = |kind: u8| if kind == REF { 3.0 } else { 1.0 };
        // Most teams begin with executors, and sum up before all calls are used up.
        let usual = if writing.episode().nodes().is_empty() { Role::Executor } else { Role::Summarizer };
        let within = |token: &Token| match token {
            Token::Role(role) if *role == usual => 4.0,
            Token::Role(Role::Executor) => 2.0,
            Token::Mode(_) | Token::Call(_) | Token::Role(_) | Token::Ref(_) | Token::EndLayer | Token::Answer(_) => {
                1.0
            }
        };
        let kinds: std::collections::BTreeSet<u8> = allowed.iter().map(kind).collect();
        let all: f64 = kinds.iter().map(|kind| weight(*kind)).sum();
        let of = |token: Token| match token {
            Token::Mode(Mode::Single) => self.modes[0],
            Token::Mode(Mode::Multi) => self.modes[1],
            Token::Mode(Mode::Agentic) => self.modes[2],
            Token::Call(_) | Token::Role(_) | Token::Ref(_) | Token::EndLayer | Token::Answer(_) => {
                let same = allowed.iter().filter(|other| kind(other) == kind(&token));
                weight(kind(&token)) * within(&token) / (all * same.map(within).sum::<f64>())
            }
        };
        allowed.iter().map(|token| (*token, of(*token))).collect()
    }
}

impl Rules<'_> {
    /// The next token; none where nothing may follow.
    pub fn draw(&mut self, writing: &Writing) -> Option<Token> {
        let distribution = self.distribution(writing);
        // Every mode's rules are practised alike, however seldom it is to be declared.
        let drawn = match distribution.first() {
            Some((Token::Mode(_), _)) => distribution.choose(self.rng),
            Some(_) => distribution.choose_weighted(self.rng, |(_, p)| *p).ok(),
            None => None,
        };
        let token = drawn.map(|(token, _)| *token)?;
        self.targets.push(distribution);
        Some(token)
    }
}

impl Writer for Rules<'_> {
    fn write(&mut self, _reading: &Reading, writing: &Writing) -> Option<Token> {
        self.draw(writing)
    }
}

/// A trajectory that is shown, token by token; the rules alone where there is none.
pub struct Shown<'a, 'b> {
    /// What is taught beside it.
    pub rules: &'a mut Rules<'b>,
    /// It.
    pub tokens: std::vec::IntoIter<Token>,
}

impl Writer for Shown<'_, '_> {
    fn write(&mut self, _reading: &Reading, writing: &Writing) -> Option<Token> {
        let Some(shown) = self.tokens.next() else { return self.rules.draw(writing) };
        let mut distribution = self.rules.distribution(writing);
        // Modes are to be tried alike, whichever is shown.
        if !matches!(shown, Token::Mode(_)) {
            for (token, p) in &mut distribution {
                *p = DOUBT * *p + if *token == shown { 1.0 - DOUBT } else { 0.0 };
            }
        }
        self.rules.targets.push(distribution);
        Some(shown)
    }
}

/// Cross-entropy of what a network says with what the rules would do, over so many choices, of which these are some or all.
pub fn loss(said: &Said, targets: &[Vec<(Token, f64)>], workers: usize, choices: usize) -> Result<Tensor> {
    let width = logits(workers);
    let mut wanted = vec![0.0_f32; targets.len() * width];
    for (row, target) in targets.iter().enumerate() {
        for (token, p) in target {
            wanted[row * width + logit_place(*token, workers)] = *p as f32;
        }
    }
    let device = said.log_tokens.device();
    let wanted = Tensor::from_vec(wanted, (targets.len(), width), device)?.to_dtype(said.log_tokens.dtype())?;
    (wanted * &said.log_tokens)?.sum_all()?.neg()? / choices.max(1) as f64
}
