//! The command line: the only part that prints, reads the environment and picks folders.

mod ask;
mod bench;
mod daemon;
mod dataset;
mod demo;
mod embedded;
mod explain;
mod folders;
mod journal;
mod keys;
mod logs;
mod memory;
mod models;
mod openapi;
mod policy;
mod progress;
mod replay;
mod serve;
mod train;
mod verify;
mod webhooks;
mod workers;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use folders::Folders;

/// Exit code for a wrong configuration or command line (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;

/// An online contextual-bandit router for LLM work.
#[derive(Parser)]
#[command(
    version,
    about,
    after_help = "Examples:
  pointsman demo                                   watch the whole loop on generated tasks
  pointsman serve --config pointsman.toml          route your own tasks
  pointsman replay --dataset DIR --policy ensemble measure a policy on recorded outcomes"
)]
struct Arguments {
    /// Where models and compiled verifiers are kept [default: the user's cache folder].
    #[arg(long, global = true, value_name = "DIR", env = "POINTSMAN_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    /// How the log is written, to standard error; POINTSMAN_LOG says of what, such as `pointsman=debug`.
    #[arg(long, global = true, value_enum, default_value_t, env = "POINTSMAN_LOG_FORMAT")]
    log_format: logs::Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the whole loop on generated tasks with five scripted workers.
    Demo(demo::DemoArguments),
    /// Run the daemon.
    Serve(serve::ServeArguments),
    /// Report every problem of a configuration file at once.
    CheckConfig(serve::CheckArguments),
    /// Replay policies over a dataset of recorded outcomes, or over a daemon's journal.
    Replay(Box<replay::ReplayArguments>),
    /// Compare every router of a paper on its released data.
    Bench(bench::BenchArguments),
    /// Train what policies start from on recorded outcomes.
    Train(train::TrainArguments),
    /// Say what is in a dataset, or turn it into lines for /v1/tasks/stream.
    Dataset(dataset::DatasetArguments),
    /// Manage the embedding model.
    Models(models::ModelsArguments),
    /// See which policy decides, try and promote others.
    Policy(policy::PolicyArguments),
    /// Say why a decision took its arm.
    Explain(explain::ExplainArguments),
    /// Write, build, check, run and install verifiers.
    Verify(verify::VerifyArguments),
    /// Look at the journal, export and import it, verify it, erase from it.
    Journal(journal::JournalArguments),
    /// Make, list and revoke API keys.
    Keys(keys::KeysArguments),
    /// See how webhooks are doing, try one, sign a message.
    Webhooks(webhooks::WebhooksArguments),
    /// Look into memory, snapshot, move and rebuild it.
    Memory(memory::MemoryArguments),
    /// Print the description of the HTTP surface (OpenAPI 3.1), for generators of clients.
    Openapi,
}

/// Runs the command line.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let shown = error.print();
            let asked = !error.use_stderr();
            return if asked && shown.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_USAGE) };
        }
    };
    // Sends what is left once everything else has stopped.
    let _traces = match logs::start(arguments.log_format) {
        Ok(traces) => traces,
        Err(error) => return fail(&error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::anyhow!("cannot start: {error}")),
    };
    let finished = runtime.block_on(async {
        let folders = Folders::find(arguments.cache_dir)?;
        match arguments.command {
            Command::Demo(arguments) => demo::run(arguments, &folders).await,
            Command::Serve(arguments) => serve::run(arguments, &folders).await,
            Command::CheckConfig(arguments) => serve::check(&arguments),
            Command::Replay(arguments) => replay::run(*arguments, &folders).await,
            Command::Bench(arguments) => bench::run(arguments, &folders).await,
            Command::Train(arguments) => train::run(arguments, &folders).await,
            Command::Dataset(arguments) => dataset::run(&arguments),
            Command::Models(arguments) => models::run(arguments, &folders),
            Command::Policy(arguments) => policy::run(arguments, &folders).await,
            Command::Explain(arguments) => explain::run(arguments, &folders).await,
            Command::Verify(arguments) => verify::run(arguments, &folders).await,
            Command::Journal(arguments) => journal::run(arguments, &folders).await,
            Command::Keys(arguments) => keys::run(arguments, &folders).await,
            Command::Webhooks(arguments) => webhooks::run(arguments, &folders).await,
            Command::Memory(arguments) => memory::run(arguments, &folders).await,
            Command::Openapi => openapi::run(),
        }
    });
    match finished {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("pointsman: {error:#}");
    if error.is::<pointsman::config::Problems>() { ExitCode::from(EXIT_USAGE) } else { ExitCode::FAILURE }
}
