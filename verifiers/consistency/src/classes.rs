//! Final answers as values that can be compared, and the classes they fall into.

use std::fmt;

use reading::number::{self, Number};
use reading::{choice, closing, code, ending, exact, final_number};
use serde_json::Value;
use verdict::{Refusal, Task, excerpt};

use crate::code_block;

/// What one answer finally says.
#[derive(Debug, Clone, PartialEq)]
pub enum Final {
    Number(Number),
    Choice(char),
    Code(String),
    /// Normalised.
    Text(String),
}

impl Final {
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.agrees(b),
            (Self::Choice(a), Self::Choice(b)) => a == b,
            (Self::Code(a), Self::Code(b)) | (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Number(_) | Self::Choice(_) | Self::Code(_) | Self::Text(_), _) => false,
        }
    }
}

impl fmt::Display for Final {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{}", number.value),
            Self::Choice(letter) => write!(f, "{letter}"),
            Self::Code(code) => write!(f, "code of {} characters", code.chars().count()),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// Candidates with one final answer.
pub struct Class {
    answer: Final,
    pub size: usize,
}

impl Class {
    /// Each answer joins the first class whose first member agrees with it. Answers that say nothing join none.
    #[must_use]
    pub fn sort(answers: impl Iterator<Item = Option<Final>>) -> Vec<Self> {
        let mut classes: Vec<Self> = vec![];
        for answer in answers.flatten() {
            match classes.iter_mut().find(|class| class.holds(&answer)) {
                Some(class) => class.size += 1,
                None => classes.push(Self { answer, size: 1 }),
            }
        }
        classes
    }

    #[must_use]
    pub fn holds(&self, answer: &Final) -> bool {
        self.answer.agrees(answer)
    }

    #[must_use]
    pub fn told(&self) -> String {
        format!("{} of the candidates: {}", self.size, excerpt(&self.answer.to_string(), 60))
    }
}

/// How the answers to one task are read: all of them alike.
pub enum Reader {
    Number,
    Choice(choice::Options),
    Text,
    /// Code where an answer has a block, else what its final place looks like.
    Inferred,
}

impl Reader {
    /// `metadata.answer` says what kind; `choices` mean a choice and the domain "math" a number.
    ///
    /// # Errors
    /// When either key is malformed.
    pub fn of(task: &Task) -> Result<Self, Refusal> {
        let choices = task.metadata.get("choices").filter(|v| !v.is_null());
        let options = || choice::Options::new(choices).map_err(Refusal::InvalidTask);
        match task.metadata.get("answer") {
            None | Some(Value::Null) if choices.is_some() => Ok(Self::Choice(options()?)),
            None | Some(Value::Null) if task.domain == "math" => Ok(Self::Number),
            None | Some(Value::Null) => Ok(Self::Inferred),
            Some(Value::String(kind)) => match kind.as_str() {
                "number" => Ok(Self::Number),
                "choice" => Ok(Self::Choice(options()?)),
                "exact" | "text" => Ok(Self::Text),
                _ => Err(Refusal::InvalidTask(format!(
                    "answer {:?} is not one of number, choice, exact, text",
                    excerpt(kind, 40)
                ))),
            },
            Some(_) => Err(Refusal::InvalidTask("answer is not a string".to_owned())),
        }
    }

    /// `None` when the answer says nothing of the kind.
    #[must_use]
    pub fn read(&self, answer: &str) -> Option<Final> {
        let end = ending(answer);
        match self {
            // An answer without a number, such as "impossible", still says something.
            Self::Number => final_number(end).map(|(_, number)| Final::Number(number)).or_else(|| text(end)),
            Self::Choice(options) => options.pick(end).map(|(letter, _)| Final::Choice(letter)),
            Self::Text => text(end),
            Self::Inferred => code_block(answer)
                .map(|block| Final::Code(code::normalise(&block.label, &block.code)))
                .or_else(|| number::whole(&place(end)).map(Final::Number))
                .or_else(|| text(end)),
        }
    }
}

fn text(answer: &str) -> Option<Final> {
    let visible = |c: char| !c.is_whitespace() && !c.is_control();
    Some(exact::normalise(&place(answer))).filter(|text| text.contains(visible)).map(Final::Text)
}

/// The text where the final answer stands.
fn place(answer: &str) -> String {
    let chars: Vec<char> = answer.chars().collect();
    let (_, range) = closing::places(&chars).into_iter().next().unwrap_or((closing::Mark::LastLine, 0..0));
    chars[range].iter().collect::<String>().trim().to_owned()
}
