//! What a verifier says of itself, checked once when it is taken in.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{admission::Refusal, contract::judging::exports::pointsman::verifier::verify::Manifest as Said};

/// The most signals a verifier may name.
const SIGNALS_MAX: usize = 64;
/// The longest name or version, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The longest text about anything, in bytes.
const DOC_BYTES_MAX: usize = 16_384;

/// A checked manifest.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = VerifierManifest)]
pub struct Manifest {
    /// The name it gives itself; it may be installed under another one.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The domains it is meant for; `*` is any.
    pub domains: Vec<String>,
    /// The signals it may give.
    pub signals: Vec<SignalSpec>,
    /// The JSON Schema of its configuration; empty where it takes none.
    pub config_schema: String,
    /// Whether equal arguments always give an equal verdict.
    pub deterministic: bool,
}

/// A signal that a verifier may give.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct SignalSpec {
    /// Its name.
    pub name: String,
    /// Its usual weight inside the verifier.
    pub weight: f64,
    /// What it says.
    pub doc: String,
}

impl Manifest {
    pub(super) fn check(said: Said) -> Result<Self, Refusal> {
        let bad = |why: String| Err(Refusal::BadManifest(why));
        for (what, text) in [("name", &said.name), ("version", &said.version)] {
            if text.is_empty() || text.len() > NAME_BYTES_MAX || text.chars().any(char::is_control) {
                return bad(format!("its {what} is empty, has control characters or more than {NAME_BYTES_MAX} bytes"));
            }
        }
        if said.signals.len() > SIGNALS_MAX || said.domains.len() > SIGNALS_MAX {
            return bad(format!("it names more than {SIGNALS_MAX} signals or domains"));
        }
        let texts = said.signals.iter().flat_map(|signal| [&signal.name, &signal.doc]);
        if texts.chain(&said.domains).chain([&said.config_schema]).any(|text| text.len() > DOC_BYTES_MAX) {
            return bad(format!("one of its texts has more than {DOC_BYTES_MAX} bytes"));
        }
        let mut names = BTreeSet::new();
        for signal in &said.signals {
            if signal.name.is_empty() || !names.insert(&signal.name) {
                return bad(format!("signal {:?} has no name, or the name of another one", signal.name));
            }
            if !(signal.weight.is_finite() && signal.weight >= 0.0) {
                return bad(format!("signal {:?} has weight {}: it must be 0 or more", signal.name, signal.weight));
            }
        }
        if !said.config_schema.is_empty() && serde_json::from_str::<serde_json::Value>(&said.config_schema).is_err() {
            return bad("its config-schema is not JSON".into());
        }
        let signals = said
            .signals
            .into_iter()
            .map(|signal| SignalSpec { name: signal.name, weight: signal.weight, doc: signal.doc })
            .collect();
        Ok(Self {
            name: said.name,
            version: said.version,
            domains: said.domains,
            signals,
            config_schema: said.config_schema,
            deterministic: said.deterministic,
        })
    }

    /// Whether a signal of this name may be given.
    pub(super) fn names(&self, signal: &str) -> bool {
        self.signals.iter().any(|spec| spec.name == signal)
    }
}
