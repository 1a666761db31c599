//! Reads what an answer finally says: a number, a choice, a text, a block of code.
//!
//! Shared by the verifiers that compare answers with a reference (`answer`) and with each other (`consistency`), so
//! that both read alike. What can go wrong: an answer that states its result and then a closing remark with another
//! number is read wrong.

use std::ops::Range;

use closing::Mark;
use number::Number;

pub mod choice;
pub mod closing;
pub mod code;
pub mod exact;
pub mod fence;
pub mod number;
pub mod unit;

/// Bytes of an answer that are looked at.
pub const BYTES_READ: usize = 65_536;

/// The last [`BYTES_READ`] bytes of a long answer, on a character boundary: work stays bounded, and an answer stands
/// at the end.
#[must_use]
pub fn ending(response: &str) -> &str {
    &response[response.ceil_char_boundary(response.len().saturating_sub(BYTES_READ))..]
}

/// The number that answers, and where it stood.
#[must_use]
pub fn final_number(text: &str) -> Option<(Mark, Number)> {
    let chars = number::clean(text);
    let numbers = number::scan(&chars);
    let in_place = |(mark, range)| number_in(&chars, &numbers, mark, range).map(|number| (mark, number));
    let anywhere = || numbers.iter().rev().find(|n| !n.glued).or(numbers.last()).map(|n| (Mark::LastLine, *n));
    closing::places(&chars).into_iter().find_map(in_place).or_else(anywhere)
}

/// What follows the last "=" wins; else the first number behind a mark, and the last one of a bare line.
fn number_in(text: &[char], numbers: &[Number], mark: Mark, range: Range<usize>) -> Option<Number> {
    let range = if mark == Mark::LastLine { last_bold(text, numbers, &range).unwrap_or(range) } else { range };
    let inside = || numbers.iter().filter(|n| n.start >= range.start && n.end <= range.end);
    let plain = || inside().filter(|n| !n.glued);
    let equals = text[range.clone()].iter().rposition(|c| matches!(c, '=' | '≈')).map(|i| i + range.start);
    let after = equals.and_then(|at| plain().find(|n| n.start > at));
    let chosen = match mark {
        Mark::LastLine => after.or_else(|| plain().next_back()),
        // "#### 6th place" has nothing better than an ordinal.
        Mark::Boxed | Mark::Hashes | Mark::Phrase => after.or_else(|| plain().next()).or_else(|| inside().next()),
    };
    chosen.copied()
}

/// The last emphasised stretch of a line that holds a number: "She makes **$18** in 5 days."
fn last_bold(text: &[char], numbers: &[Number], line: &Range<usize>) -> Option<Range<usize>> {
    let marks: Vec<usize> = line.clone().filter(|i| text[*i] == number::BOLD).collect();
    let spans = marks.chunks_exact(2).map(|pair| pair[0]..pair[1]);
    let within = |span: &Range<usize>, n: &Number| n.start >= span.start && n.end <= span.end;
    spans.rev().find(|span| numbers.iter().any(|n| within(span, n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_final_number() {
        for (text, value) in [
            ("So \\boxed{\\frac{3}{4}} of 7.", 0.75),
            ("\\boxed{x = 5}", 5.0),
            ("\\[ \\boxed{18 \\text{ dollars}} \\]", 18.0),
            ("The answer is 3 + 4 = 7.", 7.0),
            ("The answer is 12 apples for 3 days.", 12.0),
            ("Answer: $1,200.50", 1200.5),
            ("**Answer:** 12", 12.0),
            ("9 * $2 = $18 every day", 18.0),
            ("It takes 3 hours.", 3.0),
            ("a <<3*4=12>>12\n#### 1,012", 1012.0),
            ("There are two in the 2nd row: 9", 9.0),
            ("The answer is\n\n-7", -7.0),
            ("She makes **$18** in 5 days.", 18.0),
            ("**The answer is 4** of 7", 4.0),
            ("7 - 1 = 6th place\n#### 6th place", 6.0),
            ("He answers questions worth 5 points: 26 + 15 = 41 points in 1 test.", 41.0),
        ] {
            assert_eq!(final_number(text).map(|(_, n)| n.value), Some(value), "{text}");
        }
        assert!(final_number("no digits").is_none());
    }
}
