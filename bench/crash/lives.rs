//! Lives of a daemon on one data folder, each from its start to its kill, with the proof between them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    super::daemon::Daemon,
    Moment, Plan,
    client::Client,
    faults::Faults,
    found::{Found, copy_journal},
    ledger::Ledger,
    load::Load,
    proof,
    report::Report,
    row::{Proved, Row, Tail},
};

/// What was learnt, kept beside the journal.
const CHECKPOINT: &str = "checkpoint.json";
/// How long a life waits for the checkpoint that it is to be killed in.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(40);
/// How long the stopped life waits for the first answered task.
const ANSWER_PATIENCE: Duration = Duration::from_secs(40);

/// The life that is stopped, where there are so many.
const STOPPED_LIFE: u64 = 5;

pub struct Lives<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    random: ChaCha8Rng,
    // Guards what all workers of the load write into.
    ledger: Arc<Mutex<Ledger>>,
    report: Report,
    /// What an idle daemon had learnt just before it was killed.
    hash: Option<String>,
    /// The last life, whose end is not proved yet.
    ended: Option<Row>,
}

impl<'a> Lives<'a> {
    pub fn new(plan: &'a Plan, folder: &'a Path) -> Self {
        Self {
            plan,
            folder,
            random: ChaCha8Rng::seed_from_u64(plan.seed),
            ledger: Arc::default(),
            report: Report::default(),
            hash: None,
            ended: None,
        }
    }

    pub async fn run(mut self) -> Report {
        println!("{}", Row::header());
        // One more life than kills: one is stopped.
        for life in 0..=self.plan.kills {
            self.live(life).await;
            if !self.report.faults.is_empty() {
                break;
            }
        }
        if self.report.faults.is_empty() {
            if let Some(harm) = self.plan.harm {
                let acknowledged = self.ledger().done.keys().next().cloned().expect("the stopped life waited for one");
                harm(&self.data(), &acknowledged);
            }
            self.end().await;
        }
        let Self { ledger, mut report, .. } = self;
        let ledger = ledger.lock().expect("no task panicked");
        (report.acknowledged, report.refused) = (ledger.acknowledged, ledger.refused.clone());
        report
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no task panicked")
    }

    fn moment(&mut self, life: u64) -> Moment {
        let Plan { kills, in_checkpoint, life_ms, .. } = self.plan;
        // Early, so that most lives begin with the checkpoint that it leaves.
        if life == (kills / 3).min(STOPPED_LIFE) {
            return Moment::Stopped;
        }
        let every = kills / (in_checkpoint + 1);
        if *in_checkpoint > 0 && life % every == every - 1 && life / every < *in_checkpoint {
            return Moment::InCheckpoint;
        }
        match self.random.random_range(0..100) {
            0..12 if life > 0 => Moment::Starting(self.random.random_range(0.05..1.0)),
            12..22 => Moment::Idle,
            22..30 => Moment::Stopping(self.random.random_range(0..200)),
            _ => Moment::Busy(self.random.random_range(30..*life_ms)),
        }
    }

    /// One life from start to end.
    async fn live(&mut self, life: u64) {
        let moment = self.moment(life);
        if let Moment::Starting(part) = moment {
            let daemon = Daemon::spawn(&self.plan.program, self.folder);
            tokio::time::sleep(self.report.usual_start().mul_f64(part)).await;
            daemon.kill();
            self.say_ended(Row::new(life, moment, 0));
            return;
        }
        let Some((daemon, client)) = self.start().await else { return };
        self.repeat_unanswered(&client).await;
        let before = self.ledger().acknowledged;
        let load = Load::start(&client, &self.ledger, self.plan.seed, life);
        let half = Duration::from_millis(self.plan.life_ms / 2);
        match moment {
            Moment::Starting(_) => {}
            Moment::Idle => {
                tokio::time::sleep(half).await;
                load.finish().await;
                self.hash = proof::learnt_all(&client).await;
                daemon.kill();
            }
            Moment::Busy(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                daemon.kill();
                load.finish().await;
            }
            Moment::InCheckpoint => {
                self.wait_for_checkpoint().await;
                daemon.kill();
                load.finish().await;
            }
            Moment::Stopping(ms) => {
                tokio::time::sleep(half).await;
                daemon.interrupt();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                daemon.kill();
                load.finish().await;
            }
            Moment::Stopped => {
                tokio::time::sleep(half).await;
                self.wait_for_an_answer().await;
                self.stop(daemon).await;
                load.finish().await;
            }
        }
        let acknowledged = self.ledger().acknowledged - before;
        self.say_ended(Row::new(life, moment, acknowledged));
    }

    /// Stops a daemon, which leaves the whole journal in one file.
    async fn stop(&mut self, daemon: Daemon) {
        let stopped = tokio::task::spawn_blocking(move || daemon.stop()).await;
        if !stopped.is_ok_and(|status| status.success()) {
            self.report.faults.other("a daemon did not stop cleanly".into());
        }
        if self.data().join("journal.sqlite-wal").exists() {
            self.report.faults.other("a clean stop left a write-ahead log".into());
        }
    }

    /// Notes how a life ended; the line is printed once it is proved.
    fn say_ended(&mut self, row: Row) {
        self.report.note_end(row.moment);
        self.note_files();
        // The one before was killed before it took requests, so that the next proof holds for it too.
        if let Some(before) = self.ended.replace(row) {
            println!("{before}");
        }
    }

    /// Starts the daemon on what the last one left and proves that nothing is missing.
    async fn start(&mut self) -> Option<(Daemon, Client)> {
        let copy = self.folder.join("copy");
        let journal = copy_journal(self.folder, &copy).expect("the folder is the caller's");
        let found = Found::read(&journal).await;
        let mut daemon = Daemon::spawn(&self.plan.program, self.folder);
        let ready = daemon.ready();
        let mut faults = std::mem::take(&mut self.ledger().faults);
        let ledger = self.ledger().clone();
        let started = match (found, ready) {
            (Ok(found), Ok(start)) => {
                let client = Client::new(daemon.address());
                let there = proof::acknowledged(&found, &ledger, &mut faults);
                self.report.count_unanswered(&found, &ledger);
                let state = client.state_hash().await;
                proof::recovered(&client, &found, &ledger, &mut faults).await;
                let from_zero = self.fold_from_zero(&copy, state.as_deref(), &mut faults).await;
                self.say_proved(Proved {
                    held: ledger.held(),
                    there,
                    events: found.events,
                    tail: Tail::told(&daemon.log()),
                    start,
                    from_zero,
                    state,
                    violations: faults.count(),
                });
                Some((daemon, client))
            }
            (found, ready) => {
                faults.other(format!("start: {:?}; journal: {:?}", ready.err(), found.err()));
                None
            }
        };
        self.report.faults.absorb(faults);
        started
    }

    fn say_proved(&mut self, proved: Proved) {
        self.report.proofs.push(proved.clone());
        if let Some(mut row) = self.ended.take() {
            row.proved = Some(proved);
            println!("{row}");
        }
    }

    /// What a second daemon folds out of the journal alone must be what the first one recovered, and what an idle one had
    /// learnt before it was killed.
    async fn fold_from_zero(&mut self, copy: &Path, state: Option<&str>, faults: &mut Faults) -> Duration {
        let mut daemon = Daemon::spawn(&self.plan.program, copy);
        let took = match daemon.ready() {
            Ok(took) => took,
            Err(refusal) => {
                faults.other(format!("it does not start from zero: {refusal}"));
                return Duration::ZERO;
            }
        };
        let from_zero = Client::new(daemon.address()).state_hash().await;
        if state.is_none() || state != from_zero.as_deref() {
            faults.hash(format!("{state:?} recovered, {from_zero:?} folded from zero"));
        }
        self.report.compared += 1;
        if let Some(before) = self.hash.take() {
            self.report.compared += 1;
            if state != Some(&before) {
                faults.hash(format!("{before} while it lived, {state:?} after the restart"));
            }
        }
        daemon.kill();
        took
    }

    /// Sends again what got no answer, under its key, and takes the answers as acknowledged.
    async fn repeat_unanswered(&mut self, client: &Client) {
        let unanswered = self.ledger().take_unanswered();
        for asked in unanswered {
            self.report.unanswered += 1;
            if !asked.is_repeatable() {
                continue;
            }
            self.report.repeated += 1;
            let answer = client.ask(&asked).await;
            self.ledger().answered(&asked, answer);
        }
    }

    /// A slow machine may not answer a single task in the time of a life.
    async fn wait_for_an_answer(&self) {
        let until = Instant::now() + ANSWER_PATIENCE;
        while self.ledger().done.is_empty() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn wait_for_checkpoint(&self) {
        let part = self.data().join(CHECKPOINT).with_extension("part");
        let until = Instant::now() + CHECKPOINT_PATIENCE;
        while !part.exists() && Instant::now() < until {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    /// What a kill left tells where it fell.
    fn note_files(&mut self) {
        let checkpoint = self.data().join(CHECKPOINT);
        self.report.before_checkpoint += u64::from(!checkpoint.exists());
        let part = checkpoint.with_extension("part");
        if part.exists() {
            self.report.in_checkpoint += 1;
            // The daemon writes over it; taken away so that it is counted once.
            let _ = fs::remove_file(part);
        }
    }

    /// The proof of the last kill, and that a stop keeps what was learnt.
    async fn end(&mut self) {
        let Some((daemon, client)) = self.start().await else { return };
        self.repeat_unanswered(&client).await;
        self.hash = proof::learnt_all(&client).await;
        self.stop(daemon).await;
        self.ended = Some(Row::new(self.plan.kills + 1, Moment::Stopped, 0));
        let Some((daemon, _)) = self.start().await else { return };
        daemon.kill();
    }
}
