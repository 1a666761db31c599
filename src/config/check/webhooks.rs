//! The webhooks: where they are, what they are told, and the secrets that they share.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use reqwest::Url;
use toml::Value;

use super::{Checker, one_line, raw};
use crate::{
    access::TenantSettings,
    feedback::verifier::VerifierSpec,
    round::{Domain, TenantId, WebhookName},
    webhooks::{Secrets, WebhookSettings},
};

/// Each follows the journal by itself.
const WEBHOOKS_MAX: usize = 32;

impl Checker<'_> {
    pub(super) fn webhooks(
        &mut self,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
        tenants: &BTreeMap<TenantId, TenantSettings>,
    ) -> Vec<WebhookSettings> {
        let listed = match self.table.get("webhooks").cloned() {
            None => return vec![],
            Some(Value::Array(list)) => list,
            Some(_) => {
                self.problems.add("webhooks", "must be a list: write [[webhooks]] above each webhook");
                return vec![];
            }
        };
        self.problems.require(listed.len() <= WEBHOOKS_MAX, "webhooks", "must be at most 32");
        let mut webhooks = Vec::with_capacity(listed.len());
        let mut seen = BTreeSet::new();
        for (index, value) in listed.into_iter().enumerate() {
            let key = format!("webhooks[{index}]");
            let webhook = match value.try_into::<raw::Webhook>() {
                Ok(raw) => self.webhook(&key, raw, domains, tenants),
                Err(error) => {
                    self.problems.add(&key, one_line(&error));
                    None
                }
            };
            let Some(webhook) = webhook else { continue };
            if !seen.insert(webhook.name.clone()) {
                self.problems.add(format!("{key}.name"), format!("{} is defined twice", webhook.name));
            }
            webhooks.push(webhook);
        }
        webhooks
    }

    fn webhook(
        &mut self,
        key: &str,
        raw: raw::Webhook,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
        tenants: &BTreeMap<TenantId, TenantSettings>,
    ) -> Option<WebhookSettings> {
        let raw::Webhook { name, url, secret_env, events, domains: own, tenants: whose, timeout_ms, texts } = raw;
        let timely = (100..=60_000).contains(&timeout_ms);
        self.problems.require(timely, format!("{key}.timeout_ms"), "must be from 100 to 60000");
        let advice = "must name at least one of task.finished, decision.abandoned, feedback.given";
        self.problems.require(!events.is_empty(), format!("{key}.events"), advice);
        let own = own.map(|names| self.domain_names(&format!("{key}.domains"), names, domains));
        let whose = whose.map(|names| self.tenant_names(&format!("{key}.tenants"), names, tenants));
        let name = WebhookName::new(name).map_err(|error| self.problems.add(format!("{key}.name"), error.problem)).ok();
        let url = receiver(&url).map_err(|advice| self.problems.add(format!("{key}.url"), advice)).ok();
        let secrets = self.secrets(&format!("{key}.secret_env"), &secret_env);
        Some(WebhookSettings {
            name: name?,
            url: url?,
            secrets: secrets?,
            events,
            domains: own,
            tenants: whose,
            timeout: Duration::from_millis(timeout_ms),
            texts,
        })
    }

    fn tenant_names(
        &mut self,
        key: &str,
        names: Vec<String>,
        tenants: &BTreeMap<TenantId, TenantSettings>,
    ) -> BTreeSet<TenantId> {
        self.problems.require(!names.is_empty(), key, "must name at least one tenant; leave it out for all");
        let mut whose = BTreeSet::new();
        for name in names {
            match TenantId::new(&name) {
                Ok(tenant) if tenants.is_empty() || tenants.contains_key(&tenant) => {
                    whose.insert(tenant);
                }
                Ok(_) => {
                    self.problems.add(key, format!("there is no [tenants.{name}]; add it, or name one that is there"))
                }
                Err(error) => self.problems.add(key, error.problem),
            }
        }
        whose
    }

    fn secrets(&mut self, key: &str, variable: &str) -> Option<Secrets> {
        let Some(text) = (self.env)(variable).filter(|text| !text.trim().is_empty()) else {
            let advice = format!(
                "${variable} is not set; export it with a secret, such as the output of `echo whsec_$(openssl rand -base64 32)`"
            );
            self.problems.add(key, advice);
            return None;
        };
        Secrets::parse(&text).map_err(|problem| self.problems.add(key, format!("${variable} {problem}"))).ok()
    }
}

/// An address that messages can be posted to.
fn receiver(text: &str) -> Result<Url, String> {
    let advice = "must be an address such as https://example.com/hooks";
    let url = Url::parse(text).map_err(|error| format!("{advice}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("{advice}, with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a name or password: the signature says who sends".into());
    }
    Ok(url)
}
