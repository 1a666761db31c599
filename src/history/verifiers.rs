//! How a domain's verifiers did: how often each gave what, and what its last runs took.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::VERIFIERS_MAX;
use crate::round::{Verdict, VerdictStatus};

/// Runs that are kept one by one.
const RECENT_MAX: usize = 128;
/// The least score of an answer that passes.
const PASS: f64 = 0.5;

/// All runs of a verifier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerifierRecord {
    /// Runs.
    pub runs: u64,
    /// Those that gave a score.
    pub scored: u64,
    /// Those that gave at least 0.5.
    pub passed: u64,
    /// Those on tasks that it does not apply to.
    pub not_applicable: u64,
    /// Those on tasks whose metadata was malformed.
    pub invalid_task: u64,
    /// Those in which the verifier itself failed.
    pub errors: u64,
    /// Those that overran a limit, and scored 0.
    pub limits: u64,
    /// The mean score of those that gave one.
    pub score_mean: Option<f64>,
    /// The last runs of the component that ran last.
    pub recent: RecentRuns,
}

/// The last runs, 128 at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecentRuns {
    /// Runs.
    pub runs: u64,
    /// Those that gave a score.
    pub scored: u64,
    /// Those that gave at least 0.5.
    pub passed: u64,
    /// Those in which the verifier itself failed.
    pub errors: u64,
    /// Those that overran a limit.
    pub limits: u64,
    /// Wall time in microseconds: half of the runs took at most that long.
    pub duration_us_p50: Option<u64>,
    /// The same for 95 of a hundred.
    pub duration_us_p95: Option<u64>,
    /// Mean WebAssembly instructions.
    pub fuel_mean: Option<f64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Verifiers(BTreeMap<String, Runs>);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Runs {
    runs: u64,
    scored: u64,
    passed: u64,
    not_applicable: u64,
    invalid_task: u64,
    errors: u64,
    limits: u64,
    score: f64,
    /// The component that the recent runs are of.
    component: String,
    recent: VecDeque<Run>,
}

/// Status, whether it passed, fuel and microseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Run(VerdictStatus, bool, u64, u64);

impl Verifiers {
    pub fn add(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            if self.0.len() < VERIFIERS_MAX || self.0.contains_key(&verdict.verifier) {
                self.0.entry(verdict.verifier.clone()).or_default().add(verdict);
            }
        }
    }

    pub fn records(&self) -> impl Iterator<Item = (&str, VerifierRecord)> {
        self.0.iter().map(|(name, runs)| (name.as_str(), runs.record()))
    }
}

impl Runs {
    fn add(&mut self, verdict: &Verdict) {
        self.runs += 1;
        let score = verdict.score.filter(|_| verdict.status == VerdictStatus::Scored);
        let passed = score.is_some_and(|score| score >= PASS);
        let count = match verdict.status {
            VerdictStatus::Scored => &mut self.scored,
            VerdictStatus::NotApplicable => &mut self.not_applicable,
            VerdictStatus::InvalidTask => &mut self.invalid_task,
            VerdictStatus::Error => &mut self.errors,
            VerdictStatus::LimitExceeded => &mut self.limits,
        };
        *count += 1;
        self.passed += u64::from(passed);
        self.score += score.unwrap_or_default();
        // A swap ends what was said of the component before.
        if self.component != verdict.sha256 {
            self.component.clone_from(&verdict.sha256);
            self.recent.clear();
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Run(verdict.status, passed, verdict.fuel, verdict.duration_us));
    }

    fn record(&self) -> VerifierRecord {
        VerifierRecord {
            runs: self.runs,
            scored: self.scored,
            passed: self.passed,
            not_applicable: self.not_applicable,
            invalid_task: self.invalid_task,
            errors: self.errors,
            limits: self.limits,
            score_mean: (self.scored > 0).then(|| self.score / self.scored as f64),
            recent: self.recent(),
        }
    }

    fn recent(&self) -> RecentRuns {
        let count = |wanted: VerdictStatus| self.recent.iter().filter(|run| run.0 == wanted).count() as u64;
        let mut times: Vec<u64> = self.recent.iter().map(|run| run.3).collect();
        times.sort_unstable();
        // The nearest rank: the least time that so many of the runs did not exceed.
        let percentile =
            |percent: usize| (times.len() * percent).div_ceil(100).checked_sub(1).map(|place| times[place]);
        let fuel: f64 = self.recent.iter().map(|run| run.2 as f64).sum();
        RecentRuns {
            runs: self.recent.len() as u64,
            scored: count(VerdictStatus::Scored),
            passed: self.recent.iter().filter(|run| run.1).count() as u64,
            errors: count(VerdictStatus::Error),
            limits: count(VerdictStatus::LimitExceeded),
            duration_us_p50: percentile(50),
            duration_us_p95: percentile(95),
            fuel_mean: (!self.recent.is_empty()).then(|| fuel / self.recent.len() as f64),
        }
    }
}
