//! The demo's closing table.

use std::fmt;

use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::regret::{DomainReport, RegretReport};
use serde::Serialize;

use super::Streamed;

/// The table, as shown and as written with `--json`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    /// Tasks answered in this run.
    tasks: u64,
    /// Tasks answered with a problem in this run.
    failed: u64,
    /// From the program's start to the first verified answer.
    first_outcome_s: Option<f64>,
    /// From the first task to the last answer.
    seconds: f64,
    /// Verified rounds, earlier runs of the data folder included.
    rounds: u64,
    /// Rounds that were there before.
    rounds_before: u64,
    /// Mean verified score.
    score_mean: f64,
    /// Dollars at the workers' prices.
    cost_usd: f64,
    /// Cumulative regret of each router on the same tasks.
    cum_regret: CumRegret,
    /// Our regret as a part of uniform's.
    of_uniform: Option<f64>,
    /// Per domain.
    domains: Vec<DomainRow>,
}

#[derive(Debug, Clone, Serialize)]
struct CumRegret {
    pointsman: f64,
    uniform: Option<f64>,
    best_fixed_arm: Option<f64>,
    oracle: f64,
}

#[derive(Debug, Clone, Serialize)]
struct DomainRow {
    domain: String,
    rounds: u64,
    score_mean: f64,
    cum_regret: f64,
    best_arm: Option<String>,
    best_arm_share: Option<f64>,
    best_arm_share_recent: Option<f64>,
}

impl Summary {
    pub(super) fn new(report: &RegretReport, streamed: &Streamed, rounds_before: u64) -> Self {
        let last = report.series.last();
        let uniform = last.and_then(|point| point.uniform);
        Self {
            tasks: streamed.answered,
            failed: streamed.failed,
            first_outcome_s: streamed.first_outcome_s,
            seconds: streamed.seconds,
            rounds: report.rounds,
            rounds_before,
            score_mean: report.score_mean,
            cost_usd: report.cost_usd,
            cum_regret: CumRegret {
                pointsman: report.cum_regret,
                uniform,
                best_fixed_arm: last.and_then(|point| point.best_fixed),
                oracle: 0.0,
            },
            of_uniform: uniform.filter(|uniform| *uniform > 0.0).map(|uniform| report.cum_regret / uniform),
            domains: report.domains.iter().map(DomainRow::new).collect(),
        }
    }
}

impl DomainRow {
    fn new(domain: &DomainReport) -> Self {
        let best = domain.arms.iter().find(|arm| arm.best == Some(true));
        Self {
            domain: domain.domain.to_string(),
            rounds: domain.rounds,
            score_mean: domain.score_mean,
            cum_regret: domain.cum_regret,
            best_arm: best.map(|arm| arm.work.arm.to_string()),
            best_arm_share: best.map(|arm| arm.work.share),
            best_arm_share_recent: best.map(|arm| arm.work.share_recent),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share));
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
        let mut table = Table::new();
        table.load_preset(UTF8_HORIZONTAL_ONLY);
        table.set_header(["domain", "tasks", "mean score", "best arm", "its share", "lately", "regret"]);
        for row in &self.domains {
            table.add_row([
                row.domain.clone(),
                row.rounds.to_string(),
                format!("{:.3}", row.score_mean),
                row.best_arm.clone().unwrap_or("-".into()),
                percent(row.best_arm_share),
                percent(row.best_arm_share_recent),
                format!("{:.1}", row.cum_regret),
            ]);
        }
        writeln!(f, "{table}")?;
        let CumRegret { pointsman, uniform, best_fixed_arm, oracle } = &self.cum_regret;
        writeln!(
            f,
            "Cumulative regret: pointsman {pointsman:.1} ({} of uniform), uniform {}, best fixed arm {}, oracle {oracle:.0}",
            percent(self.of_uniform),
            number(*uniform),
            number(*best_fixed_arm),
        )?;
        write!(
            f,
            "{} tasks in {:.1} s ({} failed), mean score {:.3}, {:.4} dollars; first verified answer after {} s",
            self.tasks,
            self.seconds,
            self.failed,
            self.score_mean,
            self.cost_usd,
            number(self.first_outcome_s),
        )
    }
}
