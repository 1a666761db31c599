//! Who decides when the router opens: what the journal says of policies and arms, on top of the configuration.

use std::sync::Arc;

use super::{
    ArmMaker, RouterError, RouterSettings,
    arms::changed,
    cards::{Acting, CardSource, Cards},
    policies::Policies,
};
use crate::{
    arms::Catalogue,
    journal::{ArmChange, Event, Journal, NewEvent, PolicyChange, PolicyOrigin, PolicyRole},
    round::ArmId,
};

/// Who decides and who is on trial.
pub(super) struct Roles {
    pub champion: Acting,
    pub shadow: Option<Acting>,
    pub cards: Cards,
    pub changes: Vec<PolicyChange>,
}

impl Roles {
    /// The last changes in the journal, unless the configuration names another card than it did then: that is a change too.
    pub async fn of(
        journal: &Journal,
        settings: &RouterSettings,
        source: &CardSource,
        catalogue: &Catalogue,
    ) -> Result<Self, RouterError> {
        let cards = source.read_all();
        let acting = |change: &PolicyChange| acting(source, change);
        let known = || cards.keys().cloned().collect::<Vec<_>>().join(", ");
        let card = match cards.get(&settings.card) {
            Some(Ok(card)) => Arc::clone(card),
            Some(Err(problem)) => {
                return Err(RouterError::BadCard { card: settings.card.clone(), problem: problem.clone() });
            }
            None => return Err(RouterError::UnknownCard { card: settings.card.clone(), known: known() }),
        };
        let policy = settings.policy.as_deref().unwrap_or(&card.settings.policy);
        let configured = PolicyChange {
            role: PolicyRole::Champion,
            origin: PolicyOrigin::Configured,
            name: card.name().into(),
            policy: policy.into(),
            card: Some(card.text.clone()),
        };
        let mut changes: Vec<_> = journal.policy_changes().await?.into_iter().map(|(_, change)| change).collect();
        let from_file = |change: &&PolicyChange| match change.origin {
            PolicyOrigin::Configured | PolicyOrigin::Reloaded => change.role == PolicyRole::Champion,
            PolicyOrigin::Asked | PolicyOrigin::RolledBack => false,
        };
        let last = changes.iter().rev().find(from_file);
        let known = last.is_some_and(|last| (&last.policy, &last.card) == (&configured.policy, &configured.card));
        if !known {
            changes.push(configured.clone());
        }
        let champion = Policies::last(&changes, PolicyRole::Champion).map(acting).transpose()?;
        let champion = champion.ok_or_else(|| RouterError::Internal("no policy was configured".into()))?;
        if let Some((_, arm)) = champion.name.split_once("fixed:")
            && let Err(error) = catalogue.get(&ArmId::new(arm)?)
        {
            // A configuration that names it is wrong; an arm that was removed since leaves the policy to fall back.
            if !known {
                return Err(error.into());
            }
            tracing::warn!(%error, policy = %champion.name, "the policy has no arm: every task falls back to a uniform draw");
        }
        if !known {
            journal.append(vec![NewEvent::alone(Event::PolicyChanged { change: configured })]).await?;
        }
        let shadow = Policies::on_trial(&changes).map(acting).transpose()?;
        Ok(Self { champion, shadow, cards, changes })
    }
}

/// The policy of a change, nothing learnt yet.
pub(super) fn acting(source: &CardSource, change: &PolicyChange) -> Result<Acting, RouterError> {
    let card = Arc::new(source.parse(change.card.as_deref().unwrap_or_default())?);
    Ok(Acting::new(card, &change.policy)?)
}

/// The configured arms with what became of them since. A change that cannot be made any more is logged and left out.
pub(super) fn with_changes(configured: Catalogue, changes: Vec<(ArmId, ArmChange)>, maker: &ArmMaker) -> Catalogue {
    let mut catalogue = configured;
    for (arm, change) in changes {
        match changed(&catalogue, &arm, &change, maker) {
            Ok(next) => catalogue = next,
            Err(error) => tracing::warn!(%arm, %error, "a change of an arm could not be made again"),
        }
    }
    catalogue
}
