//! Metrics: every name in one enum, so that nothing is counted under two spellings.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// Every metric, by its Prometheus name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Finished rounds by arm and status.
    Rounds,
    /// Dollars spent by arm.
    CostUsd,
    /// Scores, a histogram.
    Score,
    /// Seconds per stage of the loop, a histogram.
    StageSeconds,
    /// Verdicts by verifier and status.
    Verdicts,
    /// Decisions drawn uniformly because the policy failed.
    Fallbacks,
    /// Changes of the policy that decides or is on trial.
    PolicyChanges,
    /// Arms quarantined because their statistics made no sense, by arm.
    Quarantined,
    /// Decisions made without recall because memory failed.
    RecallUnavailable,
    /// Memory writes that failed.
    MemoryFailures,
    /// Entries in memory.
    MemoryEntries,
    /// Learnt rounds that memory has not taken yet.
    MemoryBehind,
    /// HTTP answers by route and status.
    HttpRequests,
}

impl Metric {
    /// The name as scraped.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rounds => "pointsman_rounds_total",
            Self::CostUsd => "pointsman_cost_usd_total",
            Self::Score => "pointsman_score",
            Self::StageSeconds => "pointsman_stage_seconds",
            Self::Verdicts => "pointsman_verdicts_total",
            Self::Fallbacks => "pointsman_fallbacks_total",
            Self::PolicyChanges => "pointsman_policy_changes_total",
            Self::Quarantined => "pointsman_quarantined_total",
            Self::RecallUnavailable => "pointsman_recall_unavailable_total",
            Self::MemoryFailures => "pointsman_memory_failures_total",
            Self::MemoryEntries => "pointsman_memory_entries",
            Self::MemoryBehind => "pointsman_memory_behind",
            Self::HttpRequests => "pointsman_http_requests_total",
        }
    }
}

/// A stage of the loop, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Text to embedding.
    Embed,
    /// Embedding to neighbours.
    Recall,
    /// Context to decision.
    Decide,
    /// Decision to answer.
    Run,
    /// Answer to verdicts.
    Verify,
    /// Event to disk.
    Journal,
    /// Verified round to policies and memory.
    Learn,
}

/// Records how long a stage took.
pub fn observe_stage(stage: Stage, took: Duration) {
    let label = match stage {
        Stage::Embed => "embed",
        Stage::Recall => "recall",
        Stage::Decide => "decide",
        Stage::Run => "run",
        Stage::Verify => "verify",
        Stage::Journal => "journal",
        Stage::Learn => "learn",
    };
    metrics::histogram!(Metric::StageSeconds.name(), "stage" => label).record(took.as_secs_f64());
}

/// Installs the process's recorder and returns what renders it.
pub fn install_recorder() -> Result<PrometheusHandle, BuildError> {
    let seconds: Vec<f64> = (0..24).map(|step| 1e-5 * 2f64.powi(step)).collect();
    let scores: Vec<f64> = (0..=10).map(|step| f64::from(step) / 10.0).collect();
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(Metric::StageSeconds.name().into()), &seconds)?
        .set_buckets_for_metric(Matcher::Full(Metric::Score.name().into()), &scores)?
        .install_recorder()
}
