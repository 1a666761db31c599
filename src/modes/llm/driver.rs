//! The driver: goes on with a conversation, turn by turn.
//!
//! The first call is the drawn worker's. Where the decision drew what the model proposed, the proposal's own turns are taken and it is
//! not asked again; else the mode is declared in its place and the first call put to the drawn worker, whichever it names. Such
//! declarations are nobody's decisions: whoever learns from transcripts must leave them out.
//!
//! The model is told of workers in the order in which the proposal told it of them; the trajectory has them in another, the drawn one
//! first. Places are translated on the way.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Llm, Offer,
    ask::Prompt,
    conversation::Conversation,
    tongue::{Told, Tongue},
};
use crate::{
    grammar::{
        Rules, Turn, Violation,
        dialect::routeweaver::{MODE_TAKEN, note},
    },
    modes::driver::{Driver, DriverError, SeenCall, View, Written},
    round::{ArmId, Dialect, Mode, Proposal},
};

/// What the model is told of a worker that may not be called any more.
const GONE: &str = "not available any more";
/// What it is told of a call that failed.
const FAILED: &str = "No answer came.";

/// Drives one trajectory.
pub struct LlmDriver {
    llm: Arc<Llm>,
    proposal: Option<Proposal>,
    /// The workers in the trajectory's order.
    offers: Vec<Offer>,
    modes: Vec<Mode>,
    begun: Option<Begun>,
    /// The words of the turn that was asked for last.
    said: Option<String>,
    cost_usd: f64,
}

/// A conversation that was begun.
struct Begun {
    tongue: Tongue,
    conversation: Conversation,
    /// The place in the trajectory of each worker as it was told; none for one that is gone.
    places: Vec<Option<usize>>,
    /// Turns with calls that the conversation holds.
    layers: usize,
    /// The turn that was written last, until it is known whether it was taken.
    last: Option<String>,
    /// The first call as the model proposed it.
    proposed: Option<String>,
}

impl LlmDriver {
    /// For a task that the model may have proposed something for. The workers come in the trajectory's order, described as they were
    /// for the proposal; `modes` are those that it was asked for.
    pub fn new(llm: Arc<Llm>, proposal: Option<&Proposal>, offers: Vec<Offer>, modes: Vec<Mode>) -> Self {
        let usable = |proposal: &&Proposal| proposal.dialect == llm.settings.dialect;
        let proposal = proposal.filter(usable).cloned();
        Self { llm, proposal, offers, modes, begun: None, said: None, cost_usd: 0.0 }
    }

    /// The workers in the order in which the model is told of them.
    fn told(&self) -> Vec<Offer> {
        let known = |arm: &ArmId| self.offers.iter().find(|offer| offer.arm == *arm).cloned();
        let proposed = self.proposal.as_ref().map_or(&[][..], |proposal| &proposal.workers);
        let gone = |arm: &ArmId| Offer { arm: arm.clone(), description: GONE.into() };
        let mut told: Vec<Offer> = proposed.iter().map(|arm| known(arm).unwrap_or_else(|| gone(arm))).collect();
        told.extend(self.offers.iter().filter(|offer| !proposed.contains(&offer.arm)).cloned());
        told
    }

    fn begin(&self, view: &View<'_>) -> Result<Begun, DriverError> {
        let settings = &self.llm.settings;
        if settings.dialect == Dialect::RouterR1 && view.mode == Mode::Agentic {
            return Err(DriverError::Failed("router-r1 knows no teams".into()));
        }
        if view.offered.len() != self.offers.len() {
            return Err(DriverError::Failed("other workers are offered than the driver was made for".into()));
        }
        let first = self.offers.get(view.first).ok_or(DriverError::Violation(Violation::WorkerNotOffered))?;
        let told = self.told();
        let tongue = Tongue::new(settings, &told).map_err(|error| DriverError::Failed(error.to_string()))?;
        let opening = tongue.opening(settings, view.question, &told, &self.modes, view.episode.rules());
        let place = |offer: &Offer| self.offers.iter().position(|known| known.arm == offer.arm);
        let mut begun = Begun {
            conversation: Conversation::new(opening),
            places: told.iter().map(place).collect(),
            layers: 0,
            last: None,
            proposed: None,
            tongue,
        };
        let drawn =
            |proposal: &&Proposal| proposal.mode == Some(view.mode) && proposal.arm.as_ref() == Some(&first.arm);
        begun.proposed = self.proposal.as_ref().filter(drawn).and_then(|proposal| proposal.turns.last().cloned());
        if let Some(mode) = begun.tongue.render(&Turn::Mode(view.mode)) {
            let worker = told.iter().position(|offer| offer.arm == first.arm).unwrap_or_default();
            let told = match begun.proposed {
                Some(_) => MODE_TAKEN.into(),
                None => format!("{MODE_TAKEN} It goes to {}.", begun.tongue.name(worker)),
            };
            begun.conversation.push(mode, told);
        }
        Ok(begun)
    }
}

impl Begun {
    /// Takes note of what became of the last turn. Gives it back where it was refused.
    fn settle(&mut self, view: &View<'_>, verdicts: bool) -> Result<Option<(String, Violation)>, DriverError> {
        let layers = view.episode.nodes().last().map_or(0, |node| node.layer + 1);
        let last = self.last.take();
        if let Some(violation) = view.refused {
            return Ok(Some((last.unwrap_or_default(), violation)));
        }
        if layers > self.layers {
            let Some(said) = last.filter(|_| layers == self.layers + 1) else {
                return Err(DriverError::Failed("calls were made that the language model did not write".into()));
            };
            let told = self.told(view, self.layers, verdicts);
            self.conversation.push(said, told);
            self.layers = layers;
        }
        Ok(None)
    }

    /// What the model is told of the calls of a layer.
    fn told(&self, view: &View<'_>, layer: usize, verdicts: bool) -> String {
        let nodes = view.episode.nodes().iter().enumerate().zip(view.seen);
        let of_layer = nodes.filter(|((_, node), _)| node.layer == layer);
        let texts: Vec<_> =
            of_layer.map(|((place, node), seen)| (place, node.role, words(seen, view.pass_score, verdicts))).collect();
        let calls: Vec<Told<'_>> = texts.iter().map(|(place, role, text)| (*place, *role, text.as_str())).collect();
        self.tongue.tell(&calls)
    }

    /// Reads a turn, in the trajectory's places, with the drawn worker in its first call. The text is what the model is shown of it
    /// later.
    fn read(&self, text: String, view: &View<'_>) -> Result<(String, Turn), Violation> {
        let turn = self.tongue.parse(&text, view.episode)?;
        let Turn::Calls(mut calls) = turn else { return Ok((text, turn)) };
        let mut text = text;
        if view.episode.nodes().is_empty() {
            let drawn = self.places.iter().position(|place| *place == Some(view.first));
            let drawn = drawn.ok_or(Violation::WorkerNotOffered)?;
            if calls.first().is_some_and(|call| call.worker != drawn) {
                match calls.iter().position(|call| call.worker == drawn) {
                    Some(place) => calls[..=place].rotate_right(1),
                    None => calls[0].worker = drawn,
                }
                text = self.tongue.render(&Turn::Calls(calls.clone())).unwrap_or(text);
            }
        }
        for call in &mut calls {
            let place = self.places.get(call.worker).copied().flatten();
            call.worker = place.ok_or(Violation::WorkerNotOffered)?;
        }
        Ok((text, Turn::Calls(calls)))
    }
}

/// What a call came to, in words.
fn words(seen: &SeenCall, pass_score: f64, verdicts: bool) -> String {
    let SeenCall { output, score, trace, .. } = seen;
    let output = if output.is_empty() { FAILED } else { output };
    match score.filter(|_| verdicts) {
        Some(score) if score >= pass_score => format!("{output}\nChecked: PASS"),
        Some(_) if trace.is_empty() => format!("{output}\nChecked: FAIL"),
        Some(_) => format!("{output}\nChecked: FAIL, {trace}"),
        None => output.to_owned(),
    }
}

#[async_trait]
impl Driver for LlmDriver {
    fn name(&self) -> &'static str {
        "llm"
    }

    fn rules(&self, rules: Rules) -> Rules {
        match self.llm.settings.dialect {
            Dialect::Routeweaver => rules,
            // It answers when it will, once it has asked.
            Dialect::RouterR1 => {
                let multi_calls_max = self.llm.settings.rounds_max(rules.multi_calls_max);
                Rules { multi_calls_min: 1, multi_calls_max, ..rules }
            }
        }
    }

    async fn next(&mut self, view: &View<'_>) -> Result<Written, DriverError> {
        if view.episode.mode().is_none() {
            return Ok(Written { turn: Turn::Mode(view.mode), probability: None });
        }
        let mut begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin(view)?,
        };
        let settings = &self.llm.settings;
        let refused = begun.settle(view, settings.verdicts);
        let begun = self.begun.insert(begun);
        let refused = refused?;
        if view.episode.nodes().is_empty() && refused.is_none() {
            let drawn = begun.places.iter().position(|place| *place == Some(view.first));
            let forced = drawn.and_then(|worker| begun.tongue.forced(worker));
            let forced = forced.and_then(|turn| begun.tongue.render(&turn));
            let (text, probability) = match (begun.proposed.take(), forced) {
                (Some(proposed), _) => {
                    self.said = Some(proposed.clone());
                    (Some(proposed), None)
                }
                (None, Some(forced)) => (Some(forced), Some(1.0)),
                (None, None) => (None, None),
            };
            if let Some(text) = text {
                begun.last = Some(text.clone());
                let (text, turn) = begun.read(text, view)?;
                begun.last = Some(text);
                return Ok(Written { turn, probability });
            }
        }
        let shown = refused.as_ref().map(|(text, violation)| (text.as_str(), *violation));
        let prompt = Prompt {
            messages: begun.conversation.messages(settings.history, shown, note(view.episode)),
            stop: begun.tongue.stop(),
            tokens_max: settings.tokens_max,
            limit_ms: settings.timeout_ms,
        };
        let said = self.llm.ask(&prompt).await.map_err(|error| DriverError::Failed(error.to_string()))?;
        self.cost_usd += said.cost_usd;
        let text = begun.tongue.turn_of(&said.text, said.is_ended);
        self.said = Some(text.clone());
        begun.last = Some(text.clone());
        let (text, turn) = begun.read(text, view)?;
        begun.last = Some(text);
        Ok(Written { turn, probability: None })
    }

    fn said(&mut self) -> Option<String> {
        self.said.take()
    }

    fn cost_usd(&self) -> f64 {
        self.cost_usd
    }
}
