//! The log that other policies are evaluated on: a daemon's journal, or a file of Vowpal Wabbit's.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use clap::Args;
use pointsman::{
    journal::JournalReader,
    replay::{
        dsjson::{CostRange, DsjsonLog},
        off_policy::{ALPHA, Logged},
    },
    router::logged_rounds,
};

use super::super::progress;

/// Which log besides a journal, and how sure to be.
#[derive(Args)]
pub(in crate::cli) struct LogArguments {
    /// A log of another system instead of a journal: Vowpal Wabbit's decision-service JSON, compressed or not.
    #[arg(long, value_name = "FILE", conflicts_with = "journal")]
    pub log: Option<PathBuf>,
    /// The costs of the best and of the worst outcome in --log, where they are neither all from -1 to 0 nor all from 0 to 1.
    #[arg(long, value_name = "LOW,HIGH", requires = "log", value_parser = cost_range, allow_hyphen_values = true)]
    pub cost_range: Option<CostRange>,
    /// How often an interval of an estimate may ever miss the truth, over all the times that one looks.
    #[arg(long, value_name = "A", default_value_t = ALPHA, value_parser = alpha)]
    pub alpha: f64,
}

fn alpha(text: &str) -> Result<f64, String> {
    let alpha: f64 = text.trim().parse().map_err(|error| format!("{text:?}: {error}"))?;
    if (1e-6..=0.5).contains(&alpha) { Ok(alpha) } else { Err("must be from 0.000001 to 0.5, such as 0.05".into()) }
}

fn cost_range(text: &str) -> Result<CostRange, String> {
    let (low, high) = text.split_once(',').ok_or("must be two numbers, such as -2,5")?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|error| format!("{text:?}: {error}"));
    let range = CostRange { low: number(low)?, high: number(high)? };
    if range.low.is_finite() && range.high.is_finite() && range.low < range.high {
        Ok(range)
    } else {
        Err("must be two numbers, the lower first".into())
    }
}

/// An open log.
pub(in crate::cli) enum Log {
    Journal(JournalReader),
    Dsjson(DsjsonLog),
}

impl Log {
    /// Opens the file that was named, or else the journal of a data folder.
    pub async fn open(folder: Option<&Path>, arguments: &LogArguments) -> Result<Self> {
        match (&arguments.log, folder) {
            (Some(file), _) => {
                let log = DsjsonLog::open(file, arguments.cost_range)?;
                tell_of(file, &log);
                Ok(Self::Dsjson(log))
            }
            (None, Some(folder)) => Ok(Self::Journal(open_journal(folder).await?)),
            (None, None) => bail!("give --journal DIR, a daemon's data folder, or --log FILE"),
        }
    }

    /// The model whose embeddings it holds.
    pub fn embedding_model(&self) -> &str {
        match self {
            Self::Journal(journal) => journal.embedding_model(),
            Self::Dsjson(_) => "hashed features",
        }
    }

    /// Tells each round, in the log's order, until `tell` fails.
    pub async fn tell(&self, what: &str, mut tell: impl FnMut(&Logged<'_>) -> Result<()>) -> Result<()> {
        let bar = progress::bar(0, what);
        let mut failed = None;
        let each = |logged: &Logged<'_>| match tell(logged) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        };
        let progress = |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        };
        match self {
            Self::Journal(journal) => {
                let base = journal.base().await?;
                logged_rounds(journal, progress, each).await?;
                if let Some(base) = base {
                    eprintln!("records up to event {} were compacted: only later rounds are seen", base.seq);
                }
            }
            Self::Dsjson(log) => log.tell(progress, each)?,
        }
        bar.finish_and_clear();
        failed.map_or(Ok(()), Err)
    }

    pub async fn close(self) {
        match self {
            Self::Journal(journal) => journal.close_reader().await,
            Self::Dsjson(_) => {}
        }
    }
}

/// The journal of a data folder, which a daemon may be writing to.
pub(in crate::cli) async fn open_journal(folder: &Path) -> Result<JournalReader> {
    let file = folder.join("journal.sqlite");
    if !file.exists() {
        bail!("there is no journal.sqlite in {}: give a daemon's data folder", folder.display());
    }
    Ok(JournalReader::open_recorded(&file).await?)
}

/// What the file holds, and how its costs were understood.
fn tell_of(file: &Path, log: &DsjsonLog) {
    let (counts, CostRange { low, high }) = (log.counts(), log.costs());
    eprintln!("{}: {} rounds; a cost of {low} is a score of 1, of {high} a score of 0", file.display(), counts.rounds);
    let left_out = [
        (counts.unlabelled, "without a cost"),
        (counts.not_to_learn, "that say _skipLearn"),
        (counts.without_actions, "without actions"),
    ];
    for (lines, what) in left_out.iter().filter(|(lines, _)| *lines > 0) {
        eprintln!("  {lines} lines {what} are left out");
    }
}
