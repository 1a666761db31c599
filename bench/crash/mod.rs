//! The kill harness: a daemon under load is killed with -9 again and again, and after each restart everything that it
//! acknowledged must be there, once, with the same content, and what it learnt must be what its journal tells.
//!
//! The same seed gives the same load and the same plan of kills; where a kill falls within a request is the machine's
//! affair, so what it met is counted afterwards from the journal.

mod client;
mod faults;
mod ledger;
mod load;
mod proof;
mod report;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::daemon::Daemon;
use client::Client;
use ledger::Ledger;
pub use report::Report;

/// What was learnt, kept beside the journal.
const CHECKPOINT: &str = "checkpoint.json";
/// Lives between two comparisons of the recovered state with the one that is folded from zero.
const COMPARE_EVERY: u64 = 10;
/// How long a life waits for the checkpoint that it is to be killed in.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(40);

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
}

/// The moment at which a life is to be killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// Before it takes requests, this part of the usual start after it was started.
    Starting(f64),
    /// After all requests are answered and learnt.
    Idle,
    /// Under load, after so many milliseconds.
    Busy(u64),
    /// While a checkpoint is written.
    InCheckpoint,
    /// Not killed but stopped, which writes a checkpoint, so that later lives begin with one.
    Stopped,
}

/// Runs the plan in a new folder; what is wrong is in the report.
pub async fn run(plan: &Plan, folder: &Path) -> Report {
    fs::create_dir_all(folder.join("policies")).expect("the folder is the caller's");
    fs::write(folder.join("pointsman.toml"), CONFIG).expect("the folder is the caller's");
    fs::write(folder.join("policies/steady.toml"), STEADY).expect("the folder is the caller's");
    let mut lives = Lives {
        plan,
        folder,
        random: ChaCha8Rng::seed_from_u64(plan.seed),
        ledger: Arc::new(Mutex::new(Ledger::default())),
        report: Report::default(),
        hash: None,
    };
    // One more life than kills: one is stopped.
    for life in 0..=plan.kills {
        lives.live(life).await;
        if !lives.report.faults.is_empty() {
            break;
        }
    }
    if lives.report.faults.is_empty() {
        lives.end().await;
    }
    lives.report
}

struct Lives<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    random: ChaCha8Rng,
    // Guards what all workers of the load write into.
    ledger: Arc<Mutex<Ledger>>,
    report: Report,
    /// What an idle daemon had learnt just before it was killed.
    hash: Option<String>,
}

impl Lives<'_> {
    fn moment(&mut self, life: u64) -> Moment {
        let Plan { kills, in_checkpoint, life_ms, .. } = self.plan;
        if life == kills / 3 {
            return Moment::Stopped;
        }
        let every = kills / (in_checkpoint + 1);
        if *in_checkpoint > 0 && life % every == every - 1 && life / every < *in_checkpoint {
            return Moment::InCheckpoint;
        }
        match self.random.random_range(0..100) {
            0..12 if life > 0 => Moment::Starting(self.random.random_range(0.05..1.0)),
            12..24 => Moment::Idle,
            _ => Moment::Busy(self.random.random_range(30..*life_ms)),
        }
    }

    /// One life from start to kill.
    async fn live(&mut self, life: u64) {
        let moment = self.moment(life);
        if let Moment::Starting(part) = moment {
            let daemon = Daemon::spawn(&self.plan.program, self.folder);
            tokio::time::sleep(self.report.usual_start().mul_f64(part)).await;
            daemon.kill();
            self.report.starting += 1;
            return;
        }
        self.note_files();
        let Some((daemon, client)) = self.start().await else { return };
        self.repeat_unanswered(&client).await;
        let load = load::Load::start(&client, &self.ledger, self.plan.seed, life);
        match moment {
            Moment::Starting(_) => {}
            Moment::Idle | Moment::Stopped => {
                tokio::time::sleep(Duration::from_millis(self.plan.life_ms / 2)).await;
                load.finish().await;
                self.hash = proof::learnt_all(&client).await;
                self.end_idle(daemon, moment);
            }
            Moment::Busy(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                self.report.busy += 1;
                daemon.kill();
                load.abandon().await;
            }
            Moment::InCheckpoint => {
                self.wait_for_checkpoint().await;
                self.report.busy += 1;
                daemon.kill();
                load.abandon().await;
            }
        }
        if life % COMPARE_EVERY == COMPARE_EVERY - 1 {
            self.compare_with_zero().await;
        }
    }

    fn end_idle(&mut self, daemon: Daemon, moment: Moment) {
        if moment == Moment::Idle {
            self.report.idle += 1;
            daemon.kill();
        } else if !daemon.stop().success() {
            self.report.faults.other("a daemon did not stop cleanly".into());
        }
    }

    /// Starts the daemon on what the last one left and proves that nothing is missing.
    async fn start(&mut self) -> Option<(Daemon, Client)> {
        let found = proof::read_journal(self.folder).await;
        let mut daemon = Daemon::spawn(&self.plan.program, self.folder);
        let ready = daemon.ready();
        let ledger = self.ledger.lock().expect("no task panicked").clone();
        self.report.faults.absorb(std::mem::take(&mut self.ledger.lock().expect("no task panicked").faults));
        match (found, ready) {
            (Ok(found), Ok(took)) => {
                self.report.starts.push(took);
                let client = Client::new(daemon.address());
                proof::acknowledged(&found, &ledger, &mut self.report.faults);
                self.report.count_unanswered(&found, &ledger);
                proof::recovered(&client, &found, &ledger, &mut self.report.faults).await;
                if let Some(before) = self.hash.take() {
                    self.report.compared += 1;
                    let after = client.state_hash().await;
                    if after.as_ref() != Some(&before) {
                        self.report.faults.hash(format!("{before} while it lived, {after:?} after the restart"));
                    }
                }
                Some((daemon, client))
            }
            (found, ready) => {
                self.report.faults.other(format!("start: {ready:?}; journal: {:?}", found.err()));
                None
            }
        }
    }

    /// The recovered state and the one that is folded from zero; the checkpoint comes back afterwards.
    async fn compare_with_zero(&mut self) {
        let Some((daemon, client)) = self.start().await else { return };
        let recovered = client.state_hash().await;
        daemon.kill();
        let (file, aside) = (self.folder.join("data").join(CHECKPOINT), self.folder.join("checkpoint.aside"));
        let kept = fs::rename(&file, &aside).is_ok();
        let Some((daemon, client)) = self.start().await else { return };
        let from_zero = client.state_hash().await;
        daemon.kill();
        if kept {
            let _ = fs::rename(&aside, &file);
        }
        self.report.compared += 1;
        self.report.folds_from_zero.extend(self.report.starts.pop());
        if recovered.is_none() || recovered != from_zero {
            self.report.faults.hash(format!("{recovered:?} recovered, {from_zero:?} folded from zero"));
        }
    }

    /// Sends again what got no answer, under its key, and takes the answers as acknowledged.
    async fn repeat_unanswered(&mut self, client: &Client) {
        let unanswered = self.ledger.lock().expect("no task panicked").take_unanswered();
        for asked in unanswered {
            self.report.unanswered += 1;
            if !asked.is_repeatable() {
                continue;
            }
            self.report.repeated += 1;
            let answer = client.ask(&asked).await;
            self.ledger.lock().expect("no task panicked").answered(&asked, answer);
        }
    }

    async fn wait_for_checkpoint(&self) {
        let part = self.folder.join("data").join(CHECKPOINT).with_extension("part");
        let until = Instant::now() + CHECKPOINT_PATIENCE;
        while !part.exists() && Instant::now() < until {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    /// What a kill left tells where it fell.
    fn note_files(&mut self) {
        let checkpoint = self.folder.join("data").join(CHECKPOINT);
        self.report.before_checkpoint += u64::from(self.folder.join("data").exists() && !checkpoint.exists());
        let part = checkpoint.with_extension("part");
        if part.exists() {
            self.report.in_checkpoint += 1;
            // The daemon writes over it; taken away so that it is counted once.
            let _ = fs::remove_file(part);
        }
    }

    async fn end(&mut self) {
        self.note_files();
        let Some((daemon, client)) = self.start().await else { return };
        self.repeat_unanswered(&client).await;
        let last = proof::learnt_all(&client).await;
        if !daemon.stop().success() {
            self.report.faults.other("the last daemon did not stop cleanly".into());
        }
        self.hash = last;
        self.compare_with_zero().await;
        let ledger = self.ledger.lock().expect("no task panicked");
        self.report.take_counts(&ledger);
    }
}
