//! Commands that ask a running daemon.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use reqwest::{Client, Method, Response};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::folders::{DataFolder, Folders, Owner};

/// Which daemon to ask.
#[derive(Args)]
pub(super) struct Where {
    /// The data folder of the daemon [default: the user's data folder].
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The daemon [default: the one that uses the data folder].
    #[arg(long, global = true, value_name = "URL")]
    pub url: Option<String>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// A running daemon.
pub(super) struct Running {
    client: Client,
    url: String,
    // Sent with every request.
    admin_key: Option<String>,
}

impl Running {
    /// The daemon at an address.
    pub fn at(url: &str) -> Result<Self> {
        Self::by(url, Client::builder())
    }

    /// The daemon that holds the data folder's lock, on this machine. Its certificate may name another host than the
    /// address that it is reached at here, so it is not asked for one: the lock says who it is.
    fn near(url: &str) -> Result<Self> {
        Self::by(url, Client::builder().danger_accept_invalid_certs(true))
    }

    fn by(url: &str, client: reqwest::ClientBuilder) -> Result<Self> {
        let client = client.build().context("the HTTP client cannot start")?;
        let admin_key = std::env::var("POINTSMAN_ADMIN_KEY").ok().filter(|key| !key.is_empty());
        Ok(Self { client, url: url.trim_end_matches('/').to_owned(), admin_key })
    }

    /// The daemon that was named, or that has the data folder.
    pub fn find(place: &Where, folders: &Folders) -> Result<Self> {
        if let Some(url) = &place.url {
            return Self::at(url);
        }
        let path = place.data_dir.as_deref().unwrap_or(&folders.data);
        match path.exists().then(|| DataFolder::owner(path)).transpose()? {
            Some(Owner::Other { url: Some(url) }) => Self::near(&url),
            Some(Owner::Other { url: None } | Owner::Us(_)) | None => bail!(
                "no daemon runs on {}: start one with `pointsman serve`, or name it with --data-dir DIR or --url URL",
                path.display()
            ),
        }
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T> {
        let query: String = query.iter().map(|(key, value)| format!("&{key}={}", escape(value))).collect();
        let path = if query.is_empty() { path.to_owned() } else { format!("{path}?{}", &query[1..]) };
        Ok(self.send(Method::GET, &path, |request| request).await?.json().await?)
    }

    /// Nothing where there is no such thing.
    pub async fn get_if_there<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        match self.send(Method::GET, path, |request| request).await {
            Ok(response) => Ok(Some(response.json().await?)),
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.status == 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: Value) -> Result<T> {
        Ok(self.send(Method::POST, path, |request| request.json(&body)).await?.json().await?)
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        fill: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Result<Response> {
        let mut request = fill(self.client.request(method, format!("{}{path}", self.url)));
        if let Some(key) = &self.admin_key {
            request = request.bearer_auth(key);
        }
        let response = request.send().await.map_err(|error| anyhow!("no daemon answers at {}: {error}", self.url))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        let problem: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let said = problem["detail"].as_str().map_or_else(|| format!("{status}: {text}"), str::to_owned);
        Err(Refused { status: status.as_u16(), said }.into())
    }
}

/// What the daemon said no with.
#[derive(Debug, thiserror::Error)]
#[error("{said}")]
struct Refused {
    status: u16,
    said: String,
}

/// Percent-encodes what may stand in a query.
pub(super) fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// Prints a value for people, or as JSON. A reader that has seen enough, such as `head`, is no error.
pub(super) fn show<T: Serialize>(json: bool, value: &T, render: impl FnOnce(&T) -> String) -> Result<()> {
    let text = if json { serde_json::to_string_pretty(value)? } else { render(value) };
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// An empty table; the columns named in `right` are aligned to the right.
pub(super) fn table<const N: usize>(header: [&str; N], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(header);
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
