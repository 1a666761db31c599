//! API keys while the router runs, and those of a journal that no router has open.
//!
//! A change is durable before it counts. Checking a key reads one immutable map.

use std::{path::Path, sync::Arc};

use rand::RngCore;

use super::{Router, RouterError};
use crate::{
    access::{IssuedKey, Keys, NewKey, RANDOM_BYTES, issue},
    journal::{Event, Journal, JournalReader, NewEvent, now_ms},
    round::{Invalid, KeyChange, KeyId, KeyRecord, KeyRole},
};

impl Router {
    /// Makes a key. `admin` tells whether somebody can administer the daemon without any key of the journal.
    pub async fn create_key(&self, new: NewKey, admin: bool) -> Result<IssuedKey, RouterError> {
        if let Some(tenant) = new.tenant.as_ref().filter(|tenant| !self.tenants.knows(tenant)) {
            return Err(RouterError::UnknownTenant { tenant: tenant.clone(), known: self.tenants.known() });
        }
        let _one_at_a_time = self.changing_keys.lock().await;
        if new.role == KeyRole::Client && !admin && self.keys.is_empty() {
            return Err(RouterError::AdminKeyFirst);
        }
        create_key(&self.journal, &self.keys, new).await
    }

    /// Revokes a key; one that is revoked stays so.
    pub async fn revoke_key(&self, id: KeyId) -> Result<Arc<KeyRecord>, RouterError> {
        let _one_at_a_time = self.changing_keys.lock().await;
        revoke_key(&self.journal, &self.keys, id).await
    }
}

/// The keys of a journal's file, also while a daemon writes it; none where there is no file.
pub async fn keys_of(path: &Path) -> Result<Keys, RouterError> {
    if !path.exists() {
        return Ok(Keys::default());
    }
    let journal = JournalReader::open_recorded(path).await?;
    let changes = journal.key_changes().await;
    journal.close_reader().await;
    Ok(Keys::of(changes?))
}

/// Makes a key in a journal and in the keys that were read from it.
pub async fn create_key(journal: &Journal, keys: &Keys, new: NewKey) -> Result<IssuedKey, RouterError> {
    if new.role == KeyRole::Admin && new.tenant.is_some() {
        return Err(Invalid::new("tenant", "cannot come with the role admin, which is for all tenants").into());
    }
    if new.expires_in_days == Some(0) {
        return Err(Invalid::new("expires_in_days", "must be from 1 to 65535, or be left out for never").into());
    }
    let mut random = [0; RANDOM_BYTES];
    rand::rng().fill_bytes(&mut random);
    let issued = issue(new, &random, now_ms());
    let id = issued.record.id;
    if keys.get(id).is_some() {
        return Err(RouterError::Internal("a new key has the id of another one; make it again".into()));
    }
    change(journal, keys, id, KeyChange::Created(issued.record.clone())).await?;
    Ok(issued)
}

/// Revokes a key in a journal and in the keys that were read from it.
pub async fn revoke_key(journal: &Journal, keys: &Keys, id: KeyId) -> Result<Arc<KeyRecord>, RouterError> {
    let known = keys.get(id).ok_or(RouterError::UnknownKey(id))?;
    if known.revoked_at_ms.is_some() {
        return Ok(known);
    }
    change(journal, keys, id, KeyChange::Revoked { at_ms: now_ms() }).await?;
    keys.get(id).ok_or(RouterError::UnknownKey(id))
}

async fn change(journal: &Journal, keys: &Keys, id: KeyId, change: KeyChange) -> Result<(), RouterError> {
    journal.append(vec![NewEvent::alone(Event::KeyChanged { key: id, change: change.clone() })]).await?;
    keys.apply(id, &change);
    Ok(())
}
