//! A line of the harness's table: how a life ended, and what the start after it found.

use std::{fmt, time::Duration};

use super::Moment;

/// A life that ended.
#[derive(Debug, Clone)]
pub struct Row {
    life: u64,
    pub moment: Moment,
    /// Requests acknowledged in this life.
    acknowledged: u64,
    /// None when the next life was killed before it took requests.
    pub proved: Option<Proved>,
}

/// What a start found.
#[derive(Debug, Clone)]
pub struct Proved {
    /// Different things acknowledged so far, and how many of them are there.
    pub held: u64,
    pub there: u64,
    pub events: u64,
    pub tail: Option<Tail>,
    pub start: Duration,
    /// The start of a second daemon on the journal alone.
    pub from_zero: Duration,
    pub state: Option<String>,
    pub violations: u64,
}

/// What a start read of the journal.
#[derive(Debug, Clone, Copy)]
pub struct Tail {
    pub events: u64,
    /// Whether it began with a checkpoint.
    resumed: bool,
}

impl Tail {
    /// As a daemon tells it on stderr.
    pub fn told(log: &str) -> Option<Self> {
        let number = |before: &str, after: &str| {
            let line = log.lines().find_map(|line| line.split_once(before))?.1;
            line.split_once(after)?.0.parse().ok()
        };
        let resumed = number("and read ", " events after it").map(|events| Self { events, resumed: true });
        resumed.or_else(|| Some(Self { events: number("from zero, ", " events")?, resumed: false }))
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.events, if self.resumed { "" } else { "*" }))
    }
}

impl Row {
    /// The table's head; a star marks a start without a checkpoint.
    pub fn header() -> String {
        format!(
            "{:>4}  {:<21}{:>12}{:>10}{:>11}{:>10}{:>8}{:>11}{:>15}  {:<10}{:>10}",
            "life",
            "ended",
            "acknowledged",
            "in all",
            "recovered",
            "events",
            "read",
            "start (s)",
            "from zero (s)",
            "state",
            "violations"
        )
    }

    pub fn new(life: u64, moment: Moment, acknowledged: u64) -> Self {
        Self { life, moment, acknowledged, proved: None }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { life, moment, acknowledged, proved } = self;
        write!(f, "{life:>4}  {moment:<21}{acknowledged:>12}")?;
        let Some(Proved { held, there, events, tail, start, from_zero, state, violations }) = proved else {
            return write!(f, "    the next life was killed before it took requests");
        };
        let tail = tail.as_ref().map_or("unknown".into(), Tail::to_string);
        let state = state.as_deref().and_then(|hash| hash.get(..8)).unwrap_or("none");
        write!(f, "{held:>10}{there:>11}{events:>10}{tail:>8}{:>11.2}", start.as_secs_f64())?;
        write!(f, "{:>15.2}  {state:<10}{violations:>10}", from_zero.as_secs_f64())
    }
}
