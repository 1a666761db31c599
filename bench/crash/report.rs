//! What a run of the harness shows.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{Moment, faults::Faults, found::Found, ledger::Ledger, ledger::What, row::Proved};

/// A start before the first one was measured.
const FIRST_START: Duration = Duration::from_secs(1);

/// Counts of a run.
#[derive(Debug, Default)]
pub struct Report {
    busy: u64,
    idle: u64,
    starting: u64,
    stopping: u64,
    /// Of all kills, those after which there was no checkpoint yet.
    pub before_checkpoint: u64,
    /// Of all kills, those that left a checkpoint half written.
    pub in_checkpoint: u64,
    pub acknowledged: u64,
    /// Refusals by problem.
    pub refused: BTreeMap<String, u64>,
    pub unanswered: u64,
    pub repeated: u64,
    /// Of unanswered tasks under keys: not decided.
    undecided: u64,
    /// Decided, without an outcome.
    running: u64,
    /// With an outcome that nobody heard of.
    unheard: u64,
    /// Unanswered feedback that was stored, and that was not.
    feedback: (u64, u64),
    pub compared: u64,
    events: u64,
    pub proofs: Vec<Proved>,
    pub faults: Faults,
}

impl Report {
    pub fn kills(&self) -> u64 {
        self.idle + self.busy + self.starting + self.stopping
    }

    pub fn note_end(&mut self, moment: Moment) {
        match moment {
            Moment::Starting(_) => self.starting += 1,
            Moment::Idle => self.idle += 1,
            Moment::Busy(_) | Moment::InCheckpoint => self.busy += 1,
            Moment::Stopping(_) => self.stopping += 1,
            Moment::Stopped => {}
        }
    }

    /// The median start so far.
    pub fn usual_start(&self) -> Duration {
        quantile(&self.starts(), 0.5).unwrap_or(FIRST_START)
    }

    fn starts(&self) -> Vec<Duration> {
        self.proofs.iter().map(|proved| proved.start).collect()
    }

    /// Tells from the journal how far the requests had come that a kill cut off.
    pub fn count_unanswered(&mut self, found: &Found, ledger: &Ledger) {
        self.events = found.events;
        for asked in ledger.unanswered() {
            match (asked.what, asked.key()) {
                (What::Task, Some(key)) => match found.keys.get(key).and_then(|ids| ids.first()) {
                    None => self.undecided += 1,
                    Some(id) if found.ran.contains_key(id) => self.unheard += 1,
                    Some(_) => self.running += 1,
                },
                (What::Feedback, _) => {
                    let id = asked.body["decision_id"].as_str().unwrap_or_default();
                    let stored = found.judged.keys().chain(found.early.keys()).any(|(known, _)| known == id);
                    if stored { self.feedback.0 += 1 } else { self.feedback.1 += 1 }
                }
                (What::Task | What::Route | What::Promotion | What::Trial | What::Arm, _) => {}
            }
        }
    }
}

fn quantile<T: Ord + Copy>(values: &[T], part: f64) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    sorted.get((part * last as f64).round() as usize).copied()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("kills", self.kills()),
            ("  under load", self.busy),
            ("  idle", self.idle),
            ("  while it started", self.starting),
            ("  while it stopped", self.stopping),
            ("  of these before the first checkpoint", self.before_checkpoint),
            ("  of these while a checkpoint was written", self.in_checkpoint),
            ("requests acknowledged", self.acknowledged),
            ("requests unanswered", self.unanswered),
            ("  tasks under keys, before they were decided", self.undecided),
            ("  tasks under keys, running or being judged", self.running),
            ("  tasks under keys, stored and not heard of", self.unheard),
            ("  feedback, not stored", self.feedback.1),
            ("  feedback, stored or judged before", self.feedback.0),
            ("requests repeated", self.repeated),
            ("events in the journal", self.events),
            ("states compared", self.compared),
            ("lost", self.faults.lost),
            ("doubled", self.faults.doubled),
            ("states that differ", self.faults.hashes),
            ("other faults", self.faults.others),
        ];
        for (what, count) in rows {
            writeln!(f, "{what:<48}{count:>10}")?;
        }
        for (problem, count) in &self.refused {
            writeln!(f, "{:<48}{count:>10}", format!("refused: {}", problem.rsplit(':').next().unwrap_or(problem)))?;
        }
        let seconds = |time: Duration| format!("{:.2}", time.as_secs_f64());
        writeln!(f, "{:<36}{:>22}", "", "median / 90 % / most")?;
        spread(f, "start (s)", &self.starts(), seconds)?;
        let from_zero: Vec<_> = self.proofs.iter().map(|proved| proved.from_zero).collect();
        spread(f, "start on the journal alone (s)", &from_zero, seconds)?;
        let tails: Vec<_> = self.proofs.iter().filter_map(|proved| Some(proved.tail?.events)).collect();
        spread(f, "events read at a start", &tails, |events| events.to_string())?;
        write!(f, "{}", self.faults)
    }
}

/// Median, nine tenths and the most of some values.
fn spread<T: Ord + Copy>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    values: &[T],
    show: impl Fn(T) -> String,
) -> fmt::Result {
    let parts = [0.5, 0.9, 1.0].map(|part| quantile(values, part).map(&show).unwrap_or_default());
    writeln!(f, "{what:<36}{:>22}", parts.join(" / "))
}
