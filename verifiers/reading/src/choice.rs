//! Which option of a multiple-choice question an answer picks.
//!
//! A letter counts only where it stands as one: "A" and "I" are words too. An answer that names several options in
//! the deciding place picks none, else "A, B, C or D" would be right for every question; nor does one that lists the options
//! and says no more, as small models do that go on with the question.

use serde_json::Value;

use crate::closing::{self, Mark};
use crate::exact::normalise;

/// Letters A to J.
const OPTIONS_MAX: usize = 10;

/// The options' letters and, when known, their texts.
pub struct Options {
    /// Normalised text per letter; empty when the task does not list them.
    texts: Vec<(char, String)>,
}

impl Options {
    /// From `metadata.choices`: an array of texts, or an object from letter to text.
    ///
    /// # Errors
    /// Says what is wrong with the list.
    pub fn new(choices: Option<&Value>) -> Result<Self, String> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(normalise(text)),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err("a choice is neither a string nor a number".to_owned()),
        };
        let texts: Vec<(char, String)> = match choices {
            None | Some(Value::Null) => vec![],
            Some(Value::Array(items)) => {
                ('A'..='J').zip(items).map(|(l, v)| Ok((l, text(v)?))).collect::<Result<_, String>>()?
            }
            Some(Value::Object(map)) => map
                .iter()
                .map(|(key, v)| {
                    Ok((bare_letter(key).ok_or_else(|| format!("choice {key:?} is not a letter A to J"))?, text(v)?))
                })
                .collect::<Result<_, String>>()?,
            Some(_) => return Err("choices is neither an array nor an object".to_owned()),
        };
        let count = match choices {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(map)) => map.len(),
            _ => return Ok(Self { texts }),
        };
        if count == 0 || count > OPTIONS_MAX {
            return Err(format!("{count} choices: 1 to {OPTIONS_MAX} are supported"));
        }
        Ok(Self { texts })
    }

    /// The letter a reference means: a letter, an index counted from 0, or the text of a choice.
    #[must_use]
    pub fn reference(&self, reference: &Value) -> Option<char> {
        let by_index = |i: u64| self.texts.get(usize::try_from(i).ok()?).map(|(letter, _)| *letter);
        match reference {
            Value::Number(number) => self.by_text(&number.to_string()).or_else(|| by_index(number.as_u64()?)),
            // A text that equals a choice comes first: choices may be digits or letters themselves.
            Value::String(text) => self
                .by_text(&normalise(text))
                .or_else(|| self.allowed(letter_form(text)?))
                .or_else(|| by_index(text.trim().parse().ok()?)),
            _ => None,
        }
    }

    /// The option that `response` picks, and how it was found.
    #[must_use]
    pub fn pick(&self, response: &str) -> Option<(char, &'static str)> {
        let whole = response.trim();
        if let Some(letter) = letter_form(whole).and_then(|l| self.allowed(l)) {
            return Some((letter, "whole answer"));
        }
        if let Some(letter) = self.by_text(&normalise(whole)) {
            return Some((letter, "text of a choice"));
        }
        let labels: Vec<Option<char>> = whole.lines().map(label).collect();
        let last_is_listed = is_listed(&labels, labels.len().saturating_sub(1));
        let chars: Vec<char> = response.chars().collect();
        for (mark, range) in closing::places(&chars) {
            if mark == Mark::LastLine && last_is_listed {
                continue;
            }
            let text: String = chars[range].iter().collect();
            match self.in_place(&text, mark) {
                Read::Picked(letter) => return Some((letter, mark.name())),
                Read::Several => return None,
                Read::Nothing => {}
            }
        }
        let first = whole.lines().next().unwrap_or("");
        self.labelled(first)
            .filter(|_| !is_listed(&labels, 0))
            .map(|l| (l, "first line"))
            .or_else(|| self.last_bracketed(&chars).filter(|_| !last_is_listed))
            .or_else(|| self.only_text_in(whole))
    }

    fn in_place(&self, text: &str, mark: Mark) -> Read {
        let text = text.trim().trim_start_matches("\\text{").trim_start_matches("\\textbf{");
        if let Some(letter) = self.by_text(&normalise(text)) {
            return Read::Picked(letter);
        }
        let Some(letter) = self.leading(text, mark) else {
            return self.only_text_in(text).map_or(Read::Nothing, |(letter, _)| Read::Picked(letter));
        };
        if self.names_another(text, letter) { Read::Several } else { Read::Picked(letter) }
    }

    /// The letter that a deciding place starts with.
    fn leading(&self, text: &str, mark: Mark) -> Option<char> {
        const FILLERS: &[&str] =
            &["option", "choice", "answer", "letter", "probably", "definitely", "clearly", "most likely"];
        let mut text = text.trim_start_matches(is_wrapper);
        while let Some(rest) = FILLERS.iter().find_map(|f| strip_prefix_folded(text, f)) {
            text = rest.trim_start_matches(|c: char| is_wrapper(c) || c == ':');
        }
        let mut chars = text.chars();
        let first = chars.next()?;
        let next = chars.next();
        let sure = match next {
            None => true,
            // "A cat" and "I think" are words; "B because" is a letter.
            Some(c) if c.is_whitespace() => {
                mark != Mark::LastLine
                    && first.is_ascii_uppercase()
                    && (!matches!(first, 'A' | 'I') || is_link(chars.as_str()))
            }
            Some('\'' | '’' | '-') => false,
            Some(c) => !c.is_alphanumeric(),
        };
        // A lower-case letter needs a bracket or the end: "a." may end an abbreviation.
        let cased = first.is_ascii_uppercase() || matches!(next, None | Some(')' | ']' | '}' | '.'));
        (sure && cased).then_some(first).and_then(bare).and_then(|l| self.allowed(l))
    }

    /// "B) Paris", "(B) Paris", "B. Paris", "B: Paris" at the start of a line.
    fn labelled(&self, line: &str) -> Option<char> {
        let line = line.trim_start_matches(is_wrapper);
        let mut chars = line.chars();
        let letter = bare(chars.next().filter(char::is_ascii_uppercase)?)?;
        let labelled = matches!(chars.next()?, ')' | '.' | ':' | ']' | '*');
        (labelled && !self.names_another(line, letter)).then_some(letter).and_then(|l| self.allowed(l))
    }

    /// The last "(B)" in the text.
    fn last_bracketed(&self, text: &[char]) -> Option<(char, &'static str)> {
        let window = text
            .windows(3)
            .rev()
            .find(|w| w[0] == '(' && w[2] == ')' && w[1].is_ascii_uppercase() && bare(w[1]).is_some());
        window.and_then(|w| self.allowed(w[1])).map(|l| (l, "last bracketed letter"))
    }

    /// The one choice whose text stands in the answer; none when several do.
    fn only_text_in(&self, text: &str) -> Option<(char, &'static str)> {
        let padded = format!(" {} ", normalise(text));
        let present = |wanted: &str| !wanted.is_empty() && padded.contains(&format!(" {wanted} "));
        let hits: Vec<&(char, String)> = self.texts.iter().filter(|(_, wanted)| present(wanted)).collect();
        // "New York" also holds "York": the longest counts when it holds the others.
        let longest = hits.iter().max_by_key(|(_, wanted)| wanted.len())?;
        hits.iter().all(|(_, wanted)| longest.1.contains(wanted.as_str())).then_some((longest.0, "text of a choice"))
    }

    fn by_text(&self, normalised: &str) -> Option<char> {
        let mut hits = self.texts.iter().filter(|(_, text)| !text.is_empty() && text == normalised);
        let first = hits.next()?;
        hits.next().is_none().then_some(first.0)
    }

    fn allowed(&self, letter: char) -> Option<char> {
        (self.texts.is_empty() || self.texts.iter().any(|(known, _)| *known == letter)).then_some(letter)
    }

    /// "A or B", "A, B", "(A) and (C)": another option right behind the first.
    fn names_another(&self, text: &str, picked: char) -> bool {
        let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '/' | '&')).filter(|w| !w.is_empty());
        let mut linked = false;
        for (i, word) in words.take(12).enumerate() {
            let core = word.trim_matches(|c: char| !c.is_alphanumeric());
            let other = core.len() == 1
                && core.starts_with(|c: char| c.is_ascii_uppercase() && c != picked && bare(c).is_some());
            let worded = matches!(core, "A" | "I") && core.len() == word.len() && !linked;
            if other && !worded && (linked || i <= 1) && self.allowed(core.chars().next().unwrap_or(' ')).is_some() {
                return true;
            }
            linked = matches!(core, "or" | "and") || (linked && core.is_empty());
        }
        false
    }
}

/// The option that a line stands for in a list of them: "B. Paris", or "B" where the list was cut off.
fn label(line: &str) -> Option<char> {
    let mut chars = line.trim_start_matches(is_wrapper).chars();
    let letter = bare(chars.next().filter(char::is_ascii_uppercase)?)?;
    chars.next().is_none_or(|next| matches!(next, ')' | '.' | ':' | ']' | '*')).then_some(letter)
}

/// Whether a line is one of several that stand for one option after the other.
fn is_listed(labels: &[Option<char>], line: usize) -> bool {
    let follows = |line: usize| match labels.get(line..line + 2) {
        Some([Some(this), Some(next)]) => u32::from(*this) + 1 == u32::from(*next),
        _ => false,
    };
    follows(line) || line.checked_sub(1).is_some_and(follows)
}

enum Read {
    Picked(char),
    Several,
    Nothing,
}

fn bare(c: char) -> Option<char> {
    Some(c.to_ascii_uppercase()).filter(|c| ('A'..='J').contains(c))
}

fn bare_letter(key: &str) -> Option<char> {
    let mut chars = key.trim().chars();
    let letter = bare(chars.next()?)?;
    chars.next().is_none().then_some(letter)
}

/// A text that is one letter with its decoration: "B", "(b)", "B.", "**B**", "$B$".
fn letter_form(text: &str) -> Option<char> {
    bare_letter(text.trim_matches(|c: char| is_wrapper(c) || matches!(c, ')' | ']' | '}' | '.' | ':' | ',')))
}

fn is_wrapper(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '(' | '[' | '{' | '*' | '_' | '`' | '"' | '\'' | '$' | '“' | '”' | '#' | '>')
}

fn is_link(rest: &str) -> bool {
    ["because", "since", "as ", "-", "–", "—", "and", "or"].iter().any(|link| rest.trim_start().starts_with(link))
}

fn strip_prefix_folded<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    let rest = &text[prefix.len()..];
    (head.eq_ignore_ascii_case(prefix) && !rest.starts_with(char::is_alphanumeric)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pick(choices: Value, text: &str) -> Option<char> {
        Options::new(Some(&choices)).unwrap().pick(text).map(|(letter, _)| letter)
    }

    #[test]
    fn reads_each_form_of_a_letter() {
        for text in [
            "B",
            "b",
            "(B)",
            "B.",
            "B)",
            "**B**",
            "Answer: B",
            "The answer is B",
            "The answer is (B).",
            "**Answer:** (B)",
            "B. Paris",
            "B) Paris because it is.",
            "The correct answer is option B.",
            "So the answer is B because of A.",
            "\\boxed{B}",
            "\\boxed{\\text{B}}",
            "Option A is wrong.\n\nB",
            "A is wrong and C is wrong, so (B)",
            "I think A at first.\nFinal answer: **B**",
            "The answer is b)",
            "#### B",
            "Answer: B. Paris",
            "Let me think.\nB) Paris",
            "The answer is: B\n",
        ] {
            assert_eq!(pick(Value::Null, text), Some('B'), "{text}");
        }
    }

    #[test]
    fn words_and_hedges_are_no_letters() {
        for text in [
            "",
            "A cat sat.",
            "I think so.",
            "The answer is a cat.",
            "The answer is A, B, C or D.",
            "A, B",
            "The answer is A or B.",
            "Answer: A/B",
            "Bravo",
            "\0",
            "The answer is (A) and (C).",
        ] {
            assert_eq!(pick(Value::Null, text), None, "{text}");
        }
    }

    #[test]
    fn a_list_of_the_options_picks_none_but_what_is_said_after_it_does() {
        for text in [
            "A. shelf\nB. window\nC. shop\nD. hardware",
            "A.\nB.\nC.\nD.\nAnswer:\n",
            "(A) ship\n(B) factory",
            "A. dry\nB. prolix\nC. loquacious\nD",
            "Which one?\nA: dry\nB: prolix\nC",
        ] {
            assert_eq!(pick(Value::Null, text), None, "{text}");
        }
        for text in [
            "A. shelf\nB. window\nThe answer is B",
            "A. wrong.\nB. right.\nC. wrong.\n\nB",
            "A. wrong.\nB. right.\nC. wrong.\n(B)",
            "B. window\nD. is too low: the answer is B.",
        ] {
            assert_eq!(pick(Value::Null, text), Some('B'), "{text}");
        }
    }

    #[test]
    fn reads_the_text_of_a_choice() {
        let cities = json!(["York", "New York", "Paris"]);
        assert_eq!(pick(cities.clone(), "paris."), Some('C'));
        assert_eq!(pick(cities.clone(), "It must be New York, I think."), Some('B'));
        assert_eq!(pick(cities.clone(), "Paris or New York."), None);
        assert_eq!(pick(cities.clone(), "The answer is Paris, not New York? No: the answer is York."), Some('A'));
        assert_eq!(pick(cities, "D"), None);
        assert_eq!(pick(json!({"A":"1","B":"2"}), "The answer is 2."), Some('B'));
    }

    #[test]
    fn a_reference_is_letter_index_or_text() {
        let options = Options::new(Some(&json!(["red", "green", "blue"]))).unwrap();
        for reference in [json!("B"), json!("(b)"), json!(1), json!("1"), json!("Green")] {
            assert_eq!(options.reference(&reference), Some('B'), "{reference}");
        }
        for reference in [json!("D"), json!(3), json!("pink"), json!(-1), json!(true)] {
            assert_eq!(options.reference(&reference), None, "{reference}");
        }
        let digits = Options::new(Some(&json!(["2", "1"]))).unwrap();
        assert_eq!(digits.reference(&json!("1")), Some('B'));
    }

    #[test]
    fn refuses_malformed_choices() {
        for choices in [json!([]), json!({}), json!("A"), json!([true]), json!({"Z":"x"}), json!(vec!["x"; 11])] {
            assert!(Options::new(Some(&choices)).is_err(), "{choices}");
        }
    }
}
