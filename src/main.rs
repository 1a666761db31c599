//! The `pointsman` program: reads the command line and hands over to the library.

mod cli;

use std::process::ExitCode;

/// A sixth of a busy daemon's time went to the C library's allocator, which shares badly between many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
