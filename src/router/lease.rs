//! Leases: a decision that nobody closes in time is abandoned. Its reward is unknown, not 0, so nothing is learnt from it;
//! feedback that comes later still counts.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Router, RouterError,
    running::{Phase, joined},
};
use crate::{
    journal::{Event, NewEvent, Open, now_ms},
    telemetry::Metric,
};

/// Open decisions looked at together.
const PAGE: i64 = 500;
/// The shortest and the longest time between two looks.
const EVERY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

impl Router {
    /// Closes decisions whose lease is over, until the router closes.
    pub(super) async fn watch_leases(self: Arc<Self>) {
        let mut ticks = tokio::time::interval((self.settings.lease / 10).clamp(EVERY.0, EVERY.1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return,
                _ = ticks.tick() => {
                    if let Err(error) = self.abandon_open().await {
                        tracing::warn!(%error, "leases could not be looked at; they are at the next turn");
                    }
                }
            }
        }
    }

    async fn abandon_open(&self) -> Result<(), RouterError> {
        let lease_ms = i64::try_from(self.settings.lease.as_millis()).unwrap_or(i64::MAX);
        let until = self.journal.last_before(now_ms().saturating_sub(lease_ms)).await?;
        let mut after = self.closed_up_to.load(Ordering::Relaxed);
        // A task that runs longer than the lease is looked at again.
        let mut still_running = None;
        while after < until && !self.closing.is_cancelled() {
            let page = self.journal.open_decisions(after, until, PAGE).await?;
            for open in &page {
                if self.running.phase(open.decision_id) == Phase::Away {
                    self.abandon(*open).await?;
                } else {
                    still_running.get_or_insert(open.seq - 1);
                }
            }
            after = if (page.len() as i64) < PAGE { until } else { page.last().map_or(until, |last| last.seq) };
            self.closed_up_to.store(still_running.unwrap_or(after), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Puts dollars aside again for the decisions that wait for their feedback since before the start.
    pub(super) async fn hold_open(&self) -> Result<(), RouterError> {
        if self.tenants.is_empty() {
            return Ok(());
        }
        let mut after = self.closed_up_to.load(Ordering::Relaxed);
        loop {
            let page = self.journal.open_decisions(after, i64::MAX, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            for open in &page {
                let Some(stored) = self.journal.at(open.seq).await? else { continue };
                let until_ms = self.lease_end(stored.at_ms);
                if let Some(decided) = stored.into_decided() {
                    let (tenant, cost_usd) = (decided.task.tenant.as_ref(), decided.expected_cost_usd());
                    self.tenants.hold_again(tenant, open.decision_id, cost_usd, until_ms);
                }
            }
        }
    }

    async fn abandon(&self, open: Open) -> Result<(), RouterError> {
        let explanation = self.explain(open.decision_id).await?;
        let decided = Arc::new(explanation.decided);
        let (cost_usd, weights) = (decided.expected_cost_usd(), self.weights(&decided.task));
        // What somebody said of it while it ran is all that will be known of it.
        let early =
            explanation.early.into_iter().map(|early| Event::Judged { feedback: joined(early, weights, cost_usd) });
        let events = std::iter::once(Event::Abandoned { decision_id: open.decision_id }).chain(early);
        self.append(events.map(|event| NewEvent::of(&decided, event)).collect()).await?;
        self.tenants.release_parked(decided.task.tenant.as_ref(), open.decision_id);
        metrics::counter!(Metric::Abandoned.name()).increment(1);
        Ok(())
    }
}
