//! Which policy decides, and which one is on trial: promote, roll back, reload.
//!
//! A policy is the fold of all learnt rounds under its card. So a card can take over at any time: its policy is folded from
//! the journal beside the running one, the change is journaled, and the learner, having come to that place, adds the few
//! rounds in between and publishes it. After a restart the last change in the journal says who decides.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::runtime::Handle;

use super::{
    Router, RouterError,
    cards::{Acting, Card, CardSource, Cards},
    run_blocking,
    state::{catch_up, locked},
    trial::TrialReport,
};
use crate::{
    journal::{Event, Journal, NewEvent, PolicyChange, PolicyOrigin, PolicyRole},
    round::{ArmId, Domain, PolicyRef},
    telemetry::Metric,
};

/// How often to look whether a card's file changed.
const RELOAD_EVERY: Duration = Duration::from_secs(1);
/// How often to look whether the learner has come to a change.
const POLL: Duration = Duration::from_millis(2);
/// How long to wait for that.
const WAIT: Duration = Duration::from_secs(30);

/// What is known of the policies besides their state.
pub(super) struct Policies {
    /// Where cards are.
    pub source: CardSource,
    /// Those that were there last.
    pub cards: ArcSwap<Cards>,
    /// Guards the changes so far, oldest first; appended to after the journal was.
    pub changes: Mutex<Vec<PolicyChange>>,
    /// Lets one change at a time be prepared; held across awaits, by nothing that rounds wait for.
    pub changing: tokio::sync::Mutex<()>,
    /// Guards the policy that the next change is about, for the learner to take.
    pub prepared: Arc<Mutex<Option<Prepared>>>,
}

/// A policy that is folded up to a place in the journal.
pub(super) struct Prepared {
    pub change: PolicyChange,
    pub acting: Acting,
    pub at: i64,
}

/// All policies, for operators.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct PoliciesReport {
    /// The policy that decides.
    pub champion: PolicyRef,
    /// The rounds that it learnt from.
    pub learnt_rounds: u64,
    /// The BLAKE3 hash of all that was learnt: equal states have equal hashes, on any machine.
    pub state_hash: String,
    /// The policy on trial.
    pub shadow: Option<ShadowReport>,
    /// The cards, by name.
    pub cards: Vec<CardReport>,
    /// The changes so far, oldest first.
    pub changes: Vec<ChangeReport>,
    /// The champion's voters and their weights in each domain; empty when it is no ensemble.
    pub weights: Vec<DomainWeights>,
}

/// A policy on trial.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ShadowReport {
    /// The policy.
    pub policy: PolicyRef,
    /// What it would have brought.
    #[serde(flatten)]
    pub trial: TrialReport,
}

/// A card.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct CardReport {
    /// Its name.
    pub name: String,
    /// Name and hash; absent when it cannot be used.
    pub label: Option<String>,
    /// The policy that it puts to work.
    pub policy: Option<String>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

/// A change, without the card's text.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct ChangeReport {
    /// The role that changed.
    pub role: PolicyRole,
    /// Why.
    pub origin: PolicyOrigin,
    /// The card's name.
    pub card: String,
    /// The policy.
    pub policy: String,
}

/// The voters' weights in one domain.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct DomainWeights {
    /// The domain.
    pub domain: Domain,
    /// Voters and weights; the weights sum to 1.
    pub voters: Vec<(String, f64)>,
}

impl Policies {
    /// The last change of a role.
    pub fn last(changes: &[PolicyChange], role: PolicyRole) -> Option<&PolicyChange> {
        changes.iter().rev().find(|change| change.role == role)
    }

    /// The policy on trial; none when it was ended, or promoted since.
    pub fn on_trial(changes: &[PolicyChange]) -> Option<&PolicyChange> {
        let place = changes.iter().rposition(|change| change.role == PolicyRole::Shadow)?;
        let shadow = &changes[place];
        let promoted = |change: &PolicyChange| {
            change.role == PolicyRole::Champion && (&change.policy, &change.card) == (&shadow.policy, &shadow.card)
        };
        (shadow.card.is_some() && !changes[place..].iter().any(promoted)).then_some(shadow)
    }
}

impl Router {
    /// All policies as of now.
    pub fn policies(&self) -> PoliciesReport {
        let snapshot = self.policy.load();
        // Copied, since the learner waits for the lock and a hash takes its time.
        let shown = locked(&self.shown).clone();
        let cards = self.policies.cards.load();
        let card = |(name, card): (&String, &Result<Arc<Card>, String>)| CardReport {
            name: name.clone(),
            label: card.as_ref().ok().map(|card| card.label()),
            policy: card.as_ref().ok().map(|card| card.settings.policy.clone()),
            problem: card.as_ref().err().cloned(),
        };
        let changes = self.policies.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let change = |change: &PolicyChange| ChangeReport {
            role: change.role,
            origin: change.origin,
            card: change.name.clone(),
            policy: change.policy.clone(),
        };
        let weights = snapshot.standings.known_domains().map(|domain| DomainWeights {
            domain: domain.clone(),
            voters: snapshot.champion.policy.voter_weights(domain),
        });
        PoliciesReport {
            champion: snapshot.champion.reference(),
            learnt_rounds: snapshot.learnt_rounds,
            state_hash: snapshot.known(&shown).hash(),
            shadow: snapshot
                .shadow
                .as_ref()
                .map(|shadow| ShadowReport { policy: shadow.reference(), trial: snapshot.trial.report() }),
            cards: cards.iter().map(card).collect(),
            changes: changes.iter().map(change).collect(),
            weights: weights.filter(|weights| !weights.voters.is_empty()).collect(),
        }
    }

    /// Lets a card decide from now on: `policy` of it, or the one that it names. Returns once it does.
    pub async fn promote(&self, card: &str, policy: Option<&str>) -> Result<PolicyRef, RouterError> {
        let card = self.card(card)?;
        self.change(PolicyRole::Champion, PolicyOrigin::Asked, Some(card), policy).await
    }

    /// Puts a card on trial, or ends the trial.
    pub async fn set_shadow(&self, card: Option<&str>, policy: Option<&str>) -> Result<Option<PolicyRef>, RouterError> {
        let card = card.map(|name| self.card(name)).transpose()?;
        let set = card.is_some();
        let reference = self.change(PolicyRole::Shadow, PolicyOrigin::Asked, card, policy).await?;
        Ok(set.then_some(reference))
    }

    /// Lets the policy decide again that did before the present one.
    pub async fn roll_back(&self) -> Result<PolicyRef, RouterError> {
        let previous = {
            let changes = self.policies.changes.lock().unwrap_or_else(PoisonError::into_inner);
            let mut champions = changes.iter().rev().filter(|change| change.role == PolicyRole::Champion);
            let current = champions.next();
            let same = |change: &&PolicyChange| {
                current.is_some_and(|now| (&now.policy, &now.card) == (&change.policy, &change.card))
            };
            champions.find(|change| !same(change)).cloned()
        };
        let previous = previous.ok_or(RouterError::NothingToRollBack)?;
        let text = previous.card.unwrap_or_default();
        let card = Arc::new(self.policies.source.parse(&text)?);
        self.change(PolicyRole::Champion, PolicyOrigin::RolledBack, Some(card), Some(&previous.policy)).await
    }

    /// Reads the cards' files again and puts changed ones to work where they are. Returns what changed.
    pub async fn reload_cards(&self) -> Vec<String> {
        let source = self.policies.source.clone();
        let Ok(cards) = run_blocking(move || source.read_all()).await else { return vec![] };
        let before = self.policies.cards.swap(Arc::new(cards.clone()));
        let mut reloaded = vec![];
        for (name, card) in cards.iter().filter(|(name, card)| before.get(*name) != Some(card)) {
            match card {
                Ok(card) => reloaded.extend(self.put_to_work(name, card).await),
                Err(problem) => tracing::warn!(card = %name, %problem, "a policy card cannot be used"),
            }
        }
        reloaded
    }

    /// Gives a changed card to the roles in which its older text is.
    async fn put_to_work(&self, name: &str, card: &Arc<Card>) -> Vec<String> {
        let mut reloaded = vec![];
        for role in [PolicyRole::Champion, PolicyRole::Shadow] {
            let last = {
                let changes = self.policies.changes.lock().unwrap_or_else(PoisonError::into_inner);
                match role {
                    PolicyRole::Champion => Policies::last(&changes, role).cloned(),
                    PolicyRole::Shadow => Policies::on_trial(&changes).cloned(),
                }
            };
            let Some(last) = last.filter(|last| last.name == name && last.card.is_some()) else { continue };
            if last.card.as_deref() == Some(&card.text) {
                continue;
            }
            // The policy that the operator picked stays; one that was the card's own follows the card.
            let own = last
                .card
                .and_then(|text| self.policies.source.parse(&text).ok())
                .is_some_and(|old| old.settings.policy == last.policy);
            let policy = (!own).then_some(last.policy.as_str());
            match self.change(role, PolicyOrigin::Reloaded, Some(Arc::clone(card)), policy).await {
                Ok(reference) => {
                    tracing::info!(card = %reference.card, policy = %reference.name, "a changed policy card is at work");
                    reloaded.push(reference.card);
                }
                Err(error) => tracing::warn!(card = %name, %error, "a changed policy card could not be put to work"),
            }
        }
        reloaded
    }

    /// Looks for changed cards until the router closes.
    pub(super) async fn watch_cards(self: Arc<Self>) {
        let source = self.policies.source.clone();
        let mut seen = source.traces(&self.policies.cards.load());
        let mut ticks = tokio::time::interval(RELOAD_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.closing.cancelled() => return,
                _ = ticks.tick() => {
                    let now = source.traces(&self.policies.cards.load());
                    if now != seen {
                        self.reload_cards().await;
                        // Cards may name other files now.
                        seen = source.traces(&self.policies.cards.load());
                    }
                }
            }
        }
    }

    fn card(&self, name: &str) -> Result<Arc<Card>, RouterError> {
        let cards = self.policies.cards.load();
        match cards.get(name) {
            Some(Ok(card)) => Ok(Arc::clone(card)),
            Some(Err(problem)) => Err(RouterError::BadCard { card: name.into(), problem: problem.clone() }),
            None => {
                let known = cards.keys().cloned().collect::<Vec<_>>().join(", ");
                Err(RouterError::UnknownCard { card: name.into(), known })
            }
        }
    }

    async fn change(
        &self,
        role: PolicyRole,
        origin: PolicyOrigin,
        card: Option<Arc<Card>>,
        policy: Option<&str>,
    ) -> Result<PolicyRef, RouterError> {
        let _one_at_a_time = self.policies.changing.lock().await;
        let change = PolicyChange {
            role,
            origin,
            name: card.as_ref().map(|card| card.name().to_owned()).unwrap_or_default(),
            policy: policy.or(card.as_ref().map(|card| card.settings.policy.as_str())).unwrap_or_default().to_owned(),
            card: card.as_ref().map(|card| card.text.clone()),
        };
        if let Some(card) = card {
            let acting = Acting::new(card, &change.policy)?;
            self.refuse_unknown_arm(&change.policy)?;
            let (acting, at) = prepare(Arc::clone(&self.journal), acting).await?;
            let prepared = Prepared { change: change.clone(), acting, at };
            *self.policies.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
        }
        let before = self.policy.load().changes;
        self.append(vec![NewEvent::alone(Event::PolicyChanged { change: change.clone() })]).await?;
        self.policies.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        metrics::counter!(Metric::PolicyChanges.name()).increment(1);
        let until = tokio::time::Instant::now() + WAIT;
        while self.policy.load().changes == before && self.is_learning() && tokio::time::Instant::now() < until {
            tokio::time::sleep(POLL).await;
        }
        let snapshot = self.policy.load();
        Ok(match (role, &snapshot.shadow) {
            (PolicyRole::Shadow, Some(shadow)) => shadow.reference(),
            (PolicyRole::Shadow, None) | (PolicyRole::Champion, _) => snapshot.champion.reference(),
        })
    }

    /// A policy that always takes one arm needs that arm.
    fn refuse_unknown_arm(&self, policy: &str) -> Result<(), RouterError> {
        let Some((_, arm)) = policy.split_once("fixed:") else { return Ok(()) };
        self.catalogue.load().get(&ArmId::new(arm)?)?;
        Ok(())
    }
}

/// Folds all of the journal so far into a policy; returns the place of the last event seen.
async fn prepare(journal: Arc<Journal>, mut acting: Acting) -> Result<(Acting, i64), RouterError> {
    let handle = Handle::current();
    run_blocking(move || {
        let at = handle.block_on(async {
            let until = journal.last_seq().await?;
            catch_up(&journal, &mut acting, until).await?;
            Ok::<i64, RouterError>(until)
        })?;
        Ok((acting, at))
    })
    .await?
}
