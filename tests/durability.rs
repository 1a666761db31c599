//! What was acknowledged is there after kill -9, and the state is the one that the journal tells.

use std::{collections::HashMap, time::Duration};

use futures::StreamExt;
use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, sum};

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
    // While it runs, the same request is told so; this is also the sign that the decision is in the journal. A request
    // that came first and runs the task itself is given up, which leaves the task running.
    let running = loop {
        let request = reqwest::Client::new().post(format!("{}/v1/tasks", served.url)).json(&task);
        let answered = request.timeout(Duration::from_millis(200)).send().await;
        if let Some(answer) = answered.ok().filter(|answer| answer.status() == 409) {
            break answer.json::<Value>().await.unwrap();
        }
    };
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
