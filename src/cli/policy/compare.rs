//! `pointsman policy compare`: which of two policies would have brought more, from a log.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::UTF8_HORIZONTAL_ONLY};
use pointsman::{
    action::policy::{PolicySettings, build},
    replay::off_policy::{Comparison, ComparisonReport, Evaluation, OffPolicyReport, Verdict},
};

use super::super::{
    folders::{Folders, cards},
    replay::{
        estimates::{interval_header, number, print_miscalibrated, print_notes, range, refuse},
        log::{Log, LogArguments},
        write,
    },
};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman policy compare ensemble lin_ucb                      on the journal of the user's data folder
  pointsman policy compare ensemble lin_ucb --journal data       a daemon may be writing to it
  pointsman policy compare mine default --journal data           two cards, each with its policy
  pointsman policy compare default:lin_ucb wide.toml:lin_ucb     policies of cards, by name or by file
  pointsman policy compare uniform lin_ucb --log vw.dsjson.gz    on a log of Vowpal Wabbit's

Each policy is a policy's name (`pointsman policy names`), with --card its settings; or CARD or CARD:POLICY, a card by its name;
or FILE.toml or FILE.toml:POLICY. What is a policy's name is taken for a policy.

The interval of the difference holds however often one looks: run it again as rounds come in, and stop when it is told.")]
pub(super) struct CompareArguments {
    /// A policy or a card.
    a: String,
    /// The one to compare it with.
    b: String,
    /// A daemon's data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    log: LogArguments,
    /// A card with the settings of policies that are named without one.
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// The folder of cards [default: `policies` in the data folder, beside it, or here].
    #[arg(long, value_name = "DIR")]
    cards: Option<PathBuf>,
    /// Write what was found as one JSON object.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One of the two.
struct Contender {
    /// As it was asked for.
    label: String,
    policy: String,
    settings: PolicySettings,
}

pub(super) async fn run(arguments: CompareArguments, folders: &Folders) -> Result<()> {
    let default = folders.data.join("journal.sqlite").exists().then_some(&folders.data);
    let folder = arguments.journal.as_ref().or(default).map(PathBuf::as_path);
    if folder.is_none() && arguments.log.log.is_none() {
        bail!(
            "there is no journal in {}: give --journal DIR, a daemon's data folder, or --log FILE, a log of Vowpal Wabbit's",
            folders.data.display()
        );
    }
    let base = PolicySettings::load(arguments.card.as_deref())?;
    let cards = cards(folder.unwrap_or(Path::new(".")), arguments.cards.as_deref())?;
    let a = Contender::find(&arguments.a, &base, cards.as_deref())?;
    let b = Contender::find(&arguments.b, &base, cards.as_deref())?;
    let log = Log::open(folder, &arguments.log).await?;
    let mut comparison = Comparison::new(a.evaluation(), b.evaluation(), arguments.log.alpha);
    let told = log.tell("comparing", |logged| {
        let dimension = logged.context().embedding.as_slice().len();
        a.settings.check_embedding(log.embedding_model(), dimension)?;
        b.settings.check_embedding(log.embedding_model(), dimension)?;
        Ok(comparison.take(logged)?)
    });
    let told = told.await;
    log.close().await;
    told?;
    let report = comparison.report();
    refuse([&report.a, &report.b])?;
    print(&report);
    write(arguments.json.as_deref(), &report)
}

impl Contender {
    /// A policy's name, a card with or without a policy of it, or a card's file likewise.
    fn find(text: &str, base: &PolicySettings, cards: Option<&Path>) -> Result<Self> {
        let found = |settings: PolicySettings, policy: Option<&str>| {
            let policy = policy.unwrap_or(&settings.policy).to_owned();
            build(&policy, &settings)?;
            settings.warnings().iter().for_each(|warning| eprintln!("{warning}"));
            Ok(Self { label: text.to_owned(), policy, settings })
        };
        let file = text.ends_with(".toml").then_some((text, None));
        let of_file = text.find(".toml:").map(|at| (&text[..at + 5], Some(&text[at + 6..])));
        if let Some((file, policy)) = file.or(of_file) {
            return found(PolicySettings::load(Some(Path::new(file)))?, policy);
        }
        let no_policy = match build(text, base) {
            Ok(_) => return found(base.clone(), Some(text)),
            Err(error) => error,
        };
        let (card, policy) = text.split_once(':').map_or((text, None), |(card, policy)| (card, Some(policy)));
        let file = cards.map(|folder| folder.join(format!("{card}.toml"))).filter(|file| file.is_file());
        if file.is_some() || card == PolicySettings::default().name {
            return found(PolicySettings::load(file.as_deref())?, policy);
        }
        let cards = cards.map_or("there is no folder of cards: name it with --cards DIR".to_owned(), |folder| {
            format!("{} has no {card}.toml", folder.display())
        });
        bail!("{text} is neither a policy nor a card: {no_policy}; {cards}")
    }

    fn evaluation(&self) -> Evaluation {
        // A failure to build was ruled out before.
        Evaluation::new(&self.label, &|| build(&self.policy, &self.settings).expect("built once already"))
    }
}

fn print(report: &ComparisonReport) {
    let ComparisonReport { a, b, difference, interval, alpha, .. } = report;
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "policy", "mean reward", &interval_header(*alpha), "effective"]);
    for (name, OffPolicyReport { policy, dr, .. }) in [("A", a), ("B", b)] {
        let effective = format!("{:.0} of {}", dr.effective_rounds, dr.rounds.max(report.a.rounds));
        table.add_row([name.to_owned(), policy.clone(), number(dr.value), range(dr.interval), effective]);
    }
    table.add_row(["A - B".to_owned(), String::new(), number(*difference), range(*interval), String::new()]);
    for column in 2..=4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    println!("{}", verdict(report));
    println!(
        "doubly robust estimates; intervals hold at every round at once, those of the difference on paired rounds"
    );
    [a, b].into_iter().for_each(print_notes);
    print_miscalibrated(a);
}

/// What was found, in plain words.
fn verdict(report: &ComparisonReport) -> String {
    let (a, b) = (&report.a.policy, &report.b.policy);
    match (report.verdict, report.difference, report.more_rounds) {
        (Verdict::A, ..) => format!("A ({a}) is better than B ({b})."),
        (Verdict::B, ..) => format!("B ({b}) is better than A ({a})."),
        (Verdict::Same, ..) => format!("A ({a}) and B ({b}) said the same of every round: there is no difference."),
        (Verdict::Unknown, None, _) => "It cannot be told: there is no verified round.".into(),
        (Verdict::Unknown, Some(_), None) => {
            "It cannot be told yet: the differences so far say too little of how much they vary. More rounds are needed.".into()
        }
        (Verdict::Unknown, Some(difference), Some(more)) => format!(
            "It cannot be told yet. A difference of {:.4}, as it is now, would show after about {more} more rounds at this \
             variance.",
            difference.abs()
        ),
    }
}
