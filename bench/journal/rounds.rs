//! Rounds as a daemon journaled them, again under new ids: realistic records at the speed of the journal alone.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pointsman::{
    journal::{Decided, Event, Journal, JournalReader, JournalSettings, NewEvent, Synchronous},
    round::{DecisionId, Feedback, Outcome, TaskId},
};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::mpsc, task::JoinSet};

const MODEL: &str = "all-MiniLM-L6-v2";
/// Rounds kept of a journal.
const KEPT: i64 = 1_500;
const COUNTED: Duration = Duration::from_secs(5);

struct Round {
    decided: Decided,
    outcome: Outcome,
    feedback: Feedback,
}

/// Rounds of a real journal.
pub struct Rounds(Arc<Vec<Round>>);

impl Rounds {
    /// Reads the last rounds of a journal that nobody writes.
    pub fn read(path: &Path) -> Self {
        runtime().block_on(async {
            let journal = JournalReader::open(path, MODEL).await.expect("it is a journal");
            let last = journal.last_seq().await.expect("it can be read");
            let events = journal.after((last - 3 * KEPT).max(0), 3 * KEPT).await.expect("it can be read");
            journal.close_reader().await;
            let (mut decided, mut outcomes, mut rounds) =
                (std::collections::HashMap::new(), std::collections::HashMap::new(), vec![]);
            for stored in events {
                match stored.event.clone() {
                    Event::Decided { decision, .. } => drop(decided.insert(decision.id, stored.into_decided())),
                    Event::Ran { outcome } => drop(outcomes.insert(outcome.decision_id, outcome)),
                    Event::Judged { feedback } => {
                        let decided = decided.remove(&feedback.decision_id).flatten();
                        let outcome = outcomes.remove(&feedback.decision_id);
                        rounds.extend(decided.zip(outcome).map(|(decided, outcome)| Round {
                            decided,
                            outcome,
                            feedback,
                        }));
                    }
                    _ => {}
                }
            }
            assert!(!rounds.is_empty(), "the journal has no rounds");
            Self(Arc::new(rounds))
        })
    }

    /// Round `n`, with ids of its own: the decision, and what comes after it.
    fn round(&self, n: u64) -> (NewEvent, Vec<NewEvent>) {
        let Round { decided, outcome, feedback } = &self.0[n as usize % self.0.len()];
        let (mut decided, mut outcome, mut feedback) = (decided.clone(), outcome.clone(), feedback.clone());
        let id = DecisionId::generate();
        decided.task.id = TaskId::new(format!("task-{n}")).expect("it is a name");
        (decided.decision.id, decided.decision.task_id) = (id, decided.task.id.clone());
        (outcome.decision_id, feedback.decision_id) = (id, id);
        let decided = Arc::new(decided);
        let first = NewEvent::of(&decided, decided.to_event());
        let events = [Event::Ran { outcome }, Event::Judged { feedback }];
        (first, events.map(|event| NewEvent::of(&decided, event)).into())
    }

    /// Appends so many rounds to a journal, as a router does: a decision, later its outcome with the feedback.
    pub fn fill(&self, path: &Path, count: u64) {
        let callers = Callers {
            rounds: Self(Arc::clone(&self.0)),
            left: AtomicU64::new(count),
            stop: false.into(),
            appended: 0.into(),
        };
        runtime().block_on(callers.run(path, Synchronous::Normal, 64, None));
    }
}

fn runtime() -> Runtime {
    Runtime::new().expect("threads can be started")
}

struct Callers {
    rounds: Rounds,
    left: AtomicU64,
    stop: AtomicBool,
    /// Appends acknowledged.
    appended: AtomicU64,
}

impl Callers {
    /// Runs so many callers until there is nothing left or the time is over; returns appends and seconds.
    async fn run(self, path: &Path, synchronous: Synchronous, callers: usize, time: Option<Duration>) -> (u64, f64) {
        let settings = JournalSettings { path: path.into(), synchronous, embedding_model: MODEL.into() };
        let (committed, mut learner) = mpsc::channel(8_192);
        let journal = Arc::new(Journal::open(&settings, committed).await.expect("the journal opens"));
        // Nobody learns here.
        let drain = tokio::spawn(async move { while learner.recv().await.is_some() {} });
        let (shared, mut tasks, started) = (Arc::new(self), JoinSet::new(), Instant::now());
        for _ in 0..callers {
            let (shared, journal) = (Arc::clone(&shared), Arc::clone(&journal));
            tasks.spawn(async move { shared.one(&journal).await });
        }
        if let Some(time) = time {
            tokio::time::sleep(time).await;
            shared.stop.store(true, Ordering::Relaxed);
        }
        tasks.join_all().await;
        let spent = started.elapsed().as_secs_f64();
        journal.close().await;
        drop(journal);
        drain.await.expect("it does not panic");
        (shared.appended.load(Ordering::Relaxed), spent)
    }

    async fn one(&self, journal: &Journal) {
        while !self.stop.load(Ordering::Relaxed) {
            let less = |left: u64| left.checked_sub(1);
            let Ok(left) = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) else { return };
            let (decision, rest) = self.rounds.round(left);
            journal.append(vec![decision]).await.expect("it is appended");
            journal.append(rest).await.expect("it is appended");
            self.appended.fetch_add(2, Ordering::Relaxed);
        }
    }
}

/// How many appends a second the journal takes by itself; a round is two of them with three records.
pub fn appends(rounds: &Rounds) -> Value {
    println!("\nappends to the journal alone, a round being two appends with three records");
    println!("{:<12}{:>10}{:>14}{:>14}{:>18}", "synchronous", "callers", "appends/s", "rounds/s", "append (ms)");
    let mut all = vec![];
    for (name, synchronous) in [("full", Synchronous::Full), ("normal", Synchronous::Normal)] {
        for callers in [1, 16, 256] {
            let folder = tempfile::tempdir().expect("there is room for temporary files");
            let path = folder.path().join("journal.sqlite");
            let shared = Callers {
                rounds: Rounds(Arc::clone(&rounds.0)),
                left: u64::MAX.into(),
                stop: false.into(),
                appended: 0.into(),
            };
            let (appended, seconds) = runtime().block_on(shared.run(&path, synchronous, callers, Some(COUNTED)));
            let per_s = appended as f64 / seconds;
            let each_ms = 1e3 * callers as f64 / per_s;
            println!("{name:<12}{callers:>10}{per_s:>14.0}{:>14.0}{each_ms:>18.2}", per_s / 2.0);
            all.push(json!({"synchronous": name, "callers": callers, "appends_per_s": per_s, "append_ms": each_ms}));
        }
    }
    all.into()
}
