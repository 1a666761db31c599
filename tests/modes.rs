//! Rounds and teams on a real daemon: what is decided, run, told, learnt, kept and replayed.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};

use crate::{
    replay::replay,
    served::{Served, ndjson, output, pointsman, sum},
};

/// One arm that thinks anew when it is asked again, and one that does not.
const MODES: &str = r#"
[modes]
enabled = ["single", "multi", "agentic"]
[modes.domains]
text = ["single"]
[tenants.acme]
alpha = 0.5
[tenants.other]
[domains.math]
[domains.text]
[[arms]]
id = "fickle"
kind = "scripted"
default_skill = 0.5
again = { math = 1.0 }
planned = { math = 0.9 }
output_usd_per_1m = 10.0
[[arms]]
id = "stubborn"
kind = "scripted"
default_skill = 0.4
output_usd_per_1m = 10.0
"#;

fn sums(of: &Value) -> f64 {
    of.as_array().unwrap().iter().map(|call| call["cost_usd"].as_f64().unwrap()).sum()
}

#[tokio::test]
async fn modes_are_part_of_the_action_and_rounds_win_where_they_pay() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(MODES, folder.path());
    let answers = served.stream("", ndjson((0..600).map(|n| sum(n, 3)))).await;
    served.learnt(600).await;
    let ways: BTreeSet<_> = answers.iter().map(|answer| (answer["mode"].as_str(), answer["arm"].as_str())).collect();
    assert!(ways.len() >= 5, "every way is tried: {ways:?}");
    let late = &answers[400..];
    let of = |mode: &str| late.iter().filter(|answer| answer["mode"] == mode).count();
    assert!(of("single") < 40, "rounds and teams of the one that thinks anew are better: {} single", of("single"));

    for answer in &answers[..40] {
        let path = format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap());
        let (_, seen) = served.get(&path).await;
        let pmf = seen["decision"]["pmf"].as_array().unwrap();
        assert_eq!(pmf.len(), 6, "two arms in three modes");
        let p = |entry: &Value| entry["p"].as_f64().unwrap();
        assert!((pmf.iter().map(p).sum::<f64>() - 1.0).abs() < 1e-9);
        let taken = pmf.iter().find(|one| one["mode"] == answer["mode"] && one["arm"] == answer["arm"]).unwrap();
        assert_eq!(taken["p"], answer["propensity"]);
        let (outcome, mode) = (&seen["outcome"], answer["mode"].as_str().unwrap());
        let calls = outcome["calls"].as_array().unwrap();
        assert!((sums(&outcome["calls"]) - outcome["cost_usd"].as_f64().unwrap()).abs() < 1e-12);
        let trajectory = &outcome["trajectory"];
        match mode {
            "single" => assert!(calls.len() == 1 && trajectory.is_null()),
            "multi" => assert!((2..=4).contains(&calls.len()), "{calls:?}"),
            _ => assert!((4..=5).contains(&calls.len()) && calls[0]["role"] == "planner", "{calls:?}"),
        }
        if mode != "single" {
            assert_eq!(trajectory["driver"], "rule");
            let answered_by = trajectory["answered_by"].as_u64().unwrap() as usize;
            assert_eq!(calls[answered_by - 1]["output"], outcome["output"]);
            assert!(calls.iter().all(|call| call["arm"] == answer["arm"]), "by rule the drawn worker makes every call");
        }
    }
    let (_, regret) = served.get("/v1/regret").await;
    let arms: BTreeSet<_> = regret["arms"].as_array().unwrap().iter().map(|arm| arm["arm"].as_str().unwrap()).collect();
    assert!(arms.contains("multi:fickle") && arms.contains("agentic:stubborn"), "{arms:?}");
    let (_, history) = served.get("/v1/history").await;
    assert_eq!(history["modes"], json!(["single", "multi", "agentic"]));
    served.kill();

    // A restart and a replay from zero give the same state.
    let (status, stdout, stderr, found) = replay(folder.path(), &[]);
    assert!(status.success() && found["again"] == found["decisions"], "{stdout}{stderr}");
    let served = Served::in_folder(MODES, folder.path());
    served.learnt(600).await;
    assert!(served.stop().success());
    assert_eq!(replay(folder.path(), &[]).3["state_hash"], found["state_hash"]);
}

#[tokio::test]
async fn a_task_says_in_which_modes_it_may_be_run_and_how_cost_weighs() {
    let served = Served::new(MODES);
    let ask = |more: Value| {
        let mut task = sum(1, 3);
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let agentic = ask(json!({"constraints": {"modes": ["agentic"]}, "alpha": 0.25, "tenant": "acme"}));
    let (status, answer) = served.post("/v1/tasks", &agentic).await;
    assert_eq!((status, &answer["mode"]), (200, &json!("agentic")), "{answer}");
    let (_, seen) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    assert_eq!(seen["outcome"]["trajectory"]["alpha"], 0.25);
    let (_, answer) =
        served.post("/v1/tasks", &ask(json!({"constraints": {"modes": ["multi"]}, "tenant": "acme"}))).await;
    let (_, seen) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    assert_eq!(seen["outcome"]["trajectory"]["alpha"], 0.5, "the tenant's");

    let (status, problem) =
        served.post("/v1/tasks", &ask(json!({"domain": "text", "constraints": {"modes": ["multi"]}}))).await;
    assert_eq!((status, &problem["type"]), (422, &json!("urn:pointsman:problem:modes-off")));
    assert!(problem["detail"].as_str().unwrap().contains("in domain text these are on: single"), "{problem}");
    for (more, field) in
        [(json!({"alpha": 1.5}), "alpha"), (json!({"constraints": {"modes": []}}), "constraints.modes")]
    {
        let (status, problem) = served.post("/v1/tasks", &ask(more)).await;
        assert_eq!((status, &problem["field"]), (422, &json!(field)), "{problem}");
    }
    // A name that means an arm run in a mode is no arm's, whenever it comes.
    let named = json!({"id": "multi:fickle", "kind": "scripted", "default_skill": 0.5});
    let (status, problem) = served.post("/v1/arms", &named).await;
    assert_eq!((status, &problem["type"]), (422, &json!("urn:pointsman:problem:invalid-arm")), "{problem}");
    // Who runs the model itself makes one call.
    let (_, routed) = served.post("/v1/route", &sum(2, 3)).await;
    assert_eq!(routed["mode"], "single", "{routed}");
}

/// A worker of the OpenAI protocol that is wrong at first, and remembers what it was asked.
async fn listening(heard: Arc<Mutex<Vec<String>>>) -> String {
    let answer = move |Json(body): Json<Value>| {
        let messages = body["messages"].as_array().unwrap();
        let asked = messages.iter().map(|message| message["content"].as_str().unwrap()).collect::<Vec<_>>().join("\n");
        let mut heard = heard.lock().unwrap();
        heard.push(asked);
        let text = if heard.len() < 3 { "I get 41." } else { "The answer is 4242." };
        let choices = json!([{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]);
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
        std::future::ready(Json(json!({"id": "c", "object": "chat.completion", "choices": choices, "usage": usage})))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/v1/chat/completions", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/v1")
}

fn one_worker(url: &str, more: &str) -> String {
    format!(
        "[modes]\nenabled = [\"multi\"]\n{more}\n[domains.math]\n\
         [[arms]]\nid = \"m\"\nkind = \"openai\"\nbase_url = \"{url}\"\nmodel = \"m\"\n"
    )
}

#[tokio::test]
async fn workers_are_told_whether_they_passed_but_never_the_reference() {
    let heard = Arc::default();
    let served = Served::new(&one_worker(&listening(Arc::clone(&heard)).await, ""));
    let task = json!({"prompt": "What is 42 * 101?", "domain": "math", "metadata": {"reference": 4242}});
    let (_, answer) = served.post("/v1/tasks", &task).await;
    assert_eq!((&answer["output"], &answer["score"]), (&json!("The answer is 4242."), &json!(1.0)), "{answer}");
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 3);
    assert!(heard[1].contains("I get 41.") && heard[1].contains("Checked: FAIL"), "{}", heard[1]);
    assert!(heard.iter().all(|asked| !asked.contains("4242")), "{heard:?}");
}

#[tokio::test]
async fn chats_are_run_in_modes_only_where_that_is_switched_on() {
    let chat =
        json!({"model": "auto:math", "messages": [{"role": "user", "content": "What is 42 * 101?"}], "stream": true});
    let both = "enabled = [\"single\", \"multi\"]\nchats = false";
    for (more, calls) in [("chats = true", 2), (both, 1)] {
        let heard = Arc::default();
        let config = one_worker(&listening(Arc::clone(&heard)).await, more);
        let config = if calls == 1 { config.replacen("enabled = [\"multi\"]\n", "", 1) } else { config };
        let served = Served::new(&config);
        let request = reqwest::Client::new().post(format!("{}/v1/chat/completions", served.url)).json(&chat);
        let response = request.send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        if calls == 2 {
            // Nothing can verify it, so it ends after the two calls that rounds make at least.
            assert!(status == 200 && text.contains("I get 41.") && text.contains("[DONE]"), "{text}");
        }
        assert_eq!(heard.lock().unwrap().len(), calls, "{text}");
    }
}

#[tokio::test]
async fn what_calls_wrote_is_kept_as_little_as_answers_are() {
    let served = Served::new(&format!("[journal]\nprompts = \"dropped\"\n{MODES}"));
    let mut task = sum(1, 3);
    task["constraints"] = json!({"modes": ["agentic"]});
    let (_, answer) = served.post("/v1/tasks", &task).await;
    let (_, seen) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    let calls = seen["outcome"]["calls"].as_array().unwrap();
    assert!(
        calls.len() >= 4 && calls.iter().all(|call| call["output"].is_null() && call["trace"].is_null()),
        "{calls:?}"
    );
    assert!(calls.iter().any(|call| call["score"].is_number()), "numbers are kept always");
}

#[tokio::test]
async fn a_trained_policy_writes_the_turns() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    dataset(&data, &["a", "b"], 0.001);
    let mut command = pointsman();
    command.args(["train", "mode-router", "--shape", "16x1x2", "--steps", "2", "--settings"]);
    command.arg(short(folder.path())).arg("--dataset").arg(&data);
    command.arg("--run").arg(folder.path().join("run")).arg("--out").arg(folder.path().join("m.safetensors"));
    let (status, stdout, stderr) = output(&mut command);
    assert!(status.success(), "{stdout}{stderr}");
    let config = MODES.replacen("enabled =", "driver = \"mode_router\"\nmodel = \"m.safetensors\"\nenabled =", 1);
    let served = Served::in_folder(&config, folder.path());
    let task = |n: u64| {
        let mut task = sum(n, 3);
        task["alpha"] = json!(0.9);
        task["constraints"] = json!({"modes": ["multi", "agentic"]});
        task
    };
    let answers = served.stream("", ndjson((0..40).map(task))).await;
    served.learnt(40).await;
    for answer in &answers {
        assert_eq!(answer["status"], "done", "{answer}");
        let (_, seen) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
        let trajectory = &seen["outcome"]["trajectory"];
        assert_eq!(
            (&trajectory["driver"], &trajectory["alpha"]),
            (&json!("mode_router"), &json!(0.5)),
            "alpha is brought into range"
        );
        assert_eq!(trajectory["model"].as_str().unwrap().len(), 12);
        assert_eq!(trajectory["offered"][0], answer["arm"], "the drawn worker makes the first call");
        assert_eq!(seen["outcome"]["calls"][0]["arm"], answer["arm"]);
        let turns = trajectory["turns"].as_array().unwrap();
        assert!(turns.iter().all(|turn| turn["violation"].is_null()), "under the mask no rule is broken: {turns:?}");
        assert!(turns.iter().all(|turn| (0.0..=1.0).contains(&turn["probability"].as_f64().unwrap())));
        assert!(turns.last().unwrap()["calls"].is_null(), "the answer is the last turn: {turns:?}");
    }
    served.kill();
    let (status, stdout, stderr, found) = replay(folder.path(), &[]);
    assert!(status.success() && found["again"] == found["decisions"], "{stdout}{stderr}");
}

#[tokio::test]
async fn the_mode_router_that_comes_with_the_program_decides_and_writes_the_turns() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("policies")).unwrap();
    std::fs::write(folder.path().join("policies/trained.toml"), "name = \"trained\"\npolicy = \"mode_router\"\n")
        .unwrap();
    let config = MODES.replacen("enabled =", "driver = \"mode_router\"\nenabled =", 1);
    let served = Served::in_folder(&format!("[policy]\ncard = \"trained\"\n{config}"), folder.path());
    let answers = served.stream("", ndjson((0..30).map(|n| sum(n, 3)))).await;
    assert!(answers.iter().all(|answer| answer["status"] == "done"), "{answers:?}");
    let several =
        answers.iter().find(|answer| answer["mode"] != "single").expect("one of thirty runs in several calls");
    let (_, seen) = served.get(&format!("/v1/decisions/{}", several["decision_id"].as_str().unwrap())).await;
    assert_eq!(seen["decision"]["policy"]["name"], "mode_router", "{seen}");
    assert_eq!(seen["outcome"]["trajectory"]["driver"], "mode_router");
}

#[test]
fn a_checkpoint_that_cannot_be_used_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pointsman.toml");
    std::fs::write(folder.path().join("m.safetensors"), b"nothing of the kind").unwrap();
    let config = MODES.replacen("enabled =", "driver = \"mode_router\"\nmodel = \"m.safetensors\"\nenabled =", 1);
    std::fs::write(&file, config).unwrap();
    let (status, _, stderr) = output(pointsman().arg("check-config").arg(&file));
    assert_eq!(status.code(), Some(64));
    assert!(stderr.contains("modes.model") && stderr.contains("pointsman train mode-router"), "{stderr}");
}

/// Settings of a training that takes a second.
fn short(folder: &std::path::Path) -> std::path::PathBuf {
    let file = folder.join("short.toml");
    std::fs::write(&file, "warm_up = 4\npractice = 4\nqueries = 4\nrollouts = 4\n[schedule]\ncold = 1\nanneal = 1\n")
        .unwrap();
    file
}

/// A dataset of three tasks and as many models as results.
fn dataset(folder: &std::path::Path, models: &[&str], cost: f64) {
    let tasks: Vec<String> = (0..30)
        .map(|n| {
            let split = if n < 24 { "train" } else { "test" };
            json!({"task_id": format!("t{n}"), "split": split, "dimension": "math", "source": "s", "prompt": format!("What is {n} + 1?")}).to_string()
        })
        .collect();
    std::fs::write(folder.join("tasks.jsonl"), tasks.join("\n")).unwrap();
    let priced = |model: &&str| json!({"model": model, "input_per_1m": 1.0, "output_per_1m": 1.0});
    let listed = json!({"models": models.iter().map(priced).collect::<Vec<_>>()});
    std::fs::write(folder.join("models.json"), listed.to_string()).unwrap();
    let rows = (0..30)
        .flat_map(|n| models.iter().enumerate().map(move |(m, model)| format!("t{n},{model},{},{cost}", (n + m) % 2)));
    std::fs::write(
        folder.join("results.csv"),
        format!("task_id,model,score,cost_usd\n{}\n", rows.collect::<Vec<_>>().join("\n")),
    )
    .unwrap();
}

#[test]
fn training_refuses_what_nothing_can_be_learnt_from_and_goes_on_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let train = |data: &std::path::Path, more: &[&str]| {
        let mut command = pointsman();
        let steps = if more.contains(&"--steps") { &[][..] } else { &["--steps", "2"][..] };
        command.args(["train", "mode-router", "--shape", "16x1x2"]).args(steps).arg("--dataset").arg(data);
        if !more.contains(&"--settings") {
            command.arg("--settings").arg(short(folder.path()));
        }
        command.arg("--run").arg(folder.path().join("run")).arg("--out").arg(folder.path().join("out.safetensors"));
        output(command.args(more))
    };
    let make = |name: &str, models: &[&str], cost: f64| {
        let data = folder.path().join(name);
        std::fs::create_dir(&data).unwrap();
        dataset(&data, models, cost);
        data
    };
    let (one, free, good) =
        (make("one", &["a"], 0.1), make("free", &["a", "b"], 0.0), make("good", &["a", "b", "c"], 0.001));
    let (status, _, stderr) = train(&one, &[]);
    assert!(!status.success() && stderr.contains("at least two"), "{stderr}");
    let (status, _, stderr) = train(&free, &["--force"]);
    assert!(!status.success() && stderr.contains("--alpha-range 0,0"), "{stderr}");
    let (status, _, stderr) = train(&good, &["--alpha-range", "0.5,0.1"]);
    assert!(!status.success() && stderr.contains("the lower one first"), "{stderr}");
    let (status, _, stderr) = train(&good, &["--device", "tpu"]);
    assert!(!status.success() && stderr.contains("give cpu or cuda:N"), "{stderr}");
    let (status, _, stderr) = train(&good, &["--noise", "1.5"]);
    assert!(!status.success() && stderr.contains("must be a number from 0 to 1"), "{stderr}");
    let wrong = folder.path().join("wrong.toml");
    for (text, wanted) in [("cold = ", "is no TOML"), ("[schedule]\ncoal = 3", "coal"), ("steps = \"many\"", "steps")] {
        std::fs::write(&wrong, text).unwrap();
        let (status, _, stderr) = train(&good, &["--settings", wrong.to_str().unwrap()]);
        assert!(!status.success() && stderr.contains("wrong.toml") && stderr.contains(wanted), "{stderr}");
    }
    let (status, stdout, stderr) = train(&good, &["--sweep", "--false-positive", "0.2"]);
    assert!(status.success() && stdout.contains("Over the best fixed mode"), "{stdout}{stderr}");
    assert!(stdout.contains("good (test), alpha 0.3") && stdout.contains("passes 20 % of wrong ones"), "{stdout}");
    assert!(stdout.contains("where verifiers are others"), "{stdout}");
    let report = std::fs::read_to_string(folder.path().join("run/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["settings"]["practice"], &report["verifier"]["false_positive"]), (&json!(4), &json!(0.2)));
    assert_eq!(report["sweep"].as_array().unwrap().len(), 7);
    let steps =
        |folder: &std::path::Path| std::fs::read_to_string(folder.join("run/steps.jsonl")).unwrap().lines().count();
    let first = steps(folder.path());
    let (status, _, stderr) = train(&good, &[]);
    assert!(!status.success() && stderr.contains("--resume") && stderr.contains("--force"), "{stderr}");
    let (status, _, stderr) = train(&good, &["--resume", "--seed", "7"]);
    assert!(!status.success() && stderr.contains("seed"), "{stderr}");
    let (status, _, stderr) = train(&good, &["--resume", "--steps", "4"]);
    assert!(status.success(), "{stderr}");
    assert_eq!(steps(folder.path()), first + 2);
    assert!(std::fs::read_to_string(folder.path().join("run/plots.html")).unwrap().contains("<figure>"));
}
