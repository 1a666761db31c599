//! The journal as lines: every event with all that is stored of it.

use std::{collections::HashMap, io::Write};

use rayon::prelude::*;

use super::{
    ExportError, Line, Selection, Source,
    line::{Bytes, End, FORMAT, Header, Trailer, VERSION},
};
use crate::{
    journal::{Event, JournalError},
    round::{DecisionId, Domain},
};

/// Events read at a time.
const PAGE: i64 = 1_000;
/// Decisions whose domain is remembered.
const KNOWN_MAX: usize = 100_000;

/// What is written beside the events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JsonlOptions {
    /// Whether the key is, under which texts that are not kept were hashed: who has it can try guesses of those texts.
    pub key: bool,
}

/// Writes a header, the selected events and a last line with their number and hash, and returns how many there are. `progress`
/// is told (done, total) places of the journal.
///
/// With a domain only events about its decisions are written: for looking into, an import refuses it.
pub async fn export_jsonl(
    source: &mut Source,
    selection: &Selection,
    options: JsonlOptions,
    out: &mut dyn Write,
    progress: &dyn Fn(u64, u64),
) -> Result<u64, ExportError> {
    let (after, until) = source.span(selection).await?;
    let base = if after == 0 { source.reader().base().await?.map(Into::into) } else { None };
    let key = if options.key { Some(Bytes(source.reader().secret().await?.to_vec())) } else { None };
    let domain = selection.domain.clone();
    let header = Header { format: FORMAT.into(), version: VERSION, after, domain: domain.clone(), base, key };
    let mut written = Written { out, hasher: blake3::Hasher::new() };
    written.line(&to_line(&header)?)?;
    let mut of_domain = domain.map(OfDomain::new);
    let (mut seq, mut events) = (after, 0);
    loop {
        let mut lines = source.lines(seq, until, PAGE).await?;
        let Some(last) = lines.last() else { break };
        seq = last.seq;
        if let Some(of_domain) = &mut of_domain {
            lines = of_domain.keep(source, lines).await?;
        }
        let texts = lines.par_iter().map(to_line).collect::<Result<Vec<_>, _>>()?;
        for text in &texts {
            written.line(text)?;
        }
        events += texts.len() as u64;
        progress((seq - after).unsigned_abs(), (until - after).unsigned_abs());
    }
    let blake3 = written.hasher.finalize().to_hex().to_string();
    written.line(&to_line(&Trailer { end: End { events, blake3 } })?)?;
    Ok(events)
}

fn to_line<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, ExportError> {
    let mut text = serde_json::to_vec(value).map_err(std::io::Error::from)?;
    text.push(b'\n');
    Ok(text)
}

/// Where lines go, and the hash of what went there.
struct Written<'a> {
    out: &'a mut dyn Write,
    hasher: blake3::Hasher,
}

impl Written<'_> {
    fn line(&mut self, text: &[u8]) -> Result<(), ExportError> {
        self.hasher.update(text);
        Ok(self.out.write_all(text)?)
    }
}

/// Finds out which events are about a domain's decisions.
struct OfDomain {
    domain: Domain,
    known: HashMap<DecisionId, bool>,
}

impl OfDomain {
    fn new(domain: Domain) -> Self {
        Self { domain, known: HashMap::new() }
    }

    async fn keep(&mut self, source: &mut Source, lines: Vec<Line>) -> Result<Vec<Line>, JournalError> {
        let mut kept = Vec::with_capacity(lines.len());
        for line in lines {
            let event = line.event()?;
            let Some(id) = event.decision_id() else { continue };
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            let ours = match (self.known.get(&id), &event) {
                (Some(ours), _) => *ours,
                (None, Event::Decided { task, .. }) => task.domain == self.domain,
                (None, _) => match source.decided(id).await? {
                    Some(Event::Decided { task, .. }) => task.domain == self.domain,
                    Some(_) | None => false,
                },
            };
            self.known.insert(id, ours);
            if ours {
                kept.push(line);
            }
        }
        Ok(kept)
    }
}
