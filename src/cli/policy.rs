//! `pointsman policy`: which policy decides, which is on trial, whether a card is right, and which of two is better.

mod compare;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use pointsman::{
    action::policy::{NAMES, WRAPPERS},
    router::Card,
};
use serde_json::{Value, json};

use super::{
    ask::{Running, Where, show, table},
    folders::Folders,
};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman policy list                         the policy that decides, the trial, the cards
  pointsman policy check policies/mine.toml     every problem of a card at once
  pointsman policy shadow mine                  put a card on trial: it decides nothing, and is measured
  pointsman policy promote mine                 let it decide
  pointsman policy promote default --policy lin_ucb
  pointsman policy rollback                     let the one before decide again
  pointsman policy compare mine default         which would have brought more, from the journal")]
pub(super) struct PolicyArguments {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Show the policies, the cards and the voters' weights.
    List {
        #[command(flatten)]
        place: Where,
    },
    /// Show the policies that a card can put to work.
    Names,
    /// Check a card's file.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Put a card on trial, or end the trial.
    Shadow {
        /// The card; none ends the trial.
        card: Option<String>,
        /// A policy of it, instead of the one that it names.
        #[arg(long, value_name = "P", requires = "card")]
        policy: Option<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Let a card decide.
    Promote {
        /// The card.
        card: String,
        /// A policy of it, instead of the one that it names.
        #[arg(long, value_name = "P")]
        policy: Option<String>,
        #[command(flatten)]
        place: Where,
    },
    /// Let the policy decide again that did before the present one.
    Rollback {
        #[command(flatten)]
        place: Where,
    },
    /// Estimate which of two policies would have brought more, from a journal or another log.
    Compare(Box<compare::CompareArguments>),
}

pub(super) async fn run(arguments: PolicyArguments, folders: &Folders) -> Result<()> {
    let (path, body, place) = match arguments.command {
        PolicyCommand::Names => {
            println!("{}", NAMES.join("\n"));
            println!("\nbefore any of them, outermost first: {}", WRAPPERS.map(|name| format!("{name}:")).join(" "));
            return Ok(());
        }
        PolicyCommand::Check { file } => return check(&file),
        PolicyCommand::Compare(arguments) => return compare::run(*arguments, folders).await,
        PolicyCommand::List { place } => {
            let report: Value = Running::find(&place, folders)?.get("/v1/policies", &[]).await?;
            return show(place.json, &report, render);
        }
        PolicyCommand::Shadow { card, policy, place } => ("shadow", json!({"card": card, "policy": policy}), place),
        PolicyCommand::Promote { card, policy, place } => ("promote", json!({"card": card, "policy": policy}), place),
        PolicyCommand::Rollback { place } => ("rollback", json!({}), place),
    };
    let report: Value = Running::find(&place, folders)?.post(&format!("/v1/policies/{path}"), body).await?;
    show(place.json, &report, render)
}

fn check(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let card = Card::parse(&text, file.parent().unwrap_or(Path::new(".")))?;
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if card.name() != stem {
        bail!("the card's name is {:?} and its file's {stem:?}: a daemon takes it when they are the same", card.name());
    }
    println!("{} is right: {} puts {} to work", file.display(), card.label(), card.settings.policy);
    Ok(())
}

/// What a trial has shown, where that is known.
fn difference(difference: &Value) -> String {
    if difference.is_null() {
        return String::new();
    }
    let [mean, low, high] = ["mean", "low", "high"].map(|key| difference[key].as_f64().unwrap_or_default());
    format!("; {mean:+.3} a round, from {low:+.3} to {high:+.3} with 95 %")
}

fn render(report: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let number = |value: &Value| value.as_f64().map_or("-".into(), |number| format!("{number:.4}"));
    let champion = &report["champion"];
    let mut lines = vec![format!(
        "decides: {} of {}, {} rounds learnt",
        text(&champion["name"]),
        text(&champion["card"]),
        report["learnt_rounds"]
    )];
    let shadow = &report["shadow"];
    lines.push(if shadow.is_null() {
        "on trial: none".into()
    } else {
        format!(
            "on trial: {} of {}: mean reward {} (estimated, worth {:.0} of {} rounds) against {}{}",
            text(&shadow["policy"]["name"]),
            text(&shadow["policy"]["card"]),
            number(&shadow["shadow_reward"]),
            shadow["effective_rounds"].as_f64().unwrap_or_default(),
            shadow["rounds"],
            number(&shadow["champion_reward"]),
            difference(&shadow["difference"]),
        )
    });
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut cards = table(["card", "policy", "problem"], &[]);
    for card in list(&report["cards"]) {
        cards.add_row([text(&card["name"]), text(&card["policy"]), card["problem"].as_str().unwrap_or("").to_owned()]);
    }
    lines.push(cards.to_string());
    let mut weights = table(["domain", "voter", "weight"], &[2]);
    for domain in list(&report["weights"]) {
        for voter in list(&domain["voters"]) {
            weights.add_row([text(&domain["domain"]), text(&voter[0]), number(&voter[1])]);
        }
    }
    if !list(&report["weights"]).is_empty() {
        lines.push(weights.to_string());
    }
    lines.join("\n")
}
