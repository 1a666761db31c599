//! `pointsman train`: makes of recorded outcomes the files that policies start from.

mod backbone;
mod mode_router;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::{ArmModel, TrainedKind},
    context::{chat::essence, embedding::EmbeddingSettings},
    journal::now_ms,
    replay::Dataset,
    router::learnt_rounds,
    train::{Inputs, Provenance, Trained, TrainingSet, probing_set, store, train},
};

use super::{
    daemon::embedding_settings,
    dataset::ReadArguments,
    embedded::{Embedded, embedded},
    folders::{DataFolder, Folders, Owner},
    memory::open_journal,
    models, progress, serve,
};

#[derive(Args)]
pub(super) struct TrainArguments {
    #[command(subcommand)]
    command: TrainCommand,
}

#[derive(Subcommand)]
enum TrainCommand {
    /// Train a classifier: the probability that each arm succeeds on a task.
    #[command(after_help = "Examples:
  pointsman train classifier --dataset llmrouter --split train
  pointsman train classifier --dataset llmrouter --split train --kind tfidf --out words.json
  pointsman train classifier --journal state --config pointsman.toml

Then name the file in a policy card and replay or serve with that card:
  [classifier]
  model = \"classifier.json\"")]
    Classifier(ClassifierArguments),
    /// Count what each arm scored in each domain, for domain_prior to start from.
    #[command(after_help = "Example:
  pointsman train priors --dataset llmrouter --split train --out priors.json

Then name the file in a policy card:
  [domain_prior]
  probing = \"priors.json\"")]
    Priors(PriorsArguments),
    /// Train a mode-router: how many calls, by whom and in which parts, by reinforcement learning.
    #[command(after_help = "Examples:
  pointsman train mode-router --toy
  pointsman train mode-router --dataset llmrouter coderouterbench --run run --out mode-router.safetensors
  pointsman train mode-router --dataset llmrouter coderouterbench --run run --resume
  pointsman train mode-router --dataset llmrouter --no-progressive --run without
  pointsman train mode-router --dataset llmrouter --backbone qwen2.5-7b-instruct --device cuda:0 --run adapters

It prints what the policy would do beside fixed ways of working, on tasks that it never saw. docs/mode-router.md says what is
recorded and what is simulated.")]
    ModeRouter(mode_router::ModeRouterArguments),
}

#[derive(Args)]
struct ClassifierArguments {
    /// The folder or file of recorded outcomes; docs/datasets.md names the formats.
    #[arg(long, value_name = "PATH", required_unless_present = "journal")]
    dataset: Option<PathBuf>,
    /// Only these splits of the dataset, by commas.
    #[arg(long, value_name = "S,...", requires = "dataset", value_delimiter = ',')]
    split: Vec<String>,
    #[command(flatten)]
    read: ReadArguments,
    /// The data folder of a stopped daemon: train on the rounds that it learnt.
    #[arg(long, value_name = "DATA_DIR", conflicts_with = "dataset")]
    journal: Option<PathBuf>,
    /// The daemon's configuration, where its embedding model is not the default.
    #[arg(long, value_name = "FILE", requires = "journal")]
    config: Option<PathBuf>,
    /// What the classifier looks at.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::Embedding)]
    kind: Kind,
    /// The file to write [default: classifier.json or tfidf_classifier.json].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct PriorsArguments {
    /// The folder or file of recorded outcomes; docs/datasets.md names the formats.
    #[arg(long, value_name = "PATH")]
    dataset: PathBuf,
    /// Only these splits of the dataset, by commas.
    #[arg(long, value_name = "S,...", value_delimiter = ',')]
    split: Vec<String>,
    #[command(flatten)]
    read: ReadArguments,
    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = "priors.json")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// The embedding of the text.
    Embedding,
    /// TF-IDF weights of its words and pairs of words.
    Tfidf,
}

impl Kind {
    fn trained(self) -> TrainedKind {
        match self {
            Self::Embedding => TrainedKind::Classifier,
            Self::Tfidf => TrainedKind::TfidfClassifier,
        }
    }
}

pub(super) async fn run(arguments: TrainArguments, folders: &Folders) -> Result<()> {
    match arguments.command {
        TrainCommand::Classifier(arguments) => classifier(arguments, folders).await,
        TrainCommand::Priors(arguments) => priors(&arguments),
        TrainCommand::ModeRouter(arguments) => mode_router::run(arguments, folders).await,
    }
}

async fn classifier(arguments: ClassifierArguments, folders: &Folders) -> Result<()> {
    let ClassifierArguments { dataset, split, read, journal, config, kind, out } = arguments;
    let name = kind.trained().name();
    let out = out.unwrap_or_else(|| format!("{name}.json").into());
    writable(&out)?;
    let (set, trained_on) = match (dataset, journal) {
        (Some(dataset), _) => of_dataset(&read.dataset(&dataset, &split)?, kind, folders).await?,
        (None, Some(journal)) => of_journal(&journal, config.as_deref(), kind, folders).await?,
        (None, None) => {
            bail!("give a dataset with --dataset DIR, or a stopped daemon's folder with --journal DATA_DIR")
        }
    };
    let provenance = Provenance { trained_on, trained_at_ms: now_ms() };
    let bar = progress::bar(0, "training");
    let trained = tokio::task::block_in_place(|| {
        train(&set, &provenance, &|done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })
    });
    bar.finish_and_clear();
    let trained = trained?;
    write(&out, &trained.model.to_json())?;
    println!("{}", table(&trained));
    println!(
        "Trained on {}; figures are of one task in five, held out to choose the regularisation.",
        provenance.trained_on
    );
    println!("Written to {0}. In a policy card:\n\n  [{name}]\n  model = {0:?}", out.display().to_string());
    Ok(())
}

fn priors(arguments: &PriorsArguments) -> Result<()> {
    let PriorsArguments { dataset, split, read, out } = arguments;
    writable(out)?;
    let dataset = read.dataset(dataset, split)?;
    let trained_on = describe(&dataset);
    // Priors look at no text.
    let inputs = Inputs::Texts(dataset.tasks.iter().map(|_| "".into()).collect());
    let set = TrainingSet::of_dataset(&dataset, inputs)?;
    let probed = probing_set(&set, &Provenance { trained_on, trained_at_ms: now_ms() });
    write(out, &probed.to_json())?;
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(["domain", "arm", "rounds", "mean score"]);
    for cell in &probed.cells {
        let (domain, arm) = (cell.domain.to_string(), cell.action.1.to_string());
        table.add_row([domain, arm, cell.rounds.to_string(), format!("{:.3}", cell.mean_score)]);
    }
    right(&mut table, 2..4);
    println!("{table}");
    println!("Counted over {}.", probed.trained_on);
    println!("Written to {0}. In a policy card:\n\n  [domain_prior]\n  probing = {0:?}", out.display().to_string());
    Ok(())
}

fn describe(dataset: &Dataset) -> String {
    let split = dataset.split.as_ref().map(|split| format!(", split {split}")).unwrap_or_default();
    format!("{}{split}: {} tasks x {} models", dataset.name, dataset.tasks.len(), dataset.models.len())
}

async fn of_dataset(dataset: &Dataset, kind: Kind, folders: &Folders) -> Result<(TrainingSet, String)> {
    let inputs = match kind {
        Kind::Embedding => {
            let Embedded { model, vectors, .. } = embedded(dataset, folders).await?;
            Inputs::Embeddings { model, vectors }
        }
        // As a replay shows them: of a task without a prompt its domain's name.
        Kind::Tfidf => Inputs::Texts(dataset.tasks.iter().map(|task| task.text().into()).collect()),
    };
    Ok((TrainingSet::of_dataset(dataset, inputs)?, describe(dataset)))
}

async fn of_journal(
    folder: &Path,
    config: Option<&Path>,
    kind: Kind,
    folders: &Folders,
) -> Result<(TrainingSet, String)> {
    if !folder.join("journal.sqlite").exists() {
        bail!("there is no journal in {}: give the daemon's data folder with --journal DATA_DIR", folder.display());
    }
    let settings = match config {
        Some(config) => embedding_settings(&serve::read(config, None)?, folders),
        None => EmbeddingSettings::new(&folders.cache),
    };
    let Owner::Us(data) = DataFolder::owner(folder)? else {
        bail!("the data folder {} is used by a daemon: stop it first", folder.display());
    };
    let model = models::find_or_fetch(folders, &settings)?.model_id().to_owned();
    let journal = open_journal(&data, &model).await?;
    let bar = progress::bar(0, "reading the journal");
    let (mut vectors, mut texts, mut rounds) = (Vec::new(), Vec::new(), Vec::new());
    let told = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let read = learnt_rounds(&journal, told, |decided, score| {
        match kind {
            Kind::Embedding => vectors.push(decided.context.embedding.clone()),
            Kind::Tfidf => texts.push(essence(&decided.task.messages).as_ref().into()),
        }
        let action = (decided.decision.mode, decided.decision.arm.clone());
        rounds.push((decided.context.domain.clone(), action, score));
    });
    read.await?;
    bar.finish_and_clear();
    journal.close().await;
    let trained_on = format!("a journal: {} rounds", rounds.len());
    let inputs = match kind {
        Kind::Embedding => Inputs::Embeddings { model, vectors },
        Kind::Tfidf => Inputs::Texts(texts),
    };
    Ok((TrainingSet::of_rounds(inputs, rounds)?, trained_on))
}

/// Asked before minutes of work, not after.
fn writable(out: &Path) -> Result<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() || out.is_dir() {
        bail!("cannot write {}: give a file in a folder that exists with --out FILE", out.display());
    }
    Ok(())
}

fn write(out: &Path, text: &str) -> Result<()> {
    store(out, text).with_context(|| format!("cannot write {}: give another file with --out FILE", out.display()))
}

fn right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn table(trained: &Trained) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["arm", "rounds", "solved", "accuracy", "(base)", "log loss", "(base)", "regularisation"]);
    for (action, arm) in &trained.model.arms {
        let ArmModel { rounds, successes, alpha, held_out, .. } = arm;
        let constant = trained.constants.iter().find(|(other, _)| other == action);
        let figures = held_out.map(|held| [held.accuracy, held.base_accuracy, held.log_loss, held.base_log_loss]);
        let mut row = vec![
            action.1.to_string(),
            rounds.to_string(),
            format!("{:.1} %", 100.0 * *successes as f64 / (*rounds).max(1) as f64),
        ];
        row.extend(
            figures.map_or_else(|| vec![String::new(); 4], |all| all.map(|figure| format!("{figure:.3}")).into()),
        );
        row.push(match (constant, alpha) {
            (Some((_, why)), _) => format!("constant: {why}"),
            (None, Some(alpha)) => alpha.to_string(),
            (None, None) => String::new(),
        });
        table.add_row(row);
    }
    right(&mut table, 1..7);
    table
}
