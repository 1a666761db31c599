//! `pointsman explain`: why this arm.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::{
    ask::{Running, Where, show, table},
    folders::Folders,
};

#[derive(Args)]
#[command(after_help = "Example:
  pointsman explain 0197c2f1-5d2e-7c3b-9a41-6f0d5d1f7c11     the decision_id of an answer")]
pub(super) struct ExplainArguments {
    #[command(flatten)]
    place: Where,
    /// The decision.
    decision: String,
}

pub(super) async fn run(arguments: ExplainArguments, folders: &Folders) -> Result<()> {
    let ExplainArguments { place, decision } = arguments;
    let why: Value = Running::find(&place, folders)?.get(&format!("/v1/decisions/{decision}"), &[]).await?;
    show(place.json, &why, render)
}

fn render(why: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let number = |value: &Value, digits: usize| value.as_f64().map_or("-".into(), |x| format!("{x:.digits$}"));
    let (decision, context) = (&why["decision"], &why["context"]);
    let prompt: String = text(&why["task"]["prompt"]).chars().take(100).collect();
    let mut lines = vec![
        format!("task {} in {}: {}", text(&why["task"]["id"]), text(&why["task"]["domain"]), prompt.replace('\n', " ")),
        format!(
            "took {} with probability {} ({}), by {} of {} after {} rounds",
            text(&decision["arm"]),
            number(&decision["propensity"], 4),
            text(&decision["reason"]),
            text(&decision["policy"]["name"]),
            text(&decision["policy"]["card"]),
            decision["learnt_rounds"],
        ),
    ];
    let voters = list(&decision["voters"]);
    let mut header = vec!["arm", "p", "expected", "usd", "prior", "rounds here", "recalled", "mass"].into_iter();
    let mut header: Vec<String> = header.by_ref().map(String::from).collect();
    header.extend(voters.iter().map(|voter| format!("{} x{}", text(&voter["policy"]), number(&voter["weight"], 2))));
    let mut arms = table([], &[]);
    arms.set_header(header);
    let candidates = list(&context["candidates"]);
    for (place, entry) in list(&decision["pmf"]).iter().enumerate() {
        let features = &candidates.get(place).unwrap_or(&Value::Null)["features"];
        let mut row = vec![
            text(&entry["arm"]),
            number(&entry["p"], 4),
            number(&entry["expected"], 3),
            number(&candidates.get(place).unwrap_or(&Value::Null)["cost_usd"], 6),
            number(&features["prior_mean"], 3),
            number(&features["prior_rounds"], 0),
            number(&features["recall_mean"], 3),
            number(&features["recall_mass"], 2),
        ];
        row.extend(voters.iter().map(|voter| number(&voter["pmf"][place]["p"], 3)));
        arms.add_row(row);
    }
    lines.push(arms.to_string());
    for masked in list(&context["masked"]) {
        lines.push(format!("not eligible: {} ({})", text(&masked["arm"]), masked["why"]));
    }
    lines.push(format!("recall: {}, {} neighbours", text(&context["recall"]), list(&context["neighbours"]).len()));
    for feedback in list(&why["feedback"]) {
        lines.push(format!(
            "feedback by {}: score {}, reward {}, {} usd",
            text(&feedback["source"]),
            number(&feedback["score"], 3),
            number(&feedback["reward"], 4),
            number(&feedback["cost_usd"], 6),
        ));
    }
    lines.join("\n")
}
