//! Arms come, change and leave while tasks flow; tasks, sessions and tenants say what they want of them.

use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, sum};

async fn patch(served: &Served, arm: &str, body: Value) -> (u16, Value) {
    let request = reqwest::Client::new().patch(format!("{}/v1/arms/{arm}", served.url)).json(&body);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn delete(served: &Served, arm: &str) -> u16 {
    reqwest::Client::new().delete(format!("{}/v1/arms/{arm}", served.url)).send().await.unwrap().status().as_u16()
}

async fn ids(served: &Served) -> Vec<String> {
    let (_, report) = served.get("/v1/arms").await;
    report["arms"].as_array().unwrap().iter().map(|arm| arm["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn arms_come_change_and_leave_and_a_restart_finds_them_so() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..120).map(|n| sum(n, 5)))).await;
    let before = served.get("/v1/arms").await.1["arms"].clone();
    let new = json!({"id": "acme/new:1", "kind": "scripted", "default_skill": 0.9, "capabilities": ["tools"]});
    let (status, arm) = served.post("/v1/arms", &new).await;
    assert_eq!((status, &arm["id"], &arm["rounds"]), (201, &json!("acme/new:1"), &json!(0.0)), "{arm}");
    assert_eq!(served.post("/v1/arms", &new).await.0, 409);
    let answers = served.stream("", ndjson((200..500).map(|n| sum(n, 5)))).await;
    assert!(answers.iter().any(|answer| answer["arm"] == "acme/new:1"), "a new arm is tried");
    served.learnt(420).await;
    let after = served.get("/v1/arms").await.1["arms"].clone();
    assert!(after[2]["rounds"].as_f64() > Some(0.0) && after[0]["rounds"].as_f64() >= before[0]["rounds"].as_f64());

    let (status, arm) = patch(&served, "acme/new:1", json!({"input_usd_per_1m": 7.0, "enabled": false})).await;
    assert_eq!((status, &arm["input_usd_per_1m"], &arm["enabled"]), (200, &json!(7.0), &json!(false)), "{arm}");
    let answers = served.stream("", ndjson((500..540).map(|n| sum(n, 5)))).await;
    assert!(answers.iter().all(|answer| answer["arm"] != "acme/new:1"));
    assert_eq!(delete(&served, "bad").await, 204);
    assert_eq!(ids(&served).await, ["good", "acme/new:1"]);
    served.kill();

    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(ids(&served).await, ["good", "acme/new:1"]);
    let arm = served.get("/v1/arms").await.1["arms"][1].clone();
    assert_eq!((&arm["input_usd_per_1m"], &arm["enabled"]), (&json!(7.0), &json!(false)));
    // The removed arm's statistics wait for it under its name.
    let back = json!({"id": "bad", "kind": "scripted", "default_skill": 0.0});
    let (_, arm) = served.post("/v1/arms", &back).await;
    assert!(arm["rounds"].as_f64() > Some(0.0), "{arm}");
}

#[tokio::test]
async fn arms_that_cannot_be_are_refused_with_the_key_that_is_wrong() {
    let served = Served::new(CONFIG);
    for (arm, word) in [
        (json!({"kind": "scripted", "default_skill": 0.5}), "id"),
        (json!({"id": "x", "kind": "magic"}), "magic"),
        (json!({"id": "x", "kind": "scripted", "default_skill": 2.0}), "default_skill"),
        (json!({"id": "x", "kind": "openai", "base_url": "ftp://x", "model": "m"}), "base_url"),
        (
            json!({"id": "x", "kind": "openai", "base_url": "http://x/v1", "model": "m", "api_key_env": "NOT_SET"}),
            "NOT_SET",
        ),
    ] {
        let (status, problem) = served.post("/v1/arms", &arm).await;
        assert_eq!(status, 422, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    let (status, problem) = served.post("/v1/arms", &json!([1])).await;
    assert!(status == 400 && problem["detail"].as_str().unwrap().contains("an object"), "{problem}");
    assert_eq!(patch(&served, "good", json!({})).await.0, 422);
    assert_eq!(patch(&served, "good", json!({"input_usd_per_1m": -1.0})).await.0, 422);
    assert_eq!(patch(&served, "nobody", json!({"enabled": false})).await.0, 422);
    assert_eq!(delete(&served, "bad").await, 204);
    assert_eq!(delete(&served, "good").await, 409, "one arm must be left");
}

#[tokio::test]
async fn a_task_gets_only_arms_that_fit_it_and_is_told_when_none_does() {
    let config = CONFIG.replace("default_skill = 0.0", "default_skill = 0.0\ncapabilities = [\"vision\", \"tools\"]");
    let served = Served::new(&config);
    let with = |constraints: Value| {
        let mut task = sum(1, 2);
        task["constraints"] = constraints;
        task
    };
    let (_, route) = served.post("/v1/route", &with(json!({"needs": ["vision"]}))).await;
    assert_eq!((route["arm"].as_str(), route["reason"].as_str()), (Some("bad"), Some("forced")), "{route}");
    let (_, route) = served.post("/v1/route", &with(json!({"cost_usd_max": 1e-9}))).await;
    assert_eq!(route["arm"], "bad", "only the one without a price is cheap enough: {route}");
    let (_, why) = served.get(&format!("/v1/decisions/{}", route["decision_id"].as_str().unwrap())).await;
    assert_eq!(why["context"]["masked"], json!([{"arm": "good", "why": "too_dear"}]));
    let (status, problem) = served.post("/v1/route", &with(json!({"needs": ["audio"]}))).await;
    assert_eq!(status, 422);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("good cannot do audio") && detail.contains("bad cannot do audio"), "{detail}");
    for arm in ["good", "bad"] {
        patch(&served, arm, json!({"enabled": false})).await;
    }
    let (status, problem) = served.post("/v1/tasks", &sum(1, 2)).await;
    assert_eq!(status, 503);
    assert!(problem["detail"].as_str().unwrap().contains("good is disabled"), "{problem}");
}

#[tokio::test]
async fn an_arm_that_keeps_failing_rests_and_is_taken_all_the_same_when_there_is_no_other() {
    // Nothing listens on the port, so every call fails at once.
    let config = format!(
        "{CONFIG}\n[[arms]]\nid = \"down\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n"
    );
    let served = Served::new(&config);
    let mut only = sum(1, 2);
    only["constraints"] = json!({"arms": ["down"]});
    for _ in 0..5 {
        assert_eq!(served.post("/v1/tasks", &only).await.0, 502);
    }
    let (_, route) = served.post("/v1/route", &sum(3, 4)).await;
    assert_eq!(route["pmf"].as_array().unwrap().len(), 2, "{route}");
    let (_, route) = served.post("/v1/route", &only).await;
    assert_eq!((&route["arm"], &route["reason"]), (&json!("down"), &json!("fallback")), "{route}");
    assert_eq!(route["propensity"], 1.0);
    assert!(served.get("/v1/arms").await.1["arms"][2]["resting"].as_bool().unwrap());
}

#[tokio::test]
async fn a_policy_whose_arm_was_removed_falls_back_with_its_true_probability() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[policy]\nname = \"fixed:good\"\n{CONFIG}\n[[arms]]\nid = \"c\"\nkind = \"scripted\"\ndefault_skill = 0.5\n"
    );
    let served = Served::in_folder(&config, folder.path());
    let (_, route) = served.post("/v1/route", &sum(1, 2)).await;
    assert_eq!((&route["arm"], &route["propensity"]), (&json!("good"), &json!(1.0)));
    assert_eq!(delete(&served, "good").await, 204);
    let falls_back = async |served: &Served| {
        let (_, route) = served.post("/v1/route", &sum(1, 2)).await;
        assert_eq!((&route["reason"], &route["propensity"]), (&json!("fallback"), &json!(0.5)), "{route}");
    };
    falls_back(&served).await;
    served.kill();
    falls_back(&Served::in_folder(&config, folder.path())).await;
}

#[tokio::test]
async fn a_session_keeps_its_arm() {
    let config = format!("{CONFIG}\n[[arms]]\nid = \"good too\"\nkind = \"scripted\"\ndefault_skill = 1.0\n");
    let served = Served::new(&config.replace("good too", "good-too"));
    let route = async |session: Option<String>| {
        let mut task = sum(1, 2);
        task["session"] = json!(session);
        served.post("/v1/route", &task).await.1
    };
    let (mut stayed, rounds) = (0, 60);
    for session in 0..rounds {
        let first = route(Some(format!("s{session}"))).await;
        let second = route(Some(format!("s{session}"))).await;
        if first["arm"] == second["arm"] {
            stayed += 1;
        }
    }
    // Nothing is known, so no switch is worth its cost: .01 of the rounds explore.
    assert!(stayed >= rounds - 4, "{stayed} of {rounds}");
    let (_, why) =
        served.get(&format!("/v1/decisions/{}", route(Some("s1".into())).await["decision_id"].as_str().unwrap())).await;
    assert!(why["context"]["session_last"]["arm"].is_string(), "{}", why["context"]);
    assert!(why["decision"]["propensity"].as_f64() > Some(0.9) || why["decision"]["reason"] == "explore", "{why}");
}

#[tokio::test]
async fn tenants_have_their_own_reward_and_weak_feedback_counts_for_less() {
    let served = Served::new(&format!("[tenants.thrifty]\nreward = {{ e1 = 0.5, e2 = -10.0 }}\n{CONFIG}"));
    let mut task = sum(4, 4);
    task["tenant"] = json!("thrifty");
    let (_, route) = served.post("/v1/route", &task).await;
    let id = route["decision_id"].clone();
    let (_, why) = served.get(&format!("/v1/decisions/{}", id.as_str().unwrap())).await;
    assert_eq!((&why["context"]["reward"]["e1"], &why["context"]["reward"]["e2"]), (&json!(0.5), &json!(-10.0)));
    task["tenant"] = json!("nobody");
    let (status, problem) = served.post("/v1/route", &task).await;
    assert_eq!(status, 422);
    assert!(problem["detail"].as_str().unwrap().contains("the tenants are: thrifty"), "{problem}");

    let say = async |body: Value| served.post("/v1/feedback", &body).await;
    let (status, thumb) = say(json!({"decision_id": id, "source": "thumbs", "score": 1.0, "cost_usd": 0.01})).await;
    assert_eq!((status, &thumb["learnt"], &thumb["trust"]), (200, &json!(true), &json!(0.25)), "{thumb}");
    let (_, again) = say(json!({"decision_id": id, "source": "thumbs", "score": 0.0})).await;
    assert_eq!((&again["status"], &again["learnt"]), (&json!("duplicate"), &json!(false)));
    let (_, judge) = say(json!({"decision_id": id, "source": "judge", "score": 0.0})).await;
    assert_eq!((&judge["status"], &judge["learnt"]), (&json!("stored"), &json!(false)), "one weak lesson a decision");
    let (_, client) = say(json!({"decision_id": id, "score": 0.5, "cost_usd": 0.01})).await;
    assert_eq!((&client["learnt"], &client["reward"]), (&json!(true), &json!(0.15)), "{client}");
    let report = served.learnt(1).await;
    assert_eq!((&report["rounds"], &report["memory"]["entries"]), (&json!(1), &json!(1)), "verified rounds alone");
    let arm = route["arm"].as_str().unwrap();
    let arms = served.get("/v1/arms").await.1["arms"].clone();
    let arm = arms.as_array().unwrap().iter().find(|known| known["id"] == arm).unwrap();
    assert_eq!((&arm["rounds"], &arm["mean_score"]), (&json!(1.25), &json!(0.6)), "{arm}");
    let (status, problem) = say(json!({"decision_id": id, "source": "judge", "output": "8"})).await;
    assert_eq!((status, problem["field"].as_str()), (422, Some("source")), "{problem}");
}
