//! Verifiers: untrusted code that scores untrusted answers.
//!
//! Each is a component of the `verifiers/wit` contract, run in a fresh instance per answer with no imports at all: no
//! network, no files, no clock. Fuel decides a verdict, so that it is the same everywhere; a deadline guards
//! liveness; memory and output are bounded. The host recomputes a verifier's score from its signals and never trusts
//! a number out of range.

mod combine;
mod componentize;
mod contract;
mod registry;
mod sandbox;

pub use combine::combine;
pub use componentize::{ComponentizeError, componentize};
pub use registry::{DomainSet, Installed, Registry, RegistryError, VerifierSpec, first_party};
pub use sandbox::{Compiled, Sandbox, SandboxError, SandboxLimits};

#[cfg(test)]
mod tests;
