//! Text as tokens, and messages as the model was trained to read them.
//!
//! The tokenizer is the model's own `tokenizer.json`, or it is made of what a GGUF file holds: its tokens, its merges, and the name of the rule by which text is cut before
//! merging. That name must be known, because a wrong cut gives other tokens without a word.
//!
//! Messages stand between marks that are told from the vocabulary: ChatML (Qwen, SmolLM2), Llama 3, or plain headings where a model has none of them. Marks are put in as tokens. Texts are
//! read as texts alone, so that a mark that a question holds stays what it is, a few characters.

use std::path::Path;

use candle_core::quantized::gguf_file::{Content, Value};
use tokenizers::{
    AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer,
    models::bpe::{BPE, Vocab},
    normalizers::unicode::NFC,
    pre_tokenizers::{
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use super::{BackboneError, config::whole_number};

/// Tokens that end what a model writes, by the names that they usually have.
const ENDS: [&str; 6] = ["<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>", "<|end|>"];

/// Where text is cut before merging. Reference: the tokenizers of Qwen2 and Llama 3.
const CUT_QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const CUT_LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How messages are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    ChatMl { start: u32, end: u32 },
    Llama3 { start: u32, middle: u32, end: u32 },
    Plain,
}

/// A model's words.
pub struct Words {
    tokenizer: Tokenizer,
    marks: Marks,
    /// What every text begins with.
    first: Vec<u32>,
    ends: Vec<u32>,
}

impl Words {
    /// Of a `tokenizer.json`.
    pub fn of_json(file: &Path, ends: &[u32]) -> Result<Self, BackboneError> {
        let wrong = |reason: String| BackboneError::Tokenizer { path: file.display().to_string(), reason };
        if !file.exists() {
            return Err(wrong("there is no tokenizer".into()));
        }
        let tokenizer = Tokenizer::from_file(file).map_err(|error| wrong(error.to_string()))?;
        // What the tokenizer itself puts before a text.
        let first = tokenizer.encode_fast("", true).map_err(|error| wrong(error.to_string()))?;
        let first = first.get_ids().iter().copied().filter(|id| !ends.contains(id)).collect();
        Self::new(tokenizer, first, ends).map_err(wrong)
    }

    /// Of what a GGUF file holds.
    pub fn of_gguf(path: &str, content: &Content, ends: &[u32]) -> Result<Self, BackboneError> {
        let made = merged(content).and_then(|tokenizer| {
            let flag = |key: &str| matches!(content.metadata.get(key), Some(Value::Bool(true)));
            let begins = content.metadata.get("tokenizer.ggml.bos_token_id").and_then(whole_number);
            let begins = begins.filter(|_| flag("tokenizer.ggml.add_bos_token"));
            let first = begins.and_then(|id| u32::try_from(id).ok()).into_iter().collect();
            Self::new(tokenizer, first, ends)
        });
        made.map_err(|reason| BackboneError::Tokenizer { path: path.into(), reason })
    }

    fn new(mut tokenizer: Tokenizer, first: Vec<u32>, ends: &[u32]) -> Result<Self, String> {
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        tokenizer.set_encode_special_tokens(true);
        let id = |name: &str| tokenizer.token_to_id(name);
        let chat = id("<|im_start|>").zip(id("<|im_end|>"));
        let llama = id("<|start_header_id|>").zip(id("<|end_header_id|>")).zip(id("<|eot_id|>"));
        let marks = match (chat, llama) {
            (Some((start, end)), _) => Marks::ChatMl { start, end },
            (None, Some(((start, middle), end))) => Marks::Llama3 { start, middle, end },
            (None, None) => Marks::Plain,
        };
        let mut ends: Vec<u32> = ENDS.iter().filter_map(|name| id(name)).chain(ends.iter().copied()).collect();
        ends.sort_unstable();
        ends.dedup();
        if ends.is_empty() {
            return Err("it has no token that ends a text".into());
        }
        Ok(Self { tokenizer, marks, first, ends })
    }

    /// One more than the highest token.
    pub fn len(&self) -> usize {
        let highest = self.tokenizer.get_vocab(true).into_values().max();
        highest.map_or(0, |highest| highest as usize + 1)
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a token ends what is written.
    pub fn ends(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// A text's tokens. Nothing in it is taken for a mark.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>, String> {
        let read = self.tokenizer.encode_fast(text, false).map_err(|error| error.to_string())?;
        Ok(read.get_ids().to_vec())
    }

    /// Tokens' text; that of a character that is not whole yet is left open.
    pub fn text(&self, tokens: &[u32]) -> Result<String, String> {
        self.tokenizer.decode(tokens, false).map_err(|error| error.to_string())
    }

    /// What all texts begin with.
    pub fn first(&self) -> &[u32] {
        &self.first
    }

    /// The beginning of a message.
    pub fn opened(&self, role: &str) -> Result<Vec<u32>, String> {
        Ok(match self.marks {
            Marks::ChatMl { start, .. } => [vec![start], self.tokens(&format!("{role}\n"))?].concat(),
            Marks::Llama3 { start, middle, .. } => {
                [vec![start], self.tokens(role)?, vec![middle], self.tokens("\n\n")?].concat()
            }
            Marks::Plain => self.tokens(&format!("### {role}\n"))?,
        })
    }

    /// The end of a message: its mark, and what follows that. A writer that wrote the mark itself is given what follows.
    pub fn closed(&self, last: Option<u32>) -> Result<Vec<u32>, String> {
        let (end, after) = match self.marks {
            Marks::ChatMl { end, .. } => (Some(end), self.tokens("\n")?),
            Marks::Llama3 { end, .. } => (Some(end), vec![]),
            Marks::Plain => (None, self.tokens("\n\n")?),
        };
        Ok(end.filter(|end| last != Some(*end)).into_iter().chain(after).collect())
    }

    /// The mark that a writer ends a turn with.
    pub fn end(&self) -> u32 {
        match self.marks {
            Marks::ChatMl { end, .. } | Marks::Llama3 { end, .. } => end,
            Marks::Plain => self.ends[0],
        }
    }

    /// A whole message.
    pub fn message(&self, role: &str, text: &str) -> Result<Vec<u32>, String> {
        Ok([self.opened(role)?, self.tokens(text)?, self.closed(None)?].concat())
    }
}

/// A byte-level tokenizer by merges, of a GGUF file's own tables.
fn merged(content: &Content) -> Result<Tokenizer, String> {
    let value = |key: &str| content.metadata.get(&format!("tokenizer.ggml.{key}"));
    let word = |key: &str| value(key).and_then(|value| value.to_string().ok()).map(String::as_str);
    match word("model") {
        Some("gpt2") => {}
        Some(other) => return Err(format!("its own tokenizer is of the kind {other:?}, which is not known here")),
        None => return Err("it holds no tokenizer".into()),
    }
    let table = |key: &str| -> Result<Vec<String>, String> {
        let rows =
            value(key).and_then(|value| value.to_vec().ok()).ok_or_else(|| format!("its table of {key} is missing"))?;
        let row =
            |row: &Value| row.to_string().cloned().map_err(|_| format!("its table of {key} holds what is no text"));
        rows.iter().map(row).collect()
    };
    let tokens = table("tokens")?;
    let pair = |merge: String| {
        let (left, right) = merge.split_once(' ').ok_or_else(|| format!("its merge {merge:?} is none"))?;
        Ok((left.to_owned(), right.to_owned()))
    };
    let merges = table("merges")?.into_iter().map(pair).collect::<Result<Vec<_>, String>>()?;
    let pre = word("pre").unwrap_or("");
    let (cut, ignore_merges) = cut(pre)?;
    let vocabulary: Vocab = tokens.iter().cloned().zip(0..).collect();
    if vocabulary.len() != tokens.len() {
        return Err("it has a token twice".into());
    }
    let bpe = BPE::builder().vocab_and_merges(vocabulary, merges).ignore_merges(ignore_merges);
    let mut tokenizer = Tokenizer::new(bpe.build().map_err(|error| error.to_string())?);
    if pre == "qwen2" {
        tokenizer.with_normalizer(Some(NFC)).map_err(|error| error.to_string())?;
    }
    tokenizer.with_pre_tokenizer(Some(cut)).with_decoder(Some(ByteLevel::new(false, true, true)));
    let kinds = value("token_type").and_then(|value| value.to_vec().ok());
    let kinds: Vec<usize> = kinds.into_iter().flatten().filter_map(whole_number).collect();
    // By the format: 3 are marks, 4 are words that are never cut.
    for (kind, special) in [(3, true), (4, false)] {
        let of_kind = tokens.iter().zip(&kinds).filter(|(_, other)| **other == kind);
        let added = of_kind.map(|(token, _)| AddedToken::from(token.clone(), special).normalized(false));
        let added: Vec<AddedToken> = added.collect();
        let done = if special { tokenizer.add_special_tokens(added) } else { tokenizer.add_tokens(added) };
        done.map_err(|error| error.to_string())?;
    }
    Ok(tokenizer)
}

/// How text is cut before merging, by the name of the rule; and whether a piece that is a token is taken whole.
fn cut(name: &str) -> Result<(PreTokenizerWrapper, bool), String> {
    let bytes = |regex| ByteLevel::new(false, true, regex);
    let by = |pattern: &str| -> Result<PreTokenizerWrapper, String> {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(|error| error.to_string())?;
        Ok(Sequence::new(vec![split.into(), bytes(false).into()]).into())
    };
    match name {
        "gpt-2" | "gpt2" => Ok((bytes(true).into(), false)),
        "smollm" => Ok((Sequence::new(vec![Digits::new(true).into(), bytes(true).into()]).into(), false)),
        "qwen2" => Ok((by(CUT_QWEN2)?, false)),
        "llama-bpe" | "llama3" | "llama-v3" => Ok((by(CUT_LLAMA3)?, true)),
        _ => Err(format!("its own tokenizer cuts text by the rule {name:?}, which is not known here")),
    }
}
