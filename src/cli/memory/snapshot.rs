//! `pointsman memory snapshot`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use pointsman::memory::snapshot::{Listed, Snapshot};

use super::{show, table, target::Target};

#[derive(Subcommand)]
pub(super) enum SnapshotCommand {
    /// Write all entries to a new snapshot; tasks may flow meanwhile.
    Create {
        /// Its name [default: made from the next sequence number].
        #[arg(long)]
        name: Option<String>,
    },
    /// List the snapshots.
    List,
    /// Read all of a snapshot and compare it with its manifest.
    Verify {
        /// Its name.
        name: String,
    },
    /// Put a snapshot's entries in the place of all that memory holds.
    Restore {
        /// Its name.
        name: String,
    },
    /// Copy a snapshot's file out.
    Download {
        /// Its name.
        name: String,
        /// The file to write [default: NAME.zip in this folder].
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Take a snapshot's file in; it is checked whole.
    Upload {
        /// The file.
        file: PathBuf,
        /// Its name here [default: the file's name without .zip].
        #[arg(long)]
        name: Option<String>,
    },
    /// Delete a snapshot.
    Delete {
        /// Its name.
        name: String,
    },
}

pub(super) async fn run(command: SnapshotCommand, target: &Target, json: bool) -> Result<()> {
    match command {
        SnapshotCommand::Create { name } => {
            show(json, &target.create_snapshot(name).await?, |made| render("created", made))
        }
        SnapshotCommand::List => show(json, &target.list_snapshots().await?, |listed| render_list(listed)),
        SnapshotCommand::Verify { name } => {
            show(json, &target.verify_snapshot(&name).await?, |found| render("is whole:", found))
        }
        SnapshotCommand::Restore { name } => {
            show(json, &target.restore_snapshot(&name).await?, |found| render("restored", found))
        }
        SnapshotCommand::Download { name, out } => {
            let out = out.unwrap_or_else(|| format!("{name}.zip").into());
            let bytes = target.download_snapshot(&name, out.clone()).await?;
            println!("{}: {bytes} bytes", out.display());
            Ok(())
        }
        SnapshotCommand::Upload { file, name } => {
            let name = match name {
                Some(name) => name,
                None => file
                    .file_stem()
                    .and_then(|stem| stem.to_str())
                    .map(str::to_owned)
                    .with_context(|| format!("{} has no name to take over: give --name NAME", file.display()))?,
            };
            if !file.is_file() {
                bail!("{} is no file", file.display());
            }
            show(json, &target.upload_snapshot(file, &name).await?, |made| render("uploaded", made))
        }
        SnapshotCommand::Delete { name } => {
            target.delete_snapshot(&name).await?;
            println!("{name} deleted");
            Ok(())
        }
    }
}

fn render(what: &str, snapshot: &Snapshot) -> String {
    let Snapshot { name, bytes, digest, manifest } = snapshot;
    format!("{name} {what} {} entries, {bytes} bytes, digest {digest}", manifest.count)
}

fn render_list(listed: &[Listed]) -> String {
    let mut table = table(["name", "entries", "from", "to", "MB", "model", "digest"], &[1, 2, 3, 4]);
    for listed in listed {
        match listed {
            Listed::Whole(Snapshot { name, bytes, digest, manifest }) => table.add_row([
                name.clone(),
                manifest.count.to_string(),
                manifest.first_seq.to_string(),
                manifest.next_seq.to_string(),
                format!("{:.1}", *bytes as f64 / 1e6),
                manifest.shape.model.clone(),
                digest.chars().take(12).collect(),
            ]),
            Listed::Damaged { name, problem } => {
                let blank = String::new;
                table.add_row([name.clone(), blank(), blank(), blank(), blank(), problem.clone(), blank()])
            }
        };
    }
    if listed.is_empty() {
        "there are no snapshots yet; make one with `pointsman memory snapshot create`".into()
    } else {
        table.to_string()
    }
}
