//! `pointsman train mode-router`: reinforcement learning over recorded outcomes, and the report that comes before deployment.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use candle_core::Device;
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::{
        lay_over,
        mode_router::{Card, Checkpoint, Frozen, Shape},
    },
    replay::Dataset,
    round::Embedding,
    train::mode_router::{
        StepReport, TrainSettings, Trainer,
        environment::{Environment, Matrix, Pool, VerifierSettings},
        plots, toy,
    },
};

mod report;

use super::backbone::{self, BackboneArguments};
use crate::cli::{
    dataset::ReadArguments,
    embedded::{Embedded, embedded},
    folders::Folders,
    progress,
};

/// Steps between two checkpoints.
const KEEP_EVERY: u64 = 20;
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
    /// The alphas that are trained on: what cost weighs against the score [default: 0,0.5].
    #[arg(long, value_name = "LOW,HIGH", value_parser = alphas)]
    alpha_range: Option<[f64; 2]>,
    /// Seeds everything [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Steps after practice [default: 1600, with --backbone 90].
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The network's size: WIDTHxLAYERSxHEADS [default: 64x2x4].
    #[arg(long, value_name = "SHAPE")]
    shape: Option<Shape>,
    /// The optimiser's rate [default: 3e-4, with --backbone 1e-6].
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
    /// A TOML file of settings in place of the built-in ones: [schedule] cold = 300, and whatever `settings` of a run's report names.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backbone", "toy"])]
    settings: Option<PathBuf>,
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
    verifier: VerifierArguments,
    /// Also report what the policy and the fixed ways would do under other verifiers.
    #[arg(long)]
    sweep: bool,
    /// Report on the tasks held out for validation, to choose settings by, and leave the test split alone.
    #[arg(long)]
    validation: bool,
    #[command(flatten)]
    language_model: BackboneArguments,
}

/// The simulated verifier: how good yours is, as far as you know.
#[derive(Args)]
struct VerifierArguments {
    /// The score from which an output is right, to the simulated verifier.
    #[arg(long, value_name = "SCORE", default_value_t = VerifierSettings::default().tau, value_parser = part)]
    tau: f64,
    /// The part of right outputs that it fails.
    #[arg(long, value_name = "PART", default_value_t = VerifierSettings::default().false_negative, value_parser = part)]
    false_negative: f64,
    /// The part of wrong outputs that it passes.
    #[arg(long, value_name = "PART", default_value_t = VerifierSettings::default().false_positive, value_parser = part)]
    false_positive: f64,
    /// Standard deviation of what a team's verifiers and summarizers see of a score.
    #[arg(long, value_name = "SCORE", default_value_t = VerifierSettings::default().noise, value_parser = part)]
    noise: f64,
}

impl VerifierArguments {
    fn settings(&self) -> VerifierSettings {
        let Self { tau, false_negative, false_positive, noise } = *self;
        VerifierSettings { tau, false_negative, false_positive, noise, ..VerifierSettings::default() }
    }
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err(format!("{text:?} must be a number from 0 to 1")),
    }
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
    let settings = settings(&arguments)?;
    let with_cost = settings.alpha[1] > 0.0;
    let mut parts = Vec::new();
    let mut model = String::new();
    for path in &arguments.dataset {
        let dataset = arguments.read.dataset(path, &[])?;
        let vectors = match arguments.language_model.backbone {
            Some(_) => unread(&dataset)?,
            None => embedded(&dataset, folders).await?,
        };
        model.clone_from(&vectors.model);
        parts.push(split(&dataset, &vectors, (arguments.verifier.settings(), with_cost))?);
    }
    tokio::task::block_in_place(|| match &arguments.language_model.backbone {
        Some(backbone) => adapted(&arguments, backbone, &parts, &device),
        None => trained(&arguments, settings, parts, &model, device),
    })
}

/// Embeddings for whom reads the texts themselves.
fn unread(dataset: &Dataset) -> Result<Embedded> {
    let vector = Embedding::new(vec![1.0])?;
    Ok(Embedded { model: String::new(), dimension: 1, vectors: vec![vector; dataset.tasks.len()] })
}

fn adapted(arguments: &ModeRouterArguments, model: &Path, parts: &[Parts], device: &Device) -> Result<()> {
    let mut settings = arguments.language_model.settings();
    settings.seed = arguments.seed.unwrap_or(settings.seed);
    settings.steps = arguments.steps.unwrap_or(settings.steps);
    settings.rate = arguments.rate.unwrap_or(settings.rate);
    settings.alpha = arguments.alpha_range.unwrap_or(settings.alpha);
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
    fs::create_dir_all(run)
        .with_context(|| format!("cannot make {}: give another folder with --run DIR", run.display()))?;
    super::writable(out)?;
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

fn split(dataset: &Dataset, vectors: &Embedded, (verifier, with_cost): (VerifierSettings, bool)) -> Result<Parts> {
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
    let matrix = |of: &[usize]| Matrix::new(dataset, &vectors.vectors, &known, of, verifier, with_cost);
    Ok(Parts {
        name: dataset.name.clone(),
        train: matrix(&known)?,
        validation: matrix(&of("val"))?,
        test: tested.then(|| matrix(&of("test"))).transpose()?,
    })
}

fn settings(arguments: &ModeRouterArguments) -> Result<TrainSettings> {
    let mut settings = match &arguments.settings {
        None => TrainSettings::default(),
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut settings = toml::Table::try_from(TrainSettings::default())?;
            lay_over(&mut settings, text.parse().with_context(|| format!("{} is no TOML", path.display()))?);
            settings.try_into().with_context(|| format!("{} does not fit", path.display()))?
        }
    };
    settings.shape = arguments.shape.unwrap_or(settings.shape);
    settings.seed = arguments.seed.unwrap_or(settings.seed);
    settings.alpha = arguments.alpha_range.unwrap_or(settings.alpha);
    settings.steps = arguments.steps.unwrap_or(settings.steps);
    settings.rate = arguments.rate.unwrap_or(settings.rate);
    settings.comet &= !arguments.no_comet;
    settings.schedule.progressive &= !arguments.no_progressive;
    if arguments.no_support {
        settings.schedule.support = 0.0;
    }
    Ok(settings)
}

/// The command that would train the same, data by name.
fn command(arguments: &ModeRouterArguments, settings: &TrainSettings, names: &[&str]) -> String {
    let TrainSettings { seed, steps, shape, rate, alpha: [low, high], .. } = settings;
    let VerifierSettings { tau, false_negative, false_positive, noise, .. } = arguments.verifier.settings();
    let mut command = format!(
        "pointsman train mode-router --dataset {} --seed {seed} --steps {steps} --shape {shape} --rate {rate} --alpha-range {low},{high}",
        names.join(" ")
    );
    if let Some(file) = &arguments.settings {
        command.push_str(&format!(" --settings {}", file.display()));
    }
    let defaults = VerifierSettings::default();
    for (flag, given, default) in [
        ("tau", tau, defaults.tau),
        ("false-negative", false_negative, defaults.false_negative),
        ("false-positive", false_positive, defaults.false_positive),
        ("noise", noise, defaults.noise),
    ] {
        if given != default {
            command.push_str(&format!(" --{flag} {given}"));
        }
    }
    for (flag, given) in [
        ("no-comet", arguments.no_comet),
        ("no-progressive", arguments.no_progressive),
        ("no-support", arguments.no_support),
    ] {
        if given {
            command.push_str(&format!(" --{flag}"));
        }
    }
    command
}

fn trained(
    arguments: &ModeRouterArguments,
    settings: TrainSettings,
    parts: Vec<Parts>,
    model: &str,
    device: Device,
) -> Result<()> {
    let ModeRouterArguments { run, out, .. } = arguments;
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
    let started = std::time::Instant::now();
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
    let trained_s = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    let weights = trainer.weights()?;
    let command = command(arguments, &settings, &names);
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
    let whole = report::Whole::new(&parts, &network, &trainer, arguments, trained_s);
    fs::write(run.join("report.json"), serde_json::to_vec_pretty(&whole)?)?;
    whole.show();
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

fn in_toy(arguments: &ModeRouterArguments) -> Result<()> {
    let seed = arguments.seed.unwrap_or(1);
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["progressive exploration", "seed", "score", "single / multi / agentic"]);
    let mut runs = Vec::new();
    for progressive in [true, false] {
        let settings = toy::settings(seed, progressive);
        let bar = progress::bar(settings.warm_up + settings.steps, "training in the toy");
        let report = toy::run(settings, &|_| bar.inc(1))?;
        bar.finish_and_clear();
        let modes = report.modes.map(|share| format!("{share:.3}")).join(" / ");
        let with = if progressive { "with" } else { "without" };
        table.add_row([with.to_owned(), seed.to_string(), format!("{:.3}", report.score), modes]);
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
