//! Keys, tenants' limits and budgets, as clients and operators meet them.

use std::{path::Path, process::Command};

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, output, pointsman, sum};

const ADMIN: &str = "an-admin-key-of-some-length";

fn kind(problem: &Value) -> &str {
    problem["type"].as_str().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default()
}

/// Sends a request with a key.
async fn ask(served: &Served, method: Method, path: &str, key: &str, body: Option<&Value>) -> Response {
    let request = reqwest::Client::new().request(method, format!("{}{path}", served.url)).bearer_auth(key);
    match body {
        Some(body) => request.json(body),
        None => request,
    }
    .send()
    .await
    .unwrap()
}

async fn get(served: &Served, path: &str, key: &str) -> (u16, Value) {
    read(ask(served, Method::GET, path, key, None).await).await
}

async fn post(served: &Served, path: &str, key: &str, body: &Value) -> (u16, Value) {
    read(ask(served, Method::POST, path, key, Some(body)).await).await
}

async fn read(response: Response) -> (u16, Value) {
    (response.status().as_u16(), serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
}

/// Makes a key and returns it with its id.
async fn make(served: &Served, body: Value) -> (String, String) {
    let (status, made) = post(served, "/v1/keys", ADMIN, &body).await;
    assert_eq!(status, 201, "{made}");
    (made["key"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
}

fn served(config: &str) -> Served {
    Served::with_env(config, &[("POINTSMAN_ADMIN_KEY", ADMIN)])
}

fn tenants(of_acme: &str) -> String {
    format!("[tenants.acme]\n{of_acme}\n[tenants.other]\n{CONFIG}")
}

#[tokio::test]
async fn once_a_key_is_made_every_request_needs_one() {
    let served = served(CONFIG);
    assert_eq!(served.post("/v1/tasks", &sum(1, 2)).await.0, 200, "nobody needs a key yet");
    assert_eq!(post(&served, "/v1/tasks", "sk-of-some-sdk", &sum(1, 2)).await.0, 200);
    let (status, problem) = served.post("/v1/keys", &json!({"name": "ci"})).await;
    assert_eq!((status, kind(&problem)), (401, "admin-key-needed"), "{problem}");
    let (key, id) = make(&served, json!({"name": "ci"})).await;

    for path in ["/v1/regret", "/v1/events", "/v1/arms", "/metrics", "/v1/memory", "/no/such/route"] {
        let (status, problem) = served.get(path).await;
        assert_eq!((status, kind(&problem)), (401, "key-needed"), "{path}: {problem}");
    }
    let (status, problem) = served.post("/v1/tasks", &sum(1, 2)).await;
    assert_eq!((status, kind(&problem)), (401, "key-needed"));
    let (status, problem) = post(&served, "/v1/tasks", "sk-of-some-sdk", &sum(1, 2)).await;
    assert_eq!((status, kind(&problem)), (401, "invalid-key"));
    assert_eq!(served.get("/healthz").await.0, 200);
    assert_eq!(served.get("/readyz").await.0, 200);

    assert_eq!(post(&served, "/v1/tasks", &key, &sum(1, 2)).await.0, 200);
    let by_header = reqwest::Client::new().post(format!("{}/v1/tasks", served.url)).header("x-api-key", &key);
    assert_eq!(by_header.json(&sum(1, 2)).send().await.unwrap().status(), 200, "as Anthropic's clients send it");
    let (status, problem) = get(&served, "/v1/arms", &key).await;
    assert_eq!((status, kind(&problem)), (403, "admin-only"), "{problem}");
    assert_eq!(get(&served, "/v1/arms", ADMIN).await.0, 200);

    let page = reqwest::Client::new().get(format!("{}/dashboard", served.url));
    let response = page.try_clone().unwrap().send().await.unwrap();
    assert!(
        response.headers()["www-authenticate"].to_str().unwrap().starts_with("Basic "),
        "a browser asks for the key"
    );
    assert_eq!(page.basic_auth("me", Some(ADMIN)).send().await.unwrap().status(), 200);

    let (status, listed) = get(&served, "/v1/keys", ADMIN).await;
    assert_eq!((status, &listed["keys"][0]["status"]), (200, &json!("usable")));
    assert!(!listed.to_string().contains(key.rsplit('_').next().unwrap()) && listed["keys"][0]["hash"].is_null());
    let path = format!("/v1/keys/{id}");
    for _ in 0..2 {
        let (status, revoked) = read(ask(&served, Method::DELETE, &path, ADMIN, None).await).await;
        assert_eq!((status, &revoked["status"]), (200, &json!("revoked")));
    }
    let (status, problem) = post(&served, "/v1/tasks", &key, &sum(1, 2)).await;
    assert_eq!((status, kind(&problem)), (401, "key-revoked"));
    assert_eq!(served.post("/v1/tasks", &sum(1, 2)).await.0, 401, "revoking the last key opens nothing");
    let (status, problem) = read(ask(&served, Method::DELETE, "/v1/keys/abcdefghij23", ADMIN, None).await).await;
    assert_eq!((status, kind(&problem)), (404, "unknown-key"));
}

#[tokio::test]
async fn a_client_sees_only_its_tenants_tasks() {
    let served = served(&tenants(""));
    let (acme, _) = make(&served, json!({"name": "a", "tenant": "acme"})).await;
    let (other, _) = make(&served, json!({"name": "b", "tenant": "other"})).await;
    let mut task = sum(3, 4);
    task["idempotency_key"] = json!("order-1");
    let (status, answer) = post(&served, "/v1/tasks", &acme, &task).await;
    assert_eq!(status, 200, "{answer}");
    let id = answer["decision_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/decisions/{id}");
    assert_eq!(get(&served, &path, &acme).await.1["task"]["tenant"], "acme", "the tenant is the key's");
    let (status, problem) = get(&served, &path, &other).await;
    assert_eq!((status, kind(&problem)), (404, "unknown-decision"));
    assert_eq!(get(&served, &path, ADMIN).await.0, 200);
    let feedback = json!({"decision_id": id, "score": 0.0, "idempotency_key": "f-1"});
    let (status, problem) = post(&served, "/v1/feedback", &other, &feedback).await;
    assert_eq!((status, kind(&problem)), (404, "unknown-decision"));
    assert_eq!(post(&served, "/v1/feedback", &acme, &feedback).await.0, 200);
    let (status, problem) = post(&served, "/v1/feedback", &other, &feedback).await;
    assert_eq!((status, kind(&problem)), (404, "unknown-decision"), "also with a key that is known");

    let (_, again) = post(&served, "/v1/tasks", &acme, &task).await;
    assert_eq!((&again["repeated"], &again["decision_id"]), (&json!(true), &json!(id)));
    let (status, fresh) = post(&served, "/v1/tasks", &other, &task).await;
    assert_eq!((status, &fresh["repeated"]), (200, &json!(false)), "an idempotency key is the tenant's own: {fresh}");
    let feedback = json!({"decision_id": fresh["decision_id"], "score": 1.0, "idempotency_key": "f-1"});
    let (status, given) = post(&served, "/v1/feedback", &other, &feedback).await;
    assert_eq!((status, &given["status"]), (200, &json!("stored")), "that of feedback too: {given}");

    task["tenant"] = json!("other");
    let (status, problem) = post(&served, "/v1/tasks", &acme, &task).await;
    assert_eq!((status, kind(&problem)), (403, "other-tenant"), "{problem}");
    let lines = reqwest::Client::new().post(format!("{}/v1/tasks/stream", served.url)).bearer_auth(&acme);
    let lines = lines.body(ndjson([task])).send().await.unwrap().text().await.unwrap();
    assert!(lines.contains("other-tenant"), "{lines}");
    let (status, problem) = post(&served, "/v1/keys", ADMIN, &json!({"name": "c", "tenant": "nobody"})).await;
    assert_eq!((status, kind(&problem)), (422, "unknown-tenant"));
}

#[tokio::test]
async fn a_tenant_keeps_to_its_domains_arms_and_rate() {
    let served = served(&tenants("domains = [\"math\"]\narms = [\"good\"]\nrequests_per_minute = 4"));
    let (key, _) = make(&served, json!({"name": "a", "tenant": "acme"})).await;
    let response = ask(&served, Method::POST, "/v1/tasks", &key, Some(&sum(1, 1))).await;
    assert_eq!(response.headers()["x-ratelimit-limit-requests"], "4");
    assert_eq!(response.headers()["x-ratelimit-remaining-requests"], "3");
    assert_eq!(read(response).await.1["arm"], "good");
    let mut task = sum(1, 1);
    task["constraints"] = json!({"arms": ["bad"]});
    let (status, problem) = post(&served, "/v1/tasks", &key, &task).await;
    assert_eq!((status, kind(&problem)), (403, "arm-not-allowed"), "{problem}");
    for task in [json!({"domain": "text", "prompt": "Tell a story."}), json!({"prompt": "colourless green ideas"})] {
        let (status, problem) = post(&served, "/v1/route", &key, &task).await;
        assert_eq!((status, kind(&problem)), (403, "domain-not-allowed"), "{problem}");
    }
    let response = ask(&served, Method::POST, "/v1/tasks", &key, Some(&sum(1, 1))).await;
    let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=15).contains(&wait), "a task may come every 15 seconds: {wait}");
    let (status, problem) = read(response).await;
    assert_eq!((status, kind(&problem)), (429, "rate-limited"), "{problem}");
    assert_eq!(post(&served, "/v1/tasks", ADMIN, &sum(1, 1)).await.0, 200, "others are not slowed down");
}

/// An arm of a round price: the 200 tokens that an answer is expected to have cost 0.1 dollars.
fn dear(of_acme: &str) -> String {
    format!(
        "[tenants.acme]\n{of_acme}\n[domains.math]\n[[arms]]\nid = \"dear\"\nkind = \"scripted\"\ndefault_skill = 1.0\n\
         latency_ms = 50\noutput_usd_per_1m = 500.0\n"
    )
}

async fn spent(served: &Served) -> (f64, f64) {
    let (_, report) = get(served, "/v1/tenants", ADMIN).await;
    let acme = &report["tenants"][0];
    (acme["spent_today_usd"].as_f64().unwrap(), acme["held_usd"].as_f64().unwrap())
}

#[tokio::test]
async fn two_hundred_tasks_at_once_do_not_pass_a_budget_of_ten_nor_does_a_restart_forget_it() {
    let folder = tempfile::tempdir().unwrap();
    let start =
        || Served::in_folder_with_env(&dear("usd_per_day = 1.0"), folder.path(), &[("POINTSMAN_ADMIN_KEY", ADMIN)]);
    let served = start();
    let (key, _) = make(&served, json!({"name": "a", "tenant": "acme"})).await;
    let tasks = (0..200).map(|n| {
        let (served, key) = (&served, &key);
        async move { post(served, "/v1/tasks", key, &sum(n, 1)).await }
    });
    let answers = futures::future::join_all(tasks).await;
    let done = answers.iter().filter(|(status, _)| *status == 200).count();
    let cost: f64 = answers.iter().filter_map(|(_, answer)| answer["cost_usd"].as_f64()).sum();
    // A short answer costs less than was put aside, so that more than ten may have had their turn; never more at once.
    assert!(done >= 10, "{done}");
    for (_, problem) in answers.iter().filter(|(status, _)| *status != 200) {
        assert!(["budget-spent", "budget-reserved"].contains(&kind(problem)), "{problem}");
    }
    let (used, held) = spent(&served).await;
    assert!(used <= 1.0 && held == 0.0 && (used - cost).abs() < 1e-6, "{used} of which {cost}, {held} held");

    // A decision that its caller runs holds its dollars, through a crash, until the caller tells what it cost.
    let (status, routed) = post(&served, "/v1/route", &key, &sum(7, 7)).await;
    assert_eq!(status, 200, "{routed}");
    assert!(spent(&served).await.1 > 0.09);
    served.kill();
    let served = start();
    let (again, held) = spent(&served).await;
    assert!(again == used && held > 0.09, "{again} instead of {used}, {held} held");
    let rest = 1.0 - used;
    let told = json!({"decision_id": routed["decision_id"], "score": 1.0, "cost_usd": rest});
    assert_eq!(post(&served, "/v1/feedback", &key, &told).await.0, 200);
    assert_eq!(post(&served, "/v1/feedback", &key, &told).await.0, 200, "told twice, counted once");
    assert!((spent(&served).await.0 - 1.0).abs() < 1e-6);
    let response = ask(&served, Method::POST, "/v1/tasks", &key, Some(&sum(9, 9))).await;
    let resets: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&resets), "tomorrow: {resets}");
    let (status, problem) = read(response).await;
    assert_eq!((status, kind(&problem)), (402, "budget-spent"), "{problem}");
    assert!(served.stop().success());

    // What was learnt and spent is the same when the journal is folded from zero.
    let served = start();
    let hash = get(&served, "/v1/policies", ADMIN).await.1["state_hash"].clone();
    assert!((spent(&served).await.0 - 1.0).abs() < 1e-6);
    served.kill();
    std::fs::remove_file(folder.path().join("data/checkpoint.json")).unwrap();
    let served = start();
    assert!(hash.is_string() && get(&served, "/v1/policies", ADMIN).await.1["state_hash"] == hash);
    assert!((spent(&served).await.0 - 1.0).abs() < 1e-6);
}

#[tokio::test]
async fn a_tenant_runs_no_more_tasks_at_once_than_it_may_and_its_streams_wait() {
    let served = served(&dear("concurrency = 1"));
    let (key, _) = make(&served, json!({"name": "a", "tenant": "acme"})).await;
    let tasks = (0..5).map(|n| {
        let (served, key) = (&served, &key);
        async move { post(served, "/v1/tasks", key, &sum(n, 1)).await }
    });
    let answers = futures::future::join_all(tasks).await;
    assert!(answers.iter().any(|(status, _)| *status == 200));
    for (status, problem) in answers.iter().filter(|(status, _)| *status != 200) {
        assert_eq!((*status, kind(problem)), (429, "too-many-at-once"), "{problem}");
    }
    let lines = reqwest::Client::new().post(format!("{}/v1/tasks/stream", served.url)).bearer_auth(&key);
    let lines = lines.body(ndjson((0..5).map(|n| sum(n, 1)))).send().await.unwrap().text().await.unwrap();
    assert_eq!(lines.matches("\"status\":\"done\"").count(), 5, "{lines}");
}

fn keys(data: &Path) -> Command {
    let mut command = pointsman();
    command.args(["keys", "--data-dir"]).arg(data).env("POINTSMAN_ADMIN_KEY", "");
    command
}

#[tokio::test]
async fn keys_are_made_in_the_data_folder_and_through_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = folder.path().join("open.toml");
    std::fs::write(&config, format!("[server]\nlisten = \"0.0.0.0:0\"\n{CONFIG}")).unwrap();
    let mut serve = pointsman();
    serve.arg("serve").arg("--config").arg(&config).arg("--data-dir").arg(&data).env("POINTSMAN_ADMIN_KEY", "");
    let (status, _, said) = output(&mut serve);
    assert!(!status.success() && said.contains("pointsman keys create"), "{said}");

    let (status, key, said) = output(keys(&data).args(["create", "--name", "me", "--role", "admin"]));
    assert!(status.success() && key.starts_with("pm_"), "{said}");
    let key = key.trim();
    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(served.get("/v1/regret").await.0, 401);
    assert_eq!(get(&served, "/v1/regret", key).await.0, 200);

    let (status, _, said) = output(keys(&data).args(["create", "--name", "ci"]));
    assert!(!status.success() && said.contains("POINTSMAN_ADMIN_KEY"), "{said}");
    let (status, made, said) =
        output(keys(&data).args(["create", "--name", "ci", "--days", "30", "--json"]).env("POINTSMAN_ADMIN_KEY", key));
    assert!(status.success(), "{said}");
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(post(&served, "/v1/tasks", made["key"].as_str().unwrap(), &sum(1, 2)).await.0, 200);
    let (status, listed, _) = output(keys(&data).arg("list").env("POINTSMAN_ADMIN_KEY", key));
    assert!(status.success() && listed.contains("ci") && listed.contains("30.0"), "{listed}");
    let (status, ..) =
        output(keys(&data).args(["revoke", made["id"].as_str().unwrap()]).env("POINTSMAN_ADMIN_KEY", key));
    assert!(status.success());
    assert_eq!(post(&served, "/v1/tasks", made["key"].as_str().unwrap(), &sum(1, 2)).await.0, 401);
    served.kill();
    let (_, listed, _) = output(keys(&data).arg("list"));
    assert!(listed.contains("usable") && listed.contains("revoked"), "a restart knows them: {listed}");
    let (status, verified, said) = output(pointsman().args(["journal", "--data-dir"]).arg(&data).arg("verify"));
    assert!(status.success(), "{verified}{said}");
}

#[tokio::test]
async fn the_first_key_is_one_that_can_make_others() {
    let served = Served::new(CONFIG);
    let (status, problem) = served.post("/v1/keys", &json!({"name": "ci"})).await;
    assert_eq!((status, kind(&problem)), (409, "admin-key-first"), "{problem}");
    let (status, made) = served.post("/v1/keys", &json!({"name": "me", "role": "admin"})).await;
    assert_eq!(status, 201, "{made}");
    let (status, problem) =
        post(&served, "/v1/keys", made["key"].as_str().unwrap(), &json!({"name": "x", "role": "admin", "tenant": "t"}))
            .await;
    assert_eq!((status, &problem["field"]), (422, &json!("tenant")));
}
