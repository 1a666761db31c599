//! Webhooks: others are told what was finished, by messages that are signed and arrive at least once.
//!
//! Each webhook follows the journal, the truth, from a place of its own that is kept in a file; so `kill -9` loses no message, and a
//! receiver that is away for days costs no memory: what it missed is in the journal. A message has the same id whenever it is
//! sent, so that receivers can drop what they had. Messages and signatures are those of the Standard Webhooks specification.
//!
//! What can go wrong: a receiver that is not there holds up its own webhook and nothing else, and is tried again for a day per message
//! (`schedule`); one that refuses a message has it put aside (`place`), and later ones go on; records that compaction took out
//! before they were told are counted and passed over; a damaged place stops the start, since nobody can say what was told.

mod follow;
mod message;
mod place;
mod report;
mod schedule;
mod send;
mod settings;
mod sign;
mod source;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    journal::{JournalError, JournalReader, now_ms},
    round::{DecisionId, WebhookName},
    router::{Router, RouterError},
};

use follow::Follower;
use message::test_message;
use place::Place;
use report::Board;
use send::Sender;
use source::Source;

pub use report::{TestReport, WebhookReport, WebhookStatus};
pub use settings::{EventType, WebhookSettings};
pub use sign::{SecretProblem, Secrets};

/// The webhooks of a running daemon.
pub struct Webhooks {
    hooks: Vec<Hook>,
    sender: Option<Sender>,
    reader: Option<JournalReader>,
    last: watch::Receiver<i64>,
    stop: CancellationToken,
    followers: TaskTracker,
}

struct Hook {
    settings: WebhookSettings,
    board: Arc<Board>,
}

/// Why webhooks did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// There is no such webhook.
    #[error("there is no webhook {name}; the webhooks are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A webhook's place cannot be read or written.
    #[error(
        "the place of webhook {name} in the journal cannot be kept or read in {path} ({reason}); make it readable and writable, or delete \
         it to go on from the journal's end, which loses what was not told yet"
    )]
    Place {
        /// The webhook.
        name: WebhookName,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The folder of places cannot be made.
    #[error("cannot create the folder {path} ({reason})")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The HTTP client cannot start.
    #[error("the HTTP client of webhooks cannot start: {0}")]
    Client(String),
    /// The journal cannot be read.
    #[error(transparent)]
    Router(#[from] RouterError),
}

impl From<JournalError> for WebhookError {
    fn from(error: JournalError) -> Self {
        Self::Router(error.into())
    }
}

impl Webhooks {
    /// Starts to follow a router's journal. `folder` holds each webhook's place; one without a place begins at the journal's end.
    pub async fn start(
        settings: Vec<WebhookSettings>,
        folder: &Path,
        router: &Arc<Router>,
    ) -> Result<Self, WebhookError> {
        let mut webhooks = Self {
            hooks: vec![],
            sender: None,
            reader: None,
            last: router.last_place(),
            stop: CancellationToken::new(),
            followers: TaskTracker::new(),
        };
        if settings.is_empty() {
            return Ok(webhooks);
        }
        let folder_error =
            |error: std::io::Error| WebhookError::Folder { path: folder.into(), reason: error.to_string() };
        fs::create_dir_all(folder).map_err(folder_error)?;
        let sender = Sender::new().map_err(|error| WebhookError::Client(error.to_string()))?;
        let reader = router.journal_reader().await?;
        let source = Source { reader: reader.clone(), router: Arc::clone(router) };
        (webhooks.sender, webhooks.reader) = (Some(sender.clone()), Some(reader));
        // First all places: a start that fails has sent nothing.
        let mut followers = Vec::with_capacity(settings.len());
        for settings in settings {
            let file = folder.join(format!("{}.json", settings.name));
            let board = Arc::<Board>::default();
            let place = begin(&settings.name, &file, &source.reader, &board).await?;
            board.place(&place, tokio::time::Instant::now());
            webhooks.hooks.push(Hook { settings: settings.clone(), board: Arc::clone(&board) });
            let (source, sender, last) = (source.clone(), sender.clone(), webhooks.last.clone());
            let stop = webhooks.stop.clone();
            followers.push(Follower { settings, source, sender, board, place, file, last, stop });
        }
        for follower in followers {
            webhooks.followers.spawn(follower.run());
        }
        Ok(webhooks)
    }

    /// How each is doing.
    pub fn list(&self) -> Vec<WebhookReport> {
        let last = *self.last.borrow();
        self.hooks.iter().map(|hook| hook.board.report(&hook.settings, last)).collect()
    }

    /// Sends a message of type `webhook.test` now, beside what waits, and tells what the receiver said. It is not sent again.
    pub async fn test(&self, name: &str) -> Result<TestReport, WebhookError> {
        let hook = self.hooks.iter().find(|hook| hook.settings.name.as_str() == name);
        let (Some(Hook { settings, .. }), Some(sender)) = (hook, &self.sender) else {
            let known: Vec<_> = self.hooks.iter().map(|hook| hook.settings.name.as_str()).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(WebhookError::Unknown { name: name.into(), known });
        };
        let id = DecisionId::generate().to_string().replace('-', "");
        let message = test_message(&id, now_ms(), &settings.name);
        let began = Instant::now();
        let said = sender.send(settings, &message).await;
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        let (webhook, message_id) = (settings.name.clone(), message.id);
        Ok(match said {
            Ok((status, answer)) => {
                TestReport { webhook, message_id, taken: true, status: Some(status), answer, problem: None, took_ms }
            }
            Err(refusal) => TestReport {
                webhook,
                message_id,
                taken: false,
                status: refusal.status,
                answer: refusal.answer,
                problem: Some(refusal.reason),
                took_ms,
            },
        })
    }

    /// Stops at once: what is on its way is sent again at the next start. To be called before the router is closed.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.followers.close();
        self.followers.wait().await;
        if let Some(reader) = &self.reader {
            reader.close_reader().await;
        }
    }
}

/// Where a webhook goes on.
async fn begin(name: &WebhookName, file: &Path, reader: &JournalReader, board: &Board) -> Result<Place, WebhookError> {
    let last = reader.last_seq().await?;
    let found = Place::read(file, name)?;
    let known = found.is_some();
    let place = match found {
        Some(place) if place.after <= last => place,
        Some(place) => {
            tracing::warn!(webhook = %name, place = place.after, last, "the journal is an older one; the webhook goes on from its end");
            Place::new(last)
        }
        None => Place::new(last),
    };
    let compacted_to = reader.base().await?.map_or(0, |base| base.seq);
    if compacted_to > place.after {
        let skipped = reader.missing(place.after, compacted_to).await?;
        if skipped > 0 {
            tracing::warn!(webhook = %name, skipped, "events were compacted before they were told; the webhook goes on after them");
            board.update(|shown| shown.skipped = skipped);
        }
    }
    if !known {
        // Kept before the first event, so that a crash does not move the beginning.
        place::write(file, &place.to_bytes()).map_err(|error| WebhookError::Place {
            name: name.clone(),
            path: file.to_path_buf(),
            reason: error.to_string(),
        })?;
    }
    Ok(place)
}
