//! `/v1/domains/{domain}/verifiers`: a domain's verifiers, installed, weighed, rolled back and removed while tasks flow.
//!
//! The domain `*` is the set of all domains without one of their own.

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    ApiState, Problem,
    openapi::{
        parts::{File, SetName},
        problems::{problems, shared},
    },
    request::{Body, Object, Parameters, Segments, body_up_to},
};
use crate::{
    round::{Domain, Metadata, OnError, Task, TaskId, VerifierName, VerifierPatch, VerifierSettings},
    router::{COMPONENT_BYTES_MAX, Judgement, NewComponent, SetKey, SetReport, VerifierReport},
};

/// The domain of all that have no set of their own.
const ALL: &str = "*";

/// All sets of verifiers.
#[derive(Serialize, ToSchema)]
#[schema(as = VerifierSets)]
pub(super) struct Sets {
    /// The one of all domains without one of their own first.
    sets: Vec<SetReport>,
}

/// Settings that come with an upload.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UploadQuery {
    /// Its weight.
    #[param(exclusive_minimum = 0, maximum = 1_000)]
    weight: Option<f64>,
    /// Whether its 0 forces the whole to 0.
    gate: Option<bool>,
    /// What its errors mean.
    on_error: Option<OnError>,
    /// Its own configuration: a JSON object.
    config: Option<String>,
}

/// A first-party verifier to install, with its settings.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct FirstParty {
    /// Its name in the program.
    first_party: VerifierName,
    #[serde(flatten)]
    patch: PatchFields,
}

// `flatten` and `deny_unknown_fields` do not go together, so the fields are repeated.
/// How it is to count.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = FirstPartySettings)]
pub(super) struct PatchFields {
    /// Its weight.
    #[schema(exclusive_minimum = 0, maximum = 1_000)]
    weight: Option<f64>,
    /// Whether its 0 forces the whole to 0.
    gate: Option<bool>,
    /// What its errors mean.
    on_error: Option<OnError>,
    /// Its own configuration.
    #[schema(value_type = Option<Object>)]
    config: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Which version to bring back; the one before when absent.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RollBackQuery {
    /// The version's number.
    #[param(minimum = 0, maximum = 4_294_967_295_u64)]
    version: Option<u32>,
}

/// A task and an answer to look at.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Trial {
    /// The task's name; generated when absent.
    #[serde(default)]
    id: Option<TaskId>,
    /// What was asked.
    prompt: String,
    /// What verifiers may use, such as `reference`.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Metadata,
    /// The answer to look at.
    response: String,
}

problems!(ListProblems: shared::CLIENT, shared::ADMIN);
problems!(SetProblems: shared::CLIENT, shared::ADMIN, shared::PLACE, &["unknown-domain"]);
problems!(ShowProblems: shared::CLIENT, shared::ADMIN, shared::PLACE, &["unknown-domain", "unknown-verifier"]);
problems!(InstallProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::PLACE,
    &["invalid-json", "too-large", "unknown-domain", "unknown-verifier", "verifier-not-built", "invalid-verifier"]);
problems!(PatchProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::BODY,
    &["invalid-path", "unknown-domain", "unknown-verifier", "invalid-verifier"]);
problems!(RollBackProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::PLACE,
    &["unknown-domain", "unknown-verifier", "no-such-version", "invalid-verifier", "verifier-not-built"]);
problems!(RemoveProblems: shared::CLIENT, shared::ADMIN, shared::CHANGE, shared::PLACE,
    &["unknown-domain", "unknown-verifier", "last-verifier"]);
problems!(DryRunProblems: shared::CLIENT, shared::ADMIN, shared::BODY,
    &["invalid-path", "admin-key-needed", "unknown-domain", "overloaded"]);

/// All sets of verifiers.
#[utoipa::path(
    get,
    path = "/v1/domains",
    operation_id = "list_verifier_sets",
    tag = "verifiers",
    responses((status = 200, description = "As they judge now", body = Sets), ListProblems)
)]
pub(super) async fn sets(State(state): State<ApiState>) -> Json<Sets> {
    Json(Sets { sets: state.router.verifier_sets() })
}

/// One domain's verifiers.
#[utoipa::path(
    get,
    path = "/v1/domains/{domain}/verifiers",
    operation_id = "list_verifiers",
    tag = "verifiers",
    params(("domain" = SetName, Path, description = "The domain; `*` is all that have no set of their own")),
    responses((status = 200, description = "In the order in which they judge", body = SetReport), SetProblems)
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Segments(domain): Segments<String>,
) -> Result<Json<SetReport>, Problem> {
    Ok(Json(state.router.verifier_set(&key(&domain)?)?))
}

/// One verifier, with the versions that it can be rolled back to.
#[utoipa::path(
    get,
    path = "/v1/domains/{domain}/verifiers/{name}",
    operation_id = "show_verifier",
    tag = "verifiers",
    params(("domain" = SetName, Path, description = "The domain; `*` is all that have no set of their own"), ("name" = VerifierName, Path, description = "The verifier's name in the set")),
    responses((status = 200, description = "As it judges now", body = VerifierReport), ShowProblems)
)]
pub(super) async fn show(
    State(state): State<ApiState>,
    Segments((domain, name)): Segments<(String, String)>,
) -> Result<Json<VerifierReport>, Problem> {
    Ok(Json(state.router.verifier(&key(&domain)?, &VerifierName::new(name)?)?))
}

/// Installs a verifier, or swaps the one that is there, while tasks flow.
///
/// The body is the component itself, or JSON that names one that comes with the program.
#[utoipa::path(
    put,
    path = "/v1/domains/{domain}/verifiers/{name}",
    operation_id = "install_verifier",
    tag = "verifiers",
    params(("domain" = SetName, Path, description = "The domain; `*` is all that have no set of their own"), ("name" = VerifierName, Path, description = "The verifier's name in the set"), UploadQuery),
    request_body(content((File = "application/wasm"), (FirstParty = "application/json", example = json!({"first_party": "answer", "weight": 2.0})))),
    responses((status = 200, description = "It judges; the change is durable", body = VerifierReport), InstallProblems)
)]
pub(super) async fn install(
    State(state): State<ApiState>,
    Segments((domain, name)): Segments<(String, String)>,
    Parameters(query): Parameters<UploadQuery>,
    request: Request,
) -> Result<Json<VerifierReport>, Problem> {
    let (key, name) = (key(&domain)?, VerifierName::new(name)?);
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = kind.starts_with("application/json");
    let too_large = format!("a component has at most {COMPONENT_BYTES_MAX} bytes");
    let bytes = body_up_to(COMPONENT_BYTES_MAX, &too_large, request).await?;
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

/// Changes how a verifier counts, while tasks flow.
#[utoipa::path(
    patch,
    path = "/v1/domains/{domain}/verifiers/{name}",
    operation_id = "change_verifier",
    tag = "verifiers",
    params(("domain" = SetName, Path, description = "The domain; `*` is all that have no set of their own"), ("name" = VerifierName, Path, description = "The verifier's name in the set")),
    request_body(content = VerifierPatch, example = json!({"weight": 2.0})),
    responses((status = 200, description = "It counts so; the change is durable", body = VerifierReport), PatchProblems)
)]
pub(super) async fn patch(
    State(state): State<ApiState>,
    Segments((domain, name)): Segments<(String, String)>,
    Body(Object(patch)): Body<Object<VerifierPatch>>,
) -> Result<Json<VerifierReport>, Problem> {
    Ok(Json(state.router.patch_verifier(&key(&domain)?, &VerifierName::new(name)?, &patch).await?))
}

/// Brings an earlier version of a verifier back.
#[utoipa::path(
    post,
    path = "/v1/domains/{domain}/verifiers/{name}/rollback",
    operation_id = "roll_back_verifier",
    tag = "verifiers",
    params(("domain" = SetName, Path, description = "The domain; `*` is all that have no set of their own"), ("name" = VerifierName, Path, description = "The verifier's name in the set"), RollBackQuery),
    responses((status = 200, description = "It judges again; the change is durable", body = VerifierReport), RollBackProblems)
)]
pub(super) async fn roll_back(
    State(state): State<ApiState>,
    Segments((domain, name)): Segments<(String, String)>,
    Parameters(query): Parameters<RollBackQuery>,
) -> Result<Json<VerifierReport>, Problem> {
    let (key, name) = (key(&domain)?, VerifierName::new(name)?);
    Ok(Json(state.router.roll_back_verifier(&key, &name, query.version).await?))
}

/// Removes a verifier with its earlier versions, while tasks flow.
#[utoipa::path(
    delete,
    path = "/v1/domains/{domain}/verifiers/{name}",
    operation_id = "remove_verifier",
    tag = "verifiers",
    params(("domain" = SetName, Path, description = "The domain; `*` is all that have no set of their own"), ("name" = VerifierName, Path, description = "The verifier's name in the set")),
    responses((status = 204, description = "It is gone; the change is durable"), RemoveProblems)
)]
pub(super) async fn remove(
    State(state): State<ApiState>,
    Segments((domain, name)): Segments<(String, String)>,
) -> Result<StatusCode, Problem> {
    state.router.remove_verifier(&key(&domain)?, &VerifierName::new(name)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a domain's verifiers would say of an answer; nothing is stored or learnt.
#[utoipa::path(
    post,
    path = "/v1/domains/{domain}/dry-run",
    operation_id = "dry_run",
    tag = "verifiers",
    params(("domain" = SetName, Path, description = "The domain; `*` is all that have no set of their own")),
    request_body(
        content = Trial,
        example = json!({"prompt": "What is 19 plus 23?", "metadata": {"reference": 42, "answer": "number"}, "response": "42"})
    ),
    responses((status = 200, description = "The score and each verifier's part in it", body = Judgement), DryRunProblems)
)]
pub(super) async fn dry_run(
    State(state): State<ApiState>,
    Segments(domain): Segments<String>,
    Body(Object(trial)): Body<Object<Trial>>,
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
        // A body may state another one, and then nothing else would look at this.
        if let Some(weight) = self.weight {
            VerifierSettings::of_weight(weight).validate()?;
        }
        Ok(VerifierPatch { weight: self.weight, gate: self.gate, on_error: self.on_error, config })
    }
}

fn key(domain: &str) -> Result<SetKey, Problem> {
    Ok(if domain == ALL { None } else { Some(Domain::new(domain)?) })
}
