//! The description of the HTTP surface: stored, served, shown as a page, and held against the running daemon.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::{Value, json};

use crate::served::{CONFIG, Served, output, pointsman, sum};

/// Long enough to be taken.
const ADMIN: &str = "an-admin-key-for-tests";

/// What the program says of itself.
fn printed() -> (String, Value) {
    let (status, stdout, stderr) = output(pointsman().arg("openapi"));
    assert!(status.success(), "{stderr}");
    let document = serde_json::from_str(&stdout).unwrap();
    (stdout, document)
}

/// Every operation, as method and path.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |path: &String, item: &Value| {
        let methods = item.as_object().unwrap().iter();
        methods.map(|(method, operation)| (method.clone(), path.clone(), operation.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(|(path, item)| of(path, item)).collect()
}

#[test]
fn the_stored_copy_is_what_the_program_says() {
    let (printed, _) = printed();
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
    let found = std::fs::read_to_string(stored).unwrap_or_default();
    assert!(
        found == printed,
        "docs/openapi.json is not what the program says; look whether clients can live with the change, and write it again: \
         cargo run --release -- openapi > docs/openapi.json"
    );
}

#[test]
fn every_operation_is_described_in_full() {
    let (_, document) = printed();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    let operations = operations(&document);
    let ids: BTreeSet<_> =
        operations.iter().map(|(.., operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), operations.len(), "two operations have one id");
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    for (method, path, operation) in &operations {
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(summary.ends_with('.') && summary.len() > 10, "{method} {path}: {summary:?} is no sentence");
        assert!(tags.contains(&&operation["tags"][0]), "{method} {path} has no known tag");
        let named: Vec<_> = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let none = vec![];
        let parameters = operation["parameters"].as_array().unwrap_or(&none).iter();
        let described: Vec<_> =
            parameters.filter(|of| of["in"] == "path").map(|of| of["name"].as_str().unwrap()).collect();
        assert_eq!(named, described, "{method} {path}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path} never goes well");
        assert!(responses.contains_key("500"), "{method} {path} never fails");
        let open = operation["security"] == json!([{}]);
        assert_eq!(open, !responses.contains_key("401"), "{method} {path}: a route with a lock answers 401");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let (_, document) = printed();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 50, "{found:?}");
    for reference in found {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[tokio::test]
async fn the_description_and_its_page_are_open_and_need_no_network() {
    let served = Served::with_env(CONFIG, &[("POINTSMAN_ADMIN_KEY", ADMIN)]);
    let client = reqwest::Client::new();
    let made = client
        .post(format!("{}/v1/keys", served.url))
        .bearer_auth(ADMIN)
        .json(&json!({"name": "me", "role": "admin"}))
        .send()
        .await
        .unwrap();
    assert_eq!(made.status(), 201);
    assert_eq!(served.get("/v1/arms").await.0, 401, "keys are needed");
    let (status, document) = served.get("/openapi.json").await;
    assert_eq!((status, document), (200, printed().1));
    for (path, kind) in [
        ("/docs", "text/html"),
        ("/docs/swagger-initializer.js", "text/javascript"),
        ("/docs/swagger-ui.css", "text/css"),
        ("/docs/swagger-ui-bundle.js", "text/javascript"),
    ] {
        let response = reqwest::get(format!("{}{path}", served.url)).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let headers = response.headers();
        assert!(headers["content-type"].to_str().unwrap().starts_with(kind), "{path}: {headers:?}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let text = response.text().await.unwrap();
        if path.ends_with("initializer.js") {
            assert!(text.contains("/openapi.json") && !text.contains("https://"), "{text}");
        }
    }
    assert_eq!(served.get("/docs/nothing.js").await.0, 404);
}

/// What schemathesis makes of the description, sent to the daemon. `POINTSMAN_SCHEMATHESIS` names the program.
#[tokio::test]
async fn generated_requests_find_no_breach_of_the_description() {
    let Some(program) = std::env::var_os("POINTSMAN_SCHEMATHESIS") else {
        println!("skipped: POINTSMAN_SCHEMATHESIS names no schemathesis");
        return;
    };
    let served = Served::with_env(CONFIG, &[("POINTSMAN_ADMIN_KEY", ADMIN)]);
    let admin = |path: &str, body: Value| {
        let request = reqwest::Client::new().post(format!("{}{path}", served.url)).bearer_auth(ADMIN).json(&body);
        async move { request.send().await.unwrap().json::<Value>().await.unwrap() }
    };
    let client_key = admin("/v1/keys", json!({"name": "client"})).await["key"].as_str().unwrap().to_owned();
    // The live events begin with it.
    assert_eq!(admin("/v1/tasks", sum(1, 2)).await["status"], "done");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/schemathesis.sh");
    let (url, folder) = (served.url.clone(), served.folder.clone());
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("bash");
        let command = command
            .arg(script)
            .arg(&url)
            .env("SCHEMATHESIS", &program)
            .env("ADMIN_KEY", ADMIN)
            .env("CLIENT_KEY", client_key);
        output(command.current_dir(&folder))
    });
    let (status, stdout, stderr) = ran.await.unwrap();
    assert!(status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.matches("no breach").count(), 3, "{stdout}");
    assert_eq!(served.get("/readyz").await, (200, json!("ready\n")), "the daemon still learns");
}
