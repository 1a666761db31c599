//! The language model that routes: what it proposes for a task before it is decided, and its part in trajectories.

use std::{sync::Arc, time::Duration};

use super::Router;
use crate::{
    action::policy::mode_router::described,
    arms::{Arm, Catalogue, Prices},
    journal::Decided,
    modes::llm::{Endpoint, Llm, LlmDriver, LlmSettings, Offer},
    round::{ArmId, Candidate, Context, Mode, Proposal, Task},
    telemetry::{Metric, Stage, observe_stage},
};

/// How it is asked, and what its tokens cost where it has an endpoint of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmRouting {
    /// How it is asked.
    pub settings: LlmSettings,
    /// What its tokens cost; those of the arm where it is one's.
    pub prices: Prices,
}

impl Router {
    /// The model, where one is configured.
    fn llm(&self, catalogue: &Catalogue) -> Option<Llm> {
        let LlmRouting { settings, prices } = self.settings.modes.llm.as_ref()?;
        let (worker, prices) = match &settings.endpoint {
            Endpoint::Arm(arm) => match catalogue.get(arm) {
                Ok(arm) => (Arc::clone(&arm.worker), arm.prices),
                Err(error) => {
                    tracing::warn!(%error, "the language model that routes was an arm's that is gone");
                    return None;
                }
            },
            Endpoint::Url { .. } => (Arc::clone(self.llm.as_ref()?), *prices),
        };
        Some(Llm::new(settings.clone(), worker, prices))
    }

    /// What it would do, where there is anything to choose. It never keeps a task from being decided.
    pub(super) async fn propose(&self, task: &Task, context: &Context, catalogue: &Catalogue) -> Option<Proposal> {
        if context.candidates.len() < 2 {
            return None;
        }
        let llm = self.llm(catalogue)?;
        let mut offers = offers(&context.candidates);
        offers.truncate(self.settings.modes.offered_max);
        let rules = &self.settings.modes.guardrails.rules;
        let proposal = llm.propose(task.prompt(), &offers, &modes(&context.candidates), rules).await;
        observe_stage(Stage::Propose, Duration::from_secs_f64(proposal.latency_ms / 1e3));
        let came_to = match (&proposal.failure, proposal.mode) {
            (Some(_), _) => "failed",
            (None, None) => "refused",
            (None, Some(_)) => "proposed",
        };
        metrics::counter!(Metric::Proposals.name(), "result" => came_to).increment(1);
        metrics::counter!(Metric::ProposalMicroUsd.name()).increment((proposal.cost_usd * 1e6).round() as u64);
        Some(proposal)
    }

    /// It as the writer of a decision's turns, with its name.
    pub(super) fn llm_driver(&self, decided: &Decided, offered: &[Arm]) -> Option<(LlmDriver, String)> {
        let llm = self.llm(&self.catalogue.load())?;
        let known = offers(&decided.context.candidates);
        let offer = |arm: &Arm| {
            let described = known.iter().find(|offer| offer.arm == arm.id).cloned();
            described.unwrap_or_else(|| Offer { arm: arm.id.clone(), description: String::new() })
        };
        let offers = offered.iter().map(offer).collect();
        let name = llm.model().to_owned();
        let modes = modes(&decided.context.candidates);
        Some((LlmDriver::new(Arc::new(llm), decided.context.proposal.as_ref(), offers, modes), name))
    }
}

/// The workers that could be chosen, the best in the domain first, described by what was measured of them.
fn offers(candidates: &[Candidate]) -> Vec<Offer> {
    let (arms, descriptors) = described(candidates);
    let mut known: Vec<(ArmId, _)> = arms.into_iter().zip(descriptors).collect();
    known.sort_by(|a, b| b.1.domain_mean.total_cmp(&a.1.domain_mean));
    known.into_iter().map(|(arm, descriptor)| Offer { arm, description: descriptor.words() }).collect()
}

/// The modes that could be drawn.
fn modes(candidates: &[Candidate]) -> Vec<Mode> {
    Mode::ALL.into_iter().filter(|mode| candidates.iter().any(|candidate| candidate.mode == *mode)).collect()
}
