//! One decision made again, beside the recorded one.

use super::Compared;
use crate::{
    action::policy::observe,
    journal::Decided,
    round::{Decision, Probability, Reason, VoterView},
    router::{
        RouterError,
        draw::{Deciding, Drawn, draw},
        state::State,
    },
};

/// Makes a decision again and says in what it differs.
pub(super) fn differences(
    recorded: &Decided,
    state: &State,
    at: i64,
    compared: &mut Compared,
) -> Result<Vec<String>, RouterError> {
    let Decided { context, observed, decision, .. } = recorded;
    let State { champion, shadow, learnt_rounds, standings, centroids, .. } = state;
    let mut what = Differences::default();
    let mut seen = context.clone();
    observe(&mut seen, standings);
    compared.features += what.note("features", seen.candidates == context.candidates, || {
        let features = |candidates: &[crate::round::Candidate]| {
            candidates.iter().map(|candidate| candidate.features).collect::<Vec<_>>()
        };
        format!("{:?} instead of {:?}", features(&seen.candidates), features(&context.candidates))
    });
    if let Some(similarity) = observed.domain_similarity {
        compared.domains_found += 1;
        let found = centroids.nearest(&context.embedding, -1.0);
        let same = found
            .as_ref()
            .is_some_and(|(domain, cosine)| *domain == context.domain && cosine.to_bits() == similarity.to_bits());
        compared.domain +=
            what.note("domain", same, || format!("{found:?} instead of {} at {similarity}", context.domain));
    }
    let state = Deciding { champion, shadow: shadow.as_ref(), learnt_rounds: *learnt_rounds, at };
    let Drawn { decision: again, .. } = draw(&state, decision.id, &decision.task_id, context)?;
    compare(&again, decision, compared, &mut what);
    Ok(what.0)
}

/// What differs.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    /// Notes a difference; returns 1 where there is none.
    fn note(&mut self, what: &str, same: bool, how: impl FnOnce() -> String) -> u64 {
        if !same {
            self.0.push(format!("{what}: {}", how()));
        }
        u64::from(same)
    }
}

fn compare(again: &Decision, recorded: &Decision, compared: &mut Compared, what: &mut Differences) {
    let bits = |pmf: &[f64]| pmf.iter().map(|p| p.to_bits()).collect::<Vec<_>>();
    let entry =
        |entry: &Probability| (entry.mode, entry.arm.clone(), entry.p.to_bits(), entry.expected.map(f32::to_bits));
    let entries = |decision: &Decision| decision.pmf.iter().map(entry).collect::<Vec<_>>();
    let view = |view: &VoterView| (view.policy.clone(), view.weight.to_bits(), bits(&view.pmf));
    let views = |decision: &Decision| decision.voters.iter().map(view).collect::<Vec<_>>();
    let shadow = |decision: &Decision| decision.shadow.as_ref().map(|view| (view.policy.clone(), bits(&view.pmf)));
    let instead =
        |again: &dyn std::fmt::Debug, recorded: &dyn std::fmt::Debug| format!("{again:?} instead of {recorded:?}");
    let ps = |decision: &Decision| decision.pmf.iter().map(|entry| entry.p).collect::<Vec<_>>();
    let (arm, old_arm) = ((again.mode, &again.arm), (recorded.mode, &recorded.arm));
    let (p, old_p) = (again.propensity.get(), recorded.propensity.get());
    // That all arms rested is not a part of the state.
    let reason = again.reason == recorded.reason || recorded.reason == Reason::Fallback;
    let policy = again.policy == recorded.policy
        && again.learnt_rounds == recorded.learnt_rounds
        && again.seed == recorded.seed
        && reason;
    compared.pmf += what.note("pmf", entries(again) == entries(recorded), || instead(&ps(again), &ps(recorded)));
    compared.arm += what.note("arm", arm == old_arm, || instead(&arm, &old_arm));
    compared.propensity += what.note("propensity", p.to_bits() == old_p.to_bits(), || instead(&p, &old_p));
    compared.voters +=
        what.note("voters", views(again) == views(recorded), || instead(&again.voters, &recorded.voters));
    compared.shadow +=
        what.note("shadow", shadow(again) == shadow(recorded), || instead(&again.shadow, &recorded.shadow));
    compared.policy += what.note("policy", policy, || {
        let told = |d: &Decision| {
            format!("{} of {} after {} rounds, {:?}", d.policy.name, d.policy.card, d.learnt_rounds, d.reason)
        };
        format!("{} instead of {}", told(again), told(recorded))
    });
}
