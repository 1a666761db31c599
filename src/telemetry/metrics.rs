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
    /// Seconds per verification by verifier, a histogram.
    VerificationSeconds,
    /// Fuel spent by verifier.
    VerificationFuel,
    /// Verifications that wait for a place.
    VerificationsWaiting,
    /// Seconds that compiling a component, or finding it in the cache, took, a histogram.
    VerifierCompileSeconds,
    /// Changes of verifiers that were put in place.
    VerifierSwaps,
    /// Answers that the judge was to look at, by what became of it.
    Judged,
    /// Dollars spent on the judge, in millionths.
    JudgeMicroUsd,
    /// Audit probes, by how they ended.
    Audits,
    /// Dollars spent on them, in millionths.
    AuditMicroUsd,
    /// Decisions drawn uniformly because the policy failed.
    Fallbacks,
    /// Turns of trajectories that were refused, by code.
    Violations,
    /// What took the place of turns that were refused or did not come, by what.
    ModeFallbacks,
    /// Trajectories that a limit ended, by limit.
    Guardrails,
    /// Tasks for which a language model that routes was asked, by what came of it.
    Proposals,
    /// Dollars that this cost, in millionths.
    ProposalMicroUsd,
    /// Decisions that took the place of one whose worker gave no answer.
    Replaced,
    /// Decisions that nobody closed before their lease ended.
    Abandoned,
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
    /// Tries to send a webhook's messages, by webhook and by what came of it.
    WebhookDeliveries,
    /// Events of the journal that a webhook has not come to yet, by webhook.
    WebhookBehind,
    /// Seconds since the event that a webhook sends now, by webhook; 0 when nothing waits.
    WebhookLagSeconds,
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
            Self::VerificationSeconds => "pointsman_verification_seconds",
            Self::VerificationFuel => "pointsman_verification_fuel_total",
            Self::VerificationsWaiting => "pointsman_verifications_waiting",
            Self::VerifierCompileSeconds => "pointsman_verifier_compile_seconds",
            Self::VerifierSwaps => "pointsman_verifier_swaps_total",
            Self::Judged => "pointsman_judged_total",
            Self::JudgeMicroUsd => "pointsman_judge_micro_usd_total",
            Self::Audits => "pointsman_audits_total",
            Self::AuditMicroUsd => "pointsman_audit_micro_usd_total",
            Self::Fallbacks => "pointsman_fallbacks_total",
            Self::Violations => "pointsman_mode_violations_total",
            Self::ModeFallbacks => "pointsman_mode_fallbacks_total",
            Self::Guardrails => "pointsman_mode_guardrails_total",
            Self::Proposals => "pointsman_proposals_total",
            Self::ProposalMicroUsd => "pointsman_proposal_micro_usd_total",
            Self::Replaced => "pointsman_replaced_total",
            Self::Abandoned => "pointsman_abandoned_total",
            Self::PolicyChanges => "pointsman_policy_changes_total",
            Self::Quarantined => "pointsman_quarantined_total",
            Self::RecallUnavailable => "pointsman_recall_unavailable_total",
            Self::MemoryFailures => "pointsman_memory_failures_total",
            Self::MemoryEntries => "pointsman_memory_entries",
            Self::MemoryBehind => "pointsman_memory_behind",
            Self::HttpRequests => "pointsman_http_requests_total",
            Self::WebhookDeliveries => "pointsman_webhook_deliveries_total",
            Self::WebhookBehind => "pointsman_webhook_behind",
            Self::WebhookLagSeconds => "pointsman_webhook_lag_seconds",
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
    /// Context to what a language model that routes proposes.
    Propose,
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
        Stage::Propose => "propose",
        Stage::Decide => "decide",
        Stage::Run => "run",
        Stage::Verify => "verify",
        Stage::Journal => "journal",
        Stage::Learn => "learn",
    };
    metrics::histogram!(Metric::StageSeconds.name(), "stage" => label).record(took.as_secs_f64());
}

/// Records what a verification took.
pub fn observe_verification(verifier: &str, fuel: u64, took_us: u64) {
    let label = verifier.to_owned();
    metrics::histogram!(Metric::VerificationSeconds.name(), "verifier" => label.clone()).record(took_us as f64 / 1e6);
    metrics::counter!(Metric::VerificationFuel.name(), "verifier" => label).increment(fuel);
}

/// Installs the process's recorder and returns what renders it.
pub fn install_recorder() -> Result<PrometheusHandle, BuildError> {
    let seconds: Vec<f64> = (0..24).map(|step| 1e-5 * 2f64.powi(step)).collect();
    let scores: Vec<f64> = (0..=10).map(|step| f64::from(step) / 10.0).collect();
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(Metric::StageSeconds.name().into()), &seconds)?
        .set_buckets_for_metric(Matcher::Full(Metric::VerificationSeconds.name().into()), &seconds)?
        .set_buckets_for_metric(Matcher::Full(Metric::VerifierCompileSeconds.name().into()), &seconds)?
        .set_buckets_for_metric(Matcher::Full(Metric::Score.name().into()), &scores)?
        .install_recorder()
}
