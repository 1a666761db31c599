//! Finds fenced code in an answer, as CommonMark has it (section 4.5) and as models write it.
//!
//! Looser than CommonMark in one thing: a fence may be indented by any amount, because models put code into list items.
//! What can go wrong: a fence shown inside a fence of the same length ends the outer one, here as in any Markdown.

/// Longest block that is kept whole; longer code than that is no answer.
pub const BLOCK_BYTES_MAX: usize = 128 << 10;

/// Blocks kept; the rest are counted.
pub const BLOCKS_MAX: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// First word behind the opening fence, lower case, without decoration: "python" of "{.python .numberLines}".
    pub label: String,
    /// Less the fence's own indentation.
    pub code: String,
    /// False when the text ended first.
    pub closed: bool,
    /// There was more than [`BLOCK_BYTES_MAX`]; `code` is not all of it.
    pub too_long: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    pub kept: Vec<Block>,
    /// Further blocks past [`BLOCKS_MAX`].
    pub dropped: usize,
}

struct Open<'a> {
    opening: Opening<'a>,
    code: String,
    too_long: bool,
}

impl Open<'_> {
    fn push(&mut self, line: &str) {
        let line = without_indent(line, self.opening.indent);
        if self.code.len() + line.len() > BLOCK_BYTES_MAX {
            self.too_long = true;
        } else {
            self.code.push_str(line);
        }
    }
}

struct Opening<'a> {
    mark: char,
    length: usize,
    indent: usize,
    info: &'a str,
}

#[must_use]
pub fn blocks(text: &str) -> Blocks {
    let mut found = Blocks::default();
    let mut open: Option<Open> = None;
    for line in text.split_inclusive('\n') {
        match &mut open {
            None => open = opening(line).map(|opening| Open { opening, code: String::new(), too_long: false }),
            Some(block) if !closes(line, &block.opening) => block.push(line),
            Some(_) => found.extend(open.take(), true),
        }
    }
    found.extend(open, false);
    found
}

impl Blocks {
    fn extend(&mut self, open: Option<Open>, closed: bool) {
        let Some(Open { opening, code, too_long }) = open else { return };
        if code.trim().is_empty() && !too_long {
            return;
        }
        if self.kept.len() < BLOCKS_MAX {
            self.kept.push(Block { label: label(opening.info), code, closed, too_long });
        } else {
            self.dropped += 1;
        }
    }
}

fn opening(line: &str) -> Option<Opening<'_>> {
    let text = line.trim_start_matches([' ', '\t']);
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.chars().take_while(|c| *c == mark).count();
    let info = text[length..].trim();
    // "```x```" on one line is a code span.
    let span = mark == '`' && info.contains('`');
    (length >= 3 && !span).then_some(Opening { mark, length, indent: line.len() - text.len(), info })
}

fn closes(line: &str, opening: &Opening) -> bool {
    let text = line.trim();
    text.len() >= opening.length && text.chars().all(|c| c == opening.mark)
}

fn without_indent(line: &str, indent: usize) -> &str {
    let blank = line.bytes().take(indent).take_while(|b| matches!(b, b' ' | b'\t')).count();
    &line[blank..]
}

/// "Python title=x", "{.python}", "python:main.py", "python,ignore".
fn label(info: &str) -> String {
    let word = info.trim_start_matches(['{', '.', ' ']);
    let end = word.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '#' | '-' | '_' | '.'));
    word[..end.unwrap_or(word.len())].to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<(String, String, bool)> {
        blocks(text).kept.into_iter().map(|b| (b.label, b.code, b.closed)).collect()
    }

    fn one(label: &str, code: &str, closed: bool) -> Vec<(String, String, bool)> {
        vec![(label.to_owned(), code.to_owned(), closed)]
    }

    #[test]
    fn finds_each_kind_of_fence() {
        assert_eq!(seen("Hi\n```Python\nx = 1\n```\nBye"), one("python", "x = 1\n", true));
        assert_eq!(seen("~~~ js\na```b\n~~~"), one("js", "a```b\n", true));
        assert_eq!(seen("````py\n```\ninner\n```\n````"), one("py", "```\ninner\n```\n", true));
        assert_eq!(seen("1. so\n   ```go\n   if x {\n     y\n   }\n   ```"), one("go", "if x {\n  y\n}\n", true));
        assert_eq!(seen("```rust,ignore\nfn f() {}"), one("rust", "fn f() {}", false));
        assert_eq!(seen("```{.python .numberLines}\r\nx\r\n```\r\n"), one("python", "x\r\n", true));
        assert_eq!(seen("```c++\nint x;\n`````"), one("c++", "int x;\n", true));
        assert_eq!(seen("```\na\n```\n```\nb\n```").len(), 2);
    }

    #[test]
    fn code_spans_and_blank_blocks_are_none() {
        for text in ["", "`x`", "```x = 1```", "``\nx\n``", "```\n```", "```py\n \n```", "~~\nx\n~~"] {
            assert!(seen(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn thousands_of_fences_are_counted_not_kept() {
        let found = blocks(&"```py\nx\n```\n".repeat(5000));
        assert_eq!((found.kept.len(), found.dropped), (BLOCKS_MAX, 5000 - BLOCKS_MAX));
    }
}
