//! `/v1/keys`: API keys, made, listed and revoked while tasks flow; `/v1/tenants`: what each may spend and spent.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};

use super::{ApiState, Problem, request::Body};
use crate::{
    access::{NewKey, TenantReport},
    round::{KeyId, KeyName, KeyRecord, KeyRole, TenantId},
    router::now_ms,
};

/// A key to make.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    name: KeyName,
    #[serde(default = "client")]
    role: KeyRole,
    #[serde(default)]
    tenant: Option<TenantId>,
    #[serde(default)]
    expires_in_days: Option<u16>,
}

fn client() -> KeyRole {
    KeyRole::Client
}

/// A key as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReport {
    /// Its public part.
    pub id: KeyId,
    /// What people call it.
    pub name: KeyName,
    /// What it lets do.
    pub role: KeyRole,
    /// Whose tasks it sends.
    pub tenant: Option<TenantId>,
    /// Whether it opens anything.
    pub status: KeyStatus,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it stops to open anything.
    pub expires_at_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_at_ms: Option<i64>,
}

/// Whether a key opens anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// It does.
    Usable,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl KeyReport {
    /// The state of a key at a time, in milliseconds since 1970.
    pub fn of(key: &KeyRecord, now_ms: i64) -> Self {
        Self {
            id: key.id,
            name: key.name.clone(),
            role: key.role,
            tenant: key.tenant.clone(),
            status: match key.revoked_at_ms {
                Some(_) => KeyStatus::Revoked,
                None if key.is_usable(now_ms) => KeyStatus::Usable,
                None => KeyStatus::Expired,
            },
            created_at_ms: key.created_at_ms,
            expires_at_ms: key.expires_at_ms,
            revoked_at_ms: key.revoked_at_ms,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Made {
    #[serde(flatten)]
    report: KeyReport,
    // All of it, this once.
    key: String,
}

#[derive(Serialize)]
pub(super) struct Listed {
    keys: Vec<KeyReport>,
}

#[derive(Serialize)]
pub(super) struct TenantsAnswer {
    tenants: Vec<TenantReport>,
}

pub(super) async fn list(State(state): State<ApiState>) -> Json<Listed> {
    let now_ms = now_ms();
    let report = |key: Arc<KeyRecord>| KeyReport::of(&key, now_ms);
    Json(Listed { keys: state.router.keys().list().into_iter().map(report).collect() })
}

pub(super) async fn create(
    State(state): State<ApiState>,
    Body(wanted): Body<Wanted>,
) -> Result<(StatusCode, Json<Made>), Problem> {
    let Wanted { name, role, tenant, expires_in_days } = wanted;
    let new = NewKey { name, role, tenant, expires_in_days };
    let issued = state.router.create_key(new, state.admin_key.is_some()).await?;
    let report = KeyReport::of(&issued.record, issued.record.created_at_ms);
    Ok((StatusCode::CREATED, Json(Made { report, key: issued.secret.reveal().to_owned() })))
}

pub(super) async fn revoke(State(state): State<ApiState>, Path(id): Path<String>) -> Result<Json<KeyReport>, Problem> {
    let key = state.router.revoke_key(id.parse::<KeyId>()?).await?;
    Ok(Json(KeyReport::of(&key, now_ms())))
}

pub(super) async fn tenants(State(state): State<ApiState>) -> Json<TenantsAnswer> {
    Json(TenantsAnswer { tenants: state.router.tenants().report(now_ms()) })
}
