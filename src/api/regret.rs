//! `GET /v1/regret`: the headline number, its curve, and who did the work.

use axum::{Json, extract::State};
use serde::Serialize;

use super::{ApiState, Progress};
use crate::{regret::RegretReport, round::PolicyRef, router::Level};

#[derive(Serialize)]
pub(super) struct RegretAnswer {
    #[serde(flatten)]
    report: RegretReport,
    progress: Option<Progress>,
    policy: PolicyRef,
    memory: MemoryFill,
    uptime_s: f64,
}

#[derive(Serialize)]
struct MemoryFill {
    #[serde(flatten)]
    level: Level,
    cap: u64,
}

pub(super) async fn report(State(state): State<ApiState>) -> Json<RegretAnswer> {
    let (level, cap) = state.router.memory_level();
    Json(RegretAnswer {
        report: state.router.regret(),
        progress: state.progress.load().as_deref().copied(),
        policy: state.router.policy(),
        memory: MemoryFill { level, cap },
        uptime_s: state.started.elapsed().as_secs_f64(),
    })
}
