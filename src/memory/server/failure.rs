//! What went wrong with a request, in the few ways that we act on.
//!
//! The client tries a point request again by itself when a connection breaks, so a refused connection may be the second
//! try: after a write it is no proof that nothing was written, and [`Failure::of_a_write`] says so.

use std::error::Error;

use ::qdrant_client::QdrantError;

use super::{super::MemoryError, settings::Place};

/// gRPC's status codes. Their type belongs to a crate that only the client depends on.
mod code {
    pub const CANCELLED: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const DEADLINE_EXCEEDED: i32 = 4;
    pub const NOT_FOUND: i32 = 5;
    pub const ALREADY_EXISTS: i32 = 6;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const UNAVAILABLE: i32 = 14;
    pub const UNAUTHENTICATED: i32 = 16;
}

const REASON_CHARS: usize = 300;

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// There is no connection, or the server does not take requests now.
    NoContact(String),
    /// The server was asked and did not answer.
    NoAnswer(String),
    /// The collection is not there.
    Missing,
    /// The collection is there already.
    Exists,
    /// The server does not accept our key.
    Denied(String),
    /// The server finds the request wrong.
    Refused(String),
    /// The server failed, or said what it never should.
    Other(String),
    /// An error that is told as it is.
    Said(MemoryError),
}

impl Failure {
    /// The same, after a request that may have changed something before it failed.
    pub fn of_a_write(self) -> Self {
        match self {
            Self::NoContact(reason) => Self::NoAnswer(reason),
            other => other,
        }
    }

    /// Whether the server is away.
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::NoContact(_) | Self::NoAnswer(_))
    }

    /// As told to the caller.
    pub fn at(self, place: &Place) -> MemoryError {
        match self {
            Self::NoContact(reason) => MemoryError::Unavailable(format!("{place}: {reason}")),
            Self::NoAnswer(reason) => MemoryError::Unknown(format!("{place}: {reason}")),
            Self::Missing => MemoryError::Unavailable(format!("{place} is gone")),
            Self::Exists => MemoryError::Other(format!("{place} is there already")),
            Self::Denied(reason) => MemoryError::Other(format!(
                "{place} is closed to us ({reason}): set memory's api_key to one that may create, write and delete \
                 collections"
            )),
            Self::Refused(reason) => MemoryError::Other(format!("{place} refused a request: {reason}")),
            Self::Other(reason) => MemoryError::Other(format!("{place}: {reason}")),
            Self::Said(error) => error,
        }
    }
}

impl From<QdrantError> for Failure {
    fn from(error: QdrantError) -> Self {
        let (QdrantError::ResponseError { status } | QdrantError::ResourceExhaustedError { status, .. }) = error else {
            return Self::Other(error.to_string());
        };
        // Only what was made on this side has a source.
        let (ours, reason) = (status.source().is_some(), short(status.message()));
        // So it looks, too, where the server's REST port was named.
        if ours && (reason == "operation was canceled" || reason.starts_with("h2 protocol error")) {
            let hint = "is the url that of the gRPC port, by default 6334?";
            return Self::NoAnswer(format!("the connection was closed ({reason}); {hint}"));
        }
        match i32::from(status.code()) {
            code::NOT_FOUND => Self::Missing,
            code::ALREADY_EXISTS => Self::Exists,
            code::UNAUTHENTICATED | code::PERMISSION_DENIED => Self::Denied(reason),
            code::INVALID_ARGUMENT => Self::Refused(reason),
            code::RESOURCE_EXHAUSTED => Self::NoContact(format!("the server is overloaded: {reason}")),
            code::UNAVAILABLE => Self::NoContact(reason),
            code::CANCELLED | code::UNKNOWN | code::DEADLINE_EXCEEDED => Self::NoAnswer(reason),
            code::UNIMPLEMENTED => Self::Other(format!(
                "no such request there ({reason}): the url must be that of a Qdrant server's gRPC port"
            )),
            _ if status.message().starts_with("Failed to connect") => Self::NoContact(connecting(status.message())),
            _ if ours => Self::NoAnswer(reason),
            _ => Self::Other(reason),
        }
    }
}

/// Why there is no connection: the client's message is the whole chain of errors, spelt for programmers.
fn connecting(message: &str) -> String {
    let known = [
        ("ConnectionRefused", "connection refused"),
        ("dns error", "its name cannot be resolved"),
        ("ertificate", "its certificate is not trusted"),
        ("InvalidContentType", "it does not speak TLS, write http:// instead of https://"),
        ("Elapsed", "no connection in time"),
        ("TimedOut", "no connection in time"),
    ];
    known
        .iter()
        .find(|(sign, _)| message.contains(sign))
        .map_or_else(|| short(message), |(_, reason)| (*reason).to_owned())
}

fn short(message: &str) -> String {
    let text: String = message.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
    if text.is_empty() { "it did not say why".to_owned() } else { text }
}
