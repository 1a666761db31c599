//! Does the code in an answer parse, in the language it says it is in?
//!
//! Parsing is tree-sitter's, which goes on past a fault, so that the first one can be named. It accepts a little more
//! than compilers do and knows nothing of names or types: code that parses may still be wrong, code that does not
//! parse hardly ever runs. That makes it a gate: where code was wanted and nothing parses, the score is exactly 0.
//! What can go wrong: a snippet that leaves things out with a bare "..." fails in languages without such a token.

use reading::fence::{self, Block, Blocks};
use verdict::{Manifest, Object, Refusal, Signal, SignalSpec, Task, Verdict, Verifier};

use language::{CODE_BYTES_MAX, Language, Parsed, STEPS_MAX};
use wanted::Wanted;

pub mod language;
pub mod wanted;

#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
mod glue {
    type Component = verdict::guest::Guest<crate::Syntax>;
    verdict::guest::export!(Component with_types_in verdict::guest);
}

const HAS_CODE: f64 = 1.0;
const PARSES: f64 = 4.0;
/// Blocks described in the trace.
const TRACED_MAX: usize = 8;

pub struct Syntax;

impl Verifier for Syntax {
    fn describe() -> Manifest {
        let spec = |name, weight, doc| SignalSpec { name, weight, doc };
        Manifest {
            name: "syntax",
            signals: vec![
                spec("has_code", HAS_CODE, "1 when there is code of which at least one block parses, else 0"),
                spec("parses", PARSES, "share of the blocks of known languages that parse without a fault"),
            ],
            config_schema: r#"{"type":"object","properties":{"language":{"type":"string"}}}"#,
        }
    }

    fn verify(task: &Task, response: &str, config: &Object) -> Result<Verdict, Refusal> {
        let wanted = Wanted::of(task.metadata, config, task.prompt)?;
        let Blocks { kept, dropped } = fence::blocks(response);
        let fenced = !kept.is_empty();
        let pieces = match pieces(&kept, wanted) {
            found if !found.is_empty() => found,
            _ if !wanted.code => {
                return Err(Refusal::NotApplicable(
                    "no code is asked for, and none of a known language is there".into(),
                ));
            }
            _ if fenced && wanted.named.is_none() => {
                return Err(Refusal::NotApplicable("the code is in no language that is parsed".to_owned()));
            }
            _ if fenced || response.trim().is_empty() => return Ok(nothing("no code in the wanted language")),
            _ => match wanted.named {
                Some(language) => return Ok(unfenced(language, response)),
                None => return Err(Refusal::NotApplicable("code without a fence, in no named language".to_owned())),
            },
        };
        Ok(judged(&pieces, dropped))
    }
}

/// One block and the language it is read in.
struct Piece<'a> {
    block: &'a Block,
    language: Language,
    labelled: bool,
}

/// Blocks to judge. Unlabelled ones count only when no labelled one does: beside labelled code they show output.
fn pieces(blocks: &[Block], wanted: Wanted) -> Vec<Piece<'_>> {
    let code = || blocks.iter().filter(|block| !is_session(&block.code));
    let labelled: Vec<Piece> = code()
        .filter_map(|block| Some(Piece { block, language: Language::named(&block.label)?, labelled: true }))
        .collect();
    // Code in another language than the one asked for is no answer to the task.
    let off = |piece: &Piece| wanted.named.is_some_and(|named| named != piece.language);
    if !labelled.is_empty() && !labelled.iter().all(off) {
        return labelled;
    }
    let Some(language) = wanted.unlabelled else { return vec![] };
    let bare = code().filter(|block| block.label.is_empty());
    bare.map(|block| Piece { block, language, labelled: false }).collect()
}

/// An interpreter's or a shell's session, or a patch: no source text.
fn is_session(code: &str) -> bool {
    const STARTS: &[&str] = &[">>> ", ">>>\n", "In [", "$ ", "diff --git ", "--- a/", "@@ -"];
    STARTS.iter().any(|start| code.trim_start().starts_with(start))
}

fn judged(pieces: &[Piece], dropped: usize) -> Verdict {
    let (mut parsed, mut total, mut bytes) = (0_usize, 0_usize, 0_usize);
    let mut left_out = dropped;
    let mut steps_left = STEPS_MAX;
    let mut lines = vec![];
    for piece in pieces {
        bytes += piece.block.code.len();
        if bytes > CODE_BYTES_MAX {
            left_out += 1;
            continue;
        }
        total += 1;
        let result = if piece.block.too_long {
            Parsed::TooLong
        } else {
            language::parse(piece.language, &piece.block.code, &mut steps_left)
        };
        parsed += usize::from(matches!(result, Parsed::Clean { .. }));
        if lines.len() < TRACED_MAX || (parsed < total && lines.len() < 2 * TRACED_MAX) {
            let end = if piece.block.closed { "" } else { ", never closed" };
            lines.push(format!("block {total}: {}{end}", told(piece.language, result)));
        }
    }
    if left_out > 0 {
        lines.push(format!("{left_out} further blocks were left out"));
    }
    let detail = lines.iter().find(|line| line.contains("fault")).or(lines.first()).cloned().unwrap_or_default();
    let confidence = if pieces.iter().all(|piece| piece.labelled) { 0.95 } else { 0.8 };
    weighed(parsed, total, format!("{parsed} of {total}; {detail}"), confidence, lines)
}

/// The whole answer as code.
fn unfenced(language: Language, response: &str) -> Verdict {
    let code = response.trim_start_matches('\u{feff}');
    let result = language::parse(language, code, &mut { STEPS_MAX });
    let line = format!("whole answer: {}", told(language, result));
    let clean = matches!(result, Parsed::Clean { substance: true, .. });
    weighed(usize::from(clean), 1, line.clone(), 0.8, vec![line])
}

fn nothing(why: &str) -> Verdict {
    weighed(0, 1, why.to_owned(), 0.9, vec![why.to_owned()])
}

fn weighed(parsed: usize, total: usize, detail: String, confidence: f64, trace: Vec<String>) -> Verdict {
    let share = if total == 0 { 0.0 } else { parsed as f64 / total as f64 };
    let has_code = f64::from(u8::from(parsed > 0));
    let signals = vec![
        Signal { name: "has_code", score: has_code, weight: HAS_CODE, detail: String::new() },
        Signal { name: "parses", score: share, weight: PARSES, detail },
    ];
    Verdict::weigh(signals, confidence, trace)
}

fn told(language: Language, result: Parsed) -> String {
    let name = language.name();
    match result {
        Parsed::Clean { nodes, substance: true } => format!("{name}, {nodes} nodes, parses"),
        Parsed::Clean { nodes, substance: false } => format!("{name}, {nodes} nodes, parses, but only as a name"),
        Parsed::Broken { nodes, first } => {
            format!("{name}, {nodes} nodes, first fault at line {} column {}", first.line, first.column)
        }
        Parsed::TooLong => format!("{name}, fault: more than {CODE_BYTES_MAX} bytes or too much work, not parsed"),
        Parsed::Unavailable => format!("{name}, fault: no parser"),
    }
}
