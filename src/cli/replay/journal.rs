//! `pointsman replay --journal`: makes a daemon's decisions again, or estimates what other policies would have brought.

use std::path::Path;

use anyhow::{Result, bail};
use pointsman::{
    journal::JournalReader,
    router::{ExactReport, ExactSettings, replay_exactly},
};

use super::{
    super::folders::{CHECKPOINT, cards},
    ReplayArguments, estimates,
    log::{Log, open_journal},
    progress, write,
};

pub(super) async fn run(arguments: ReplayArguments, folder: &Path) -> Result<()> {
    if arguments.policy.is_empty() && arguments.card.is_none() {
        let journal = open_journal(folder).await?;
        let found = exact(&arguments, folder, &journal).await;
        journal.close_reader().await;
        found
    } else {
        estimates::run(&arguments, Log::open(Some(folder), &arguments.log).await?).await
    }
}

async fn exact(arguments: &ReplayArguments, folder: &Path, journal: &JournalReader) -> Result<()> {
    let cards = cards(folder, arguments.cards.as_deref())?;
    let settings = ExactSettings { cards, checkpoint: Some(folder.join(CHECKPOINT)) };
    let bar = progress::bar(0, "deciding again");
    let report = replay_exactly(journal, &settings, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })
    .await?;
    bar.finish_and_clear();
    print_exact(&report);
    write(arguments.json.as_deref(), &report)?;
    if !report.is_exact() {
        bail!("the replay differs from the journal");
    }
    Ok(())
}

fn print_exact(report: &ExactReport) {
    let ExactReport { at, decisions, again, equal, compared, first, left_out, learnt_rounds, seconds, .. } = report;
    println!("{at} events, {decisions} decisions, {learnt_rounds} lessons; {seconds:.1} s");
    println!("{again} decisions were made again, {equal} came out equal bit for bit");
    println!(
        "  equal: {} pmf, {} arm, {} propensity, {} voters, {} shadow, {} policy, {} features, {} of {} domains found",
        compared.pmf,
        compared.arm,
        compared.propensity,
        compared.voters,
        compared.shadow,
        compared.policy,
        compared.features,
        compared.domain,
        compared.domains_found
    );
    for (why, count) in left_out {
        println!("{count} could not be made again: {why}");
    }
    for difference in first {
        println!("decision {} (event {}) differs:", difference.decision, difference.seq);
        difference.what.iter().for_each(|what| println!("  {what}"));
    }
    if again - equal > first.len() as u64 {
        println!("and {} more", again - equal - first.len() as u64);
    }
    if !report.state_hash.is_empty() {
        println!("state {} at event {at}", report.state_hash);
    }
    match (&report.checkpoint, &report.checkpoint_problem) {
        (Some(found), _) if found.state_hash == found.replayed_hash => {
            println!("the checkpoint at event {} holds the same state as the journal up to there", found.at);
        }
        (Some(found), _) => println!(
            "the checkpoint at event {} holds {}, the journal up to there gives {}",
            found.at, found.state_hash, found.replayed_hash
        ),
        (None, Some(problem)) => println!("no checkpoint was compared: {problem}"),
        (None, None) => {}
    }
}
