//! The kill harness: a daemon under load is killed with -9 again and again, and after each restart everything that it
//! acknowledged must be there, once, with the same content; what it learnt must be what a second daemon folds from zero out
//! of a copy of its journal, bit for bit; and `pointsman journal verify` must find nothing.
//!
//! The same seed gives the same load and the same plan of kills; where a kill falls within a request is the machine's
//! affair, so what it met is counted afterwards from the journal.

mod client;
mod faults;
mod found;
mod ledger;
mod lives;
mod load;
mod proof;
mod report;
mod row;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

pub use report::Report;

/// Three workers, one of them slow, and a memory that turns over.
const CONFIG: &str = r#"
[memory]
cap = 500

[domains.math]
[domains.text]

[[arms]]
id = "good"
kind = "scripted"
default_skill = 0.9
input_usd_per_1m = 1.0
output_usd_per_1m = 2.0

[[arms]]
id = "slow"
kind = "scripted"
default_skill = 0.8
latency_ms = 120

[[arms]]
id = "bad"
kind = "scripted"
default_skill = 0.1
"#;
const STEADY: &str = "name = \"steady\"\npolicy = \"lin_ucb\"\n";

/// How often and how long.
#[derive(Debug, Clone)]
pub struct Plan {
    pub program: PathBuf,
    pub kills: u64,
    pub seed: u64,
    /// The longest that a life is loaded before it is killed.
    pub life_ms: u64,
    /// Lives that are killed while a checkpoint is written; each needs some thousands of rounds.
    pub in_checkpoint: u64,
    /// Harms the data folder before the last start: a harness that does not see it proves nothing.
    pub harm: Option<Harm>,
}

/// Takes the data folder and a decision whose outcome was acknowledged.
pub type Harm = fn(&Path, &str);

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Moment {
    /// Killed before it takes requests, this part of the usual start after it was started.
    Starting(f64),
    /// Killed after all requests are answered and learnt.
    Idle,
    /// Killed under load, after so many milliseconds.
    Busy(u64),
    /// Killed under load, while a checkpoint is written.
    InCheckpoint,
    /// Asked to stop under load, and killed so many milliseconds later.
    Stopping(u64),
    /// Not killed but stopped under load, which writes a checkpoint, so that later lives begin with one.
    Stopped,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Starting(part) => format!("starting, at {:.0} %", 100.0 * part),
            Self::Idle => "idle".into(),
            Self::Busy(ms) => format!("loaded for {ms} ms"),
            Self::InCheckpoint => "writing a checkpoint".into(),
            Self::Stopping(ms) => format!("stopping for {ms} ms"),
            Self::Stopped => "(stopped)".into(),
        };
        f.pad(&text)
    }
}

/// Runs the plan in a new folder, and prints a line for each life; what is wrong is in the report.
pub async fn run(plan: &Plan, folder: &Path) -> Report {
    fs::create_dir_all(folder.join("policies")).expect("the folder is the caller's");
    fs::write(folder.join("pointsman.toml"), CONFIG).expect("the folder is the caller's");
    fs::write(folder.join("policies/steady.toml"), STEADY).expect("the folder is the caller's");
    lives::Lives::new(plan, folder).run().await
}
