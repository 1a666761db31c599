//! What lines become, every way in which a log can be wrong, and a log whose truth is known.

use std::{fs, io::Write};

use flate2::{Compression, write::GzEncoder};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::*;
use crate::{
    action::policy::{PolicySettings, build},
    replay::off_policy::Evaluation,
    round::Embedding,
};

/// What is told of one round.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    arm: String,
    arms: Vec<String>,
    pmf: Vec<f64>,
    score: f64,
    propensity: f64,
    domain: String,
    embedding: Embedding,
    prior_mean: f32,
}

fn written(bytes: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.dsjson");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn told(bytes: impl AsRef<[u8]>, costs: Option<CostRange>) -> Result<(DsjsonLog, Vec<Told>), DsjsonError> {
    let (_folder, path) = written(bytes);
    let log = DsjsonLog::open(&path, costs)?;
    let mut rounds = vec![];
    log.tell(
        |_, _| {},
        |logged| {
            let Logged::Verified { decision, round } = logged else { panic!("{logged:?}") };
            let candidates = &round.context.candidates;
            rounds.push(Told {
                arm: decision.arm.to_string(),
                arms: candidates.iter().map(|candidate| candidate.arm.to_string()).collect(),
                pmf: decision.pmf.iter().map(|entry| entry.p).collect(),
                score: round.score,
                propensity: round.propensity,
                domain: round.context.domain.to_string(),
                embedding: round.context.embedding.clone(),
                prior_mean: candidates[0].features.prior_mean,
            });
            ControlFlow::Continue(())
        },
    )?;
    Ok((log, rounds))
}

fn only(line: &Value) -> Told {
    told(line.to_string(), None).unwrap().1.remove(0)
}

fn problem(line: &Value) -> String {
    told(format!("\n{line}\n"), None).unwrap_err().to_string()
}

/// A line as Azure's service wrote them.
fn line() -> Value {
    json!({
        "_label_cost": -0.25, "_label_probability": 0.7, "_label_Action": 3, "_labelIndex": 2,
        "o": [{"v": 0.25, "EventId": "one"}], "Timestamp": "2020-01-02T03:04:05.0000000Z", "Version": "1", "EventId": "one",
        "a": [3, 1, 2], "p": [0.7, 0.2, 0.1], "VWState": {"m": "N/A"},
        "c": {
            "Timestamp": {"day": "monday", "hour": 3}, "user": {"_text": "likes  tea", "age": 42, "paying": true},
            "_multi": [{"i": {"id": "one"}, "j": [{"x": 1}]}, {"i": {"id": "two"}}, {"i": {"id": "three"}}]
        }
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut line = line();
    change(&mut line);
    line
}

fn without(field: &str) -> Value {
    with(|line| drop(line.as_object_mut().unwrap().remove(field)))
}

#[test]
fn a_line_becomes_a_round() {
    let round = only(&line());
    assert_eq!((round.arm.as_str(), round.arms.join(" ").as_str()), ("three", "one two three"));
    assert_eq!((round.score, round.propensity), (0.25, 0.7));
    let pmf: Vec<_> = round.pmf.iter().map(|p| (p * 1e9).round() / 1e9).collect();
    assert_eq!((pmf, round.domain.as_str()), (vec![0.2, 0.1, 0.7], "unknown"));
    assert_eq!(round.embedding.as_slice().len(), DIMENSION);
    // Either name of the action alone, the older name of p, and no label of a probability.
    for field in ["_label_Action", "_labelIndex", "_label_probability"] {
        assert_eq!(only(&without(field)), round, "{field}");
    }
    let underscored = with(|line| {
        line["_p"] = line["p"].take();
        line["p"] = Value::Null;
    });
    assert_eq!(only(&underscored), round);
    // Without either the first of the list was taken.
    let neither = with(|line| {
        line["_label_Action"] = Value::Null;
        line["_labelIndex"] = Value::Null;
    });
    assert_eq!(only(&neither).arm, "three");
    // Thirty-two bits, and an action that could not be taken.
    let rounded = with(|line| line["p"] = json!([0.700_000_05, 0.199_999_9, 0.1]));
    assert!((only(&rounded).pmf.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let fewer = with(|line| {
        line["a"] = json!([3, 1]);
        line["p"] = json!([0.7, 0.3]);
    });
    assert_eq!(only(&fewer).arms, ["one", "three"]);
}

#[test]
fn arms_are_named_by_what_tells_them_apart_and_else_by_position() {
    let named = |actions: Value| {
        let line = with(|line| {
            line["c"]["_multi"] = actions;
        });
        only(&line).arms.join(" ")
    };
    assert_eq!(named(json!([{"Id": 7}, {"Id": 8}, {"Id": 9}])), "7 8 9");
    assert_eq!(named(json!([{"name": {"red": 1}}, {"name": {"blue": 1}}, {"name": {"k": "green"}}])), "red blue green");
    assert_eq!(
        named(json!([{"Arm": {"arm": "a", "mode": "single"}}, {"Arm": {"arm": "b"}}, {"Arm": {"arm": "c"}}])),
        "a b c"
    );
    assert_eq!(named(json!([{"_tag": "x"}, {"_tag": "y"}, {"_tag": "z"}])), "x y z");
    assert_eq!(named(json!([{"id": "a b"}, {"id": "c?"}, {"id": "d"}])), "a_b c_ d");
    // One without, the same name twice, none at all.
    for actions in [
        json!([{"id": 1}, {"id": 2}, {"x": 2}]),
        json!([{"name": "a"}, {"name": "a"}, {"name": "b"}]),
        json!([1, 2, 3]),
    ] {
        assert_eq!(named(actions), "action-1 action-2 action-3");
    }
}

#[test]
fn actions_of_one_id_are_one_arm() {
    let long = |end: &str| format!("https://example.org/{}/{end}", "x".repeat(150));
    let twice = with(|line| {
        line["c"]["_multi"] = json!([{"id": long("a")}, {"id": long("b")}, {"id": long("a")}]);
    });
    let round = only(&twice);
    assert_eq!((round.arms.len(), round.arm == round.arms[0], round.arms[0].len()), (2, true, 128));
    let sums: Vec<_> = round.pmf.iter().map(|p| (p * 1e9).round() / 1e9).collect();
    assert_eq!((sums, (round.propensity * 1e9).round() / 1e9), (vec![0.9, 0.1], 0.9));
}

#[test]
fn shared_features_become_the_embedding_and_the_domain() {
    let of = |shared: Value| {
        only(&with(|line| {
            for (name, value) in shared.as_object().unwrap() {
                line["c"][name] = value.clone();
            }
        }))
    };
    let same = of(json!({}));
    assert_eq!(same.embedding, only(&line()).embedding);
    // Every kind of value counts, names that begin with an underscore and falsehoods do not.
    for shared in
        [json!({"x": 0.5}), json!({"x": "word"}), json!({"x": true}), json!({"x": [0.1, 2]}), json!({"x": [{"y": 1}]})]
    {
        assert_ne!(of(shared.clone()).embedding, same.embedding, "{shared}");
    }
    assert_eq!(of(json!({"_x": 0.5, "y": false, "z": null})).embedding, same.embedding);
    // Distances follow what is shared, and a time stamp does not drown the rest.
    let near = |a: Value, b: Value| of(a).embedding.cosine(&of(b).embedding);
    assert!(near(json!({"x": "a"}), json!({"x": "a"})) > near(json!({"x": "a"}), json!({"x": "b"})));
    assert!(near(json!({"t": 1_600_000_000}), json!({"t": 1_700_000_000})) > 0.999);
    // Nothing shared is still a vector.
    let bare = with(|line| line["c"] = json!({"_multi": [{}, {}, {}]}));
    assert_eq!(only(&bare).embedding.as_slice()[DIMENSION - 1], 1.0);
    assert_eq!(of(json!({"Domain": {"domain": "Math & Logic"}})).domain, "math___logic");
    assert_eq!(of(json!({"dimension": "code"})).domain, "code");
    assert_eq!(of(json!({"Embedding": [3.0, 4.0]})).embedding.as_slice(), [0.6, 0.8]);
    let known = with(|line| line["c"]["_multi"][0]["Features"] = json!({"prior_mean": 0.5, "cost_usd": 0.1}));
    assert_eq!(only(&known).prior_mean, 0.5);
}

#[test]
fn costs_are_scores_by_their_range() {
    let log = |costs: &[f64]| {
        let lines = costs.iter().map(|cost| with(|line| line["_label_cost"] = json!(cost)).to_string() + "\r\n");
        String::from("\u{feff}") + &lines.collect::<String>()
    };
    let scores = |costs: &[f64], range| -> Vec<f64> {
        told(log(costs), range).unwrap().1.iter().map(|round| round.score).collect()
    };
    assert_eq!(scores(&[0.0, -1.0, -0.25], None), [0.0, 1.0, 0.25]);
    assert_eq!(scores(&[0.0, 1.0, 0.25], None), [1.0, 0.0, 0.75]);
    assert_eq!(scores(&[0.0, 0.0], None), [0.0, 0.0]);
    assert_eq!(scores(&[-3.0, 1.0], Some(CostRange { low: -3.0, high: 5.0 })), [1.0, 0.5]);
    for (costs, range) in
        [(vec![-0.5, 0.5], None), (vec![0.0, -7.0], None), (vec![0.0, 2.0], Some(CostRange { low: -1.0, high: 1.0 }))]
    {
        let error = told(log(&costs), range).unwrap_err().to_string();
        let column = log(&costs).lines().nth(1).unwrap().find("\"_label_cost\"").unwrap() + 1;
        assert!(
            error.contains(&format!("log.dsjson:2:{column}: ")) && error.contains("--cost-range LOW,HIGH"),
            "{error}"
        );
    }
}

#[test]
fn lines_that_are_no_rounds_are_counted() {
    let unlabelled = without("_label_cost");
    let skipped = with(|line| line["_skipLearn"] = json!(true));
    let reward = json!({"EventId": "one", "RewardValue": 1.0});
    let empty = with(|line| line["a"] = json!([]));
    let text = format!("{unlabelled}\n\n{skipped}\n{reward}\n{empty}\n{}\n", with(|line| line["pdrop"] = json!(0.5)));
    let (log, rounds) = told(text, None).unwrap();
    let counts = DsjsonCounts { rounds: 1, unlabelled: 1, not_to_learn: 1, without_actions: 2, dropped_share: 0.5 };
    assert_eq!((log.counts(), rounds.len()), (&counts, 1));
    let error = told(unlabelled.to_string(), None).unwrap_err().to_string();
    assert!(error.contains("no round with a cost: 1 lines have none"), "{error}");
}

#[test]
fn every_problem_is_told_with_its_place() {
    let set = |field: &str, value: Value| with(|line| line[field] = value);
    let cases = [
        (set("p", json!([0.7, 0.2, 0.2])), "p sums to 1.1"),
        (set("p", json!([0.7, 0.3])), "p has 2 entries, a has 3"),
        (set("p", json!([0.7, 1.3, -1.0])), "not from 0 to 1"),
        (set("p", json!([0.2, 0.7, 0.1])), "_label_probability is 0.7, but p gives what was taken 0.2"),
        (set("p", json!([0.0, 0.9, 0.1])), "the probability 0 of what was taken"),
        (set("_label_probability", json!(0.0)), "the probability 0 of what was taken"),
        (set("_label_probability", json!(1.5)), "the probability 1.5 of what was taken"),
        (set("_label_Action", json!(4)), "_label_Action names action 4 (from 1), but there are 3"),
        (set("_labelIndex", json!(3)), "_labelIndex names action 4 (from 1), but there are 3"),
        (set("_labelIndex", json!(0)), "_labelIndex is 0 (from 0), but _label_Action is 3 (from 1)"),
        (set("a", json!([3, 1, 4])), "a names action 4"),
        (set("a", json!([3, 0, 1])), "a names action 0"),
        (set("a", json!([3, 1, 1])), "a names action 1 twice"),
        (set("pdrop", json!(1.0)), "pdrop is 1"),
        (set("_outcomes", json!([])), "_outcomes belongs to decisions of several slots"),
        (set("_label_cost", json!("cheap")), "is no decision-service JSON"),
        (set("c", json!({"x": 1})), "_multi is missing"),
        (without("c"), "c is missing"),
        (without("p"), "p is missing: without the probabilities"),
    ];
    for (line, words) in cases {
        let error = problem(&line);
        let place = error.split("log.dsjson:").nth(1).unwrap_or_else(|| panic!("{error}"));
        assert!(place.starts_with("2:") && error.contains(words), "{error} has not {words}");
    }
    let neither = with(|line| {
        line.as_object_mut().unwrap().remove("p");
        line.as_object_mut().unwrap().remove("_label_probability");
    });
    assert!(problem(&neither).contains("p and _label_probability are missing: without the probabilities"));
    // The place of a field is that at the top, not that of a feature of the same name.
    let twice = with(|line| {
        line["c"]["p"] = json!("p\\\":");
        line["p"] = json!([0.7, 0.3]);
    });
    let (text, error) = (twice.to_string(), problem(&twice));
    let column = text.rfind("\"p\":[0.7").unwrap() + 1;
    assert!(error.contains(&format!("log.dsjson:2:{column}: p has")), "{error}");
    let error = told(format!("{}\n{{\"a\": [1,,]}}\n", line()), None).unwrap_err().to_string();
    assert!(error.contains("log.dsjson:2:10: ") && error.contains("is no decision-service JSON"), "{error}");
    let error = told([line().to_string().as_bytes(), b"\n\xff"].concat(), None).unwrap_err().to_string();
    assert!(error.contains("log.dsjson:2:1: is not UTF-8"), "{error}");
}

#[test]
fn lines_have_to_agree() {
    let two = |change: fn(&mut Value)| told(format!("{}\n{}\n", line(), with(change)), None).unwrap_err().to_string();
    let error = two(|line| line["pdrop"] = json!(0.9));
    assert!(error.contains(":2:") && error.contains("pdrop is 0.9 here and 0 before"), "{error}");
    let error = two(|line| line["c"]["Embedding"] = json!([1.0, 2.0]));
    assert!(error.contains(":2:") && error.contains("Embedding has 2 numbers here and 64 before"), "{error}");
}

#[test]
fn a_compressed_log_is_read_and_one_that_is_cut_off_is_told() {
    let text = (0..200).map(|n| with(|line| line["EventId"] = json!(n)).to_string() + "\n").collect::<String>();
    let mut encoder = GzEncoder::new(vec![], Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    assert_eq!(told(&whole, None).unwrap().1, told(&text, None).unwrap().1);
    let error = told(&whole[..whole.len() / 2], None).unwrap_err();
    assert!(matches!(error, DsjsonError::CutOff { lines: 1.., .. }), "{error}");
    assert!(error.to_string().contains("is cut off after line"), "{error}");
    assert!(matches!(DsjsonLog::open(Path::new("nowhere"), None).unwrap_err(), DsjsonError::Io { .. }));
}

#[test]
fn policies_are_evaluated_on_it_as_on_a_journal() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let success = [0.8, 0.5, 0.2];
    let mut text = String::new();
    for _ in 0..4_000 {
        let uniform: f64 = rng.random();
        let taken = if uniform < 0.2 {
            0
        } else if uniform < 0.5 {
            1
        } else {
            2
        };
        let others: Vec<usize> = (0..3).filter(|place| *place != taken).collect();
        let p = [0.2, 0.3, 0.5];
        let example = with(|line| {
            line["a"] = json!([taken + 1, others[0] + 1, others[1] + 1]);
            line["p"] = json!([p[taken], p[others[0]], p[others[1]]]);
            line["_label_probability"] = json!(p[taken]);
            line["_labelIndex"] = json!(taken);
            line["_label_Action"] = json!(taken + 1);
            line["_label_cost"] = json!(-i32::from(rng.random_bool(success[taken])));
        });
        text += &(example.to_string() + "\n");
    }
    let (_folder, path) = written(text);
    let log = DsjsonLog::open(&path, None).unwrap();
    let settings = PolicySettings::default();
    for (policy, truth) in [("fixed:one", 0.8), ("fixed:three", 0.2), ("uniform", 0.5)] {
        let mut evaluation = Evaluation::new(policy, &|| build(policy, &settings).unwrap());
        log.tell(
            |_, _| {},
            |logged| {
                evaluation.take(logged).unwrap();
                ControlFlow::Continue(())
            },
        )
        .unwrap();
        let report = evaluation.report();
        assert_eq!((report.rounds, report.refused.rounds, report.miscalibrated.len()), (4_000, 0, 0));
        for estimate in [&report.ips, &report.snips, &report.dr] {
            assert!(estimate.interval.unwrap().contains(truth), "{policy}: {estimate:?}");
        }
        assert!((report.dr.value.unwrap() - truth).abs() < 0.06, "{policy}: {:?}", report.dr);
    }
}
