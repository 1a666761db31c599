//! `pointsman journal erase`.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman::{
    journal::{Erasure, erase},
    memory::snapshot::Listed,
    round::{TaskId, TenantId},
};

use super::super::{
    folders::{DataFolder, Owner},
    progress,
};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman journal erase --task order-4711 --data-dir state
  pointsman journal erase --tenant acme --data-dir state

Prompts, metadata, answers, verifiers' words, session, tenant, keys and the task's id go; scores, costs, arms, embeddings and all
that was learnt stay. Stop the daemon first: memory is filled anew at its next start.")]
pub(super) struct EraseArguments {
    /// All decisions of the tasks of this id.
    #[arg(long, value_name = "ID", conflicts_with = "tenant", required_unless_present = "tenant")]
    task: Option<String>,
    /// All tasks of this tenant.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

pub(super) async fn run(arguments: &EraseArguments, folder: &Path) -> Result<()> {
    let erasure = match (&arguments.task, &arguments.tenant) {
        (Some(task), _) => Erasure::Task(TaskId::new(task)?),
        (None, Some(tenant)) => Erasure::Tenant(TenantId::new(tenant)?),
        (None, None) => bail!("say what to erase: --task ID or --tenant NAME"),
    };
    let Owner::Us(data) = DataFolder::owner(folder)? else {
        bail!("the data folder {} is used by a daemon: stop it first", folder.display());
    };
    let bar = progress::bar(0, "reading the journal");
    let erased = erase(&data.journal(), &erasure, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })
    .await?;
    bar.finish_and_clear();
    if erased.decisions == 0 {
        bail!("no decision in the journal is of that {}", if arguments.task.is_some() { "task" } else { "tenant" });
    }
    // Memory names the task and quotes verifiers. It is a fold of the journal: the next start fills it again.
    for folder in [data.memory(), data.path.join("memory.aside")] {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}: delete it", folder.display()))?;
        }
    }
    println!("Erased the texts of {} decisions in {} records.", erased.decisions, erased.records);
    println!("Memory is filled anew at the next start; one on a server needs `pointsman memory rebuild`.");
    let kept = data.snapshots().list()?;
    if !kept.is_empty() {
        let names: Vec<_> = kept
            .iter()
            .map(|listed| match listed {
                Listed::Whole(snapshot) => snapshot.name.as_str(),
                Listed::Damaged { name, .. } => name,
            })
            .collect();
        println!(
            "Snapshots of memory that were taken before still hold ids and verifiers' words: {}",
            names.join(", ")
        );
    }
    Ok(())
}
