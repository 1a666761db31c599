//! `pointsman journal verify`.

use std::path::Path;

use anyhow::{Result, bail};
use pointsman::journal::verify;

use super::super::progress;

/// Findings that are shown.
const SHOWN: usize = 50;

pub(super) async fn run(folder: &Path) -> Result<()> {
    let bar = progress::bar(0, "reading the journal");
    let verified = verify(&super::file(folder), |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })
    .await?;
    bar.finish_and_clear();
    println!("{} events, format {}", verified.events(), verified.format);
    for (kind, count) in &verified.kinds {
        println!("  {kind:17} {count}");
    }
    for line in &verified.structure {
        println!("the file: {line}");
    }
    for (seq, reason) in verified.unsound.iter().take(SHOWN) {
        println!("record {seq}: {reason}");
    }
    if verified.is_sound() {
        println!("Sound: every record can be read, its checksum is right, and it fits the others.");
        return Ok(());
    }
    bail!(
        "{} records and {} places of the file are not sound; bring a backup of the data folder back",
        verified.unsound.len(),
        verified.structure.len()
    )
}
