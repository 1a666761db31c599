//! What of a text the model reads: its head and its tail.
//!
//! The model reads a few hundred tokens, and a long prompt tends to carry its material in the middle and its task at
//! one end. First the middle is cut by bytes, so that tokenising has a bound (a megabyte takes 1.4 s); what is left is
//! cut by tokens, exactly, by [`head_and_tail`]. What can go wrong: a text without content, which is refused.

use std::{borrow::Cow, ops::Range};

use crate::round::Invalid;

/// Bytes kept per token that the model reads, before tokenising. English takes 4 to 5 bytes a token, code 3, deeply
/// indented code 8: 16 loses nothing that the model would have read, and 256 tokens' worth tokenises in 6 ms.
const BYTES_PER_TOKEN_MAX: usize = 16;
/// Stands where the middle was; any white space would do.
const GAP: &str = "\n";

/// The text without outer blanks and NULs, its middle cut out if it is long. Preparing twice changes nothing.
/// Refuses a text that is empty, blank or only NULs.
pub(super) fn prepare(text: &str, max_tokens: usize) -> Result<Cow<'_, str>, Invalid> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    if text.is_empty() {
        return Err(Invalid::new("prompt", "must hold more than white space"));
    }
    let bytes_max = max_tokens.saturating_mul(BYTES_PER_TOKEN_MAX);
    let kept = if text.len() <= bytes_max {
        Cow::Borrowed(text)
    } else {
        let half = bytes_max.saturating_sub(GAP.len()) / 2;
        let tail = text.ceil_char_boundary(text.len() - half);
        Cow::Owned([&text[..text.floor_char_boundary(half)], GAP, &text[tail..]].concat())
    };
    // The tokeniser drops NULs, which would join the words around them.
    Ok(if kept.contains('\0') { Cow::Owned(kept.replace('\0', " ")) } else { kept })
}

/// Keeps the first and the last tokens of a text, `budget` together. `tokens` are byte ranges in the text, in order.
pub(super) fn head_and_tail<'a>(text: &'a str, tokens: &[Range<usize>], budget: usize) -> Cow<'a, str> {
    let tail = budget / 2;
    let head = budget - tail;
    if tokens.len() <= budget || head == 0 {
        return Cow::Borrowed(text);
    }
    let head_end = text.floor_char_boundary(tokens[head - 1].end);
    let tail_start = tokens.get(tokens.len() - tail).map_or(text.len(), |token| text.floor_char_boundary(token.start));
    Cow::Owned([&text[..head_end], GAP, &text[tail_start.max(head_end)..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_pass_and_blank_ones_are_refused() {
        assert_eq!(prepare("  fix the parser\n", 256).unwrap(), "fix the parser");
        for blank in ["", " \t\n", "\0\0", " \0 "] {
            assert_eq!(prepare(blank, 256).unwrap_err().field, "prompt");
        }
    }

    #[test]
    fn nuls_become_blanks() {
        assert_eq!(prepare("a\0b\0", 256).unwrap(), "a b");
    }

    #[test]
    fn long_texts_keep_head_and_tail_at_character_boundaries() {
        for filler in ["x", "é", "日", "🚂"] {
            let text = format!("HEAD{}TAIL", filler.repeat(5_000));
            let kept = prepare(&text, 64).unwrap();
            assert!(kept.starts_with("HEAD") && kept.ends_with("TAIL"));
            assert!(kept.len() <= 64 * BYTES_PER_TOKEN_MAX && kept.len() > 64 * BYTES_PER_TOKEN_MAX - 16);
            assert_eq!(prepare(&kept, 64).unwrap(), kept);
        }
    }

    #[test]
    fn tokens_are_kept_from_both_ends() {
        let text = "a bb ccc dd e";
        let tokens = [0..1, 2..4, 5..8, 9..11, 12..13];
        assert_eq!(head_and_tail(text, &tokens, 5), text);
        assert_eq!(head_and_tail(text, &tokens, 4), "a bb\ndd e");
        assert_eq!(head_and_tail(text, &tokens, 3), "a bb\ne");
        assert_eq!(head_and_tail(text, &tokens, 1), "a\n");
    }
}
