//! Verifiers: installed, swapped, weighed and rolled back while tasks flow, by HTTP and by the command line.

use std::path::Path;

use axum::{Json, Router, routing::post};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    liar::Liar,
    served::{CONFIG, Served, ndjson, output, pointsman, sum},
};

const KEY: &str = "correct-horse-battery-staple";

async fn send(served: &Served, method: Method, path: &str, key: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let json = matches!(method, Method::PATCH | Method::POST);
    let request = Client::new().request(method, format!("{}{path}", served.url)).bearer_auth(key).body(body);
    let kind = if json { "application/json" } else { "application/wasm" };
    let response = request.header("content-type", kind).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn put(served: &Served, path: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
    send(served, Method::PUT, path, KEY, body).await
}

fn liar(score: f64) -> Vec<u8> {
    Liar { score, ..Liar::default() }.module()
}

fn names(set: &Value) -> Vec<&str> {
    set["verifiers"].as_array().unwrap().iter().map(|verifier| verifier["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domains_verifiers_are_swapped_while_tasks_flow() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    let (_, before) = served.get("/v1/domains/math/verifiers").await;
    assert_eq!((names(&before), &before["inherited"]), (vec!["answer", "json", "rules"], &json!(true)), "{before}");

    let url = served.url.clone();
    let flowing = tokio::spawn(async move {
        let body = ndjson((0..1_500).map(|n| sum(n, 7)));
        let response = Client::new().post(format!("{url}/v1/tasks/stream")).body(body).send().await.unwrap();
        response.text().await.unwrap()
    });
    let gate = "/v1/domains/math/verifiers/liar";
    for round in 0..20 {
        let component = liar(f64::from(round % 2));
        let (status, report) = put(&served, &format!("{gate}?weight=2&gate=true"), component).await;
        assert_eq!((status, &report["version"], &report["gate"]), (200, &json!(round + 1), &json!(true)), "{report}");
    }
    let (status, report) = put(&served, gate, liar(0.0)).await;
    assert_eq!((status, &report["version"], &report["weight"]), (200, &json!(21), &json!(2.0)), "settings stay");
    let text = flowing.await.unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 1_500);
    assert!(answers.iter().all(|answer| answer.get("error").is_none() && answer["score"].is_number()), "no error");

    // From now on everything is closed by the gate, and the verdict says by which component.
    let on_good = |n: u64| {
        let mut task = sum(n, 1);
        task["constraints"] = json!({"arms": ["good"]});
        task
    };
    let (_, answer) = served.post("/v1/tasks", &on_good(9_000)).await;
    assert_eq!(answer["score"], 0.0, "{answer}");
    let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    let verdicts = why["feedback"][0]["verdicts"].as_array().unwrap();
    let verdict = verdicts.iter().find(|verdict| verdict["verifier"] == "liar").unwrap();
    assert_eq!(
        (&verdict["sha256"], &verdict["gate"], &verdict["weight"]),
        (&report["sha256"], &json!(true), &json!(2.0))
    );
    assert!(verdict["fuel"].as_u64() > Some(0) && verdict["signals"][0]["name"] == "truth", "{verdict}");

    // The version before is the same component with the other answer; another domain never saw any of it.
    let (status, back) = send(&served, Method::POST, &format!("{gate}/rollback"), KEY, "").await;
    assert_eq!((status, &back["version"], &back["origin"]), (200, &json!(22), &json!({"rolled_back": {"to": 20}})));
    let (_, answer) = served.post("/v1/tasks", &on_good(9_001)).await;
    assert!(answer["score"].as_f64() > Some(0.9), "{answer}");
    let (_, other) = served.get("/v1/domains/text/verifiers").await;
    assert_eq!((names(&other), &other["inherited"]), (vec!["answer", "json", "rules"], &json!(true)));
    let (status, patched) =
        send(&served, Method::PATCH, gate, KEY, json!({"gate": false, "weight": 0.5}).to_string()).await;
    assert_eq!((status, &patched["gate"], &patched["weight"]), (200, &json!(false), &json!(0.5)), "{patched}");
    assert_eq!(send(&served, Method::DELETE, "/v1/domains/math/verifiers/json", KEY, "").await.0, 204);
    let (status, added) = send(
        &served,
        Method::PUT,
        "/v1/domains/*/verifiers/shape",
        KEY,
        // Named by its content type.
        "",
    )
    .await;
    assert_eq!((status, &added["reason"]), (422, &json!("not-wasm")), "{added}");
    let request = Client::new().put(format!("{}/v1/domains/*/verifiers/shape", served.url));
    let response = request.json(&json!({"first_party": "json", "weight": 0.1})).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let sets = served.get("/v1/domains").await.1;
    served.kill();

    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(served.get("/v1/domains").await.1, sets, "a restart finds the sets as they were");
    assert_eq!(names(&served.get("/v1/domains/math/verifiers").await.1), ["answer", "rules", "liar"]);
    assert_eq!(names(&served.get("/v1/domains/text/verifiers").await.1), ["answer", "json", "rules", "shape"]);
    let metrics = served.get("/metrics").await.1.as_str().unwrap().to_owned();
    assert!(metrics.contains("pointsman_verifier_compile_seconds"), "{metrics}");
}

#[tokio::test]
async fn an_upload_that_is_wrong_changes_nothing_and_is_told_why() {
    let served = Served::new(CONFIG);
    let before = served.get("/v1/domains").await.1;
    let place = "/v1/domains/math/verifiers/new";
    let traps = Liar { verify: "unreachable", ..Liar::default() }.module();
    for (path, body, status, kind, word) in [
        (place, b"hello".to_vec(), 422, "invalid-verifier", "not WebAssembly"),
        (place, liar(0.5)[..200].to_vec(), 422, "invalid-verifier", "truncated"),
        (place, traps, 422, "invalid-verifier", "plain task"),
        ("/v1/domains/nowhere/verifiers/new", liar(0.5), 422, "unknown-domain", "nowhere"),
        ("/v1/domains/math/verifiers/New", liar(0.5), 422, "invalid-request", "lower-case"),
        ("/v1/domains/math/verifiers/new?weight=-1", liar(0.5), 422, "invalid-request", "weight"),
        ("/v1/domains/math/verifiers/new?weight=NaN", liar(0.5), 422, "invalid-request", "weight"),
        ("/v1/domains/math/verifiers/new?config=[1]", liar(0.5), 400, "invalid-query", "JSON object"),
        (place, vec![0; (64 << 20) + 1], 413, "too-large", "67108864"),
    ] {
        let (got, problem) = put(&served, path, body).await;
        assert_eq!(
            (got, &problem["type"]),
            (status, &json!(format!("urn:pointsman:problem:{kind}"))),
            "{path}: {problem}"
        );
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    for (method, path, body, status, kind) in [
        (Method::PATCH, "/v1/domains/math/verifiers/magic", "{}", 404, "unknown-verifier"),
        (Method::PATCH, "/v1/domains/math/verifiers/rules", r#"{"weight": 0}"#, 422, "invalid-request"),
        (Method::PATCH, "/v1/domains/math/verifiers/rules", r#"{"colour": 1}"#, 400, "invalid-json"),
        (Method::POST, "/v1/domains/math/verifiers/rules/rollback", "", 409, "no-such-version"),
        (Method::POST, "/v1/domains/math/verifiers/rules/rollback?version=7", "", 409, "no-such-version"),
        (Method::DELETE, "/v1/domains/math/verifiers/magic", "", 404, "unknown-verifier"),
    ] {
        let (got, problem) = send(&served, method, path, KEY, body).await;
        assert_eq!(
            (got, &problem["type"]),
            (status, &json!(format!("urn:pointsman:problem:{kind}"))),
            "{path}: {problem}"
        );
    }
    assert_eq!(served.get("/v1/domains").await.1, before);
    for name in ["answer", "json"] {
        let path = format!("/v1/domains/math/verifiers/{name}");
        assert_eq!(send(&served, Method::DELETE, &path, KEY, "").await.0, 204);
    }
    let (status, problem) = send(&served, Method::DELETE, "/v1/domains/math/verifiers/rules", KEY, "").await;
    assert_eq!((status, &problem["type"]), (409, &json!("urn:pointsman:problem:last-verifier")));
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_said_and_learns_nothing() {
    let served = Served::new(CONFIG);
    let trial = json!({"prompt": "6 * 7?", "metadata": {"reference": 42}, "response": "It is 42."});
    let (status, judgement) = served.post("/v1/domains/math/dry-run", &trial).await;
    assert_eq!(status, 200, "{judgement}");
    assert!(judgement["score"].as_f64() > Some(0.9), "{judgement}");
    assert_eq!(judgement["verdicts"].as_array().unwrap().len(), 3);
    let wrong = json!({"prompt": "6 * 7?", "metadata": {"reference": 42}, "response": "It is 41."});
    assert_eq!(served.post("/v1/domains/*/dry-run", &wrong).await.1["score"], 0.0);
    assert_eq!(served.get("/v1/regret").await.1["rounds"], 0);
    assert_eq!(served.post("/v1/domains/math/dry-run", &json!({"prompt": "?"})).await.0, 400);
}

#[tokio::test]
async fn what_changes_the_router_needs_the_admin_key_and_reading_does_not() {
    let served = Served::with_env(CONFIG, &[("POINTSMAN_ADMIN_KEY", KEY)]);
    let place = "/v1/domains/math/verifiers/liar";
    for key in ["", "wrong", "correct-horse-battery-stapl"] {
        let (status, problem) = send(&served, Method::PUT, place, key, liar(0.5)).await;
        assert_eq!((status, &problem["type"]), (401, &json!("urn:pointsman:problem:admin-key-needed")), "{problem}");
        assert!(!problem.to_string().contains(KEY));
    }
    for (path, body) in [
        ("/v1/arms", json!({"id": "x", "kind": "scripted", "default_skill": 0.5})),
        ("/v1/policies/promote", json!({"card": "default"})),
        ("/v1/memory/snapshots", json!({})),
        ("/v1/domains/math/dry-run", json!({"prompt": "?", "response": "!"})),
    ] {
        assert_eq!(served.post(path, &body).await.0, 401, "{path}");
    }
    for path in ["/v1/arms", "/v1/policies", "/v1/domains", "/v1/domains/math/verifiers/rules", "/v1/regret"] {
        assert_eq!(served.get(path).await.0, 200, "{path}");
    }
    assert_eq!(served.post("/v1/tasks", &sum(1, 2)).await.0, 200);
    assert_eq!(put(&served, place, liar(0.5)).await.0, 200);
    // The commands take the key from the same variable.
    let mut weigh = pointsman();
    weigh.args(["verify", "weigh", "math", "liar", "--weight", "3", "--url", &served.url]);
    let (status, _, stderr) = output(&mut weigh);
    assert!(!status.success() && stderr.contains("POINTSMAN_ADMIN_KEY"), "{stderr}");
    let (status, stdout, stderr) = output(weigh.env("POINTSMAN_ADMIN_KEY", KEY));
    assert!(status.success() && stdout.contains("weight 3"), "{stdout}{stderr}");
}

#[tokio::test]
async fn the_commands_check_run_install_and_roll_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("liar.wasm"), liar(0.25)).unwrap();
    let golden = |score: f64| {
        let task = json!({"id": "one", "domain": "math", "prompt": "?", "metadata": {}});
        json!({"task": task, "response": "!", "config": "", "expect": {"score": score, "tolerance": 0.01}}).to_string()
    };
    std::fs::write(file("right.jsonl"), golden(0.25)).unwrap();
    std::fs::write(file("wrong.jsonl"), golden(0.75)).unwrap();
    let verify = |arguments: &[&str]| {
        let mut command = pointsman();
        command.arg("verify").args(arguments).current_dir(folder.path());
        output(&mut command)
    };
    let (status, stdout, stderr) = verify(&["check", "liar.wasm", "--golden", "right.jsonl"]);
    assert!(status.success() && stdout.contains("1 golden tasks hold") && stdout.contains("truth"), "{stdout}{stderr}");
    let (status, stdout, stderr) = verify(&["check", "liar.wasm", "--golden", "wrong.jsonl"]);
    assert!(!status.success() && stdout.contains("FAILED: expected a score of 0.75"), "{stdout}{stderr}");
    let (status, _, stderr) = verify(&["check", "right.jsonl"]);
    assert!(!status.success() && stderr.contains("not WebAssembly"), "{stderr}");

    let lines = [
        json!({"id": "a", "domain": "math", "prompt": "1 + 1?", "metadata": {"reference": 2}, "response": "2"})
            .to_string(),
        json!({"id": "b", "metadata": {"reference": 2}, "response": "The answer is 3."}).to_string(),
        r#"{"id": "c"}"#.into(),
        json!({"id": "d", "metadata": {}, "response": "4"}).to_string(),
    ];
    std::fs::write(file("in.jsonl"), lines.join("\n")).unwrap();
    let (status, _, stderr) = verify(&["run", "answer", "--in", "in.jsonl", "--out", "out.jsonl"]);
    assert!(!status.success() && stderr.contains("1 lines could not be read"), "{stderr}");
    let scored = std::fs::read_to_string(file("out.jsonl")).unwrap();
    let scored: Vec<Value> = scored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&scored[0]["id"], &scored[0]["score"]), (&json!("a"), &json!(1.0)));
    assert_eq!((&scored[1]["id"], &scored[1]["score"]), (&json!("b"), &json!(0.0)));
    assert!(scored[0]["fuel"].as_u64() > Some(0) && scored[0]["ms"].as_f64() > Some(0.0), "{scored:?}");
    assert!(scored[2]["error"].as_str().unwrap().contains("response") && scored[2]["line"] == 3, "{scored:?}");
    assert_eq!((&scored[3]["status"], &scored[3]["score"]), (&json!("not_applicable"), &Value::Null));

    let served = Served::new(CONFIG);
    let at = ["--url", &served.url];
    let daemon = |arguments: &[&str]| {
        let (status, stdout, stderr) = verify(&[arguments, &at].concat());
        assert!(status.success(), "{arguments:?}: {stderr}");
        stdout
    };
    assert!(
        daemon(&["install", "math", "liar.wasm", "--weight", "2", "--gate"])
            .contains("liar judges: version 1, weight 2, a gate")
    );
    assert!(daemon(&["install", "math", "rules", "--name", "manners", "--weight", "0.1"]).contains("manners judges"));
    assert!(daemon(&["weigh", "math", "liar", "--weight", "4", "--gate", "false"]).contains("version 2, weight 4"));
    assert!(daemon(&["rollback", "math", "liar"]).contains("version 3, weight 2"));
    let listed = daemon(&["list"]);
    assert!(listed.contains("manners") && listed.contains("as *"), "{listed}");
    assert!(daemon(&["remove", "math", "manners"]).contains("no longer judges math"));
    let (status, _, stderr) = verify(&["install", "math", "nothing", "--url", &served.url]);
    assert!(!status.success() && stderr.contains("nothing"), "{stderr}");
    assert!(Path::new(&served.folder).join("data/verifiers").is_dir());
}

/// A model that judges, and is told by an answer what to say.
#[tokio::test]
async fn a_judge_says_what_it_thinks_by_the_weak_channel() {
    async fn complete(Json(body): Json<Value>) -> Json<Value> {
        let text = |place: usize| body["messages"][place]["content"].as_str().unwrap_or_default().to_owned();
        let (system, user) = (text(0), text(1));
        // The marks around the answer are the ones that the instruction names.
        let mark = user.lines().next().unwrap().trim_start_matches("<task ").trim_end_matches('>').to_owned();
        let fair = system.contains("polite") && system.contains(&mark) && user.ends_with(&format!("</answer {mark}>"));
        let said = if fair { r#"{"score": 0.75, "reason": "polite enough"}"# } else { "no" };
        Json(json!({
            "choices": [{"message": {"role": "assistant", "content": said}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        }))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let routes = Router::new().route("/v1/chat/completions", post(complete));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let config = format!(
        "{CONFIG}\n[[arms]]\nid = \"judge\"\nkind = \"openai\"\nbase_url = \"{base}\"\nmodel = \"judge\"\n\
         enabled = false\ninput_usd_per_1m = 10.0\n\n[judge]\narm = \"judge\"\nrubric = \"Is it polite?\"\n\
         domains = [\"math\"]\n"
    );
    let served = Served::new(&config);
    let (_, answer) = served.post("/v1/tasks", &sum(20, 22)).await;
    let path = format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap());
    let mut judged = Value::Null;
    for _ in 0..500 {
        let (_, why) = served.get(&path).await;
        let feedback = why["feedback"].as_array().unwrap();
        if let Some(found) = feedback.iter().find(|feedback| feedback["source"] == "judge") {
            judged = found.clone();
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!((&judged["score"], &judged["trust"]), (&json!(0.75), &json!(0.5)), "{judged}");
    assert_eq!(judged["verdicts"][0]["verifier"], "judge:judge");
    assert_eq!(judged["verdicts"][0]["trace"][0], "polite enough");
    // Other domains are not judged.
    let mut other = sum(1, 1);
    other["domain"] = json!("text");
    served.post("/v1/tasks", &other).await;
    served.learnt(2).await;
    let metrics = served.get("/metrics").await.1.as_str().unwrap().to_owned();
    assert!(metrics.contains("pointsman_judged_total{outcome=\"judged\"} 1"), "{metrics}");
    assert!(metrics.contains("pointsman_judge_micro_usd_total 1000"), "{metrics}");
}
