//! One integration binary: each module drives one surface of the daemon, started as its users start it.

mod arms;
mod audits;
mod bad_input;
mod browser;
mod chats;
mod commands;
mod compaction;
#[path = "../bench/crash/mod.rs"]
mod crash;
#[expect(dead_code, reason = "the programs that share it use different parts")]
#[path = "../bench/daemon.rs"]
mod daemon;
mod datasets;
mod dialects;
mod durability;
mod encrypted;
mod faults;
mod hostile;
mod insight;
mod journal_cli;
mod keys;
mod kills;
mod layers;
#[path = "../src/feedback/verifier/tests/liar.rs"]
mod liar;
mod matrix;
mod memory;
mod modes;
mod off_policy;
mod openapi;
mod policies;
mod python;
mod replay;
mod routes;
mod served;
mod streams;
mod traces;
mod verifiers;
mod webhooks;
mod worker_faults;
mod workers;
