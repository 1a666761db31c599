//! Reads one turn, or names the first thing wrong with it.

use super::{
    super::{
        escape::unescape,
        tag::{self, Broken, Element},
    },
    MODE_BYTES_MAX, NAMES, TURN_BYTES_MAX,
};
use crate::{
    grammar::{Answer, Episode, Request, Role, Turn, Violation},
    round::Mode,
};

/// Reads a turn that is to follow what was written so far. What it reads may still be refused by [`Episode::take`], which
/// knows the rules: a worker that is not offered, a reference to nothing, an answer too early.
///
/// ```
/// # use pointsman::{grammar::{Episode, Rules, Turn, Violation, dialect::routeweaver::parse}, round::Mode};
/// let mut episode = Episode::new(2, Rules::default());
/// let turn = parse("<mode>multi</mode>", &episode).unwrap();
/// assert_eq!(turn, Turn::Mode(Mode::Multi));
/// episode.take(&turn).unwrap();
/// assert!(parse("<route model=\"worker_2\">Solve it.</route>", &episode).is_ok());
/// assert_eq!(parse("<route>Solve it.</route>", &episode), Err(Violation::AttributeMissing));
/// ```
pub fn parse(text: &str, episode: &Episode) -> Result<Turn, Violation> {
    if episode.answer().is_some() || episode.is_out_of_turns() {
        return Err(Violation::AlreadyFinished);
    }
    match episode.mode() {
        None => mode(text),
        Some(mode) => action(text, mode, episode.may_answer()),
    }
}

fn mode(text: &str) -> Result<Turn, Violation> {
    if tag::next(text, 0, &["mode"]).is_none() {
        return Err(Violation::ModeMissing);
    }
    if text.len() > MODE_BYTES_MAX {
        return Err(Violation::ActionMalformed);
    }
    let elements = elements(text)?;
    if elements.iter().any(|element| element.name != "mode") {
        return Err(Violation::ActionMalformed);
    }
    let [element] = elements[..] else { return Err(Violation::ModeDuplicate) };
    if !element.attributes.trim().is_empty() {
        return Err(Violation::AttributeUnknown);
    }
    let mode = Mode::ALL.into_iter().find(|mode| mode.as_str() == element.content.trim());
    mode.map(Turn::Mode).ok_or(Violation::ModeInvalid)
}

fn action(text: &str, mode: Mode, may_answer: bool) -> Result<Turn, Violation> {
    if tag::next(text, 0, &NAMES).is_none() {
        let due = !text.trim().is_empty() && !may_answer;
        return Err(if due { Violation::RouteMissing } else { Violation::ActionMissing });
    }
    if text.len() > TURN_BYTES_MAX {
        return Err(Violation::ActionMalformed);
    }
    let elements = elements(text)?;
    let has = |name: &str| elements.iter().any(|element| element.name == name);
    if has("mode") {
        return Err(Violation::ModeDuplicate);
    }
    if let [Element { name: "answer", attributes, content }] = elements[..] {
        if !attributes.trim().is_empty() {
            return Err(Violation::AttributeUnknown);
        }
        return Ok(Turn::Answer(Answer::Text(unescape(content.trim()))));
    }
    // Several answers, an answer beside calls, or what only the environment may write.
    if has("answer") || has("observation") {
        return Err(Violation::ActionMalformed);
    }
    elements.iter().map(|element| route(element, mode)).collect::<Result<_, _>>().map(Turn::Calls)
}

fn elements(text: &str) -> Result<Vec<Element<'_>>, Violation> {
    let between = |text: &str| if text.trim().is_empty() { Ok(()) } else { Err(Broken::Stray) };
    tag::elements(text, &NAMES, between).map_err(|broken| match broken {
        Broken::Element("route") => Violation::RouteMalformed,
        Broken::Element(_) | Broken::Stray => Violation::ActionMalformed,
    })
}

fn route(element: &Element<'_>, mode: Mode) -> Result<Request, Violation> {
    let attributes = attributes(element.attributes)?;
    for (place, (name, _)) in attributes.iter().enumerate() {
        if attributes[..place].iter().any(|(before, _)| before == name) {
            return Err(Violation::AttributeDuplicate);
        }
        let known = match mode {
            Mode::Single | Mode::Multi => *name == "model",
            Mode::Agentic => ["model", "role", "refs"].contains(name),
        };
        if !known {
            return Err(Violation::AttributeUnknown);
        }
    }
    let value = |wanted: &str| attributes.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
    let worker = place(value("model").ok_or(Violation::AttributeMissing)?, "worker_").ok_or(Violation::UnknownModel)?;
    // A call of a team without a role is the episode's to refuse.
    let role = value("role").map(|name| Role::ALL.into_iter().find(|role| role.as_str() == name));
    let role = match role {
        Some(None) => return Err(Violation::RoleInvalid),
        Some(Some(role)) => Some(role),
        None => None,
    };
    let refs = match value("refs").map(str::trim) {
        None | Some("") => vec![],
        Some(refs) => {
            let read = refs.split(',').map(|node| place(node.trim(), "n").ok_or(Violation::RefUnknown));
            read.collect::<Result<_, _>>()?
        }
    };
    let task = unescape(element.content.trim());
    if task.trim().is_empty() {
        return Err(Violation::EmptyTask);
    }
    Ok(Request { worker, role, refs, task })
}

/// The call that an answer names, by place from 0: one that is nothing but `n1` or the like stands for that call's output.
pub fn named(answer: &str) -> Option<usize> {
    place(answer.trim(), "n")
}

/// The place from 0 that a name such as `worker_1` or `n1` says; none for a number that is written in another way.
fn place(name: &str, prefix: &str) -> Option<usize> {
    let digits = name.strip_prefix(prefix)?;
    let plain = !digits.is_empty() && digits.len() <= 6 && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !plain || digits.starts_with('0') {
        return None;
    }
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// `name="value"`, with spaces before each.
fn attributes(text: &str) -> Result<Vec<(&str, &str)>, Violation> {
    let (mut found, mut rest) = (vec![], text);
    loop {
        let trimmed = rest.trim_start();
        if trimmed.is_empty() {
            return Ok(found);
        }
        if trimmed.len() == rest.len() {
            return Err(Violation::RouteMalformed);
        }
        let (name, after) = trimmed.split_once("=\"").ok_or(Violation::RouteMalformed)?;
        let (value, after) = after.split_once('"').ok_or(Violation::RouteMalformed)?;
        if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphabetic() || c == b'_' || c == b'-') {
            return Err(Violation::RouteMalformed);
        }
        found.push((name, value));
        rest = after;
    }
}
