//! What of a chat is worth embedding: the words of its user.
//!
//! A chat that an agent's front end sends is mostly not the user's: system prompts, tool outputs, the assistant's own
//! turns, and inside user turns reminders, file dumps and environment listings, the same in every task. Embedded, they
//! would make all tasks of one front end alike. So the last user turn counts, without what the front end put in; where
//! what is left says little ("yes", "continue", "try again"), the turns before it are added, back to the first that
//! says something. A chat of one plain message comes out as it is, borrowed.
//!
//! What can go wrong: a block that no table knows stays in, and a user who writes about such a block may lose it. Text is
//! never lost altogether: when nothing would be left, the unstripped last user turn is taken, then the last message.

mod blocks;

use std::borrow::Cow;

use crate::round::Message;

/// Letters and digits below which a turn says little; "try again" has 8, "fix the failing parser test" 23.
const LETTERS_MIN: usize = 20;
/// How many letters a character of a script without spaces stands for.
const LETTERS_PER_IDEOGRAPH: usize = 3;
/// User turns that are looked at, the last included.
const TURNS_MAX: usize = 32;

/// The text of a chat that is worth embedding. Empty only if no message has any content. Takes time linear in the
/// chat's length.
///
/// ```
/// use pointsman::{context::chat::essence, round::Message};
///
/// let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
/// let chat = [
///     message("system", "You are a coding agent. ..."),
///     message("user", "Sort the imports of main.rs<system-reminder>Be brief.</system-reminder>"),
///     message("assistant", "Shall I do the same in lib.rs?"),
///     message("user", "yes"),
/// ];
/// assert_eq!(essence(&chat), "Sort the imports of main.rs\nyes");
/// ```
pub fn essence(messages: &[Message]) -> Cow<'_, str> {
    let users = || messages.iter().rev().filter(|message| message.role == "user");
    let mut turns: Vec<Cow<'_, str>> = vec![];
    for message in users().take(TURNS_MAX) {
        let turn = blocks::strip(&message.content);
        if is_blank(&turn) || turns.contains(&turn) {
            continue;
        }
        let says_something = letters(&turn) >= LETTERS_MIN;
        turns.push(turn);
        if says_something {
            break;
        }
    }
    if turns.len() > 1 {
        turns.reverse();
        return Cow::Owned(turns.join("\n"));
    }
    let unstripped = || users().chain(messages.iter().rev()).map(|message| message.content.as_str());
    match turns.pop() {
        Some(turn) => turn,
        None => Cow::Borrowed(unstripped().find(|text| !is_blank(text)).unwrap_or_default()),
    }
}

/// Whether a text holds nothing that could be embedded.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == '\0')
}

/// Letters and digits of a text, counted no further than needed.
fn letters(text: &str) -> usize {
    let mut letters = 0;
    for c in text.chars() {
        letters += match c {
            // Chinese, Japanese and Korean, and what follows them: a character says as much as some letters.
            '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => {
                LETTERS_PER_IDEOGRAPH
            }
            c if c.is_alphanumeric() => 1,
            _ => 0,
        };
        if letters >= LETTERS_MIN {
            break;
        }
    }
    letters
}

#[cfg(test)]
mod tests;
