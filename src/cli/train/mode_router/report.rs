//! What a trained mode-router would do, beside fixed ways, before anybody deploys it.

use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::mode_router::Frozen,
    train::mode_router::{
        TrainSettings, Trainer,
        environment::VerifierSettings,
        evaluate::{Evaluation, Figures, Report},
    },
};
use serde::Serialize;

use super::{ModeRouterArguments, Parts};
use crate::cli::progress;

/// The alphas that are reported.
const ALPHAS: [f64; 4] = [0.0, 0.1, 0.3, 0.5];
/// The alpha at which other verifiers are looked at.
const SWEPT: f64 = 0.3;
/// Worlds of each task.
const WORLDS: u64 = 4;

/// All of it.
#[derive(Serialize)]
pub(super) struct Whole {
    settings: TrainSettings,
    verifier: VerifierSettings,
    /// Seconds that training took, since it was begun or gone on with.
    trained_s: f64,
    datasets: Vec<Reported>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sweep: Vec<Swept>,
}

/// One dataset's reports, by alpha.
#[derive(Serialize)]
struct Reported {
    dataset: String,
    tasks: &'static str,
    reports: Vec<Report>,
}

/// One dataset under another verifier.
#[derive(Serialize)]
struct Swept {
    dataset: String,
    verifier: VerifierSettings,
    report: Report,
}

/// Verifiers from one that is never wrong to one that is little more than chance.
fn verifiers() -> impl Iterator<Item = VerifierSettings> {
    let settings = [
        (0.5, 0.0, 0.0, 0.0),
        (0.5, 0.1, 0.1, 0.3),
        (0.5, 0.1, 0.3, 0.5),
        (0.5, 0.2, 0.5, 0.5),
        (0.5, 0.3, 0.3, 0.8),
        (0.25, 0.1, 0.3, 0.5),
        (0.9, 0.1, 0.3, 0.5),
    ];
    settings.into_iter().map(|(tau, false_negative, false_positive, noise)| VerifierSettings {
        tau,
        false_negative,
        false_positive,
        noise,
        ..VerifierSettings::default()
    })
}

impl Whole {
    /// Looks at the tasks that were kept for this: the test split, or the validation split where there is none.
    pub(super) fn new(
        parts: &[Parts],
        network: &Frozen,
        trainer: &Trainer<'_>,
        arguments: &ModeRouterArguments,
        trained_s: f64,
    ) -> Self {
        let settings = trainer.settings().clone();
        let [low, high] = settings.alpha;
        let alphas: Vec<f64> = ALPHAS.into_iter().filter(|alpha| (low..=high).contains(alpha)).collect();
        let others: Vec<VerifierSettings> = if arguments.sweep { verifiers().collect() } else { vec![] };
        let bar = progress::bar((parts.len() * (alphas.len() + others.len())) as u64, "comparing with fixed ways");
        let mut whole =
            Self { settings, verifier: *parts[0].train.verifier(), trained_s, datasets: vec![], sweep: vec![] };
        for (pool, part) in parts.iter().enumerate() {
            let test = part.test.as_ref().filter(|_| !arguments.validation);
            let (held_out, tasks) = test.map_or((&part.validation, "val"), |test| (test, "test"));
            let cost_reference_usd = trainer.cost_reference_usd(pool);
            let report = |evaluation: &Evaluation<'_>, alpha: f64| {
                bar.inc(1);
                evaluation.report(&evaluation.served(network, alpha, true), alpha)
            };
            let evaluation = Evaluation { known: &part.train, held_out, worlds: WORLDS, cost_reference_usd };
            let reports = alphas.iter().map(|alpha| report(&evaluation, *alpha)).collect();
            whole.datasets.push(Reported { dataset: part.name.clone(), tasks, reports });
            for verifier in &others {
                let (known, held_out) = (part.train.with_verifier(*verifier), held_out.with_verifier(*verifier));
                let evaluation = Evaluation { known: &known, held_out: &held_out, worlds: WORLDS, cost_reference_usd };
                let report = report(&evaluation, SWEPT.clamp(low, high));
                whole.sweep.push(Swept { dataset: part.name.clone(), verifier: *verifier, report });
            }
        }
        bar.finish_and_clear();
        whole
    }

    /// Prints it.
    pub(super) fn show(&self) {
        self.datasets.iter().for_each(show);
        if !self.sweep.is_empty() {
            println!(
                "The same policy and newly chosen fixed ways where verifiers are others (reward at alpha {SWEPT}):"
            );
            let mut table = table(&[
                "dataset",
                "tau",
                "fails right",
                "passes wrong",
                "noise",
                "policy",
                "single",
                "multi",
                "agentic",
                "over the best fixed mode",
            ]);
            self.sweep.iter().for_each(|swept| {
                table.add_row(swept.row());
            });
            println!("{table}\n");
        }
        let VerifierSettings { tau, false_negative, false_positive, noise, .. } = self.verifier;
        println!(
            "Simulated: a verifier by which a score of {tau} is right, that fails {:.0} % of right outputs and passes {:.0} % of wrong ones; teams that see scores with noise of standard deviation {noise}.",
            100.0 * false_negative,
            100.0 * false_positive,
        );
        println!("Trained in {:.0} s.", self.trained_s);
    }
}

impl Swept {
    fn row(&self) -> Vec<String> {
        let VerifierSettings { tau, false_negative, false_positive, noise, .. } = self.verifier;
        let mut row = vec![self.dataset.clone()];
        row.extend([tau, false_negative, false_positive, noise].map(|number| number.to_string()));
        let reward = |way: &str| self.report.ways.get(way).map_or(String::new(), |way| format!("{:.4}", way.reward[1]));
        row.extend(["policy", "single", "multi", "agentic"].map(reward));
        row.push(over(self.report.over_best_fixed));
        row
    }
}

/// A difference with its interval.
fn over([low, mean, high]: [f64; 3]) -> String {
    format!("{mean:+.4} ({low:+.4} to {high:+.4})")
}

/// A table whose columns after the first are numbers.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn show(of: &Reported) {
    for report in &of.reports {
        println!("{} ({}), alpha {}:", of.dataset, of.tasks, report.alpha);
        let mut table = table(&[
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
        println!("{table}");
        println!("Over the best fixed mode ({}): {}.", report.best_fixed_mode, over(report.over_best_fixed));
        println!("Over the best mode of each domain: {}.", over(report.over_dimension_best));
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
