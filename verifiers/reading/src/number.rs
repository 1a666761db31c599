//! Reads the numbers in free text, with their signs, separators, currencies, fractions and powers of ten.
//!
//! Hand-written, because a minus in "16 - 7" is an operator and in "= -7" a sign, which depends on what stands
//! before; a regex would need look-behind. Everything is one pass, and a literal of absurd length is skipped.

use crate::unit::{self, Unit};

/// Longest literal in characters; f64 has 17 digits.
const LITERAL_MAX: usize = 320;
const RELATIVE_TOLERANCE: f64 = 1e-6;

/// A number and where it stands in the cleaned text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    pub value: f64,
    /// "25 %": may be compared as 25 or as 0.25.
    percent: bool,
    /// "3 million": may be compared as 3 or as 3e6.
    scale: f64,
    /// "5 km": compared after conversion with another of its dimension.
    unit: Option<Unit>,
    /// Part of a word or an ordinal, such as H2O or 2nd: used only when nothing else is there.
    pub glued: bool,
    pub start: usize,
    pub end: usize,
}

impl Number {
    /// Do both mean the same, to a relative tolerance of 1e-6? A unit that only one of them has does not count.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.unit, other.unit)
            && a.dimension == b.dimension
        {
            return close(self.value * self.scale * a.factor, other.value * other.scale * b.factor);
        }
        self.readings().iter().any(|a| other.readings().iter().any(|b| close(*a, *b)))
            && !(self.percent && other.percent && !close(self.value, other.value))
    }

    fn readings(&self) -> [f64; 3] {
        [self.value, if self.percent { self.value / 100.0 } else { self.value }, self.value * self.scale]
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= RELATIVE_TOLERANCE * a.abs().max(b.abs()) || (a - b).abs() < 1e-12
}

/// Stands for `**` in cleaned text.
pub const BOLD: char = '\u{2}';

/// One spelling for what is written in many: minus signs, LaTeX spacing and escapes, full-width digits.
#[must_use]
pub fn clean(text: &str) -> Vec<char> {
    const GONE: &[&str] = &["{,}", "\\!", "\\,", "\\;", "\\left", "\\right", "\\(", "\\)", "\\[", "\\]", "__"];
    const SWAPPED: &[(&str, &str)] = &[
        ("**", "\u{2}"),
        ("\\$", "$"),
        ("\\%", "%"),
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\cfrac", "\\frac"),
        ("\\times", "×"),
        ("\\cdot", "×"),
        ("\\approx", "≈"),
        ("\\text", ""),
        ("\\mathrm", ""),
        ("\\mathbf", ""),
    ];
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if matches!(c, '{' | '\\' | '*' | '_') {
            // Joining "1{,}000" must keep the group; a comma does that and the rest leave nothing.
            if let Some(gone) = GONE.iter().find(|gone| rest.starts_with(**gone)) {
                if *gone == "{,}" {
                    out.push(',');
                }
                rest = &rest[gone.len()..];
                continue;
            }
            if let Some((from, to)) = SWAPPED.iter().find(|(from, _)| rest.starts_with(from)) {
                out.extend(to.chars());
                rest = &rest[from.len()..];
                continue;
            }
        }
        out.push(match c {
            '−' | '–' | '﹣' | '－' => '-',
            '⁄' => '/',
            '０'..='９' => char::from_u32(u32::from(c) - 0xff10 + 0x30).unwrap_or(c),
            // Spaces that group digits become one sign of their own; a plain space does not group.
            '\u{a0}' | '\u{202f}' | '\u{2009}' => '\u{2009}',
            other => other,
        });
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// All numbers, left to right.
#[must_use]
pub fn scan(text: &[char]) -> Vec<Number> {
    let mut found = vec![];
    let mut at = 0;
    while at < text.len() {
        match literal(text, at) {
            Some(number) => {
                at = number.end.max(at + 1);
                if number.value.is_finite() {
                    found.push(number);
                }
            }
            None => at = skip(text, at),
        }
    }
    found
}

/// The number that is all there is, apart from currency, a final period and white space.
#[must_use]
pub fn whole(text: &str) -> Option<Number> {
    let chars = clean(text.trim());
    let numbers = scan(&chars);
    let [only] = numbers.as_slice() else { return None };
    let (_, behind) = scale(&chars, only.end);
    let end = unit::at(&chars, behind).map(|(_, end)| end).or_else(|| unit::money(&chars, behind));
    let around = chars[..only.start].iter().chain(&chars[end.unwrap_or(behind)..]);
    let bare =
        around.filter(|c| !c.is_whitespace()).all(|c| is_currency(*c) || matches!(c, '.' | '+' | '%' | '{' | '}'));
    (bare && !only.glued).then_some(*only)
}

/// Past a run of digits that is no literal, else past one character.
fn skip(text: &[char], at: usize) -> usize {
    at + text[at..].iter().take_while(|c| c.is_ascii_digit()).count().max(1)
}

fn digit(text: &[char], at: usize) -> bool {
    text.get(at).is_some_and(char::is_ascii_digit)
}

fn literal(text: &[char], start: usize) -> Option<Number> {
    let (mut value, mut end, integer) = magnitude(text, start)?;
    if integer && let Some((part, after)) = mixed_part(text, end) {
        value += part;
        end = after;
    }
    let alone = if value == 10.0 && integer { exponent(text, end) } else { None };
    if let Some((power, after)) = alone {
        value = format!("1e{power}").parse().unwrap_or(f64::NAN);
        end = after;
    } else if let Some((power, after)) = power_of_ten(text, end) {
        // Through text, because a product of floats is off by a bit.
        value = format!("{value}e{power}").parse().unwrap_or(f64::NAN);
        end = after;
    }
    let (negative, start) = sign(text, start);
    let glued = start > 0 && text[start - 1].is_alphabetic() && !currency_word(text, start) || ordinal(text, end);
    let percent = percent(text, end);
    let (scale, behind) = scale(text, end);
    let unit = if percent { None } else { unit::at(text, behind).map(|(unit, _)| unit) };
    Some(Number { value: if negative { -value } else { value }, percent, scale, unit, glued, start, end })
}

/// Value, end, and whether it is a plain integer, which a fraction may follow.
fn magnitude(text: &[char], at: usize) -> Option<(f64, usize, bool)> {
    if text[at] == '\\' {
        return latex_fraction(text, at).map(|(value, end)| (value, end, false));
    }
    if let Some(value) = vulgar(text[at]) {
        return Some((value, at + 1, false));
    }
    let bare_point = text[at] == '.' && digit(text, at + 1) && !(at > 0 && text[at - 1].is_alphanumeric());
    if !digit(text, at) && !bare_point {
        return None;
    }
    let (value, end, integer) = decimal(text, at)?;
    // "3/4" is a fraction; "1/2/2024" is a date and "6 / 2" a division.
    if integer && text.get(end) == Some(&'/') && digit(text, end + 1) && !(at > 0 && text[at - 1] == '/') {
        let (below, after, _) = decimal(text, end + 1)?;
        if below != 0.0 && text.get(after) != Some(&'/') {
            return Some((value / below, after, false));
        }
    }
    Some((value, end, integer))
}

/// Digits, groups of three, a decimal part, an exponent.
fn decimal(text: &[char], at: usize) -> Option<(f64, usize, bool)> {
    let mut digits = String::new();
    let mut end = at;
    let take = |from: usize, digits: &mut String| {
        let run = text[from..].iter().take_while(|c| c.is_ascii_digit()).take(LITERAL_MAX);
        digits.extend(run);
        text[from..].iter().take_while(|c| c.is_ascii_digit()).take(LITERAL_MAX).count()
    };
    end += take(at, &mut digits);
    if let Some((grouped, after)) = european(text, at).or_else(|| spaced(text, at)) {
        return grouped.parse().ok().map(|value| (value, after, !grouped.contains('.')));
    }
    if (1..=3).contains(&(end - at)) {
        while matches!(text.get(end), Some(',' | '\u{2009}'))
            && (1..=3).all(|i| digit(text, end + i))
            && !digit(text, end + 4)
        {
            take(end + 1, &mut digits);
            end += 4;
        }
    }
    let mut integer = true;
    if text.get(end) == Some(&'.') && digit(text, end + 1) {
        digits.push('.');
        end += 1 + take(end + 1, &mut digits);
        integer = false;
    }
    if matches!(text.get(end), Some('e' | 'E')) {
        let signed = usize::from(matches!(text.get(end + 1), Some('+' | '-')));
        if digit(text, end + 1 + signed) {
            digits.push('e');
            digits.extend(&text[end + 1..end + 1 + signed]);
            end += 1 + signed;
            end += take(end, &mut digits);
            integer = false;
        }
    }
    if digits.len() > LITERAL_MAX {
        return None;
    }
    digits.parse().ok().map(|value| (value, end, integer))
}

/// "1.234,5" or "1.234.567": points group, the comma parts. "1.234" alone is a decimal.
fn european(text: &[char], at: usize) -> Option<(String, usize)> {
    let (mut digits, mut end, groups) = groups(text, at, '.')?;
    let decimals = if text.get(end) == Some(&',') { digits_at(text, end + 1) } else { 0 };
    if decimals > 0 && !(decimals == 3 && groups > 1) {
        digits.push('.');
        digits.extend(&text[end + 1..end + 1 + decimals]);
        end += 1 + decimals;
    } else if groups < 2 {
        return None;
    }
    // More points make a version or an address.
    let goes_on = matches!(text.get(end), Some('.' | ',')) && digit(text, end + 1);
    (!goes_on && digits.len() <= LITERAL_MAX).then_some((digits, end))
}

/// "1 234 567", and "1 234" where nothing else can be meant: between a mark and the end of its line.
fn spaced(text: &[char], at: usize) -> Option<(String, usize)> {
    let (digits, end, groups) = groups(text, at, ' ')?;
    let before = text[..at].iter().rev().find(|c| **c != ' ' && !is_currency(**c));
    let opened =
        before.is_none_or(|c| matches!(*c, '\n' | '{' | '=' | ':' | BOLD)) || ends_with_word(&text[..at], "is");
    let next = text.get(end);
    let last = matches!(next, Some('.')) && text.get(end + 1).is_none_or(|c| c.is_whitespace());
    let closed = last || next.is_none_or(|c| matches!(*c, '\n' | '}' | BOLD) || is_currency(*c));
    let goes_on = next == Some(&' ') && digit(text, end + 1);
    let sure = groups > 1 || (opened && closed);
    (sure && !goes_on && digits.len() <= LITERAL_MAX).then_some((digits, end))
}

/// One to three digits and then groups of three behind `mark`: the digits, the end, how many groups (at least one).
fn groups(text: &[char], at: usize, mark: char) -> Option<(String, usize, usize)> {
    let head = digits_at(text, at);
    if !(1..=3).contains(&head) || text[at] == '0' {
        return None;
    }
    let mut digits: String = text[at..at + head].iter().collect();
    let (mut end, mut count) = (at + head, 0);
    while text.get(end) == Some(&mark) && digits_at(text, end + 1) == 3 {
        digits.extend(&text[end + 1..end + 4]);
        end += 4;
        count += 1;
    }
    (count > 0).then_some((digits, end, count))
}

fn digits_at(text: &[char], at: usize) -> usize {
    text.get(at..).map_or(0, |rest| rest.iter().take_while(|c| c.is_ascii_digit()).take(LITERAL_MAX).count())
}

fn ends_with_word(text: &[char], word: &str) -> bool {
    let end = text.iter().rposition(|c| *c != ' ' && !is_currency(*c)).map_or(0, |n| n + 1);
    let start = end.saturating_sub(word.len());
    follows(&text[..end], start, word) && start.checked_sub(1).is_none_or(|i| !text[i].is_alphanumeric())
}

/// `\frac{a}{b}` or `\frac12`.
fn latex_fraction(text: &[char], at: usize) -> Option<(f64, usize)> {
    let after = at + 5;
    if !text[at..].starts_with(&['\\', 'f', 'r', 'a', 'c']) {
        return None;
    }
    let (above, after) = latex_part(text, after)?;
    let (below, after) = latex_part(text, after)?;
    (below != 0.0).then_some((above / below, after))
}

fn latex_part(text: &[char], at: usize) -> Option<(f64, usize)> {
    if digit(text, at) {
        return text[at].to_digit(10).map(|value| (f64::from(value), at + 1));
    }
    if text.get(at) != Some(&'{') {
        return None;
    }
    let length = text[at + 1..].iter().take(64).position(|c| *c == '}')?;
    let body: String = text[at + 1..at + 1 + length].iter().filter(|c| !c.is_whitespace() && **c != ',').collect();
    body.parse().ok().filter(|value: &f64| value.is_finite()).map(|value| (value, at + length + 2))
}

fn vulgar(c: char) -> Option<f64> {
    Some(match c {
        '½' => 0.5,
        '⅓' => 1.0 / 3.0,
        '⅔' => 2.0 / 3.0,
        '¼' => 0.25,
        '¾' => 0.75,
        '⅕' => 0.2,
        '⅖' => 0.4,
        '⅗' => 0.6,
        '⅘' => 0.8,
        '⅙' => 1.0 / 6.0,
        '⅚' => 5.0 / 6.0,
        '⅛' => 0.125,
        '⅜' => 0.375,
        '⅝' => 0.625,
        '⅞' => 0.875,
        _ => return None,
    })
}

/// The 3/4 of "2 3/4", "2½" or "2\frac{3}{4}".
fn mixed_part(text: &[char], end: usize) -> Option<(f64, usize)> {
    let space = usize::from(text.get(end) == Some(&' '));
    let at = end + space;
    let first = *text.get(at)?;
    let (part, after, integer) = if first == '\\' || vulgar(first).is_some() || (space == 1 && first.is_ascii_digit()) {
        magnitude(text, at)?
    } else {
        return None;
    };
    let fraction = first == '\\' || vulgar(first).is_some() || text[at..after].contains(&'/');
    (!integer && fraction && part < 1.0).then_some((part, after))
}

/// "× 10^5", "*10^{-3}", "x10^5".
fn power_of_ten(text: &[char], end: usize) -> Option<(i32, usize)> {
    let mut at = spaces(text, end);
    if !matches!(text.get(at), Some('×' | 'x' | '*' | '·')) {
        return None;
    }
    at = spaces(text, at + 1);
    if !text.get(at..)?.starts_with(&['1', '0']) {
        return None;
    }
    at += 2;
    exponent(text, at)
}

/// "^5", "^{-3}" or "⁵" behind a ten: the power, and where it ends.
fn exponent(text: &[char], mut at: usize) -> Option<(i32, usize)> {
    if text.get(at) != Some(&'^') {
        return raised(text, at);
    }
    at += 1;
    let brace = text.get(at) == Some(&'{');
    at += usize::from(brace);
    let negative = text.get(at) == Some(&'-');
    at += usize::from(negative);
    let run: String = text.get(at..)?.iter().take_while(|c| c.is_ascii_digit()).take(4).collect();
    let power: i32 = run.parse().ok()?;
    Some((if negative { -power } else { power }, at + run.len() + usize::from(brace)))
}

fn raised(text: &[char], at: usize) -> Option<(i32, usize)> {
    const RAISED: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹";
    let negative = text.get(at) == Some(&'⁻');
    let start = at + usize::from(negative);
    let run = text.get(start..)?.iter().map_while(|c| RAISED.chars().position(|r| r == *c)).take(4);
    let (power, length) = run.fold((0_i32, 0), |(power, length), digit| (power * 10 + digit as i32, length + 1));
    (length > 0).then_some((if negative { -power } else { power }, start + length))
}

fn spaces(text: &[char], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take_while(|c| **c == ' ').take(4).count()
}

/// Is a minus before the number its sign? Gives back where the number starts, currency and sign included.
fn sign(text: &[char], start: usize) -> (bool, usize) {
    let mut at = start;
    while at > 0 && is_currency(text[at - 1]) {
        at -= 1;
    }
    if at == 0 || text[at - 1] != '-' {
        return (false, at);
    }
    let minus = at - 1;
    let mut begin = minus;
    while begin > 0 && is_currency(text[begin - 1]) {
        begin -= 1;
    }
    let before = &text[..begin];
    let spaced = before.last().is_none_or(|c| c.is_whitespace());
    let operand = before
        .iter()
        .rev()
        .take(8)
        .find(|c| !c.is_whitespace())
        .is_some_and(|c| c.is_ascii_digit() || matches!(c, ')' | '%' | '}'));
    let negative = if spaced {
        !operand
    } else {
        before.last().is_some_and(|c| !c.is_alphanumeric() && !matches!(c, ')' | '%' | '}' | '-'))
    };
    (negative, if negative { begin } else { at })
}

fn is_currency(c: char) -> bool {
    matches!(c, '$' | '€' | '£' | '¥' | '₹' | '₩' | '₽' | '¢')
}

/// "USD18" and "Rs18" are amounts, not names.
fn currency_word(text: &[char], start: usize) -> bool {
    ["USD", "EUR", "GBP", "Rs", "RM"].iter().any(|word| text[..start].ends_with(&word.chars().collect::<Vec<_>>()))
}

fn ordinal(text: &[char], end: usize) -> bool {
    let two: String = text[end.min(text.len())..].iter().take(2).flat_map(|c| c.to_lowercase()).collect();
    matches!(two.as_str(), "st" | "nd" | "rd" | "th") && !text.get(end + 2).is_some_and(|c| c.is_alphanumeric())
}

fn percent(text: &[char], end: usize) -> bool {
    let at = spaces(text, end);
    text.get(at) == Some(&'%') || follows(text, at, "percent")
}

/// The factor of a word such as "million", and where that word ends.
fn scale(text: &[char], end: usize) -> (f64, usize) {
    const WORDS: &[(&str, f64)] = &[("thousand", 1e3), ("million", 1e6), ("billion", 1e9), ("trillion", 1e12)];
    let at = spaces(text, end);
    let found = WORDS.iter().find(|(word, _)| follows(text, at, word));
    found.map_or((1.0, end), |(word, scale)| (*scale, at + word.len()))
}

fn follows(text: &[char], at: usize, word: &str) -> bool {
    let mut rest = text[at.min(text.len())..].iter();
    word.chars().all(|wanted| rest.next().is_some_and(|c| c.eq_ignore_ascii_case(&wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<f64> {
        scan(&clean(text)).iter().map(|n| n.value).collect()
    }

    #[test]
    fn reads_each_spelling() {
        for (text, value) in [
            ("1,234,567.50", 1_234_567.5),
            ("$20.00", 20.0),
            ("-$5", -5.0),
            ("$-5", -5.0),
            ("−7", -7.0),
            ("3/4", 0.75),
            ("2 3/4", 2.75),
            ("2½", 2.5),
            ("\\frac{3}{4}", 0.75),
            ("-\\dfrac{1}{2}", -0.5),
            ("1\\frac{1}{2}", 1.5),
            ("\\frac12", 0.5),
            ("1.5e-3", 0.0015),
            ("6.02 × 10^23", 6.02e23),
            ("3 \\times 10^{-2}", 0.03),
            (".5", 0.5),
            ("1{,}000", 1000.0),
            ("1\\,000", 1000.0),
            ("10\u{202f}000", 10_000.0),
            ("18.", 18.0),
            ("１２", 12.0),
            ("007", 7.0),
            ("1.234,5", 1_234.5),
            ("1.234.567", 1_234_567.0),
            ("1.234.567,89 €", 1_234_567.89),
            ("1.234", 1.234),
            ("1 234 567", 1_234_567.0),
            ("\\boxed{1 234}", 1_234.0),
            ("The total is $12 500.", 12_500.0),
            ("10^5", 1e5),
            ("10^{-2}", 0.01),
            ("6.02×10²³", 6.02e23),
            ("3⁄4", 0.75),
            ("2⅝", 2.625),
            ("\\tfrac{1}{4}", 0.25),
        ] {
            assert_eq!(values(text), [value], "{text}");
        }
    }

    #[test]
    fn tells_operators_from_signs() {
        assert_eq!(values("16 - 7 = 9"), [16.0, 7.0, 9.0]);
        assert_eq!(values("16-7"), [16.0, 7.0]);
        assert_eq!(values("it is -7"), [-7.0]);
        assert_eq!(values("x=-7"), [-7.0]);
        assert_eq!(values("(a) -3 (b) - 3"), [3.0, 3.0]);
        assert_eq!(values("COVID-19"), [19.0]);
        assert_eq!(values("3-5 km"), [3.0, 5.0]);
    }

    #[test]
    fn lists_and_dates_are_no_groups_or_fractions() {
        assert_eq!(values("1,2,3"), [1.0, 2.0, 3.0]);
        assert_eq!(values("1,2345"), [1.0, 2345.0]);
        assert_eq!(values("1/2/2024").len(), 3);
        assert_eq!(values("2 100-watt bulbs"), [2.0, 100.0]);
        assert_eq!(values("in 12 345 were sold"), [12.0, 345.0]);
        assert_eq!(values("1.2.3.4").len(), 2);
        assert_eq!(values("5/0"), [5.0, 0.0]);
    }

    #[test]
    fn garbage_ends_and_gives_nothing() {
        assert!(values(&"9".repeat(100_000)).is_empty() || values(&"9".repeat(100_000)).iter().all(|v| v.is_finite()));
        assert!(values("\\frac{}{} \\frac \\frac{1} . - $ \0 e5 1e999").iter().all(|v| v.is_finite()));
        assert!(values("").is_empty());
    }

    #[test]
    fn readings_agree_within_tolerance() {
        let agree = |a: &str, b: &str| whole(a).unwrap().agrees(&whole(b).unwrap());
        assert!(agree("25%", "0.25") && agree("25%", "25") && agree("$20.00", "20") && agree("1/3", "0.3333333"));
        assert!(agree("5 km", "5000 m") && agree("1.5 hours", "90 min") && agree("5 km", "5") && agree("2 kg", "2 m"));
        assert!(agree("3 million km", "3e9 m") && agree("18 USD", "$18") && agree("5 \\text{ km}", "5000 meters"));
        assert!(!agree("5 km", "5 m") && !agree("5 km", "5001 m"));
        assert!(!agree("25%", "0.25%") && !agree("1", "1.00001") && !agree("0", "0.000001") && !agree("5", "-5"));
    }
}
