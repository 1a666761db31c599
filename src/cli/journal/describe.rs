//! An event as one line for people.

use pointsman::{
    journal::{
        ArmChange, ErasedBy, Event, PolicyChange, PolicyOrigin, PolicyRole, SnapshotChange,
        export::{Line, timestamp},
    },
    round::{ArmPatch, Audited, Feedback, Found, KeyChange, OutcomeStatus, Reason, VerifierChange},
};

/// Time, place, kind; decision, domain and arm where it is about one; and what it says.
pub(super) fn describe(line: &Line, event: &Event, decided: Option<&Event>) -> String {
    let about = match (event.decision_id(), decided) {
        (Some(id), Some(Event::Decided { task, decision, .. })) => {
            format!("{id}  {:<12} {:<20} ", task.domain.as_str(), decision.arm.as_str())
        }
        (Some(id), _) => format!("{id}  {:<33} ", ""),
        (None, _) => String::new(),
    };
    let says = says(event, line.learns.is_some());
    let text = format!("{} {:>9} {:<16} {about}{says}", timestamp(line.at_ms), line.seq, event.kind());
    text.trim_end().to_owned()
}

fn says(event: &Event, learns: bool) -> String {
    match event {
        Event::Decided { decision, .. } => {
            let reason = match decision.reason {
                Reason::Exploit => "exploit",
                Reason::Explore => "explore",
                Reason::Fallback => "fallback",
                Reason::Forced => "forced",
            };
            format!("p {:.4} {reason} by {}", decision.propensity.get(), decision.policy.name)
        }
        Event::Ran { outcome } => {
            let status = match outcome.status {
                OutcomeStatus::Done => "done",
                OutcomeStatus::Failed => "failed",
            };
            format!("{status} {:.6} usd {:.1} ms", outcome.cost_usd, outcome.latency_ms)
        }
        Event::Judged { feedback } => judged(feedback, if learns { "learnt" } else { "not learnt" }),
        Event::Early { feedback } => judged(feedback, "waits for the outcome"),
        Event::Abandoned { .. } => "nobody said in time what became of it".into(),
        Event::MemoryRestored { restored } => {
            format!("{} with {} entries takes memory's place", restored.snapshot, restored.entries)
        }
        Event::SnapshotChanged { snapshot, change } => match change {
            SnapshotChange::Created { entries, .. } => format!("{snapshot} was taken of {entries} entries"),
            SnapshotChange::Deleted => format!("{snapshot} was deleted"),
        },
        Event::PolicyChanged { change } => policy(change),
        Event::VerifierChanged { domain, verifier, change } => {
            let domain = domain.as_ref().map_or("all domains without a set of their own", |domain| domain.as_str());
            match change {
                VerifierChange::Put(version) => {
                    let (weight, sha256) = (version.settings.weight, version.sha256.get(..12).unwrap_or_default());
                    format!("{verifier} of {domain}: weight {weight}, component {sha256}")
                }
                VerifierChange::Removed => format!("{verifier} of {domain} was removed"),
            }
        }
        Event::ArmChanged { arm, change } => match change {
            ArmChange::Added(_) => format!("{arm} was added"),
            ArmChange::Changed(patch) => format!("{arm}: {}", patched(patch)),
            ArmChange::Removed => format!("{arm} was removed"),
        },
        Event::KeyChanged { key, change } => match change {
            KeyChange::Created(made) => {
                let tenant = made.tenant.as_ref().map(|tenant| format!(" of {tenant}")).unwrap_or_default();
                format!("{key} ({}), a key for {}s{tenant}, was made", made.name, made.role.as_str())
            }
            KeyChange::Revoked { .. } => format!("{key} was revoked"),
        },
        Event::Spent { spent } => format!("{} spent {:.6} usd", spent.tenant, usd(spent.nano_usd)),
        Event::Probed { probe } => {
            format!(
                "is run on every arm, chosen with p {:.4}, {:.6} usd put aside",
                probe.probability,
                usd(probe.held_nano_usd)
            )
        }
        Event::Audited { audited } => audit(audited),
        Event::Erased { erased } => {
            let by = match erased.by {
                ErasedBy::Task => "a task",
                ErasedBy::Tenant => "a tenant",
            };
            format!("texts of {by} in {} records of {} decisions", erased.records, erased.decisions)
        }
        Event::Compacted { compacted } => {
            format!("{} records up to event {} were taken out", compacted.records, compacted.up_to)
        }
    }
}

fn usd(nano_usd: u64) -> f64 {
    nano_usd as f64 / 1e9
}

fn audit(audited: &Audited) -> String {
    let mut said = format!("probe {} {:.6} usd", audited.end.as_str().replace('_', " "), usd(audited.nano_usd));
    for arm in &audited.arms {
        said.push_str(&match arm.found {
            Found::Judged { score, .. } => format!(" {} {score:.4}", arm.arm),
            Found::Missing(why) => format!(" {} {}", arm.arm, why.as_str()),
        });
    }
    said
}

fn judged(feedback: &Feedback, learnt: &str) -> String {
    let number = |number: Option<f64>| number.map_or("none".into(), |number| format!("{number:.4}"));
    let (score, reward) = (number(feedback.score.map(|score| score.get())), number(feedback.reward));
    format!("by {} score {score} reward {reward} {:.6} usd {learnt}", feedback.source.as_str(), feedback.cost_usd)
}

fn policy(change: &PolicyChange) -> String {
    let origin = match change.origin {
        PolicyOrigin::Configured => "configured",
        PolicyOrigin::Reloaded => "its card changed",
        PolicyOrigin::Asked => "an operator asked",
        PolicyOrigin::RolledBack => "rolled back",
    };
    let PolicyChange { name, policy, card, role, .. } = change;
    match (role, card) {
        (PolicyRole::Champion, _) => format!("{policy} of {name} decides ({origin})"),
        (PolicyRole::Shadow, Some(_)) => format!("{policy} of {name} is on trial ({origin})"),
        (PolicyRole::Shadow, None) => format!("the trial of {name} ends ({origin})"),
    }
}

fn patched(patch: &ArmPatch) -> String {
    let ArmPatch { enabled, quarantined, input_usd_per_1m, output_usd_per_1m, capabilities } = patch;
    let is = |on: bool, word: &str| if on { word.to_owned() } else { format!("not {word}") };
    let price = |usd: &f64, what: &str| format!("{usd} usd per million tokens {what}");
    let mut said = Vec::new();
    said.extend(enabled.map(|on| is(on, "enabled")));
    said.extend(quarantined.map(|on| is(on, "quarantined")));
    said.extend(input_usd_per_1m.as_ref().map(|usd| price(usd, "read")));
    said.extend(output_usd_per_1m.as_ref().map(|usd| price(usd, "written")));
    said.extend(capabilities.as_ref().map(|all| {
        let names: Vec<_> = all.iter().map(|capability| capability.as_str()).collect();
        format!("can do {}", names.join(" "))
    }));
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of all kinds as lines of an export.
    #[test]
    fn every_kind_of_event_is_one_line() {
        let read = |line: &str| {
            let line: Line = serde_json::from_str(line).unwrap();
            let event = line.event().unwrap();
            (line, event)
        };
        let lines: Vec<_> = include_str!("describe.jsonl").lines().map(read).collect();
        let decided = lines.iter().find(|(_, event)| event.kind() == "decided").map(|(_, event)| event);
        let about = |event: &Event| decided.filter(|decided| decided.decision_id() == event.decision_id());
        let said: Vec<_> = lines.iter().map(|(line, event)| describe(line, event, about(event))).collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
