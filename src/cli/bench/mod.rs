//! `pointsman bench`: whole comparisons on released data.

mod anchors;
mod paper;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::folders::Folders;

#[derive(Args)]
pub(super) struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Run every router of the Agent-as-a-Router paper, and ours, on CodeRouterBench.
    Paper(paper::PaperArguments),
    /// Check that the metrics published with CodeRouterBench come out to the printed digit.
    Anchors(anchors::AnchorArguments),
}

pub(super) async fn run(arguments: BenchArguments, folders: &Folders) -> Result<()> {
    match arguments.command {
        BenchCommand::Paper(arguments) => paper::run(&arguments, folders).await,
        BenchCommand::Anchors(arguments) => anchors::run(&arguments),
    }
}
