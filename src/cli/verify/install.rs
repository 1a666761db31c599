//! `pointsman verify install | list | weigh | rollback | remove`: the verifiers of a running daemon.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::cli::ask::{Running, escape, show, table};

#[derive(Args)]
pub(in crate::cli) struct InstallArguments {
    /// The domain; `*` is all domains without a set of their own.
    domain: String,
    /// A component's file, or the name of a first-party verifier.
    verifier: String,
    /// Its name in the domain [default: the file's name without .wasm].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    settings: Settings,
}

/// What is left out stays as it is, or is weight 1 and no gate.
#[derive(Args)]
pub(in crate::cli) struct Settings {
    /// Its weight in the domain, above 0.
    #[arg(long, value_name = "W")]
    weight: Option<f64>,
    /// Whether its 0 forces the whole to 0.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    gate: Option<bool>,
    /// What its errors mean: skip, zero or reject.
    #[arg(long, value_name = "HOW")]
    on_error: Option<String>,
    /// Its configuration, a JSON object.
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
}

#[derive(Args)]
pub(in crate::cli) struct OfDomain {
    /// The domain; `*` is all domains without a set of their own.
    domain: String,
    /// The verifier.
    name: String,
}

#[derive(Args)]
pub(in crate::cli) struct WeighArguments {
    #[command(flatten)]
    of: OfDomain,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
pub(in crate::cli) struct RollBackArguments {
    #[command(flatten)]
    of: OfDomain,
    /// The version to bring back [default: the one before].
    #[arg(long, value_name = "N")]
    version: Option<u32>,
}

impl Settings {
    fn body(&self) -> Result<Map<String, Value>> {
        let mut body = Map::new();
        if let Some(weight) = self.weight {
            body.insert("weight".into(), json!(weight));
        }
        if let Some(gate) = self.gate {
            body.insert("gate".into(), json!(gate));
        }
        if let Some(on_error) = &self.on_error {
            body.insert("on_error".into(), json!(on_error));
        }
        if let Some(config) = &self.config {
            body.insert("config".into(), serde_json::from_str(config).context("--config is not JSON")?);
        }
        Ok(body)
    }

    fn query(&self) -> Result<String> {
        let pairs = self.body()?.into_iter().map(|(key, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{key}={}", escape(&text))
        });
        Ok(pairs.collect::<Vec<_>>().join("&"))
    }
}

impl OfDomain {
    fn path(&self) -> String {
        path(&self.domain, &self.name)
    }
}

fn path(domain: &str, name: &str) -> String {
    format!("/v1/domains/{}/verifiers/{}", escape(domain), escape(name))
}

pub(super) async fn install(daemon: &Running, json: bool, arguments: InstallArguments) -> Result<()> {
    let InstallArguments { domain, verifier, name, settings } = arguments;
    let file = PathBuf::from(&verifier);
    let named = name.or_else(|| Some(file.file_stem()?.to_string_lossy().into_owned())).unwrap_or_default();
    let place = path(&domain, &named);
    let response = if file.is_file() {
        let bytes = std::fs::read(&file).with_context(|| format!("cannot read {verifier}"))?;
        let place = format!("{place}?{}", settings.query()?);
        let fill = |request: reqwest::RequestBuilder| request.header("content-type", "application/wasm").body(bytes);
        daemon.send(Method::PUT, &place, fill).await?
    } else {
        let mut body = settings.body()?;
        body.insert("first_party".into(), json!(verifier));
        daemon.send(Method::PUT, &place, |request| request.json(&body)).await?
    };
    report(json, &response.json().await?)
}

pub(super) async fn weigh(daemon: &Running, json: bool, WeighArguments { of, settings }: WeighArguments) -> Result<()> {
    let body = settings.body()?;
    report(json, &daemon.send(Method::PATCH, &of.path(), |request| request.json(&body)).await?.json().await?)
}

pub(super) async fn roll_back(daemon: &Running, json: bool, arguments: RollBackArguments) -> Result<()> {
    let query = arguments.version.map_or_else(String::new, |version| format!("?version={version}"));
    let path = format!("{}/rollback{query}", arguments.of.path());
    report(json, &daemon.send(Method::POST, &path, |request| request).await?.json().await?)
}

pub(super) async fn remove(daemon: &Running, of: &OfDomain) -> Result<()> {
    daemon.send(Method::DELETE, &of.path(), |request| request).await?;
    println!("{} no longer judges {}", of.name, of.domain);
    Ok(())
}

pub(super) async fn list(daemon: &Running, json: bool) -> Result<()> {
    let sets: Value = daemon.get("/v1/domains", &[]).await?;
    show(json, &sets, |sets| {
        let mut table =
            table(["domain", "verifier", "version", "weight", "gate", "on error", "component", "sha256"], &[2, 3]);
        for set in sets["sets"].as_array().into_iter().flatten() {
            let domain = set["domain"].as_str().unwrap_or("*");
            if set["inherited"] == true {
                table.add_row([domain, "as *"]);
                continue;
            }
            for verifier in set["verifiers"].as_array().into_iter().flatten() {
                table.add_row(row(domain, verifier));
            }
        }
        table.to_string()
    })
}

fn row(domain: &str, verifier: &Value) -> Vec<String> {
    let text = |key: &str| text(&verifier[key]);
    let manifest = &verifier["manifest"];
    let component = format!(
        "{} {}",
        manifest["name"].as_str().unwrap_or_default(),
        manifest["version"].as_str().unwrap_or_default()
    );
    let sha256 = text("sha256").chars().take(12).collect();
    vec![
        domain.to_owned(),
        text("name"),
        text("version"),
        text("weight"),
        text("gate"),
        text("on_error"),
        component,
        sha256,
    ]
}

/// A value without quotes, and a whole number without its fraction.
fn text(value: &Value) -> String {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(number)) => number.to_string(),
        (None, None) => value.to_string(),
    }
}

fn report(json: bool, verifier: &Value) -> Result<()> {
    show(json, verifier, |verifier| {
        let text = |key: &str| text(&verifier[key]);
        let gate = if verifier["gate"] == true { ", a gate" } else { "" };
        let sha256: String = text("sha256").chars().take(12).collect();
        format!(
            "{} judges: version {}, weight {}{gate}, component {sha256}",
            text("name"),
            text("version"),
            text("weight")
        )
    })
}
