//! A trajectory as far as it was written: which turns may follow.

use super::{Answer, Request, Role, Turn, Violation};
use crate::round::Mode;

/// How long a trajectory may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Calls that multi needs before its answer.
    pub multi_calls_min: usize,
    /// Calls that multi may make.
    pub multi_calls_max: usize,
    /// Calls that agentic may make, the summarizer's among them.
    pub agentic_calls_max: usize,
    /// Turns after the mode's, whatever the mode; at least 3, so that every mode can be brought to its end.
    pub turns_max: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { multi_calls_min: 2, multi_calls_max: 4, agentic_calls_max: 8, turns_max: 10 }
    }
}

impl Rules {
    /// Calls that a mode may make.
    pub fn calls_max(&self, mode: Mode) -> usize {
        match mode {
            Mode::Single => 1,
            Mode::Multi => self.multi_calls_max,
            Mode::Agentic => self.agentic_calls_max,
        }
    }

    /// Turns that a mode may take after the mode's own: two more than its calls, and no more than all may.
    pub fn turns_max(&self, mode: Mode) -> usize {
        (self.calls_max(mode) + 2).min(self.turns_max)
    }
}

/// A call that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The worker's place among those offered.
    pub worker: usize,
    /// Its part; none in single and multi.
    pub role: Option<Role>,
    /// The layer it runs in, from 0.
    pub layer: usize,
}

/// A trajectory as far as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Episode {
    rules: Rules,
    workers: usize,
    mode: Option<Mode>,
    nodes: Vec<Node>,
    layers: usize,
    turns: usize,
    answer: Option<Answer>,
}

impl Episode {
    /// Nothing written yet; so many workers are offered.
    pub fn new(workers: usize, rules: Rules) -> Self {
        Self { rules, workers, mode: None, nodes: vec![], layers: 0, turns: 0, answer: None }
    }

    /// How many workers are offered.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The mode, once declared.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// The calls so far, in order; node n1 is the first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How it ended, once it did.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Whether all turns were used up without an answer.
    pub fn is_out_of_turns(&self) -> bool {
        self.answer.is_none() && self.mode.is_some() && self.turns_left() == 0
    }

    /// Turns that may still be taken, once there is a mode.
    pub fn turns_left(&self) -> usize {
        self.mode.map_or(0, |mode| self.rules.turns_max(mode).saturating_sub(self.turns))
    }

    /// Calls that may still be made.
    pub fn calls_left(&self) -> usize {
        let most = self.mode.map_or(0, |mode| self.rules.calls_max(mode));
        if self.is_summarized() { 0 } else { most.saturating_sub(self.nodes.len()) }
    }

    /// Whether the summarizer spoke.
    pub fn is_summarized(&self) -> bool {
        self.nodes.last().is_some_and(|node| node.role == Some(Role::Summarizer))
    }

    /// Whether an answer may be given now.
    pub fn may_answer(&self) -> bool {
        self.answer.is_none()
            && match self.mode {
                None => false,
                Some(Mode::Single) => self.nodes.len() == 1,
                Some(Mode::Multi) => self.nodes.len() >= self.rules.multi_calls_min,
                Some(Mode::Agentic) => self.is_summarized(),
            }
    }

    /// Whether the output of this call may be the answer: in agentic mode it is the summarizer's.
    pub fn may_answer_with(&self, node: usize) -> bool {
        self.may_answer()
            && node < self.nodes.len()
            && (self.mode != Some(Mode::Agentic) || node + 1 == self.nodes.len())
    }

    /// Takes the next turn as a whole, or says what is wrong with it; a turn that is refused changes nothing. Gives the places
    /// of the calls that it asks for.
    pub fn take(&mut self, turn: &Turn) -> Result<std::ops::Range<usize>, Violation> {
        let before = self.nodes.len();
        if self.answer.is_some() || self.is_out_of_turns() {
            return Err(Violation::AlreadyFinished);
        }
        match (turn, self.mode) {
            (Turn::Mode(mode), None) => {
                self.mode = Some(*mode);
                return Ok(before..before);
            }
            (Turn::Mode(_), Some(_)) => return Err(Violation::ModeDuplicate),
            (Turn::Calls(_) | Turn::Answer(_), None) => return Err(Violation::ModeMissing),
            (Turn::Calls(calls), Some(mode)) => {
                self.check_calls(calls, mode)?;
                let layer = self.layers;
                let node = |call: &Request| Node { worker: call.worker, role: call.role, layer };
                self.nodes.extend(calls.iter().map(node));
                self.layers += 1;
            }
            (Turn::Answer(answer), Some(_)) => {
                self.check_answer(answer)?;
                self.answer = Some(answer.clone());
            }
        }
        self.turns += 1;
        Ok(before..self.nodes.len())
    }

    fn check_answer(&self, answer: &Answer) -> Result<(), Violation> {
        if !self.may_answer() {
            return Err(Violation::AnswerPremature);
        }
        match answer {
            Answer::Node(node) if !self.may_answer_with(*node) => Err(Violation::RefUnknown),
            Answer::Text(text) if text.trim().is_empty() => Err(Violation::ActionMalformed),
            Answer::Node(_) | Answer::Text(_) => Ok(()),
        }
    }

    fn check_calls(&self, calls: &[Request], mode: Mode) -> Result<(), Violation> {
        if calls.is_empty() {
            return Err(Violation::RouteMissing);
        }
        if self.calls_left() == 0 {
            return Err(Violation::CallLimit);
        }
        match mode {
            Mode::Single | Mode::Multi => self.check_plain(calls),
            Mode::Agentic => self.check_layer(calls),
        }
    }

    fn check_plain(&self, calls: &[Request]) -> Result<(), Violation> {
        let [call] = calls else { return Err(Violation::ActionMalformed) };
        if call.role.is_some() || !call.refs.is_empty() {
            return Err(Violation::AttributeUnknown);
        }
        if call.worker >= self.workers { Err(Violation::WorkerNotOffered) } else { Ok(()) }
    }

    fn check_layer(&self, calls: &[Request]) -> Result<(), Violation> {
        for (place, call) in calls.iter().enumerate() {
            let role = call.role.ok_or(Violation::RoleMissing)?;
            if call.worker >= self.workers {
                return Err(Violation::WorkerNotOffered);
            }
            self.check_refs(call, role, calls.len())?;
            let same = |other: &Request| {
                other.role == call.role && other.worker == call.worker && other.task.trim() == call.task.trim()
            };
            if calls[..place].iter().any(same) {
                return Err(Violation::DuplicateInLayer);
            }
        }
        let summarizes = calls.iter().any(|call| call.role == Some(Role::Summarizer));
        match () {
            () if summarizes && calls.len() > 1 => Err(Violation::SummarizerNotAlone),
            () if summarizes => Ok(()),
            () if self.calls_left() == 1 => Err(Violation::MustSummarizeNow),
            () if calls.len() + 1 > self.calls_left() => Err(Violation::LayerOverBudget),
            () => Ok(()),
        }
    }

    fn check_refs(&self, call: &Request, role: Role, layer: usize) -> Result<(), Violation> {
        for (place, node) in call.refs.iter().enumerate() {
            if *node >= self.nodes.len() + layer {
                return Err(Violation::RefUnknown);
            }
            if *node >= self.nodes.len() {
                return Err(Violation::RefSameLayer);
            }
            if call.refs[..place].contains(node) {
                return Err(Violation::RefDuplicate);
            }
        }
        match role {
            Role::Verifier if call.refs.is_empty() => Err(Violation::VerifierWithoutRefs),
            Role::Summarizer if call.refs.is_empty() && !self.nodes.is_empty() => Err(Violation::SummarizerWithoutRefs),
            Role::Planner | Role::Executor | Role::Verifier | Role::Summarizer => Ok(()),
        }
    }
}
