//! `pointsman journal tail`.

use std::{
    collections::HashMap,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::Result;
use clap::Args;
use pointsman::{
    journal::{
        Event, JournalError,
        export::{Line, Source},
    },
    round::DecisionId,
};

use super::{describe::describe, export::is_enough};

/// How often a followed journal is looked at.
const POLL: Duration = Duration::from_millis(250);
/// Events read at a time.
const PAGE: i64 = 1_000;
/// Decisions that are remembered for the events about them.
const KNOWN_MAX: usize = 1_000;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman journal tail
  pointsman journal tail -n 100 --follow
  pointsman journal tail -f --json | jq -c 'select(.event.kind == \"judged\") | .event.feedback'

Times are UTC. With --json each event is a line as `journal export` writes it.")]
pub(super) struct TailArguments {
    /// How many events.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(i64).range(0..))]
    lines: i64,
    /// Go on with what is appended, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &TailArguments, folder: &Path) -> Result<()> {
    // Heard from the start: Ctrl-C while the first events are shown ends it no less well.
    let mut stop = arguments.follow.then(|| tokio::spawn(tokio::signal::ctrl_c()));
    let source = Source::open(&super::file(folder)).await?;
    let mut tail = Tail { source, json: arguments.json, known: HashMap::new() };
    let mut seq = tail.source.before_last(arguments.lines).await?;
    loop {
        match tail.show_after(&mut seq).await {
            Err(Failed::Write(error)) if is_enough(&error) => return Ok(()),
            shown => shown?,
        }
        let Some(stop) = &mut stop else { return Ok(()) };
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            ended = stop => return Ok(ended??),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

struct Tail {
    source: Source,
    json: bool,
    known: HashMap<DecisionId, Event>,
}

impl Tail {
    /// Prints the events after a place, and moves it on.
    async fn show_after(&mut self, seq: &mut i64) -> Result<(), Failed> {
        loop {
            let lines = self.source.lines(*seq, i64::MAX, PAGE).await?;
            let mut text = String::new();
            for line in &lines {
                text.push_str(&self.render(line).await?);
                text.push('\n');
                *seq = line.seq;
            }
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            if lines.len() < PAGE as usize {
                return Ok(());
            }
        }
    }

    async fn render(&mut self, line: &Line) -> Result<String, Failed> {
        if self.json {
            return Ok(serde_json::to_string(line).map_err(io::Error::from)?);
        }
        let event = line.event()?;
        let id = event.decision_id();
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        match (id, &event) {
            (Some(id), Event::Decided { .. }) => drop(self.known.insert(id, event.clone())),
            (Some(id), _) if !self.known.contains_key(&id) => {
                self.known.extend(self.source.decided(id).await?.map(|decided| (id, decided)));
            }
            _ => {}
        }
        Ok(describe(line, &event, id.and_then(|id| self.known.get(&id))))
    }
}
