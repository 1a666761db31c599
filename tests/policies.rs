//! Policies change while tasks flow: trial, promotion, roll-back, changed cards, and what a restart finds.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, sum};

const STEADY: &str = "name = \"steady\"\npolicy = \"fixed:good\"\n";

/// A folder with a card beside the configuration.
fn with_card(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder.join("policies")).unwrap();
    fs::write(folder.join("policies").join(format!("{name}.toml")), text).unwrap();
}

async fn policies(served: &Served) -> Value {
    let (status, report) = served.get("/v1/policies").await;
    assert_eq!(status, 200, "{report}");
    report
}

async fn decision(served: &Served, task: &Value) -> Value {
    let (status, answer) = served.post("/v1/tasks", task).await;
    assert_eq!(status, 200, "{answer}");
    served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await.1["decision"].clone()
}

#[tokio::test]
async fn a_card_is_put_on_trial_promoted_and_rolled_back_while_tasks_flow() {
    let folder = tempfile::tempdir().unwrap();
    with_card(folder.path(), "steady", STEADY);
    with_card(folder.path(), "broken", "policy = \"linucb\"");
    let served = Served::in_folder(CONFIG, folder.path());
    let report = policies(&served).await;
    assert_eq!(report["champion"]["name"], "affinity:new_arm:ensemble");
    let cards = report["cards"].as_array().unwrap();
    assert_eq!(
        cards.iter().map(|card| card["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["broken", "default", "steady"]
    );
    assert!(cards[0]["problem"].as_str().unwrap().contains("choose one of"), "{cards:?}");
    served.stream("", ndjson((0..40).map(|n| sum(n, 5)))).await;

    let (status, report) = served.post("/v1/policies/shadow", &json!({"card": "steady"})).await;
    assert_eq!((status, report["shadow"]["policy"]["name"].as_str()), (200, Some("fixed:good")));
    let seen = decision(&served, &sum(100, 5)).await;
    let good = seen["pmf"].as_array().unwrap().iter().position(|entry| entry["arm"] == "good").unwrap();
    assert_eq!(seen["shadow"]["pmf"][good]["p"], 1.0);
    served.stream("", ndjson((200..239).map(|n| sum(n, 5)))).await;
    served.learnt(80).await;
    let trial = policies(&served).await["shadow"].clone();
    assert_eq!(trial["rounds"], 40);
    // Costs differ a little from answer to answer, and the two means weigh them differently.
    let [shadow, champion] = ["shadow_reward", "champion_reward"].map(|key| trial[key].as_f64().unwrap());
    assert!(shadow > champion - 1e-3, "{trial}");
    assert_eq!(trial["difference"], Value::Null, "too little is known yet");
    served.stream("", ndjson((300..500).map(|n| sum(n, 5)))).await;
    served.learnt(280).await;
    let difference = policies(&served).await["shadow"]["difference"].clone();
    let [low, mean, high] = ["low", "mean", "high"].map(|key| difference[key].as_f64().unwrap());
    assert!(low < mean && mean < high && high > 0.0 && low < 0.2, "always the good arm is no worse: {difference}");

    let (status, report) = served.post("/v1/policies/promote", &json!({"card": "steady"})).await;
    assert_eq!((status, &report["shadow"]), (200, &Value::Null), "a promoted policy's trial is over: {report}");
    let seen = decision(&served, &sum(300, 5)).await;
    assert_eq!((seen["arm"].as_str(), seen["propensity"].as_f64()), (Some("good"), Some(1.0)));
    assert!(seen["policy"]["card"].as_str().unwrap().starts_with("steady@"), "{seen}");
    assert!(served.stop().success());

    let served = Served::in_folder(CONFIG, folder.path());
    let report = policies(&served).await;
    assert_eq!(report["champion"]["name"], "fixed:good", "a promoted policy stays after a restart");
    assert_eq!(report["shadow"], Value::Null);
    let (status, report) = served.post("/v1/policies/rollback", &json!({})).await;
    assert_eq!((status, report["champion"]["name"].as_str()), (200, Some("affinity:new_arm:ensemble")));
    assert_eq!(report["learnt_rounds"], 81);
    let seen = decision(&served, &sum(301, 5)).await;
    let p = seen["pmf"].as_array().unwrap()[good]["p"].as_f64().unwrap();
    assert!(p > 0.8, "the policy that came back knows all rounds: {p}");
    served.post("/v1/policies/shadow", &json!({"card": "steady"})).await;
    served.stream("", ndjson((400..420).map(|n| sum(n, 5)))).await;
    served.learnt(102).await;
    served.kill();
    let served = Served::in_folder(CONFIG, folder.path());
    let shadow = policies(&served).await["shadow"].clone();
    assert_eq!(shadow["rounds"], 20, "a trial is folded again after a crash: {shadow}");
    let (status, report) = served.post("/v1/policies/shadow", &json!({"card": null})).await;
    assert_eq!((status, &report["shadow"]), (200, &Value::Null));
}

#[tokio::test]
async fn what_cannot_be_promoted_is_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    with_card(folder.path(), "broken", "[ensemble]\nfloor = 3.0");
    with_card(folder.path(), "gone", "name = \"gone\"\npolicy = \"fixed:nobody\"");
    let served = Served::in_folder(CONFIG, folder.path());
    let problem = async |body: Value| {
        let (status, problem) = served.post("/v1/policies/promote", &body).await;
        (status, problem["type"].as_str().unwrap().rsplit('/').next().unwrap().to_owned(), problem["detail"].clone())
    };
    for (body, status, kind, word) in [
        (json!({"card": "none"}), 404, "unknown-card", "broken, default, gone"),
        (json!({"card": "broken"}), 422, "invalid-card", "ensemble.floor"),
        (json!({"card": "gone"}), 422, "unknown-arm", "nobody"),
        (json!({"card": "default", "policy": "linucb"}), 422, "invalid-card", "choose one of"),
    ] {
        let (found, found_kind, detail) = problem(body).await;
        assert!(found_kind.ends_with(kind), "{found_kind}");
        assert_eq!(found, status);
        assert!(detail.as_str().unwrap().contains(word), "{detail}");
    }
    let (status, problem) = served.post("/v1/policies/rollback", &json!({})).await;
    assert_eq!((status, problem["title"].as_str()), (409, Some("There is no earlier policy")));
    assert_eq!(policies(&served).await["champion"]["name"], "affinity:new_arm:ensemble");
}

#[tokio::test]
async fn a_changed_card_is_at_work_by_itself_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    with_card(folder.path(), "mine", "name = \"mine\"\npolicy = \"lin_ucb\"");
    let config = format!("[policy]\ncard = \"mine\"\n{CONFIG}");
    let served = Served::in_folder(&config, folder.path());
    served.stream("", ndjson((0..30).map(|n| sum(n, 5)))).await;
    let wait_for = async |wanted: &dyn Fn(&Value) -> bool| {
        for _ in 0..500 {
            let report = policies(&served).await;
            if wanted(&report) {
                return report;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the card was not read in time: {}", policies(&served).await);
    };
    with_card(folder.path(), "mine", "name = \"mine\"\npolicy = \"domain_prior\"");
    let report = wait_for(&|report| report["champion"]["name"] == "domain_prior").await;
    assert_eq!(report["learnt_rounds"], 30);
    assert_eq!(report["changes"][1]["origin"], "reloaded");
    with_card(folder.path(), "mine", "name = \"mine\"\npolicy = \"no_such\"");
    let report = wait_for(&|report| report["cards"][1]["problem"].is_string()).await;
    assert_eq!(report["champion"]["name"], "domain_prior");
    assert_eq!(served.post("/v1/tasks", &sum(1, 1)).await.0, 200);
}

#[tokio::test]
async fn the_state_after_a_restart_is_the_same_bit_for_bit_with_and_without_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("data/checkpoint.json");
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..80).map(|n| sum(n, 5)))).await;
    served.learnt(80).await;
    let before = policies(&served).await["state_hash"].clone();
    assert!(served.stop().success());
    assert!(checkpoint.exists());
    let again = async || {
        let served = Served::in_folder(CONFIG, folder.path());
        let report = policies(&served).await;
        assert_eq!((&report["state_hash"], &report["learnt_rounds"]), (&before, &json!(80)));
        served.kill();
    };
    again().await;
    let stored = fs::read_to_string(&checkpoint).unwrap();
    for damaged in [
        "",
        "{}",
        &stored[..stored.len() / 2],
        &stored.replace("\"format\":4", "\"format\":9"),
        &stored.replacen("0.5", "0.6", 1),
    ] {
        fs::write(&checkpoint, damaged).unwrap();
        again().await;
    }
    fs::remove_file(&checkpoint).unwrap();
    again().await;
    // Rounds after the checkpoint are added to it.
    fs::write(&checkpoint, &stored).unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((100..120).map(|n| sum(n, 5)))).await;
    served.learnt(100).await;
    let later = policies(&served).await["state_hash"].clone();
    served.kill();
    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(policies(&served).await["state_hash"], later);
}

#[tokio::test]
async fn a_poisoned_row_quarantines_one_arm_and_the_service_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("data/checkpoint.json");
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..40).map(|n| sum(n, 5)))).await;
    served.learnt(40).await;
    assert!(served.stop().success());
    let text = fs::read_to_string(&checkpoint).unwrap();
    let mut state: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!(state["known"]["standings"]["totals"][0]["arm"], "bad");
    state["known"]["standings"]["totals"][0]["numbers"][1] = Value::Null;
    let state = state.to_string();
    let header = json!({"format": 4, "digest": blake3::hash(state.as_bytes()).to_hex().as_str()});
    fs::write(&checkpoint, format!("{header}\n{state}\n")).unwrap();

    let served = Served::in_folder(CONFIG, folder.path());
    let arms = served.get("/v1/arms").await.1["arms"].clone();
    assert_eq!((&arms[0]["quarantined"], &arms[1]["quarantined"]), (&json!(false), &json!(true)));
    let answers = served.stream("", ndjson((50..70).map(|n| sum(n, 5)))).await;
    assert!(answers.iter().all(|answer| answer["arm"] == "good"), "{answers:?}");
    let (_, why) = served.get(&format!("/v1/decisions/{}", answers[0]["decision_id"].as_str().unwrap())).await;
    assert_eq!(why["context"]["masked"], json!([{"arm": "bad", "why": "quarantined"}]));
    let patch = reqwest::Client::new().patch(format!("{}/v1/arms/bad", served.url));
    assert_eq!(patch.json(&json!({"quarantined": false})).send().await.unwrap().status(), 200);
    let (_, answer) = served.post("/v1/route", &sum(90, 5)).await;
    assert_eq!(answer["pmf"].as_array().unwrap().len(), 2);
}
