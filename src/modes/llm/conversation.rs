//! What was said so far, as the messages of a chat.

use super::History;
use crate::{grammar::Violation, round::Message};

/// A conversation with the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Conversation {
    /// How it begins.
    opening: Vec<Message>,
    /// The turns that were taken, and what the model was told after each.
    exchanges: Vec<(String, String)>,
}

impl Conversation {
    /// Nothing said yet.
    pub fn new(opening: Vec<Message>) -> Self {
        Self { opening, exchanges: vec![] }
    }

    /// A turn was taken, and this is told of it.
    pub fn push(&mut self, said: String, told: String) {
        self.exchanges.push((said, told));
    }

    /// The messages that the next turn follows. A turn that was refused is shown with the reason where turns are messages; where the
    /// model goes on with one message it is only written once more.
    pub fn messages(&self, history: History, refused: Option<(&str, Violation)>, note: Option<&str>) -> Vec<Message> {
        let message = |role: &str, content: String| Message { role: role.into(), content };
        let mut messages = self.opening.clone();
        match history {
            History::Turns => {
                for (said, told) in &self.exchanges {
                    messages.push(message("assistant", said.clone()));
                    messages.push(message("user", told.clone()));
                }
                if let Some((said, violation)) = refused {
                    let said = if said.trim().is_empty() { "(nothing)" } else { said };
                    messages.push(message("assistant", said.into()));
                    messages.push(message(
                        "user",
                        format!("This turn is refused: {violation}. Write it once more, by the rules."),
                    ));
                }
                if let (Some(note), Some(last)) = (note, messages.last_mut()) {
                    last.content = format!("{}\n\n{note}", last.content);
                }
            }
            History::Continued if self.exchanges.is_empty() => {}
            History::Continued => {
                let so_far = self.exchanges.iter().map(|(said, told)| format!("{said}\n{told}\n"));
                messages.push(message("assistant", so_far.collect()));
            }
        }
        messages
    }
}
