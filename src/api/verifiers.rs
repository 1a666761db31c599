//! `/v1/domains/{domain}/verifiers`: a domain's verifiers, installed, weighed, rolled back and removed while tasks flow.
//!
//! The domain `*` is the set of all domains without one of their own.

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, Path, Query, Request, State, rejection::BytesRejection},
    http::{StatusCode, header},
};
use serde::{Deserialize, Serialize};

use super::{ApiState, Problem, request::Body};
use crate::{
    round::{Domain, Metadata, OnError, Task, TaskId, VerifierName, VerifierPatch},
    router::{COMPONENT_BYTES_MAX, Judgement, NewComponent, SetKey, SetReport, VerifierReport},
};

/// The domain of all that have no set of their own.
const ALL: &str = "*";

#[derive(Serialize)]
pub(super) struct Sets {
    sets: Vec<SetReport>,
}

/// Settings that come with an upload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UploadQuery {
    weight: Option<f64>,
    gate: Option<bool>,
    on_error: Option<OnError>,
    /// A JSON object.
    config: Option<String>,
}

/// A first-party verifier to install, with its settings.
#[derive(Debug, Deserialize)]
struct FirstParty {
    first_party: VerifierName,
    #[serde(flatten)]
    patch: PatchFields,
}

// `flatten` and `deny_unknown_fields` do not go together, so the fields are repeated.
#[derive(Debug, Deserialize)]
struct PatchFields {
    weight: Option<f64>,
    gate: Option<bool>,
    on_error: Option<OnError>,
    config: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Which version to bring back; the one before when absent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RollBackQuery {
    version: Option<u32>,
}

/// A task and an answer to look at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trial {
    #[serde(default)]
    id: Option<TaskId>,
    prompt: String,
    #[serde(default)]
    metadata: Metadata,
    response: String,
}

pub(super) async fn sets(State(state): State<ApiState>) -> Json<Sets> {
    Json(Sets { sets: state.router.verifier_sets() })
}

pub(super) async fn list(
    State(state): State<ApiState>,
    Path(domain): Path<String>,
) -> Result<Json<SetReport>, Problem> {
    Ok(Json(state.router.verifier_set(&key(&domain)?)?))
}

pub(super) async fn show(
    State(state): State<ApiState>,
    Path((domain, name)): Path<(String, String)>,
) -> Result<Json<VerifierReport>, Problem> {
    Ok(Json(state.router.verifier(&key(&domain)?, &VerifierName::new(name)?)?))
}

/// The body is the component itself, or JSON that names a first-party one.
pub(super) async fn install(
    State(state): State<ApiState>,
    Path((domain, name)): Path<(String, String)>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Result<Json<VerifierReport>, Problem> {
    let (key, name) = (key(&domain)?, VerifierName::new(name)?);
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = kind.starts_with("application/json");
    let bytes = Bytes::from_request(request, &()).await.map_err(too_large)?;
    let mut patch = query.patch()?;
    let component = if is_json {
        let wanted: FirstParty = serde_json::from_slice(&bytes).map_err(|error| {
            Problem::invalid_json(format!(
                "{error}; send {{\"first_party\": NAME}}, or a component as application/wasm"
            ))
        })?;
        let PatchFields { weight, gate, on_error, config } = wanted.patch;
        patch = VerifierPatch {
            weight: weight.or(patch.weight),
            gate: gate.or(patch.gate),
            on_error: on_error.or(patch.on_error),
            config: config.or(patch.config),
        };
        NewComponent::FirstParty(wanted.first_party)
    } else {
        NewComponent::Bytes(bytes.into())
    };
    Ok(Json(state.router.install_verifier(&key, &name, component, &patch).await?))
}

pub(super) async fn patch(
    State(state): State<ApiState>,
    Path((domain, name)): Path<(String, String)>,
    Body(patch): Body<VerifierPatch>,
) -> Result<Json<VerifierReport>, Problem> {
    Ok(Json(state.router.patch_verifier(&key(&domain)?, &VerifierName::new(name)?, &patch).await?))
}

pub(super) async fn roll_back(
    State(state): State<ApiState>,
    Path((domain, name)): Path<(String, String)>,
    Query(query): Query<RollBackQuery>,
) -> Result<Json<VerifierReport>, Problem> {
    let (key, name) = (key(&domain)?, VerifierName::new(name)?);
    Ok(Json(state.router.roll_back_verifier(&key, &name, query.version).await?))
}

pub(super) async fn remove(
    State(state): State<ApiState>,
    Path((domain, name)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    state.router.remove_verifier(&key(&domain)?, &VerifierName::new(name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What the domain's verifiers would say.
pub(super) async fn dry_run(
    State(state): State<ApiState>,
    Path(domain): Path<String>,
    Body(trial): Body<Trial>,
) -> Result<Json<Judgement>, Problem> {
    // All domains without a set of their own judge alike.
    let domain = key(&domain)?.unwrap_or_else(Domain::unknown);
    let id = trial.id.unwrap_or_else(TaskId::generate);
    let task = Task::plain(id, domain, trial.prompt, trial.metadata);
    Ok(Json(state.router.dry_run(&task, &trial.response).await?))
}

impl UploadQuery {
    fn patch(&self) -> Result<VerifierPatch, Problem> {
        let read = |text: &String| {
            serde_json::from_str(text)
                .map_err(|error| Problem::invalid_query(format!("config must be a JSON object: {error}")))
        };
        let config = self.config.as_ref().map(read).transpose()?;
        Ok(VerifierPatch { weight: self.weight, gate: self.gate, on_error: self.on_error, config })
    }
}

fn key(domain: &str) -> Result<SetKey, Problem> {
    Ok(if domain == ALL { None } else { Some(Domain::new(domain)?) })
}

fn too_large(rejection: BytesRejection) -> Problem {
    let detail = format!("a component has at most {COMPONENT_BYTES_MAX} bytes: {}", rejection.body_text());
    Problem::too_large(detail)
}
