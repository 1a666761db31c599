//! Fixtures of both protocols, and the laws that hold between them.

mod answers;
mod laws;
mod requests;
mod streams;

use serde_json::Value;

use super::*;

/// The JSON in bytes.
fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn across(from: Protocol, to: Protocol) -> Translation {
    Translation { from, to, usage_chunk: true, created_s: 1_700_000_000 }
}
