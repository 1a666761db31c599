//! `pointsman verify`: write, build, check, run and install verifiers.

mod build;
mod check;
mod install;
mod new;
mod project;
mod run;
pub(super) mod setup;
mod toolchain;

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use pointsman::feedback::verifier::{Compiled, PYTHON, Sandbox, SandboxLimits, first_party, first_party_names};

use super::{
    ask::{Running, Where},
    folders::Folders,
};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman verify new must-cite --language python    a project to start from
  pointsman verify build must-cite                    must-cite/must-cite.wasm
  pointsman verify check must-cite/must-cite.wasm --golden must-cite/golden.jsonl
  pointsman verify run answer --in tasks.jsonl --out scores.jsonl
  pointsman verify install math must-cite/must-cite.wasm --weight 0.5
  pointsman verify list                               which verifiers judge which domain
  pointsman verify rollback math must-cite")]
pub(super) struct VerifyArguments {
    #[command(flatten)]
    place: Where,
    #[command(subcommand)]
    command: VerifyCommand,
}

#[derive(Subcommand)]
enum VerifyCommand {
    /// Write a new verifier's project: a small one that works, for you to change.
    New(new::NewArguments),
    /// Build a project into a component; its language's tools are fetched on first use.
    #[command(after_help = "The tools are fetched into the cache folder with what fetches packages on this machine:
python3 for Python and C, npm for JavaScript, rustup or apt-get for Rust.")]
    Build(build::BuildArguments),
    /// Build the verifier that runs Python: once, in about a minute. `serve` does it when the configuration names it.
    Setup,
    /// Check that a file is a verifier, and run golden tasks on it.
    Check(check::CheckArguments),
    /// Score a file of tasks with their answers.
    Run(run::RunArguments),
    /// Show which verifiers judge which domain, in a running daemon.
    List,
    /// Install a verifier in a running daemon, or swap the one of its name.
    Install(install::InstallArguments),
    /// Change how a verifier counts.
    Weigh(install::WeighArguments),
    /// Bring an earlier version back.
    Rollback(install::RollBackArguments),
    /// Remove a verifier from a domain.
    Remove(install::OfDomain),
}

/// What one verification may use.
#[derive(Args)]
struct Limits {
    /// Instructions per check.
    #[arg(long, value_name = "N", default_value_t = SandboxLimits::default().fuel)]
    fuel: u64,
    /// Milliseconds per check.
    #[arg(long, value_name = "MS", default_value_t = SandboxLimits::default().deadline_ms)]
    deadline_ms: u32,
    /// Bytes of memory per instance.
    #[arg(long, value_name = "N", default_value_t = SandboxLimits::default().memory_bytes)]
    memory_bytes: usize,
    /// Checks at one time [default: one per core].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

impl Limits {
    fn concurrency(&self) -> usize {
        self.jobs.unwrap_or(SandboxLimits::default().concurrency).clamp(1, 1_024)
    }

    fn sandbox(&self, folders: &Folders) -> Result<Arc<Sandbox>> {
        let Self { fuel, deadline_ms, memory_bytes, .. } = *self;
        let concurrency = self.concurrency();
        let limits = SandboxLimits { fuel, deadline_ms, memory_bytes, concurrency, ..SandboxLimits::default() };
        Ok(Arc::new(Sandbox::new(limits, Some(&folders.cache.join("verifiers")))?))
    }
}

pub(super) async fn run(arguments: VerifyArguments, folders: &Folders) -> Result<()> {
    let VerifyArguments { place, command } = arguments;
    let daemon = || Running::find(&place, folders);
    match command {
        VerifyCommand::New(arguments) => new::run(&arguments),
        VerifyCommand::Build(arguments) => build::run(&arguments, folders),
        VerifyCommand::Setup => setup::run(folders),
        VerifyCommand::Check(arguments) => check::run(arguments, folders).await,
        VerifyCommand::Run(arguments) => run::run(arguments, folders).await,
        VerifyCommand::List => install::list(&daemon()?, place.json).await,
        VerifyCommand::Install(arguments) => install::install(&daemon()?, place.json, arguments).await,
        VerifyCommand::Weigh(arguments) => install::weigh(&daemon()?, place.json, arguments).await,
        VerifyCommand::Rollback(arguments) => install::roll_back(&daemon()?, place.json, arguments).await,
        VerifyCommand::Remove(of) => install::remove(&daemon()?, &of).await,
    }
}

/// A verifier, compiled, and the sandbox that runs it.
fn compiled(verifier: &str, limits: &Limits, folders: &Folders) -> Result<(Arc<Sandbox>, Compiled)> {
    let bytes = component(verifier, folders)?;
    let sandbox = limits.sandbox(folders)?;
    let compiled = sandbox.compile(&bytes).map_err(|refusal| anyhow!("{verifier}: {refusal}"))?;
    Ok((sandbox, compiled))
}

/// The bytes of a component: a file's, or those of a first-party verifier.
fn component(verifier: &str, folders: &Folders) -> Result<Vec<u8>> {
    if Path::new(verifier).is_file() {
        return fs::read(verifier).with_context(|| format!("cannot read {verifier}"));
    }
    if verifier == PYTHON.name {
        let path = setup::python(folders, &|step| eprintln!("{step}"))?;
        return fs::read(&path).with_context(|| format!("cannot read {}", path.display()));
    }
    match first_party(verifier) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => bail!(
            "{verifier} is neither a file nor a first-party verifier; those are {}",
            first_party_names().collect::<Vec<_>>().join(", ")
        ),
    }
}
