//! `pointsman bench anchors`: the scorer against the metrics that are known of CodeRouterBench's released decisions.
//!
//! `anchors.csv` names a router, a split, and six metrics, three under each rule. Every row whose decisions can be had is
//! scored again, and each metric must come out to the printed digit.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman::{
    replay::{Dataset, Decisions, PolicyReport, ReadOptions, Rule, Scoring},
    round::{Domain, RewardWeights},
};

/// The metrics of a row, with the rule under which each is computed.
const METRICS: [(&str, Rule); 5] = [
    ("avg_perf_pct", Rule::Full),
    ("cum_regret", Rule::Full),
    ("total_cost_usd", Rule::Full),
    ("avg_perf_pct_unmeasured_as_0", Rule::Measured),
    ("cum_regret_vs_measured_oracle", Rule::Measured),
];
/// Splits that a DimensionBest learns from.
const PROBED: [&str; 2] = ["train", "val"];

#[derive(Args)]
#[command(after_help = "Example:
  pointsman bench anchors --data coderouterbench")]
pub(super) struct AnchorArguments {
    /// CodeRouterBench's folder, with anchors.csv and decisions/.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// A row by its columns.
struct Anchor {
    router: String,
    split: String,
    metrics: BTreeMap<String, String>,
}

/// What became of the anchors.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub rows: usize,
    pub metrics: usize,
    /// Rows that cannot be scored again, and why.
    pub left_out: Vec<String>,
    pub wrong: Vec<String>,
}

pub(super) fn run(arguments: &AnchorArguments) -> Result<()> {
    let dataset = Dataset::read(&arguments.data, &ReadOptions::default())?;
    let checked = check(&arguments.data, &dataset)?;
    println!("{}", checked.told());
    if !checked.wrong.is_empty() {
        bail!("{} metrics differ", checked.wrong.len());
    }
    Ok(())
}

impl Checked {
    pub fn told(&self) -> String {
        let mut lines = vec![format!(
            "{} metrics of {} released routers were computed again; {} differ from the printed digits",
            self.metrics,
            self.rows,
            self.wrong.len()
        )];
        lines.extend(self.wrong.iter().map(|wrong| format!("  {wrong}")));
        lines.extend(self.left_out.iter().map(|left| format!("  left out: {left}")));
        lines.join("\n")
    }
}

/// Scores every anchor that can be scored.
pub(super) fn check(folder: &Path, dataset: &Dataset) -> Result<Checked> {
    let path = folder.join("anchors.csv");
    let mut csv = csv::Reader::from_path(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut checked = Checked::default();
    let mut splits: BTreeMap<String, Dataset> = BTreeMap::new();
    for row in csv.deserialize::<BTreeMap<String, String>>() {
        let metrics = row.with_context(|| format!("cannot read {}", path.display()))?;
        let text = |column: &str| metrics.get(column).cloned().unwrap_or_default();
        let anchor = Anchor { router: text("router"), split: text("split"), metrics };
        if !splits.contains_key(&anchor.split) {
            splits.insert(anchor.split.clone(), dataset.only(std::slice::from_ref(&anchor.split))?);
        }
        let split = &splits[&anchor.split];
        let files = decision_files(folder, &anchor)?;
        let decisions = if files.is_empty() {
            picks(&anchor.router, dataset, split)
        } else {
            Some(files.iter().map(|file| Decisions::read(file, split)).collect::<Result<Vec<_>, _>>()?)
        };
        match decisions {
            Some(decisions) => compare(&anchor, split, &decisions, &mut checked),
            None => checked.left_out.push(format!("{} on {}: {}", anchor.router, anchor.split, why(&anchor.router))),
        }
    }
    Ok(checked)
}

fn why(router: &str) -> &'static str {
    match router {
        "Random" => "its draws were made by another generator and are not released",
        _ => "its decisions are not released in this form",
    }
}

/// The released decisions of a router: one file, or one for each seed of a random one.
fn decision_files(folder: &Path, anchor: &Anchor) -> Result<Vec<PathBuf>> {
    let decisions = folder.join("decisions");
    let one = decisions.join(format!("{}__{}.csv", anchor.split, anchor.router));
    if one.exists() {
        return Ok(vec![one]);
    }
    let Some((name, seeds)) = anchor.router.rsplit_once("_seed") else { return Ok(Vec::new()) };
    let Some((first, last)) = seeds.split_once('-') else { return Ok(Vec::new()) };
    let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
    let file = |seed| decisions.join(format!("{}__{name}_seed{seed}.csv", anchor.split));
    Ok((first..=last).map(file).filter(|file| file.exists()).collect())
}

/// The picks of a router that is defined by the outcomes.
fn picks(router: &str, whole: &Dataset, split: &Dataset) -> Option<Vec<Decisions>> {
    let all = |choose: &dyn Fn(usize) -> usize| {
        Some(vec![Decisions::single(router, (0..split.tasks.len()).map(choose).collect::<Vec<_>>())])
    };
    let scoring = |rule| Scoring { rule, weights: RewardWeights::default() };
    match router {
        "Oracle" => all(&|task| scoring(Rule::Full).best(&split.tasks[task]).0),
        "Oracle_measured_rows" => all(&|task| scoring(Rule::Measured).best(&split.tasks[task]).0),
        "DimensionBest" | "DimensionBest_unmeasured_as_0" => {
            let rule = if router == "DimensionBest" { Rule::Full } else { Rule::Measured };
            let best = dimension_best(whole, scoring(rule));
            all(&|task| best.get(&split.tasks[task].domain).copied().unwrap_or(0))
        }
        other => {
            let model = other.strip_prefix("Always-")?;
            let model = split.models.iter().position(|known| known.arm.as_str() == model)?;
            all(&|_| model)
        }
    }
}

/// In each domain the model with the highest mean score on train and val.
fn dimension_best(whole: &Dataset, scoring: Scoring) -> BTreeMap<Domain, usize> {
    let mut sums: BTreeMap<Domain, Vec<f64>> = BTreeMap::new();
    for task in whole.tasks.iter().filter(|task| PROBED.contains(&task.split.as_str())) {
        let of_domain = sums.entry(task.domain.clone()).or_insert_with(|| vec![0.0; whole.models.len()]);
        of_domain.iter_mut().zip(&task.results).for_each(|(sum, result)| *sum += scoring.worth(result).score);
    }
    let best = |sums: Vec<f64>| (0..sums.len()).fold(0, |best, next| if sums[next] > sums[best] { next } else { best });
    sums.into_iter().map(|(domain, sums)| (domain, best(sums))).collect()
}

fn compare(anchor: &Anchor, split: &Dataset, decisions: &[Decisions], checked: &mut Checked) {
    checked.rows += 1;
    for (metric, rule) in METRICS {
        let Some(printed) = anchor.metrics.get(metric).filter(|printed| !printed.is_empty()) else { continue };
        let scoring = Scoring { rule, weights: RewardWeights::default() };
        let reports = decisions.iter().map(|decisions| decisions.score(split, scoring));
        let found: f64 = reports.map(|report| value(&report, metric)).sum::<f64>() / decisions.len() as f64;
        checked.metrics += 1;
        if !agrees(printed, found) {
            checked
                .wrong
                .push(format!("{} on {}: {metric} is {found}, printed {printed}", anchor.router, anchor.split));
        }
    }
}

fn value(report: &PolicyReport, metric: &str) -> f64 {
    match metric {
        "avg_perf_pct" | "avg_perf_pct_unmeasured_as_0" => 100.0 * report.mean_score,
        "total_cost_usd" => report.total_cost_usd,
        _ => report.cum_regret,
    }
}

/// Whether a number, rounded to as many digits as were printed, is what was printed.
fn agrees(printed: &str, found: f64) -> bool {
    let digits = printed.split_once('.').map_or(0, |(_, digits)| digits.len());
    let half = 0.5 * 10_f64.powi(-(digits as i32));
    // A hair more than half a digit, since sums are rounded.
    printed.parse::<f64>().is_ok_and(|printed| (printed - found).abs() <= half * (1.0 + 1e-6))
}
