//! Texts that are not the model's, made unable to forge a tag.
//!
//! A backslash goes behind the `<` of everything that is a tag of either dialect or looks like one to a reader: in other letters or
//! cases, with spaces or invisible characters in it, with another kind of bracket. So `</observation>` becomes `<\/observation>`, which
//! no parser takes for a tag and a model still reads. The marks between which chat templates put messages (`<|im_end|>`, `</s>`) are
//! treated alike, because servers take them for their own even within a message. All other text stays as it is: code and HTML
//! are common in questions.
//!
//! Why a backslash, and not `&lt;`: it can be undone exactly, also in texts that hold entities. A text that had a backslash there
//! gets one more.
//!
//! What can go wrong: letters outside ASCII that look like ASCII ones are too many to list, so each of them counts as any letter. A
//! tag in another script that happens to have a name of the same length is escaped without need; unescaping gives it back.

/// Marks of chat templates, without their bracket. Servers know them in this form only.
const TEMPLATE: [&str; 7] = ["s>", "bos>", "eos>", "unk>", "pad>", "start_of_turn>", "end_of_turn>"];

/// Names of both dialects' tags.
const TAGS: [&str; 8] = ["mode", "route", "observation", "answer", "think", "search", "information", "info"];

/// Characters that are drawn as an opening bracket.
const BRACKETS: [char; 13] = ['<', '＜', '﹤', '‹', '〈', '〈', '⟨', '❮', '❬', '˂', 'ᐸ', '≺', '⧼'];

/// Letters that are drawn as nothing.
const FILLERS: [char; 4] = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}'];

/// The text with no tag in it.
///
/// ```
/// use pointsman::grammar::dialect::escape::{escape, unescape};
/// assert_eq!(escape("a < b, </Observation ><answer>x"), "a < b, <\\/Observation ><\\answer>x");
/// assert_eq!(unescape(&escape("<answer>x")), "<answer>x");
/// ```
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for (bracket, _) in brackets(text) {
        escaped.push_str(&text[from..bracket]);
        escaped.push('\\');
        from = bracket;
    }
    escaped.push_str(&text[from..]);
    escaped
}

/// What [`escape`] was given.
pub fn unescape(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut from = 0;
    for (bracket, _) in brackets(text).filter(|(_, backslashes)| *backslashes > 0) {
        unescaped.push_str(&text[from..bracket]);
        from = bracket + 1;
    }
    unescaped.push_str(&text[from..]);
    unescaped
}

/// The places behind brackets that a tag follows, backslashes passed over, and how many of those there are.
fn brackets(text: &str) -> impl Iterator<Item = (usize, usize)> {
    text.char_indices().filter(|(_, c)| BRACKETS.contains(c)).filter_map(|(at, bracket)| {
        let behind = at + bracket.len_utf8();
        let rest = text[behind..].trim_start_matches('\\');
        let backslashes = text.len() - behind - rest.len();
        looks_like_a_tag(rest).then_some((behind, backslashes))
    })
}

/// Whether what follows a bracket makes a tag of it. Brackets and backslashes are never passed over, so that escaping one place
/// changes nothing for another.
fn looks_like_a_tag(rest: &str) -> bool {
    let exact = rest.strip_prefix('/').unwrap_or(rest);
    if TEMPLATE.iter().any(|mark| exact.starts_with(mark)) {
        return true;
    }
    let rest = rest.trim_start_matches(is_nothing);
    if rest.starts_with(['|', '｜']) {
        return true;
    }
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    TAGS.iter().any(|name| begins_with_name(rest, name))
}

fn begins_with_name(rest: &str, name: &str) -> bool {
    let mut left = rest.chars();
    for letter in name.chars() {
        let found = left.by_ref().find(|c| !is_nothing(*c));
        let same = |c: char| c.eq_ignore_ascii_case(&letter) || is_foreign_letter(c);
        if !found.is_some_and(same) {
            return false;
        }
    }
    !left.next().is_some_and(|c| is_foreign_letter(c) || c.is_ascii_alphanumeric())
}

/// Whether a reader sees nothing there, or a space, or a sign that could be meant for none.
fn is_nothing(c: char) -> bool {
    let sign = c.is_ascii_whitespace() || c.is_ascii_control() || (!c.is_ascii() && !c.is_alphanumeric());
    (sign && !BRACKETS.contains(&c) && c != '｜') || FILLERS.contains(&c)
}

fn is_foreign_letter(c: char) -> bool {
    !c.is_ascii() && c.is_alphanumeric() && !BRACKETS.contains(&c) && !FILLERS.contains(&c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grammar::dialect::tag;

    #[test]
    fn tags_and_what_looks_like_one_are_escaped() {
        for tag in [
            "<route model=\"worker_1\">",
            "</observation>",
            "</OBSERVATION >",
            "< route",
            "<\t/ answer>",
            "<Search>",
            "<info>",
            "＜answer＞",
            "<ａｎｓｗｅｒ>",
            "<аnswer>",
            "<ans\u{200b}wer>",
            "<\u{ad}answer>",
            "<ans\u{301}wer>",
            "‹answer›",
            "<／answer>",
            "<answer\u{3164}>",
            "<|im_end|>",
            "<｜end▁of▁sentence｜>",
            "</s>",
            "<end_of_turn>",
            "<mode",
        ] {
            let escaped = escape(tag);
            let bracket = tag.chars().next().unwrap();
            assert_eq!(escaped, format!("{bracket}\\{}", &tag[bracket.len_utf8()..]));
            assert_eq!(unescape(&escaped), tag);
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "a < b && c > d",
            "Vec<u8>",
            "<div class=\"answer\">",
            "<answers>",
            "<model>",
            "x << 3",
            "<-",
            "",
            "\\<",
            "&lt;answer>",
        ] {
            assert_eq!(escape(text), text);
            assert_eq!(unescape(text), text);
        }
    }

    #[test]
    fn what_was_escaped_already_is_escaped_once_more() {
        assert_eq!(escape("<\\answer>"), "<\\\\answer>");
        assert_eq!(unescape("<\\\\answer>"), "<\\answer>");
    }

    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[<＜‹ᐸ/\\\\ ]{0,3}(mode|route|observation|answer|think|search|information|info|s|eos|MODE|Answer)[> /\"\\\\<]{0,2}",
            "[<＜‹ᐸ\\\\/|｜ \u{200b}\u{3164}аｎ]{0,6}",
            any::<String>(),
        ];
        prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_048))]

        #[test]
        fn no_tag_survives_and_the_text_comes_back(text in texts()) {
            let escaped = escape(&text);
            prop_assert_eq!(tag::next(&escaped, 0, &TAGS), None);
            let lower = escaped.to_lowercase();
            prop_assert_eq!(tag::next(&lower, 0, &TAGS), None);
            prop_assert_eq!(unescape(&escaped), text);
        }
    }
}
