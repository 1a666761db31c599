//! What needs an operator's look: told from the state of now, so that an alert ends when its reason does.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ArmState, Router, Shown, now_ms};
use crate::{
    access::TenantReport,
    history::RecentRuns,
    regret::RegretReport,
    round::{ArmId, Domain},
};

/// Runs of a verifier below which its failures say little, and the part of failures at which it is told, and is an error.
const RUNS_MIN: u64 = 10;
const FAILING: f64 = 0.2;
const BROKEN: f64 = 0.5;
/// Recent rounds of a domain before a collapsed share is told, and the part of them in which another arm than the favourite was to
/// be expected below which it is.
const SETTLED: u64 = 500;
const COLLAPSED: f64 = 0.002;
/// The part of a budget at which it is near.
const NEAR: f64 = 0.8;
/// Entries that memory may be behind.
const BEHIND_MAX: u64 = 1_000;
/// Arms whose rest is told one by one.
const TOLD_MAX: usize = 20;

/// Something that needs a look.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Alert {
    /// What it is.
    pub kind: AlertKind,
    /// How bad it is.
    pub severity: Severity,
    /// The arm, verifier, tenant or part that it is about.
    pub subject: String,
    /// The domain that it is about.
    pub domain: Option<Domain>,
    /// What is the matter, and what can be done.
    pub text: String,
}

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// Nothing is learnt any more.
    LearnerStopped,
    /// An arm failed several times in a row and rests.
    BreakerOpen,
    /// An arm's statistics are in doubt.
    Quarantined,
    /// A verifier itself fails, or overruns its limits.
    VerifierFailing,
    /// A tenant's dollars, or those of audit probes, are nearly spent.
    BudgetNear,
    /// Memory does not take what was learnt.
    MemoryBehind,
    /// One arm gets nearly all of a domain's tasks, so that nothing is learnt of the others.
    ShareCollapse,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something may soon not work, or not well.
    Warning,
}

fn alert(kind: AlertKind, severity: Severity, subject: impl ToString, text: String) -> Alert {
    Alert { kind, severity, subject: subject.to_string(), domain: None, text }
}

impl Router {
    /// What needs a look, in all or of one domain.
    pub(super) fn alerts(
        &self,
        report: &RegretReport,
        shown: &Shown,
        states: &BTreeMap<ArmId, ArmState>,
        domain: Option<&Domain>,
    ) -> Vec<Alert> {
        let mut alerts = vec![];
        if domain.is_none() {
            if !self.is_learning() {
                let text = "Learning has stopped. The log says why; restart the daemon: the journal has every round.";
                alerts.push(alert(AlertKind::LearnerStopped, Severity::Error, "learner", text.into()));
            }
            alerts.extend(arms(states));
            alerts.extend(self.memory_alert());
            alerts.extend(self.tenants().report(now_ms()).iter().flat_map(budget));
            alerts.extend(self.audit_alert());
        }
        let of_domain = |name: &Domain| domain.is_none_or(|domain| domain == name);
        alerts.extend(self.verifier_alerts(shown, domain));
        alerts.extend(collapsed(report, shown).filter(|alert| alert.domain.as_ref().is_some_and(of_domain)));
        alerts.sort_by_key(|alert| alert.severity);
        alerts
    }

    fn memory_alert(&self) -> Option<Alert> {
        let level = self.memory_fill().level;
        let (severity, why) = match (&level.failing, level.behind) {
            (Some(failing), _) => (Severity::Error, format!("Its last write failed: {failing}.")),
            (None, behind) if behind > BEHIND_MAX => {
                (Severity::Warning, "It takes entries more slowly than they come.".into())
            }
            (None, _) => return None,
        };
        let text = format!(
            "Memory is {} entries behind. {why} It catches up by itself; meanwhile recall finds older tasks.",
            level.behind
        );
        Some(alert(AlertKind::MemoryBehind, severity, "memory", text))
    }

    fn audit_alert(&self) -> Option<Alert> {
        let audit = self.audit_use()?;
        let part = audit.spent_today_usd / audit.usd_per_day;
        (part >= NEAR).then(|| {
            let text = format!(
                "Audit probes used {:.0} % of the ${} that they may cost today{}.",
                100.0 * part,
                audit.usd_per_day,
                if audit.open { "" } else { "; no task is probed until tomorrow" }
            );
            alert(AlertKind::BudgetNear, Severity::Warning, "audit probes", text)
        })
    }

    fn verifier_alerts(&self, shown: &Shown, domain: Option<&Domain>) -> Vec<Alert> {
        let mut alerts = vec![];
        for (name, of) in shown.history.domains().filter(|(name, _)| domain.is_none_or(|domain| *name == domain)) {
            let installed = self.registry.list(&Some(name.clone()));
            for (verifier, record) in of.verifiers() {
                if installed.iter().any(|known| known.name.as_str() == verifier)
                    && let Some((severity, text)) = failing(verifier, name, &record.recent)
                {
                    let told = alert(AlertKind::VerifierFailing, severity, verifier, text);
                    alerts.push(Alert { domain: Some(name.clone()), ..told });
                }
            }
        }
        alerts
    }
}

fn failing(verifier: &str, domain: &Domain, recent: &RecentRuns) -> Option<(Severity, String)> {
    let RecentRuns { runs, errors, limits, .. } = *recent;
    let part = (errors + limits) as f64 / runs.max(1) as f64;
    if runs < RUNS_MIN || part < FAILING {
        return None;
    }
    let severity = if errors as f64 / runs as f64 >= BROKEN { Severity::Error } else { Severity::Warning };
    let text = format!(
        "{verifier} failed in {errors} and overran a limit in {limits} of its last {runs} runs in {domain}: see what it says of a \
         decision, or roll it back."
    );
    Some((severity, text))
}

fn arms(states: &BTreeMap<ArmId, ArmState>) -> impl Iterator<Item = Alert> {
    let told = states.iter().filter_map(|(arm, state)| match state {
        ArmState::Resting => {
            let text =
                format!("{arm} failed several times in a row and rests for a while; its tasks go to the others.");
            Some(alert(AlertKind::BreakerOpen, Severity::Error, arm, text))
        }
        ArmState::Quarantined => {
            let text =
                format!("The statistics of {arm} make no sense; it is not chosen until an operator says otherwise.");
            Some(alert(AlertKind::Quarantined, Severity::Error, arm, text))
        }
        ArmState::Active | ArmState::Disabled | ArmState::Removed => None,
    });
    told.take(TOLD_MAX)
}

fn budget(tenant: &TenantReport) -> Vec<Alert> {
    let TenantReport { usd_per_day, usd_per_month, spent_today_usd, spent_this_month_usd, .. } = tenant;
    let of = |cap: &Option<f64>, spent: &f64, span: &str| {
        let cap = cap.filter(|cap| *cap > 0.0)?;
        let part = spent / cap;
        let severity = if part >= 1.0 { Severity::Error } else { Severity::Warning };
        let text = format!("{} spent {:.0} % of its ${cap} for {span}.", tenant.tenant, 100.0 * part);
        (part >= NEAR).then(|| alert(AlertKind::BudgetNear, severity, &tenant.tenant, text))
    };
    let told = [of(usd_per_day, spent_today_usd, "today"), of(usd_per_month, spent_this_month_usd, "this month")];
    told.into_iter().flatten().collect()
}

fn collapsed<'a>(report: &'a RegretReport, shown: &'a Shown) -> impl Iterator<Item = Alert> + 'a {
    report.domains.iter().filter_map(|of| {
        let recent = shown.history.domain(&of.domain)?.timeline().recent();
        let exploring = recent.exploring / recent.choices.max(1) as f64;
        let most = of.arms.iter().max_by(|a, b| a.work.share_recent.total_cmp(&b.work.share_recent))?;
        (recent.choices >= SETTLED && exploring < COLLAPSED).then(|| {
            let text = format!(
                "{} takes nearly all tasks of {}: another arm is to be expected in {:.1} of 1,000 rounds, so a better one would not be \
                 noticed.",
                most.work.arm,
                of.domain,
                1_000.0 * exploring
            );
            let told = alert(AlertKind::ShareCollapse, Severity::Warning, &most.work.arm, text);
            Alert { domain: Some(of.domain.clone()), ..told }
        })
    })
}
