//! `pointsman journal`: look at it, take it elsewhere and back, is it sound, make it smaller, and
//! erase what somebody asked to be forgotten.

mod compact;
mod describe;
mod erase;
mod export;
mod import;
mod output;
mod tail;
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
    /// Take old rounds out; what was learnt from them stays.
    Compact(compact::CompactArguments),
    /// Show the last events, and those that come; the daemon may run.
    Tail(tail::TailArguments),
    /// Write it as lines, as a table of rounds, or for Vowpal Wabbit; the daemon may run.
    Export(export::ExportArguments),
    /// Bring exported lines back into a data folder that no daemon has open.
    Import(import::ImportArguments),
}

pub(super) async fn run(arguments: JournalArguments, folders: &Folders) -> Result<()> {
    let folder = arguments.data_dir.as_deref().unwrap_or(&folders.data);
    if let Command::Import(arguments) = &arguments.command {
        return import::run(arguments, folder).await;
    }
    if !file(folder).exists() {
        bail!("there is no journal in {}: give the daemon's data folder with --data-dir DIR", folder.display());
    }
    match arguments.command {
        Command::Verify => verify::run(folder).await,
        Command::Erase(arguments) => erase::run(&arguments, folder).await,
        Command::Compact(arguments) => compact::run(&arguments, folder).await,
        Command::Tail(arguments) => tail::run(&arguments, folder).await,
        Command::Export(arguments) => export::run(arguments, folder).await,
        Command::Import(_) => Ok(()),
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("journal.sqlite")
}
