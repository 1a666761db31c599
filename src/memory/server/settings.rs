//! Where the server is and how long to wait for it.

use std::{fmt, time::Duration};

use ::qdrant_client::config::QdrantConfig;

use super::super::MemoryError;

/// Longer than any wait of ours: our own deadlines decide.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(120);
const COLLECTION_BYTES_MAX: usize = 200;

/// A secret that is sent and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}

/// A memory server, as configured; [`super::ServerMemory::open`] checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where it speaks gRPC, such as `http://127.0.0.1:6334`; https is understood.
    pub url: String,
    /// The key that it asks for, which must allow to create and delete collections.
    pub api_key: Option<ApiKey>,
    /// The name of the memory on the server. The collections behind it have the same name with `-0` or `-1` at the end.
    pub collection: String,
    /// The longest wait for a connection.
    pub connect_timeout_ms: u64,
    /// The longest wait for the answer to one request other than recall.
    pub write_timeout_ms: u64,
    /// The longest that a recall may take, all in all. Tasks wait for it.
    pub recall_timeout_ms: u64,
}

/// Settings that were checked.
pub(super) struct Checked {
    pub config: QdrantConfig,
    pub place: Place,
    pub limit: Duration,
    pub recall: Duration,
}

/// Where the memory is, as errors name it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub collection: String,
    host: String,
}

impl Place {
    /// One of the two collections behind the memory's name.
    pub fn ring(&self, n: u8) -> String {
        format!("{}-{n}", self.collection)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the collection {} on {}", self.collection, self.host)
    }
}

impl ServerSettings {
    /// The memory, as messages name it. Meant for settings that were validated.
    pub fn place(&self) -> String {
        let host = address(&self.url).unwrap_or_default();
        Place { collection: self.collection.clone(), host }.to_string()
    }

    /// Every problem, as one error.
    pub fn validate(&self) -> Result<(), MemoryError> {
        self.check().map(|_| ())
    }

    /// All problems at once.
    pub(super) fn check(&self) -> Result<Checked, MemoryError> {
        let mut problems = Vec::new();
        let host = address(&self.url).unwrap_or_else(|problem| {
            problems.push(format!("url {problem}; write it like http://127.0.0.1:6334, the server's gRPC port"));
            String::new()
        });
        let name = &self.collection;
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > COLLECTION_BYTES_MAX || !name.chars().all(allowed) {
            problems.push(format!("collection must be 1 to {COLLECTION_BYTES_MAX} letters, digits, dots, _ or -"));
        }
        // It travels as a header, and a malformed one would be shown in an error.
        if self.api_key.as_ref().is_some_and(|key| key.0.is_empty() || !key.0.bytes().all(|b| b.is_ascii_graphic())) {
            problems.push("api_key must be printable ASCII without spaces".into());
        }
        let waits = [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("write_timeout_ms", self.write_timeout_ms),
            ("recall_timeout_ms", self.recall_timeout_ms),
        ];
        let bounds = 1..=CLIENT_TIMEOUT.as_millis().try_into().unwrap_or(u64::MAX);
        for (key, _) in waits.iter().filter(|(_, wait)| !bounds.contains(wait)) {
            problems.push(format!("{key} must be {} to {}", bounds.start(), bounds.end()));
        }
        if !problems.is_empty() {
            return Err(MemoryError::Other(format!("the memory server's settings are wrong: {}", problems.join("; "))));
        }
        let local = ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local));
        if self.api_key.is_some() && self.url.starts_with("http://") && !local {
            tracing::warn!(host, "the memory server's key is sent without encryption; use https");
        }
        let config = QdrantConfig::from_url(&self.url)
            .api_key(self.api_key.as_ref().map(|key| key.0.as_str()))
            .connect_timeout(Duration::from_millis(self.connect_timeout_ms))
            .timeout(CLIENT_TIMEOUT)
            // It would print to standard output.
            .skip_compatibility_check();
        Ok(Checked {
            config,
            place: Place { collection: name.clone(), host },
            limit: Duration::from_millis(self.write_timeout_ms),
            recall: Duration::from_millis(self.recall_timeout_ms),
        })
    }
}

/// The host and port of a URL, or what is wrong with it. Never repeats the URL, which may hold a secret.
fn address(url: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(url).map_err(|error| format!("is no URL ({error})"))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err("must begin with http:// or https://".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user or password: the key has a setting of its own".into());
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err("must end after the port".into());
    }
    let host = url.host_str().ok_or("names no host")?;
    Ok(url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> ServerSettings {
        ServerSettings {
            url: url.into(),
            api_key: Some(ApiKey::new("top-secret")),
            collection: "memory".into(),
            connect_timeout_ms: 1_000,
            write_timeout_ms: 5_000,
            recall_timeout_ms: 200,
        }
    }

    #[test]
    fn names_host_and_collection_and_hides_the_key() {
        let good = settings("https://qdrant.example:6334");
        let checked = good.check().ok().unwrap();
        assert_eq!(checked.place.to_string(), "the collection memory on qdrant.example:6334");
        assert!(!format!("{good:?}").contains("top-secret"));
    }

    #[test]
    fn reports_every_wrong_setting_without_repeating_secrets() {
        for url in ["", "not a url", "grpc://h:1", "http://user:hush@h:1", "http://h:1/path", "http://h:1?key=hush"] {
            let said = settings(url).check().err().unwrap().to_string();
            assert!(said.contains("url ") && !said.contains("hush"), "{said}");
        }
        let wrong = ServerSettings {
            api_key: Some(ApiKey::new("top secret\n")),
            collection: "a/b".into(),
            recall_timeout_ms: 0,
            ..settings("ftp://h")
        };
        let said = wrong.check().err().unwrap().to_string();
        for key in ["url", "collection", "api_key", "recall_timeout_ms"] {
            assert!(said.contains(key), "{key}: {said}");
        }
        assert!(!said.contains("top secret"));
    }
}
