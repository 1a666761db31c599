//! Asking the model how it would run a task, before anything is decided.

use std::time::{Duration, Instant};

use super::{Llm, Offer, ask::Prompt, conversation::Conversation, tongue::Tongue};
use crate::{
    grammar::{
        Episode, Rules, Turn, Violation,
        dialect::routeweaver::{MODE_TAKEN, note},
    },
    round::{Dialect, Mode, Proposal},
    telemetry::Metric,
};

impl Llm {
    /// Asks for the mode and the first call. The workers are told in the order given, by number; `modes` are those that the task may
    /// be run in. Whatever goes wrong is said in the proposal: this never fails, and takes no longer than the settings allow.
    pub async fn propose(&self, question: &str, offers: &[Offer], modes: &[Mode], rules: &Rules) -> Proposal {
        let arms = offers.iter().map(|offer| offer.arm.clone()).collect();
        let mut proposing = Proposing {
            llm: self,
            started: Instant::now(),
            modes,
            rules,
            proposal: Proposal::new(self.settings.dialect, arms),
        };
        if let Err(why) = proposing.ask(question, offers).await {
            tracing::warn!(%why, model = self.model(), "the language model proposed nothing");
            proposing.proposal.failure = Some(why);
        }
        proposing.proposal.latency_ms = proposing.started.elapsed().as_secs_f64() * 1e3;
        proposing.proposal
    }
}

struct Proposing<'a> {
    llm: &'a Llm,
    started: Instant,
    modes: &'a [Mode],
    rules: &'a Rules,
    proposal: Proposal,
}

impl Proposing<'_> {
    async fn ask(&mut self, question: &str, offers: &[Offer]) -> Result<(), String> {
        let settings = &self.llm.settings;
        let tongue = Tongue::new(settings, offers).map_err(|error| error.to_string())?;
        let opening = tongue.opening(settings, question, offers, self.modes, self.rules);
        let mut conversation = Conversation::new(opening);
        let mut episode = Episode::new(offers.len(), *self.rules);
        let assumed = match settings.dialect {
            Dialect::Routeweaver => None,
            Dialect::RouterR1 => Some(self.without_modes()?),
        };
        if let Some(mode) = assumed {
            episode.take(&Turn::Mode(mode)).map_err(|error| error.to_string())?;
        }
        loop {
            let Some((text, turn)) = self.turn(&tongue, &conversation, &episode).await? else { return Ok(()) };
            match &turn {
                Turn::Mode(mode) => {
                    self.proposal.mode = Some(*mode);
                    self.proposal.turns.push(text.clone());
                    conversation.push(text, MODE_TAKEN.into());
                    episode.take(&turn).map_err(|error| error.to_string())?;
                }
                Turn::Calls(calls) => {
                    self.proposal.mode = episode.mode();
                    self.proposal.arm = calls.first().map(|call| offers[call.worker].arm.clone());
                    self.proposal.turns.push(text);
                    return Ok(());
                }
                // Without a call, which router-r1 allows.
                Turn::Answer(_) => {
                    self.proposal.mode = episode.mode();
                    return Ok(());
                }
            }
        }
    }

    /// The mode that a dialect without modes stands for.
    fn without_modes(&self) -> Result<Mode, String> {
        let on = |mode: &Mode| self.modes.contains(mode);
        let mode = [Mode::Multi, Mode::Single].into_iter().find(on);
        mode.ok_or_else(|| "router-r1 knows no teams; let the task be run in multi or single too".to_owned())
    }

    /// The next turn, written again where it is refused; none where it is refused too often.
    async fn turn(
        &mut self,
        tongue: &Tongue,
        conversation: &Conversation,
        episode: &Episode,
    ) -> Result<Option<(String, Turn)>, String> {
        let settings = &self.llm.settings;
        let mut refused: Option<(String, Violation)> = None;
        for _ in 0..=settings.resamples {
            let shown = refused.as_ref().map(|(text, violation)| (text.as_str(), *violation));
            let left = Duration::from_millis(settings.timeout_ms).saturating_sub(self.started.elapsed());
            let prompt = Prompt {
                messages: conversation.messages(settings.history, shown, note(episode)),
                stop: tongue.stop(),
                tokens_max: if episode.mode().is_none() { settings.mode_tokens_max } else { settings.tokens_max },
                limit_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1),
            };
            if left.is_zero() {
                return Err(format!("it took longer than {} ms", settings.timeout_ms));
            }
            self.proposal.attempts += 1;
            let said = self.llm.ask(&prompt).await.map_err(|error| error.to_string())?;
            self.proposal.cost_usd += said.cost_usd;
            let text = tongue.turn_of(&said.text, said.is_ended);
            match self.read(&text, tongue, episode) {
                Ok(turn) => return Ok(Some((text, turn))),
                Err(violation) => {
                    metrics::counter!(Metric::Violations.name(), "code" => violation.code()).increment(1);
                    self.proposal.violations.push(violation.code().to_owned());
                    refused = Some((text, violation));
                }
            }
        }
        Ok(None)
    }

    fn read(&self, text: &str, tongue: &Tongue, episode: &Episode) -> Result<Turn, Violation> {
        let turn = tongue.parse(text, episode)?;
        let kept: usize = self.proposal.turns.iter().map(String::len).sum();
        if kept + text.len() > Proposal::TURNS_BYTES_MAX {
            return Err(Violation::ActionMalformed);
        }
        match &turn {
            Turn::Mode(mode) if !self.modes.contains(mode) => return Err(Violation::ModeInvalid),
            // The trail of router-r1 allows it.
            Turn::Answer(_) if self.llm.settings.dialect == Dialect::RouterR1 => return Ok(turn),
            Turn::Mode(_) | Turn::Calls(_) | Turn::Answer(_) => {}
        }
        episode.clone().take(&turn)?;
        Ok(turn)
    }
}
