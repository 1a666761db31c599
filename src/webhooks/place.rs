//! How far a webhook is in the journal, kept in a file, and which messages wait to be sent again.
//!
//! Everything up to `after` was taken, given up, or waits here. A receiver that is not there holds everything up, in order. A
//! message that a receiver refuses is put aside and sent again by itself while later ones go on; few may wait like that. After a
//! crash the file may be a little behind: what it does not know of is sent again, under the same ids.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use super::{EventType, WebhookError, schedule::TRIES_MAX};
use crate::round::WebhookName;

const FORMAT: u32 = 1;
/// How many messages may wait to be sent again.
pub(super) const ASIDE_MAX: usize = 16;

/// A message by its event's place and its type.
pub(super) type Key = (i64, EventType);

/// A message that waits to be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Aside {
    /// How often it was tried.
    tries: u32,
    /// When its event was appended, in milliseconds since 1970.
    at_ms: i64,
    due: Instant,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Send a message again.
    Again(Key),
    /// Go on in the journal; when there is nothing, until a message is due.
    GoOn(Option<Instant>),
    /// Wait.
    Wait(Instant),
}

/// What becomes of a message that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It waits to be sent again.
    Again,
    /// It was the last try.
    GivenUp,
}

/// How far a webhook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub after: i64,
    aside: BTreeMap<Key, Aside>,
    /// Until when the receiver is left alone.
    rest: Option<Instant>,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    format: u32,
    after: i64,
    aside: Vec<KeptAside>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptAside {
    seq: i64,
    r#type: EventType,
    at_ms: i64,
    tries: u32,
}

impl Place {
    pub fn new(after: i64) -> Self {
        Self { after, aside: BTreeMap::new(), rest: None }
    }

    /// The one that a file holds; nothing where there is none. What waited is due at once: a restart may have helped.
    pub fn read(path: &Path, name: &WebhookName) -> Result<Option<Self>, WebhookError> {
        let broken = |reason: String| WebhookError::Place { name: name.clone(), path: path.to_path_buf(), reason };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(broken(error.to_string())),
        };
        let kept: Kept = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if kept.format != FORMAT {
            return Err(broken(format!("it has format {}, this version reads {FORMAT}", kept.format)));
        }
        let due = Instant::now();
        let aside = kept
            .aside
            .into_iter()
            .map(|KeptAside { seq, r#type, at_ms, tries }| ((seq, r#type), Aside { tries, at_ms, due }));
        Ok(Some(Self { after: kept.after, aside: aside.collect(), rest: None }))
    }

    /// What a file is to hold.
    pub fn to_bytes(&self) -> Vec<u8> {
        let kept =
            |(&(seq, r#type), &Aside { at_ms, tries, .. }): (&Key, &Aside)| KeptAside { seq, r#type, at_ms, tries };
        let kept = Kept { format: FORMAT, after: self.after, aside: self.aside.iter().map(kept).collect() };
        // Numbers and names: JSON holds them all.
        serde_json::to_vec(&kept).unwrap_or_default()
    }

    pub fn next(&self, now: Instant) -> Next {
        if let Some(rest) = self.rest.filter(|rest| *rest > now) {
            return Next::Wait(rest);
        }
        if let Some((key, _)) = self.aside.iter().find(|(_, aside)| aside.due <= now) {
            return Next::Again(*key);
        }
        let due = self.aside.values().map(|aside| aside.due).min();
        match due {
            Some(due) if self.aside.len() >= ASIDE_MAX => Next::Wait(due),
            due => Next::GoOn(due),
        }
    }

    /// How often a message was tried, as long as it waits.
    pub fn tries(&self, key: Key) -> u32 {
        self.aside.get(&key).map_or(0, |aside| aside.tries)
    }

    /// Has a message wait that was not tried yet.
    pub fn put_aside(&mut self, key: Key, at_ms: i64) {
        self.aside.insert(key, Aside { tries: 0, at_ms, due: Instant::now() });
    }

    /// A try failed: the message waits to be sent again, unless it was the last try. A receiver that is away is left alone as long.
    pub fn refused(&mut self, key: Key, at_ms: i64, away: bool, due: Instant) -> Refused {
        let tries = self.tries(key) + 1;
        if tries >= TRIES_MAX {
            self.aside.remove(&key);
            return Refused::GivenUp;
        }
        self.aside.insert(key, Aside { tries, at_ms, due });
        if away {
            self.rest = Some(due);
        }
        Refused::Again
    }

    /// A message waits no longer; false if it did not.
    pub fn take(&mut self, key: Key) -> bool {
        self.aside.remove(&key).is_some()
    }

    /// Whether the receiver is left alone.
    pub fn rests(&self, now: Instant) -> bool {
        self.rest.is_some_and(|rest| rest > now)
    }

    pub fn waiting(&self) -> usize {
        self.aside.len()
    }

    /// When the oldest message that waits happened, in milliseconds since 1970.
    pub fn oldest_ms(&self) -> Option<i64> {
        self.aside.values().map(|aside| aside.at_ms).min()
    }

    /// How long until something that waits is sent.
    pub fn until_next(&self, now: Instant) -> Option<Duration> {
        let due = self.aside.values().map(|aside| aside.due).min()?;
        Some(self.rest.map_or(due, |rest| rest.max(due)).saturating_duration_since(now))
    }
}

/// Renamed into place and flushed, so that a crash leaves the old file or the new one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part: PathBuf = path.with_extension("part");
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINISHED: EventType = EventType::TaskFinished;

    fn name() -> WebhookName {
        WebhookName::new("billing").unwrap()
    }

    #[test]
    fn a_receiver_that_is_not_there_holds_everything_up_and_its_message_is_the_first_again() {
        let (mut place, now) = (Place::new(7), Instant::now());
        assert_eq!(place.next(now), Next::GoOn(None));
        let later = now + Duration::from_secs(5);
        assert_eq!(place.refused((8, FINISHED), 5, true, later), Refused::Again);
        assert_eq!(place.next(now), Next::Wait(later));
        assert_eq!(place.until_next(now), Some(Duration::from_secs(5)));
        assert_eq!(place.next(later), Next::Again((8, FINISHED)));
        assert!(place.take((8, FINISHED)) && !place.take((8, FINISHED)));
        assert_eq!(place.next(later), Next::GoOn(None));
    }

    #[test]
    fn refused_messages_let_later_ones_go_on_until_too_many_wait() {
        let (mut place, now) = (Place::new(0), Instant::now());
        let due = |n: i64| now + Duration::from_secs(60 + n.unsigned_abs());
        for n in 0..ASIDE_MAX as i64 {
            assert!(matches!(place.next(now), Next::GoOn(_)), "{n}");
            assert_eq!(place.refused((n, FINISHED), 5, false, due(n)), Refused::Again);
        }
        assert_eq!(place.next(now), Next::Wait(due(0)));
        assert_eq!(place.next(due(3)), Next::Again((0, FINISHED)), "the oldest of those that are due");
    }

    #[test]
    fn a_message_is_given_up_after_the_last_try_and_the_next_one_goes_on() {
        let (mut place, now) = (Place::new(0), Instant::now());
        for tries in 1..TRIES_MAX {
            assert_eq!(place.refused((8, FINISHED), 5, true, now), Refused::Again, "{tries}");
        }
        assert_eq!(place.refused((8, FINISHED), 5, true, now), Refused::GivenUp);
        assert_eq!((place.waiting(), place.next(now)), (0, Next::GoOn(None)));
    }

    #[test]
    fn what_is_kept_is_read_back_and_is_due_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("billing.json");
        assert_eq!(Place::read(&path, &name()).unwrap(), None);
        let mut place = Place::new(12);
        for _ in 0..3 {
            place.refused((9, FINISHED), 5, false, Instant::now() + Duration::from_secs(3_600));
        }
        write(&path, &place.to_bytes()).unwrap();
        let read = Place::read(&path, &name()).unwrap().unwrap();
        assert_eq!((read.after, read.tries((9, FINISHED)), read.oldest_ms()), (12, 3, Some(5)));
        assert_eq!(read.next(Instant::now()), Next::Again((9, FINISHED)));
    }

    #[test]
    fn a_damaged_file_is_an_error_and_no_new_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("billing.json");
        for bytes in ["", "{\"format\":1,\"after\":", "{\"format\":2,\"after\":1,\"aside\":[]}"] {
            fs::write(&path, bytes).unwrap();
            let error = Place::read(&path, &name()).unwrap_err().to_string();
            assert!(error.contains("billing.json") && error.contains("delete it"), "{error}");
        }
    }
}
