//! Compaction: what was learnt up to a place is folded into one state, so that the rounds before it can go.
//!
//! The state is the one that a checkpoint of that place would hold, and also that of every policy that may be asked for
//! later: those that came after the place, and the last ones before it, to which an operator may go back.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    RouterError,
    cards::{Acting, CardSource},
    checkpoint::{Checkpoint, PolicyState},
    lesson::{fold, teach},
    policies::Policies,
    roles::acting,
    state::{State, catch_up},
};
use crate::journal::{
    Base, Compacted, Decided, JournalReader, PolicyChange, PolicyRole, Stored, compact, compactable, now_ms,
};

/// Policies before the place that are kept besides those that acted there.
const EARLIER_POLICIES: usize = 8;

/// What is kept whole.
#[derive(Debug, Clone)]
pub struct CompactionSettings {
    /// All rounds younger than this.
    pub keep: Duration,
    /// The last rounds of verified feedback, whatever their age: memory is filled from them when it is lost.
    pub rounds: u64,
    /// The folder from which cards take the files that they name.
    pub cards: Option<PathBuf>,
}

/// What compaction is going to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionPlan {
    /// The place up to which what was learnt becomes one state.
    pub up_to: i64,
    /// How many records go.
    pub records: u64,
}

/// Finds the place up to which rounds may go, and how many records that are.
pub async fn plan_compaction(path: &Path, settings: &CompactionSettings) -> Result<CompactionPlan, RouterError> {
    let journal = JournalReader::open_recorded(path).await?;
    let up_to = place(&journal, settings).await;
    journal.close_reader().await;
    let up_to = up_to?;
    Ok(CompactionPlan { up_to, records: compactable(path, up_to).await? })
}

/// Takes the rounds of a plan out of a journal that no daemon has open. `progress` is told (done, total) events.
pub async fn compact_journal(
    path: &Path,
    plan: &CompactionPlan,
    settings: &CompactionSettings,
    progress: impl Fn(u64, u64),
) -> Result<Compacted, RouterError> {
    let journal = JournalReader::open_recorded(path).await?;
    let base = base(&journal, plan.up_to, settings, progress).await;
    journal.close_reader().await;
    Ok(compact(path, &base?).await?)
}

async fn place(journal: &JournalReader, settings: &CompactionSettings) -> Result<i64, RouterError> {
    let last = journal.last_seq().await?;
    let keep_ms = i64::try_from(settings.keep.as_millis()).unwrap_or(i64::MAX);
    let old = journal.last_before(now_ms().saturating_sub(keep_ms)).await?;
    let (first, found) = journal.verified_back(last, settings.rounds).await?;
    let before_memory = if found < settings.rounds { 0 } else { first - 1 };
    let there = journal.base().await?.map_or(0, |base| base.seq);
    Ok(old.min(before_memory).max(there))
}

async fn base(
    journal: &JournalReader,
    up_to: i64,
    settings: &CompactionSettings,
    progress: impl Fn(u64, u64),
) -> Result<Base, RouterError> {
    let (mut state, mut others) = begin(journal, up_to, settings).await?;
    let after = state.at;
    for other in &mut others {
        catch_up(journal, other, after).await?;
    }
    fold(journal, after, up_to, progress, |folded| {
        state.fold(&folded);
        others.iter_mut().for_each(|other| teach(other.policy.as_mut(), &folded));
    })
    .await?;
    let at_ms = match journal.at(up_to).await? {
        Some(event) => event.at_ms,
        // The place of a former base, whose event went.
        None => state.at_ms,
    };
    let checkpoint = Checkpoint {
        at: up_to,
        at_ms,
        closed_up_to: 0,
        known: state.snapshot(0).known(&state.shown()),
        others: others.iter().map(|other| PolicyState::of(&other.snapshot())).collect(),
    };
    let text = checkpoint.text().map_err(|error| RouterError::Internal(error.to_string()))?;
    Ok(Base { seq: up_to, at_ms, state: text })
}

/// The state of the former base, or nothing learnt, with the policies of the new place; and other policies, nothing learnt.
async fn begin(
    journal: &JournalReader,
    up_to: i64,
    settings: &CompactionSettings,
) -> Result<(State, Vec<Acting>), RouterError> {
    let (model, decided) = (journal.embedding_model().to_owned(), journal.last_decided().await?);
    let dimension =
        decided.and_then(Stored::into_decided).map_or(0, |Decided { context, .. }| context.embedding.as_slice().len());
    let source = CardSource { folder: settings.cards.clone(), model, dimension };
    let changes = journal.policy_changes().await?;
    let cut = changes.partition_point(|(at, _)| *at <= up_to);
    let changes: Vec<PolicyChange> = changes.into_iter().map(|(_, change)| change).collect();
    let (before, after) = changes.split_at(cut);
    let nobody = || RouterError::Internal("the journal does not name a policy: start the daemon once".into());
    let champion = Policies::last(before, PolicyRole::Champion).or_else(|| Policies::last(after, PolicyRole::Champion));
    let champion = acting(&source, champion.ok_or_else(nobody)?)?;
    let shadow = Policies::on_trial(before).map(|change| acting(&source, change)).transpose()?;
    let mut known: Vec<_> = std::iter::once(&champion).chain(&shadow).map(Acting::reference).collect();
    let mut others = Vec::new();
    for change in after.iter().chain(before.iter().rev()).filter(|change| change.card.is_some()) {
        if others.len() >= after.len() + EARLIER_POLICIES {
            break;
        }
        match acting(&source, change) {
            Ok(other) if !known.contains(&other.reference()) => {
                known.push(other.reference());
                others.push(other);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, policy = %change.policy, "a policy that acted is not kept: it cannot be made")
            }
        }
    }
    let mut state = State::new(champion, shadow);
    if let Some(base) = journal.base().await? {
        let damaged = |error| RouterError::Internal(format!("the compacted state: {error}"));
        let base = Checkpoint::parse(&base.state).map_err(damaged)?;
        state.resume(&base, journal).await.map_err(damaged)?;
    }
    Ok((state, others))
}
