//! The log, to standard error; and traces, to the collector that the environment names.
//!
//! Traces go by OTLP over HTTP where `OTEL_EXPORTER_OTLP_ENDPOINT` is set, and OpenTelemetry's other variables hold as well:
//! `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_SDK_DISABLED`. Texts of tasks are in them only
//! with `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`.

use anyhow::{Context, Result};
use clap::ValueEnum;
use opentelemetry::{global, trace::TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use pointsman::telemetry::{TRACES, trace_messages};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer, filter::Targets, fmt::layer, layer::SubscriberExt, registry, util::SubscriberInitExt,
};

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends traces; what waits is sent when this is dropped.
pub(super) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            eprintln!("pointsman: the last traces could not be sent: {error}");
        }
    }
}

/// Starts the log, and traces where they are wanted. Called before the runtime starts: the exporter has a thread of its own.
pub(super) fn start(format: Format) -> Result<Option<Traces>> {
    let quiet = || EnvFilter::new(format!("warn,qdrant_edge=error,pointsman=info,{TRACES}=off,opentelemetry=warn"));
    let filter = EnvFilter::try_from_env("POINTSMAN_LOG").unwrap_or_else(|_| quiet());
    let log = match format {
        Format::Text => layer().with_writer(std::io::stderr).boxed(),
        Format::Json => layer().with_writer(std::io::stderr).json().flatten_event(true).with_span_list(false).boxed(),
    };
    let traces = is_set("OTEL_EXPORTER_OTLP_ENDPOINT") || is_set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let traces = if traces && !is_true("OTEL_SDK_DISABLED") { Some(exporter()?) } else { None };
    let spans = traces.as_ref().map(|Traces(provider)| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("pointsman"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target("pointsman", LevelFilter::INFO))
    });
    registry().with(log.with_filter(filter)).with(spans).init();
    Ok(traces)
}

fn exporter() -> Result<Traces> {
    let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).build();
    let exporter = exporter.context("traces cannot be exported; look at the OTEL_EXPORTER_OTLP variables")?;
    let resource = Resource::builder();
    let resource = if is_set("OTEL_SERVICE_NAME") { resource } else { resource.with_service_name("pointsman") };
    let provider = SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    if is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") {
        trace_messages();
    }
    Ok(Traces(provider))
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn is_true(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value.eq_ignore_ascii_case("true"))
}
