//! Verifiers: untrusted code that scores untrusted answers.
//!
//! Each is a component of the `verifiers/wit` contract, run in a fresh instance per answer: no network, no files, a clock
//! that stands still, randomness that repeats. Fuel decides a verdict, so that it is the same everywhere; a deadline guards
//! liveness; memory and output are bounded. The host recomputes a verifier's score from its signals and never trusts
//! a number. Those that run the answer's code do so in a second instance, which shares nothing with the first.

mod admission;
mod combine;
mod componentize;
mod components;
mod contract;
mod golden;
mod guest;
mod manifest;
mod registry;
mod sandbox;
mod sources;
mod verified;

pub use admission::{COMPONENT_BYTES_MAX, Refusal};
pub use combine::combine;
pub use componentize::{ComponentizeError, componentize};
pub use components::{ComponentError, Components, first_party, first_party_names, is_first_party};
pub use golden::{Expected, Golden};
pub use manifest::{Manifest, SignalSpec};
pub use registry::{
    Judgement, NumberedVersion, Prepared, Registry, RegistryError, SetKey, TakenIn, VerifierReport, VerifierSpec,
};
pub use sandbox::{Compiled, Sandbox, SandboxError, SandboxLimits};
pub use sources::{PYTHON, Sources};
pub use verified::Verified;

#[cfg(test)]
mod tests;
