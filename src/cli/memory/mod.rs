//! `pointsman memory`: look into memory, keep snapshots of it, move and rebuild it.
//!
//! Each command works on a data folder that no daemon has open, or through the daemon that has it: the daemon leaves its
//! address in the folder.

mod copy;
mod rebuild;
mod snapshot;
mod target;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use pointsman::{
    memory::{
        Filter, MIN_SIMILARITY, RECALL_K,
        view::{Record, Stats},
    },
    round::{ArmId, Domain},
};

use super::{
    ask::{show, table},
    folders::Folders,
};
pub(super) use rebuild::set_aside;
use target::Target;
pub(super) use target::open_journal;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman memory stats                                   of the daemon that runs here, or of its data folder
  pointsman memory search \"reverse a list\" --domain code
  pointsman memory snapshot create --name before-upgrade
  pointsman memory snapshot restore before-upgrade
  pointsman memory copy --from edge --to http://127.0.0.1:6334
  pointsman memory rebuild --config pointsman.toml         after the embedding model was changed")]
pub(super) struct MemoryArguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: MemoryCommand,
}

/// Where memory is.
#[derive(Args)]
pub(super) struct Place {
    /// The data folder [default: the user's data folder].
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The daemon to ask [default: the one that uses the data folder, if one does].
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// The daemon's configuration, where its memory is on a server or its model is not the default.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum MemoryCommand {
    /// Count what memory holds, by domain and arm.
    Stats,
    /// Show the entries most alike to a text, as recall finds them.
    Search(SearchArguments),
    /// Show one entry.
    Inspect {
        /// Its sequence number.
        seq: u64,
    },
    /// Write memory anew from the journal; tasks that another model embedded are embedded again.
    #[command(
        after_help = "The daemon must be stopped. The old memory folder is kept as memory.aside until the next time."
    )]
    Rebuild,
    /// Copy all entries to another store; what that held before is replaced.
    Copy(copy::CopyArguments),
    /// Create, list, verify, restore, download, upload and delete snapshots.
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
}

#[derive(Args)]
struct SearchArguments {
    /// The text.
    text: String,
    /// How many entries at most.
    #[arg(long, short, default_value_t = RECALL_K as u8, value_parser = clap::value_parser!(u8).range(1..=100))]
    k: u8,
    /// The least cosine similarity, from -1 to 1.
    #[arg(long, value_name = "S", default_value_t = MIN_SIMILARITY, allow_hyphen_values = true)]
    min_similarity: f32,
    /// Only this domain.
    #[arg(long, value_name = "D")]
    domain: Option<Domain>,
    /// Only tasks on which this arm was tried.
    #[arg(long, value_name = "A")]
    arm: Option<ArmId>,
}

pub(super) async fn run(arguments: MemoryArguments, folders: &Folders) -> Result<()> {
    let MemoryArguments { place, command } = arguments;
    let json = place.json;
    match command {
        MemoryCommand::Rebuild => return rebuild::run(&place, folders).await,
        MemoryCommand::Copy(arguments) => return copy::run(arguments, &place, folders).await,
        _ => {}
    }
    let target = Target::find(&place, folders).await?;
    match command {
        MemoryCommand::Stats => show(json, &target.stats().await?, render_stats),
        MemoryCommand::Search(SearchArguments { text, k, min_similarity, domain, arm }) => {
            let found = target.search(&text, k.into(), min_similarity, Filter { domain, arm }, &place, folders).await?;
            show(json, &found, |found| render_records(found))
        }
        MemoryCommand::Inspect { seq } => match target.inspect(seq).await? {
            Some(record) => show(json, &record, |record| render_records(std::slice::from_ref(record))),
            None => {
                bail!("memory holds no entry {seq}: it was evicted, or is not there yet; see `pointsman memory stats`")
            }
        },
        MemoryCommand::Snapshot(command) => snapshot::run(command, &target, json).await,
        MemoryCommand::Rebuild | MemoryCommand::Copy(_) => Ok(()),
    }
}

fn render_stats(stats: &Stats) -> String {
    let Stats { shape, count, first_seq, next_seq, origin, oldest_at_ms, newest_at_ms, domains, arms } = stats;
    let mut lines = vec![format!("{count} of {} entries, {} ({} dimensions)", shape.cap, shape.model, shape.dimension)];
    if let (Some(first), Some(oldest), Some(newest)) = (first_seq, oldest_at_ms, newest_at_ms) {
        let hours = (newest - oldest) as f64 / 3_600_000.0;
        lines.push(format!("numbers {first} to {}, learnt over {hours:.1} h", next_seq.saturating_sub(1)));
    }
    if let Some(origin) = origin {
        lines.push(format!("rests on the snapshot with digest {origin}"));
    }
    let mut by_domain = table(["domain", "entries"], &[1]);
    for (domain, count) in domains {
        by_domain.add_row([domain.to_string(), count.to_string()]);
    }
    let mut by_arm = table(["arm", "entries", "mean score"], &[1, 2]);
    for (arm, tried) in arms {
        by_arm.add_row([arm.to_string(), tried.count.to_string(), format!("{:.3}", tried.mean_score)]);
    }
    if *count > 0 {
        lines.extend([by_domain.to_string(), by_arm.to_string()]);
    }
    lines.join("\n")
}

fn render_records(records: &[Record]) -> String {
    if records.is_empty() {
        return "nothing is that much alike; try a lower --min-similarity".into();
    }
    let mut table = table(["similarity", "seq", "task", "domain", "arm", "score", "usd", "verifiers"], &[0, 1, 5, 6]);
    for record in records {
        for tried in &record.outcomes {
            table.add_row([
                record.similarity.map(|similarity| format!("{similarity:.3}")).unwrap_or_default(),
                record.seq.to_string(),
                record.task_id.to_string(),
                record.domain.to_string(),
                tried.arm.to_string(),
                format!("{:.3}", tried.score),
                format!("{:.6}", tried.cost_usd),
                tried.trace.chars().take(60).collect(),
            ]);
        }
    }
    table.to_string()
}
