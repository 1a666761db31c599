//! `/v1/overview`, `/v1/history` and `/v1/domains/{domain}`: figures of now, by time, and of one domain.

use std::{sync::Arc, time::Instant};

use arc_swap::ArcSwapOption;
use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    ApiState, Problem, Progress,
    openapi::problems::{problems, shared},
    request::{Parameters, Segments},
};
use crate::{
    history::{HistoryReport, Range},
    regret::Kind,
    round::{Domain, Invalid},
    router::{DomainDetail, Overview, Router, RouterError},
};

problems!(FigureProblems: shared::CLIENT, shared::ADMIN, shared::PLACE, &["unknown-domain"]);

/// What the server knows of itself besides.
#[derive(Clone)]
pub struct Pulse {
    /// Set by a run of known length.
    pub progress: Arc<ArcSwapOption<Progress>>,
    /// When the server started.
    pub started: Instant,
}

/// The figures of now, and how the server is.
#[derive(Serialize, ToSchema)]
pub(super) struct Figures {
    #[serde(flatten)]
    overview: Overview,
    /// How far a run of known length is.
    progress: Option<Progress>,
    /// How long the server runs, in seconds.
    uptime_s: f64,
}

impl Pulse {
    fn with(&self, overview: Overview) -> Figures {
        Figures {
            overview,
            progress: self.progress.load().as_deref().copied(),
            uptime_s: self.started.elapsed().as_secs_f64(),
        }
    }

    /// The figures of all domains together.
    pub(super) fn figures(&self, router: &Router) -> Option<Figures> {
        router.overview(None).ok().map(|overview| self.with(overview))
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfDomain {
    /// Only this domain.
    domain: Option<Domain>,
}

/// The figures of now, in all or of one domain, and what needs a look.
#[utoipa::path(
    get,
    path = "/v1/overview",
    operation_id = "overview",
    tag = "insight",
    params(OfDomain),
    responses((status = 200, description = "Since the journal began", body = Figures), FigureProblems)
)]
pub(super) async fn overview(
    State(state): State<ApiState>,
    Parameters(OfDomain { domain }): Parameters<OfDomain>,
) -> Result<Json<Figures>, Problem> {
    Ok(Json(state.pulse().with(state.router.overview(domain.as_ref())?)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// Only this domain.
    domain: Option<Domain>,
    /// From when on, in milliseconds since 1970; from the beginning when absent.
    from_ms: Option<i64>,
    /// Until when; until now when absent.
    to_ms: Option<i64>,
}

/// Points of a part of time.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryAnswer {
    /// How the points' regret was found.
    kind: Kind,
    #[serde(flatten)]
    history: HistoryReport,
}

/// What rounds came to by time: at most 400 points, each of a second, 15 seconds, 5 minutes, 3 hours or a day, the finest that reach back
/// far enough. A time without rounds has no point.
#[utoipa::path(
    get,
    path = "/v1/history",
    operation_id = "history",
    tag = "insight",
    params(Part),
    responses((status = 200, description = "Oldest first", body = HistoryAnswer), FigureProblems)
)]
pub(super) async fn history(
    State(state): State<ApiState>,
    Parameters(Part { domain, from_ms, to_ms }): Parameters<Part>,
) -> Result<Json<HistoryAnswer>, Problem> {
    if from_ms.zip(to_ms).is_some_and(|(from, to)| from > to) {
        return Err(Invalid::new("to_ms", "must not be before from_ms").into());
    }
    let (kind, history) = state.router.history(domain.as_ref(), Range { from_ms, to_ms })?;
    Ok(Json(HistoryAnswer { kind, history }))
}

/// One domain: what is believed of its arms, its voters' weights over time, and how its verifiers do.
#[utoipa::path(
    get,
    path = "/v1/domains/{domain}",
    operation_id = "domain",
    tag = "insight",
    params(("domain" = Domain, Path, description = "The domain's name")),
    responses((status = 200, description = "As it is now", body = DomainDetail), FigureProblems)
)]
pub(super) async fn domain(
    State(state): State<ApiState>,
    Segments(domain): Segments<String>,
) -> Result<Json<DomainDetail>, Problem> {
    let domain = Domain::new(domain).map_err(RouterError::from)?;
    Ok(Json(state.router.domain_detail(&domain)?))
}
