//! `/v1/tasks/stream`: order, per-line problems, length.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio_stream::wrappers::ReceiverStream;

use crate::served::{CONFIG, Served, ndjson, sum};

#[tokio::test]
async fn bad_lines_answer_with_problems_and_the_stream_goes_on() {
    let served = Served::new(CONFIG);
    let long = format!("{{\"prompt\": \"{}\"}}\n", "x".repeat(9 << 20));
    let mut body = Vec::new();
    body.extend(ndjson([sum(1, 2)]).bytes());
    body.extend(b"{\"prompt\": \n");
    body.extend(b"\n");
    body.extend(b"{\"prompt\": \"caf\xe9\"}\n");
    body.extend(b"{\"prompt\": 7}\n");
    body.extend(b"{\"prompt\": \"hi\", \"colour\": \"red\"}\n");
    body.extend(b"{\"prompt\": \"hi\", \"domain\": \"poetry\"}\n");
    body.extend(b"{\"prompt\": \"hi\", \"constraints\": {\"arms\": [\"ugly\"]}}\n");
    body.extend(long.bytes());
    body.extend(b"{\"prompt\": \"   \"}\n");
    body.extend(b"[1, 2]\n");
    body.extend(ndjson([sum(3, 4)]).trim_end().bytes());
    let answers = served.stream("?order=input", body).await;
    let summary: Vec<_> = answers
        .iter()
        .map(|answer| {
            let what = match answer.get("problem") {
                Some(problem) => problem["type"].as_str().unwrap().trim_start_matches("urn:pointsman:problem:"),
                None => answer["status"].as_str().unwrap(),
            };
            format!("{} {what}", answer["line"])
        })
        .collect();
    assert_eq!(
        summary,
        [
            "1 done",
            "2 invalid-json",
            "4 invalid-utf8",
            "5 invalid-json",
            "6 invalid-json",
            "7 unknown-domain",
            "8 unknown-arm",
            "9 too-large",
            "10 invalid-request",
            "11 invalid-json",
            "12 done",
        ]
    );
    let detail = |index: usize| answers[index]["problem"]["detail"].as_str().unwrap().to_owned();
    assert!(detail(3).starts_with("prompt: "), "{}", detail(3));
    assert!(detail(4).contains("colour"), "{}", detail(4));
    assert!(detail(5).contains("math, text"), "{}", detail(5));
    assert!(detail(6).contains("good, bad"), "{}", detail(6));
}

#[tokio::test]
async fn answers_come_as_tasks_finish_or_in_input_order() {
    let config = r#"
        [[arms]]
        id = "slow"
        kind = "scripted"
        default_skill = 1.0
        latency_ms = 1500

        [[arms]]
        id = "quick"
        kind = "scripted"
        default_skill = 1.0
    "#;
    let served = Served::new(config);
    let on = |arm: &str, n: u64| {
        let mut task = sum(n, n);
        task["constraints"] = json!({"arms": [arm]});
        task
    };
    let lines = |answers: &[Value]| answers.iter().map(|answer| answer["line"].as_u64().unwrap()).collect::<Vec<_>>();
    let body = || ndjson([on("slow", 1), on("quick", 2), on("quick", 3)]);
    let finished = lines(&served.stream("", body()).await);
    assert_eq!(finished.last(), Some(&1), "{finished:?}");
    assert_eq!(lines(&served.stream("?order=input", body()).await), [1, 2, 3]);
}

#[tokio::test]
async fn an_unknown_order_is_refused() {
    let served = Served::new(CONFIG);
    let (status, problem) = served.post_bytes("/v1/tasks/stream?order=random", "").await;
    assert_eq!(status, 400);
    assert!(problem["detail"].as_str().unwrap().contains("`finished` or `input`"), "{problem}");
    assert!(served.stream("", "").await.is_empty());
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_stream_that_never_ends() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    let (lines, body) = tokio::sync::mpsc::channel::<Result<String, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(ReceiverStream::new(body));
    let request = reqwest::Client::new().post(format!("{}/v1/tasks/stream", served.url)).body(body);
    lines.send(Ok(ndjson([sum(1, 1)]))).await.unwrap();
    let mut answers = request.send().await.unwrap().bytes_stream();
    assert!(answers.next().await.unwrap().is_ok());
    assert!(tokio::task::spawn_blocking(|| served.stop()).await.unwrap().success());
    let said = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!said.contains("did not finish in time"), "{said}");
    // The client had more to send.
    drop(lines);
}

#[tokio::test]
async fn a_stream_that_broke_is_sent_again_and_no_task_is_done_twice() {
    let served = Served::new(CONFIG);
    let keyed = |n: u64| {
        let mut task = sum(n, 9);
        task["idempotency_key"] = json!(format!("line-{n}"));
        task
    };
    let lines = || ndjson((0..60).map(keyed));
    let request = reqwest::Client::new().post(format!("{}/v1/tasks/stream", served.url)).body(lines());
    let mut broken = request.send().await.unwrap();
    let seen = broken.chunk().await.unwrap().unwrap();
    assert!(!seen.is_empty());
    drop(broken);

    // What is still running when it comes again says so, and is asked for once more.
    let answers = async {
        loop {
            let answers = served.stream("?order=input", lines()).await;
            if answers.iter().all(|answer| answer["status"] == "done") {
                return answers;
            }
            let running = answers.iter().filter(|answer| answer["status"] != "done");
            running.for_each(|answer| assert_eq!(answer["problem"]["status"], 409, "{answer}"));
        }
    };
    let answers = tokio::time::timeout(Duration::from_secs(30), answers).await.unwrap();
    assert_eq!(answers.len(), 60);
    assert!(answers.iter().any(|answer| answer["repeated"] == true), "what was answered before is told again");
    assert_eq!(served.learnt(60).await["rounds"], 60, "each task was done once");
}
