//! `pointsman journal import`.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, stdin},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use flate2::bufread::MultiGzDecoder;
use pointsman::journal::export::{Imported, Stopped, import};

use super::{
    super::{folders::DataFolder, progress},
    output::is_gz,
};

/// Bytes read at a time.
const BUFFER: usize = 1 << 20;

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman journal import journal.jsonl.gz --data-dir restored
  zcat journal.jsonl.gz | pointsman journal import - --data-dir restored

The folder may hold a beginning of the same journal: events that are there are compared and skipped, so that an import that was
interrupted goes on, and an export `--from` a time brings a copy up to date. A new journal has its name once it is whole. Hashes of
texts that are not kept stay as they are; later ones match them only if the export was made `--with-key`.")]
pub(super) struct ImportArguments {
    /// What `journal export --format jsonl` wrote; .gz by its name, `-` is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) async fn run(arguments: &ImportArguments, folder: &Path) -> Result<()> {
    let mut lines = open(&arguments.file)?;
    let data = DataFolder::lock(folder)?;
    let (whole, part) = (data.journal(), folder.join("journal.sqlite.importing"));
    let is_new = !whole.exists();
    if is_new && [data.memory(), data.checkpoint()].iter().any(|path| path.exists()) {
        bail!(
            "{} holds memory and a checkpoint of a journal that is gone: move {} and {} away, they are filled anew at the next start",
            folder.display(),
            data.memory().display(),
            data.checkpoint().display()
        );
    }
    let spinner = progress::spinner("importing events");
    let imported = import(&mut *lines, if is_new { &part } else { &whole }, &|done| spinner.set_position(done)).await;
    spinner.finish_and_clear();
    let Imported { stored, skipped, last_seq } = imported.map_err(|stopped| explain(stopped, is_new))?;
    if is_new {
        fs::rename(&part, &whole).with_context(|| format!("cannot rename {}", part.display()))?;
        File::open(folder).and_then(|folder| folder.sync_all()).context("cannot flush the data folder")?;
    }
    println!("{stored} events imported, {skipped} were there already; the last is event {last_seq}");
    Ok(())
}

fn open(file: &Path) -> Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, stdin())));
    }
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let opened = BufReader::with_capacity(BUFFER, opened);
    Ok(if is_gz(file) {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(opened)))
    } else {
        Box::new(opened)
    })
}

/// How far it came, so that nobody takes it for whole.
fn explain(stopped: Stopped, is_new: bool) -> anyhow::Error {
    let Stopped { reason, imported: Imported { stored, skipped, last_seq } } = stopped;
    if stored == 0 {
        return anyhow!("{reason}; nothing was imported ({skipped} events were there already)");
    }
    let left = if is_new { "there is no journal before all are there" } else { "they are in the journal" };
    anyhow!(
        "{reason}; {stored} events, up to event {last_seq}, were imported, and {left}: an import of a whole file goes on from there"
    )
}
