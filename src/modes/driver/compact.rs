//! The compact mode-router as a driver: it goes on from the mode and the worker that were drawn, token by token under the
//! grammar's mask, each token drawn by its probability from a stream of the decision's own.
//!
//! It sees what it saw in training: of rounds whether an output passed, of a team's verifier PASS or FAIL, of other calls that
//! they were made.

use std::sync::Arc;

use async_trait::async_trait;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{Driver, DriverError, SeenCall, View, Written};
use crate::{
    action::policy::mode_router::{ModeRouter, Piece, Prefix, Reading, Seen},
    grammar::{Token, Turn, Writing},
};

/// The driver.
pub struct Compact {
    router: Arc<ModeRouter>,
    prefix: Prefix,
    rng: ChaCha8Rng,
    begun: Option<(Reading, Writing)>,
    /// Calls whose outcome it has read.
    read: usize,
}

impl Compact {
    /// Workers are offered in the prefix's order.
    pub fn new(router: Arc<ModeRouter>, prefix: Prefix, rng: ChaCha8Rng) -> Self {
        Self { router, prefix, rng, begun: None, read: 0 }
    }

    /// Writes a token; gives the turn that it completes.
    fn write(&self, reading: &mut Reading, writing: &mut Writing, token: Token) -> Result<Option<Turn>, DriverError> {
        let turn = writing.push(token)?;
        if !matches!(token, Token::Answer(_)) {
            self.router.network().read(reading, Piece::Written(token));
        }
        Ok(turn)
    }

    fn turn(&mut self, view: &View<'_>) -> Result<Written, DriverError> {
        let (mut reading, mut writing) = match self.begun.take() {
            Some(begun) => begun,
            None => {
                let mut begun = (
                    self.router.network().begin(&self.prefix),
                    Writing::new(self.prefix.workers.len(), *view.episode.rules()),
                );
                self.write(&mut begun.0, &mut begun.1, Token::Mode(view.mode))?;
                begun
            }
        };
        let nodes = view.episode.nodes();
        for (node, made) in nodes.iter().enumerate().skip(self.read) {
            let (role, worker) = (made.role, made.worker);
            let seen = seen(view, &view.seen[node]);
            self.router.network().read(&mut reading, Piece::Seen { node, role, worker, seen });
        }
        self.read = nodes.len();
        let mut probability = 1.0;
        let mut forced = nodes.is_empty().then_some(Token::Call(view.first));
        loop {
            let token = match forced.take() {
                Some(token) => token,
                None => {
                    let drawn = self.router.choose(&reading, &writing, self.rng.random());
                    let (token, p) = drawn.ok_or_else(|| DriverError::Failed("no token may follow".into()))?;
                    probability *= p;
                    token
                }
            };
            if let Some(turn) = self.write(&mut reading, &mut writing, token)? {
                self.begun = Some((reading, writing));
                return Ok(Written { turn, probability: Some(probability) });
            }
        }
    }
}

/// What it is told of a call.
fn seen(view: &View<'_>, call: &SeenCall) -> Seen {
    match call.role {
        "planner" | "executor" | "summarizer" => Seen::Nothing,
        "verifier" if call.output.trim_start().starts_with("PASS") => Seen::Bin(4),
        "verifier" if call.output.trim_start().starts_with("FAIL") => Seen::Bin(0),
        "verifier" => Seen::Nothing,
        _ => match call.score {
            Some(score) if score >= view.pass_score => Seen::Pass,
            Some(_) => Seen::Fail,
            // An answer that did not come is none that passed.
            None if call.output.is_empty() => Seen::Fail,
            None => Seen::Nothing,
        },
    }
}

#[async_trait]
impl Driver for Compact {
    fn name(&self) -> &'static str {
        "mode_router"
    }

    async fn next(&mut self, view: &View<'_>) -> Result<Written, DriverError> {
        self.turn(view)
    }
}
