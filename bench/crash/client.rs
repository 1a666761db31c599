//! Requests to the daemon, and what became of them.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;

use super::ledger::{Asked, What};

/// How long a daemon may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one life of the daemon.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    address: SocketAddr,
}

/// An answer; none when the connection broke.
pub type Answer = Option<(u16, Value)>;

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let http = reqwest::Client::builder().read_timeout(PATIENCE).build().expect("the settings are right");
        Self { http, address }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    pub async fn get(&self, path: &str) -> Answer {
        read(self.http.get(self.url(path))).await
    }

    /// Sends what is asked and waits for the answer.
    pub async fn ask(&self, asked: &Asked) -> Answer {
        let url = self.url(asked.what.path());
        let request = match asked.what {
            What::Arm => self.http.patch(url),
            What::Task | What::Route | What::Feedback | What::Promotion | What::Trial => self.http.post(url),
        };
        read(request.json(&asked.body)).await
    }

    /// A hash of all that was learnt.
    pub async fn state_hash(&self) -> Option<String> {
        let (_, report) = self.get("/v1/policies").await?;
        Some(report["state_hash"].as_str()?.to_owned())
    }
}

async fn read(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    // An answer that broke off is none.
    Some((status, serde_json::from_str(&response.text().await.ok()?).ok()?))
}
