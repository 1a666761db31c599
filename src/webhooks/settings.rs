//! What a webhook is told of, and where it is.

use std::{collections::BTreeSet, fmt, time::Duration};

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::Secrets;
use crate::round::{Domain, TenantId, WebhookName};

/// One webhook of the configuration.
#[derive(Clone)]
pub struct WebhookSettings {
    /// Its name, under which its place in the journal is kept.
    pub name: WebhookName,
    /// Where messages are posted to.
    pub url: Url,
    /// What they are signed with.
    pub secrets: Secrets,
    /// What it is told of.
    pub events: BTreeSet<EventType>,
    /// The domains whose tasks it is told of; all where none are given.
    pub domains: Option<BTreeSet<Domain>>,
    /// The same of tenants; a task without tenant is none of theirs.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// Whether prompts and answers are told.
    pub texts: bool,
}

impl WebhookSettings {
    /// Whether it is told of tasks of a domain and a tenant.
    pub(super) fn wants(&self, domain: &Domain, tenant: Option<&TenantId>) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.contains(domain))
            && self.tenants.as_ref().is_none_or(|tenants| tenant.is_some_and(|tenant| tenants.contains(tenant)))
    }

    /// The address without its query, which may hold a password.
    pub(super) fn shown_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.into()
    }
}

impl fmt::Debug for WebhookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSettings")
            .field("name", &self.name)
            .field("url", &self.shown_url())
            .field("secrets", &self.secrets)
            .field("events", &self.events)
            .field("domains", &self.domains)
            .field("tenants", &self.tenants)
            .field("timeout", &self.timeout)
            .field("texts", &self.texts)
            .finish()
    }
}

/// What webhooks are told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = WebhookEvent)]
pub enum EventType {
    /// A task has its answer and what that is worth, or has none for good.
    #[serde(rename = "task.finished")]
    TaskFinished,
    /// Nobody said what became of a decision before its lease ended.
    #[serde(rename = "decision.abandoned")]
    DecisionAbandoned,
    /// A client, a user or a judge said what an answer is worth.
    #[serde(rename = "feedback.given")]
    FeedbackGiven,
}

impl EventType {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TaskFinished => "task.finished",
            Self::DecisionAbandoned => "decision.abandoned",
            Self::FeedbackGiven => "feedback.given",
        }
    }
}
