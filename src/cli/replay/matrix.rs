//! Replays on a dataset, where every model's outcome is known.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::{Result, bail};
use pointsman::{
    action::policy::{Escalate, PolicySettings, build},
    replay::{
        Dataset, Decisions, Learner, Prepared, Progress, Protocol, ReplayOptions, Scoring, baselines, leak,
        page::{Kind, Row, Section},
        run as replay,
    },
    round::Embedding,
    train::routers::{self, Known},
};

use super::{
    super::{
        embedded::{Embedded, embedded},
        folders::Folders,
    },
    ReplayArguments,
    output::{self, Save, Wanted},
    progress, write,
};

/// A dataset with its embeddings.
pub(in crate::cli) struct Tasks {
    pub dataset: Dataset,
    pub vectors: Vec<Embedding>,
}

/// Makes learners by name.
pub(in crate::cli) struct Maker<'a> {
    pub settings: &'a PolicySettings,
    pub protocol: Protocol,
    /// What routers that learn offline are fitted on.
    pub known: Option<Known>,
}

impl Maker<'_> {
    /// A learner that learnt nothing yet; an offline router comes fitted.
    pub fn make(&self, name: &str) -> Result<Learner> {
        if name == "cascade" {
            if self.protocol == Protocol::Single {
                bail!("cascade tries several models a task: give --protocol cascade");
            }
            return Ok(Learner::Cascade(self.settings.cascade()));
        }
        let policy = if routers::NAMES.contains(&name) {
            let Some(known) = &self.known else {
                bail!("{name} is fitted on tasks whose outcomes are all known: name their splits with --warm");
            };
            routers::fit(name, known)?
        } else {
            build(name, self.settings)?
        };
        Ok(match self.protocol {
            Protocol::Single => Learner::Single(policy),
            Protocol::Cascade => Learner::Cascade(Box::new(Escalate::new(policy))),
        })
    }
}

pub(super) async fn run(mut arguments: ReplayArguments, folder: &Path, folders: &Folders) -> Result<()> {
    let settings = PolicySettings::load(arguments.card.as_deref())?;
    settings.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    if arguments.policy.is_empty() && arguments.decisions.is_empty() {
        arguments.policy.push(settings.policy.clone());
    }
    check_names(&arguments, &settings)?;
    let needed: Vec<String> = match arguments.split.as_slice() {
        [] => Vec::new(),
        splits => splits.iter().chain(&arguments.warm).cloned().collect(),
    };
    let whole = arguments.read.dataset(folder, &needed)?;
    let dataset = whole.only(&arguments.split)?;
    check_arms(&arguments, &dataset)?;
    let left_out = match dataset.without_prompt {
        0 => String::new(),
        without => format!(" ({without} without a prompt, known by their domain alone)"),
    };
    eprintln!("{}: {} tasks x {} models{left_out}", dataset.name, dataset.tasks.len(), dataset.models.len());
    let mut rows = Vec::new();
    let scoring = Scoring { rule: arguments.rule, weights: arguments.reward };
    for file in &arguments.decisions {
        let report = Decisions::read(file, &dataset)?.score(&dataset, scoring);
        rows.push(Row { report, kind: Kind::Published });
    }
    if !arguments.policy.is_empty() {
        let stream = Tasks { vectors: vectors(&dataset, &settings, folders).await?, dataset: dataset.clone() };
        let known = match arguments.warm.as_slice() {
            [] => None,
            splits => {
                let dataset = whole.only(splits)?;
                Some(Tasks { vectors: vectors(&dataset, &settings, folders).await?, dataset })
            }
        };
        let replayed = policies(&arguments, &settings, &stream, known.as_ref(), scoring)?;
        rows.extend(replayed.into_iter().map(|report| Row { report, kind: Kind::Replayed }));
    }
    rows.extend(references(&dataset, scoring, arguments.protocol));
    let section = Section {
        title: format!("{}, {}", dataset.name, dataset.split.as_deref().unwrap_or("all splits")),
        note: note(&arguments, &dataset),
        rows,
    };
    output::print(&section);
    let reports: Vec<_> =
        section.rows.iter().filter(|row| row.kind != Kind::Reference).map(|row| &row.report).collect();
    write(arguments.json.as_deref(), &reports)?;
    let data = arguments.data_dir.as_deref().unwrap_or(&folders.data);
    let save = Save { name: arguments.save.as_deref(), data };
    let wanted = Wanted { csv: arguments.csv.as_deref(), html: arguments.html.as_deref(), save };
    wanted.write("Pointsman replay", &[section])
}

/// Names that nobody knows are refused before anything is read.
fn check_names(arguments: &ReplayArguments, settings: &PolicySettings) -> Result<()> {
    for policy in &arguments.policy {
        let offline = routers::NAMES.contains(&policy.as_str());
        if offline && arguments.warm.is_empty() {
            bail!("{policy} is fitted on tasks whose outcomes are all known: name their splits with --warm");
        }
        if policy == "cascade" {
            if arguments.protocol == Protocol::Single {
                bail!("cascade tries several models a task: give --protocol cascade");
            }
        } else if !offline {
            build(policy, settings)?;
        }
    }
    if let Some(both) = arguments.warm.iter().find(|split| arguments.split.contains(split)) {
        bail!("the split {both} cannot be known before and replayed: leave it out of --warm or of --split");
    }
    if !arguments.warm.is_empty() && arguments.split.is_empty() {
        bail!("with --warm, say which other splits are replayed with --split");
    }
    Ok(())
}

fn check_arms(arguments: &ReplayArguments, dataset: &Dataset) -> Result<()> {
    for policy in &arguments.policy {
        let arm = policy.rsplit_once("fixed:").map(|(_, arm)| arm);
        if let Some(arm) = arm.filter(|arm| !dataset.models.iter().any(|model| model.arm.as_str() == *arm)) {
            let known: Vec<_> = dataset.models.iter().map(|model| model.arm.as_str()).collect();
            bail!("{} has no model {arm:?}; it has: {}", dataset.name, known.join(", "));
        }
    }
    Ok(())
}

/// The embeddings of a dataset's texts, by the model that a card may have been trained on.
pub(in crate::cli) async fn vectors(
    dataset: &Dataset,
    settings: &PolicySettings,
    folders: &Folders,
) -> Result<Vec<Embedding>> {
    let Embedded { model, dimension, vectors } = embedded(dataset, folders).await?;
    settings.check_embedding(&model, dimension)?;
    Ok(vectors)
}

fn policies(
    arguments: &ReplayArguments,
    settings: &PolicySettings,
    stream: &Tasks,
    known: Option<&Tasks>,
    scoring: Scoring,
) -> Result<Vec<pointsman::replay::PolicyReport>> {
    let offline = arguments.policy.iter().any(|policy| routers::NAMES.contains(&policy.as_str()));
    let fitted = known.filter(|_| offline).map(|known| Known::of(&known.dataset, &known.vectors, scoring));
    let maker = Maker { settings, protocol: arguments.protocol, known: fitted };
    let options = |policy: &str| ReplayOptions {
        order: arguments.order,
        rule: scoring.rule,
        weights: scoring.weights,
        recall: arguments.recall.into(),
        ..ReplayOptions::new(policy, arguments.seeds)
    };
    let prepared = prepared(stream, known, scoring, arguments.recall.into())?;
    let mut reports = Vec::with_capacity(arguments.policy.len());
    for policy in &arguments.policy {
        let (options, learner) = (options(policy), maker.make(policy)?);
        if arguments.check_leaks {
            let known = known.map(|known| (&known.dataset, known.vectors.as_slice()));
            let leak = leak::check(&stream.dataset, &stream.vectors, known, &options, &|_| learner.snapshot())?;
            match leak {
                Some(leak) => bail!("{policy}: {leak}"),
                None => eprintln!("{policy} sees the outcomes of what it took, and no others"),
            }
        }
        reports.push(one(&prepared, learner, &options)?);
    }
    Ok(reports)
}

/// What all policies on a stream share.
pub(in crate::cli) fn prepared<'a>(
    stream: &'a Tasks,
    known: Option<&'a Tasks>,
    scoring: Scoring,
    recall: usize,
) -> Result<Prepared<'a>> {
    Ok(match known {
        Some(known) => {
            Prepared::warm(&stream.dataset, &stream.vectors, (&known.dataset, &known.vectors), scoring, recall)?
        }
        None => Prepared::cold(&stream.dataset, &stream.vectors, recall)?,
    })
}

/// Replays one learner, with its progress shown.
pub(in crate::cli) fn one(
    prepared: &Prepared<'_>,
    learner: Learner,
    options: &ReplayOptions,
) -> Result<pointsman::replay::PolicyReport> {
    let rounds = options.seeds.len() as u64 * prepared.tasks() as u64;
    let bar = progress::bar(rounds, &options.policy);
    // Guards each seed's rounds so far.
    let done = Mutex::new(BTreeMap::new());
    let report = replay(prepared, learner, options, &|Progress { seed, round, .. }| {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.insert(seed, round as u64);
        bar.set_position(done.values().sum());
    })?;
    bar.finish_and_clear();
    Ok(report)
}

/// What policies of a protocol are compared with.
pub(in crate::cli) fn references(dataset: &Dataset, scoring: Scoring, protocol: Protocol) -> Vec<Row> {
    let mut reports = vec![
        baselines::oracle(dataset, scoring),
        baselines::best_fixed(dataset, scoring),
        baselines::domain_best(dataset, scoring),
        baselines::random(dataset, scoring),
    ];
    if protocol == Protocol::Cascade {
        reports.extend(baselines::best_chain(dataset, scoring).map(|(_, report)| report));
    }
    reports.into_iter().map(|report| Row { report, kind: Kind::Reference }).collect()
}

fn note(arguments: &ReplayArguments, dataset: &Dataset) -> String {
    let warm = match arguments.warm.as_slice() {
        [] => "cold start".to_owned(),
        splits => format!("all outcomes of {} known before", splits.join(" and ")),
    };
    format!(
        "{} tasks, {warm}, {} order, {} protocol, rule {}, reward {} * score {:+} * usd; means over {} orders. References \
         know the outcomes.",
        dataset.tasks.len(),
        arguments.order,
        arguments.protocol,
        arguments.rule,
        arguments.reward.e1,
        arguments.reward.e2,
        arguments.seeds
    )
}
