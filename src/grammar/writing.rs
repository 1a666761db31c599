//! A trajectory written token by token, and which tokens may come next: the serving mask.
//!
//! Single and multi: `Mode Call+ Answer`, each call a turn. Agentic: `Mode ((Call Role Ref*)+ EndLayer)+ Answer`. The mask
//! never leads where nothing may follow, and a trajectory that follows it is never refused. References are written in rising
//! order, so that each set of them is written in one way.

use super::{Answer, Episode, Request, Role, Rules, Turn, Violation};
use crate::round::Mode;

/// One token of a trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Token {
    /// How the workers are run.
    Mode(Mode),
    /// The next call is this worker's, by place among those offered.
    Call(usize),
    /// Its part.
    Role(Role),
    /// It sees this earlier call, by place.
    Ref(usize),
    /// The layer is whole.
    EndLayer,
    /// The trajectory ends with this call's output, by place.
    Answer(usize),
}

/// A trajectory that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writing {
    episode: Episode,
    layer: Vec<Request>,
}

impl Writing {
    /// Nothing written yet; so many workers are offered.
    pub fn new(workers: usize, rules: Rules) -> Self {
        Self { episode: Episode::new(workers, rules), layer: vec![] }
    }

    /// What was written in whole turns.
    pub fn episode(&self) -> &Episode {
        &self.episode
    }

    /// The calls of the layer that is not whole yet.
    pub fn layer(&self) -> &[Request] {
        &self.layer
    }

    /// Takes any token. Gives the turn that it completes, which the episode has taken; or what is wrong, which ends the
    /// trajectory.
    pub fn push(&mut self, token: Token) -> Result<Option<Turn>, Violation> {
        if self.episode.answer().is_some() || self.episode.is_out_of_turns() {
            return Err(Violation::AlreadyFinished);
        }
        let Some(mode) = self.episode.mode() else {
            return match token {
                Token::Mode(_) => self.complete(token_turn(token)),
                Token::Call(_) | Token::Role(_) | Token::Ref(_) | Token::EndLayer | Token::Answer(_) => {
                    Err(Violation::ModeMissing)
                }
            };
        };
        match (token, mode) {
            (Token::Mode(_), _) => Err(Violation::ModeDuplicate),
            (Token::Answer(_), _) if !self.layer.is_empty() => Err(Violation::ActionMalformed),
            (Token::Answer(_), _) => self.complete(token_turn(token)),
            (Token::Call(worker), Mode::Single | Mode::Multi) => self.complete(Some(Turn::Calls(vec![call(worker)]))),
            (Token::Role(_) | Token::Ref(_), Mode::Single | Mode::Multi) => Err(Violation::AttributeUnknown),
            (Token::EndLayer, Mode::Single | Mode::Multi) => Err(Violation::ActionMalformed),
            (Token::Call(worker), Mode::Agentic) => self.begin(worker),
            (Token::Role(role), Mode::Agentic) => match self.layer.last_mut() {
                None => Err(Violation::RouteMalformed),
                Some(Request { role: Some(_), .. }) => Err(Violation::AttributeDuplicate),
                Some(call) => {
                    call.role = Some(role);
                    Ok(None)
                }
            },
            (Token::Ref(node), Mode::Agentic) => match self.layer.last_mut() {
                Some(call) if call.role.is_some() => {
                    call.refs.push(node);
                    Ok(None)
                }
                Some(_) => Err(Violation::RoleMissing),
                None => Err(Violation::RouteMalformed),
            },
            (Token::EndLayer, Mode::Agentic) if self.layer.is_empty() => Err(Violation::RouteMissing),
            (Token::EndLayer, Mode::Agentic) => {
                let layer = std::mem::take(&mut self.layer);
                self.complete(Some(Turn::Calls(layer)))
            }
        }
    }

    fn begin(&mut self, worker: usize) -> Result<Option<Turn>, Violation> {
        if self.layer.last().is_some_and(|call| call.role.is_none()) {
            return Err(Violation::RoleMissing);
        }
        if worker >= self.episode.workers() {
            return Err(Violation::WorkerNotOffered);
        }
        // One more than any layer may hold is as wrong as many more.
        if self.episode.calls_left() == 0 {
            return Err(Violation::CallLimit);
        }
        if self.layer.len() >= self.episode.calls_left() {
            return Err(Violation::LayerOverBudget);
        }
        self.layer.push(call(worker));
        Ok(None)
    }

    fn complete(&mut self, turn: Option<Turn>) -> Result<Option<Turn>, Violation> {
        if let Some(turn) = &turn {
            self.episode.take(turn)?;
        }
        Ok(turn)
    }

    /// Whether a trajectory that goes on with this token can be brought to its end without a violation.
    pub fn allows(&self, token: Token) -> bool {
        let Self { episode, layer } = self;
        if episode.answer().is_some() || episode.is_out_of_turns() {
            return false;
        }
        match (token, episode.mode()) {
            (Token::Mode(_), mode) => mode.is_none(),
            (_, None) => false,
            (Token::Answer(node), Some(_)) => layer.is_empty() && episode.may_answer_with(node),
            (Token::Call(worker), Some(Mode::Single | Mode::Multi)) => {
                // The answer takes a turn, and what multi needs at least comes before it.
                worker < episode.workers() && episode.calls_left() > 0 && episode.turns_left() > 1
            }
            (Token::Role(_) | Token::Ref(_) | Token::EndLayer, Some(Mode::Single | Mode::Multi)) => false,
            (Token::Call(worker), Some(Mode::Agentic)) => {
                worker < episode.workers()
                    && layer.last().is_none_or(|last| self.is_whole(last) && last.role != Some(Role::Summarizer))
                    && Role::ALL.into_iter().any(|role| self.may_play(worker, role, layer))
            }
            (Token::Role(role), Some(Mode::Agentic)) => match layer.split_last() {
                Some((last, before)) => last.role.is_none() && self.may_play(last.worker, role, before),
                None => false,
            },
            (Token::Ref(node), Some(Mode::Agentic)) => layer.last().is_some_and(|last| {
                last.role.is_some()
                    && node < episode.nodes().len()
                    && last.refs.last().is_none_or(|previous| *previous < node)
            }),
            (Token::EndLayer, Some(Mode::Agentic)) => layer.last().is_some_and(|last| self.is_whole(last)),
        }
    }

    /// Whether a call has all that its role asks for.
    fn is_whole(&self, call: &Request) -> bool {
        match call.role {
            None => false,
            Some(Role::Planner | Role::Executor) => true,
            Some(Role::Verifier) => !call.refs.is_empty(),
            Some(Role::Summarizer) => !call.refs.is_empty() || self.episode.nodes().is_empty(),
        }
    }

    /// Whether a worker may play a role after the calls that the layer has.
    fn may_play(&self, worker: usize, role: Role, layer: &[Request]) -> bool {
        let left = self.episode.calls_left();
        let same = |call: &Request| call.worker == worker && call.role == Some(role);
        match role {
            Role::Summarizer => layer.is_empty() && left > 0,
            // The summarizer and the answer take a turn each.
            Role::Planner | Role::Executor | Role::Verifier => {
                let room = layer.len() + 1 < left && self.episode.turns_left() > 2;
                room && !layer.iter().any(same) && (role != Role::Verifier || !self.episode.nodes().is_empty())
            }
        }
    }

    /// Every token that may come next; empty only at the end.
    pub fn allowed(&self) -> Vec<Token> {
        self.tokens().filter(|token| self.allows(*token)).collect()
    }

    /// Every token that there is here, allowed or not: the modes, a call of each worker, the roles, a reference to and an
    /// answer with each earlier call, and the layer's end.
    pub fn tokens(&self) -> impl Iterator<Item = Token> + use<> {
        let (workers, nodes) = (self.episode.workers(), self.episode.nodes().len());
        let modes = Mode::ALL.into_iter().map(Token::Mode);
        let calls = (0..workers).map(Token::Call);
        let roles = Role::ALL.into_iter().map(Token::Role);
        let refs = (0..nodes).map(Token::Ref);
        let answers = (0..nodes).map(Token::Answer);
        modes.chain(calls).chain(roles).chain(refs).chain([Token::EndLayer]).chain(answers)
    }
}

fn call(worker: usize) -> Request {
    Request { worker, role: None, refs: vec![], task: String::new() }
}

fn token_turn(token: Token) -> Option<Turn> {
    match token {
        Token::Mode(mode) => Some(Turn::Mode(mode)),
        Token::Answer(node) => Some(Turn::Answer(Answer::Node(node))),
        Token::Call(_) | Token::Role(_) | Token::Ref(_) | Token::EndLayer => None,
    }
}
