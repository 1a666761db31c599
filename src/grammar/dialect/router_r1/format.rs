//! The format of a whole transcript, and the reward that rests on it.

use super::{
    super::tag::{self, Tag},
    Names, ROUTING_TURNS_MAX, TAGS,
};
use crate::grammar::Violation;

/// What is wrong with a transcript's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Fault {
    /// A tag that ends nothing, or an element that does not end.
    #[error("the tags are not balanced")]
    Unbalanced,
    /// An element within another.
    #[error("a tag stands within another element")]
    Nested,
    /// No element of thoughts has any.
    #[error("nothing was thought")]
    ThoughtMissing,
    /// There is no answer.
    #[error("there is no answer")]
    AnswerMissing,
    /// There is more than one.
    #[error("there is more than one answer")]
    AnswerRepeated,
    /// Not as many replies as searches.
    #[error("searches and replies are not of the same number")]
    RepliesMissing,
    /// A search that is not `NAME: query`.
    #[error("a search is not of the form NAME: query")]
    SearchMalformed,
    /// A search that asks somebody unknown.
    #[error("a search names no known worker")]
    UnknownName,
    /// More searches than there may be.
    #[error("there are more than {ROUTING_TURNS_MAX} searches")]
    TooManySearches,
}

impl Fault {
    /// The code of the same fault in a turn.
    pub fn violation(self) -> Violation {
        match self {
            Self::Unbalanced | Self::Nested | Self::ThoughtMissing | Self::AnswerRepeated => Violation::ActionMalformed,
            Self::AnswerMissing | Self::RepliesMissing => Violation::ActionMissing,
            Self::SearchMalformed => Violation::RouteMalformed,
            Self::UnknownName => Violation::UnknownModel,
            Self::TooManySearches => Violation::CallLimit,
        }
    }
}

/// All that is wrong with a whole transcript, each fault once, in the order of [`Fault`]; nothing where it is well-formed. A search
/// may name any known worker, whether or not it was offered. Text between the elements is no fault.
///
/// ```
/// # use pointsman::grammar::dialect::router_r1::{Fault, Names, check};
/// let names = Names::new(vec!["Qwen-7B".into()], vec![]).unwrap();
/// assert_eq!(check("<think>2 + 2</think><answer>4</answer>", &names), []);
/// assert_eq!(check("<think></think><answer>4</answer>", &names), [Fault::ThoughtMissing]);
/// ```
pub fn check(transcript: &str, names: &Names) -> Vec<Fault> {
    let mut faults = vec![];
    let mut counts = Counts::default();
    let (mut open, mut from): (Option<Tag<'_>>, usize) = (None, 0);
    while let Some(tag) = tag::next(transcript, from, &TAGS) {
        from = tag.end;
        if !tag.whole || !tag.attributes.trim().is_empty() {
            faults.push(Fault::Unbalanced);
        }
        match (open, tag.closes) {
            (None, true) => faults.push(Fault::Unbalanced),
            (None, false) => open = Some(tag),
            (Some(_), false) => faults.push(Fault::Nested),
            (Some(begun), true) if begun.name == tag.name => {
                counts.take(begun.name, &transcript[begun.end..tag.start], names, &mut faults);
                open = None;
            }
            (Some(_), true) => faults.push(Fault::Unbalanced),
        }
    }
    if open.is_some() {
        faults.push(Fault::Unbalanced);
    }
    let Counts { thoughts, searches, replies, answers } = counts;
    let wrong = [
        (thoughts == 0, Fault::ThoughtMissing),
        (answers == 0, Fault::AnswerMissing),
        (answers > 1, Fault::AnswerRepeated),
        (searches != replies, Fault::RepliesMissing),
        (searches > ROUTING_TURNS_MAX, Fault::TooManySearches),
    ];
    faults.extend(wrong.into_iter().filter(|(wrong, _)| *wrong).map(|(_, fault)| fault));
    faults.sort_unstable();
    faults.dedup();
    faults
}

/// Elements that are whole.
#[derive(Default)]
struct Counts {
    thoughts: usize,
    searches: usize,
    replies: usize,
    answers: usize,
}

impl Counts {
    fn take(&mut self, name: &str, content: &str, names: &Names, faults: &mut Vec<Fault>) {
        match name {
            "think" => self.thoughts += usize::from(!content.trim().is_empty()),
            "search" => {
                self.searches += 1;
                match content.split_once(':') {
                    None => faults.push(Fault::SearchMalformed),
                    Some((_, query)) if query.trim().is_empty() => faults.push(Fault::SearchMalformed),
                    Some((name, _)) if !names.knows(name.trim()) => faults.push(Fault::UnknownName),
                    Some(_) => {}
                }
            }
            "answer" => self.answers += 1,
            // Both names of a reply.
            _ => self.replies += 1,
        }
    }
}

/// The reward of a transcript, in [-1, 1]: -1 where its format is wrong, 0 where its answer is, else (1 - alpha) + alpha * c. `alpha`
/// is what cost weighs, in [0, 1]; `c` is 1 for an answer that cost nothing and falls to 0 with its completion tokens times their
/// price.
///
/// Reference: Router-R1 (arXiv 2506.09033), its hierarchical reward.
pub fn reward(is_well_formed: bool, is_right: bool, alpha: f64, c: f64) -> f64 {
    match (is_well_formed, is_right) {
        (false, _) => -1.0,
        (true, false) => 0.0,
        (true, true) => (1.0 - alpha) + alpha * c,
    }
}
