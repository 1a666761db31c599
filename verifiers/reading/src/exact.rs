//! Text equality after normalising, as SQuAD scores it (Rajpurkar et al., 2016): case, punctuation, articles and
//! white space do not count. Unicode compatibility forms and case folding come on top.

use unicode_normalization::UnicodeNormalization;

use crate::closing::{self, Mark};

/// Lower case, no punctuation, no articles, single spaces. A text that is nothing but those stays as it is.
#[must_use]
pub fn normalise(text: &str) -> String {
    let folded: String = text
        .nfkc()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .map(|c| if c == 'ς' { 'σ' } else { c })
        .collect();
    let spaced: String =
        folded.chars().filter(|c| !is_dropped(*c)).map(|c| if is_space(c) { ' ' } else { c }).collect();
    let words: Vec<&str> = spaced.split(' ').filter(|w| !w.is_empty() && !matches!(*w, "a" | "an" | "the")).collect();
    if words.is_empty() { folded.trim().to_owned() } else { words.join(" ") }
}

/// Quotes and apostrophes vanish ("it's" is "its"); marks that part words become a space.
fn is_dropped(c: char) -> bool {
    matches!(
        c,
        '\'' | '\u{2018}' | '\u{2019}' | '"' | '\u{201c}' | '\u{201d}' | '`' | '.' | ',' | '!' | '?' | '*' | ';' | ':'
    )
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control() || (!c.is_alphanumeric() && !is_meaning(c))
}

/// Symbols that tell answers apart ("C" and "C++", "-5" and "5", "5 %" and "5"), and combining marks.
fn is_meaning(c: char) -> bool {
    matches!(
        c,
        '+' | '-' | '#' | '%' | '=' | '<' | '>' | '$' | '€' | '£' | '/' | '^' | '&' | '@' | '\u{300}'..='\u{36f}'
    ) || (!c.is_ascii() && !matches!(c, '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{303f}' | '¿' | '¡' | '«' | '»'))
}

/// What may be the answer, best last: the whole, its final line, what a mark points at.
#[must_use]
pub fn candidates(response: &str) -> Vec<String> {
    let chars: Vec<char> = response.chars().collect();
    let mut found = vec![response.trim().to_owned()];
    for (mark, range) in closing::places(&chars).into_iter().rev() {
        let range = if mark == Mark::Phrase { range.start..line_end(&chars, range.end) } else { range };
        let text: String = chars[range.clone()].iter().collect();
        found.push(text.trim().to_owned());
        if mark == Mark::Phrase {
            // Up to the end of the sentence too: "The answer is Paris. It lies on the Seine."
            let sentence: String = chars[range].iter().collect();
            found.push(sentence.split(['.', '!']).next().unwrap_or("").trim().to_owned());
        }
        if mark == Mark::Boxed {
            found.push(text.trim().trim_start_matches("\\text{").trim_end_matches('}').to_owned());
        }
    }
    found
}

fn line_end(text: &[char], from: usize) -> usize {
    text[from.min(text.len())..].iter().position(|c| *c == '\n').map_or(text.len(), |n| from + n)
}

/// Harmonic mean of precision and recall over words, in [0, 1].
#[must_use]
pub fn token_f1(got: &str, wanted: &str) -> f64 {
    let sorted = |text: &str| {
        let mut words: Vec<String> = normalise(text).split(' ').filter(|w| !w.is_empty()).map(str::to_owned).collect();
        words.sort_unstable();
        words
    };
    let (got, wanted) = (sorted(got), sorted(wanted));
    let (mut i, mut j, mut common) = (0, 0, 0_usize);
    while let (Some(a), Some(b)) = (got.get(i), wanted.get(j)) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    let total = got.len() + wanted.len();
    if total == 0 { 0.0 } else { 2.0 * common as f64 / total as f64 }
}

/// Yes or no, from the final place that says either, else from the first word.
#[must_use]
pub fn truth(response: &str) -> Option<bool> {
    let first_word = |text: &str| match normalise(text).split(' ').next().unwrap_or("") {
        "true" | "yes" | "correct" => Some(true),
        "false" | "no" | "incorrect" => Some(false),
        _ => None,
    };
    candidates(response).iter().rev().find_map(|text| first_word(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_like_squad_and_folds_unicode() {
        for (a, b) in [
            ("The  Eiffel Tower.", "eiffel tower"),
            ("STRASSE", "straße"),
            ("e\u{301}tude", "Étude"),
            ("ＡＢＣ", "abc"),
            ("ΟΔΟΣ", "οδος"),
            ("well-known", "well-known"),
            ("\"Paris\"", "paris"),
            ("Paris\0", "paris"),
        ] {
            assert_eq!(normalise(a), normalise(b), "{a} {b}");
        }
        for (a, b) in [("C++", "C"), ("C#", "C"), ("-5", "5"), ("the", ""), ("5%", "5"), ("x=1", "x 1")] {
            assert_ne!(normalise(a), normalise(b), "{a} {b}");
        }
    }

    #[test]
    fn f1_counts_words_as_a_bag() {
        assert_eq!(token_f1("the cat sat", "cat sat"), 1.0);
        assert_eq!(token_f1("cat", "cat cat cat"), 0.5);
        assert_eq!(token_f1("", "cat"), 0.0);
        assert_eq!(token_f1("dog", "cat"), 0.0);
    }

    #[test]
    fn truth_is_read_at_the_end_first() {
        assert_eq!(truth("Yes, because water is wet."), Some(true));
        assert_eq!(truth("Yes at first. But the answer is no."), Some(false));
        assert_eq!(truth("Perhaps."), None);
    }
}
