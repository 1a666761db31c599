//! Verifiers, the judge and the admin key.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, Problem, raw};
use crate::{
    api::AdminKey,
    config::ArmConfig,
    feedback::verifier::{VerifierSpec, first_party_names, is_first_party},
    round::{ArmId, Domain, VerifierName, VerifierSettings},
    router::JudgeSettings,
};

/// A key that is shorter can be guessed.
const ADMIN_KEY_BYTES_MIN: usize = 16;

impl Checker<'_> {
    pub(super) fn verifier_set(&mut self, key: &str, set: &[raw::Verifier]) -> Vec<VerifierSpec> {
        let mut names = BTreeSet::new();
        self.problems.require(!set.is_empty(), key, "must name at least one verifier, or nothing is ever learnt");
        let mut specs = Vec::with_capacity(set.len());
        for (index, verifier) in set.iter().enumerate() {
            let key = format!("{key}[{index}]");
            if !names.insert(verifier.name.clone()) {
                self.problems.add(format!("{key}.name"), format!("{:?} is named twice", verifier.name));
            }
            specs.extend(self.verifier(&key, verifier));
        }
        specs
    }

    pub(super) fn limits(&mut self, raw: &raw::Verifiers) {
        let p = &mut self.problems;
        let fuel = (1_000_000..=1_000_000_000_000).contains(&raw.fuel);
        p.require(fuel, "verifiers.fuel", "must be from 1000000 to 1000000000000");
        let deadline = (10..=600_000).contains(&raw.deadline_ms);
        p.require(deadline, "verifiers.deadline_ms", "must be from 10 to 600000");
        let memory = (1 << 20..=2 << 30).contains(&raw.memory_bytes);
        p.require(
            memory,
            "verifiers.memory_bytes",
            "must be from 1048576 to 2147483648; the python verifier needs 64 MiB",
        );
        let queue = (1..=1_000_000).contains(&raw.queue_max);
        p.require(queue, "verifiers.queue_max", "must be from 1 to 1000000");
    }

    fn verifier(&mut self, key: &str, verifier: &raw::Verifier) -> Option<VerifierSpec> {
        let component = verifier.component.as_ref().map(|path| self.base.join(path));
        match &component {
            Some(path) if !path.is_file() => {
                self.problems.add(format!("{key}.component"), format!("{} is not a file", path.display()));
            }
            None if !is_first_party(&verifier.name) => {
                let names = first_party_names().collect::<Vec<_>>().join(", ");
                let advice = format!(
                    "{:?} does not come with the program; name one of {names}, or give `component = FILE`",
                    verifier.name
                );
                self.problems.add(format!("{key}.name"), advice);
            }
            Some(_) | None => {}
        }
        let config = verifier.config.as_ref().map_or_else(|| Ok("{}".into()), serde_json::to_string);
        let config = config.map_err(|error| self.problems.add(format!("{key}.config"), error.to_string())).ok()?;
        let (weight, gate, on_error) = (verifier.weight, verifier.gate, verifier.on_error);
        let settings = VerifierSettings { weight, gate, on_error, config };
        if let Err(error) = settings.validate() {
            self.problems.add(format!("{key}.{}", error.field), error.problem);
        }
        match VerifierName::new(&verifier.name) {
            Ok(name) => Some(VerifierSpec { name, component, settings }),
            Err(error) => {
                self.problems.add(format!("{key}.name"), error.problem);
                None
            }
        }
    }

    pub(super) fn judge(
        &mut self,
        arms: &[ArmConfig],
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> Option<JudgeSettings> {
        if !self.table.contains_key("judge") {
            return None;
        }
        let raw::Judge { arm, rubric, share, domains: wanted } = self.section("judge")?;
        self.problems.require(share > 0.0 && share <= 1.0, "judge.share", "must be above 0 and at most 1");
        let rubric = rubric.unwrap_or_else(|| JudgeSettings::RUBRIC.into());
        self.problems.require(!rubric.trim().is_empty(), "judge.rubric", "must say what makes an answer good");
        let known = arms.iter().any(|known| known.id.as_str() == arm);
        // An arm that is wrong itself is reported where it is.
        self.problems.require(known || arms.is_empty(), "judge.arm", "must be the id of one of [[arms]]");
        let wanted = wanted.map(|names| self.known_domains("judge.domains", &names, domains));
        let arm = ArmId::new(arm).map_err(|error| self.problems.add("judge.arm", error.problem)).ok()?;
        Some(JudgeSettings { arm, rubric, share, domains: wanted })
    }

    /// Domains that a section names.
    pub(super) fn known_domains(
        &mut self,
        key: &str,
        names: &[String],
        domains: &BTreeMap<Domain, Option<Vec<VerifierSpec>>>,
    ) -> BTreeSet<Domain> {
        let mut read = |name: &String| match Domain::new(name) {
            Ok(domain) if domains.is_empty() || domains.contains_key(&domain) => Some(domain),
            Ok(_) => self.found(key, format!("there is no [domains.{name}]")),
            Err(error) => self.found(key, error.problem),
        };
        names.iter().filter_map(&mut read).collect()
    }

    fn found<T>(&mut self, key: &str, advice: String) -> Option<T> {
        self.problems.0.push(Problem { key: key.into(), advice });
        None
    }

    /// The key that the variable holds; none where it is not set.
    pub(super) fn admin_key(&mut self, variable: &str) -> Option<AdminKey> {
        let key = (self.env)(variable).filter(|key| !key.is_empty())?;
        let advice = format!("${variable} must have at least {ADMIN_KEY_BYTES_MIN} bytes, all of them visible ASCII");
        let fits = key.len() >= ADMIN_KEY_BYTES_MIN && key.bytes().all(|byte| byte.is_ascii_graphic());
        self.problems.require(fits, "server.admin_key_env", &advice);
        Some(AdminKey::of(&key))
    }
}
