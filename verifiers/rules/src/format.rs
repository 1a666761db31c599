//! Whether an answer looks like what the task asked for. Form only: a wrong number is still a number.

use serde::de::IgnoredAny;

/// Longest answer that is taken for a bare number or choice.
const SHORT: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Number,
    SingleLine,
    Code,
    Choice,
}

impl Format {
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Json, Self::Number, Self::SingleLine, Self::Code, Self::Choice].into_iter().find(|f| f.name() == name)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Number => "number",
            Self::SingleLine => "single_line",
            Self::Code => "code",
            Self::Choice => "choice",
        }
    }
}

/// In [0, 1]: 1 is exactly the form, between is the form with something around it.
#[must_use]
pub fn check(asked: Format, response: &str) -> f64 {
    let text = response.trim().trim_start_matches('\u{feff}');
    match asked {
        Format::Json => json(text),
        Format::Number => number(text),
        Format::SingleLine => f64::from(u8::from(!text.contains(['\n', '\r']))),
        Format::Code => code(text),
        Format::Choice => choice(text),
    }
}

fn json(text: &str) -> f64 {
    let parses = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    if parses(text) {
        1.0
    } else if fence_body(text).is_some_and(parses) {
        0.8
    } else {
        0.0
    }
}

/// Body of a fence that is the whole text.
fn fence_body(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    inner.split_once('\n').map(|(_, body)| body).filter(|body| !body.contains("```"))
}

fn number(text: &str) -> f64 {
    if text.chars().count() > SHORT || !text.contains(|c: char| c.is_ascii_digit()) {
        return if text.contains(|c: char| c.is_ascii_digit()) { 0.3 } else { 0.0 };
    }
    let bare = text.trim_matches(|c: char| !c.is_ascii_digit() && c != '-' && c != '.');
    let one = bare.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+' | '/' | 'e' | 'E' | ' '));
    let digits_first = text.split_whitespace().next().is_some_and(|w| w.contains(|c: char| c.is_ascii_digit()));
    match (one && !bare.contains(' '), digits_first) {
        (true, true) => 1.0,
        (true, false) => 0.6,
        (false, _) => 0.3,
    }
}

fn code(text: &str) -> f64 {
    if text.contains("```") {
        return 1.0;
    }
    let mut total = 0_u32;
    let mut coded = 0_u32;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()).take(400) {
        total += 1;
        coded += u32::from(looks_like_code(line));
    }
    if total == 0 { 0.0 } else { (2.0 * f64::from(coded) / f64::from(total)).min(1.0) }
}

fn looks_like_code(line: &str) -> bool {
    const STARTS: &[&str] = &[
        "def ",
        "class ",
        "import ",
        "from ",
        "return",
        "fn ",
        "let ",
        "const ",
        "var ",
        "function ",
        "public ",
        "private ",
        "#include",
        "for (",
        "for(",
        "if (",
        "if(",
        "while",
        "use ",
        "pub ",
        "package ",
        "func ",
        "select ",
        "SELECT ",
        "print(",
        "@",
        "//",
        "# ",
    ];
    let ends = line.ends_with(['{', '}', ';', ')', ']'])
        || (line.ends_with(':') && line.contains(['(', '=', ' ']) && starts_block(line));
    ends || STARTS.iter().any(|start| line.starts_with(start)) || line.contains(" = ") || line.contains("==")
}

fn starts_block(line: &str) -> bool {
    ["def ", "class ", "if ", "for ", "while ", "else", "elif ", "try", "except", "with "]
        .iter()
        .any(|start| line.starts_with(start))
}

fn choice(text: &str) -> f64 {
    let words: Vec<&str> = text.split_whitespace().take(17).collect();
    let letter = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        bare.len() == 1 && bare.starts_with(|c: char| c.is_ascii_uppercase() && c <= 'J')
    };
    match words.as_slice() {
        [] => 0.0,
        [only] if letter(only) || matches!(only.trim_matches(['(', ')', '.']), "a" | "b" | "c" | "d" | "e") => 1.0,
        [first, ..] if letter(first) && first.ends_with([')', '.', ':', '*']) => 1.0,
        [start @ .., last] if start.len() < 16 && letter(last) => 1.0,
        _ => {
            if text.split_whitespace().any(|word| letter(word) && word.len() > 1) {
                0.5
            } else {
                0.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_each_form() {
        for (asked, text, score) in [
            (Format::Json, "{\"a\":1}", 1.0),
            (Format::Json, "```json\n{\"a\":1}\n```", 0.8),
            (Format::Json, "here: {\"a\":1}", 0.0),
            (Format::Number, "-1,234.5", 1.0),
            (Format::Number, "$20.00", 1.0),
            (Format::Number, "3/4", 1.0),
            (Format::Number, "12 km", 1.0),
            (Format::Number, "The answer is 7.", 0.6),
            (Format::Number, "seven", 0.0),
            (Format::SingleLine, "one line\n", 1.0),
            (Format::SingleLine, "two\nlines", 0.0),
            (Format::Code, "def f(x):\n    return x", 1.0),
            (Format::Code, "It is a nice day.\nLet us go.", 0.0),
            (Format::Choice, "B", 1.0),
            (Format::Choice, "(B)", 1.0),
            (Format::Choice, "**B**", 1.0),
            (Format::Choice, "B. Paris", 1.0),
            (Format::Choice, "Answer: B", 1.0),
            (Format::Choice, "Paris", 0.0),
        ] {
            assert_eq!(check(asked, text), score, "{asked:?} {text:?}");
        }
    }
}
