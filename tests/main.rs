//! One integration binary: each module drives one surface of the daemon, started as its users start it.

mod arms;
mod bad_input;
mod commands;
mod durability;
mod layers;
#[path = "../src/feedback/verifier/tests/liar.rs"]
mod liar;
mod memory;
mod policies;
mod python;
mod replay;
mod routes;
mod served;
mod streams;
mod verifiers;
mod workers;
