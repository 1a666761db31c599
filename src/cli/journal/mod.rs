//! `pointsman journal`: is it sound, and erase what somebody asked to be forgotten.

mod erase;
mod verify;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::folders::Folders;

#[derive(Args)]
pub(super) struct JournalArguments {
    #[command(subcommand)]
    command: Command,
    /// The daemon's data folder [default: the user's data folder].
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Read all of it and report what is damaged; the daemon may run.
    Verify,
    /// Take the texts of a task, or of a tenant's tasks, out; the numbers stay.
    Erase(erase::EraseArguments),
}

pub(super) async fn run(arguments: JournalArguments, folders: &Folders) -> Result<()> {
    let folder = arguments.data_dir.as_deref().unwrap_or(&folders.data);
    if !file(folder).exists() {
        bail!("there is no journal in {}: give the daemon's data folder with --data-dir DIR", folder.display());
    }
    match arguments.command {
        Command::Verify => verify::run(folder).await,
        Command::Erase(arguments) => erase::run(&arguments, folder).await,
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("journal.sqlite")
}
