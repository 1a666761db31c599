//! `pointsman bench paper`: the table of "Agent-as-a-Router" (arXiv 2606.22902), re-run on CodeRouterBench with every router
//! that can be had, ours among them.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use clap::Args;
use pointsman::{
    action::policy::PolicySettings,
    replay::{
        Dataset, Decisions, Order, PolicyReport, Prepared, Protocol, ReadOptions, ReplayOptions, Rule, Scoring,
        baselines,
        page::{Kind, Row, Section},
    },
    round::RewardWeights,
    train::routers::{self, Known},
};

use super::{
    super::{
        folders::{Folders, report_name},
        replay::{
            matrix::{Maker, Tasks, one, prepared, references, vectors},
            output::{Save, Wanted, print},
            write,
        },
    },
    anchors,
};

/// The card for a start from what was probed.
const WARM: &str = include_str!("../../../policies/warm.toml");
/// Online policies of the in-distribution stream; all know train and val before.
const ONLINE: [&str; 6] = ["ensemble", "hybrid_text", "domain_prior", "memory_knn", "lin_ucb", "lin_thompson"];
/// Online policies of the out-of-distribution stream; all start cold.
const COLD: [&str; 9] = [
    "ensemble",
    "probit",
    "hybrid_text",
    "domain_prior",
    "beta_thompson",
    "memory_knn",
    "lin_ucb",
    "lin_thompson",
    "uniform",
];
/// Policies that may try several models a task.
const CASCADES: [&str; 3] = ["cascade", "ensemble", "beta_thompson"];
/// Neighbours that a task recalls: as a daemon does.
const RECALL: usize = 10;
/// ACRouter's fixed chain: run until an answer is right, then escalate if at least so many patches applied.
const CHAIN: [&str; 4] = ["MiniMax-M2.7", "kimi-k2.5", "gpt-5.4", "glm-5"];
const ESCALATE_TO: &str = "claude-opus-4-6";
const APPLIED_MIN: usize = 2;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman bench paper --data coderouterbench
  pointsman bench paper --data coderouterbench --html paper.html --json paper.json

Prints three tables: the in-distribution test split (train and val known before, one attempt a task), OOD176 with one
attempt a task from a cold start, and OOD176 as a cascade. Published decisions are scored as given, beside ours.")]
pub(super) struct PaperArguments {
    /// CodeRouterBench's folder: tasks, results, models.json, decisions/, anchors.csv.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// A policy card, for other settings of our policies than the compiled-in ones.
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// Shuffled orders of OOD176; the in-distribution split comes in its released order.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Write one JSON object a row, as an array.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with curves and plots; it opens offline.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep what was found under this name, where a daemon's page shows it.
    #[arg(long, value_name = "NAME", value_parser = report_name)]
    save: Option<String>,
    /// The daemon's data folder, for --save [default: the user's].
    #[arg(long, value_name = "DIR", requires = "save")]
    data_dir: Option<PathBuf>,
}

/// What all tables share.
struct Paper<'a> {
    folder: &'a Path,
    settings: PolicySettings,
    warm: PolicySettings,
    seeds: u64,
    known: Tasks,
}

pub(super) async fn run(arguments: &PaperArguments, folders: &Folders) -> Result<()> {
    let started = Instant::now();
    let settings = PolicySettings::load(arguments.card.as_deref())?;
    settings.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    let whole = Dataset::read(&arguments.data, &ReadOptions::default())?;
    let checked = anchors::check(&arguments.data, &whole)?;
    println!("{}\n", checked.told());
    let split = async |names: &[&str]| -> Result<Tasks> {
        let dataset = whole.only(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        Ok(Tasks { vectors: vectors(&dataset, &settings, folders).await?, dataset })
    };
    let (known, test, ood) = (split(&["train", "val"]).await?, split(&["test"]).await?, split(&["ood176"]).await?);
    let embedded = started.elapsed();
    let warm = PolicySettings::parse(WARM)?;
    let paper = Paper { folder: &arguments.data, settings, warm, seeds: arguments.seeds, known };
    let mut sections = Vec::new();
    for section in [Paper::in_distribution, Paper::out_of_distribution, Paper::cascades] {
        let section = section(&paper, if sections.is_empty() { &test } else { &ood })?;
        print(&section);
        println!();
        sections.push(section);
    }
    let seconds = started.elapsed() - embedded;
    println!("{:.0} s after the embeddings, which took {:.0} s", seconds.as_secs_f64(), embedded.as_secs_f64());
    let reports: Vec<_> = sections.iter().flat_map(|section| &section.rows).collect();
    write(arguments.json.as_deref(), &reports)?;
    let data = arguments.data_dir.as_deref().unwrap_or(&folders.data);
    let save = Save { name: arguments.save.as_deref(), data };
    let wanted = Wanted { csv: arguments.csv.as_deref(), html: arguments.html.as_deref(), save };
    wanted.write("Agent-as-a-Router's table, re-run", &sections)
}

impl Paper<'_> {
    fn scoring(rule: Rule) -> Scoring {
        Scoring { rule, weights: RewardWeights::default() }
    }

    fn in_distribution(&self, test: &Tasks) -> Result<Section> {
        let scoring = Self::scoring(Rule::Measured);
        let known = Known::of(&self.known.dataset, &self.known.vectors, scoring);
        let maker = Maker { settings: &self.settings, protocol: Protocol::Single, known: Some(known) };
        let prepared = prepared(test, Some(&self.known), scoring, RECALL)?;
        let warm = Maker { settings: &self.warm, protocol: Protocol::Single, known: None };
        let label = ("ensemble", "ensemble, card warm");
        let mut rows = vec![self.row(&prepared, &warm, label, Order::Released, 1, scoring)?];
        for name in ONLINE.iter().chain(&routers::NAMES) {
            rows.push(self.row(&prepared, &maker, (name, name), Order::Released, 1, scoring)?);
        }
        rows.extend(self.published("test", &test.dataset, scoring, false)?);
        rows.extend(in_hindsight(&test.dataset, scoring));
        Ok(Section {
            title: "In distribution, test".into(),
            note: "2,919 tasks in released order, one attempt each; every outcome on train and val is known before. Unmeasured \
                   rows score 0 and the oracle does not see them, as in the paper. source_best knows each task's benchmark, \
                   which no router is told."
                .into(),
            rows,
        })
    }

    fn out_of_distribution(&self, ood: &Tasks) -> Result<Section> {
        let scoring = Self::scoring(Rule::Full);
        let maker = Maker { settings: &self.settings, protocol: Protocol::Single, known: None };
        let cold = prepared(ood, None, scoring, RECALL)?;
        let mut rows = Vec::new();
        for name in COLD {
            rows.push(self.row(&cold, &maker, (name, name), Order::Shuffled, self.seeds, scoring)?);
        }
        let carded = Maker { settings: &self.warm, protocol: Protocol::Single, known: None };
        let label = ("ensemble", "ensemble, card warm");
        rows.push(self.row(&cold, &carded, label, Order::Shuffled, self.seeds, scoring)?);
        let warm = prepared(ood, Some(&self.known), scoring, RECALL)?;
        for (maker, label) in
            [(&carded, "ensemble, card warm, knows train and val"), (&maker, "ensemble, knows train and val")]
        {
            rows.push(self.row(&warm, maker, ("ensemble", label), Order::Shuffled, self.seeds, scoring)?);
        }
        rows.extend(self.published("ood176", &ood.dataset, scoring, false)?);
        rows.extend(in_hindsight(&ood.dataset, scoring));
        Ok(Section {
            title: "Out of distribution, one attempt".into(),
            note: format!(
                "176 agentic tasks, one attempt each, from a cold start but for the rows that know train and val (where the best arm of \
                 these tasks is the second-worst); means over {} shuffled orders. Published decisions \
                 are of the released order.",
                self.seeds
            ),
            rows,
        })
    }

    fn cascades(&self, ood: &Tasks) -> Result<Section> {
        let scoring = Self::scoring(Rule::Full);
        let maker = Maker { settings: &self.settings, protocol: Protocol::Cascade, known: None };
        let cold = prepared(ood, None, scoring, RECALL)?;
        let mut rows = Vec::new();
        for name in CASCADES {
            rows.push(self.row(&cold, &maker, (name, name), Order::Shuffled, self.seeds, scoring)?);
        }
        let warm = prepared(ood, Some(&self.known), scoring, RECALL)?;
        let label = ("cascade", "cascade, knows train and val");
        rows.push(self.row(&warm, &maker, label, Order::Shuffled, self.seeds, scoring)?);
        rows.extend(self.published("ood176", &ood.dataset, scoring, true)?);
        let chain = |names: &[&str]| -> Option<Vec<usize>> {
            let of = |name: &&str| ood.dataset.models.iter().position(|model| model.arm.as_str() == *name);
            names.iter().map(of).collect()
        };
        if let (Some(models), Some(last)) = (chain(&CHAIN), chain(&[ESCALATE_TO])) {
            let report =
                baselines::escalating_chain(&ood.dataset, scoring, "acrouter_cascade", &models, last[0], APPLIED_MIN);
            rows.push(Row { report, kind: Kind::Reference });
        }
        rows.extend(references(&ood.dataset, scoring, Protocol::Cascade));
        Ok(Section {
            title: "Out of distribution, cascade".into(),
            note: format!(
                "The same 176 tasks; the verdict on each attempt is known before the next, all are paid, the best answer is kept. \
                 Cold start; means over {} shuffled orders. acrouter_cascade is the paper's fixed chain; best_chain the \
                 best one in hindsight.",
                self.seeds
            ),
            rows,
        })
    }

    fn row(
        &self,
        prepared: &Prepared<'_>,
        maker: &Maker<'_>,
        (name, label): (&str, &str),
        order: Order,
        seeds: u64,
        scoring: Scoring,
    ) -> Result<Row> {
        let options =
            ReplayOptions { order, rule: scoring.rule, weights: scoring.weights, ..ReplayOptions::new(label, seeds) };
        let started = Instant::now();
        let learner = maker.make(name)?;
        let fitted = started.elapsed().as_secs_f64();
        let report = one(prepared, learner, &options)?;
        let report = PolicyReport { seconds: report.seconds + fitted, ..report };
        eprintln!("{label}: regret {:.1} in {:.1} s", report.cum_regret, report.seconds);
        Ok(Row { report, kind: Kind::Replayed })
    }

    /// The released decisions on a split, those of cascades or those of single attempts.
    fn published(&self, split: &str, dataset: &Dataset, scoring: Scoring, cascade: bool) -> Result<Vec<Row>> {
        let folder = self.folder.join("decisions");
        let prefix = format!("{split}__");
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)));
        files.sort();
        let mut rows = Vec::new();
        for file in files {
            let mut decisions = Decisions::read(&file, dataset)?;
            if let Some(name) = decisions.name.strip_prefix(&prefix) {
                decisions.name = name.to_owned();
            }
            let report = decisions.score(dataset, scoring);
            if (report.protocol == Protocol::Cascade) == cascade {
                rows.push(Row { report, kind: Kind::Published });
            }
        }
        Ok(rows)
    }
}

/// What one attempt a task comes to for those who know the outcomes, or always take one model.
fn in_hindsight(dataset: &Dataset, scoring: Scoring) -> Vec<Row> {
    let habits = baselines::always(dataset, scoring).into_iter().chain([baselines::source_best(dataset, scoring)]);
    let habits = habits.map(|report| Row { report, kind: Kind::Reference });
    references(dataset, scoring, Protocol::Single).into_iter().chain(habits).collect()
}
