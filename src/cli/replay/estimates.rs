//! What other policies would have brought, from a log: estimates, where the truth is, and what to know before believing it.

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::{PolicySettings, build},
    regret::Interval,
    replay::off_policy::{Estimate, Evaluation, IntervalKind, OffPolicyReport},
};

use super::{ReplayArguments, log::Log, write};

pub(super) async fn run(arguments: &ReplayArguments, log: Log) -> Result<()> {
    let found = evaluate(arguments, &log).await;
    log.close().await;
    let reports = found?;
    refuse(&reports)?;
    print(&reports);
    write(arguments.json.as_deref(), &reports)
}

async fn evaluate(arguments: &ReplayArguments, log: &Log) -> Result<Vec<OffPolicyReport>> {
    let settings = PolicySettings::load(arguments.card.as_deref())?;
    settings.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    let policies = if arguments.policy.is_empty() { vec![settings.policy.clone()] } else { arguments.policy.clone() };
    for policy in &policies {
        build(policy, &settings)?;
    }
    // A failure to build was ruled out before.
    let evaluation = |policy: &String| {
        Evaluation::new(policy, &|| build(policy, &settings).expect("built once already"))
            .with_alpha(arguments.log.alpha)
    };
    let mut evaluations: Vec<_> = policies.iter().map(evaluation).collect();
    log.tell("evaluating", |logged| {
        settings.check_embedding(log.embedding_model(), logged.context().embedding.as_slice().len())?;
        Ok(evaluations.iter_mut().try_for_each(|evaluation| evaluation.take(logged))?)
    })
    .await?;
    Ok(evaluations.iter().map(Evaluation::report).collect())
}

/// Fails where the log could never say anything of another policy.
pub(in crate::cli) fn refuse<'a>(reports: impl IntoIterator<Item = &'a OffPolicyReport>) -> Result<()> {
    let Some((report, why)) = reports.into_iter().find_map(|report| Some((report, report.unusable?))) else {
        return Ok(());
    };
    let first = report.refused.first.first().map(|(decision, why)| format!(" (decision {decision}: {why})"));
    bail!("this log cannot be evaluated: {why}{}", first.unwrap_or_default())
}

fn print(reports: &[OffPolicyReport]) {
    let Some(report) = reports.first() else { return };
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    let interval = interval_header(report.alpha);
    table.set_header([
        "policy",
        "estimator",
        "mean reward",
        &interval,
        "kind",
        "std. error",
        "rounds",
        "effective",
        "largest weight",
        "",
    ]);
    let mut row = |policy: &str, estimator: &str, estimate: &Estimate| {
        table.add_row([
            policy.to_owned(),
            estimator.to_owned(),
            number(estimate.value),
            range(estimate.interval),
            estimate.interval_kind.map_or("", IntervalKind::words).to_owned(),
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
    row("(as logged)", "mean", &report.logged);
    for column in [2, 3, 5, 6, 7, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    reports.iter().for_each(print_notes);
    print_miscalibrated(report);
}

/// What intervals are called at this level.
pub(in crate::cli) fn interval_header(alpha: f64) -> String {
    format!("{} % interval", format!("{:.4}", 100.0 * (1.0 - alpha)).trim_end_matches('0').trim_end_matches('.'))
}

pub(in crate::cli) fn number(number: Option<f64>) -> String {
    number.map_or("-".into(), |number| format!("{number:.4}"))
}

pub(in crate::cli) fn range(interval: Option<Interval>) -> String {
    interval.map_or("-".into(), |Interval { low, high }| format!("{low:.4} to {high:.4}"))
}

/// What to know before believing the numbers.
pub(in crate::cli) fn print_notes(report: &OffPolicyReport) {
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

/// Arms that were not taken as often as the log says.
pub(in crate::cli) fn print_miscalibrated(report: &OffPolicyReport) {
    report.miscalibrated.iter().for_each(|arm| println!("warning: {arm}"));
}
