//! What differs between the dialects: how a conversation begins, where a turn ends, how it is read, and what is told of calls.

use super::{LlmSettings, Offer};
use crate::{
    grammar::{
        Answer, Episode, Request, Role, Rules, Turn, Violation,
        dialect::{
            escape::escape,
            router_r1::{self, Names, NamesError, Trail},
            routeweaver,
        },
    },
    round::{ArmId, Dialect, Message, Mode},
};

/// One dialect, for the workers of one task. Places of workers are those in which they were told to the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tongue {
    Routeweaver,
    RouterR1(Names),
}

/// A call of a layer as it is told: its place, its part, and what came of it.
pub(super) type Told<'a> = (usize, Option<Role>, &'a str);

impl Tongue {
    pub fn new(settings: &LlmSettings, offers: &[Offer]) -> Result<Self, NamesError> {
        match settings.dialect {
            Dialect::Routeweaver => Ok(Self::Routeweaver),
            Dialect::RouterR1 => {
                let name = |(place, offer): (usize, &Offer)| {
                    settings.names.get(&offer.arm).cloned().unwrap_or_else(|| format!("worker_{}", place + 1))
                };
                let offered = offers.iter().enumerate().map(name).collect();
                let absent = |arm: &ArmId| !offers.iter().any(|offer| offer.arm == *arm);
                let others = settings.names.iter().filter(|(arm, _)| absent(arm)).map(|(_, name)| name.clone());
                Names::new(offered, others.collect()).map(Self::RouterR1)
            }
        }
    }

    /// How a conversation about a question begins.
    pub fn opening(
        &self,
        settings: &LlmSettings,
        question: &str,
        offers: &[Offer],
        modes: &[Mode],
        rules: &Rules,
    ) -> Vec<Message> {
        let shown: String = question.chars().take(settings.question_chars_max).collect();
        let descriptions = || offers.iter().map(|offer| offer.description.as_str());
        let message = |role: &str, content: String| Message { role: role.into(), content };
        if let Some(prompt) = &settings.prompt {
            return vec![message("user", self.fill(prompt, &shown, offers))];
        }
        match self {
            Self::Routeweaver => vec![
                message("system", routeweaver::rules(modes, rules)),
                message("user", routeweaver::question(&shown, descriptions())),
            ],
            Self::RouterR1(names) => {
                let workers = names.offered().iter().map(String::as_str).zip(descriptions());
                vec![message("user", router_r1::question(&shown, workers))]
            }
        }
    }

    /// A prompt of the settings' own, filled in. The question is put in last, so that nothing in it is filled in.
    fn fill(&self, prompt: &str, question: &str, offers: &[Offer]) -> String {
        let line = |(place, offer): (usize, &Offer)| {
            let description = escape(&offer.description).split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{}: {description}", self.name(place))
        };
        let workers = offers.iter().enumerate().map(line).collect::<Vec<_>>().join("\n");
        let (before, after) = prompt.split_once("{question}").unwrap_or((prompt, ""));
        let [before, after] = [before, after].map(|part| part.replace("{workers}", &workers));
        format!("{before}{}{after}", escape(question))
    }

    /// What a worker is called.
    pub fn name(&self, place: usize) -> String {
        match self {
            Self::Routeweaver => format!("worker_{}", place + 1),
            Self::RouterR1(names) => names.offered().get(place).cloned().unwrap_or_default(),
        }
    }

    /// Where the model is to stop: what follows is not its to write.
    pub fn stop(&self) -> &'static [&'static str] {
        match self {
            Self::Routeweaver => &["<observation"],
            Self::RouterR1(_) => &["</search>", "</answer>"],
        }
    }

    /// The turn in what the model wrote: without thoughts before it and what does not belong to it after it. Servers leave the word out
    /// where they stopped, so it is put back where the text ended by itself.
    pub fn turn_of(&self, said: &str, is_ended: bool) -> String {
        match self {
            Self::Routeweaver => {
                let spoken = said.split_once("</think>").map_or(said, |(_, spoken)| spoken);
                let end = spoken.find("<observation").unwrap_or(spoken.len());
                spoken[..end].trim().to_owned()
            }
            Self::RouterR1(_) => {
                let ends = self.stop().iter().filter_map(|stop| said.find(stop).map(|at| at + stop.len()));
                if let Some(end) = ends.min() {
                    return said[..end].trim().to_owned();
                }
                let open = ["search", "answer"]
                    .into_iter()
                    .filter_map(|name| said.rfind(&format!("<{name}>")).map(|at| (at, name)));
                match open.max() {
                    Some((_, name)) if is_ended => format!("{}</{name}>", said.trim()),
                    Some(_) | None => said.trim().to_owned(),
                }
            }
        }
    }

    /// Reads a turn that follows what was written so far.
    pub fn parse(&self, text: &str, episode: &Episode) -> Result<Turn, Violation> {
        match self {
            Self::Routeweaver => Ok(match routeweaver::parse(text, episode)? {
                // As adapters are trained to answer, whose world keeps outputs from them.
                Turn::Answer(Answer::Text(answer)) => {
                    let node = routeweaver::named(&answer).filter(|node| episode.may_answer_with(*node));
                    Turn::Answer(node.map_or(Answer::Text(answer), Answer::Node))
                }
                turn @ (Turn::Mode(_) | Turn::Calls(_) | Turn::Answer(Answer::Node(_))) => turn,
            }),
            Self::RouterR1(names) => {
                let mut trail = Trail::after(episode.nodes().len());
                let turn = router_r1::parse(text, &trail, names)?;
                trail.take(&turn)?;
                Ok(turn)
            }
        }
    }

    /// Writes a turn in the model's place; none for one that the dialect has no words for.
    pub fn render(&self, turn: &Turn) -> Option<String> {
        match (self, turn) {
            (Self::Routeweaver, turn) => routeweaver::render(turn),
            (Self::RouterR1(names), Turn::Calls(calls)) => {
                let thought = calls.first().map(|call| format!("I ask {} first.", self.name(call.worker)));
                router_r1::render(turn, thought.as_deref(), names)
            }
            (Self::RouterR1(names), Turn::Mode(_) | Turn::Answer(_)) => router_r1::render(turn, None, names),
        }
    }

    /// What is told of the calls of a turn.
    pub fn tell(&self, calls: &[Told<'_>]) -> String {
        match self {
            Self::Routeweaver => routeweaver::observations(calls.iter().copied()),
            Self::RouterR1(_) => {
                calls.iter().map(|(_, _, text)| router_r1::information(text)).collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// The first call in the words of a dialect that has no modes to declare, where the model did not choose it; none where the model
    /// writes it.
    pub fn forced(&self, worker: usize) -> Option<Turn> {
        match self {
            Self::Routeweaver => None,
            Self::RouterR1(_) => {
                let task = "Answer the question.".to_owned();
                Some(Turn::Calls(vec![Request { worker, role: None, refs: vec![], task }]))
            }
        }
    }
}
