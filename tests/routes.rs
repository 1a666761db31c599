//! The HTTP surface, each route once on its ordinary path.

use serde_json::{Value, json};

use crate::{
    insight::Watched,
    served::{CONFIG, Served, ndjson, sum},
};

#[tokio::test]
async fn a_task_goes_through_the_whole_loop() {
    let served = Served::new(CONFIG);
    let (status, answer) = served.post("/v1/tasks", &sum(19, 23)).await;
    assert_eq!(status, 200, "{answer}");
    let right = answer["arm"] == "good";
    assert_eq!(answer["score"].as_f64().unwrap() > 0.9, right, "{answer}");
    assert!(answer["propensity"].as_f64().unwrap() > 0.0);
    assert_eq!(answer["verdicts"].as_array().unwrap().len(), 3);
    let cost_usd = answer["cost_usd"].as_f64().unwrap();
    let reward = answer["score"].as_f64().unwrap() - 0.1 * cost_usd;
    assert!((answer["reward"].as_f64().unwrap() - reward).abs() < 1e-12);

    let id = answer["decision_id"].as_str().unwrap();
    let (status, why) = served.get(&format!("/v1/decisions/{id}")).await;
    assert_eq!(status, 200);
    assert_eq!(why["task"]["prompt"], "What is 19 plus 23?");
    let pmf = why["decision"]["pmf"].as_array().unwrap();
    let total: f64 = pmf.iter().map(|entry| entry["p"].as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9);
    let of_arm = pmf.iter().find(|entry| entry["arm"] == answer["arm"]).unwrap();
    assert_eq!(of_arm["p"], answer["propensity"]);
    assert!(!why["decision"]["voters"].as_array().unwrap().is_empty());
    assert_eq!(why["outcome"]["output"], answer["output"]);
    assert_eq!(why["feedback"][0]["source"], "verifier");
    let report = served.learnt(1).await;
    assert_eq!(report["kind"], "exact");
    assert_eq!(report["memory"]["entries"], 1);
}

#[tokio::test]
async fn it_learns_which_arm_is_good_and_recalls_similar_tasks() {
    let served = Served::new(CONFIG);
    let answers = served.stream("", ndjson((0..150).map(|n| sum(n, 2 * n + 1)))).await;
    assert_eq!(answers.len(), 150);
    let report = served.learnt(150).await;
    let good = report["arms"].as_array().unwrap().iter().find(|arm| arm["arm"] == "good").unwrap();
    assert!(good["share"].as_f64().unwrap() > 0.75, "{report}");
    let uniform = report["series"].as_array().unwrap().last().unwrap()["uniform"].as_f64().unwrap();
    assert!(report["cum_regret"].as_f64().unwrap() < 0.5 * uniform, "{report}");
    let (_, answer) = served.post("/v1/tasks", &sum(500, 1)).await;
    let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    let neighbours = why["context"]["neighbours"].as_array().unwrap();
    assert_eq!((why["context"]["recall"].as_str(), neighbours.len()), (Some("ok"), 10));
    assert!(neighbours[0]["similarity"].as_f64().unwrap() > 0.5);
}

#[tokio::test]
async fn a_caller_that_runs_the_model_itself_gets_a_decision_and_gives_feedback() {
    let served = Served::new(CONFIG);
    let route = async || {
        let (status, decision) = served.post("/v1/route", &sum(1, 2)).await;
        assert_eq!(status, 200, "{decision}");
        decision["decision_id"].as_str().unwrap().to_owned()
    };
    let scored = route().await;
    let (status, first) = served.post("/v1/feedback", &json!({"decision_id": scored, "score": 0.75})).await;
    assert_eq!((status, &first["status"], &first["learnt"]), (200, &json!("stored"), &json!(true)), "{first}");
    let (_, again) = served.post("/v1/feedback", &json!({"decision_id": scored, "score": 0.1})).await;
    assert_eq!((&again["status"], &again["learnt"]), (&json!("duplicate"), &json!(false)));

    let verified = route().await;
    let body = json!({"decision_id": verified, "output": "It is 3.", "cost_usd": 0.5, "latency_ms": 12.0});
    let (_, judged) = served.post("/v1/feedback", &body).await;
    assert_eq!((&judged["source"], &judged["status"]), (&json!("verifier"), &json!("stored")), "{judged}");
    assert!(judged["score"].as_f64().unwrap() > 0.9);
    assert!((judged["reward"].as_f64().unwrap() - (judged["score"].as_f64().unwrap() - 0.05)).abs() < 1e-12);
    let report = served.learnt(2).await;
    assert_eq!(report["rounds"], 2);

    let late = served.post("/v1/feedback", &json!({"decision_id": verified, "score": 0.0})).await.1;
    assert_eq!((&late["status"], &late["learnt"]), (&json!("stored"), &json!(false)), "a decision is learnt from once");
}

#[tokio::test]
async fn a_repeated_idempotency_key_is_answered_from_the_journal() {
    let served = Served::new(CONFIG);
    let mut task = sum(4, 5);
    task["idempotency_key"] = json!("order-1");
    let (_, first) = served.post("/v1/tasks", &task).await;
    let (_, second) = served.post("/v1/tasks", &task).await;
    assert_eq!((&first["repeated"], &second["repeated"]), (&json!(false), &json!(true)));
    for field in ["decision_id", "arm", "output", "score", "reward"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    let by_header = reqwest::Client::new()
        .post(format!("{}/v1/tasks", served.url))
        .header("Idempotency-Key", "order-1")
        .json(&sum(4, 5))
        .send()
        .await
        .unwrap();
    assert_eq!(by_header.json::<Value>().await.unwrap()["repeated"], true);
    let (status, problem) = served
        .post("/v1/tasks", &{
            let mut other = sum(6, 7);
            other["idempotency_key"] = json!("order-1");
            other
        })
        .await;
    assert_eq!((status, &problem["type"]), (409, &json!("urn:pointsman:problem:idempotency-key-reused")));
    assert_eq!(served.learnt(1).await["rounds"], 1);
}

#[tokio::test]
async fn a_request_can_name_its_arms_and_its_reward() {
    let served = Served::new(CONFIG);
    let mut task = sum(2, 2);
    task["constraints"] = json!({"arms": ["good"], "deadline_ms": 30000.0});
    task["reward"] = json!({"e1": 2.0, "e2": 0.0});
    let (_, answer) = served.post("/v1/tasks", &task).await;
    assert_eq!(
        (&answer["arm"], &answer["reason"], &answer["propensity"]),
        (&json!("good"), &json!("forced"), &json!(1.0))
    );
    assert_eq!(answer["reward"].as_f64().unwrap(), 2.0 * answer["score"].as_f64().unwrap());
}

#[tokio::test]
async fn finished_rounds_are_seen_live() {
    let served = Served::new(CONFIG);
    let mut events = Watched::new(&served, None).await;
    served.post("/v1/tasks", &sum(7, 8)).await;
    let (_, round) = events.next("round").await;
    assert_eq!((&round["prompt_head"], &round["domain"]), (&json!("What is 7 plus 8?"), &json!("math")));
}

#[tokio::test]
async fn operators_tools_and_browsers_find_their_pages() {
    let served = Served::new(CONFIG);
    served.post("/v1/tasks", &sum(1, 1)).await;
    served.learnt(1).await;
    assert_eq!(served.get("/healthz").await, (200, json!("ok\n")));
    assert_eq!(served.get("/readyz").await, (200, json!("ready\n")));
    let (_, Value::String(metrics)) = served.get("/metrics").await else { panic!("metrics are text") };
    for name in ["pointsman_rounds_total", "pointsman_stage_seconds_bucket", "pointsman_verdicts_total"] {
        assert!(metrics.contains(name), "{name} in {metrics}");
    }
    for path in
        ["/dashboard", "/dashboard/domains/math", "/dashboard/static/overview.js", "/dashboard/static/style.css"]
    {
        let response = reqwest::get(format!("{}{path}", served.url)).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'self'"));
        let text = response.text().await.unwrap();
        assert!(!text.contains("//cdn"), "{path} needs the network");
    }
}

#[tokio::test]
async fn a_task_without_domain_gets_the_one_that_it_is_like() {
    let served = Served::new(CONFIG);
    let stories = ["a dragon", "the sea", "a lost key", "two friends", "an old house", "a train", "winter"];
    let stories =
        stories.map(|about| json!({"domain": "text", "prompt": format!("Write a short story about {about}.")}));
    served.stream("", ndjson(stories.into_iter().chain((0..7).map(|n| sum(n, n + 3))))).await;
    served.learnt(14).await;
    for (prompt, domain, found) in [
        ("What is 40 plus 2?", "math", true),
        ("Write a short story about a lighthouse.", "text", true),
        ("colourless green ideas sleep furiously", "unknown", false),
    ] {
        let task = json!({"prompt": prompt, "idempotency_key": prompt});
        let (status, answer) = served.post("/v1/tasks", &task).await;
        assert_eq!((status, &answer["domain"]), (200, &json!(domain)), "{prompt}");
        let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
        assert_eq!(why["context"]["domain_similarity"].is_f64(), found, "{prompt}");
        let (status, again) = served.post("/v1/tasks", &task).await;
        assert_eq!((status, &again["repeated"]), (200, &json!(true)), "the same task is the same request");
    }
    // A named domain is never changed.
    let (_, answer) = served.post("/v1/tasks", &json!({"domain": "text", "prompt": "What is 40 plus 2?"})).await;
    assert_eq!(answer["domain"], "text");
}

#[tokio::test]
async fn an_agents_trappings_do_not_change_what_is_recalled() {
    let served = Served::new(CONFIG);
    let (_, plain) = served.post("/v1/tasks", &sum(17, 25)).await;
    assert_eq!(plain["domain"], "math");
    served.learnt(1).await;
    let chat = json!({"messages": [
        {"role": "system", "content": "You are a coding agent. ".repeat(200)},
        {"role": "user", "content": "What is 17 plus 25?\n<system-reminder>Today is Sunday. Be brief.</system-reminder>"},
    ]});
    let (status, answer) = served.post("/v1/tasks", &chat).await;
    assert_eq!(status, 200, "{answer}");
    let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
    let similarity = why["context"]["neighbours"][0]["similarity"].as_f64().unwrap();
    assert!(similarity > 0.999, "{similarity}");
}

#[tokio::test]
async fn feedback_comes_in_batches_and_a_wrong_item_harms_no_other() {
    let served = Served::new(CONFIG);
    let mut items = vec![];
    for n in 0..5 {
        let (_, routed) = served.post("/v1/route", &sum(n, 3)).await;
        items.push(json!({"decision_id": routed["decision_id"], "score": 0.5}));
    }
    items.insert(2, json!({"decision_id": "none", "score": 0.5}));
    items.insert(4, json!({"score": "high"}));
    let (status, answers) = served.post("/v1/feedback/batch", &json!(items)).await;
    assert_eq!((status, answers.as_array().unwrap().len()), (200, 7), "{answers}");
    for (place, answer) in answers.as_array().unwrap().iter().enumerate() {
        match place {
            2 | 4 => assert!(answer["problem"]["type"].is_string(), "{answer}"),
            _ => assert_eq!(answer["answer"]["status"], "stored", "{answer}"),
        }
    }
    served.learnt(5).await;
    let many = vec![json!({}); 1_001];
    let (status, problem) = served.post("/v1/feedback/batch", &json!(many)).await;
    assert_eq!((status, &problem["type"]), (422, &json!("urn:pointsman:problem:invalid-request")), "{problem}");
}
