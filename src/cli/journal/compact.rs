//! `pointsman journal compact`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::HumanBytes;
use pointsman::{
    journal::{Compacted, shrink},
    memory::{CAP, EdgeMemory},
    router::{CompactionSettings, compact_journal, plan_compaction},
};

use super::super::{
    folders::{DataFolder, Owner, cards},
    progress,
};

const DAY_S: u64 = 24 * 60 * 60;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman journal compact --keep 90 --data-dir state
  pointsman journal compact --keep 90 --dry-run --data-dir state

Rounds older than that go, with their idempotency keys; what was learnt from them stays, as one state in the journal. Rounds that
wait for an outcome, the last ones that memory is filled from, and all changes of policies, arms and verifiers stay too.
Stop the daemon first, and export what you want to keep (`pointsman journal export`).")]
pub(super) struct CompactArguments {
    /// Keep all rounds of the last so many days.
    #[arg(long, value_name = "DAYS", overrides_with = "keep")]
    keep: u32,
    /// Keep at least so many of the last rounds with verified feedback [default: memory's cap, at least 20000].
    #[arg(long, value_name = "N")]
    keep_rounds: Option<u64>,
    /// The folder of policy cards, where cards name trained files [default: policies in the data folder, or beside it].
    #[arg(long, value_name = "DIR")]
    cards: Option<PathBuf>,
    /// Say what would go, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(arguments: &CompactArguments, folder: &Path) -> Result<()> {
    let Owner::Us(data) = DataFolder::owner(folder)? else {
        bail!("the data folder {} is used by a daemon: stop it first", folder.display());
    };
    let rounds = match arguments.keep_rounds {
        Some(rounds) => rounds,
        None => EdgeMemory::shape_of(&data.memory())?.map_or(CAP, |shape| shape.cap.max(CAP)),
    };
    let settings = CompactionSettings {
        keep: Duration::from_secs(u64::from(arguments.keep) * DAY_S),
        rounds,
        cards: cards(folder, arguments.cards.as_deref())?,
    };
    let file = data.journal();
    let plan = plan_compaction(&file, &settings).await?;
    if arguments.dry_run {
        println!("{} records up to event {} would go.", plan.records, plan.up_to);
        return Ok(());
    }
    if plan.records == 0 {
        println!(
            "Nothing to take out: no closed round is older than {} days and before the last {rounds} that memory rests on.",
            arguments.keep
        );
    } else {
        let bar = progress::bar(0, "folding");
        let compacted = compact_journal(&file, &plan, &settings, |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })
        .await?;
        bar.finish_and_clear();
        let Compacted { records, up_to } = compacted;
        println!("Took {records} records out; what was learnt up to event {up_to} is kept as one state.");
    }
    let shrunk = shrink(&file).await.with_context(|| {
        format!("{} could not be made smaller: make as much room as it has and compact again", file.display())
    })?;
    if let Some(shrunk) = shrunk {
        println!("{}: {} before, {} now.", file.display(), HumanBytes(shrunk.before), HumanBytes(shrunk.after));
    }
    Ok(())
}
