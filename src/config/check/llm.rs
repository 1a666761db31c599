//! The language model that routes.

use std::{collections::BTreeMap, fs};

use super::{Checker, raw};
use crate::{
    arms::Prices,
    config::ArmConfig,
    modes::llm::{Endpoint, LlmSettings},
    round::ArmId,
    router::LlmRouting,
};

impl Checker<'_> {
    pub(super) fn llm(&mut self, raw: raw::ModeLlm, arms: &[ArmConfig]) -> Option<LlmRouting> {
        let endpoint = self.llm_endpoint(&raw, arms);
        let names = self.llm_names(raw.names, arms);
        let prompt = raw.prompt_file.and_then(|file| {
            let read = fs::read_to_string(self.base.join(file));
            read.map_err(|error| self.problems.add("modes.llm.prompt_file", error.to_string())).ok()
        });
        let (input_usd_per_1m, output_usd_per_1m) = (raw.input_usd_per_1m, raw.output_usd_per_1m);
        let prices = self.prices("modes.llm", Prices { input_usd_per_1m, output_usd_per_1m });
        let built_in = LlmSettings::new(endpoint?, raw.dialect);
        let settings = LlmSettings {
            temperature: raw.temperature.unwrap_or(built_in.temperature),
            top_p: raw.top_p.unwrap_or(built_in.top_p),
            tokens_max: raw.tokens_max.unwrap_or(built_in.tokens_max),
            mode_tokens_max: raw.mode_tokens_max.unwrap_or(built_in.mode_tokens_max),
            timeout_ms: raw.timeout_ms.unwrap_or(built_in.timeout_ms),
            resamples: raw.resamples.unwrap_or(built_in.resamples),
            question_chars_max: raw.question_chars_max.unwrap_or(built_in.question_chars_max),
            verdicts: raw.verdicts.unwrap_or(built_in.verdicts),
            history: raw.history.unwrap_or(built_in.history),
            names,
            prompt,
            ..built_in
        };
        for (key, advice) in settings.problems() {
            let key = if key == "prompt" { "prompt_file" } else { key };
            self.problems.add(format!("modes.llm.{key}"), advice);
        }
        Some(LlmRouting { settings, prices })
    }

    fn llm_endpoint(&mut self, raw: &raw::ModeLlm, arms: &[ArmConfig]) -> Option<Endpoint> {
        let raw::ModeLlm { arm, base_url, model, api_key_env, .. } = raw;
        match (arm, base_url, model) {
            (Some(arm), None, None) => match arms.iter().find(|known| known.id.as_str() == arm) {
                Some(known) => Some(Endpoint::Arm(known.id.clone())),
                None => {
                    self.problems.add(
                        "modes.llm.arm",
                        format!("{arm} is none of the arms; with enabled = false an arm runs no tasks"),
                    );
                    None
                }
            },
            (None, Some(base_url), Some(model)) => {
                // Told where it is missing; what it holds is no setting.
                if let Some(name) = api_key_env {
                    self.api_key("modes.llm", name.clone());
                }
                Some(Endpoint::Url {
                    base_url: base_url.clone(),
                    model: model.clone(),
                    api_key_env: api_key_env.clone(),
                })
            }
            _ => {
                self.problems.add(
                    "modes.llm",
                    "must name either an arm, or a base_url (such as http://127.0.0.1:8000/v1) and a model",
                );
                None
            }
        }
    }

    /// By arm; a name of an arm that there is not would be told to nobody.
    fn llm_names(&mut self, names: BTreeMap<String, String>, arms: &[ArmConfig]) -> BTreeMap<ArmId, String> {
        let mut known = BTreeMap::new();
        for (arm, name) in names {
            match arms.iter().find(|known| known.id.as_str() == arm) {
                Some(found) => drop(known.insert(found.id.clone(), name)),
                None => self.problems.add(format!("modes.llm.names.{arm}"), "is none of the arms"),
            }
        }
        known
    }
}
