//! The report of replays as one HTML file that opens offline: tables, regret curves, cost against score with the Pareto
//! front, and who did the work in each domain.
//!
//! Everything is inside: the chart library (uPlot, as on the dashboard), the style, the script, and the numbers as JSON. Names
//! come from datasets, so they are untrusted: the numbers cannot end their script element, and the script only ever puts
//! them in as text.

use serde::{Deserialize, Serialize};

use super::PolicyReport;

const PAGE: &str = include_str!("report.html");
const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
const UPLOT: &str = include_str!("../../dashboard/page/uplot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../dashboard/page/uplot.min.css");

/// Replays of one stream under one rule, which may be compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// What it is.
    pub title: String,
    /// What to know before reading it.
    pub note: String,
    /// Its policies.
    pub rows: Vec<Row>,
}

/// One policy, or a reference that it is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it found.
    #[serde(flatten)]
    pub report: PolicyReport,
    /// Where it stands in the comparison.
    pub kind: Kind,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A policy that was replayed.
    Replayed,
    /// Decisions that somebody published, scored as given.
    Published,
    /// A bound or a habit that knows the outcomes.
    Reference,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Replayed => "replayed",
            Self::Published => "published",
            Self::Reference => "reference",
        })
    }
}

/// The whole file.
pub fn render(title: &str, sections: &[Section]) -> Result<String, serde_json::Error> {
    // Within a script element only "<" could end it.
    let data = serde_json::to_string(sections)?.replace('<', "\\u003c");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let parts = [
        ("{{title}}", title.as_str()),
        ("{{uplot_style}}", UPLOT_STYLE),
        ("{{style}}", STYLE),
        ("{{uplot}}", UPLOT),
        ("{{script}}", SCRIPT),
        ("{{data}}", data.as_str()),
    ];
    let mut page = String::with_capacity(PAGE.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = PAGE;
    for (mark, text) in parts {
        // The page names each mark once, in this order.
        let Some((before, after)) = rest.split_once(mark) else { continue };
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_takes_every_part_and_a_name_cannot_leave_its_place() {
        let title = "<b>&";
        let section = Section { title: "</script><script>alert(1)".into(), note: "n".into(), rows: vec![] };
        let page = render(title, &[section]).unwrap();
        assert!(!page.contains("{{"), "a mark is left");
        assert!(page.contains("<title>&lt;b>&amp;</title>"));
        assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)"));
        assert_eq!(page.matches("</script>").count(), PAGE.matches("</script>").count());
        assert!(!page.contains("http://") || !page.contains("src=\"http"), "the page loads something");
    }
}
