//! Kills a daemon under mixed load a hundred times with -9 and proves after each restart that nothing acknowledged is
//! lost, nothing is there twice, and what was learnt is what the journal tells, bit for bit.
//!
//! `cargo bench --bench kill -- [--kills 100] [--seed 1]`; ends with an error when anything is wrong. The shorter run is
//! in `tests/kills.rs`.

#[path = "crash/mod.rs"]
mod crash;
#[expect(dead_code, reason = "the programs that share it use different parts")]
mod daemon;

use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    // Only build and check, as `cargo test --benches` does.
    if arguments.iter().any(|argument| argument == "--test") {
        println!("kill: nothing is killed with --test");
        return ExitCode::SUCCESS;
    }
    let number = |name: &str, usual: u64| {
        let place = arguments.iter().position(|argument| argument == name);
        place.and_then(|place| arguments.get(place + 1)?.parse().ok()).unwrap_or(usual)
    };
    let kills = number("--kills", 100);
    let plan = crash::Plan {
        program: PathBuf::from(env!("CARGO_BIN_EXE_pointsman")),
        kills,
        seed: number("--seed", 1),
        life_ms: 1_500,
        in_checkpoint: kills.div_ceil(25),
        harm: None,
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let report = runtime.block_on(crash::run(&plan, folder.path()));
    println!("\nseed {}\n{report}", plan.seed);
    if report.faults.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("the data folder is kept: {}", folder.keep().display());
    ExitCode::FAILURE
}
