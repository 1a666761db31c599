//! `pointsman train mode-router --backbone PATH`: adapters on a language model instead of the compact policy.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use candle_core::Device;
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::train::mode_router::{
    StepReport,
    backbone::{Backbone, BackboneSettings, BackboneTrainer},
    environment::Environment,
    plots,
};
use serde::Serialize;

use crate::cli::progress;

/// Steps that are told at the end.
const TOLD: usize = 12;

#[derive(Args)]
pub(super) struct BackboneArguments {
    /// Train adapters on this language model instead of the compact policy: a GGUF file, or a folder of safetensors (docs/backbone.md).
    #[arg(long, value_name = "PATH", conflicts_with_all = ["shape", "out", "toy"])]
    pub backbone: Option<PathBuf>,
    /// The adapters' rank.
    #[arg(long, value_name = "N", default_value_t = 16, requires = "backbone", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    lora_rank: u16,
    /// What the adapters weigh, times the rank.
    #[arg(long, value_name = "X", default_value_t = 32.0, requires = "backbone")]
    lora_alpha: f64,
    /// Steps in which a small model learns the rules first, by imitation.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "backbone")]
    practice: u64,
    /// The optimiser's rate while it does.
    #[arg(long, value_name = "RATE", default_value_t = 1e-4, requires = "backbone")]
    practice_rate: f64,
    /// Tasks of a step.
    #[arg(long, value_name = "N", default_value_t = 32, requires = "backbone", value_parser = clap::value_parser!(u16).range(1..))]
    queries: u16,
    /// Trajectories of a task.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "backbone", value_parser = clap::value_parser!(u16).range(2..))]
    rollouts: u16,
    /// Tokens of a turn, but for that which declares the mode.
    #[arg(long, value_name = "N", default_value_t = 256, requires = "backbone", value_parser = clap::value_parser!(u16).range(8..))]
    turn_tokens: u16,
    /// How much of a question the model is shown, in characters.
    #[arg(long, value_name = "N", default_value_t = 4_000, requires = "backbone", value_parser = clap::value_parser!(u32).range(100..))]
    question_chars: u32,
}

impl BackboneArguments {
    /// The settings of known runs, with what was asked for in their place.
    pub fn settings(&self) -> BackboneSettings {
        let mut settings = BackboneSettings {
            warm_up: self.practice,
            warm_up_rate: self.practice_rate,
            queries: self.queries.into(),
            rollouts: self.rollouts.into(),
            ..BackboneSettings::default()
        };
        settings.lora.rank = self.lora_rank.into();
        settings.lora.alpha = self.lora_alpha;
        settings.sampling.turn_tokens_max = self.turn_tokens.into();
        settings.sampling.question_chars_max = self.question_chars as usize;
        settings
    }
}

/// A step as the run's folder keeps it.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    report: &'a StepReport,
    seconds: f64,
}

/// Trains, and keeps each step.
pub(super) fn run(
    environment: &dyn Environment,
    model: &Path,
    settings: BackboneSettings,
    device: &Device,
    (run, resume): (&Path, bool),
) -> Result<()> {
    let spinner = progress::spinner("reading the model");
    let backbone = Backbone::load(model, device)?;
    spinner.finish_and_clear();
    let mut trainer = match resume {
        true => BackboneTrainer::resume(environment, backbone, settings, run)?,
        false => BackboneTrainer::new(environment, backbone, settings)?,
    };
    let bar = progress::bar(trainer.steps(), "training adapters");
    bar.set_position(trainer.done());
    let mut lines = fs::OpenOptions::new().append(true).create(true).open(run.join("steps.jsonl"))?;
    let mut told: Vec<(StepReport, f64)> = Vec::new();
    while trainer.done() < trainer.steps() {
        let started = Instant::now();
        let report = trainer.step()?;
        let seconds = started.elapsed().as_secs_f64();
        // A step takes minutes, so each is kept before it is told.
        trainer.save(run)?;
        writeln!(lines, "{}", serde_json::to_string(&Line { report: &report, seconds })?)?;
        bar.set_message(format!("reward {:.3}", report.reward));
        bar.set_position(trainer.done());
        told.push((report, seconds));
    }
    bar.finish_and_clear();
    println!("{}", table(&told[told.len().saturating_sub(TOLD)..]));
    let steps = super::mode_router::read_steps(&run.join("steps.jsonl"))?;
    let page = plots::render("Training of a language model as mode-router", &[("this run".into(), steps)]);
    fs::write(run.join("plots.html"), page).with_context(|| format!("cannot write in {}", run.display()))?;
    println!(
        "The adapters are in {0}, as PEFT writes them. Serve them beside the model, for example with vLLM,\n\n  vllm serve MODEL --enable-lora --lora-modules mode-router={0}\n\nand name that endpoint as the policy llm's (docs/dialects.md).",
        run.display()
    );
    Ok(())
}

fn table(steps: &[(StepReport, f64)]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "step",
        "seconds",
        "reward",
        "loss",
        "mode",
        "inner",
        "KL",
        "support",
        "gradient",
        "broken rules",
    ]);
    for (report, seconds) in steps {
        let broken: u64 = report.violations.values().sum();
        table.add_row([
            if report.warm_up { format!("{} (practice)", report.step) } else { report.step.to_string() },
            format!("{seconds:.1}"),
            format!("{:.3}", report.reward),
            format!("{:.5}", report.loss),
            format!("{:.5}", report.loss_mode),
            format!("{:.5}", report.loss_inner),
            format!("{:.6}", report.kl),
            format!("{:.5}", report.support),
            format!("{:.4}", report.gradient),
            format!("{broken} of {}", report.rollouts),
        ]);
    }
    table
}
