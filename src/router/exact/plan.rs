//! The first reading: which decisions there are, and where the state is that made each.

use super::{ExactReport, ExactSettings};
use crate::{
    journal::{Event, JournalReader, PolicyChange},
    router::{RouterError, checkpoint::Checkpoint, lesson::read_ahead},
};

/// What is to be done, from a first reading.
pub(super) struct Plan {
    pub until: i64,
    /// (the state's place, the decision's), in that order.
    pub decisions: Vec<(i64, i64)>,
    pub dimension: usize,
    pub report: ExactReport,
    pub base: Option<Checkpoint>,
    /// The changes of policies before the base.
    pub changes: Vec<PolicyChange>,
}

impl Plan {
    pub async fn of(journal: &JournalReader, settings: &ExactSettings) -> Result<Self, RouterError> {
        let until = journal.last_seq().await?;
        let damaged = |error| RouterError::Internal(format!("the compacted state: {error}"));
        let base = journal.base().await?.map(|base| Checkpoint::parse(&base.state)).transpose().map_err(damaged)?;
        let after = base.as_ref().map_or(0, |base| base.at);
        let (mut decisions, mut changes, mut dimension) = (vec![], vec![], 0);
        let (mut unsaid, mut compacted) = (0, 0);
        let mut report = ExactReport::default();
        let mut pages = read_ahead(journal.clone(), 0, until);
        while let Some(page) = pages.recv().await {
            for stored in page? {
                match stored.event {
                    Event::Decided { decision, .. } => {
                        dimension = stored.embedding.as_ref().map_or(dimension, |it| it.as_slice().len());
                        report.decisions += 1;
                        match decision.state_at {
                            0 => unsaid += 1,
                            at if at < after => compacted += 1,
                            at => decisions.push((at, stored.seq)),
                        }
                    }
                    Event::PolicyChanged { change } if stored.seq <= after => changes.push(change),
                    _ => {}
                }
            }
        }
        decisions.sort_unstable();
        report.leave_out("it is of a version that did not record the state that decided", unsaid);
        report.leave_out("the state that decided was compacted since", compacted);
        if let Some(path) = &settings.checkpoint
            && !path.exists()
        {
            report.checkpoint_problem = Some("there is none".into());
        }
        Ok(Self { until, decisions, dimension, report, base, changes })
    }
}
