//! Audit probes: a small random share of tasks is run on every arm that could have been taken, so that regret is measured and
//! not only estimated. Off unless configured, with a cap of dollars a day.
//!
//! Whether a task is probed is a coin's matter, thrown with the decision from random numbers of its own and journaled with it.
//! No coin is thrown while the purse is closed or too many probes wait, so what is probed never depends on the task. After the
//! round is acknowledged the other arms run beside it and the same verifiers judge them: the client waits for nothing, no tenant
//! pays, no policy learns, and of the answers nothing is kept but scores and costs.
//!
//! What can go wrong: a probe is cut off. What it had put aside counts as spent, since the journal knows that it began.

mod book;
mod probe;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rand::Rng;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::{
    Router,
    turn::{Attempt, Verdict},
};
use crate::{
    access::{Purse, Used},
    action::sample::{Stream, stream},
    chat::ChatRequest,
    journal::{Decided, now_ms},
    round::{Coin, Decision, Domain, Feedback, Outcome},
};

pub(super) use book::Book;
use probe::Chosen;

/// Probes that may wait for a free place.
const WAITING_MAX: usize = 64;

/// Who runs what is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunBy {
    /// The router.
    Router,
    /// Who asked. What the answers of other arms would be worth cannot be found out then.
    Caller,
}

/// Which tasks are probed, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditSettings {
    /// The share of tasks, in (0, 0.1].
    pub share: f64,
    /// Dollars that probes may cost in a day of Coordinated Universal Time.
    pub usd_per_day: f64,
    /// The domains whose tasks are probed; all where none are given.
    pub domains: Option<BTreeSet<Domain>>,
    /// Probes at one time; each runs its arms at once.
    pub concurrency: usize,
    /// How long an arm of a probe may take.
    pub deadline: Duration,
}

/// What probes may use, and use.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct AuditUse {
    /// The share of tasks that is probed.
    pub share: f64,
    /// Dollars that probes may cost in a day of Coordinated Universal Time.
    pub usd_per_day: f64,
    /// Dollars that they cost today.
    pub spent_today_usd: f64,
    /// Dollars put aside for probes under way.
    pub held_usd: f64,
    /// Whether the day's dollars suffice for more; no task is chosen otherwise.
    pub open: bool,
    /// Probes that run or wait.
    pub under_way: u64,
}

/// What is needed for probes while they are on.
pub(super) struct Audits {
    settings: AuditSettings,
    purse: Purse,
    /// Probes that may run or wait.
    places: Arc<Semaphore>,
    /// Those that may run.
    running: Semaphore,
}

impl Audits {
    pub fn new(settings: AuditSettings, book: &Book) -> Self {
        Self {
            purse: book.purse(settings.usd_per_day),
            places: Arc::new(Semaphore::new(settings.concurrency + WAITING_MAX)),
            running: Semaphore::new(settings.concurrency),
            settings,
        }
    }

    /// Whether a coin is thrown for a task of a domain now.
    fn applies(&self, domain: &Domain) -> bool {
        self.settings.domains.as_ref().is_none_or(|domains| domains.contains(domain))
            && self.places.available_permits() > 0
            && self.purse.is_open(now_ms())
    }

    pub fn report(&self) -> AuditUse {
        let AuditSettings { share, usd_per_day, concurrency, .. } = self.settings;
        let Used { spent_usd, held_usd, open } = self.purse.used(now_ms());
        let under_way = (concurrency + WAITING_MAX).saturating_sub(self.places.available_permits());
        AuditUse { share, usd_per_day, spent_today_usd: spent_usd, held_usd, open, under_way: under_way as u64 }
    }
}

/// Throws the coin of a decision.
fn throw(seed: u64, probability: f64) -> Coin {
    Coin { probability, chosen: stream(seed, Stream::Audit).random::<f64>() < probability }
}

impl Router {
    /// Throws a decision's coin, if it is one that may be probed.
    pub(super) fn coin(&self, decision: &Decision, domain: &Domain, by: RunBy) -> Option<Coin> {
        let audits = self.audits.as_ref()?;
        let may = by == RunBy::Router && decision.pmf.len() > 1 && audits.applies(domain);
        may.then(|| throw(decision.seed, audits.settings.share))
    }

    /// What probes may use and use; nothing while they are off.
    pub fn audit_use(&self) -> Option<AuditUse> {
        self.audits.as_ref().map(Audits::report)
    }

    /// Has the task of a round that is over probed, if its coin says so. Returns at once.
    pub(super) fn have_audited(
        self: &Arc<Self>,
        decided: &Arc<Decided>,
        outcome: &Outcome,
        feedback: &Feedback,
        chat: Option<&ChatRequest>,
    ) {
        let coin = decided.observed.coin.filter(|coin| coin.chosen && self.audits.is_some());
        if let Some(coin) = coin
            && !self.closing.is_cancelled()
            && let Some(chosen) = Chosen::new(decided, coin, outcome, feedback, chat)
        {
            self.rounds.spawn(Arc::clone(self).audit(chosen));
        }
    }

    /// The same for an attempt that was verified.
    pub(super) fn have_attempt_audited(self: &Arc<Self>, attempt: &Attempt<'_>, chat: Option<&ChatRequest>) {
        if let Verdict::Given(feedback) = &attempt.verdict {
            self.have_audited(&attempt.decided, &attempt.outcome, feedback, chat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{action::sample::sample, round::DecisionId};

    #[test]
    fn the_coin_falls_as_often_as_it_says_whatever_was_drawn() {
        let (mut chosen, mut of_first, mut first) = (0, 0, 0);
        let n = 40_000_u128;
        for id in 0..n {
            let seed = DecisionId::from(id).seed();
            let coin = throw(seed, 0.1);
            let taken = sample(&[0.3, 0.7], seed).unwrap() == 0;
            chosen += i32::from(coin.chosen);
            first += i32::from(taken);
            of_first += i32::from(coin.chosen && taken);
        }
        let near = |count: i32, of: f64, p: f64| (f64::from(count) - of * p).abs() < 4.0 * (of * p * (1.0 - p)).sqrt();
        assert!(near(chosen, n as f64, 0.1), "{chosen} of {n}");
        assert!(near(of_first, f64::from(first), 0.1), "{of_first} of {first}: the coin must know nothing of the draw");
    }
}
