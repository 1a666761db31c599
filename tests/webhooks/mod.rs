//! Webhooks: what receivers get, and what becomes of messages when receivers or the daemon fail.

mod receiver;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, output, pointsman, sum};
use receiver::{Got, Receiver, Reply, SECRET, VARIABLE};

const ENV: [(&str, &str); 1] = [(VARIABLE, SECRET)];

fn served(config: &str) -> Served {
    Served::with_env(config, &ENV)
}

fn again(config: &str, folder: &Path) -> Served {
    Served::in_folder_with_env(config, folder, &ENV)
}

/// Streams tasks and returns their decisions.
async fn stream(served: &Served, tasks: impl IntoIterator<Item = Value>) -> BTreeSet<String> {
    let answers = served.stream("", ndjson(tasks)).await;
    answers.iter().map(|answer| answer["decision_id"].as_str().unwrap().to_owned()).collect()
}

fn decisions<'a>(got: impl IntoIterator<Item = &'a Got>) -> BTreeSet<String> {
    got.into_iter().map(Got::decision).collect()
}

/// A webhook as operators see it.
async fn hook(served: &Served, name: &str) -> Value {
    let (status, listed) = served.get("/v1/webhooks").await;
    assert_eq!(status, 200, "{listed}");
    listed["webhooks"].as_array().unwrap().iter().find(|hook| hook["name"] == name).unwrap().clone()
}

/// Waits until a webhook looks as it should; fails after ten seconds.
async fn until(served: &Served, name: &str, looks: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..500 {
        let hook = hook(served, name).await;
        if looks(&hook) {
            return hook;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{:?}", hook(served, name).await);
}

/// The decisions in the order in which they were judged, as the journal has it.
fn judged(folder: &Path) -> Vec<String> {
    let (status, stdout, stderr) =
        output(pointsman().args(["journal", "tail", "-n", "10000", "--json", "--data-dir"]).arg(folder.join("data")));
    assert!(status.success(), "{stderr}");
    let lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone());
    let judged = lines.filter(|event| event["kind"] == "judged");
    judged.map(|event| event["feedback"]["decision_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn receivers_get_signed_messages_in_journal_order_and_only_what_they_are_to_be_told() {
    let (all, some) =
        (Receiver::start(|_, _| Reply::Status(204)).await, Receiver::start(|_, _| Reply::Status(200)).await);
    let config = format!(
        "[tenants.acme]\n[tenants.other]\n{CONFIG}{}{}",
        all.section("all", "events = [\"task.finished\", \"feedback.given\", \"decision.abandoned\"]\ntexts = true"),
        some.section("some", "tenants = [\"acme\"]\ndomains = [\"math\"]"),
    );
    let served = served(&config);
    let task = |n: u64| {
        let mut task = sum(n, 2 * n);
        task["tenant"] = json!(if n.is_multiple_of(3) { "acme" } else { "other" });
        if n.is_multiple_of(4) {
            task["domain"] = json!("text");
        }
        task
    };
    let finished = stream(&served, (0..24).map(task)).await;
    let (_, routed) = served.post("/v1/route", &task(1)).await;
    let said = json!({"decision_id": routed["decision_id"], "score": 1.0, "cost_usd": 0.25});
    assert_eq!(served.post("/v1/feedback", &said).await.0, 200);
    let thumbs = json!({"decision_id": routed["decision_id"], "score": 0.5, "source": "thumbs"});
    assert_eq!(served.post("/v1/feedback", &thumbs).await.0, 200);

    let got = all.until(|got| got.len() >= 27).await;
    assert!(got.iter().all(Got::is_signed), "{got:?}");
    assert_eq!(all.ids().iter().collect::<BTreeSet<_>>().len(), 27, "each has an id of its own");
    let told: Vec<String> = got.iter().filter(|got| got.kind() == "task.finished").map(Got::decision).collect();
    let mut order = judged(&served.folder);
    order.dedup();
    assert_eq!(told, order, "as the journal has it");
    let own = routed["decision_id"].as_str().unwrap();
    assert_eq!(decisions(&got[..24]), finished);
    let of_routed: Vec<_> = got.iter().filter(|got| got.decision() == own).map(Got::kind).collect();
    assert_eq!(of_routed, ["task.finished", "feedback.given", "feedback.given"]);
    let data = got[24].said()["data"].clone();
    assert_eq!((&data["status"], &data["score"], &data["cost_usd"]), (&Value::Null, &json!(1.0), &json!(0.25)));
    let (_, why) = served.get(&format!("/v1/decisions/{}", got[0].decision())).await;
    let data = got[0].said()["data"].clone();
    for (told, known) in [
        (&data["task_id"], &why["task"]["id"]),
        (&data["tenant"], &why["task"]["tenant"]),
        (&data["arm"], &why["decision"]["arm"]),
        (&data["propensity"], &why["decision"]["propensity"]),
        (&data["status"], &json!("done")),
        (&data["score"], &why["feedback"][0]["score"]),
        (&data["reward"], &why["feedback"][0]["reward"]),
        (&data["cost_usd"], &why["outcome"]["cost_usd"]),
        (&data["latency_ms"], &why["outcome"]["latency_ms"]),
        (&data["output"], &why["outcome"]["output"]),
        (&data["messages"], &why["task"]["messages"]),
    ] {
        assert_eq!(told, known, "{data}");
    }

    let expected: BTreeSet<_> =
        (0..24).filter(|n| n % 3 == 0 && n % 4 != 0).map(|n| format!("sum-{n}-{}", 2 * n)).collect();
    let got = some.until(|got| got.len() >= expected.len()).await;
    let told: BTreeSet<_> = got.iter().map(|got| got.said()["data"]["task_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, expected);
    assert!(got.iter().all(|got| got.said()["data"].get("output").is_none()), "texts are not asked for");
    let hook = until(&served, "some", |hook| hook["behind"] == 0).await;
    assert_eq!((&hook["delivered"], &hook["failed"]), (&json!(expected.len()), &json!(0)), "{hook}");
    assert!(!hook.to_string().contains("of-the-query"), "{hook}");
    assert_eq!(some.got().len(), expected.len());
}

#[tokio::test]
async fn a_message_that_is_refused_is_sent_again_while_later_ones_go_on() {
    let others = AtomicUsize::new(0);
    let receiver = Receiver::start(move |got, _| {
        if got.said()["data"]["task_id"] != "sum-0-1" {
            others.fetch_add(1, Ordering::Relaxed);
            return Reply::Status(200);
        }
        // Not taken before all others were.
        if others.load(Ordering::Relaxed) < 5 { Reply::Later(500, 1) } else { Reply::Status(200) }
    })
    .await;
    let served = served(&format!("{CONFIG}{}", receiver.section("books", "")));
    for n in 0..6 {
        stream(&served, [sum(n, 1)]).await;
    }
    let hook = until(&served, "books", |hook| hook["delivered"] == 6 && hook["waiting"] == 0).await;
    let got = receiver.got();
    assert_eq!(decisions(&got).len(), 6, "the others did not wait for it");
    let tried: Vec<_> = got.iter().filter(|got| got.said()["data"]["task_id"] == "sum-0-1").collect();
    assert!(tried.len() >= 2, "{tried:?}");
    assert!(tried.iter().all(|got| got.id() == tried[0].id() && got.body == tried[0].body && got.is_signed()));
    assert_eq!((&hook["given_up"], &hook["next_try_ms"]), (&json!(0), &Value::Null), "{hook}");
    assert_eq!(hook["failed"], tried.len() - 1, "{hook}");
    assert!(
        hook["last_error"].as_str().unwrap().contains("500")
            && hook["last_error"].as_str().unwrap().contains("not now")
    );
}

#[tokio::test]
async fn a_receiver_that_is_away_gets_everything_in_order_later() {
    let away = Arc::new(AtomicBool::new(true));
    let is_away = Arc::clone(&away);
    let receiver =
        Receiver::start(
            move |_, _| {
                if is_away.load(Ordering::Relaxed) { Reply::Later(503, 1) } else { Reply::Status(200) }
            },
        )
        .await;
    let served = served(&format!("{CONFIG}{}", receiver.section("books", "")));
    for n in 0..4 {
        stream(&served, [sum(n, 1)]).await;
    }
    let resting = until(&served, "books", |hook| hook["status"] == "resting").await;
    assert_eq!((&resting["waiting"], resting["next_try_ms"].is_i64()), (&json!(1), true), "{resting}");
    away.store(false, Ordering::Relaxed);
    let got = receiver.until(|got| decisions(got).len() == 4).await;
    let mut told: Vec<_> = got.iter().map(|got| got.said()["data"]["task_id"].as_str().unwrap().to_owned()).collect();
    told.dedup();
    assert_eq!(told, ["sum-0-1", "sum-1-1", "sum-2-1", "sum-3-1"]);
    until(&served, "books", |hook| hook["status"] == "ready" && hook["behind"] == 0).await;
}

#[tokio::test]
async fn a_kill_between_delivery_and_cursor_sends_the_message_again_under_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let receiver =
        Receiver::start(move |_, _| if hanging.load(Ordering::Relaxed) { Reply::Never } else { Reply::Status(200) })
            .await;
    let config = format!("{CONFIG}{}", receiver.section("books", ""));
    let first = again(&config, folder.path());
    let mut acknowledged = stream(&first, (0..5).map(|n| sum(n, 1))).await;
    // It has the message, and the daemon does not know it.
    let got = receiver.until(|got| !got.is_empty()).await;
    first.kill();
    hangs.store(false, Ordering::Relaxed);
    for life in 1..4 {
        let served = again(&config, folder.path());
        acknowledged.extend(stream(&served, (0..20).map(|n| sum(n, 100 * life))).await);
        served.kill();
    }
    let served = again(&config, folder.path());
    let all = receiver.until(|got| acknowledged.is_subset(&decisions(got))).await;
    assert_eq!((all[1].id(), &all[1].body), (got[0].id(), &got[0].body), "the same, again");
    let mut bodies = BTreeMap::new();
    for got in &all {
        assert_eq!(bodies.entry(got.id().to_owned()).or_insert_with(|| got.body.clone()), &got.body);
    }
    assert_eq!(bodies.len(), acknowledged.len(), "what is sent twice has one id");
    assert!(served.stop().success());
}

#[tokio::test]
async fn a_new_webhook_begins_at_the_journals_end_and_a_known_one_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let before = Served::in_folder(CONFIG, folder.path());
    stream(&before, (0..5).map(|n| sum(n, 1))).await;
    assert!(before.stop().success());
    let receiver = Receiver::start(|_, _| Reply::Status(200)).await;
    let config = format!("{CONFIG}{}", receiver.section("books", ""));
    let served = again(&config, folder.path());
    let mut told = stream(&served, [sum(7, 1)]).await;
    receiver.until(|got| !got.is_empty()).await;
    until(&served, "books", |hook| hook["behind"] == 0).await;
    assert!(served.stop().success());
    // Without it, and with it again.
    let without = Served::in_folder(CONFIG, folder.path());
    told.extend(stream(&without, [sum(8, 1)]).await);
    assert!(without.stop().success());
    let served = again(&config, folder.path());
    let got = receiver.until(|got| got.len() >= 2).await;
    assert_eq!(decisions(&got), told);
    until(&served, "books", |hook| hook["behind"] == 0).await;
    assert_eq!(receiver.got().len(), 2, "a stop loses nothing and repeats nothing");
}

#[tokio::test]
async fn redirects_are_refused() {
    let elsewhere = Receiver::start(|_, _| Reply::Status(200)).await;
    let place = elsewhere.url.clone();
    let receiver = Receiver::start(move |_, _| Reply::To(place.clone())).await;
    let served = served(&format!("{CONFIG}{}", receiver.section("books", "")));
    stream(&served, [sum(1, 1)]).await;
    let hook = until(&served, "books", |hook| hook["failed"] == 1 && hook["waiting"] == 1).await;
    assert!(hook["last_error"].as_str().unwrap().contains("redirects are not followed"), "{hook}");
    assert_eq!(hook["delivered"], 0, "{hook}");
    assert!(elsewhere.got().is_empty());
}

#[tokio::test]
async fn a_receiver_that_hangs_holds_up_no_task_no_other_webhook_and_no_stop() {
    let (hung, fine) = (Receiver::start(|_, _| Reply::Never).await, Receiver::start(|_, _| Reply::Status(200)).await);
    let config =
        format!("{CONFIG}{}{}", hung.section("hung", "timeout_ms = 60000"), fine.section("fine", "timeout_ms = 5000"));
    let served = served(&config);
    let finished = stream(&served, (0..40).map(|n| sum(n, 1))).await;
    assert_eq!(decisions(&fine.until(|got| got.len() >= 40).await), finished);
    let hook = hook(&served, "hung").await;
    assert_eq!(hung.got().len(), 1, "one message is on its way");
    assert!(hook["behind"].as_i64().unwrap() > 40, "the rest stays in the journal: {hook}");
    let (_, metrics) = served.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for line in [
        "pointsman_webhook_deliveries_total{webhook=\"fine\",outcome=\"delivered\"} 40",
        "pointsman_webhook_behind{webhook=\"hung\"}",
        "pointsman_webhook_lag_seconds{webhook=\"hung\"}",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    let folder = served.folder.clone();
    assert!(served.stop().success());
    assert!(!std::fs::read_to_string(folder.join("log")).unwrap_or_default().contains("of-the-query"));
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_left_alone_until_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let gone = Arc::new(AtomicBool::new(true));
    let is_gone = Arc::clone(&gone);
    let receiver =
        Receiver::start(move |_, _| Reply::Status(if is_gone.load(Ordering::Relaxed) { 410 } else { 200 })).await;
    let config = format!("{CONFIG}{}", receiver.section("books", ""));
    let served = again(&config, folder.path());
    let mut finished = stream(&served, [sum(1, 1)]).await;
    until(&served, "books", |hook| hook["status"] == "disabled").await;
    finished.extend(stream(&served, (2..6).map(|n| sum(n, 1))).await);
    assert_eq!(receiver.got().len(), 1);
    assert!(served.stop().success());
    assert_eq!(receiver.got().len(), 1, "nothing else was sent");
    gone.store(false, Ordering::Relaxed);
    let served = again(&config, folder.path());
    let got = receiver.until(|got| got.len() >= 6).await;
    assert_eq!(decisions(&got), finished);
    assert_eq!(until(&served, "books", |hook| hook["behind"] == 0).await["delivered"], 5);
}

#[tokio::test]
async fn what_compaction_took_out_is_counted_and_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let away = Arc::new(AtomicBool::new(true));
    let is_away = Arc::clone(&away);
    let receiver =
        Receiver::start(move |_, _| Reply::Status(if is_away.load(Ordering::Relaxed) { 503 } else { 200 })).await;
    let config = format!("{CONFIG}{}", receiver.section("books", ""));
    let served = again(&config, folder.path());
    stream(&served, (0..30).map(|n| sum(n, 1))).await;
    served.learnt(30).await;
    until(&served, "books", |hook| hook["waiting"] == 1).await;
    assert!(served.stop().success());
    let compact = output(
        pointsman()
            .args(["journal", "compact", "--keep", "0", "--keep-rounds", "10", "--data-dir"])
            .arg(folder.path().join("data")),
    );
    assert!(compact.0.success() && compact.1.contains("kept as one state"), "{compact:?}");
    away.store(false, Ordering::Relaxed);
    receiver.until(|got| !got.is_empty()).await;
    let before = receiver.got().len();
    let served = again(&config, folder.path());
    let hook = until(&served, "books", |hook| hook["behind"] == 0 && hook["waiting"] == 0).await;
    assert!(hook["skipped"].as_u64().unwrap() > 30, "{hook}");
    assert_eq!(hook["given_up"], 1, "the one that waited went as well: {hook}");
    let told = receiver.got().len() - before;
    assert!((10..30).contains(&told), "what is still there is told: {told}");
    assert_eq!(hook["delivered"], told, "{hook}");
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("compacted before they were told"), "{log}");
}

#[tokio::test]
async fn a_task_that_another_worker_took_over_is_finished_once() {
    let receiver = Receiver::start(|_, _| Reply::Status(200)).await;
    let gone = "[[arms]]\nid = \"gone\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nretries = 0\n";
    let config = format!("[policy]\nname = \"fixed:gone\"\n{CONFIG}{gone}{}", receiver.section("books", ""));
    let served = served(&config);
    let on = |n: u64, arms: &[&str]| {
        let mut task = sum(n, 1);
        task["constraints"] = json!({"arms": arms});
        task
    };
    let (status, problem) = served.post("/v1/tasks", &on(999, &["gone"])).await;
    assert_eq!(status, 502, "{problem}");
    let failed = receiver.until(|got| !got.is_empty()).await[0].said()["data"].clone();
    assert_eq!(
        (&failed["status"], &failed["score"], &failed["source"]),
        (&json!("failed"), &json!(0.0), &json!("failure"))
    );
    for n in 0..2 {
        let (status, answer) = served.post("/v1/tasks", &on(n, &["gone", "good"])).await;
        assert_eq!((status, &answer["arm"]), (200, &json!("good")), "{answer}");
        let (_, why) = served.get(&format!("/v1/decisions/{}", answer["decision_id"].as_str().unwrap())).await;
        assert!(why["context"]["instead_of"].is_string(), "{why}");
    }
    let got = receiver.until(|got| got.len() > 2).await;
    until(&served, "books", |hook| hook["behind"] == 0).await;
    assert_eq!(receiver.got().len(), 3, "one message for each task");
    assert!(got[1..].iter().all(|got| got.said()["data"]["status"] == "done"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_tried_by_command_and_a_body_is_signed_as_the_daemon_does() {
    let receiver = Receiver::start(|_, before| Reply::Status(if before == 0 { 200 } else { 401 })).await;
    let served = served(&format!("{CONFIG}{}", receiver.section("books", "")));
    let run = |arguments: &[&str]| {
        output(pointsman().arg("webhooks").args(arguments).arg("--data-dir").arg(served.folder.join("data")))
    };
    let (status, stdout, stderr) = run(&["test", "books"]);
    assert!(status.success() && stdout.contains("taken with 200"), "{stdout}{stderr}");
    let got = &receiver.got()[0];
    assert!(got.is_signed() && got.kind() == "webhook.test" && got.path == "/hooks", "{got:?}");
    let (status, stdout, stderr) = run(&["test", "books"]);
    assert!(!status.success() && stdout.contains("answered 401"), "{stdout}{stderr}");
    let (status, _, stderr) = run(&["test", "nobody"]);
    assert!(!status.success() && stderr.contains("there is no webhook nobody; the webhooks are: books"), "{stderr}");
    assert_eq!(served.post("/v1/webhooks/nobody/test", &json!({})).await.0, 404);
    let (status, stdout, stderr) = run(&["list"]);
    assert!(status.success() && stdout.contains("books") && stdout.contains("ready"), "{stdout}{stderr}");

    let body = served.folder.join("body.json");
    std::fs::write(&body, &got.body).unwrap();
    let signed = output(
        pointsman()
            .args(["webhooks", "sign", "--secret-env", VARIABLE, "--id", got.id()])
            .args(["--timestamp", got.header("webhook-timestamp")])
            .arg(body)
            .env(VARIABLE, SECRET),
    );
    assert!(signed.1.contains(&format!("webhook-signature: {}", got.header("webhook-signature"))), "{signed:?}");
    assert_verified_by_the_documented_lines(got);
}

/// The Python of docs/webhooks.md says yes to what came, and no to anything else.
fn assert_verified_by_the_documented_lines(got: &Got) {
    let docs = include_str!("../../docs/webhooks.md");
    let lines = docs.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let program = format!(
        "import json, sys\n{lines}\nsecrets, headers, body = json.load(sys.stdin)\nprint(verify(secrets, headers, body.encode()))"
    );
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: BTreeMap<_, _> = names.map(|name| (name, got.header(name).to_owned())).into();
    let body = std::str::from_utf8(&got.body).unwrap().to_owned();
    let says = |secret: &str, headers: &BTreeMap<&str, String>, body: &str| {
        let mut python = Command::new("python3")
            .args(["-c", &program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        serde_json::to_writer(python.stdin.take().unwrap(), &json!([secret, headers, body])).unwrap();
        String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
    };
    assert_eq!(says(SECRET, &headers, &body), "True");
    let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    assert_eq!(says(other, &headers, &body), "False");
    let both = BTreeMap::from([("webhook-signature", format!("v1,AAAA {}", headers["webhook-signature"]))]);
    let both: BTreeMap<_, _> = headers.clone().into_iter().chain(both).collect();
    assert_eq!(says(SECRET, &both, &body), "True", "one of several is enough");
    assert_eq!(says(SECRET, &headers, &body.replace("webhook.test", "webhook.tess")), "False");
    let old = BTreeMap::from([("webhook-timestamp", "1614265330".to_owned())]);
    let old: BTreeMap<_, _> = headers.into_iter().chain(old).collect();
    assert_eq!(says(SECRET, &old, &body), "False", "an old message is none");
}
