//! What a run of the harness shows.

use std::{fmt, time::Duration};

use super::{faults::Faults, ledger::Ledger, ledger::What, proof::Found};

/// A start before the first one was measured.
const FIRST_START: Duration = Duration::from_secs(1);

/// Counts of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub idle: u64,
    pub busy: u64,
    pub starting: u64,
    /// Of all kills, those after which there was no checkpoint yet.
    pub before_checkpoint: u64,
    /// Of all kills, those that left a checkpoint half written.
    pub in_checkpoint: u64,
    pub acknowledged: u64,
    pub refused: Vec<(String, u64)>,
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
    pub starts: Vec<Duration>,
    pub folds_from_zero: Vec<Duration>,
    events: u64,
    pub faults: Faults,
}

impl Report {
    pub fn kills(&self) -> u64 {
        self.idle + self.busy + self.starting
    }

    /// The median start so far.
    pub fn usual_start(&self) -> Duration {
        median(&self.starts).unwrap_or(FIRST_START)
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

    pub fn take_counts(&mut self, ledger: &Ledger) {
        self.acknowledged = ledger.acknowledged;
        self.refused = ledger.refused.iter().map(|(problem, count)| (problem.clone(), *count)).collect();
    }
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("kills", self.kills()),
            ("  under load", self.busy),
            ("  idle", self.idle),
            ("  while it started", self.starting),
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
        for (what, times) in [("start", &self.starts), ("start without a checkpoint", &self.folds_from_zero)] {
            if let (Some(median), Some(max)) = (median(times), times.iter().max()) {
                let shown = format!("{:.2} / {:.2}", median.as_secs_f64(), max.as_secs_f64());
                writeln!(f, "{:<48}{shown:>10}", format!("{what}, median / max (s)"))?;
            }
        }
        write!(f, "{}", self.faults)
    }
}
