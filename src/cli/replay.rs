//! `pointsman replay`: measures policies on a dataset of recorded outcomes, or on one's own journal.

pub(super) mod estimates;
mod journal;
pub(super) mod log;
pub(super) mod matrix;
pub(super) mod output;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use pointsman::{
    replay::{Order, Protocol, Rule},
    round::RewardWeights,
};

use super::{
    dataset::ReadArguments,
    folders::{Folders, report_name},
    progress,
};
use log::{Log, LogArguments};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman replay --dataset llmrouter                           the ensemble, five shuffled cold starts
  pointsman replay --dataset llmrouter --policy lin_ucb --policy memory_knn --reward 1,0
  pointsman replay --dataset llmrouter --split test --policy fixed:gemma-2-9b-it --seeds 1 --json out.json
  pointsman replay --dataset llmrouter --split test --card card.toml --policy classifier
  pointsman replay --dataset coderouterbench --warm train,val --split test --rule measured --order released --seeds 1 \\
    --policy ensemble --policy dimension_best --policy logreg --html report.html
  pointsman replay --dataset coderouterbench --split ood176 --protocol cascade --policy cascade --seeds 30
  pointsman replay --dataset coderouterbench --split test --rule measured --decisions theirs.csv
  pointsman replay --journal data                                make every decision of a daemon again, bit for bit
  pointsman replay --journal data --policy lin_ucb --policy uniform
                                                                 what others would have brought, estimated
  pointsman replay --log vw.dsjson.gz --policy lin_ucb           the same from a log of Vowpal Wabbit's

Policies: uniform, fixed:MODEL, epsilon_greedy, ucb1, beta_thompson, domain_prior, memory_knn, knn_ucb, lin_ucb,
lin_thompson, square_cb, bag, hybrid_linear, hybrid_text, hybrid_ucb, ensemble, and with a card that names their models
classifier and tfidf_classifier. Before any of them: affinity: budget: discount: new_arm:
Fitted on the splits of --warm, then frozen: dimension_best, knn_retrieval, logreg, tfidf_mlp, routellm_mf,
acrouter_ensemble. For --protocol cascade alone: cascade; any other policy is asked again until an answer is right.")]
pub(super) struct ReplayArguments {
    /// The dataset's folder or file; docs/datasets.md names the formats.
    #[arg(long, value_name = "PATH", required_unless_present_any = ["journal", "log"],
        conflicts_with_all = ["journal", "log"])]
    dataset: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArguments,
    /// A daemon's data folder, instead of a dataset. Without --policy and --card every decision is made again from what was
    /// recorded and compared, and the exit code is 0 only if all are equal. With them, what those policies would have brought
    /// is estimated from the verified rounds.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "models", "allow_mixed_prices"])]
    journal: Option<PathBuf>,
    /// Where the journal's policy cards take the files that they name [default: `policies` in the data folder, beside it, or
    /// here].
    #[arg(long, value_name = "DIR", requires = "journal")]
    cards: Option<PathBuf>,
    #[command(flatten)]
    log: LogArguments,
    /// Only these splits of the dataset.
    #[arg(long, value_name = "S,…", conflicts_with_all = ["journal", "log"], value_delimiter = ',')]
    split: Vec<String>,
    /// Splits whose outcomes are all known before the first task comes.
    #[arg(long, value_name = "S,…", conflicts_with_all = ["journal", "log"], value_delimiter = ',')]
    warm: Vec<String>,
    /// Tasks come as in the file, or shuffled by the seed.
    #[arg(long, value_name = "released|shuffled", conflicts_with_all = ["journal", "log"], default_value_t)]
    order: Order,
    /// One model a task, or one after another, each one's verdict known before the next.
    #[arg(long, value_name = "single|cascade", conflicts_with_all = ["journal", "log"], default_value_t)]
    protocol: Protocol,
    /// With `measured`, rows that the source did not measure score 0 and the oracle does not see them.
    #[arg(long, value_name = "measured|full", conflicts_with_all = ["journal", "log"], default_value_t)]
    rule: Rule,
    /// A policy card, for other settings than the compiled-in ones.
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// A policy to replay; can be repeated [default: the card's, or ensemble].
    #[arg(long, value_name = "P")]
    policy: Vec<String>,
    /// Decisions to score as given: CSV of task_id, model and, for a cascade, attempts joined by |; can be repeated.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["journal", "log"])]
    decisions: Vec<PathBuf>,
    /// Orders, seeds 0 to N - 1; means are over them.
    #[arg(long, value_name = "N", conflicts_with_all = ["journal", "log"], default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Weights of the reward, e1 * score + e2 * dollars; a journal's rounds have their own.
    #[arg(long, value_name = "e1,e2", conflicts_with_all = ["journal", "log"], default_value = "1,-0.1", value_parser = weights,
        allow_hyphen_values = true)]
    reward: RewardWeights,
    /// Similar past tasks that each task recalls; a daemon recalls 10.
    #[arg(long, value_name = "K", conflicts_with_all = ["journal", "log"], default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    recall: u16,
    /// Prove before that no policy sees more than the outcomes of what it took; takes two more passes each.
    #[arg(long, conflicts_with_all = ["journal", "log"])]
    check_leaks: bool,
    /// Write what was found: one JSON object a policy, as an array, or that of an exact replay.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table as CSV.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["journal", "log"])]
    csv: Option<PathBuf>,
    /// Write a page with curves and plots; it opens offline.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["journal", "log"])]
    html: Option<PathBuf>,
    /// Keep what was found under this name, where a daemon's page shows it.
    #[arg(long, value_name = "NAME", value_parser = report_name, conflicts_with_all = ["journal", "log"])]
    save: Option<String>,
    /// The daemon's data folder, for --save [default: the user's].
    #[arg(long, value_name = "DIR", requires = "save")]
    data_dir: Option<PathBuf>,
}

fn weights(text: &str) -> Result<RewardWeights, String> {
    let (e1, e2) = text.split_once(',').ok_or("must be two numbers, such as 1,-0.1")?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|error| format!("{text:?}: {error}"));
    let weights = RewardWeights { e1: number(e1)?, e2: number(e2)? };
    weights.validate().map_err(|error| error.to_string())?;
    Ok(weights)
}

pub(super) async fn run(mut arguments: ReplayArguments, folders: &Folders) -> Result<()> {
    if let Some(folder) = arguments.journal.take() {
        return journal::run(arguments, &folder).await;
    }
    if arguments.log.log.is_some() {
        let log = Log::open(None, &arguments.log).await?;
        return estimates::run(&arguments, log).await;
    }
    let folder = arguments.dataset.take().context("give --dataset PATH, --journal DIR or --log FILE")?;
    matrix::run(arguments, &folder, folders).await
}

/// Writes what was found as JSON, where it was asked for.
pub(super) fn write(path: Option<&Path>, found: &impl serde::Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, serde_json::to_vec_pretty(found)?).with_context(|| format!("cannot write {}", path.display()))
}
