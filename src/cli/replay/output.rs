//! What replays found, as a table, as CSV and as a page.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    journal::now_ms,
    replay::page::{Section, render},
};

use crate::cli::folders::reports;

/// The files that were asked for.
pub(in crate::cli) struct Wanted<'a> {
    pub csv: Option<&'a Path>,
    pub html: Option<&'a Path>,
    pub save: Save<'a>,
}

/// Where a report is saved for a daemon's page.
pub(in crate::cli) struct Save<'a> {
    pub name: Option<&'a str>,
    /// The daemon's data folder.
    pub data: &'a Path,
}

impl Wanted<'_> {
    pub fn write(&self, title: &str, sections: &[Section]) -> Result<()> {
        if let Some(path) = self.csv {
            fs::write(path, csv(sections)?).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(path) = self.html {
            fs::write(path, render(title, sections)?).with_context(|| format!("cannot write {}", path.display()))?;
            eprintln!("{} opens in a browser, without a network", path.display());
        }
        if let Some(name) = self.save.name {
            let path = reports(self.save.data).save(name, title, sections, now_ms())?;
            eprintln!("{} is on the daemon's pages, under Reports", path.display());
        }
        Ok(())
    }
}

/// Prints one section.
pub(in crate::cli) fn print(section: &Section) {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "policy",
        "",
        "mean score",
        "cum. regret",
        "sd",
        "cost (usd)",
        "attempts",
        "most used",
        "seconds",
    ]);
    for row in &section.rows {
        let report = &row.report;
        let most = report.share_by_arm.iter().max_by(|a, b| a.1.total_cmp(b.1));
        table.add_row([
            report.policy.clone(),
            row.kind.to_string(),
            format!("{:.4}", report.mean_score),
            format!("{:.1}", report.cum_regret),
            format!("{:.1}", report.cum_regret_sd),
            format!("{:.4}", report.total_cost_usd),
            format!("{:.2}", report.attempts_mean),
            most.map(|(arm, share)| format!("{arm} {:.0} %", 100.0 * share)).unwrap_or_default(),
            format!("{:.1}", report.seconds),
        ]);
    }
    for column in [2, 3, 4, 5, 6, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}\n{}: {}", section.title, section.note);
}

/// One line a policy, and one for each of its domains.
fn csv(sections: &[Section]) -> Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record([
        "section",
        "policy",
        "kind",
        "domain",
        "n",
        "seeds",
        "mean_score",
        "cum_regret",
        "cum_regret_sd",
        "total_cost_usd",
        "attempts_mean",
        "seconds",
    ])?;
    for (section, row) in sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row))) {
        let report = &row.report;
        let start = |domain: &str, n: usize| {
            let (kind, seeds) = (row.kind.to_string(), report.seeds.to_string());
            [section.title.clone(), report.policy.clone(), kind, domain.to_owned(), n.to_string(), seeds]
        };
        let numbers = [
            report.mean_score,
            report.cum_regret,
            report.cum_regret_sd,
            report.total_cost_usd,
            report.attempts_mean,
            report.seconds,
        ];
        csv.write_record(start("", report.n).into_iter().chain(numbers.map(|number| number.to_string())))?;
        for (domain, of) in &report.domains {
            let numbers = [of.mean_score, of.cum_regret].map(|number| number.to_string());
            let rest = [String::new(), of.total_cost_usd.to_string(), String::new(), String::new()];
            csv.write_record(start(domain.as_str(), of.n).into_iter().chain(numbers).chain(rest))?;
        }
    }
    Ok(csv.into_inner()?)
}
