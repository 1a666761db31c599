//! Datasets written by hand, good and bad.

use super::*;

const MODELS: &str = r#"{"models": [{"model": "a", "input_per_1m": 1.0, "output_per_1m": 2.0, "size": "7B"},
    {"model": "b", "input_per_1m": 10.0, "output_per_1m": 20.0}]}"#;
const TASKS: &str = concat!(
    r#"{"task_id": "t,1", "split": "train", "dimension": "Math", "source": "s", "prompt": "1+1", "choices": null}"#,
    "\n\n",
    r#"{"task_id": "t2", "split": "train", "dimension": "math", "source": "s", "prompt": null}"#,
    "\n",
    r#"{"task_id": "t3", "split": "test", "dimension": "code", "source": "s", "prompt": "sort"}"#,
    "\n",
);
const RESULTS: &str = concat!(
    "task_id,model,score,cost_usd,measured\n",
    "\"t,1\",a,0.5,0.001,1\n",
    "\"t,1\",b,1,0.01,0\n",
    "t2,a,0,0,1\nt2,b,0,0,1\nt3,a,0,0,1\nt3,b,0,0,1\n",
);

fn folder(models: &str, tasks: &str, results: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("models.json", models), ("tasks.jsonl", tasks), ("results.csv", results)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn reads_quoted_fields_splits_and_counts_what_it_leaves_out() {
    let folder = folder(MODELS, TASKS, RESULTS);
    let dataset = Dataset::read(folder.path(), Some("train")).unwrap();
    assert_eq!((dataset.tasks.len(), dataset.without_prompt, dataset.unmeasured), (2, 1, 1));
    let task = &dataset.tasks[0];
    assert_eq!((task.id.as_str(), task.domain.as_str()), ("t,1", "math"));
    assert_eq!(task.results[1], TaskResult { score: 1.0, cost_usd: 0.01, measured: false, applied: None });
    assert_eq!(Dataset::read(folder.path(), None).unwrap().tasks.len(), 3);
    let error = Dataset::read(folder.path(), Some("val")).unwrap_err().to_string();
    assert!(error.contains("test, train"), "{error}");
}

#[test]
fn reads_compressed_files_the_same() {
    let plain = folder(MODELS, TASKS, RESULTS);
    let zipped = folder(MODELS, "", "");
    for (name, text) in [("tasks.jsonl", TASKS), ("results.csv", RESULTS)] {
        std::fs::remove_file(zipped.path().join(name)).unwrap();
        let file = File::create(zipped.path().join(format!("{name}.gz"))).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap();
    }
    let read = |folder: &tempfile::TempDir| format!("{:?}", Dataset::read(folder.path(), None).unwrap().tasks);
    assert_eq!(read(&plain), read(&zipped));
}

#[test]
fn errors_name_the_file_and_the_line() {
    for (tasks, results, expected) in [
        ("{}\n", RESULTS, "tasks.jsonl:1: missing field"),
        (TASKS, "task_id,model,score,cost_usd\n\"t,1\",a,0.5,0.1\nt3,a,high,0.1\n", "results.csv:3: "),
        (TASKS, "task_id,model,score,cost_usd\n\"t,1\",a,2,0.1\n", "results.csv:2: score"),
        (TASKS, "task_id,model,score,cost_usd\n\"t,1\",c,1,0.1\n", "results.csv:2: model \"c\""),
        (TASKS, "task_id,model,score,cost_usd\nt3,a,1,0\nt3,a,1,0\n", "results.csv:3: a second result"),
        (TASKS, "task_id,model,score,cost_usd\n\"t,1\",a,1,0.1\n", "has no result of b"),
    ] {
        let folder = folder(MODELS, tasks, results);
        let error = Dataset::read(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} should contain {expected}");
    }
}

#[test]
fn the_expected_cost_is_what_a_router_knows_before_the_answer() {
    let model = Model { arm: ArmId::new("a").unwrap(), input_per_1m: 1.0, output_per_1m: 2.0 };
    assert!((model.expected_cost_usd("12345678") - (2.0 + 400.0) / 1e6).abs() < 1e-15);
}
