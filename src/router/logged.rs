//! A journal's rounds as off-policy evaluation takes them.

use std::ops::ControlFlow;

use super::{
    RouterError,
    lesson::{Lessons, is_unscored, lesson},
};
use crate::{
    context::chat::essence,
    journal::{Decided, Event, JournalReader},
    replay::off_policy::Logged,
    round::Channel,
};

/// Tells all that the journal holds of decisions with feedback, in journal order, until `tell` breaks off. `progress` is
/// told (done, total) events.
pub async fn logged_rounds(
    journal: &JournalReader,
    progress: impl Fn(u64, u64),
    mut tell: impl FnMut(&Logged<'_>) -> ControlFlow<()>,
) -> Result<(), RouterError> {
    let total = journal.last_seq().await?;
    let mut lessons = Lessons::new(journal, 0, total);
    while let Some(mut next) = lessons.next().await? {
        let Some(Event::Judged { feedback }) = &next.event else { continue };
        let decided = match next.decided.take() {
            Some(decided) => Some(decided),
            None if is_unscored(feedback) => Some(lessons.decided(feedback.decision_id).await?),
            None => None,
        };
        if let Some(mut decided) = decided {
            with_text(&mut decided);
            let decision = &decided.decision;
            let logged = match (lesson(&decided, feedback), feedback.source.channel()) {
                (Some(round), Channel::Verified) => Logged::Verified { decision, round },
                (Some(round), Channel::Weak) => Logged::Weak { decision, round },
                (None, _) => Logged::Unscored { decision, context: &decided.context, cost_usd: feedback.cost_usd },
            };
            if tell(&logged).is_break() {
                return Ok(());
            }
        }
        if lessons.is_page_read() {
            progress(next.at.unsigned_abs(), total.unsigned_abs());
        }
    }
    Ok(())
}

/// Puts the words back that were embedded, where the journal keeps them.
pub(super) fn with_text(decided: &mut Decided) {
    if decided.observed.kept.is_whole() {
        decided.context.text = essence(&decided.task.messages).as_ref().into();
    }
}
