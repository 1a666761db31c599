//! `pointsman verify check`: is a file a verifier, and does it do what its golden tasks say?

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use pointsman::feedback::verifier::{Compiled, Golden, Sandbox};

use super::{super::ask::table, Limits, compiled};
use crate::cli::folders::Folders;

#[derive(Args)]
pub(in crate::cli) struct CheckArguments {
    /// A component's file, or the name of a first-party verifier.
    verifier: String,
    /// Golden tasks to run, one JSON object a line; see verifiers/README.md.
    #[arg(long, value_name = "FILE")]
    golden: Option<PathBuf>,
    #[command(flatten)]
    limits: Limits,
}

pub(super) async fn run(arguments: CheckArguments, folders: &Folders) -> Result<()> {
    let (sandbox, compiled) = compiled(&arguments.verifier, &arguments.limits, folders)?;
    describe(&compiled);
    let Some(path) = arguments.golden else { return Ok(()) };
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let golden = Golden::read_all(&text).map_err(|problem| anyhow!("{}: {problem}", path.display()))?;
    let failed = run_golden(&sandbox, &compiled, &golden).await?;
    if failed > 0 {
        bail!("{failed} of {} golden tasks failed", golden.len());
    }
    println!("{} golden tasks hold", golden.len());
    Ok(())
}

fn describe(compiled: &Compiled) {
    let manifest = &compiled.manifest;
    println!("{} {}, {} bytes, sha256 {}", manifest.name, manifest.version, compiled.bytes, compiled.sha256);
    println!("for {}; {}", manifest.domains.join(", "), repeats(manifest.deterministic));
    let mut signals = table(["signal", "weight", "says"], &[1]);
    for signal in &manifest.signals {
        signals.add_row([signal.name.clone(), signal.weight.to_string(), signal.doc.clone()]);
    }
    println!("{signals}");
}

fn repeats(deterministic: bool) -> &'static str {
    if deterministic { "equal answers get equal verdicts" } else { "equal answers may get other verdicts" }
}

/// Prints a line a task; returns how many failed.
async fn run_golden(sandbox: &Sandbox, compiled: &Compiled, golden: &[Golden]) -> Result<usize> {
    let mut failed = 0;
    let mut results = table(["golden task", "score", "fuel", "ms", ""], &[1, 2, 3]);
    for golden in golden {
        let task = golden.task().map_err(|problem| anyhow!("{}: {problem}", golden.name()))?;
        let verified = sandbox.verify(compiled, &task, &golden.response(), &golden.config).await;
        let held = golden.compare(&verified);
        failed += usize::from(held.is_err());
        results.add_row([
            golden.name().to_owned(),
            verified.score.map_or_else(|| "-".into(), |score| format!("{score:.3}")),
            verified.fuel.to_string(),
            format!("{:.2}", verified.duration_us as f64 / 1e3),
            held.err().map_or_else(|| "ok".into(), |problem| format!("FAILED: {problem}")),
        ]);
    }
    println!("{results}");
    Ok(failed)
}
