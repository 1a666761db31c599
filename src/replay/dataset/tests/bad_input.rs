//! What is wrong is told with its file, line and column.

use super::{samples::*, *};

/// Changes one file of a sample, reads, and gives what was said.
fn of(sample: &Sample, file: &str, change: &dyn Fn(&str) -> String) -> String {
    let folder = sample.altered(file, change).written();
    said(folder.path(), read(folder.path(), sample.format))
}

/// A file, what is replaced in it by what, and how the error starts.
type Case<'a> = (&'a str, &'a str, &'a str, &'a str);

fn check(sample: &Sample, cases: &[Case<'_>]) {
    let mut wrong = vec![];
    for (file, from, to, expected) in cases {
        let plain = |text: &str| {
            assert!(text.contains(from), "{file} of {} has no {from}", sample.name);
            text.replacen(from, to, 1)
        };
        // The same lines and columns in a file from elsewhere.
        let windows = |text: &str| format!("\u{feff}{}", text.replacen(from, to, 1).replace('\n', "\r\n"));
        for said in [of(sample, file, &plain), of(sample, file, &windows)] {
            if !said.starts_with(expected) {
                wrong.push(format!("{said}\nshould start with {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {}", sample.name, wrong.join("\n\n"));
}

#[test]
fn in_the_shared_layout() {
    check(
        &shared(),
        &[
            (
                "results.csv",
                "t3,b,0,0.001,1,,,1\n",
                "",
                "tasks.jsonl:4: column task_id: task \"t3\" has no result of \"b\"",
            ),
            (
                "tasks.jsonl",
                "\"t2\"",
                "\"t,1\"",
                "tasks.jsonl:3: column task_id: a second task \"t,1\"; the first is in tasks.jsonl:1",
            ),
            (
                "results.csv",
                "t2,b",
                "t2,a",
                "results.csv:5: column 1 (task_id): a second result of \"a\" on \"t2\"; the first is in results.csv:4",
            ),
            ("results.csv", "t2,b", "t2,c", "results.csv:5: column 2 (model): model \"c\" is not in models.json"),
            ("results.csv", "t2,b", "t9,b", "results.csv:5: column 1 (task_id): task \"t9\" is not in tasks.jsonl"),
            (
                "results.csv",
                "t2,b,0",
                "t2,b,1.5",
                "results.csv:5: column 3 (score): the score is 1.5, it must be from 0 to 1",
            ),
            ("results.csv", "t2,b,0", "t2,b,NaN", "results.csv:5: column 3 (score): the score is NaN"),
            ("results.csv", "t2,b,0", "t2,b,high", "results.csv:5: column 3 (score): \"high\" is no number"),
            ("results.csv", "t2,b,0,0.002", "t2,b,0,-0.002", "results.csv:5: column 4 (cost_usd): the cost is -0.002"),
            ("results.csv", "t2,b,0,0.002", "t2,b,0,inf", "results.csv:5: column 4 (cost_usd): the cost is inf"),
            (
                "results.csv",
                "t2,b,0,0.002",
                "t2,b,0,0.004",
                "results.csv:5: column 4 (cost_usd): the cost 0.004 of 100 tokens read and 50 written is 2.000 times what the \
                 prices of \"b\" in models.json make of them, and 1 before it follow them (1.000 times)",
            ),
            (
                "results.csv",
                "100,50,1\n",
                "100,5e1,1\n",
                "results.csv:2: column 7 (output_tokens): \"5e1\" is no whole number",
            ),
            ("results.csv", ",1\nt2", ",2\nt2", "results.csv:4: column 8 (measured): must be 0 or 1"),
            ("results.csv", "t2,b,0,", "t2,b,", "results.csv:5: the row has 7 columns, the header 8"),
            ("results.csv", ",score,", ",points,", "results.csv:1: the header names no column score"),
            ("results.csv", ",score,", ",model,", "results.csv:1: the header names \"model\" twice"),
            ("tasks.jsonl", "\"1+1\"", "\"\"", "tasks.jsonl:1: column prompt: the prompt of \"t,1\" is empty"),
            ("tasks.jsonl", "\"sort\"", "\" \\n \"", "tasks.jsonl:4: column prompt: the prompt of \"t3\" is empty"),
            (
                "tasks.jsonl",
                "\"sort\"",
                "7",
                "tasks.jsonl:4: column 82 (prompt): invalid type: integer `7`, expected a string",
            ),
            ("tasks.jsonl", "\"split\": \"test\", ", "", "tasks.jsonl:4: column 71: missing field `split`"),
            ("tasks.jsonl", "\"code\"", "\"two words\"", "tasks.jsonl:4: column dimension: \"two words\" must be"),
            ("tasks.jsonl", "\"t3\"", "\"t 3\"", "tasks.jsonl:4: column task_id: \"t 3\" must be"),
            ("models.json", "\"b\"", "\"a\"", "models.json:4: column model: \"a\" is named twice"),
            (
                "models.json",
                "20.0",
                "-20.0",
                "models.json:4: column input_per_1m or output_per_1m: the prices of \"b\"",
            ),
            ("models.json", "20.0", "many", "models.json:4: column 57 (models[1].output_per_1m): expected"),
            ("models.json", "\"models\"", "\"arms\"", "models.json:6: column 1: the array \"models\" is missing"),
        ],
    );
    for name in ["models.json", "tasks.jsonl", "results.csv"] {
        let mut sample = shared();
        sample.files.retain(|(other, _)| *other != name);
        let folder = sample.written();
        let error = said(folder.path(), read(folder.path(), Format::Shared));
        assert_eq!(error, format!("{name} is missing, and so is the same name with .gz"));
    }
    assert_eq!(of(&shared(), "models.json", &|_| "{\"models\": []}".into()), "models.json: names no model");
    let empty = of(&shared(), "tasks.jsonl", &|_| String::new());
    assert!(empty.contains("task \"t,1\" is not in tasks.jsonl"), "{empty}");
}

#[test]
fn in_coderouterbench() {
    let (id, ood) = ("id_test_results_long.csv", "ood176_results_long.csv");
    check(
        &coderouterbench(),
        &[
            (
                id,
                "dim2_lcb_1,id_test,test,algorithm,b,1.0,0.002,100,50,150,0,token_log_pricing\n",
                "",
                "id_test_tasks.jsonl:1: column task_id: task \"dim2_lcb_1\" has no result of \"b\"",
            ),
            (
                "id_test_tasks.jsonl",
                "dim3_debugbench_sup_2",
                "dim2_lcb_1",
                "id_test_tasks.jsonl:2: column task_id: a second task",
            ),
            (
                id,
                "algorithm,b,1.0",
                "algorithm,a,1.0",
                "id_test_results_long.csv:3: column 1 (task_id): a second result of \"a\"",
            ),
            (
                id,
                "algorithm,b",
                "algorithm,c",
                "id_test_results_long.csv:3: column 5 (model): model \"c\" is not in models.json",
            ),
            (
                id,
                "dim2_lcb_1",
                "dim2_lcb_9",
                "id_test_results_long.csv:2: column 1 (task_id): task \"dim2_lcb_9\" is not in id_test_tasks.jsonl",
            ),
            (
                id,
                "algorithm,b,1.0",
                "algorithm,b,-1.0",
                "id_test_results_long.csv:3: column 6 (score): the score is -1",
            ),
            (ood, ",1,1,1,1000", ",2,1,1,1000", "ood176_results_long.csv:3: column 8 (resolved): the score is 2"),
            (id, "0.002,100", "-0.002,100", "id_test_results_long.csv:3: column 7 (cost_usd): the cost is -0.002"),
            (
                ood,
                "0.012\n",
                "0.006\n",
                "ood176_results_long.csv:3: column 14 (cost_usd): the cost 0.006 of 1000 tokens read and 100 written is 0.500 times",
            ),
            ("ood176_tasks.jsonl", "Fix x.", "", "ood176_tasks.jsonl:1: column prompt: the prompt of"),
            (id, ",latency_ms", "", "id_test_results_long.csv:2: the row has 12 columns, the header 11"),
        ],
    );
}

#[test]
fn in_llmrouter() {
    let (train, test) = ("routing_data/default_routing_train_data.jsonl", "routing_data/default_routing_test_data.csv");
    check(
        &llmrouter(),
        &[
            (
                test,
                "mmlu,\"Which?\nA, or B\",A,em_mc,b,B,0.5,1.0,150.0\n",
                "",
                "routing_data/default_routing_test_data.csv:2: column 2 (query): task \"test-0\" has no result of \"b\"",
            ),
            (
                train,
                "\"b\"",
                "\"a\"",
                "routing_data/default_routing_train_data.jsonl:2: column query: a second result of \"a\" on \"train-0\"",
            ),
            (
                train,
                "\"b\"",
                "\"c\"",
                "routing_data/default_routing_train_data.jsonl:2: column model_name: model \"c\" is not in default_llm.json",
            ),
            (
                test,
                ",b,B",
                ",c,B",
                "routing_data/default_routing_test_data.csv:5: column 5 (model_name): model \"c\" is not in default_llm.json",
            ),
            (
                train,
                "\"performance\": 0.0",
                "\"performance\": 1.1",
                "routing_data/default_routing_train_data.jsonl:2: column performance: the score is 1.1",
            ),
            (
                test,
                "B,0.5",
                "B,5",
                "routing_data/default_routing_test_data.csv:5: column 7 (performance): the score is 5",
            ),
            (
                train,
                "\"1+1?\"",
                "\"\"",
                "routing_data/default_routing_train_data.jsonl:1: column query: the prompt of \"train-0\" is empty",
            ),
            (
                train,
                "150}",
                "1.5}",
                "routing_data/default_routing_train_data.jsonl:2: column 172 (token_num): 1.5 is no count",
            ),
            (
                "llm_candidates/default_llm.json",
                "2.0",
                "-2.0",
                "llm_candidates/default_llm.json:2: column input_price or output_price: the prices of \"a\"",
            ),
            (
                "llm_candidates/default_llm.json",
                "unused",
                "b",
                "llm_candidates/default_llm.json:4: column model: \"b\" is named twice",
            ),
        ],
    );
    check(
        &routerdc(),
        &[
            (
                "train.json",
                ", \"b\": 0.0",
                "",
                "train.json:7: column question: task \"train-1\" has no result of \"b\"",
            ),
            ("train.json", "Which?", "1+1?", "train.json:7: column question: a second time the question of line 2"),
            (
                "train.json",
                "\"a\": 1.0",
                "\"c\": 1.0",
                "train.json:2: column scores: model \"c\" is not in default_llm.json",
            ),
            ("train.json", "\"a\": 0.5", "\"a\": 50", "train.json:7: column scores: the score is 50"),
            ("train.json", "\"a\": 0.5", "\"a\": \"0.5\"", "train.json:7: column scores: a score is no number"),
            ("train.json", "\"Which?\"", "\"\"", "train.json:7: column question: the prompt of \"train-1\" is empty"),
            ("train.json", "\n]", "", "train.json:8: column 1: EOF while parsing a list"),
            (
                "query_data/default_query_train.jsonl",
                "\"query\": \"1+1?\", ",
                "",
                "query_data/default_query_train.jsonl:1: column",
            ),
        ],
    );
}

#[test]
fn in_llmrouterbench() {
    let file = "bench/math/test/b/math-test-b-20250101_000000.json";
    let case = |from, to, expected| (file, from, to, expected);
    let at = |rest: &str| format!("{file}:{rest}");
    let cases = [
        ("\"index\": 2", "\"index\": 1", at("20: column origin_query: the text of \"math-500/test/1\" is another one")),
        ("\"score\": 1.0", "\"score\": 10", at("20: column score: the score is 10")),
        ("\"cost\": 0.003", "\"cost\": -0.003", at("20: column cost: the cost is -0.003")),
        ("\"index\": 2", "\"index\": -2", at("21: column 15 (records[1].index): invalid value: integer `-2`")),
        (
            "\"origin_query\": \"2+2?\"",
            "\"origin_query\": \"3+3?\"",
            at(
                "20: column origin_query: the text of \"math-500/test/2\" is another one than in math-test-a-20250102_000000.json:20",
            ),
        ),
        ("\n ]", "", at("31: column 1 (records): expected")),
        ("\"b\"", "7", format!("{file}: there is no model_name before the records")),
        ("\"records\"", "\"rows\"", at("32: column 1: the array \"records\" is missing")),
    ];
    let cases: Vec<_> = cases.iter().map(|(from, to, expected)| case(*from, *to, expected.as_str())).collect();
    check(&llmrouterbench(), &cases);
    // A model that lacks a task, a run that holds one twice, and a text that is blank for all.
    let twice =
        of(&llmrouterbench(), file, &|text| text.replace("\"index\": 2", "\"index\": 1").replace("2+2?", "1+1?"));
    assert!(twice.starts_with(&at("20: column index: a second result of \"b\" on \"math-500/test/1\"")), "{twice}");
    let missing = of(&llmrouterbench(), file, &|text| text.replace("\"index\": 2", "\"index\": 3"));
    assert!(missing.starts_with("bench/math/test/a/math-test-a-20250102_000000.json:20: column index: task \"math-500/test/2\" has no result of \"b\""), "{missing}");
    let a = "bench/math/test/a/math-test-a-20250102_000000.json";
    let blank = of(&llmrouterbench(), a, &|text| text.replace("\"1+1?\"", "\"\"").replace("\"Q: 1+1?\"", "\" \""));
    assert!(blank.starts_with(&format!("{a}:9: column origin_query: the prompt of")), "{blank}");
    // With a price list, a model that it does not name.
    let mut listed = llmrouterbench();
    listed.files.push(("models.json", MODELS.replace("\"b\"", "\"c\"")));
    let folder = listed.written();
    let unknown = said(folder.path(), read(folder.path(), Format::LlmRouterBench));
    assert!(unknown.starts_with(&at("1: column model_name: model \"b\" is not in models.json")), "{unknown}");
}

#[test]
fn in_routerbench() {
    let file = "routerbench_0shot.csv";
    check(
        &routerbench(),
        &[
            (
                file,
                "gsm.2",
                "mmlu-law.val.1",
                "routerbench_0shot.csv:4: column 2 (sample_id): a second task \"mmlu-law.val.1\"; the first is in routerbench_0shot.csv:2",
            ),
            (file, ",0.0,0.75", ",0.0,7.5", "routerbench_0shot.csv:4: column 6 (b): the score is 7.5"),
            (file, ",0.0,0.75", ",0.0,", "routerbench_0shot.csv:4: column 6 (b): \"\" is no number"),
            (file, ",0.001,b", ",-0.001,b", "routerbench_0shot.csv:4: column 10 (b|total_cost): the cost is -0.001"),
            (file, "2+2?", "", "routerbench_0shot.csv:4: column 3 (prompt): the prompt of \"gsm.2\" is empty"),
            (file, "prompt", "text", "routerbench_0shot.csv:1: the header names no column prompt"),
        ],
    );
    check(
        &routerbench_lines(),
        &[
            ("rows.jsonl", "gsm.2", "mmlu-law.val.1", "rows.jsonl:2: column sample_id: a second task"),
            ("rows.jsonl", "0.75", "7.5", "rows.jsonl:2: column b: the score is 7.5"),
            ("rows.jsonl", "\"b\": 0.75, ", "", "rows.jsonl:2: column b: is missing"),
            (
                "rows.jsonl",
                "\"b|total_cost\": 0.001",
                "\"b|total_cost\": null",
                "rows.jsonl:2: column b|total_cost: is missing",
            ),
            (
                "rows.jsonl",
                "\"b|total_cost\": 0.001",
                "\"b|total_cost\": -1",
                "rows.jsonl:2: column b|total_cost: the cost is -1",
            ),
            ("rows.jsonl", "\"2+2?\"", "\"\"", "rows.jsonl:2: column prompt: the prompt of \"gsm.2\" is empty"),
        ],
    );
}

#[test]
fn mixed_prices_are_taken_when_asked_for() {
    let allow = |sample: &Sample| {
        let folder = sample.written();
        let options = ReadOptions { format: Some(sample.format), allow_mixed_prices: true, ..ReadOptions::default() };
        Dataset::read(folder.path(), &options).unwrap()
    };
    let mixed = shared().altered("results.csv", |text| text.replace("t2,b,0,0.002", "t2,b,0,0.004"));
    let dataset = allow(&mixed);
    assert_eq!(dataset.tasks[1].results[1].cost_usd, 0.004);
    let warning = "b: 1 costs are not of models.json's prices, the first in results.csv:5, 2.000 times";
    assert!(dataset.warnings.iter().any(|found| found == warning), "{:?}", dataset.warnings);

    // Without a list: twenty tasks of one run at the prices 1 and 2, then twenty of another at 3 and 4.
    let run = |benchmark: &str, input: f64, output: f64| {
        let records: Vec<String> = (1..=20_u32)
            .map(|n| {
                let (read, written) = (100 + 37 * n, 10 + 53 * (n % 7));
                let cost = (f64::from(read) * input + f64::from(written) * output) / 1e6;
                format!(
                    "{{\"index\": {n}, \"origin_query\": \"q\", \"prompt_tokens\": {read}, \"completion_tokens\": {written}, \
                     \"cost\": {cost}, \"score\": 1}}"
                )
            })
            .collect();
        format!(
            "{{\"model_name\": \"a\", \"dataset_name\": \"{benchmark}\", \"split\": \"test\", \"records\": [\n{}]}}",
            records.join(",\n")
        )
    };
    let files = vec![("bench/x/test/a/1.json", run("x", 1.0, 2.0)), ("bench/y/test/a/1.json", run("y", 3.0, 4.0))];
    let sample = Sample { name: "two runs", format: Format::LlmRouterBench, files };
    let folder = sample.written();
    let error = said(folder.path(), read(folder.path(), sample.format));
    assert!(
        error.starts_with("bench/y/test/a/1.json:2: column cost: the cost ")
            && error.contains(
                " times what the prices of \"a\" in the rows before make of them, and 20 before it follow them"
            )
            && error.contains("--allow-mixed-prices"),
        "{error}"
    );
    let dataset = allow(&sample);
    assert!((dataset.models[0].input_per_1m - 1.0).abs() < 1e-6 && dataset.tasks.len() == 40);
    assert!(dataset.warnings[0].starts_with("costs follow no one price list"), "{:?}", dataset.warnings);
}

#[test]
fn a_file_that_is_cut_off_or_no_text_or_endless_says_so() {
    let sample = shared();
    for (name, text) in &sample.files {
        let folder = sample.written();
        std::fs::remove_file(folder.path().join(name)).unwrap();
        let whole = gzip(text.as_bytes());
        put(folder.path(), &format!("{name}.gz"), &whole[..whole.len() - 4]);
        let error = said(folder.path(), read(folder.path(), sample.format));
        let lines = text.lines().count();
        let expected = format!(
            "{name}.gz:{}: the file is cut off: its gzip stream ends early, after {lines} whole lines",
            lines + 1
        );
        assert!(error.starts_with(&expected), "{error}\nshould start with {expected}");
        put(folder.path(), &format!("{name}.gz"), &[&whole[..], b"more"].concat());
        let error = said(folder.path(), read(folder.path(), sample.format));
        assert!(error.starts_with(&format!("{name}.gz:")), "{error}");
    }
    let bytes = |name: &str, bytes: &[u8]| {
        let folder = sample.written();
        put(folder.path(), name, bytes);
        said(folder.path(), read(folder.path(), sample.format))
    };
    let utf16 = bytes("results.csv", b"\xFF\xFEt\0a\0");
    assert_eq!(utf16, "results.csv:1: the file is UTF-16: save it as UTF-8");
    let latin = bytes("tasks.jsonl", b"{\"task_id\": \"t\xE9\"}\n");
    assert_eq!(latin, "tasks.jsonl:1: column 15: the text is not UTF-8: save the file as UTF-8");
    let latin = bytes("results.csv", b"task_id,model,score,cost_usd\nt3,\xE9,0,0\n");
    assert_eq!(latin, "results.csv:2: column 2 (model): the text is not UTF-8: save the file as UTF-8");
    // A quote that is never closed; zeros compress well.
    let endless = [b"task_id,model,score,cost_usd\nt3,\"".to_vec(), vec![b'0'; 70 << 20]].concat();
    let folder = sample.written();
    std::fs::remove_file(folder.path().join("results.csv")).unwrap();
    put(folder.path(), "results.csv.gz", &gzip(&endless));
    let error = said(folder.path(), read(folder.path(), sample.format));
    assert!(
        error.starts_with("results.csv.gz:2: the file cannot be read on: a record is longer than 64 MiB"),
        "{error}"
    );
}

#[test]
fn little_of_foreign_data_is_repeated() {
    let long = "x".repeat(5_000);
    for sample in all() {
        for (file, text) in &sample.files {
            // Every word of the file in turn.
            let words: Vec<(usize, &str)> = text
                .match_indices(|c: char| c.is_ascii_alphanumeric())
                .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_ascii_alphanumeric()))
                .collect();
            for (at, _) in words {
                let folder = sample.altered(file, |text| format!("{}{long}{}", &text[..at], &text[at..])).written();
                let error = said(folder.path(), read(folder.path(), sample.format));
                assert!(error.starts_with("no error") || error.len() < 600, "{error}");
            }
        }
    }
}
