//! What can be wrong with a turn. The first violation ends a trajectory.

use serde::{Deserialize, Serialize};

/// What is wrong with a turn; the code is stable.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    /// The first turn declares no mode.
    #[error("the first turn must declare the mode")]
    ModeMissing,
    /// The mode was declared before.
    #[error("the mode is declared once, in the first turn")]
    ModeDuplicate,
    /// There is no such mode.
    #[error("the mode must be single, multi or agentic")]
    ModeInvalid,
    /// An answer before the calls that the mode asks for.
    #[error("the answer comes before the calls that the mode asks for")]
    AnswerPremature,
    /// A call was due and none was asked for.
    #[error("no worker is called where one must be")]
    RouteMissing,
    /// A call that cannot be read.
    #[error("a call cannot be read")]
    RouteMalformed,
    /// More calls than the mode allows.
    #[error("no further call is allowed")]
    CallLimit,
    /// A call lacks an attribute that its mode asks for.
    #[error("a call lacks an attribute")]
    AttributeMissing,
    /// A call has an attribute that its mode does not know.
    #[error("a call has an attribute that its mode does not know")]
    AttributeUnknown,
    /// A call has an attribute twice.
    #[error("a call has an attribute twice")]
    AttributeDuplicate,
    /// A call asks nothing.
    #[error("a call's task is empty")]
    EmptyTask,
    /// Not the name of a worker.
    #[error("a call names no worker that there is")]
    UnknownModel,
    /// A worker that is not offered for this task.
    #[error("a call names a worker that is not offered")]
    WorkerNotOffered,
    /// A call of a team has no role.
    #[error("a call of a team has no role")]
    RoleMissing,
    /// There is no such role.
    #[error("a role must be planner, executor, verifier or summarizer")]
    RoleInvalid,
    /// A reference to nothing.
    #[error("a reference names no earlier call")]
    RefUnknown,
    /// A reference to a call that runs at the same time.
    #[error("a reference names a call of the same layer")]
    RefSameLayer,
    /// The same call is referred to twice.
    #[error("a call is referred to twice")]
    RefDuplicate,
    /// A verifier that looks at nothing.
    #[error("a verifier must refer to an earlier call")]
    VerifierWithoutRefs,
    /// A summarizer that looks at nothing although there is something.
    #[error("a summarizer must refer to earlier calls where there are any")]
    SummarizerWithoutRefs,
    /// A summarizer beside other calls.
    #[error("a summarizer must be alone in its layer")]
    SummarizerNotAlone,
    /// Two calls of one layer that are the same.
    #[error("a layer has the same call twice")]
    DuplicateInLayer,
    /// A layer with more calls than are left, the summarizer's put aside.
    #[error("a layer has more calls than are left beside the summarizer's")]
    LayerOverBudget,
    /// One call is left, and it is the summarizer's.
    #[error("the one call that is left is the summarizer's")]
    MustSummarizeNow,
    /// A turn after the last one.
    #[error("the trajectory is finished")]
    AlreadyFinished,
    /// Nothing that can be acted on was written.
    #[error("the turn holds no action")]
    ActionMissing,
    /// What was written is no action, or more than one.
    #[error("the turn cannot be read as one action")]
    ActionMalformed,
}

impl Violation {
    /// Every one, in order.
    pub const ALL: [Self; 27] = [
        Self::ModeMissing,
        Self::ModeDuplicate,
        Self::ModeInvalid,
        Self::AnswerPremature,
        Self::RouteMissing,
        Self::RouteMalformed,
        Self::CallLimit,
        Self::AttributeMissing,
        Self::AttributeUnknown,
        Self::AttributeDuplicate,
        Self::EmptyTask,
        Self::UnknownModel,
        Self::WorkerNotOffered,
        Self::RoleMissing,
        Self::RoleInvalid,
        Self::RefUnknown,
        Self::RefSameLayer,
        Self::RefDuplicate,
        Self::VerifierWithoutRefs,
        Self::SummarizerWithoutRefs,
        Self::SummarizerNotAlone,
        Self::DuplicateInLayer,
        Self::LayerOverBudget,
        Self::MustSummarizeNow,
        Self::AlreadyFinished,
        Self::ActionMissing,
        Self::ActionMalformed,
    ];

    /// Its code, such as `mode_missing`.
    pub fn code(self) -> &'static str {
        match self {
            Self::ModeMissing => "mode_missing",
            Self::ModeDuplicate => "mode_duplicate",
            Self::ModeInvalid => "mode_invalid",
            Self::AnswerPremature => "answer_premature",
            Self::RouteMissing => "route_missing",
            Self::RouteMalformed => "route_malformed",
            Self::CallLimit => "call_limit",
            Self::AttributeMissing => "attribute_missing",
            Self::AttributeUnknown => "attribute_unknown",
            Self::AttributeDuplicate => "attribute_duplicate",
            Self::EmptyTask => "empty_task",
            Self::UnknownModel => "unknown_model",
            Self::WorkerNotOffered => "worker_not_offered",
            Self::RoleMissing => "role_missing",
            Self::RoleInvalid => "role_invalid",
            Self::RefUnknown => "ref_unknown",
            Self::RefSameLayer => "ref_same_layer",
            Self::RefDuplicate => "ref_duplicate",
            Self::VerifierWithoutRefs => "verifier_without_refs",
            Self::SummarizerWithoutRefs => "summarizer_without_refs",
            Self::SummarizerNotAlone => "summarizer_not_alone",
            Self::DuplicateInLayer => "duplicate_in_layer",
            Self::LayerOverBudget => "layer_over_budget",
            Self::MustSummarizeNow => "must_summarize_now",
            Self::AlreadyFinished => "already_finished",
            Self::ActionMissing => "action_missing",
            Self::ActionMalformed => "action_malformed",
        }
    }
}
