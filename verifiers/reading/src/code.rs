//! One spelling for code that differs only in white space and comments.
//!
//! No parser: two answers are compared, and a language that is not known gets less done to it. What can go wrong: two
//! Python programs that differ in indentation alone count as one.

/// Code without comments; outside of strings no white space but one space between words.
#[must_use]
pub fn normalise(label: &str, code: &str) -> String {
    let comments = Comments::of(label);
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    let mut spaced = false;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = comments.skip(rest, out.is_empty() || rest.len() == code.len() || line_start(code, rest)) {
            rest = after;
            spaced = true;
        } else if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
            spaced = true;
        } else {
            let length = if is_quote(c, comments) { string_length(rest, c) } else { c.len_utf8() };
            if spaced && is_word(c) && out.ends_with(is_word) {
                out.push(' ');
            }
            spaced = false;
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comments {
    Hash,
    Slashes,
    /// Either, but only where a line starts: "//" divides in Python and "#" opens an attribute in Rust.
    Unknown,
    /// JSON and the like.
    None,
}

impl Comments {
    fn of(label: &str) -> Self {
        match label {
            "python" | "py" | "python3" | "sh" | "bash" | "shell" | "ruby" | "rb" | "yaml" | "yml" | "r" | "perl"
            | "toml" => Self::Hash,
            "javascript" | "js" | "jsx" | "typescript" | "ts" | "tsx" | "go" | "golang" | "rust" | "rs" | "java"
            | "c" | "cpp" | "c++" | "csharp" | "c#" | "cs" | "swift" | "kotlin" | "scala" | "php" | "zig" | "json5"
            | "jsonc" => Self::Slashes,
            "json" => Self::None,
            _ => Self::Unknown,
        }
    }

    /// What follows the comment that `rest` opens with, if it does.
    fn skip(self, rest: &str, line_start: bool) -> Option<&str> {
        let line = |mark: &str| rest.starts_with(mark).then(|| rest.find('\n').map_or("", |end| &rest[end..]));
        let block = || {
            let body = rest.strip_prefix("/*")?;
            Some(body.find("*/").map_or("", |end| &body[end + 2..]))
        };
        match self {
            Self::Hash => line("#"),
            Self::Slashes => line("//").or_else(block),
            Self::Unknown if line_start => line("//").or_else(|| line("# ")),
            Self::Unknown | Self::None => None,
        }
    }
}

fn line_start(code: &str, rest: &str) -> bool {
    code[..code.len() - rest.len()].trim_end_matches([' ', '\t']).ends_with('\n')
}

/// A single quote is a lifetime in Rust, so it opens a string only where "#" comments.
fn is_quote(c: char, comments: Comments) -> bool {
    c == '"' || (c == '\'' && comments == Comments::Hash) || (c == '`' && comments == Comments::Slashes)
}

/// Bytes of the string that `rest` opens with, quotes included; a string that is not closed ends with its line.
fn string_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' if quote != '`' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_comments_do_not_count() {
        for (label, a, b) in [
            ("python", "def f(x):\n    # adds\n    return x+1  # one\n", "def f( x ):\n\treturn x + 1"),
            ("js", "let a = 1; // one\n/* two\n lines */let b=2;", "let a=1;\n\nlet b = 2;"),
            ("rust", "fn f<'a>(x: &'a str) {} // x", "fn f<'a>(x:&'a str){}"),
            ("", "// note\nx = 1", "x=1"),
        ] {
            assert_eq!(normalise(label, a), normalise(label, b), "{label} {a}");
        }
    }

    #[test]
    fn what_means_something_counts() {
        for (label, a, b) in [
            ("python", "x = 'a # b'", "x = 'a"),
            ("python", "x = 7 // 2", "x = 7"),
            ("python", "return x", "returnx"),
            ("python", "'a b'", "'ab'"),
            ("js", "\"a//b\"", "\"a"),
            ("rust", "#[test]\nfn f() {}", "fn f() {}"),
            ("", "7 // 2", "7"),
        ] {
            assert_ne!(normalise(label, a), normalise(label, b), "{label} {a}");
        }
    }
}
