//! Memory as operators see it: looked into, snapshot, moved, rebuilt, and still level after kill -9.

use std::{fs, path::Path, time::Duration};

use futures::StreamExt;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, output, pointsman, sum};

/// Runs a memory command on a data folder, or on the daemon that has it.
fn memory(folder: &Path, arguments: &[&str]) -> (bool, String, String) {
    let mut command = pointsman();
    command.arg("memory").args(arguments).arg("--data-dir").arg(folder.join("data"));
    let (status, stdout, stderr) = output(command.current_dir(folder));
    (status.success(), stdout, stderr)
}

fn memory_json(folder: &Path, arguments: &[&str]) -> Value {
    let (success, stdout, stderr) = memory(folder, &[arguments, &["--json"]].concat());
    assert!(success, "{arguments:?}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

async fn put(served: &Served, path: &str, body: Vec<u8>) -> (u16, Value) {
    let request = reqwest::Client::new().put(format!("{}{path}", served.url)).body(body);
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_snapshot_made_while_tasks_flow_starts_another_daemon_with_the_same_memory() {
    let here = Served::new(CONFIG);
    let url = format!("{}/v1/tasks/stream", here.url);
    let flowing = tokio::spawn(async move {
        let tasks = ndjson((0..300).map(|n| sum(n, 7)));
        reqwest::Client::new().post(url).body(tasks).send().await.unwrap().text().await.unwrap()
    });
    here.learnt(50).await;
    let (status, made) = here.post("/v1/memory/snapshots", &json!({"name": "moving"})).await;
    assert_eq!(status, 201, "{made}");
    flowing.await.unwrap();
    let next_seq = made["next_seq"].as_u64().unwrap();
    assert!((50..300).contains(&next_seq), "{made}");
    assert_eq!((&made["first_seq"], &made["count"]), (&json!(0), &json!(next_seq)));
    let (status, verified) = here.post("/v1/memory/snapshots/moving/verify", &json!({})).await;
    assert_eq!((status, &verified["digest"]), (200, &made["digest"]));
    let file = reqwest::get(format!("{}/v1/memory/snapshots/moving", here.url)).await.unwrap();
    let file = file.bytes().await.unwrap().to_vec();

    let folder = tempfile::tempdir().unwrap();
    let there = Served::in_folder(CONFIG, folder.path());
    there.stream("", ndjson((0..5).map(|n| sum(n, 900)))).await;
    there.learnt(5).await;
    let (status, uploaded) = put(&there, "/v1/memory/snapshots/moved", file.clone()).await;
    assert_eq!((status, &uploaded["digest"]), (201, &made["digest"]));
    let (status, problem) = put(&there, "/v1/memory/snapshots/broken", file[..file.len() / 2].to_vec()).await;
    assert_eq!((status, &problem["type"]), (422, &json!("urn:pointsman:problem:damaged-snapshot")));
    let (status, restored) = there.post("/v1/memory/snapshots/moved/restore", &json!({})).await;
    assert_eq!(status, 200, "{restored}");
    same_entries(&here, &there, next_seq).await;
    // What is learnt here follows, and the five rounds of before are gone from memory.
    there.stream("", ndjson((0..4).map(|n| sum(n, 901)))).await;
    there.learnt(9).await;
    let stats = there.get("/v1/memory").await.1;
    assert_eq!((&stats["count"], &stats["origin"]), (&json!(next_seq + 4), &made["digest"]));
    assert!(there.stop().success());

    // A lost memory folder is written again from the snapshot and the journal.
    fs::remove_dir_all(folder.path().join("data/memory")).unwrap();
    let there = Served::in_folder(CONFIG, folder.path());
    assert_eq!(there.get("/v1/memory").await.1, stats);
    same_entries(&here, &there, next_seq).await;
    let (status, problem) = delete(&there, "/v1/memory/snapshots/moved").await;
    assert_eq!((status, &problem["type"]), (409, &json!("urn:pointsman:problem:snapshot-in-use")));
    there.kill();

    // Without the snapshot the journal's own rounds are what is left, and nothing stops.
    fs::remove_dir_all(folder.path().join("data/memory")).unwrap();
    fs::remove_file(folder.path().join("data/memory_snapshots/moved.zip")).unwrap();
    let there = Served::in_folder(CONFIG, folder.path());
    let stats = there.get("/v1/memory").await.1;
    assert_eq!((&stats["count"], &stats["first_seq"]), (&json!(4), &json!(next_seq)));
}

async fn same_entries(here: &Served, there: &Served, next_seq: u64) {
    for seq in 0..next_seq {
        let path = format!("/v1/memory/entries/{seq}");
        assert_eq!(here.get(&path).await, there.get(&path).await, "entry {seq}");
    }
    let (_, found) = there.get("/v1/memory/search?text=What%20is%2012%20plus%207%3F&k=3&domain=math").await;
    assert_eq!(found[0]["task_id"], "sum-12-7", "{found}");
}

async fn delete(served: &Served, path: &str) -> (u16, Value) {
    let response = reqwest::Client::new().delete(format!("{}{path}", served.url)).send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or(Value::Null))
}

#[tokio::test]
async fn requests_about_memory_that_cannot_be_right_say_why() {
    let served = Served::new(CONFIG);
    for (path, status, kind) in [
        ("/v1/memory/search", 400, "invalid-query"),
        ("/v1/memory/search?text=x&typo=1", 400, "invalid-query"),
        ("/v1/memory/search?text=%20", 422, "invalid-request"),
        ("/v1/memory/search?text=x&k=0", 422, "invalid-request"),
        ("/v1/memory/search?text=x&min_similarity=2", 422, "invalid-request"),
        ("/v1/memory/entries/0", 404, "unknown-entry"),
        ("/v1/memory/entries/first", 422, "invalid-request"),
        ("/v1/memory/snapshots/none", 404, "unknown-snapshot"),
        ("/v1/memory/snapshots/..%2F..%2Fjournal", 422, "invalid-request"),
    ] {
        let (found, problem) = served.get(path).await;
        assert_eq!((found, &problem["type"]), (status, &json!(format!("urn:pointsman:problem:{kind}"))), "{path}");
    }
    for path in ["/v1/memory/snapshots/none/restore", "/v1/memory/snapshots/none/verify"] {
        let (status, problem) = served.post(path, &json!({})).await;
        assert_eq!((status, &problem["type"]), (404, &json!("urn:pointsman:problem:unknown-snapshot")));
    }
    assert_eq!(served.post("/v1/memory/snapshots", &json!({"name": "a/b"})).await.0, 422);
    assert_eq!(served.post("/v1/memory/snapshots", &json!({"name": "twice"})).await.0, 201);
    assert_eq!(served.post("/v1/memory/snapshots", &json!({"name": "twice"})).await.0, 409);
    let foreign = reqwest::Client::new()
        .post(format!("{}/v1/memory/snapshots/twice/restore", served.url))
        .header("origin", "https://example.org");
    assert_eq!(foreign.send().await.unwrap().status(), 403, "a page of another site may not restore");
}

#[tokio::test]
async fn the_commands_work_with_the_daemon_and_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..30).map(|n| sum(n, 2)))).await;
    served.learnt(30).await;
    let with_daemon = memory_json(folder.path(), &["stats"]);
    assert_eq!((&with_daemon["count"], &with_daemon["domains"]["math"]), (&json!(30), &json!(30)));
    let search = ["search", "What is 3 plus 2?", "-k", "4", "--domain", "math", "--min-similarity", "-1"];
    let found = memory_json(folder.path(), &search);
    assert_eq!((found.as_array().unwrap().len(), &found[0]["task_id"]), (4, &json!("sum-3-2")));
    let made = memory_json(folder.path(), &["snapshot", "create", "--name", "kept"]);
    assert!(served.stop().success());

    assert_eq!(memory_json(folder.path(), &["stats"]), with_daemon);
    assert_eq!(memory_json(folder.path(), &search), found);
    assert_eq!(memory_json(folder.path(), &["inspect", "3"])["seq"], 3);
    assert!(memory(folder.path(), &["inspect", "30"]).2.contains("no entry 30"));
    assert_eq!(memory_json(folder.path(), &["snapshot", "verify", "kept"]), made);
    let (success, listed, _) = memory(folder.path(), &["snapshot", "list"]);
    assert!(success && listed.contains("kept") && listed.contains("30"), "{listed}");
    assert!(memory(folder.path(), &["snapshot", "download", "kept", "--out", "out.zip"]).0);
    assert_eq!(memory_json(folder.path(), &["snapshot", "upload", "out.zip"])["digest"], made["digest"]);
    let (success, _, said) = memory(folder.path(), &["snapshot", "upload", "pointsman.toml"]);
    assert!(!success && said.contains("no snapshot"), "{said}");
    assert!(memory(folder.path(), &["snapshot", "delete", "kept"]).0);

    // Restored without the daemon, found by the daemon.
    assert_eq!(memory_json(folder.path(), &["snapshot", "restore", "out"])["count"], 30);
    assert!(memory(folder.path(), &["snapshot", "delete", "out"]).2.contains("rebuilt from it"));
    let served = Served::in_folder(CONFIG, folder.path());
    let stats = served.get("/v1/memory").await.1;
    assert_eq!((&stats["count"], &stats["origin"]), (&json!(30), &made["digest"]));
    let (success, _, said) = memory(folder.path(), &["rebuild", "--config", "pointsman.toml"]);
    assert!(!success && said.contains("stop it first"), "{said}");
    assert!(served.stop().success());
    let (success, said, stderr) = memory(folder.path(), &["rebuild", "--config", "pointsman.toml"]);
    assert!(success && said.contains("0 entries written"), "{said}{stderr}");
    assert_eq!(memory_json(folder.path(), &["stats"]), stats);
}

#[tokio::test]
async fn a_damaged_or_foreign_memory_is_put_aside_and_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..20).map(|n| sum(n, 4)))).await;
    served.learnt(20).await;
    let stats = served.get("/v1/memory").await.1;
    served.kill();
    let marker = data.join("memory/ring.json");
    fs::write(&marker, &fs::read(&marker).unwrap()[..20]).unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(served.get("/v1/memory").await.1, stats);
    assert!(served.stop().success());
    // A memory that knows of more than the journal is another journal's.
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("journal") {
            fs::remove_file(path).unwrap();
        }
    }
    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(served.get("/v1/memory").await.1["count"], 0);
    assert!(data.join("memory.aside/ring.json").exists(), "nothing is thrown away");
    served.stream("", ndjson([sum(1, 1)])).await;
    served.learnt(1).await;
}

#[tokio::test]
async fn thirty_kills_at_random_moments_lose_no_entry_and_never_exceed_the_cap() {
    const CAP: u64 = 40;
    let config = format!("{CONFIG}\n[memory]\ncap = {CAP}\n");
    let folder = tempfile::tempdir().unwrap();
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(30);
    let mut acknowledged = 0;
    for life in 0..30u64 {
        let served = Served::in_folder(&config, folder.path());
        let rounds = served.get("/v1/regret").await.1["rounds"].as_u64().unwrap();
        assert!(rounds >= acknowledged, "{acknowledged} rounds were acknowledged, {rounds} are left");
        let stats = served.get("/v1/memory").await.1;
        let held = rounds.min(CAP);
        assert_eq!((&stats["count"], &stats["next_seq"]), (&json!(held), &json!(rounds)), "life {life}");
        if held > 0 {
            assert_eq!(stats["first_seq"], rounds - held, "none in between is missing");
        }
        // Few texts, so that embedding does not slow the writes.
        let tasks = ndjson((0..2_000).map(|n| sum(life * 3 + n % 3, 5)));
        let request = reqwest::Client::new().post(format!("{}/v1/tasks/stream", served.url)).body(tasks);
        let mut body = request.send().await.unwrap().bytes_stream();
        let (mut lines, enough) = (0, random.random_range(1..60));
        while lines < enough {
            lines += body.next().await.unwrap().unwrap().iter().filter(|byte| **byte == b'\n').count();
        }
        tokio::time::sleep(Duration::from_micros(random.random_range(0..30_000))).await;
        served.kill();
        acknowledged = rounds + lines as u64;
    }
}

#[tokio::test]
async fn without_its_memory_server_the_loop_goes_on_and_says_so() {
    // Bound and dropped: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!("{CONFIG}\n[memory.server]\nurl = \"http://127.0.0.1:{port}\"\n");
    let folder = tempfile::tempdir().unwrap();
    for life in 1..3 {
        let served = Served::in_folder(&config, folder.path());
        let answers = served.stream("", ndjson((0..20).map(|n| sum(n, life)))).await;
        assert!(answers.iter().all(|answer| answer["status"] == "done"), "{answers:?}");
        let id = answers[0]["decision_id"].as_str().unwrap();
        let why = served.get(&format!("/v1/decisions/{id}")).await.1;
        assert_eq!(why["context"]["recall"], "unavailable");
        assert!(why["context"]["recall_error"].as_str().unwrap().contains("127.0.0.1"), "{}", why["context"]);
        let level = loop {
            let report = served.get("/v1/regret").await.1;
            if report["rounds"] == 20 * life {
                break report["memory"].clone();
            }
        };
        assert_eq!(level["behind"], 20 * life, "all of them wait, those of before the restart too");
        assert!(level["failing"].as_str().unwrap().contains("unavailable"), "{level}");
        let (status, problem) = served.get("/v1/memory").await;
        assert_eq!((status, &problem["type"]), (503, &json!("urn:pointsman:problem:memory-unavailable")));
        assert!(served.stop().success(), "a server that is away does not keep the daemon from stopping");
    }
}

/// The address of a real server, for the tests that need one.
fn qdrant() -> Option<String> {
    let url = std::env::var("POINTSMAN_QDRANT_URL").ok();
    if url.is_none() {
        println!("skipped: POINTSMAN_QDRANT_URL is not set");
    }
    url
}

#[tokio::test]
async fn memory_moves_to_a_server_and_back() {
    let Some(url) = qdrant() else { return };
    let collection = format!("pointsman_test_{}", std::process::id());
    let server = format!(
        "{CONFIG}\n[memory.server]\nurl = \"{url}\"\ncollection = \"{collection}\"\napi_key_env = \"POINTSMAN_QDRANT_API_KEY\"\n"
    );
    let server = if std::env::var("POINTSMAN_QDRANT_API_KEY").is_ok() {
        server
    } else {
        server.replace("api_key_env = \"POINTSMAN_QDRANT_API_KEY\"\n", "")
    };
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..30).map(|n| sum(n, 6)))).await;
    served.learnt(30).await;
    let stats = served.get("/v1/memory").await.1;
    assert!(served.stop().success());
    let there = ["copy", "--from", "edge", "--to", &url, "--collection", &collection];
    let key = ["--api-key-env", "POINTSMAN_QDRANT_API_KEY"];
    let (success, said, stderr) = memory(folder.path(), &[&there[..], &key].concat());
    assert!(success && said.contains("30 entries copied"), "{said}{stderr}");

    // The same journal goes on with the server's memory; what is learnt there is there.
    let served = Served::in_folder(&server, folder.path());
    assert_eq!(served.get("/v1/memory").await.1, stats);
    served.stream("", ndjson((30..50).map(|n| sum(n, 6)))).await;
    served.learnt(50).await;
    let stats = served.get("/v1/memory").await.1;
    assert_eq!(stats["count"], 50);
    let (status, made) = served.post("/v1/memory/snapshots", &json!({"name": "kept"})).await;
    assert_eq!((status, &made["count"]), (201, &json!(50)));
    let (status, restored) = served.post("/v1/memory/snapshots/kept/restore", &json!({})).await;
    assert_eq!((status, &restored["digest"]), (200, &made["digest"]));
    served.kill();
    let served = Served::in_folder(&server, folder.path());
    let stats = served.get("/v1/memory").await.1;
    assert_eq!((&stats["count"], &stats["origin"]), (&json!(50), &made["digest"]));
    assert!(served.stop().success());
    assert_eq!(memory_json(folder.path(), &["stats", "--config", "pointsman.toml"]), stats);

    let back = ["copy", "--from", &url, "--to", "edge", "--collection", &collection];
    let (success, said, stderr) = memory(folder.path(), &[&back[..], &key].concat());
    assert!(success && said.contains("50 entries copied"), "{said}{stderr}");
    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(served.get("/v1/memory").await.1, stats);
    let (success, _, said) = memory(folder.path(), &back);
    assert!(!success && said.contains("stop it first"), "{said}");
    let key = std::env::var("POINTSMAN_QDRANT_API_KEY").ok();
    let client = qdrant_client::Qdrant::from_url(&url).skip_compatibility_check().api_key(key).build().unwrap();
    for n in 0..2 {
        let _ = client.delete_collection(format!("{collection}-{n}")).await;
    }
}

/// The installed model's files without their manifest: a model of one's own.
fn own_model(folder: &Path) {
    let (status, said, _) = output(pointsman().args(["models", "verify"]));
    assert!(status.success(), "{said}");
    let installed = said.split(" in ").nth(1).unwrap().split(" is whole").next().unwrap().to_owned();
    fs::create_dir(folder).unwrap();
    for name in ["model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"] {
        fs::copy(Path::new(&installed).join(name), folder.join(name)).unwrap();
    }
}

#[tokio::test]
async fn another_embedding_model_is_refused_until_memory_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    own_model(&folder.path().join("own-model"));
    let other = format!("{CONFIG}\n[embedding]\nmodel_dir = \"own-model\"\npooling = \"mean\"\n");
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..12).map(|n| sum(n, 8)))).await;
    served.learnt(12).await;
    let before = served.get("/v1/memory").await.1;
    assert_eq!(served.post("/v1/memory/snapshots", &json!({"name": "old"})).await.0, 201);
    assert!(served.stop().success());
    for (config, given) in [(&other, 12), (&CONFIG.to_owned(), 12)] {
        fs::write(folder.path().join("pointsman.toml"), config).unwrap();
        let mut serve = pointsman();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--config", "pointsman.toml", "--data-dir", "data"]);
        let (status, _, said) = output(serve.current_dir(folder.path()));
        assert!(!status.success() && said.contains("pointsman memory rebuild"), "{said}");
        let (success, said, stderr) = memory(folder.path(), &["rebuild", "--config", "pointsman.toml"]);
        assert!(success && said.contains(&format!("{given} entries written")), "{said}{stderr}");
        let served = Served::in_folder(config, folder.path());
        let stats = served.get("/v1/memory").await.1;
        assert_eq!((&stats["count"], stats["model"] == before["model"]), (&json!(12), config == CONFIG));
        let found = served.get("/v1/memory/search?text=What%20is%2011%20plus%208%3F&k=1").await.1;
        assert_eq!(found[0]["task_id"], "sum-11-8");
        let (status, _) = served.post("/v1/memory/snapshots/old/restore", &json!({})).await;
        assert_eq!(status, if config == CONFIG { 200 } else { 422 }, "a snapshot is of one model");
        assert!(served.stop().success());
    }
}
