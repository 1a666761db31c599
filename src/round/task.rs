//! Task: what a client asks for, validated at the edge.

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Map, Value};

use super::{ArmId, Capability, Domain, IdempotencyKey, Invalid, Mode, RewardWeights, SessionId, TaskId, TenantId};

/// Task metadata: one JSON object, the verifiers' extension point (`reference`, `schema`, `choices`, `answer` ...).
pub type Metadata = Map<String, Value>;

/// The longest prompt, all messages together.
pub const PROMPT_BYTES_MAX: usize = 4 << 20;

/// The most capabilities that a task may need.
const NEEDS_MAX: usize = 16;

/// One piece of work to route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The client's id, or a generated one.
    pub id: TaskId,
    /// The kind of work; `unknown` when the client gives none.
    pub domain: Domain,
    /// The chat that the worker gets; never empty.
    pub messages: Vec<Message>,
    /// What verifiers may need to check the answer.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Metadata,
    /// Limits on how it may be done.
    #[serde(default)]
    pub constraints: Constraints,
    /// Weights of this task's reward, when they differ from the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<RewardWeights>,
    /// What cost weighs for a policy that was trained on it, in [0, 1], when it differs from the tenant's or the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Makes a repeated request one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
}

/// One chat message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    #[schema(pattern = "^(system|user|assistant|tool)$")]
    pub role: String,
    /// The text.
    pub content: String,
}

/// Limits on how a task may be done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Constraints {
    /// Only these modes may be used; all that are switched on for the domain when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1)]
    pub modes: Option<Vec<Mode>>,
    /// Only these arms may be used; all enabled arms when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1)]
    pub arms: Option<Vec<ArmId>>,
    /// How long the worker may take, in milliseconds (1 to 3,600,000).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole_number")]
    #[schema(minimum = 1, maximum = 3_600_000)]
    pub deadline_ms: Option<u64>,
    /// No arm that is expected to cost more dollars than this, above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0, maximum = 1_000_000)]
    pub cost_usd_max: Option<f64>,
    /// Only arms that can do all of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub needs: Vec<Capability>,
}

/// A whole number, also one written as 59.0, which JSON does not tell from 59.
fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Whole(u64),
        Float(f64),
    }
    match Option::<Number>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Number::Whole(number)) => Ok(Some(number)),
        Some(Number::Float(number)) if number.fract() == 0.0 && (0.0..=9e15).contains(&number) => {
            Ok(Some(number as u64))
        }
        Some(Number::Float(number)) => Err(D::Error::custom(format!("{number} is not a whole number of at least 0"))),
    }
}

impl Task {
    /// A task of one user message, with nothing out of the ordinary.
    pub fn plain(id: TaskId, domain: Domain, prompt: impl Into<String>, metadata: Metadata) -> Self {
        Self {
            id,
            domain,
            messages: vec![Message { role: "user".into(), content: prompt.into() }],
            metadata,
            constraints: Constraints::default(),
            reward: None,
            alpha: None,
            session: None,
            tenant: None,
            idempotency_key: None,
        }
    }

    /// What is shown of the task: the last user message, or the last message of any role.
    pub fn prompt(&self) -> &str {
        let last_user = self.messages.iter().rev().find(|message| message.role == "user");
        last_user.or(self.messages.last()).map_or("", |message| message.content.as_str())
    }

    /// Checks every field against its range.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.messages.is_empty() || self.prompt().trim().is_empty() {
            return Err(Invalid::new("prompt", "must not be empty; send `prompt` or `messages` with a user message"));
        }
        let bytes: usize = self.messages.iter().map(|message| message.content.len()).sum();
        if bytes > PROMPT_BYTES_MAX {
            return Err(Invalid::new("prompt", format!("is {bytes} bytes; at most {PROMPT_BYTES_MAX} are taken")));
        }
        for message in &self.messages {
            if !["system", "user", "assistant", "tool"].contains(&message.role.as_str()) {
                return Err(Invalid::new("messages", "each role must be one of system, user, assistant, tool"));
            }
        }
        if self.constraints.arms.as_ref().is_some_and(Vec::is_empty) {
            return Err(Invalid::new("constraints.arms", "must name at least one arm, or be left out for all"));
        }
        if self.constraints.modes.as_ref().is_some_and(Vec::is_empty) {
            return Err(Invalid::new("constraints.modes", "must name at least one mode, or be left out for all"));
        }
        if self.alpha.is_some_and(|alpha| !(0.0..=1.0).contains(&alpha)) {
            return Err(Invalid::new("alpha", "must be a number from 0 (only the score counts) to 1"));
        }
        if self.constraints.deadline_ms.is_some_and(|ms| !(1..=3_600_000).contains(&ms)) {
            return Err(Invalid::new("constraints.deadline_ms", "must be from 1 to 3600000"));
        }
        if self.constraints.cost_usd_max.is_some_and(|usd| !(usd > 0.0 && usd <= 1e6)) {
            return Err(Invalid::new("constraints.cost_usd_max", "must be above 0 and at most 1000000 dollars"));
        }
        if self.constraints.needs.len() > NEEDS_MAX {
            return Err(Invalid::new("constraints.needs", format!("must name at most {NEEDS_MAX} capabilities")));
        }
        if let Some(reward) = &self.reward {
            reward.validate()?;
        }
        Ok(())
    }
}
