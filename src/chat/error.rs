//! What goes wrong with a request, an answer or a stream, and how each protocol says it.

use serde::Deserialize;
use serde_json::json;
use tokio_util::bytes::Bytes;

use super::Protocol;

/// Why something cannot be read or translated. Texts name the field and never quote a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The request is not what its protocol allows.
    #[error("{field}: {problem}")]
    Invalid {
        /// Where, as the client writes it, such as `messages[2].content`.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The request is right, but the worker's protocol cannot say it.
    #[error("{field}: cannot be sent to a worker of the {to} protocol: {problem}")]
    Untranslatable {
        /// Where, as the client writes it.
        field: String,
        /// The worker's protocol.
        to: Protocol,
        /// Why not, and what to send instead.
        problem: String,
    },
    /// The worker's answer is not what its protocol demands.
    #[error("the worker's answer is not of the {protocol} protocol: {problem}")]
    Answer {
        /// The worker's protocol.
        protocol: Protocol,
        /// What is wrong.
        problem: String,
    },
    /// The worker's stream stopped before its protocol's end.
    #[error("the worker's stream broke off: {0}")]
    Broken(&'static str),
    /// One frame of a stream is longer than what is taken.
    #[error("a frame of the worker's stream is longer than {0} bytes")]
    FrameTooLong(usize),
}

impl ChatError {
    pub(super) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), problem: problem.into() }
    }

    pub(super) fn untranslatable(field: impl Into<String>, to: Protocol, problem: impl Into<String>) -> Self {
        Self::Untranslatable { field: field.into(), to, problem: problem.into() }
    }

    pub(super) fn answer(protocol: Protocol, problem: impl ToString) -> Self {
        Self::Answer { protocol, problem: problem.to_string() }
    }

    /// The same error, seen from the object around.
    pub(super) fn inside(mut self, outer: &str) -> Self {
        if let Self::Invalid { field, .. } | Self::Untranslatable { field, .. } = &mut self {
            let joint = if field.is_empty() || field.starts_with('[') { "" } else { "." };
            *field = format!("{outer}{joint}{field}");
        }
        self
    }
}

/// The kinds of errors that both protocols know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request cannot be served as it is.
    InvalidRequest,
    /// No key, or a wrong one.
    Authentication,
    /// The key may not do this.
    Permission,
    /// There is no such thing.
    NotFound,
    /// The request is too long.
    TooLarge,
    /// Too many requests, or no money left.
    RateLimit,
    /// Too much to do at the moment.
    Overloaded,
    /// Anything else that is not the client's fault.
    Server,
}

impl ErrorKind {
    /// The `type` that the protocol's clients know.
    pub fn name(self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (Self::InvalidRequest, _) => "invalid_request_error",
            (Self::Authentication, _) => "authentication_error",
            (Self::Permission, _) => "permission_error",
            (Self::NotFound, _) => "not_found_error",
            (Self::TooLarge, Protocol::Anthropic) => "request_too_large",
            (Self::TooLarge, Protocol::OpenAi) => "invalid_request_error",
            (Self::RateLimit, _) => "rate_limit_error",
            (Self::Overloaded, Protocol::Anthropic) => "overloaded_error",
            (Self::Server, Protocol::Anthropic) => "api_error",
            (Self::Overloaded | Self::Server, Protocol::OpenAi) => "server_error",
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "invalid_request_error" => Self::InvalidRequest,
            "authentication_error" => Self::Authentication,
            "permission_error" => Self::Permission,
            "not_found_error" => Self::NotFound,
            "request_too_large" => Self::TooLarge,
            "rate_limit_error" | "billing_error" | "insufficient_quota" => Self::RateLimit,
            "overloaded_error" => Self::Overloaded,
            _ => Self::Server,
        }
    }
}

/// The JSON body of an error answer.
pub fn error_body(protocol: Protocol, kind: ErrorKind, message: &str) -> Vec<u8> {
    let name = kind.name(protocol);
    let body = match protocol {
        Protocol::OpenAi => json!({"error": {"message": message, "type": name, "param": null, "code": null}}),
        Protocol::Anthropic => json!({"type": "error", "error": {"type": name, "message": message}}),
    };
    body.to_string().into_bytes()
}

/// The last frame of a stream that failed.
pub fn error_frame(protocol: Protocol, kind: ErrorKind, message: &str) -> Bytes {
    let mut frame = match protocol {
        Protocol::OpenAi => b"data: ".to_vec(),
        Protocol::Anthropic => b"event: error\ndata: ".to_vec(),
    };
    frame.extend(error_body(protocol, kind, message));
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// The kind and message of a worker's error body, of either protocol; `None` where it is something else, such as HTML.
pub fn read_error(bytes: &[u8]) -> Option<(ErrorKind, String)> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Error {
        Whole {
            message: String,
            #[serde(default, rename = "type")]
            kind: Option<String>,
        },
        Text(String),
    }
    #[derive(Deserialize)]
    struct Body {
        error: Error,
    }
    Some(match serde_json::from_slice::<Body>(bytes).ok()?.error {
        Error::Whole { message, kind } => (ErrorKind::from_name(kind.as_deref().unwrap_or_default()), message),
        Error::Text(message) => (ErrorKind::Server, message),
    })
}
