//! What the pages read: figures of now, by time and of one domain, the live stream, the map of memory and saved replays; and that
//! all of it is there again after a restart.

use serde_json::{Value, json};

use crate::served::{CONFIG, Served, ndjson, output, pointsman, sum};

/// A watcher of `/v1/events`.
pub struct Watched {
    response: reqwest::Response,
    rest: String,
}

impl Watched {
    /// Begins to watch, after an event that was seen where one is given.
    pub async fn new(served: &Served, last: Option<i64>) -> Self {
        let mut request = reqwest::Client::new().get(format!("{}/v1/events", served.url));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        Self { response: request.send().await.unwrap(), rest: String::new() }
    }

    /// The next event of a name: its id and its data.
    pub async fn next(&mut self, name: &str) -> (Option<i64>, Value) {
        loop {
            while let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                if field("event: ").as_deref() == Some(name) {
                    let data = serde_json::from_str(&field("data: ").unwrap()).unwrap();
                    return (field("id: ").map(|id| id.parse().unwrap()), data);
                }
            }
            let chunk = self.response.chunk().await.unwrap().expect("the stream is endless");
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

/// What must not differ between two looks at the same journal.
async fn figures(served: &Served) -> [Value; 4] {
    let (_, mut overview) = served.get("/v1/overview").await;
    for varying in ["at_ms", "uptime_s", "memory"] {
        overview.as_object_mut().unwrap().remove(varying);
    }
    let mut parts = vec![overview];
    for path in ["/v1/overview?domain=math", "/v1/history?domain=math", "/v1/domains/math"] {
        let (status, mut part) = served.get(path).await;
        assert_eq!(status, 200, "{path}: {part}");
        for varying in ["at_ms", "uptime_s", "memory"] {
            part.as_object_mut().unwrap().remove(varying);
        }
        parts.push(part);
    }
    parts.try_into().unwrap()
}

#[tokio::test]
async fn figures_of_now_by_time_and_of_a_domain_agree_and_outlive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    served.stream("", ndjson((0..60).map(|n| sum(n, n + 1)))).await;
    served.learnt(60).await;
    let [overview, of_domain, history, domain] = figures(&served).await;
    assert_eq!(
        (&overview["rounds"], &overview["kind"], &overview["arms_total"]),
        (&json!(60), &json!("exact"), &json!(2))
    );
    assert_eq!(overview["recent"]["rounds"], 60);
    assert_eq!(overview["alerts"], json!([]), "nothing is the matter");
    assert_eq!(of_domain["domains"].as_array().unwrap().len(), 1);
    let points = history["points"].as_array().unwrap();
    let total = |key: &str| points.iter().map(|point| point[key].as_f64().unwrap()).sum::<f64>();
    assert_eq!((total("rounds"), &history["before"]["rounds"]), (60.0, &json!(0)));
    assert!((total("reward") - overview["reward_sum"].as_f64().unwrap()).abs() < 1e-9);
    assert!((total("regret") - overview["cum_regret"].as_f64().unwrap()).abs() < 1e-9);
    assert_eq!(history["arms"], json!(["bad", "good"]));
    let good = &domain["arms"][0];
    assert_eq!((&good["arm"], &good["state"]), (&json!("good"), &json!("active")));
    let (low, mean, high) = (&good["posterior"]["low"], &good["posterior"]["mean"], &good["posterior"]["high"]);
    assert!(low.as_f64() < mean.as_f64() && mean.as_f64() < high.as_f64() && mean.as_f64().unwrap() > 0.6, "{good}");
    let verifiers = domain["verifiers"].as_array().unwrap();
    assert!(verifiers.iter().all(|verifier| verifier["runs"] == 60 && verifier["removed"] == false), "{verifiers:?}");
    assert!(verifiers.iter().any(|verifier| verifier["recent"]["duration_us_p50"].as_u64() > Some(0)));
    let weights = domain["weights"]["points"].as_array().unwrap();
    assert_eq!(weights.last().unwrap()["round"], 60);

    // From the journal alone, and from a checkpoint.
    served.kill();
    let served = Served::in_folder(CONFIG, folder.path());
    let again = figures(&served).await;
    assert_eq!(again, [overview.clone(), of_domain.clone(), history.clone(), domain.clone()]);
    assert!(served.stop().success());
    let served = Served::in_folder(CONFIG, folder.path());
    assert_eq!(figures(&served).await, [overview, of_domain, history, domain]);
}

#[tokio::test]
async fn a_watcher_that_comes_again_gets_what_it_missed_after_a_restart_too() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::in_folder(CONFIG, folder.path());
    let mut watched = Watched::new(&served, None).await;
    served.post("/v1/tasks", &sum(1, 2)).await;
    let (first, round) = watched.next("round").await;
    assert_eq!((&round["prompt_head"], first), (&json!("What is 1 plus 2?"), round["seq"].as_i64()));
    let (id, pushed) = watched.next("figures").await;
    assert!(id.is_none() && pushed["rounds"].as_u64() <= Some(1) && pushed["alerts"].is_array(), "{pushed}");
    for n in 2..5 {
        served.post("/v1/tasks", &sum(n, n)).await;
    }
    served.learnt(4).await;
    served.kill();
    let served = Served::in_folder(CONFIG, folder.path());
    let mut watched = Watched::new(&served, first).await;
    for n in 2..5 {
        let (_, round) = watched.next("round").await;
        assert_eq!((&round["prompt_head"], &round["round"]), (&json!(format!("What is {n} plus {n}?")), &json!(n)));
    }
    // A number of another journal's is no reason to hide anything.
    let (oldest, _) = Watched::new(&served, Some(i64::MAX)).await.next("round").await;
    assert_eq!(oldest, first);
}

#[tokio::test]
async fn the_map_of_memory_has_a_point_for_each_entry_and_none_at_first() {
    let served = Served::new(CONFIG);
    let (_, empty) = served.get("/v1/memory/map").await;
    assert_eq!((&empty["entries"], &empty["points"]["x"]), (&json!(0), &json!([])));
    served.stream("", ndjson((0..20).map(|n| sum(n, 2 * n)))).await;
    served.learnt(20).await;
    let (_, map) = served.get("/v1/memory/map?points=500").await;
    let count = |key: &str| map["points"][key].as_array().unwrap().len();
    for column in ["seq", "x", "y", "domain", "arm", "score", "at_ms", "task"] {
        assert_eq!(count(column), 20, "{column}");
    }
    assert!(map["points"]["x"].as_array().unwrap().iter().all(|x| x.as_f64().is_some_and(f64::is_finite)));
    assert_eq!(map["domains"], json!(["math"]));
    for wrong in ["points=0", "points=5001", "points=x", "size=3"] {
        assert!((400..=422).contains(&served.get(&format!("/v1/memory/map?{wrong}")).await.0), "{wrong}");
    }
}

#[tokio::test]
async fn places_that_are_not_there_say_so() {
    let served = Served::new(CONFIG);
    assert_eq!(served.get("/v1/overview").await.1["rounds"], 0);
    let (status, empty) = served.get("/v1/domains/math").await;
    assert_eq!((status, &empty["rounds"], empty["arms"].as_array().unwrap().len()), (200, &json!(0), 2));
    assert_eq!(served.get("/v1/history?domain=math").await.1["points"], json!([]));
    for path in ["/v1/domains/nowhere", "/v1/overview?domain=nowhere", "/v1/history?domain=nowhere"] {
        let (status, problem) = served.get(path).await;
        assert_eq!((status, &problem["status"]), (422, &json!(422)), "{path}");
        assert!(problem["detail"].as_str().unwrap().contains("math"), "it names those that there are: {problem}");
    }
    for path in
        ["/v1/history?from_ms=5&to_ms=4", "/v1/history?from_ms=now", "/v1/reports/..%2Fcheckpoint", "/v1/domains/A%20B"]
    {
        assert!((400..=422).contains(&served.get(path).await.0), "{path}");
    }
    assert_eq!(served.get("/v1/reports/none").await.0, 404);
    assert_eq!(served.get("/dashboard/static/nothing.js").await.0, 404);
}

#[tokio::test]
async fn a_replay_that_was_saved_is_on_the_page_of_the_daemon_whose_folder_was_named() {
    let served = Served::new(CONFIG);
    assert_eq!(served.get("/v1/reports").await, (200, json!([])));
    crate::datasets::written(&served.folder, "1.0");
    let dataset = served.folder.join("table.csv");
    let mut command = pointsman();
    command
        .arg("replay")
        .arg("--dataset")
        .arg(&dataset)
        .args(["--policy", "uniform", "--seeds", "2", "--save", "first"]);
    let (status, _, said) = output(command.arg("--data-dir").arg(served.folder.join("data")));
    assert!(status.success(), "{said}");
    assert!(said.contains("first.json"), "{said}");
    let (_, listed) = served.get("/v1/reports").await;
    assert_eq!(
        (&listed[0]["name"], &listed[0]["sections"], &listed[0]["problem"]),
        (&json!("first"), &json!(1), &Value::Null)
    );
    let (_, report) = served.get("/v1/reports/first").await;
    let rows = report["sections"][0]["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["policy"] == "uniform" && row["kind"] == "replayed"), "{report}");
    let (status, _, said) = output(pointsman().arg("replay").arg("--dataset").arg(&dataset).args(["--save", "../x"]));
    assert!(!status.success() && said.contains("no report's name"), "{said}");
}
