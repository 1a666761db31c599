//! What is read from which field.

use super::{samples::*, *};

fn of(sample: &Sample) -> Dataset {
    read(sample.written().path(), sample.format).unwrap_or_else(|error| panic!("{}: {error}", sample.name))
}

/// Score and cost by task and model.
fn numbers(dataset: &Dataset) -> Vec<Vec<(f64, f64)>> {
    let round = |cost: f64| (cost * 1e9).round() / 1e9;
    let row = |task: &DatasetTask| task.results.iter().map(|result| (result.score, round(result.cost_usd))).collect();
    dataset.tasks.iter().map(row).collect()
}

/// Id, split, domain, source and prompt.
fn tasks(dataset: &Dataset) -> Vec<[&str; 5]> {
    dataset.tasks.iter().map(described).collect()
}

fn described(task: &DatasetTask) -> [&str; 5] {
    let DatasetTask { id, split, domain, source, prompt, .. } = task;
    [id.as_str(), split, domain.as_str(), source, prompt.as_deref().unwrap_or("-")]
}

fn arms(dataset: &Dataset) -> Vec<(&str, f64, f64)> {
    dataset.models.iter().map(|model| (model.arm.as_str(), model.input_per_1m, model.output_per_1m)).collect()
}

const ARMS: [(&str, f64, f64); 2] = [("a", 1.0, 2.0), ("b", 10.0, 20.0)];

#[test]
fn the_shared_layout() {
    let dataset = of(&shared());
    assert_eq!(
        tasks(&dataset),
        [["t,1", "train", "math", "s", "1+1"], ["t2", "train", "math", "s", "-"], ["t3", "test", "code", "s", "sort"]]
    );
    assert_eq!(arms(&dataset), ARMS);
    assert_eq!((dataset.without_prompt, dataset.unmeasured), (1, 1));
    assert_eq!(dataset.tasks[1].text(), "math");
    assert_eq!(
        dataset.tasks[0].results[1],
        TaskResult {
            score: 1.0,
            cost_usd: 0.002,
            measured: false,
            applied: None,
            output_tokens: None,
            latency_ms: None
        }
    );
    assert_eq!(dataset.tasks[0].metadata["answer"], "number");
    assert_eq!(dataset.warnings, ["2 costs are estimates of the source"]);
}

#[test]
fn splits_and_models_are_chosen_and_must_be_there() {
    let folder = shared().written();
    let all = read(folder.path(), Format::Shared).unwrap();
    let options = |splits: &[&str], models: &[&str]| ReadOptions {
        splits: splits.iter().map(|split| (*split).to_owned()).collect(),
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        ..ReadOptions::default()
    };
    let read = |splits: &[&str], models: &[&str]| Dataset::read(folder.path(), &options(splits, models));
    let train = read(&["train"], &[]).unwrap();
    assert_eq!((train.tasks.len(), train.split.as_deref(), train.unmeasured), (2, Some("train"), 1));
    assert_eq!(all.only(&["train".into()]).unwrap().tasks, train.tasks);
    assert_eq!(all.only(&[]).unwrap(), all);
    let both = read(&["test", "train"], &["b"]).unwrap();
    assert_eq!((both.tasks.len(), arms(&both)), (3, vec![ARMS[1]]));
    for error in [read(&["val"], &[]), all.only(&["train".into(), "val".into()])] {
        assert_eq!(error.unwrap_err().to_string(), "no task is in split \"val\"; there are: test, train");
    }
    let error = read(&[], &["b", "gone"]).unwrap_err().to_string();
    assert_eq!(error, "there is no model \"gone\"; there are: a, b");
    // What is wrong in another split does not stand in the way.
    let bad = shared().altered("results.csv", |text| text.replace("t3,a,1", "t3,a,7")).written();
    assert!(Dataset::read(bad.path(), &options(&["train"], &[])).is_ok());
}

#[test]
fn coderouterbench_as_released() {
    let dataset = of(&coderouterbench());
    assert_eq!(
        tasks(&dataset),
        [
            ["dim2_lcb_1", "test", "algorithm", "lcb", "-"],
            ["dim3_debugbench_sup_2", "test", "bug_fixing", "debugbench_sup", "-"],
            ["new64::cli::x", "ood176", "bug_fixing", "cli", "Fix x."]
        ]
    );
    assert_eq!((arms(&dataset), dataset.unmeasured), (ARMS.to_vec(), 1));
    // A blank cost is made of the tokens, or of what the model's other tokens cost: 0.014 dollars for 1,250.
    let b = 0.014 / 1_250.0 * 300.0;
    let rows = numbers(&dataset);
    assert_eq!(rows[0], [(0.0, 0.0002), (1.0, 0.002)]);
    assert_eq!(rows[1], [(0.25, 0.0002), (0.5, (b * 1e9_f64).round() / 1e9)]);
    assert_eq!(rows[2], [(0.0, 0.0012), (1.0, 0.012)]);
    assert_eq!(dataset.warnings, ["1 costs are estimates, since tokens read and written are not given"]);
}

#[test]
fn coderouterbench_rows_are_read_once_and_need_no_tasks_file() {
    let mut sample = coderouterbench();
    sample.files.retain(|(name, _)| *name != "id_test_tasks.jsonl");
    let (_, rows) = sample.files.iter().find(|(name, _)| *name == "id_test_results_long.csv").unwrap().clone();
    sample.files.push(("id_results_long.csv", rows.replace("dim2_lcb_1", "dim2_lcb_7")));
    let folder = sample.written();
    let dataset = read(folder.path(), Format::CodeRouterBench).unwrap();
    let ids: Vec<&str> = dataset.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["dim2_lcb_7", "dim3_debugbench_sup_2", "new64::cli::x"]);
    let one = Dataset::read(&folder.path().join("ood176_results_long.csv"), &ReadOptions::default()).unwrap();
    assert_eq!((one.tasks.len(), one.name.as_str()), (1, "ood176_results_long"));
    // Files of an older release have costs of 0 and no columns of tokens.
    let old = "task_id,split,dimension,model,score,cost_usd,total_tokens,latency_ms\n\
               dim1_mbpp_1,train,code_generation,a,1.0,0.0,150,9\ndim1_mbpp_1,train,code_generation,b,1.0,0.0,150,9\n";
    put(folder.path(), "old/id_train_results_long.csv", old.as_bytes());
    put(folder.path(), "old/models.json", MODELS.as_bytes());
    let old = read(&folder.path().join("old"), Format::CodeRouterBench).unwrap();
    // Nothing tells what was read: the length of the text known, a domain's name, is.
    assert_eq!(tasks(&old)[0][..4], ["dim1_mbpp_1", "train", "code_generation", "mbpp"]);
    assert_eq!(numbers(&old)[0], [(1.0, 0.000297), (1.0, 0.00297)]);
}

#[test]
fn llmrouter_records_make_costs_of_tokens_and_prices() {
    let dataset = of(&llmrouter());
    assert_eq!(
        tasks(&dataset),
        [["train-0", "train", "gsm8k", "gsm8k", "1+1?"], ["test-0", "test", "mmlu", "mmlu", "Which?\nA, or B"]]
    );
    assert_eq!(arms(&dataset), ARMS);
    // Of a total, a quarter of the prompt's characters counts as read.
    let read_3 = |input: f64, output: f64| (3.0 * input + 147.0 * output) / 1e6;
    assert_eq!(
        numbers(&dataset),
        [[(1.0, 0.0002), (0.0, (10.0 + 149.0 * 20.0) / 1e6)], [(1.0, read_3(1.0, 2.0)), (0.5, read_3(10.0, 20.0))]]
    );
    assert_eq!(
        (&dataset.tasks[0].metadata["reference"], &dataset.tasks[1].metadata["answer"]),
        (&"2".into(), &"choice".into())
    );
    assert_eq!(
        dataset.warnings,
        [
            "default_llm.json has no results of: unused",
            "3 costs are estimates, since tokens read and written are not given"
        ]
    );
}

#[test]
fn a_query_whose_records_are_cut_apart_is_one_task() {
    let sample = llmrouter();
    let (_, train) = sample.files.iter().find(|(name, _)| name.ends_with("jsonl")).unwrap();
    let (first, second) = train.split_once('\n').unwrap();
    let cut = Sample {
        files: vec![
            sample.files[0].clone(),
            ("default_routing_test_data.jsonl", second.to_owned()),
            ("default_routing_train_data.jsonl", first.to_owned()),
        ],
        ..sample
    };
    let dataset = of(&cut);
    assert_eq!((dataset.tasks.len(), dataset.tasks[0].split.as_str()), (1, "train"));
}

#[test]
fn llmrouter_scores_prepared_for_routerdc() {
    let dataset = of(&routerdc());
    assert_eq!(
        tasks(&dataset),
        [
            ["train-0", "train", "gsm8k", "gsm8k", "1+1?"],
            ["train-1", "train", "mmlu", "mmlu", "Which?"],
            ["test-0", "test", "unknown", "", "2+2?"],
            ["test-1", "test", "gsm8k", "gsm8k", "1+1?"]
        ]
    );
    assert_eq!(numbers(&dataset)[0], [(1.0, 0.000401), (0.0, 0.00401)]);
    assert_eq!(arms(&dataset), ARMS);
}

#[test]
fn llmrouterbench_takes_the_latest_run_that_is_no_demo() {
    let dataset = of(&llmrouterbench());
    assert_eq!(
        tasks(&dataset),
        [
            ["math-500/test/1", "test", "math-500", "Math 500", "1+1?"],
            ["math-500/test/2", "test", "math-500", "Math 500", "2+2?"]
        ]
    );
    assert_eq!(numbers(&dataset), [[(0.5, 0.0002), (0.0, 0.002)], [(1.0, 0.0003), (1.0, 0.003)]]);
    assert!(!dataset.tasks[0].results[1].measured && dataset.unmeasured == 1);
    // 100 tokens more cost a ten-thousandth more: the prices of a are 1 and 2.
    for ((name, input, output), expected) in arms(&dataset).into_iter().zip(ARMS) {
        assert!(name == expected.0 && (input - expected.1).abs() < 1e-6 && (output - expected.2).abs() < 1e-6);
    }
    assert_eq!(dataset.warnings, ["no prices are listed: those of 2 models are what their costs imply"]);
}

#[test]
fn routerbench_as_csv_and_as_lines() {
    for sample in [routerbench(), routerbench_lines()] {
        let dataset = of(&sample);
        assert_eq!(
            tasks(&dataset),
            [
                ["mmlu-law.val.1", "all", "mmlu", "mmlu-law", "Which?\nA or B\n\nSure?"],
                ["gsm.2", "all", "grade-school-math", "grade-school-math", "2+2?"]
            ]
        );
        let by_model = |name: &str| dataset.models.iter().position(|model| model.arm.as_str() == name).unwrap();
        let [a, b] = ["x/a", "b"].map(by_model);
        let rows = numbers(&dataset);
        assert_eq!([rows[0][a], rows[0][b]], [(1.0, 0.0002), (1.0, 0.002)]);
        assert_eq!([rows[1][a], rows[1][b]], [(0.0, 0.0001), (0.75, 0.001)]);
        assert_eq!(dataset.models[a].output_per_1m, 0.0);
        assert!(dataset.warnings[0].starts_with("prices are not known"), "{:?}", dataset.warnings);
        // A price list beside it is taken.
        let folder = sample.written();
        put(folder.path(), "models.json", MODELS.replace("\"a\"", "\"x/a\"").as_bytes());
        let priced = read(folder.path(), Format::RouterBench).unwrap();
        assert_eq!((arms(&priced)[0], priced.warnings.len()), (("x/a", 1.0, 2.0), 0));
        put(folder.path(), "models.json", MODELS.as_bytes());
        assert!(said(folder.path(), read(folder.path(), Format::RouterBench)).contains("is not in models.json"));
    }
}

#[test]
fn the_format_is_told_by_what_lies_there() {
    for sample in all() {
        for folder in [sample.written(), sample.compressed()] {
            assert_eq!(Format::find(folder.path()).unwrap(), sample.format, "{}", sample.name);
        }
        assert_eq!(sample.format.name().parse(), Ok(sample.format));
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(said(folder.path(), Dataset::read(folder.path(), &ReadOptions::default())).contains("no dataset is found"));
    for format in Format::ALL {
        assert!(read(folder.path(), format).is_err(), "{format}");
    }
    put(folder.path(), "routerbench_0shot.pkl", b"\x80\x04");
    let pickle = said(folder.path(), read(&folder.path().join("routerbench_0shot.pkl"), Format::RouterBench));
    assert!(pickle.contains("read_pickle"), "{pickle}");
    assert_eq!("vw".parse::<Format>(), Err(UnknownFormat));
}

#[test]
fn compressed_and_windows_files_and_byte_order_marks_read_the_same() {
    for sample in all() {
        let expected = Dataset { name: String::new(), ..of(&sample) };
        let compressed = sample.compressed();
        let mut windows = sample.clone();
        for (_, text) in &mut windows.files {
            // A line end inside quotes is data.
            *text = format!("\u{feff}{}", text.replace('\n', "\r\n").replace("?\r\nA", "?\nA"));
        }
        let windows = windows.written();
        for folder in [compressed.path(), windows.path()] {
            let mut found = read(folder, sample.format).unwrap_or_else(|error| panic!("{}: {error}", sample.name));
            found.name.clear();
            found.warnings.iter_mut().for_each(|warning| *warning = warning.replace(".json.gz", ".json"));
            assert_eq!(found, expected, "{}", sample.name);
        }
    }
}
