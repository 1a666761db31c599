//! Observe and decide: from a task to a journaled decision.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tracing::{Instrument, field::Empty};

use super::{
    Router, RouterError,
    audit::RunBy,
    draw::{Deciding, Drawn, draw},
};
use crate::{
    access::{Hold, TenantSettings},
    action::policy::observe,
    arms::Selection,
    context::chat::essence,
    journal::{Appended, Decided, NewEvent, Observed, now_ms},
    round::{
        ArmId, Candidate, Context, DecisionId, Domain, Embedding, Neighbour, Reason, Recall, Taken, Task, TenantId,
    },
    telemetry::{Metric, Stage, TRACES, observe_stage},
};

/// The most domains that a router without configured domains tells apart.
const DOMAINS_MAX: usize = 64;

/// What a decision takes the place of.
pub(super) struct Instead<'a> {
    /// The decision whose worker gave no answer.
    pub of: DecisionId,
    /// The arms that gave this task none.
    pub failed: &'a [ArmId],
}

impl Router {
    /// Observes and decides; the decision is durable when this returns. Before it is, the most that the task is expected to
    /// cost is put aside of its tenant's dollars. Where it takes the place of one that failed, the arms that did are no
    /// candidates: it is drawn from what the policy says of the others, and has a propensity of its own.
    pub(super) async fn decide(
        &self,
        mut task: Task,
        instead: Option<&Instead<'_>>,
        by: RunBy,
    ) -> Result<(Arc<Decided>, Hold, Appended), RouterError> {
        let own = self.tenant(task.tenant.as_ref())?;
        if let Some((tenant, own)) = own {
            own.check_arms(tenant, task.constraints.arms.as_deref())?;
            if task.domain != Domain::unknown() {
                own.check_domain(tenant, &task.domain)?;
            }
        }
        self.admit(&task.domain)?;
        // Journaled with the task, so that a later change of the default does not change what was learnt.
        let weights = *task.reward.get_or_insert(own.map_or(self.settings.reward, |(_, own)| own.reward));
        let started = Instant::now();
        let text = essence(&task.messages);
        let embedding = self.embedder.embed(&text).instrument(tracing::info_span!(target: TRACES, "embed")).await?;
        observe_stage(Stage::Embed, started.elapsed());
        let recalled = self.recall(&embedding).instrument(tracing::info_span!(target: TRACES, "recall"));
        let (neighbours, recall) = recalled.await;
        // One state for all that follows: the one that the decision names.
        let snapshot = self.policy.load_full();
        let mut observed = Observed::of(self.embedder.model_id());
        if task.domain == Domain::unknown() {
            let nearest = snapshot.centroids.nearest(&embedding, self.settings.domain_similarity);
            if let Some((domain, similarity)) = nearest.filter(|(domain, _)| {
                self.admit(domain).is_ok() && own.is_none_or(|(_, own)| own.allows_domain(domain))
            }) {
                (task.domain, observed.domain_similarity) = (domain, Some(similarity));
            }
            if let Some((tenant, own)) = own {
                own.check_domain(tenant, &task.domain)?;
            }
        }
        let now = now_ms();
        let catalogue = self.catalogue.load_full();
        let may = |arm: &ArmId| own.is_none_or(|(_, own)| own.allows_arm(arm));
        let failed = instead.map_or(&[][..], |instead| instead.failed);
        let modes = self.modes(&task, by)?;
        let selection = catalogue.select(&task, &modes, may, failed, |arm| self.health.rests(arm, now))?;
        let Selection { candidates, masked, fallback } = selection;
        let dearest = candidates.iter().map(|candidate| candidate.cost_usd).fold(0.0, f64::max);
        let hold = self.tenants.reserve(task.tenant.as_ref(), dearest, now)?;
        observed.masked = masked;
        observed.instead_of = instead.map(|instead| instead.of);
        let expected_score = |candidate: &Candidate| self.expected_score(&catalogue, &task, candidate);
        observed.expected_scores = candidates.iter().map(expected_score).collect();
        let alpha = task.alpha.or(own.and_then(|(_, own)| own.alpha)).unwrap_or(self.settings.modes.alpha);
        let session = task.session.clone().map(|session| (task.tenant.clone(), session));
        let last = match &session {
            Some(session) => self.sessions.get(session).await,
            None => None,
        };
        let domain = task.domain.clone();
        let text = text.as_ref().into();
        let mut context =
            Context { text, embedding, domain, neighbours, recall, candidates, last, weights, alpha, proposal: None };
        self.tell_habits(&mut context.candidates, &snapshot.standings);
        observe(&mut context, &snapshot.standings);
        context.proposal = self.propose(&task, &context, &catalogue).await;
        let started = Instant::now();
        let span = tracing::info_span!(
            target: TRACES,
            "decide",
            pointsman.domain = task.domain.as_str(),
            pointsman.neighbours = context.neighbours.len(),
            pointsman.decision = Empty,
            pointsman.arm = Empty,
            pointsman.propensity = Empty,
        );
        let drawn = draw(&Deciding::of(&snapshot), DecisionId::generate(), &task.id, &context)?;
        let Drawn { mut decision, poisoned, failed } = drawn;
        if let Some(error) = failed {
            metrics::counter!(Metric::Fallbacks.name()).increment(1);
            tracing::warn!(%error, policy = %decision.policy.name, "the policy failed; drew uniformly");
        }
        if fallback {
            decision.reason = Reason::Fallback;
            metrics::counter!(Metric::Fallbacks.name()).increment(1);
        }
        observed.coin = self.coin(&decision, &task.domain, by);
        observe_stage(Stage::Decide, started.elapsed());
        span.record("pointsman.decision", tracing::field::display(decision.id));
        span.record("pointsman.arm", decision.arm.as_str());
        span.record("pointsman.propensity", decision.propensity.get());
        let decided = Arc::new(Decided { task, context, observed, decision });
        let events = vec![NewEvent::of(&decided, decided.to_event())];
        let appended = self.append(events).instrument(span).await?;
        if let Some(session) = session {
            let taken = Taken { mode: decided.decision.mode, arm: decided.decision.arm.clone() };
            self.sessions.insert(session, taken).await;
        }
        self.quarantine(poisoned).await;
        Ok((decided, hold, appended.first().copied().unwrap_or(Appended::Duplicate)))
    }

    /// Similar past tasks. Without memory there are none, and the decision says why.
    async fn recall(&self, embedding: &Embedding) -> (Vec<Neighbour>, Recall) {
        let started = Instant::now();
        let recalled = self.recaller.recall(embedding).await;
        observe_stage(Stage::Recall, started.elapsed());
        let reason = match recalled {
            Ok(neighbours) => {
                if self.recall_failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("recall answers again");
                }
                return (neighbours, Recall::Ok);
            }
            Err(error) => error.to_string(),
        };
        metrics::counter!(Metric::RecallUnavailable.name()).increment(1);
        // Once, not for every task of an outage: each decision records it.
        if !self.recall_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%reason, "deciding without recall");
        }
        (vec![], Recall::Unavailable(reason))
    }

    /// A task's tenant and what it may use, where tenants are configured.
    fn tenant<'a>(
        &'a self,
        tenant: Option<&'a TenantId>,
    ) -> Result<Option<(&'a TenantId, &'a TenantSettings)>, RouterError> {
        let Some(tenant) = tenant.filter(|_| !self.tenants.is_empty()) else { return Ok(None) };
        let settings = self.tenants.settings(tenant);
        let unknown = || RouterError::UnknownTenant { tenant: tenant.clone(), known: self.tenants.known() };
        Ok(Some((tenant, settings.ok_or_else(unknown)?)))
    }

    fn admit(&self, domain: &Domain) -> Result<(), RouterError> {
        if *domain == Domain::unknown() || self.settings.domains.contains(domain) {
            return Ok(());
        }
        let seen = self.seen_domains.load();
        if self.settings.domains.is_empty() && (seen.contains(domain) || seen.len() < DOMAINS_MAX) {
            if !seen.contains(domain) {
                self.seen_domains.rcu(|seen| {
                    let mut seen = BTreeSet::clone(seen);
                    seen.insert(domain.clone());
                    seen
                });
            }
            return Ok(());
        }
        let known = if self.settings.domains.is_empty() { &**seen } else { &self.settings.domains };
        Err(RouterError::unknown_domain(domain, known))
    }
}
