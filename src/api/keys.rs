//! `/v1/keys`: API keys, made, listed and revoked while tasks flow; `/v1/tenants`: what each may spend and spent.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    ApiState, Problem,
    openapi::problems::{problems, shared},
    request::{Body, Object, Segments},
};
use crate::{
    access::{NewKey, TenantReport},
    round::{KeyId, KeyName, KeyRecord, KeyRole, TenantId},
    router::now_ms,
};

/// A key to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WantedKey)]
pub(super) struct Wanted {
    /// What people call it.
    name: KeyName,
    /// What it is to open; `client` when absent.
    #[serde(default = "client")]
    role: KeyRole,
    /// Whose tasks it is to send; an admin key has none.
    #[serde(default)]
    tenant: Option<TenantId>,
    /// Days until it opens nothing any more; never when absent.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 65_535)]
    expires_in_days: Option<u16>,
}

fn client() -> KeyRole {
    KeyRole::Client
}

/// A key as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
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

/// A key that was just made.
#[derive(Serialize, ToSchema)]
#[schema(as = NewKey)]
pub(super) struct Made {
    #[serde(flatten)]
    report: KeyReport,
    /// All of it, this once.
    key: String,
}

/// All keys.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyList)]
pub(super) struct Listed {
    /// Oldest first.
    keys: Vec<KeyReport>,
}

/// All tenants of the configuration.
#[derive(Serialize, ToSchema)]
#[schema(as = TenantList)]
pub(super) struct TenantsAnswer {
    /// By name.
    tenants: Vec<TenantReport>,
}

problems!(ListProblems: shared::CLIENT, shared::ADMIN);
problems!(CreateProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::BODY, &["unknown-tenant", "admin-key-first"]);
problems!(RevokeProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::PLACE, &["unknown-key"]);

/// All API keys, without what opens anything.
#[utoipa::path(
    get,
    path = "/v1/keys",
    operation_id = "list_keys",
    tag = "keys",
    responses((status = 200, description = "Expired and revoked ones too", body = Listed), ListProblems)
)]
pub(super) async fn list(State(state): State<ApiState>) -> Json<Listed> {
    let now_ms = now_ms();
    let report = |key: Arc<KeyRecord>| KeyReport::of(&key, now_ms);
    Json(Listed { keys: state.router.keys().list().into_iter().map(report).collect() })
}

/// Makes an API key, which is shown this once.
#[utoipa::path(
    post,
    path = "/v1/keys",
    operation_id = "create_key",
    tag = "keys",
    request_body(content = Wanted, example = json!({"name": "shop", "expires_in_days": 90})),
    responses((status = 201, description = "It opens what its role says; it is durable", body = Made), CreateProblems)
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    Body(Object(wanted)): Body<Object<Wanted>>,
) -> Result<(StatusCode, Json<Made>), Problem> {
    let Wanted { name, role, tenant, expires_in_days } = wanted;
    let new = NewKey { name, role, tenant, expires_in_days };
    let issued = state.router.create_key(new, state.admin_key.is_some()).await?;
    let report = KeyReport::of(&issued.record, issued.record.created_at_ms);
    Ok((StatusCode::CREATED, Json(Made { report, key: issued.secret.reveal().to_owned() })))
}

/// Revokes an API key, at once and for good.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    operation_id = "revoke_key",
    tag = "keys",
    params(("id" = KeyId, Path, description = "The key's public part")),
    responses((status = 200, description = "It opens nothing; the change is durable", body = KeyReport), RevokeProblems)
)]
pub(super) async fn revoke(
    State(state): State<ApiState>,
    Segments(id): Segments<String>,
) -> Result<Json<KeyReport>, Problem> {
    let key = state.router.revoke_key(id.parse::<KeyId>()?).await?;
    Ok(Json(KeyReport::of(&key, now_ms())))
}

/// What each tenant may spend, spent, and has put aside.
#[utoipa::path(
    get,
    path = "/v1/tenants",
    operation_id = "list_tenants",
    tag = "keys",
    responses((status = 200, description = "Those of the configuration", body = TenantsAnswer), ListProblems)
)]
pub(super) async fn tenants(State(state): State<ApiState>) -> Json<TenantsAnswer> {
    Json(TenantsAnswer { tenants: state.router.tenants().report(now_ms()) })
}
