//! Finds the final answer in free text: where an answer says so, else at its end.
//!
//! In order: the last `\boxed{}`, the last `####`, the last "answer is" or "Answer:", then the last line. The last of
//! each counts, because models correct themselves.

/// Where a final answer was found. `confidence` in [0, 1] is how sure such a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Boxed,
    Hashes,
    Phrase,
    LastLine,
}

impl Mark {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boxed => "boxed",
            Self::Hashes => "####",
            Self::Phrase => "answer phrase",
            Self::LastLine => "last line",
        }
    }

    #[must_use]
    pub fn confidence(self) -> f64 {
        match self {
            Self::Boxed | Self::Hashes => 1.0,
            Self::Phrase => 0.95,
            Self::LastLine => 0.8,
        }
    }
}

/// Places to look for the answer as ranges of `text`, best first.
#[must_use]
pub fn places(text: &[char]) -> Vec<(Mark, std::ops::Range<usize>)> {
    let mut found = vec![];
    found.extend(boxed(text).map(|r| (Mark::Boxed, r)));
    found.extend(last_index(text, "####").map(|at| (Mark::Hashes, line_from(text, at + 4))));
    found.extend(phrase(text).map(|r| (Mark::Phrase, r)));
    found.extend(last_line(text).map(|r| (Mark::LastLine, r)));
    found
}

/// Body of the last `\boxed{...}`, braces balanced; to the end when they are not.
fn boxed(text: &[char]) -> Option<std::ops::Range<usize>> {
    let start = last_index(text, "boxed{")? + "boxed{".len();
    let mut depth = 1;
    let close = text[start..].iter().position(|c| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    Some(start..close.map_or(text.len(), |n| start + n))
}

/// What follows the last "answer is", "answer:", "answer to ... is", within its sentence.
fn phrase(text: &[char]) -> Option<std::ops::Range<usize>> {
    let mut before = text.len();
    // A few steps back: "answer" in a closing remark is no mark.
    for _ in 0..8 {
        let at = last_index(&text[..before], "answer")?;
        if let Some(start) = after_link(text, at + "answer".len()) {
            return Some(sentence_from(text, start));
        }
        before = at;
    }
    None
}

/// Past the link between "answer" and the answer itself.
fn after_link(text: &[char], from: usize) -> Option<usize> {
    /// Characters between "answer" and its "is" ("answer to the question is").
    const GAP: usize = 60;
    let window = &text[from..(from + GAP).min(text.len())];
    let stop = window.iter().position(|c| matches!(c, '\n' | '.')).unwrap_or(window.len());
    let window = &window[..stop];
    let plain = window.iter().position(|c| !is_markup(*c))?;
    let opens = |word: &str| starts_word(window, plain, word);
    let linked = matches!(window[plain], ':' | '=' | '：')
        || ["is", "to", "for", "of", "would", "will", "should", "must"].iter().any(|w| opens(w));
    // "answers", "answer questions": no mark.
    if !linked {
        return None;
    }
    let colon = window.iter().position(|c| matches!(c, ':' | '=' | '：')).map(|i| i + 1);
    let verb =
        (0..window.len()).find(|i| starts_word(window, *i, "is") || starts_word(window, *i, "be")).map(|i| i + 2);
    let link = match (colon, verb) {
        (Some(a), Some(b)) => a.min(b),
        (one, other) => one.or(other)?,
    };
    // "The answer is: 5"
    let again = text[from + link..].iter().take_while(|c| is_markup(**c) || matches!(c, ':' | '=')).count();
    Some(from + link + again)
}

/// Space and emphasis, as written and as [`crate::number::clean`] leaves it.
fn is_markup(c: char) -> bool {
    matches!(c, ' ' | '*' | '_' | '"' | crate::number::BOLD)
}

fn starts_word(text: &[char], at: usize, word: &str) -> bool {
    let end = at + word.len();
    let edge = |i: Option<&char>| i.is_none_or(|c| !c.is_alphanumeric());
    matches_at(text, at, word) && edge(at.checked_sub(1).and_then(|i| text.get(i))) && edge(text.get(end))
}

/// To the end of the sentence; from the next filled line when nothing is left on this one.
fn sentence_from(text: &[char], from: usize) -> std::ops::Range<usize> {
    let from = from + text[from..].iter().take_while(|c| c.is_whitespace()).count();
    let end = (from..text.len()).find(|i| {
        let next = text.get(i + 1);
        text[*i] == '\n' || (matches!(text[*i], '.' | '!' | '?') && next.is_none_or(|c| c.is_whitespace()))
    });
    from..end.unwrap_or(text.len())
}

fn line_from(text: &[char], from: usize) -> std::ops::Range<usize> {
    let from = from + text[from..].iter().take_while(|c| c.is_whitespace()).count();
    from..text[from..].iter().position(|c| *c == '\n').map_or(text.len(), |n| from + n)
}

fn last_line(text: &[char]) -> Option<std::ops::Range<usize>> {
    let end = text.iter().rposition(|c| !c.is_whitespace())? + 1;
    let start = text[..end].iter().rposition(|c| *c == '\n').map_or(0, |n| n + 1);
    Some(start..end)
}

fn matches_at(text: &[char], at: usize, word: &str) -> bool {
    let mut rest = text[at.min(text.len())..].iter();
    word.chars().all(|wanted| rest.next().is_some_and(|c| c.eq_ignore_ascii_case(&wanted)))
}

fn last_index(text: &[char], word: &str) -> Option<usize> {
    (0..text.len()).rev().find(|at| matches_at(text, *at, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> (Mark, String) {
        let chars: Vec<char> = text.chars().collect();
        let (mark, range) = places(&chars).remove(0);
        (mark, chars[range].iter().collect())
    }

    #[test]
    fn prefers_the_plainest_mark_and_its_last_use() {
        assert_eq!(first("\\boxed{1} then \\boxed{\\frac{1}{2}}. Answer: 9"), (Mark::Boxed, "\\frac{1}{2}".into()));
        assert_eq!(first("The answer is 4.\n#### 5\n"), (Mark::Hashes, "5".into()));
        assert_eq!(first("Answer: 4\nNo, the answer is: 5. Thanks."), (Mark::Phrase, "5".into()));
        assert_eq!(first("The answer to the riddle is an egg."), (Mark::Phrase, "an egg".into()));
        assert_eq!(first("Final Answer:\n\n12 km"), (Mark::Phrase, "12 km".into()));
        assert_eq!(first("3 answers for = 77\nlast"), (Mark::LastLine, "last".into()));
        assert_eq!(first("one\ntwo\n\n"), (Mark::LastLine, "two".into()));
        assert_eq!(first("\\boxed{1"), (Mark::Boxed, "1".into()));
    }

    #[test]
    fn nothing_to_find_in_nothing() {
        assert!(places(&[]).is_empty());
        assert!(places(&['\n', ' ']).is_empty());
    }
}
