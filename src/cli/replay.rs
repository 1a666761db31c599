//! `pointsman replay`: measures policies on a dataset of recorded outcomes, or on one's own journal.

pub(super) mod estimates;
mod journal;
pub(super) mod log;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::{PolicySettings, build},
    replay::{Dataset, PolicyReport, Progress, ReplayOptions, baselines, run as replay},
    round::{Embedding, RewardWeights},
};

use super::{
    embedded::{Embedded, embedded},
    folders::Folders,
    progress,
};
use log::{Log, LogArguments};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman replay --dataset llmrouter                           the ensemble, five shuffled cold starts
  pointsman replay --dataset llmrouter --policy lin_ucb --policy memory_knn --reward 1,0
  pointsman replay --dataset llmrouter --split test --policy fixed:gemma-2-9b-it --seeds 1 --json out.json
  pointsman replay --dataset llmrouter --split test --card card.toml --policy classifier
  pointsman replay --journal data                                make every decision of a daemon again, bit for bit
  pointsman replay --journal data --policy lin_ucb --policy uniform
                                                                 what others would have brought, estimated
  pointsman replay --log vw.dsjson.gz --policy lin_ucb           the same from a log of Vowpal Wabbit's

Policies: uniform, fixed:MODEL, epsilon_greedy, ucb1, beta_thompson, domain_prior, memory_knn, knn_ucb, lin_ucb,
lin_thompson, square_cb, bag, hybrid_linear, hybrid_ucb, ensemble, and with a card that names their models classifier and
tfidf_classifier. Before any of them: affinity: budget: discount: new_arm:")]
pub(super) struct ReplayArguments {
    /// The dataset's folder: tasks.jsonl[.gz], results.csv[.gz], models.json.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["journal", "log"],
        conflicts_with_all = ["journal", "log"])]
    dataset: Option<PathBuf>,
    /// A daemon's data folder, instead of a dataset. Without --policy and --card every decision is made again from what was
    /// recorded and compared, and the exit code is 0 only if all are equal. With them, what those policies would have brought
    /// is estimated from the verified rounds.
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Where the journal's policy cards take the files that they name [default: `policies` in the data folder, beside it, or
    /// here].
    #[arg(long, value_name = "DIR", requires = "journal")]
    cards: Option<PathBuf>,
    #[command(flatten)]
    log: LogArguments,
    /// Only this split of the dataset.
    #[arg(long, value_name = "S", conflicts_with_all = ["journal", "log"])]
    split: Option<String>,
    /// A policy card, for other settings than the compiled-in ones.
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// A policy to replay; can be repeated [default: the card's, or ensemble].
    #[arg(long, value_name = "P")]
    policy: Vec<String>,
    /// Shuffled orders, seeds 0 to N - 1; means are over them.
    #[arg(long, value_name = "N", conflicts_with_all = ["journal", "log"], default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Weights of the reward, e1 * score + e2 * dollars; a journal's rounds have their own.
    #[arg(long, value_name = "e1,e2", conflicts_with_all = ["journal", "log"], default_value = "1,-0.1", value_parser = weights,
        allow_hyphen_values = true)]
    reward: RewardWeights,
    /// Write what was found: one JSON object a policy, as an array, or that of an exact replay.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
    let folder = arguments.dataset.take().context("give --dataset DIR, --journal DIR or --log FILE")?;
    let settings = PolicySettings::load(arguments.card.as_deref())?;
    settings.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    if arguments.policy.is_empty() {
        arguments.policy.push(settings.policy.clone());
    }
    for policy in &arguments.policy {
        build(policy, &settings)?;
    }
    let dataset = Dataset::read(&folder, arguments.split.as_deref())?;
    for policy in &arguments.policy {
        let arm = policy.strip_prefix("fixed:");
        if let Some(arm) = arm.filter(|arm| !dataset.models.iter().any(|model| model.arm.as_str() == *arm)) {
            let known: Vec<_> = dataset.models.iter().map(|model| model.arm.as_str()).collect();
            bail!("{} has no model {arm:?}; it has: {}", dataset.name, known.join(", "));
        }
    }
    let left_out = match dataset.skipped_without_prompt {
        0 => String::new(),
        skipped => format!(" ({skipped} tasks without a prompt are left out)"),
    };
    eprintln!("{}: {} tasks x {} models{left_out}", dataset.name, dataset.tasks.len(), dataset.models.len());
    let Embedded { model, dimension, vectors } = embedded(&dataset, folders).await?;
    settings.check_embedding(&model, dimension)?;
    let mut reports = Vec::with_capacity(arguments.policy.len());
    for policy in &arguments.policy {
        reports.push(one(&dataset, &vectors, policy, &settings, &arguments)?);
    }
    print(&dataset, &reports, arguments.reward);
    write(arguments.json.as_deref(), &reports)
}

pub(super) fn write(path: Option<&Path>, found: &impl serde::Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, serde_json::to_vec_pretty(found)?).with_context(|| format!("cannot write {}", path.display()))
}

fn one(
    dataset: &Dataset,
    embeddings: &[Embedding],
    policy: &str,
    settings: &PolicySettings,
    arguments: &ReplayArguments,
) -> Result<PolicyReport> {
    // A failure to build was ruled out before; uniform never stands in for another policy.
    let factory = || build(policy, settings).expect("built once already");
    let mut options = ReplayOptions::new(policy, arguments.seeds);
    options.weights = arguments.reward;
    let bar = progress::bar(arguments.seeds * dataset.tasks.len() as u64, policy);
    // Guards each seed's rounds so far.
    let done = Mutex::new(BTreeMap::new());
    let report = replay(dataset, embeddings, &factory, &options, &|Progress { seed, round, .. }| {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.insert(seed, round as u64);
        bar.set_position(done.values().sum());
    })?;
    bar.finish_and_clear();
    Ok(report)
}

fn print(dataset: &Dataset, reports: &[PolicyReport], reward: RewardWeights) {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["policy", "mean score", "cum. regret", "sd", "cost (usd)", "most used", "seconds"]);
    let references = [
        baselines::oracle(dataset, reward),
        baselines::best_fixed(dataset, reward),
        baselines::domain_best(dataset, reward),
        baselines::random(dataset, reward),
    ];
    for report in reports.iter().chain(&references) {
        let most = report.share_by_arm.iter().max_by(|a, b| a.1.total_cmp(b.1));
        table.add_row([
            report.policy.clone(),
            format!("{:.4}", report.mean_score),
            format!("{:.1}", report.cum_regret),
            format!("{:.1}", report.cum_regret_sd),
            format!("{:.4}", report.total_cost_usd),
            most.map(|(arm, share)| format!("{arm} {:.0} %", 100.0 * share)).unwrap_or_default(),
            format!("{:.1}", report.seconds),
        ]);
    }
    for column in [1, 2, 3, 4, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    println!(
        "{} tasks, reward {} * score {:+} * usd, mean over the seeds; the last four rows know the outcomes.",
        dataset.tasks.len(),
        reward.e1,
        reward.e2
    );
}
