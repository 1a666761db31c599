//! The languages that can be parsed here, the names people give them, and how a text is parsed in one.
//!
//! Work is bounded by bytes and by the parser's own steps, never by a clock, so that a verdict repeats. Trees are walked
//! with a cursor: nesting costs heap, not stack.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

/// Longest code that is parsed. Real answers are far below.
pub const CODE_BYTES_MAX: usize = reading::fence::BLOCK_BYTES_MAX;
/// Times the parser may report progress (about every hundred operations), over all code of one answer. Ordinary Python or Rust of
/// 128 KB takes 2,200 (measured); a text made to be ambiguous takes many more.
pub const STEPS_MAX: u32 = 3_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    JavaScript,
    Go,
    Rust,
    Json,
    /// One value a line.
    JsonLines,
    /// JSON with comments, trailing commas, bare keys: an expression of JavaScript.
    Json5,
}

impl Language {
    const ALL: [Self; 7] =
        [Self::Python, Self::JavaScript, Self::Go, Self::Rust, Self::Json, Self::JsonLines, Self::Json5];

    /// From a name or an alias, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|language| language.names().contains(&name.as_str()))
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["python", "py", "python3", "py3", "python2", "pyi", "cpython"],
            Self::JavaScript => &["javascript", "js", "jsx", "mjs", "cjs", "node", "nodejs", "node.js", "ecmascript"],
            Self::Go => &["go", "golang"],
            Self::Rust => &["rust", "rs"],
            Self::Json => &["json"],
            Self::JsonLines => &["jsonl", "ndjson", "jsonlines"],
            Self::Json5 => &["json5", "jsonc"],
        }
    }

    fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::JavaScript | Self::Json5 => tree_sitter_javascript::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Json | Self::JsonLines => tree_sitter_json::LANGUAGE,
        }
        .into()
    }
}

/// Where a text first fails to parse, both counted from 1; the column in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    Clean {
        nodes: usize,
        /// Something beyond names and comments: one word of prose is a name in most languages.
        substance: bool,
    },
    Broken {
        nodes: usize,
        first: Place,
    },
    /// More than [`CODE_BYTES_MAX`], or more work than is allowed.
    TooLong,
    /// The parser could not be set up: a grammar of another version.
    Unavailable,
}

/// `steps_left` starts at [`STEPS_MAX`] and is shared by the blocks of an answer.
#[must_use]
pub fn parse(language: Language, code: &str, steps_left: &mut u32) -> Parsed {
    if code.len() > CODE_BYTES_MAX {
        return Parsed::TooLong;
    }
    // Grammars take NUL for the end of the text, which would hide what comes after.
    if let Some(at) = code.find('\0') {
        return Parsed::Broken { nodes: 0, first: place_of_byte(code, at) };
    }
    let wrapped = language == Language::Json5;
    let text = if wrapped { format!("(\n{code}\n)") } else { code.to_owned() };
    let mut parser = Parser::new();
    if parser.set_language(&language.grammar()).is_err() {
        return Parsed::Unavailable;
    }
    let Some(tree) = bounded(&mut parser, text.as_bytes(), steps_left) else { return Parsed::TooLong };
    let nodes = tree.root_node().descendant_count();
    match first_fault(language, &tree) {
        Some(Place { line, column }) => {
            let line = if wrapped { line.saturating_sub(1).clamp(1, code.lines().count().max(1)) } else { line };
            Parsed::Broken { nodes, first: Place { line, column } }
        }
        None => Parsed::Clean { nodes, substance: has_substance(&tree) },
    }
}

fn bounded(parser: &mut Parser, text: &[u8], steps_left: &mut u32) -> Option<Tree> {
    let mut progress = |_: &ParseState| match steps_left.checked_sub(1) {
        Some(left) => {
            *steps_left = left;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |at, _| text.get(at..).unwrap_or_default(), None, Some(options))
}

/// The first ERROR or MISSING node in the order of the text.
fn first_fault(language: Language, tree: &Tree) -> Option<Place> {
    let root = tree.root_node();
    if language == Language::Json
        && let Some(second) = root.named_children(&mut root.walk()).filter(|n| n.kind() != "comment").nth(1)
        && !root.has_error()
    {
        // The grammar takes several values one after another; JSON is one.
        return Some(place(second));
    }
    if !root.has_error() {
        return None;
    }
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            return Some(place(node));
        }
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Some(place(root));
            }
        }
    }
}

fn has_substance(tree: &Tree) -> bool {
    const THIN: &[&str] = &["expression_statement", "identifier", "comment", "line_comment", "block_comment"];
    let mut cursor = tree.root_node().walk();
    if !cursor.goto_first_child() {
        return false;
    }
    loop {
        let node = cursor.node();
        if node.is_named() && !THIN.contains(&node.kind()) {
            return true;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
        }
    }
}

fn place(node: Node) -> Place {
    let point = node.start_position();
    Place { line: point.row + 1, column: point.column + 1 }
}

fn place_of_byte(code: &str, at: usize) -> Place {
    let before = code.get(..at).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |n| n + 1);
    Place { line: before.matches('\n').count() + 1, column: at - line_start + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(language: Language, code: &str) -> Parsed {
        super::parse(language, code, &mut { STEPS_MAX })
    }

    fn clean(language: Language, code: &str) -> bool {
        matches!(parse(language, code), Parsed::Clean { .. })
    }

    fn broken_at(language: Language, code: &str) -> Option<(usize, usize)> {
        match parse(language, code) {
            Parsed::Broken { first, .. } => Some((first.line, first.column)),
            _ => None,
        }
    }

    #[test]
    fn each_language_takes_its_own_and_not_another() {
        let python = "def f(x: int) -> int:\n    return x + 1\n";
        let javascript = "const f = (x) => { return <b>{x?.y ?? 1}</b>; };\n";
        let go = "package main\n\nfunc f(x int) int {\n\treturn x + 1\n}\n";
        let rust = "fn f<'a>(x: &'a str) -> usize { x.len() }\n";
        let json = "{\"a\": [1, 2.5e3, null, true]}\n";
        let json5 = "// note\n{a: 'b', c: [1, 2,],}";
        let all = [
            (Language::Python, python),
            (Language::JavaScript, javascript),
            (Language::Go, go),
            (Language::Rust, rust),
            (Language::Json, json),
            (Language::Json5, json5),
        ];
        for (language, code) in all {
            assert!(clean(language, code), "{language:?}: {:?}", parse(language, code));
            for (other, _) in all.iter().filter(|(l, _)| *l != language && *l != Language::Json5) {
                // JSON is an expression of both, JSON5 one of JavaScript.
                let expected = match language {
                    Language::Json => matches!(*other, Language::Python | Language::JavaScript),
                    Language::Json5 => *other == Language::JavaScript,
                    _ => false,
                };
                assert_eq!(clean(*other, code), expected, "{code} as {other:?}");
            }
        }
        assert!(clean(Language::Json5, json));
        assert!(clean(Language::JsonLines, "{\"a\":1}\n{\"a\":2}\n"));
    }

    #[test]
    fn says_where_the_first_fault_is() {
        assert_eq!(broken_at(Language::Python, "x = 1\ny = (2\n").map(|p| p.0), Some(2));
        assert_eq!(broken_at(Language::JavaScript, "let a = 1;\nlet b = ;\n").map(|p| p.0), Some(2));
        assert_eq!(broken_at(Language::Json, "{\"a\": 1}\n{\"b\": 2}"), Some((2, 1)));
        assert_eq!(broken_at(Language::Json5, "{a: 1,\n b: }").map(|p| p.0), Some(2));
        assert_eq!(broken_at(Language::Python, "x = 1\n\ty\0z"), Some((2, 3)));
    }

    #[test]
    fn one_word_of_prose_has_no_substance() {
        for text in ["Sorry", "# Heading", ""] {
            assert!(
                matches!(parse(Language::Python, text), Parsed::Clean { substance: false, .. }),
                "{text:?} {:?}",
                parse(Language::Python, text)
            );
        }
        assert!(matches!(parse(Language::Python, "print(x)"), Parsed::Clean { substance: true, .. }));
    }

    #[test]
    fn deep_and_long_texts_end() {
        for language in Language::ALL {
            for piece in ["(", "[", "{", "{\"a\":", "if x:\n ", "))", "\"", "/*", "'", "a b ", "é", "<", "fn f(){"] {
                let text = piece.repeat(8_192 / piece.len());
                let parsed = parse(language, &text);
                assert!(!matches!(parsed, Parsed::Unavailable), "{language:?} {piece:?}");
            }
        }
        assert_eq!(parse(Language::Python, &"x\n".repeat(CODE_BYTES_MAX)), Parsed::TooLong);
    }
}
