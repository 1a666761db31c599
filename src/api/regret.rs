//! `GET /v1/regret`: the headline number, its curve, every figure of regret with its interval, and who did the work.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    ApiState, Progress,
    openapi::problems::{problems, shared},
};
use crate::{
    regret::RegretReport,
    round::PolicyRef,
    router::{AuditUse, MemoryFill},
};

/// Regret, and what the page shows beside it.
#[derive(Serialize, ToSchema)]
pub(super) struct RegretAnswer {
    #[serde(flatten)]
    report: RegretReport,
    /// What audit probes may use and use; null while they are off.
    audit: Option<AuditUse>,
    /// How far a run of known length is.
    progress: Option<Progress>,
    /// The policy that decides.
    policy: PolicyRef,
    /// How full memory is.
    memory: MemoryFill,
    /// How long the server runs, in seconds.
    uptime_s: f64,
}

problems!(ReportProblems: shared::CLIENT, shared::ADMIN);

/// Cumulative regret with its curve, and who did the work, in all and by domain. `measures` holds every figure of regret that there
/// is, each marked by how it was found and against whom it counts, with an interval that may be looked at at any time.
#[utoipa::path(
    get,
    path = "/v1/regret",
    operation_id = "regret",
    tag = "insight",
    responses((status = 200, description = "Since the journal began", body = RegretAnswer), ReportProblems)
)]
pub(super) async fn report(State(state): State<ApiState>) -> Json<RegretAnswer> {
    Json(RegretAnswer {
        report: state.router.regret(),
        audit: state.router.audit_use(),
        progress: state.progress.load().as_deref().copied(),
        policy: state.router.policy(),
        memory: state.router.memory_fill(),
        uptime_s: state.started.elapsed().as_secs_f64(),
    })
}
