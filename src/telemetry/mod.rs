//! Telemetry: live events for the page, metrics and traces for operators.

mod events;
mod metrics;
mod traces;

pub use events::{Events, RoundEvent};
pub use metrics::{Metric, Stage, install_recorder, observe_stage, observe_verification};
pub use traces::{TRACES, call_span, continue_trace, record_call, trace_headers, trace_messages};
