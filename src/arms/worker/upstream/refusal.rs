//! What a worker means by an error status.

use serde_json::Value;

use super::super::WorkerError;

/// How much of an error's body is read.
pub(super) const BYTES_KEPT: usize = 2_048;
/// How much of it is told.
const CHARS_TOLD: usize = 300;

/// The error of a status, with the start of what came with it.
pub(super) fn named(
    status: u16,
    start: &[u8],
    retry_after_ms: Option<u64>,
    model: &str,
    key_variable: Option<&str>,
) -> WorkerError {
    let body = told(start);
    match status {
        401 | 403 => WorkerError::Unauthorized(key_variable.unwrap_or("api_key_env (not set)").to_owned()),
        404 => WorkerError::UnknownModel { model: model.to_owned(), body },
        // Other workers read longer prompts: the next one may take it.
        400 | 413 if is_too_long(&body) => WorkerError::Status { status, body },
        400 | 405 | 409 | 413 | 415 | 422 => WorkerError::Refused { status, body },
        408 | 425 => WorkerError::Status { status, body },
        429 | 503 | 529 => WorkerError::Overloaded { status, body, retry_after_ms },
        _ => WorkerError::Status { status, body },
    }
}

/// The message of an error in the form that both protocols have; else the start of the text, but no web page.
fn told(start: &[u8]) -> String {
    let text = String::from_utf8_lossy(start);
    let message = serde_json::from_slice::<Value>(start).ok().and_then(|value| {
        let error = value.get("error")?;
        error.get("message").or(Some(error))?.as_str().map(str::to_owned)
    });
    let text = message.unwrap_or_else(|| {
        let text = text.trim();
        if text.starts_with('<') { "a web page, as a proxy sends it".to_owned() } else { text.to_owned() }
    });
    text.chars().take(CHARS_TOLD).collect()
}

fn is_too_long(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    ["context length", "context_length", "context window", "maximum context", "prompt is too long", "too many tokens"]
        .iter()
        .any(|said| body.contains(said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::worker::ErrorClass;

    fn class(status: u16, body: &str) -> ErrorClass {
        named(status, body.as_bytes(), None, "m", Some("KEY")).class()
    }

    #[test]
    fn a_status_says_whose_fault_it_is() {
        assert_eq!(class(401, "no"), ErrorClass::Setup);
        assert_eq!(class(404, "no such model"), ErrorClass::Setup);
        assert_eq!(class(400, "temperature must be a number"), ErrorClass::Request);
        assert_eq!(class(400, "This model's maximum context length is 8192 tokens"), ErrorClass::Transient);
        assert_eq!(class(429, "slow down"), ErrorClass::Overloaded);
        assert_eq!(class(529, "overloaded"), ErrorClass::Overloaded);
        assert_eq!(class(500, "oops"), ErrorClass::Transient);
        assert_eq!(class(418, "teapot"), ErrorClass::Transient);
    }

    #[test]
    fn the_message_is_told_and_a_web_page_is_not() {
        let said = |body: &str| named(500, body.as_bytes(), None, "m", None).to_string();
        assert!(said(r#"{"error":{"message":"out of order","type":"x"}}"#).ends_with("500: out of order"));
        assert!(said(r#"{"error":"plain"}"#).ends_with("500: plain"));
        assert!(said("<html><body>Bad Gateway</body></html>").ends_with("a web page, as a proxy sends it"));
        assert!(said(&"x".repeat(9_000)).len() < 400);
    }
}
