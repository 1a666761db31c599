//! A receiver of webhooks on loopback, which answers as it is told.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

/// 32 bytes, and the variable that holds them.
pub const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const VARIABLE: &str = "POINTSMAN_TEST_HOOK";

/// A message that came in.
#[derive(Debug, Clone)]
pub struct Got {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What is answered.
pub enum Reply {
    Status(u16),
    /// With so many seconds in `Retry-After`.
    Later(u16, u64),
    To(String),
    Never,
}

pub struct Receiver {
    pub url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub fn said(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn decision(&self) -> String {
        self.said()["data"]["decision_id"].as_str().unwrap().to_owned()
    }

    pub fn kind(&self) -> String {
        self.said()["type"].as_str().unwrap().to_owned()
    }

    /// Computed here, from the specification.
    pub fn is_signed(&self) -> bool {
        let secret = BASE64_STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
        mac.update(format!("{}.{}.", self.id(), self.header("webhook-timestamp")).as_bytes());
        mac.update(&self.body);
        self.header("webhook-signature") == format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl Receiver {
    /// `reply` is told the message, and how many came before.
    pub async fn start(reply: impl Fn(&Got, usize) -> Reply + Send + Sync + 'static) -> Self {
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let (seen, reply) = (Arc::clone(&got), Arc::new(reply));
        let take = move |uri: Uri, headers: HeaderMap, body: Bytes| {
            let new = Got { path: uri.path().into(), headers, body };
            let before = {
                let mut seen = seen.lock().unwrap();
                seen.push(new.clone());
                seen.len() - 1
            };
            answer(reply(&new, before))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks?key=of-the-query", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(take)).await });
        Self { url, got }
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub fn ids(&self) -> Vec<String> {
        self.got().iter().map(|got| got.id().to_owned()).collect()
    }

    /// Waits until enough came; fails after 20 seconds.
    pub async fn until(&self, enough: impl Fn(&[Got]) -> bool) -> Vec<Got> {
        for _ in 0..1_000 {
            let got = self.got();
            if enough(&got) {
                return got;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not enough came: {:?}", self.ids());
    }

    /// Its section of a configuration.
    pub fn section(&self, name: &str, more: &str) -> String {
        format!("\n[[webhooks]]\nname = \"{name}\"\nurl = \"{}\"\nsecret_env = \"{VARIABLE}\"\n{more}\n", self.url)
    }
}

async fn answer(reply: Reply) -> Response {
    match reply {
        Reply::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Reply::Later(status, seconds) => {
            (StatusCode::from_u16(status).unwrap(), [(header::RETRY_AFTER, seconds)], "not now").into_response()
        }
        Reply::To(place) => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response(),
        Reply::Never => std::future::pending().await,
    }
}
