//! `pointsman verify`: write and build verifiers.

mod build;
mod new;
mod project;
pub(super) mod toolchain;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::folders::Folders;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman verify new my-check --language python    a project that builds as it is
  pointsman verify build my-check                    writes my-check/my-check.wasm")]
pub(super) struct VerifyArguments {
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
}

pub(super) fn run(arguments: VerifyArguments, folders: &Folders) -> Result<()> {
    match arguments.command {
        VerifyCommand::New(arguments) => new::run(&arguments),
        VerifyCommand::Build(arguments) => build::run(&arguments, folders),
    }
}
