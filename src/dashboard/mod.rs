//! The pages that people watch: templates and static files inside the binary, fed by the daemon's own API. They need no network.
//!
//! A page is a skeleton without a word of the daemon's data; its script fetches what it shows with the watcher's key, and puts it in
//! as text. So pages are the same for everybody: each is rendered and compressed once.

use std::{collections::BTreeMap, io::Write, sync::LazyLock};

use askama::Template;
use axum::{
    Router as Routes,
    body::Bytes,
    extract::Path,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use flate2::{Compression, write::GzEncoder};

/// Scripts, styles and connections of this daemon only, none of them inline; nobody may frame a page.
const POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

macro_rules! files {
    ($($kind:ident: $($name:literal)+;)+) => {
        &[$($(($name, $kind, include_str!(concat!("page/", $name)))),+),+]
    };
}

/// The files of `page/`, by name.
const FILES: &[(&str, &str, &str)] = files! {
    SCRIPT: "api.js" "chart.js" "chart_base.js" "decision.js" "decision_parts.js" "decisions.js" "dialog.js" "dom.js" "domain.js" "domains.js" "feed.js"
        "format.js" "layout.js" "memory.js" "overview.js" "overview_charts.js" "overview_tables.js" "policies.js" "report.js"
        "reports.js" "tables.js" "theme.js" "uplot.iife.min.js" "url.js" "verifiers.js";
    STYLE: "pages2.css" "style.css" "uplot.min.css";
};

macro_rules! pages {
    ($($type:ident $page:literal $title:literal,)+) => {
        $(
            #[derive(Template)]
            #[template(path = $page, ext = "html")]
            struct $type {
                page: &'static str,
                title: &'static str,
            }
        )+

        /// Every page by its name, rendered.
        fn rendered() -> Result<Vec<(&'static str, String)>, askama::Error> {
            Ok(vec![$({
                let page = $page.trim_end_matches(".html");
                (page, $type { page, title: $title }.render()?)
            }),+])
        }
    };
}

pages! {
    Overview "overview.html" "Overview",
    Domains "domains.html" "Domains",
    OneDomain "domain.html" "Domain",
    Decisions "decisions.html" "Decisions",
    OneDecision "decision.html" "Decision",
    Memory "memory.html" "Memory",
    Policies "policies.html" "Policies",
    Reports "reports.html" "Replay reports",
    OneReport "report.html" "Replay report",
}

/// Something that is served as it is, to everybody.
struct Asset {
    kind: &'static str,
    body: Bytes,
    gzip: Bytes,
    etag: HeaderValue,
}

static ASSETS: LazyLock<BTreeMap<&'static str, Asset>> =
    LazyLock::new(|| FILES.iter().map(|(name, kind, body)| (*name, Asset::new(kind, (*body).into()))).collect());

static PAGES: LazyLock<BTreeMap<&'static str, Asset>> = LazyLock::new(|| {
    let pages = rendered().unwrap_or_else(|error| {
        tracing::error!(%error, "the pages cannot be rendered");
        vec![]
    });
    pages.into_iter().map(|(name, text)| (name, Asset::new(HTML, text.into()))).collect()
});

/// The pages' routes.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Routes<S> {
    let page = |name: &'static str| get(move |headers: HeaderMap| async move { answer(PAGES.get(name), &headers) });
    let to_overview = || async { Redirect::temporary("/dashboard") };
    Routes::new()
        .route("/", get(to_overview))
        .route("/dashboard/", get(to_overview))
        .route("/dashboard", page("overview"))
        .route("/dashboard/domains", page("domains"))
        .route("/dashboard/domains/{domain}", page("domain"))
        .route("/dashboard/decisions", page("decisions"))
        .route("/dashboard/decisions/{id}", page("decision"))
        .route("/dashboard/memory", page("memory"))
        .route("/dashboard/policies", page("policies"))
        .route("/dashboard/reports", page("reports"))
        .route("/dashboard/reports/{name}", page("report"))
        .route(
            "/dashboard/static/{name}",
            get(|Path(name): Path<String>, headers: HeaderMap| async move { answer(ASSETS.get(&*name), &headers) }),
        )
}

fn answer(asset: Option<&Asset>, asked: &HeaderMap) -> Response {
    let Some(asset) = asset else {
        return (StatusCode::NOT_FOUND, "there is no such page; see /dashboard\n").into_response();
    };
    let mut headers = HeaderMap::new();
    // The files change only with the binary, and the daemon is near: a browser asks whether they did.
    for (name, value) in [
        (header::CONTENT_TYPE, asset.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ETAG, asset.etag.clone());
    let says = |name, wanted: &str| {
        let value = asked.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.is_some_and(|value| value.split(',').any(|part| part.trim().split(';').next() == Some(wanted)))
    };
    if asset.etag.to_str().is_ok_and(|etag| says(header::IF_NONE_MATCH, etag)) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    if says(header::ACCEPT_ENCODING, "gzip") {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        return (headers, asset.gzip.clone()).into_response();
    }
    (headers, asset.body.clone()).into_response()
}

impl Asset {
    fn new(kind: &'static str, body: Bytes) -> Self {
        let digest = blake3::hash(&body).to_hex();
        let etag = HeaderValue::from_str(&format!("\"{}\"", &digest[..16]));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Neither can fail: the one writes to memory, and the other is made of hexadecimal digits.
        let gzip = encoder.write_all(&body).and_then(|()| encoder.finish()).unwrap_or_default();
        Self { kind, body, gzip: gzip.into(), etag: etag.unwrap_or_else(|_| HeaderValue::from_static("\"\"")) }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path};

    use super::*;

    fn folder(name: &str) -> Vec<String> {
        let folder = path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard").join(name);
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn every_file_of_the_page_is_served_and_what_scripts_and_pages_name_is_there() {
        let mut files = folder("page");
        files.retain(|name| name != "THIRD_PARTY.md");
        files.sort();
        assert_eq!(files, ASSETS.keys().copied().collect::<Vec<_>>());
        let pages: Vec<_> = folder("templates").into_iter().filter(|name| name != "layout.html").collect();
        assert_eq!(pages.len(), PAGES.len());
        for (name, asset) in PAGES.iter().chain(ASSETS.iter().filter(|(name, _)| !name.starts_with("uplot"))) {
            let text = std::str::from_utf8(&asset.body).unwrap();
            for (_, after) in text.match_indices("/dashboard/static/").map(|(at, mark)| text.split_at(at + mark.len()))
            {
                let named = after.split(['"', '\'', '`']).next().unwrap();
                assert!(ASSETS.contains_key(named), "{name} names {named}");
            }
            for (_, after) in text.match_indices("from \"./").map(|(at, mark)| text.split_at(at + mark.len())) {
                let named = after.split('"').next().unwrap();
                assert!(ASSETS.contains_key(named), "{name} imports {named}");
            }
        }
    }

    #[test]
    fn pages_hold_nothing_that_their_policy_forbids_and_weigh_little() {
        for (name, page) in PAGES.iter() {
            let text = std::str::from_utf8(&page.body).unwrap();
            assert!(
                !text.contains(" style=") && !text.contains("javascript:") && !text.contains(" onclick="),
                "{name}"
            );
            assert!(
                text.matches("<script").count() == text.matches("<script src=").count(),
                "{name} has an inline script"
            );
            assert!(!text.contains("http://") && !text.contains("https://"), "{name} names another host");
        }
        let weight: usize = PAGES.values().chain(ASSETS.values()).map(|asset| asset.gzip.len()).sum();
        assert!(weight < 300_000, "{weight} bytes");
    }

    #[test]
    fn a_browser_that_has_a_file_is_told_so_and_one_that_can_gets_it_compressed() {
        let of = |name, value: &str| HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
        let asset = ASSETS.get("style.css");
        let plain = answer(asset, &HeaderMap::new());
        assert_eq!(plain.headers().get(header::CONTENT_ENCODING), None);
        let etag = plain.headers()[header::ETAG].to_str().unwrap().to_owned();
        assert_eq!(
            answer(asset, &of(header::IF_NONE_MATCH, &format!("\"x\", {etag}"))).status(),
            StatusCode::NOT_MODIFIED
        );
        let packed = answer(asset, &of(header::ACCEPT_ENCODING, "br, gzip;q=0.8"));
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(answer(None, &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
    }
}
