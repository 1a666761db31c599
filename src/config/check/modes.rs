//! Execution modes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::{Checker, raw};
use crate::{
    action::policy::mode_router::Checkpoint,
    config::ArmConfig,
    feedback::verifier::VerifierSpec,
    grammar::Rules,
    modes::Guardrails,
    round::{Domain, Mode},
    router::{ModeDriver, ModeSettings},
};

impl Checker<'_> {
    pub(super) fn modes(
        &mut self,
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
        arms: &[ArmConfig],
    ) -> Option<ModeSettings> {
        let raw: raw::Modes = self.section("modes")?;
        let enabled = self.named_modes("modes.enabled", raw.enabled);
        let mut own = BTreeMap::new();
        for (name, modes) in raw.domains {
            let key = format!("modes.domains.{name}");
            let modes = self.named_modes(&key, modes);
            let named = self.domain_names(&key, vec![name], domains);
            own.extend(named.into_iter().map(|domain| (domain, modes.clone())));
        }
        let p = &mut self.problems;
        p.require((0.0..=1.0).contains(&raw.alpha), "modes.alpha", "must be from 0 (only the score counts) to 1");
        p.require((1..=32).contains(&raw.workers_max), "modes.workers_max", "must be from 1 to 32");
        let rounds = 1 <= raw.rounds_min && raw.rounds_min <= raw.rounds_max && raw.rounds_max <= 4;
        p.require(rounds, "modes.rounds_max", "must be from modes.rounds_min, which is at least 1, to 4");
        let team = (2..=8).contains(&raw.team_calls_max);
        p.require(team, "modes.team_calls_max", "must be from 2 (an executor and a summarizer) to 8");
        let dollars = raw.cost_usd_max.is_none_or(|usd| usd > 0.0 && usd <= 1e6);
        p.require(
            dollars,
            "modes.cost_usd_max",
            "must be above 0 and at most 1000000 dollars; leave it out for no limit",
        );
        let timely = (1..=3_600_000).contains(&raw.wall_ms);
        p.require(timely, "modes.wall_ms", "must be from 1 to 3600000 (an hour)");
        let shown = (256..=1 << 20).contains(&raw.shown_bytes_max);
        p.require(shown, "modes.shown_bytes_max", "must be from 256 to 1048576");
        let passes = raw.pass_score > 0.0 && raw.pass_score <= 1.0;
        p.require(passes, "modes.pass_score", "must be above 0 and at most 1");
        let is_named = raw.llm.is_some();
        let llm = raw.llm.and_then(|llm| self.llm(llm, arms));
        let named = raw.driver != raw::Driver::Llm || is_named;
        self.problems.require(named, "modes.llm", "must say where the model is, for modes.driver = \"llm\"");
        let driver = self.driver(raw.driver, raw.model)?;
        Some(ModeSettings {
            driver,
            llm,
            enabled,
            domains: own,
            chats: raw.chats,
            alpha: raw.alpha,
            offered_max: raw.workers_max,
            guardrails: Guardrails {
                rules: Rules {
                    multi_calls_min: raw.rounds_min,
                    multi_calls_max: raw.rounds_max,
                    agentic_calls_max: raw.team_calls_max,
                    ..Rules::default()
                },
                cost_usd_max: raw.cost_usd_max,
                wall: Duration::from_millis(raw.wall_ms),
                shown_bytes_max: raw.shown_bytes_max,
                pass_score: raw.pass_score,
            },
        })
    }

    /// Who writes the turns.
    fn driver(&mut self, driver: raw::Driver, model: Option<PathBuf>) -> Option<ModeDriver> {
        let trained = driver == raw::Driver::ModeRouter;
        self.problems.require(trained || model.is_none(), "modes.model", "is for modes.driver = \"mode_router\"");
        match driver {
            raw::Driver::Rule => return Some(ModeDriver::Rule),
            raw::Driver::Llm => return Some(ModeDriver::Llm),
            raw::Driver::ModeRouter => {}
        }
        let Some(model) = model else { return Some(ModeDriver::Compact(Checkpoint::shipped())) };
        let read = Checkpoint::read(&self.base.join(model))
            .map_err(|error| self.problems.add("modes.model", error.to_string()));
        read.ok().map(|checkpoint| ModeDriver::Compact(Arc::new(checkpoint)))
    }

    /// Each once, in the order of their candidates.
    fn named_modes(&mut self, key: &str, named: BTreeSet<Mode>) -> Vec<Mode> {
        self.problems.require(!named.is_empty(), key, "must name at least one of single, multi and agentic");
        named.into_iter().collect()
    }
}
