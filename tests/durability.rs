//! What was acknowledged is there after kill -9, and the state is the one that the journal tells.

use std::{collections::HashMap, time::Duration};

use futures::StreamExt;
use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, output, pointsman, sum};

/// What the same request is told while the task runs; also the sign that the decision is in the journal. A request that
/// came first and runs the task itself is given up, which leaves the task running.
async fn told_that_it_runs(served: &Served, task: &Value) -> Value {
    for _ in 0..100 {
        let request = reqwest::Client::new().post(format!("{}/v1/tasks", served.url)).json(task);
        let answered = request.timeout(Duration::from_millis(200)).send().await;
        if let Some(answer) = answered.ok().filter(|answer| answer.status() == 409) {
            return answer.json().await.unwrap();
        }
    }
    panic!("the task never ran");
}

#[tokio::test]
async fn every_acknowledged_outcome_survives_kill_9_in_the_middle_of_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = HashMap::new();
    for life in 0..3u64 {
        let served = Served::in_folder(CONFIG, folder.path());
        let tasks = ndjson((0..400).map(|n| sum(1_000 * life + n, n)));
        let request = reqwest::Client::new().post(format!("{}/v1/tasks/stream", served.url)).body(tasks);
        let mut body = request.send().await.unwrap().bytes_stream();
        let mut text = String::new();
        while text.lines().count() < 60 + 40 * usize::try_from(life).unwrap() {
            text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
        }
        served.kill();
        let whole = text.rsplit_once('\n').unwrap().0;
        for line in whole.lines() {
            let answer: Value = serde_json::from_str(line).unwrap();
            acknowledged.insert(answer["decision_id"].as_str().unwrap().to_owned(), answer);
        }
    }
    let served = Served::in_folder(CONFIG, folder.path());
    let report = served.get("/v1/regret").await.1;
    assert!(report["rounds"].as_u64().unwrap() >= acknowledged.len() as u64);
    assert_eq!(report["memory"]["entries"], report["rounds"], "memory is brought level with the journal");
    for (id, answer) in &acknowledged {
        let (status, why) = served.get(&format!("/v1/decisions/{id}")).await;
        assert_eq!(status, 200, "{id} was acknowledged and is gone");
        assert_eq!(why["outcome"]["output"], answer["output"]);
        assert_eq!(why["feedback"][0]["score"], answer["score"]);
        assert_eq!(why["feedback"].as_array().unwrap().len(), 1, "{id} was stored twice");
    }
}

#[tokio::test]
async fn a_restart_changes_nothing_and_a_lost_memory_folder_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..60).map(|n| sum(n, 3)))).await;
    let before = served.learnt(60).await;
    assert!(served.stop().success());
    std::fs::remove_dir_all(folder.path().join("data/memory")).unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    let after = served.get("/v1/regret").await.1;
    for field in ["kind", "rounds", "reward_sum", "cum_regret", "cost_usd", "series", "arms", "domains", "memory"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    let (_, answer) = served.post("/v1/tasks", &sum(61, 3)).await;
    let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    assert_eq!(why["context"]["neighbours"].as_array().unwrap().len(), 10);
    assert_eq!(why["decision"]["learnt_rounds"], 60);
}

/// A start that folds all of it and learns nothing more leaves a checkpoint that the next one takes.
#[tokio::test]
async fn a_checkpoint_of_a_fold_alone_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..20).map(|n| sum(n, 3)))).await;
    served.learnt(20).await;
    assert!(served.stop().success());
    let checkpoint = folder.path().join("data/checkpoint.json");
    let kept = || {
        let text = std::fs::read_to_string(&checkpoint).unwrap();
        let state: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        (state["at"].clone(), state["at_ms"].clone())
    };
    let lived = kept();
    std::fs::remove_file(&checkpoint).unwrap();
    assert!(Served::in_folder(CONFIG, folder.path()).stop().success());
    assert_eq!(kept(), lived, "the place and its time, by which the next start knows the journal");
}

#[tokio::test]
async fn a_task_cut_off_by_a_crash_is_finished_under_its_idempotency_key() {
    let config = CONFIG.replace("default_skill = 1.0", "default_skill = 1.0\nlatency_ms = 1500");
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(&config, folder.path());
    let mut task = sum(8, 9);
    task["idempotency_key"] = json!("crash-1");
    task["constraints"] = json!({"arms": ["good"]});
    let url = format!("{}/v1/tasks", served.url);
    let (client, body) = (reqwest::Client::new(), task.clone());
    let cut_off = tokio::spawn(async move { client.post(url).json(&body).send().await });
    let running = told_that_it_runs(&served, &task).await;
    assert_eq!(running["type"], "urn:pointsman:problem:still-running");
    served.kill();
    let answered = cut_off.await.unwrap();
    assert!(answered.is_err() || answered.unwrap().status() == 409);
    let served = Served::in_folder(&config, folder.path());
    let (status, answer) = served.post("/v1/tasks", &task).await;
    assert_eq!((status, &answer["repeated"]), (200, &json!(true)), "{answer}");
    assert!(answer["score"].as_f64().unwrap() > 0.9);
    assert_eq!(served.learnt(1).await["rounds"], 1);
}

#[tokio::test]
async fn a_decision_that_nobody_closes_is_abandoned_and_late_feedback_still_counts() {
    let served = Served::new(&format!("{CONFIG}\n[journal]\nlease_ms = 1000\n"));
    let (_, routed) = served.post("/v1/route", &sum(1, 5)).await;
    let (_, closed) = served.post("/v1/route", &sum(2, 5)).await;
    served.post("/v1/feedback", &json!({"decision_id": closed["decision_id"], "score": 1.0})).await;
    let path = format!("/v1/decisions/{}", routed["decision_id"].as_str().unwrap());
    let abandoned = async |served: &Served| served.get(&path).await.1["abandoned"] == true;
    for _ in 0..200 {
        if abandoned(&served).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(abandoned(&served).await);
    let report = served.learnt(1).await;
    assert_eq!((&report["abandoned"], &report["rounds"]), (&json!(1), &json!(1)), "its reward is unknown, not 0");
    let late = json!({"decision_id": routed["decision_id"], "score": 0.5});
    let (_, answer) = served.post("/v1/feedback", &late).await;
    assert_eq!((&answer["status"], &answer["learnt"]), (&json!("stored"), &json!(true)));
    let report = served.learnt(2).await;
    assert_eq!((&report["abandoned"], &report["rounds"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn feedback_that_comes_before_the_outcome_is_joined_to_it_also_after_a_crash() {
    let config = CONFIG.replace("default_skill = 1.0", "default_skill = 1.0\nlatency_ms = 2000");
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(&config, folder.path());
    let mut task = sum(8, 9);
    task["idempotency_key"] = json!("early-1");
    task["constraints"] = json!({"arms": ["good"]});
    let (url, body) = (format!("{}/v1/tasks", served.url), task.clone());
    let cut_off = tokio::spawn(async move { reqwest::Client::new().post(url).json(&body).send().await });
    let id = told_that_it_runs(&served, &task).await["decision_id"].clone();
    assert!(id.is_string(), "the answer names the decision");
    let said = json!({"decision_id": id, "score": 0.25, "idempotency_key": "said-1"});
    let (_, answer) = served.post("/v1/feedback", &said).await;
    assert_eq!((&answer["status"], &answer["learnt"]), (&json!("early"), &json!(false)), "{answer}");
    let (_, answer) = served.post("/v1/feedback", &said).await;
    assert_eq!(answer["status"], "duplicate");
    served.kill();
    drop(cut_off.await);

    let served = Served::in_folder(&config, folder.path());
    let path = format!("/v1/decisions/{}", id.as_str().unwrap());
    assert_eq!(served.get(&path).await.1["early"][0]["score"], 0.25);
    let (status, answer) = served.post("/v1/tasks", &task).await;
    assert_eq!((status, &answer["repeated"]), (200, &json!(true)));
    assert_eq!(served.learnt(1).await["score_mean"], 0.25, "the client was first");
    let (_, why) = served.get(&path).await;
    assert_eq!((&why["early"], &why["feedback"][0]["source"]), (&json!([]), &json!("client")));
    assert_eq!(why["feedback"][0]["cost_usd"], why["outcome"]["cost_usd"], "the outcome's cost, not the expected one");
    assert_eq!(why["feedback"][1]["source"], "verifier");
}

#[tokio::test]
async fn a_feedback_key_names_one_feedback() {
    let served = Served::new(CONFIG);
    let (_, routed) = served.post("/v1/route", &sum(1, 5)).await;
    let said = |key: &str, score: f64| json!({"decision_id": routed["decision_id"], "score": score, "source": "thumbs", "idempotency_key": key});
    assert_eq!(served.post("/v1/feedback", &said("a", 1.0)).await.1["status"], "stored");
    let (_, again) = served.post("/v1/feedback", &said("a", 1.0)).await;
    assert_eq!((&again["status"], &again["learnt"]), (&json!("duplicate"), &json!(true)));
    let (status, other) = served.post("/v1/feedback", &said("a", 0.0)).await;
    assert_eq!((status, &other["type"]), (409, &json!("urn:pointsman:problem:idempotency-key-reused")));
    let (_, second) = served.post("/v1/feedback", &said("b", 0.0)).await;
    assert_eq!((&second["status"], &second["learnt"]), (&json!("stored"), &json!(false)), "a decision teaches once");
}

#[tokio::test]
async fn what_is_not_kept_is_in_no_file_and_what_needs_it_says_so() {
    for (prompts, hashes) in [("hashed", true), ("dropped", false)] {
        let folder = tempfile::tempdir().unwrap();
        let served = Served::in_folder(&format!("{CONFIG}\n[journal]\nprompts = \"{prompts}\"\n"), folder.path());
        let mut task =
            json!({"domain": "text", "prompt": "zanzibar quokka", "metadata": {"reference": "umbrellabird"}});
        task["idempotency_key"] = json!("k");
        let (_, answer) = served.post("/v1/tasks", &task).await;
        assert_eq!(answer["status"], "done");
        let (status, problem) = served.post("/v1/tasks", &task).await;
        assert_eq!((status, &problem["type"]), (410, &json!("urn:pointsman:problem:text-not-kept")));
        task["prompt"] = json!("another");
        let (status, problem) = served.post("/v1/tasks", &task).await;
        let expected = if hashes { "idempotency-key-reused" } else { "text-not-kept" };
        assert!(problem["type"].as_str().unwrap().ends_with(expected), "{status} {problem}");
        served.learnt(1).await;
        let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
        let text = why.to_string();
        assert!(!text.contains("quokka") && !text.contains("umbrellabird"), "{text}");
        assert!(served.stop().success());
        let mut files = vec![folder.path().join("data")];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            for word in ["quokka", "umbrellabird"] {
                assert!(!bytes.windows(word.len()).any(|window| window == word.as_bytes()), "{word} in {path:?}");
            }
        }
    }
}

#[tokio::test]
async fn erasing_takes_the_texts_and_leaves_all_that_was_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let served = Served::in_folder(CONFIG, folder.path());
    let task = |n: u64, tenant: &str| {
        let mut task =
            json!({"id": format!("{tenant}-{n}"), "domain": "text", "prompt": format!("say quokka {tenant} {n}")});
        task["metadata"] = json!({"reference": "umbrellabird"});
        task["tenant"] = json!(tenant);
        task
    };
    let mut secret = vec![];
    for n in 0..20 {
        for tenant in ["zanzibar", "plain"] {
            let (_, answer) = served.post("/v1/tasks", &task(n, tenant)).await;
            secret.extend((tenant == "zanzibar").then(|| answer["decision_id"].as_str().unwrap().to_owned()));
        }
    }
    served.learnt(40).await;
    let before = served.get("/v1/policies").await.1["state_hash"].clone();
    let run = |arguments: &[&str]| output(pointsman().arg("journal").args(arguments).arg("--data-dir").arg(&data));
    let (status, _, error) = run(&["erase", "--tenant", "zanzibar"]);
    assert!(!status.success() && error.contains("stop it first"), "{error}");
    assert!(served.stop().success());
    assert!(run(&["verify"]).0.success());
    let (status, said, error) = run(&["erase", "--tenant", "zanzibar"]);
    assert!(status.success() && said.contains("20 decisions"), "{said}{error}");
    let (status, said, error) = run(&["verify"]);
    assert!(status.success() && said.contains("Sound"), "{said}{error}");
    assert!(!run(&["erase", "--task", "zanzibar-3"]).0.success(), "it is gone");
    std::fs::remove_file(data.join("checkpoint.json")).unwrap();

    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(served.get("/v1/policies").await.1["state_hash"], before, "folded from zero");
    assert_eq!(served.get("/v1/regret").await.1["memory"]["entries"], 40);
    let mut named = false;
    for id in secret {
        let (_, why) = served.get(&format!("/v1/decisions/{id}")).await;
        let text = why.to_string();
        assert!(!text.contains("zanzibar") && !text.contains("umbrellabird"), "{text}");
        named |= text.contains("plain-");
        assert_eq!((&why["task"]["prompt"], why["feedback"].as_array().unwrap().len()), (&json!(""), 1));
    }
    assert!(named, "tasks of others that were recalled keep their names");
    assert!(served.stop().success());
    // Records are packed, so this finds what lies open: memory, the checkpoint, keys.
    for file in ["journal.sqlite", "checkpoint.json"] {
        let bytes = std::fs::read(data.join(file)).unwrap();
        assert!(!bytes.windows(8).any(|window| window == b"zanzibar"), "{file}");
    }
}
