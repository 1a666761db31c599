//! Trajectories that a language model writes as text: turns of its own, and between them what it is told.
//!
//! ```text
//! system      the rules, what cost weighs
//! user        the question, the workers by what was measured of them
//! assistant   <mode>...</mode>                 the mode's tokens, unless it is forced: then nobody's
//! user        the mode is taken
//! assistant   <route ...>...</route>           inner tokens
//! user        <observation>...</observation>
//! ...
//! assistant   <answer>...</answer>
//! ```
//!
//! It is the conversation that the policy `llm` holds with a served model, but for what stands in observations: outcomes are recorded and outputs are not, so it is told what was seen of a
//! call, and an answer `n2` is the output of call n2. Any other answer counts as the last call's output, which it would be made of.
//!
//! A turn ends with the tag that ends it (a layer of a team may go on with the next call), with the model's own mark, or at its limit of tokens; what was written is then
//! read, and what breaks a rule ends the trajectory. The same (seed, step, query, number) writes the same text.

use serde::{Deserialize, Serialize};

use super::Backbone;
use crate::{
    action::policy::mode_router::Seen,
    grammar::{Answer, Episode, Request, Role, Rules, Turn, dialect::routeweaver},
    round::Mode,
    train::mode_router::{
        environment::{Made, Query, World},
        grading::Trajectory,
        loss::Kind,
        rollout::Ended,
    },
};

/// How turns are sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// The temperature, above 0. The policy that is trained is the one at this temperature.
    pub temperature: f64,
    /// Only the likeliest tokens that together have this probability are drawn from, in (0, 1].
    pub top_p: f64,
    /// Tokens of the turn that declares the mode.
    pub mode_tokens_max: usize,
    /// Tokens of any other turn.
    pub turn_tokens_max: usize,
    /// Tokens of a whole trajectory with its beginning; never more than the model's context.
    pub tokens_max: usize,
    /// How much of a question is shown, in characters.
    pub question_chars_max: usize,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_p: 0.95,
            mode_tokens_max: 64,
            turn_tokens_max: 256,
            tokens_max: 4_096,
            question_chars_max: 4_000,
        }
    }
}

/// One trajectory as text, after its beginning.
#[derive(Debug, Clone)]
pub struct TextRollout {
    /// All tokens after the beginning.
    pub tokens: Vec<u32>,
    /// What each is.
    pub kinds: Vec<Kind>,
    /// The mode, once there is one.
    pub mode: Option<Mode>,
    /// The calls, workers in the environment's order.
    pub made: Vec<Made>,
    /// How it ended.
    pub ended: Ended,
}

impl Trajectory for TextRollout {
    fn mode(&self) -> Option<Mode> {
        self.mode
    }

    fn calls(&self) -> usize {
        self.made.len()
    }

    fn ended(&self) -> &Ended {
        &self.ended
    }
}

/// How a model is asked about a query: what a trajectory begins with.
pub(super) fn beginning(
    backbone: &Backbone,
    query: &Query,
    alpha: f64,
    order: &[usize],
    sampling: &Sampling,
) -> std::result::Result<Vec<u32>, String> {
    let words = &backbone.words;
    let rules = format!("{}\n\n{RECORDED} {}", routeweaver::rules(&Mode::ALL, &Rules::default()), weight(alpha));
    let shown: String = query.text.chars().take(sampling.question_chars_max).collect();
    let described: Vec<String> = order.iter().map(|place| query.workers[*place].words()).collect();
    let question = routeweaver::question(&shown, described.iter().map(String::as_str));
    let parts = [
        words.first().to_vec(),
        words.message("system", &rules)?,
        words.message("user", &question)?,
        words.opened("assistant")?,
    ];
    Ok(parts.concat())
}

const RECORDED: &str = "What workers write is kept from you: you are told what was seen of it. Answer with the name of the call whose output \
                        answers the question, as in <answer>n1</answer>.";

fn weight(alpha: f64) -> String {
    format!("What is won counts (1 - a) for being right and a for being right at little cost; a is {alpha:.2}.")
}

/// What is told of a call.
fn told(seen: Seen) -> String {
    match seen {
        Seen::Nothing => "Done.".into(),
        Seen::Pass => "Done.\nChecked: PASS".into(),
        Seen::Fail => "Done.\nChecked: FAIL".into(),
        Seen::Bin(bin) => format!("Opinion: {} of 5.", bin + 1),
    }
}

/// A trajectory that is being put together.
pub(super) struct Transcript<'a> {
    backbone: &'a Backbone,
    order: &'a [usize],
    world: &'a dyn World,
    /// What was written so far.
    pub episode: Episode,
    rollout: TextRollout,
}

/// Whether a trajectory goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    Ended,
}

impl<'a> Transcript<'a> {
    pub fn new(backbone: &'a Backbone, order: &'a [usize], world: &'a dyn World) -> Self {
        let rollout =
            TextRollout { tokens: vec![], kinds: vec![], mode: None, made: vec![], ended: Ended::Unterminated };
        Self { backbone, order, world, episode: Episode::new(order.len(), Rules::default()), rollout }
    }

    /// Everything after the beginning.
    pub fn tokens(&self) -> &[u32] {
        &self.rollout.tokens
    }

    /// What the next turn's tokens are.
    pub fn kind(&self) -> Kind {
        if self.episode.mode().is_none() { Kind::Mode } else { Kind::Inner }
    }

    pub fn finish(self) -> TextRollout {
        self.rollout
    }

    fn push(&mut self, tokens: &[u32], kind: Kind) {
        self.rollout.tokens.extend_from_slice(tokens);
        self.rollout.kinds.extend(std::iter::repeat_n(kind, tokens.len()));
    }

    fn tell(&mut self, last: Option<u32>, text: &str) -> std::result::Result<(), String> {
        let words = &self.backbone.words;
        let told = [words.closed(last)?, words.message("user", text)?, words.opened("assistant")?].concat();
        self.push(&told, Kind::Masked);
        Ok(())
    }

    /// Puts a turn in the model's place.
    pub fn put(&mut self, turn: &Turn) -> std::result::Result<Goes, String> {
        let text = written(turn);
        let tokens = self.backbone.words.tokens(&text)?;
        self.take(&tokens, &text, Kind::Masked)
    }

    /// Takes a turn that was written: its tokens, and their text without a mark at the end.
    pub fn take(&mut self, tokens: &[u32], text: &str, kind: Kind) -> std::result::Result<Goes, String> {
        self.push(tokens, kind);
        let turn = routeweaver::parse(text, &self.episode).map(pointed);
        let taken = turn.and_then(|turn| self.episode.take(&turn).map(|_| turn));
        self.rollout.mode = self.episode.mode();
        let told = match taken {
            Err(violation) => return Ok(self.end(Ended::Violated(violation))),
            Ok(Turn::Mode(_)) => routeweaver::MODE_TAKEN.to_owned(),
            Ok(Turn::Calls(calls)) => match self.run(&calls) {
                Some(told) => told,
                None => return Ok(self.end(Ended::Failed)),
            },
            Ok(Turn::Answer(answer)) => {
                let node = match answer {
                    Answer::Node(node) => node,
                    Answer::Text(_) => self.rollout.made.len() - 1,
                };
                let closed = self.world.close(&self.rollout.made, node);
                return Ok(self.end(closed.map_or(Ended::Failed, Ended::Answered)));
            }
        };
        if self.episode.is_out_of_turns() {
            return Ok(self.end(Ended::Unterminated));
        }
        self.tell(tokens.last().copied(), &told)?;
        Ok(Goes::On)
    }

    fn end(&mut self, ended: Ended) -> Goes {
        self.rollout.ended = ended;
        Goes::Ended
    }

    /// Makes calls; what is told of them, if none failed.
    fn run(&mut self, calls: &[Request]) -> Option<String> {
        let first = self.rollout.made.len();
        let layer = self.episode.nodes().last().map_or(0, |node| node.layer);
        self.rollout.made.extend(Made::all(calls, self.order, layer));
        let seen = self.world.run(&self.rollout.made, first..self.rollout.made.len()).ok()?;
        let texts: Vec<(usize, Option<Role>, String)> =
            (first..).zip(calls).zip(seen).map(|((place, call), seen)| (place, call.role, told(seen))).collect();
        let observed =
            routeweaver::observations(texts.iter().map(|(place, role, text)| (*place, *role, text.as_str())));
        Some(match routeweaver::note(&self.episode) {
            Some(note) => format!("{observed}\n\n{note}"),
            None => observed,
        })
    }
}

/// A turn as text, answers by place too.
pub(super) fn written(turn: &Turn) -> String {
    match turn {
        Turn::Answer(Answer::Node(node)) => format!("<answer>n{}</answer>", node + 1),
        Turn::Mode(_) | Turn::Calls(_) | Turn::Answer(Answer::Text(_)) => routeweaver::render(turn).unwrap_or_default(),
    }
}

/// An answer that is a call's name stands for that call's output.
fn pointed(turn: Turn) -> Turn {
    let Turn::Answer(Answer::Text(text)) = &turn else { return turn };
    match routeweaver::named(text) {
        Some(node) => Turn::Answer(Answer::Node(node)),
        None => turn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_names_a_call_is_its_output() {
        let answer = |text: &str| pointed(Turn::Answer(Answer::Text(text.into())));
        assert_eq!(answer(" n2 "), Turn::Answer(Answer::Node(1)));
        for other in ["n0", "2", "n", "n1 and n2", "the output", "n99999999999"] {
            assert_eq!(answer(other), Turn::Answer(Answer::Text(other.into())), "{other}");
        }
    }
}
