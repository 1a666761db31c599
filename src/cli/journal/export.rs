//! `pointsman journal export`.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use indicatif::HumanCount;
use pointsman::{
    journal::export::{
        DsjsonCounts, DsjsonOptions, ExportError, JsonlOptions, Selection, Source, export_dsjson, export_jsonl,
        export_parquet, parse_time,
    },
    round::Domain,
};

use super::{
    super::progress,
    output::{Output, is_gz},
};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman journal export --out journal.jsonl.gz                        all of it; `journal import` reads it back
  pointsman journal export --from 2026-11-01 --to 2026-12-01 | jq .event
  pointsman journal export --format parquet --out rounds.parquet         one row a decision, for pandas and the like
  pointsman journal export --format dsjson --no-embedding --out rounds.dsjson
  vw --dsjson --cb_explore_adf -q DA -d rounds.dsjson                    learns from them

Times are dates, times such as 2026-11-30T06:45:01Z (UTC), or milliseconds since 1970.")]
pub(super) struct ExportArguments {
    /// As what.
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Where to [default: standard output]; a name ending with .gz is compressed. It is FILE.part until it is whole.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// From this time on: of events in jsonl, of decisions in the others.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<i64>,
    /// Before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<i64>,
    /// Only decisions of this domain.
    #[arg(long, value_name = "D")]
    domain: Option<Domain>,
    /// Leave embeddings out of dsjson: most of the file.
    #[arg(long)]
    no_embedding: bool,
    /// Write the key into jsonl under which texts that are not kept were hashed, so that a copy knows repeated tasks. It is a
    /// secret: who has it can try guesses of those texts.
    #[arg(long)]
    with_key: bool,
}

/// What an export is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Every event without loss, one a line.
    Jsonl,
    /// A table of rounds: what was decided, and what became of it.
    Parquet,
    /// Verified rounds for Vowpal Wabbit.
    Dsjson,
}

fn time(text: &str) -> Result<i64, String> {
    parse_time(text)
        .ok_or_else(|| "write a date, a time such as 2026-11-30T06:45:01Z, or milliseconds since 1970".into())
}

pub(super) async fn run(arguments: ExportArguments, folder: &Path) -> Result<()> {
    let ExportArguments { format, out, from, to, domain, no_embedding, with_key } = arguments;
    match (format, &out) {
        (Format::Parquet, None) => bail!("a table is no text: name a file with --out FILE"),
        (Format::Parquet, Some(out)) if is_gz(out) => {
            bail!("a table is compressed already: let --out end with .parquet")
        }
        (Format::Parquet | Format::Jsonl, _) if no_embedding => bail!("--no-embedding is for --format dsjson"),
        (Format::Parquet | Format::Dsjson, _) if with_key => bail!("--with-key is for --format jsonl"),
        _ => {}
    }
    let to_stdout = out.is_none();
    let mut source = Source::open(&super::file(folder)).await?;
    let selection = Selection { from_ms: from, until_ms: to, domain };
    let mut output = Output::open(out.as_deref())?;
    let bar = progress::bar(0, "exporting");
    let told = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let written = match format {
        Format::Jsonl => {
            let options = JsonlOptions { key: with_key };
            export_jsonl(&mut source, &selection, options, &mut output, &told).await.map(Written::Events)
        }
        Format::Parquet => export_parquet(&mut source, &selection, &mut output, &told).await.map(Written::Rounds),
        Format::Dsjson => {
            let options = DsjsonOptions { embedding: !no_embedding };
            export_dsjson(&mut source, &selection, options, &mut output, &told).await.map(Written::Examples)
        }
    };
    bar.finish_and_clear();
    let finished = written.and_then(|written| Ok(output.finish().map(|()| written)?));
    match finished {
        Ok(written) => written.say(),
        Err(ExportError::Write(error)) if to_stdout && is_enough(&error) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Whether the reader has what it wanted, as with `head`.
pub(super) fn is_enough(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

/// What was written.
enum Written {
    Events(u64),
    Rounds(u64),
    Examples(DsjsonCounts),
}

impl Written {
    /// Standard output may be the export itself.
    fn say(&self) {
        match self {
            Self::Events(count) => eprintln!("{} events exported", HumanCount(*count)),
            Self::Rounds(count) => eprintln!("{} rounds exported", HumanCount(*count)),
            Self::Examples(counts) => {
                let mean = counts.cost / counts.written.max(1) as f64;
                eprintln!("{} verified rounds exported, mean cost {mean:.6}", HumanCount(counts.written));
                let reasons = [
                    (counts.open, "nobody has said yet what became of them"),
                    (counts.abandoned, "nobody said in time what became of them"),
                    (counts.unverified, "nobody checked the answer"),
                    (counts.unscored, "no verifier applied"),
                    (counts.strange, "what was taken is no candidate"),
                ];
                for (count, why) in reasons.into_iter().filter(|(count, _)| *count > 0) {
                    eprintln!("{} left out: {why}", HumanCount(count));
                }
            }
        }
    }
}
