//! The blocks that agents' front ends put into user turns, and a turn without them.
//!
//! Only what is marked off is taken out: a pair of tags, a pair of lines, or a whole turn that opens as a tool's output
//! does. A tag without its partner is a word that the user wrote, and stays. The tables hold what front ends are known
//! to send (Claude Code, Cline and its forks, Codex, Copilot, Cursor, Gemini CLI) and what prompts with retrieved
//! passages commonly use; more can be added without any other change.

use std::{borrow::Cow, collections::HashMap, iter, ops::Range};

/// Tags whose content is the machine's.
const MACHINE: [&str; 52] = [
    // Reminders and the state of the front end.
    "system-reminder",
    "system_reminder",
    "environment_details",
    "environment_context",
    "environment_info",
    "workspace_info",
    "user_info",
    "project_layout",
    "git_status",
    "open_and_recently_viewed_files",
    "editorContext",
    "reminderInstructions",
    "repoContext",
    "task-notification",
    "new-diagnostics",
    "user-prompt-submit-hook",
    // Instructions that come with every task.
    "INSTRUCTIONS",
    "user_instructions",
    "explicit_instructions",
    "permissions",
    "claudeMd",
    // Commands of the front end and what they printed.
    "command-name",
    "command-message",
    "command-contents",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "terminal_output",
    // Files and passages.
    "file_content",
    "file_contents",
    "folder_content",
    "url_content",
    "attached_files",
    "attachments",
    "attachment",
    "additional_data",
    "current_file",
    "ide_opened_file",
    "ide_selection",
    "context",
    "documents",
    "document",
    "retrieved_context",
    "search_results",
    // Tools.
    "tool_result",
    "tool_results",
    "tool_response",
    "function_results",
    "tool_output",
];

/// Tags whose content is the user's: the tags go, the words stay.
const USER: [&str; 7] =
    ["task", "user_query", "user_message", "userRequest", "feedback", "command-args", "user_request"];

/// Lines that open and close a block. Without its partner, a tool's result ends with its paragraph.
const LINES: [(&str, &str, Unclosed); 4] = [
    ("--- Content from referenced files ---", "--- End of content ---", Unclosed::Stays),
    ("[Tool result]", "[/Tool result]", Unclosed::Paragraph),
    ("[Tool Result]", "[/Tool Result]", Unclosed::Paragraph),
    ("[tool_result]", "[/tool_result]", Unclosed::Paragraph),
];

/// How a turn opens that is a machine's as a whole, but for what stands in the user's tags.
const OPENINGS: [&str; 5] =
    ["# CLAUDE.md", "# AGENTS.md", "# GEMINI.md", "Contents of /", "Caveat: The messages below"];

/// An opening tag with its attributes is no longer than this.
const TAG_BYTES_MAX: usize = 1_024;
/// `[read_file for 'src/main.rs'] Result:`, as Cline opens a tool's output, is no longer than this.
const OPENING_BYTES_MAX: usize = 1_024;

#[derive(Clone, Copy)]
enum Unclosed {
    Stays,
    Paragraph,
}

/// A turn without the machine's blocks: the pieces that are left, trimmed, a line for each. Without any block it comes
/// back as it is.
pub(super) fn strip(text: &str) -> Cow<'_, str> {
    let tags = tags(text);
    let whole = opens_as_a_machine(text);
    let mut removed: Vec<Range<usize>> = vec![];
    if whole {
        let mut at = 0;
        for pair in tags.iter().filter(|pair| pair.user) {
            removed.push(at..pair.open.end.max(at));
            at = pair.close.start.max(at);
        }
        removed.push(at..text.len());
    }
    for pair in &tags {
        if pair.user {
            removed.extend([pair.open.clone(), pair.close.clone()]);
        } else {
            removed.push(pair.open.start..pair.close.end);
        }
    }
    removed.extend(LINES.iter().flat_map(|&(open, close, unclosed)| lines(text, open, close, unclosed)));
    if removed.is_empty() {
        return Cow::Borrowed(text);
    }
    removed.sort_by_key(|range| range.start);
    let mut pieces = vec![];
    let mut at = 0;
    for range in removed.into_iter().chain(iter::once(text.len()..text.len())) {
        if range.start > at {
            pieces.push(text[at..range.start].trim());
        }
        at = at.max(range.end);
    }
    pieces.retain(|piece| !piece.is_empty());
    match pieces.as_slice() {
        [] => Cow::Borrowed(""),
        [piece] => Cow::Borrowed(piece),
        pieces => Cow::Owned(pieces.join("\n")),
    }
}

/// Two tags that belong together, or one that closes itself, as places in the text.
struct Pair {
    open: Range<usize>,
    close: Range<usize>,
    user: bool,
}

/// All pairs of the tables, by where they close. One pass over the text; a closing tag takes the nearest opening one.
fn tags(text: &str) -> Vec<Pair> {
    let mut opened: HashMap<&str, Vec<Range<usize>>> = HashMap::new();
    let mut pairs = vec![];
    let mut from = 0;
    while let Some(found) = text[from..].find('<') {
        let start = from + found;
        from = start + 1;
        let closing = text[from..].starts_with('/');
        let rest = &text[from + usize::from(closing)..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
        let name = &rest[..end];
        let user = USER.contains(&name);
        if !user && !MACHINE.contains(&name) {
            continue;
        }
        let Some(tag) = tag_end(text, start, text.len() - rest.len() + end) else { continue };
        if closing {
            if let Some(open) = opened.get_mut(name).and_then(Vec::pop) {
                pairs.push(Pair { open, close: tag.clone(), user });
            }
        } else if text[..tag.end].ends_with("/>") {
            pairs.push(Pair { open: tag.clone(), close: tag.end..tag.end, user });
        } else {
            opened.entry(name).or_default().push(tag.clone());
        }
        from = tag.end;
    }
    pairs
}

/// The whole tag, if it is one: after its name comes `>`, or attributes and then `>`.
fn tag_end(text: &str, start: usize, name_end: usize) -> Option<Range<usize>> {
    let rest = &text.as_bytes()[name_end..text.len().min(start + TAG_BYTES_MAX).max(name_end)];
    let fits = rest.first().is_some_and(|&byte| byte == b'>' || byte == b'/' || byte.is_ascii_whitespace());
    let length = rest.iter().position(|&byte| byte == b'>' || byte == b'<').filter(|&at| fits && rest[at] == b'>')?;
    Some(start..name_end + length + 1)
}

/// The blocks between two marks, each at the start of a line.
fn lines(text: &str, open: &str, close: &str, unclosed: Unclosed) -> Vec<Range<usize>> {
    let mut blocks = vec![];
    let mut from = 0;
    // Once there is no closing mark, there is none further on either.
    let mut closes = true;
    while let Some(start) = at_line_start(text, open, from) {
        let inside = start + open.len();
        let end = if closes { at_line_start(text, close, inside).map(|end| end + close.len()) } else { None };
        closes = end.is_some();
        match (end, unclosed) {
            (Some(end), _) => {
                blocks.push(start..end);
                from = end;
            }
            (None, Unclosed::Stays) => break,
            (None, Unclosed::Paragraph) => {
                let body = inside + text[inside..].len() - text[inside..].trim_start().len();
                from = text[body..].find("\n\n").map_or(text.len(), |end| body + end);
                blocks.push(start..from);
            }
        }
    }
    blocks
}

fn at_line_start(text: &str, mark: &str, mut from: usize) -> Option<usize> {
    while let Some(found) = text[from..].find(mark) {
        let start = from + found;
        if start == 0 || text.as_bytes()[start - 1] == b'\n' {
            return Some(start);
        }
        from = start + mark.len();
    }
    None
}

/// Whether a turn opens as a tool's output or as pasted instructions do.
fn opens_as_a_machine(text: &str) -> bool {
    let text = text.trim_start();
    if OPENINGS.iter().any(|opening| text.starts_with(opening)) {
        return true;
    }
    let line = text.lines().next().unwrap_or_default();
    let cut = line.floor_char_boundary(OPENING_BYTES_MAX);
    line.starts_with('[') && line[..cut].contains("] Result:")
}
