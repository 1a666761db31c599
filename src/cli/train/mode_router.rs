//! `pointsman train mode-router`: reinforcement learning over recorded outcomes, and the report that comes before deployment.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use candle_core::Device;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::mode_router::{Card, Checkpoint, Frozen, Shape},
    replay::Dataset,
    round::Embedding,
    train::mode_router::{
        StepReport, TrainSettings, Trainer,
        environment::{Environment, Matrix, Pool, VerifierSettings},
        evaluate::{Evaluation, Figures, Report},
        plots, toy,
    },
};
use serde::Serialize;

use super::backbone::{self, BackboneArguments};
use crate::cli::{
    dataset::ReadArguments,
    embedded::{Embedded, embedded},
    folders::Folders,
    progress,
};

/// Steps between two checkpoints.
const KEEP_EVERY: u64 = 20;
/// The alphas that are reported.
const ALPHAS: [f64; 4] = [0.0, 0.1, 0.3, 0.5];
/// One training task in so many is held out where a dataset has no validation split.
const VALIDATION: u8 = 38;

#[derive(Args)]
pub(super) struct ModeRouterArguments {
    /// Folders or files of recorded outcomes, each with a split `train`; docs/datasets.md names the formats.
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "toy")]
    dataset: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArguments,
    /// Where the network is computed: cpu, or cuda:N in a program that was built with the feature `cuda`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// The alphas that are trained on: what cost weighs against the score.
    #[arg(long, value_name = "LOW,HIGH", default_value = "0,0.5", value_parser = alphas)]
    alpha_range: [f64; 2],
    /// Seeds everything.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Steps after the rules are learnt [default: 1400, with --backbone 90].
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The network's size: WIDTHxLAYERSxHEADS.
    #[arg(long, value_name = "SHAPE", default_value = "64x2x4")]
    shape: Shape,
    /// The optimiser's rate [default: 1e-3, with --backbone 1e-6].
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// Where the policy is written.
    #[arg(long, value_name = "FILE", default_value = "mode-router.safetensors")]
    out: PathBuf,
    /// The folder of the run: checkpoints, steps.jsonl, plots.html, report.json.
    #[arg(long, value_name = "DIR", default_value = "mode-router-run")]
    run: PathBuf,
    /// Go on where the run in the folder was left.
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Begin anew in a folder that holds a run.
    #[arg(long)]
    force: bool,
    /// Do not tell modes and what is done within them apart: plain GRPO.
    #[arg(long)]
    no_comet: bool,
    /// Force no mode at the beginning.
    #[arg(long)]
    no_progressive: bool,
    /// Do without the term that keeps every mode alive.
    #[arg(long)]
    no_support: bool,
    /// Train in the toy instead, with and without progressive exploration: ten seconds each.
    #[arg(long, conflicts_with = "dataset")]
    toy: bool,
    #[command(flatten)]
    language_model: BackboneArguments,
}

fn alphas(text: &str) -> Result<[f64; 2], String> {
    let numbers: Vec<f64> = text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    match numbers[..] {
        [low, high] if (0.0..=1.0).contains(&low) && low <= high && high <= 1.0 => Ok([low, high]),
        _ => Err(format!("{text:?} must be two numbers from 0 to 1, the lower one first, such as 0,0.5")),
    }
}

/// One dataset's tasks by what they are for.
struct Parts {
    name: String,
    train: Matrix,
    validation: Matrix,
    test: Option<Matrix>,
}

pub(super) async fn run(arguments: ModeRouterArguments, folders: &Folders) -> Result<()> {
    if arguments.toy {
        return tokio::task::block_in_place(|| in_toy(&arguments));
    }
    let device = device(&arguments.device)?;
    begin(&arguments)?;
    let with_cost = arguments.alpha_range[1] > 0.0;
    let mut parts = Vec::new();
    let mut model = String::new();
    for path in &arguments.dataset {
        let dataset = arguments.read.dataset(path, &[])?;
        let vectors = match arguments.language_model.backbone {
            Some(_) => unread(&dataset)?,
            None => embedded(&dataset, folders).await?,
        };
        model.clone_from(&vectors.model);
        parts.push(split(&dataset, &vectors, with_cost)?);
    }
    tokio::task::block_in_place(|| match &arguments.language_model.backbone {
        Some(backbone) => adapted(&arguments, backbone, &parts, &device),
        None => trained(&arguments, parts, &model, device),
    })
}

/// Embeddings for whom reads the texts themselves.
fn unread(dataset: &Dataset) -> Result<Embedded> {
    let vector = Embedding::new(vec![1.0])?;
    Ok(Embedded { model: String::new(), dimension: 1, vectors: vec![vector; dataset.tasks.len()] })
}

fn adapted(arguments: &ModeRouterArguments, model: &Path, parts: &[Parts], device: &Device) -> Result<()> {
    let mut settings = arguments.language_model.settings();
    settings.seed = arguments.seed;
    settings.steps = arguments.steps.unwrap_or(settings.steps);
    settings.rate = arguments.rate.unwrap_or(settings.rate);
    settings.alpha = arguments.alpha_range;
    settings.comet = !arguments.no_comet;
    settings.schedule.progressive = !arguments.no_progressive;
    if arguments.no_support {
        settings.schedule.support = 0.0;
    }
    let pool = Pool::new(parts.iter().map(|part| &part.train as &dyn Environment).collect());
    backbone::run(&pool, model, settings, device, (&arguments.run, arguments.resume))
}

fn device(name: &str) -> Result<Device> {
    match name.split_once(':') {
        None if name == "cpu" => Ok(Device::Cpu),
        Some(("cuda", number)) => {
            let number =
                number.parse().with_context(|| format!("{name:?} must be cuda:N, N the number of the device"))?;
            Device::new_cuda(number)
                .with_context(|| format!("{name} cannot be used: build with `--features cuda` where CUDA is installed"))
        }
        None | Some(_) => bail!("{name:?} is no device: give cpu or cuda:N"),
    }
}

/// A folder holds one run.
fn begin(arguments: &ModeRouterArguments) -> Result<()> {
    let ModeRouterArguments { run, out, resume, force, .. } = arguments;
    super::writable(out)?;
    fs::create_dir_all(run)
        .with_context(|| format!("cannot make {}: give another folder with --run DIR", run.display()))?;
    let there = run.join("training.safetensors").exists();
    if *resume && !there {
        bail!("{} holds no run to go on with: leave --resume out to begin one", run.display());
    }
    if there && !resume && !force {
        bail!(
            "{} holds a run: go on with --resume, begin anew with --force, or give another folder with --run DIR",
            run.display()
        );
    }
    if !resume {
        fs::write(run.join("steps.jsonl"), "").with_context(|| format!("cannot write in {}", run.display()))?;
    }
    Ok(())
}

fn split(dataset: &Dataset, vectors: &Embedded, with_cost: bool) -> Result<Parts> {
    let has = |split: &str| dataset.tasks.iter().any(|task| task.split == split);
    if !has("train") {
        bail!("{} has no split `train`: training and testing on the same tasks would tell nothing", dataset.name);
    }
    let (own, tested) = (has("val"), has("test"));
    if !own {
        eprintln!(
            "{}: no split `val`; a seventh of `train`, by the hash of the task's id, is held out instead",
            dataset.name
        );
    }
    let held_out = |id: &str| blake3::hash(id.as_bytes()).as_bytes()[0] < VALIDATION;
    let of = |wanted: &str| -> Vec<usize> {
        let part = |place: &usize| {
            let task = &dataset.tasks[*place];
            match (task.split.as_str(), own) {
                ("train", false) if held_out(task.id.as_str()) => wanted == "val",
                (split, _) => wanted == split,
            }
        };
        (0..dataset.tasks.len()).filter(part).collect()
    };
    let known = of("train");
    let matrix =
        |of: &[usize]| Matrix::new(dataset, &vectors.vectors, &known, of, VerifierSettings::default(), with_cost);
    Ok(Parts {
        name: dataset.name.clone(),
        train: matrix(&known)?,
        validation: matrix(&of("val"))?,
        test: tested.then(|| matrix(&of("test"))).transpose()?,
    })
}

fn settings(arguments: &ModeRouterArguments) -> TrainSettings {
    let mut settings = TrainSettings {
        shape: arguments.shape,
        seed: arguments.seed,
        alpha: arguments.alpha_range,
        comet: !arguments.no_comet,
        ..TrainSettings::default()
    };
    settings.steps = arguments.steps.unwrap_or(settings.steps);
    settings.rate = arguments.rate.unwrap_or(settings.rate);
    settings.schedule.progressive = !arguments.no_progressive;
    if arguments.no_support {
        settings.schedule.support = 0.0;
    }
    settings
}

fn trained(arguments: &ModeRouterArguments, parts: Vec<Parts>, model: &str, device: Device) -> Result<()> {
    let ModeRouterArguments { run, out, .. } = arguments;
    let settings = settings(arguments);
    let pool = Pool::new(parts.iter().map(|part| &part.train as &dyn Environment).collect());
    let file = run.join("training.safetensors");
    let mut trainer = match arguments.resume {
        true => Trainer::resume(&pool, settings.clone(), device, &file)?,
        false => Trainer::new(&pool, settings.clone(), device)?,
    };
    let bar = progress::bar(trainer.steps(), "training the mode-router");
    bar.set_position(trainer.done());
    let mut lines = fs::OpenOptions::new().append(true).create(true).open(run.join("steps.jsonl"))?;
    let mut waiting = String::new();
    while trainer.done() < trainer.steps() {
        let report = trainer.step()?;
        bar.set_message(if report.warm_up {
            "learning the rules".to_owned()
        } else {
            format!("reward {:.3}, calls {:.2}", report.reward, report.calls)
        });
        bar.set_position(trainer.done());
        waiting.push_str(&format!("{}\n", serde_json::to_string(&report)?));
        // Steps are told once they are kept, so that a run that was broken off tells none twice.
        if trainer.done().is_multiple_of(KEEP_EVERY) || trainer.done() == trainer.steps() {
            trainer.save(&file)?;
            lines.write_all(waiting.as_bytes())?;
            waiting.clear();
        }
    }
    bar.finish_and_clear();
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    let weights = trainer.weights()?;
    let command = format!(
        "pointsman train mode-router --dataset {} --seed {} --steps {} --shape {} --alpha-range {},{}",
        names.join(" "),
        settings.seed,
        settings.steps,
        settings.shape,
        settings.alpha[0],
        settings.alpha[1]
    );
    let card = Card {
        cost_reference_usd: parts
            .iter()
            .zip(0..)
            .map(|(part, pool)| (part.name.clone(), trainer.cost_reference_usd(pool)))
            .collect(),
        trained_on: names.join(", "),
        command,
        seed: settings.seed,
        steps: trainer.done(),
        ..Card::new(settings.shape, model.into(), settings.alpha)
    };
    fs::write(out, Checkpoint::to_bytes(&card, &weights)?)
        .with_context(|| format!("cannot write {}", out.display()))?;
    let steps = read_steps(&run.join("steps.jsonl"))?;
    fs::write(run.join("plots.html"), plots::render("Training of a mode-router", &[("this run".into(), steps)]))?;
    let network = Frozen::new(weights);
    let mut reports = Vec::new();
    for (pool, part) in parts.iter().enumerate() {
        reports.push(reported(part, &network, trainer.cost_reference_usd(pool), settings.alpha));
    }
    fs::write(run.join("report.json"), serde_json::to_vec_pretty(&reports)?)?;
    reports.iter().for_each(show);
    println!("What is simulated: {}", serde_json::to_string(&VerifierSettings::default())?);
    println!(
        "Written to {}; plots and the whole report in {}. In a configuration:\n\n  [modes]\n  driver = \"mode_router\"\n  model = {:?}",
        out.display(),
        run.display(),
        out.display().to_string()
    );
    Ok(())
}

pub(super) fn read_steps(path: &Path) -> Result<Vec<StepReport>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display()))).collect()
}

/// One dataset's reports, by alpha.
#[derive(Serialize)]
struct Reported {
    dataset: String,
    tasks: &'static str,
    reports: Vec<Report>,
}

fn reported(part: &Parts, network: &Frozen, cost_reference_usd: f64, [low, high]: [f64; 2]) -> Reported {
    let (held_out, tasks) = part.test.as_ref().map_or((&part.validation, "val"), |test| (test, "test"));
    let evaluation = Evaluation { known: &part.train, held_out, worlds: 4, cost_reference_usd };
    let alphas: Vec<f64> = ALPHAS.into_iter().filter(|alpha| (low..=high).contains(alpha)).collect();
    let bar = progress::bar(alphas.len() as u64, "comparing with fixed ways");
    let report = |alpha: f64| {
        let report = evaluation.report(&evaluation.served(network, alpha, true), alpha);
        bar.inc(1);
        report
    };
    let reports = alphas.into_iter().map(report).collect();
    bar.finish_and_clear();
    Reported { dataset: part.name.clone(), tasks, reports }
}

fn show(of: &Reported) {
    for report in &of.reports {
        println!("{} ({}), alpha {}:", of.dataset, of.tasks, report.alpha);
        let mut table = Table::new();
        table.load_preset(UTF8_HORIZONTAL_ONLY);
        table.set_header([
            "way",
            "reward",
            "95 %",
            "score",
            "dollars a task",
            "p50 / p95 s",
            "calls",
            "single / multi / agentic",
        ]);
        for way in ["policy", "single", "multi", "agentic", "dimension_best", "oracle"] {
            if let Some(figures) = report.ways.get(way) {
                table.add_row(row(way, figures));
            }
        }
        for column in 1..7 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        println!("{table}");
        let [low, mean, high] = report.over_best_fixed;
        println!("Over the best fixed mode ({}): {mean:+.4} ({low:+.4} to {high:+.4}).", report.best_fixed_mode);
        let [low, mean, high] = report.over_dimension_best;
        println!("Over the best mode of each domain: {mean:+.4} ({low:+.4} to {high:+.4}).");
        report.warnings.iter().for_each(|warning| println!("Look at this: {warning}."));
        println!();
    }
}

fn row(way: &str, figures: &Figures) -> Vec<String> {
    let Figures { score, cost_usd, reward, latency_ms, modes, calls, .. } = figures;
    vec![
        way.into(),
        format!("{:.4}", reward[1]),
        format!("{:.4} to {:.4}", reward[0], reward[2]),
        format!("{:.4}", score[1]),
        format!("{:.6}", cost_usd[1]),
        match latency_ms {
            [_, 0.0] => "not measured".into(),
            [middle, most] => format!("{:.1} / {:.1}", middle / 1e3, most / 1e3),
        },
        format!("{calls:.2}"),
        modes.map(|share| format!("{share:.2}")).join(" / "),
    ]
}

fn in_toy(arguments: &ModeRouterArguments) -> Result<()> {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["progressive exploration", "seed", "score", "single / multi / agentic"]);
    let mut runs = Vec::new();
    for progressive in [true, false] {
        let settings = toy::settings(arguments.seed, progressive);
        let bar = progress::bar(settings.warm_up + settings.steps, "training in the toy");
        let report = toy::run(settings, &|_| bar.inc(1))?;
        bar.finish_and_clear();
        let modes = report.modes.map(|share| format!("{share:.3}")).join(" / ");
        let with = if progressive { "with" } else { "without" };
        table.add_row([with.to_owned(), arguments.seed.to_string(), format!("{:.3}", report.score), modes]);
        runs.push((with.to_owned(), report.steps));
    }
    fs::create_dir_all(&arguments.run)?;
    let plots = arguments.run.join("toy.html");
    fs::write(&plots, plots::render("The toy, with and without progressive exploration", &runs))?;
    println!("{table}");
    println!(
        "A policy that knows all of the toy scores {:.3}, one that only makes single calls at most 0.533. Plots: {}",
        pointsman::train::mode_router::environment::Toy::OPTIMUM,
        plots.display()
    );
    Ok(())
}
