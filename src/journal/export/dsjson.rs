//! Rounds as Vowpal Wabbit reads them: decision-service JSON, one verified round a line.
//!
//! The cost that is learnt is the negative reward; `a` are the actions' numbers from 1 with the one taken first, and `p` their
//! probabilities in that order. Namespaces begin with different letters, because Vowpal Wabbit's `-q` names them by those:
//! `Domain` and `Embedding` of the task; `Arm` and `Features` of each candidate.

use std::io::Write;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ExportError, Round, RoundStatus, Rounds, Selection, Source, timestamp};
use crate::round::{ArmFeatures, Candidate};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DsjsonOptions {
    /// Whether each task's embedding is: most of the file.
    pub embedding: bool,
}

/// What was written, and what was left out because nobody knows what it was worth.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DsjsonCounts {
    /// Rounds that were written.
    pub written: u64,
    /// The sum of their costs, the negative rewards.
    pub cost: f64,
    /// Nobody has said yet what became of them.
    pub open: u64,
    /// Nobody said so before their lease ended.
    pub abandoned: u64,
    /// Nobody has checked the answer, though somebody liked it or not, or nobody did anything.
    pub unverified: u64,
    /// No verifier applied, so that there is no score.
    pub unscored: u64,
    /// What was taken is not among the candidates.
    pub strange: u64,
}

impl DsjsonCounts {
    /// How many were left out.
    pub fn left_out(&self) -> u64 {
        self.open + self.abandoned + self.unverified + self.unscored + self.strange
    }
}

/// Writes the selected verified rounds. `progress` is told (done, total) places of the journal.
pub async fn export_dsjson(
    source: &mut Source,
    selection: &Selection,
    options: DsjsonOptions,
    out: &mut dyn Write,
    progress: &dyn Fn(u64, u64),
) -> Result<DsjsonCounts, ExportError> {
    let mut rounds = Rounds::of(source, selection).await?;
    let total = rounds.left();
    let mut counts = DsjsonCounts::default();
    while let Some(page) = rounds.page().await? {
        let lines: Vec<_> = page.par_iter().map(|round| line(round, options)).collect();
        for line in lines {
            match line {
                Ok((text, cost)) => {
                    out.write_all(&text?)?;
                    counts.written += 1;
                    counts.cost += cost;
                }
                Err(why) => *why.count(&mut counts) += 1,
            }
        }
        progress(total - rounds.left(), total);
    }
    Ok(counts)
}

/// Why a round is left out.
enum LeftOut {
    Open,
    Abandoned,
    Unverified,
    Unscored,
    Strange,
}

impl LeftOut {
    fn count(self, counts: &mut DsjsonCounts) -> &mut u64 {
        match self {
            Self::Open => &mut counts.open,
            Self::Abandoned => &mut counts.abandoned,
            Self::Unverified => &mut counts.unverified,
            Self::Unscored => &mut counts.unscored,
            Self::Strange => &mut counts.strange,
        }
    }
}

fn line(round: &Round, options: DsjsonOptions) -> Result<(Result<Vec<u8>, std::io::Error>, f64), LeftOut> {
    let Some(verified) = &round.verified else {
        return Err(match round.status() {
            RoundStatus::Open => LeftOut::Open,
            RoundStatus::Abandoned => LeftOut::Abandoned,
            RoundStatus::Done | RoundStatus::Failed => LeftOut::Unverified,
        });
    };
    let reward = verified.feedback.reward.ok_or(LeftOut::Unscored)?;
    let candidates = &round.context.candidates;
    let decision = &round.decision;
    let is_taken = |candidate: &Candidate| (candidate.mode, &candidate.arm) == (decision.mode, &decision.arm);
    let taken = candidates.iter().position(is_taken).ok_or(LeftOut::Strange)?;
    let p = |place: usize| {
        let Candidate { mode, arm, .. } = &candidates[place];
        decision.pmf.iter().find(|entry| (entry.mode, &entry.arm) == (*mode, arm)).map_or(0.0, |entry| entry.p)
    };
    let others = || (0..candidates.len()).filter(|place| *place != taken);
    let propensity = decision.propensity.get();
    let id = decision.id.to_string();
    let example = Example {
        cost: -reward,
        probability: propensity,
        action: taken + 1,
        index: taken,
        original_cost: -reward,
        outcomes: [json!({"EventId": id, "v": reward})],
        timestamp: timestamp(round.decided_at_ms),
        version: "1",
        actions: [taken].into_iter().chain(others()).map(|place| place + 1).collect(),
        probabilities: [propensity].into_iter().chain(others().map(p)).collect(),
        context: Shared {
            domain: json!({"domain": round.task.domain}),
            embedding: options.embedding.then(|| round.embedding.as_slice()),
            actions: candidates.iter().map(features).collect(),
        },
        state: json!({"m": format!("{}/{} {}", decision.policy.name, decision.policy.version, decision.policy.card)}),
        event_id: id,
    };
    let text = serde_json::to_vec(&example).map(|mut text| {
        text.push(b'\n');
        text
    });
    Ok((text.map_err(Into::into), -reward))
}

/// An arm by its name, and what was known of it.
fn features(candidate: &Candidate) -> Value {
    let ArmFeatures { recall_mean, recall_mass, recall_spread, prior_mean, prior_rounds, .. } = candidate.features;
    let numbers = [
        ("cost_usd", candidate.cost_usd),
        ("recall_mean", recall_mean.into()),
        ("recall_mass", recall_mass.into()),
        ("recall_spread", recall_spread.into()),
        ("prior_mean", prior_mean.into()),
        ("prior_rounds", prior_rounds.into()),
    ];
    // A feature of 0 is one that is not there.
    let numbers: Map<_, _> =
        numbers.into_iter().filter(|(_, x)| *x != 0.0).map(|(name, x)| (name.to_owned(), json!(x))).collect();
    json!({"Arm": {"arm": candidate.arm, "mode": candidate.mode}, "Features": numbers})
}

#[derive(Serialize)]
struct Example<'a> {
    #[serde(rename = "_label_cost")]
    cost: f64,
    #[serde(rename = "_label_probability")]
    probability: f64,
    #[serde(rename = "_label_Action")]
    action: usize,
    #[serde(rename = "_labelIndex")]
    index: usize,
    #[serde(rename = "_original_label_cost")]
    original_cost: f64,
    #[serde(rename = "o")]
    outcomes: [Value; 1],
    #[serde(rename = "Timestamp")]
    timestamp: String,
    #[serde(rename = "Version")]
    version: &'static str,
    #[serde(rename = "EventId")]
    event_id: String,
    #[serde(rename = "a")]
    actions: Vec<usize>,
    #[serde(rename = "c")]
    context: Shared<'a>,
    #[serde(rename = "p")]
    probabilities: Vec<f64>,
    #[serde(rename = "VWState")]
    state: Value,
}

#[derive(Serialize)]
struct Shared<'a> {
    #[serde(rename = "Domain")]
    domain: Value,
    #[serde(rename = "Embedding", skip_serializing_if = "Option::is_none")]
    embedding: Option<&'a [f32]>,
    #[serde(rename = "_multi")]
    actions: Vec<Value>,
}
