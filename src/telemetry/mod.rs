//! Telemetry: live events for the page, metrics for operators.

mod events;
mod metrics;

pub use events::{Events, RoundEvent};
pub use metrics::{Metric, Stage, install_recorder, observe_stage, observe_verification};
