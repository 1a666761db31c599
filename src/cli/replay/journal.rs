//! `pointsman replay --journal`: makes a daemon's decisions again, or estimates what other policies would have brought.

use std::{ops::ControlFlow, path::Path};

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::{PolicySettings, build},
    journal::JournalReader,
    replay::off_policy::{Estimate, Evaluation, Logged, OffPolicyReport},
    router::{ExactReport, ExactSettings, logged_rounds, replay_exactly},
};

use super::{
    super::folders::{CHECKPOINT, cards},
    ReplayArguments, progress, write,
};

pub(super) async fn run(arguments: ReplayArguments, folder: &Path) -> Result<()> {
    let file = folder.join("journal.sqlite");
    if !file.exists() {
        bail!("there is no journal.sqlite in {}: give a daemon's data folder", folder.display());
    }
    let journal = JournalReader::open_recorded(&file).await?;
    let found = if arguments.policy.is_empty() && arguments.card.is_none() {
        exact(&arguments, folder, &journal).await
    } else {
        off_policy(&arguments, &journal).await
    };
    journal.close_reader().await;
    found
}

async fn exact(arguments: &ReplayArguments, folder: &Path, journal: &JournalReader) -> Result<()> {
    let cards = cards(folder, arguments.cards.as_deref())?;
    let settings = ExactSettings { cards, checkpoint: Some(folder.join(CHECKPOINT)) };
    let bar = progress::bar(0, "deciding again");
    let report = replay_exactly(journal, &settings, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })
    .await?;
    bar.finish_and_clear();
    print_exact(&report);
    write(arguments.json.as_deref(), &report)?;
    if !report.is_exact() {
        bail!("the replay differs from the journal");
    }
    Ok(())
}

fn print_exact(report: &ExactReport) {
    let ExactReport { at, decisions, again, equal, compared, first, left_out, learnt_rounds, seconds, .. } = report;
    println!("{at} events, {decisions} decisions, {learnt_rounds} lessons; {seconds:.1} s");
    println!("{again} decisions were made again, {equal} came out equal bit for bit");
    println!(
        "  equal: {} pmf, {} arm, {} propensity, {} voters, {} shadow, {} policy, {} features, {} of {} domains found",
        compared.pmf,
        compared.arm,
        compared.propensity,
        compared.voters,
        compared.shadow,
        compared.policy,
        compared.features,
        compared.domain,
        compared.domains_found
    );
    for (why, count) in left_out {
        println!("{count} could not be made again: {why}");
    }
    for difference in first {
        println!("decision {} (event {}) differs:", difference.decision, difference.seq);
        difference.what.iter().for_each(|what| println!("  {what}"));
    }
    if again - equal > first.len() as u64 {
        println!("and {} more", again - equal - first.len() as u64);
    }
    if !report.state_hash.is_empty() {
        println!("state {} at event {at}", report.state_hash);
    }
    match (&report.checkpoint, &report.checkpoint_problem) {
        (Some(found), _) if found.state_hash == found.replayed_hash => {
            println!("the checkpoint at event {} holds the same state as the journal up to there", found.at);
        }
        (Some(found), _) => println!(
            "the checkpoint at event {} holds {}, the journal up to there gives {}",
            found.at, found.state_hash, found.replayed_hash
        ),
        (None, Some(problem)) => println!("no checkpoint was compared: {problem}"),
        (None, None) => {}
    }
}

async fn off_policy(arguments: &ReplayArguments, journal: &JournalReader) -> Result<()> {
    let settings = PolicySettings::load(arguments.card.as_deref())?;
    settings.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    let policies = if arguments.policy.is_empty() { vec![settings.policy.clone()] } else { arguments.policy.clone() };
    for policy in &policies {
        build(policy, &settings)?;
    }
    // A failure to build was ruled out before.
    let evaluation =
        |policy: &String| Evaluation::new(policy, &|| build(policy, &settings).expect("built once already"));
    let mut evaluations: Vec<_> = policies.iter().map(evaluation).collect();
    let base = journal.base().await?;
    let bar = progress::bar(0, "evaluating");
    let mut failed: Option<anyhow::Error> = None;
    let told = logged_rounds(
        journal,
        |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        },
        |logged| match take(&mut evaluations, &settings, journal.embedding_model(), logged) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    told.await?;
    bar.finish_and_clear();
    if let Some(error) = failed {
        return Err(error);
    }
    let reports: Vec<_> = evaluations.iter().map(Evaluation::report).collect();
    if let Some(base) = base {
        eprintln!("records up to event {} were compacted: only later rounds are seen", base.seq);
    }
    print(&reports);
    write(arguments.json.as_deref(), &reports)
}

fn take(evaluations: &mut [Evaluation], settings: &PolicySettings, model: &str, logged: &Logged<'_>) -> Result<()> {
    settings.check_embedding(model, logged.context().embedding.as_slice().len())?;
    Ok(evaluations.iter_mut().try_for_each(|evaluation| evaluation.take(logged))?)
}

fn print(reports: &[OffPolicyReport]) {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["policy", "estimator", "mean reward", "std. error", "rounds", "effective", "largest weight", ""]);
    let mut row = |policy: &str, estimator: &str, estimate: &Estimate| {
        let number = |number: Option<f64>| number.map_or("-".into(), |number| format!("{number:.4}"));
        table.add_row([
            policy.to_owned(),
            estimator.to_owned(),
            number(estimate.value),
            number(estimate.standard_error),
            estimate.rounds.to_string(),
            format!("{:.0}", estimate.effective_rounds),
            format!("{:.2}", estimate.weight_max),
            if estimate.warning.is_some() { "little is known".to_owned() } else { String::new() },
        ]);
    };
    for report in reports {
        let estimates =
            [("rejection", &report.rejection), ("ips", &report.ips), ("snips", &report.snips), ("dr", &report.dr)];
        estimates.into_iter().for_each(|(name, estimate)| row(&report.policy, name, estimate));
    }
    if let Some(report) = reports.first() {
        row("(as logged)", "mean", &report.logged);
    }
    for column in 2..=6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    reports.iter().for_each(print_notes);
}

/// What to know before believing the numbers.
fn print_notes(report: &OffPolicyReport) {
    let OffPolicyReport { policy, rounds, weak, unscored, refused, unsupported, seconds, .. } = report;
    println!("{policy}: {rounds} verified rounds, {weak} of weak feedback, {unscored} without a score; {seconds:.1} s");
    let warning = report.snips.warning.as_ref().or(report.dr.warning.as_ref());
    if let Some(warning) = warning {
        println!("  warning: {warning}");
    }
    if *unsupported > 0.0 {
        println!(
            "  warning: {:.1} % of what it would take could not have been taken: of that nothing is known",
            100.0 * unsupported
        );
    }
    if refused.rounds > 0 {
        println!("  {} rounds are left out", refused.rounds);
    }
    for (decision, why) in &refused.first {
        println!("  decision {decision}: {why}");
    }
}
