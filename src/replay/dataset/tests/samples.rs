//! One good dataset per format, made up: two models, `a` at 1 and 2 dollars a million tokens, `b` at 10 and 20.

use std::{fs, io::Write, path::Path};

use flate2::{Compression, write::GzEncoder};

use super::Format;

/// Files by name; a name may have folders.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) format: Format,
    pub(super) files: Vec<(&'static str, String)>,
}

pub(super) const MODELS: &str = r#"{
 "models": [
  {"model": "a", "input_per_1m": 1.0, "output_per_1m": 2.0, "size": "7B"},
  {"model": "b", "input_per_1m": 10.0, "output_per_1m": 20.0}
 ]
}
"#;

const LLM: &str = r#"{
 "a": {"size": "7B", "input_price": 1.0, "output_price": 2.0, "model": "x/a"},
 "b": {"size": "70B", "input_price": 10.0, "output_price": 20.0},
 "unused": {"input_price": 5.0, "output_price": 5.0}
}
"#;

impl Sample {
    fn new(name: &'static str, format: Format, files: &[(&'static str, &str)]) -> Self {
        Self { name, format, files: files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect() }
    }

    /// The same with one file's text changed.
    pub(super) fn altered(&self, file: &str, change: impl FnOnce(&str) -> String) -> Self {
        let mut altered = self.clone();
        let (_, text) = altered.files.iter_mut().find(|(name, _)| *name == file).expect("a file of the sample");
        *text = change(text);
        altered
    }

    /// Writes the files into a fresh folder.
    pub(super) fn written(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in &self.files {
            put(folder.path(), name, text.as_bytes());
        }
        folder
    }

    /// The same, with `.gz` files.
    pub(super) fn compressed(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in &self.files {
            put(folder.path(), &format!("{name}.gz"), &gzip(text.as_bytes()));
        }
        folder
    }
}

pub(super) fn put(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn shared() -> Sample {
    let tasks = concat!(
        r#"{"task_id": "t,1", "split": "train", "dimension": "Math", "source": "s", "prompt": "1+1", "metric": "GSM8K", "reference": "2"}"#,
        "\n\n",
        r#"{"task_id": "t2", "split": "train", "dimension": "math", "source": "s", "prompt": null}"#,
        "\n",
        r#"{"task_id": "t3", "split": "test", "dimension": "code", "source": "s", "prompt": "sort"}"#,
        "\n",
    );
    let results = concat!(
        "task_id,model,score,cost_usd,cost_estimated,input_tokens,output_tokens,measured\n",
        "\"t,1\",a,0.5,0.0002,0,100,50,1\n",
        "\"t,1\",b,1,0.002,0,100,50,0\n",
        "t2,a,0,0.0002,0,100,50,1\n",
        "t2,b,0,0.002,0,100,50,1\n",
        "t3,a,1,0.0001,1,,,1\n",
        "t3,b,0,0.001,1,,,1\n",
    );
    let files = [("models.json", MODELS), ("tasks.jsonl", tasks), ("results.csv", results)];
    Sample::new("shared", Format::Shared, &files)
}

pub(super) fn coderouterbench() -> Sample {
    let tasks = concat!(
        r#"{"dimension": "algorithm", "source_split": "test", "split": "id_test", "task_id": "dim2_lcb_1"}"#,
        "\n",
        r#"{"dimension": "bug_fixing", "source_split": "test", "split": "id_test", "task_id": "dim3_debugbench_sup_2"}"#,
        "\n",
    );
    let results = concat!(
        "task_id,split,source_split,dimension,model,score,cost_usd,input_tokens,output_tokens,total_tokens,latency_ms,cost_source\n",
        "dim2_lcb_1,id_test,test,algorithm,a,0.0,0.0002,100,50,150,3950,token_log_pricing\n",
        "dim2_lcb_1,id_test,test,algorithm,b,1.0,0.002,100,50,150,0,token_log_pricing\n",
        "dim3_debugbench_sup_2,id_test,test,bug_fixing,a,0.25,,100,50,150,3950,missing_token_record\n",
        "dim3_debugbench_sup_2,id_test,test,bug_fixing,b,0.5,,,,300,3950,missing_token_record\n",
    );
    let ood_tasks = concat!(
        r#"{"task_id": "new64::cli::x", "source_split": "new64", "bench": "cli", "dimension": "bug_fixing", "prompt": "Fix x."}"#,
        "\n"
    );
    let ood = concat!(
        "task_id,source_split,bench,original_task_id,dimension,model,source_model,resolved,apply_ok,graded,in_tok,out_tok,calls,cost_usd\n",
        "new64::cli::x,new64,cli,x,bug_fixing,a,a,0,1,1,1000,100,17,0.0012\n",
        "new64::cli::x,new64,cli,x,bug_fixing,b,b-medium,1,1,1,1000,100,17,0.012\n",
    );
    let files = [
        ("models.json", MODELS),
        ("id_test_tasks.jsonl", tasks),
        ("id_test_results_long.csv", results),
        ("ood176_tasks.jsonl", ood_tasks),
        ("ood176_results_long.csv", ood),
    ];
    Sample::new("coderouterbench", Format::CodeRouterBench, &files)
}

pub(super) fn llmrouter() -> Sample {
    let train = concat!(
        r#"{"task_name": "gsm8k", "query": "1+1?", "ground_truth": "2", "metric": "GSM8K", "model_name": "a", "response": "2", "performance": 1.0, "embedding_id": 0, "prompt_tokens": 100, "completion_tokens": 50}"#,
        "\n",
        r#"{"task_name": "gsm8k", "query": "1+1?", "ground_truth": "2", "metric": "GSM8K", "model_name": "b", "response": "3", "performance": 0.0, "embedding_id": 0, "token_num": 150}"#,
        "\n",
    );
    let test = concat!(
        "task_name,query,ground_truth,metric,model_name,response,performance,embedding_id,token_num\n",
        "mmlu,\"Which?\nA, or B\",A,em_mc,a,\"A,\n\"\"B\"\"\",1.0,1.0,150.0\n",
        "mmlu,\"Which?\nA, or B\",A,em_mc,b,B,0.5,1.0,150.0\n",
    );
    let files = [
        ("llm_candidates/default_llm.json", LLM),
        ("routing_data/default_routing_train_data.jsonl", train),
        ("routing_data/default_routing_test_data.csv", test),
    ];
    Sample::new("llmrouter", Format::LlmRouter, &files)
}

pub(super) fn routerdc() -> Sample {
    let train = r#"[
  {
    "question": "1+1?",
    "scores": {"b": 0.0, "a": 1.0},
    "cluster_id": 0
  },
  {"question": "Which?", "scores": {"a": 0.5, "b": 0.0}}
]
"#;
    let test =
        r#"[{"question": "2+2?", "scores": {"a": 0, "b": 1}}, {"question": "1+1?", "scores": {"a": 1, "b": 1}}]"#;
    let queries = concat!(
        r#"{"task_name": "gsm8k", "query": "1+1?", "ground_truth": "2", "metric": "GSM8K"}"#,
        "\n",
        r#"{"task_name": "mmlu", "query": "Which?", "ground_truth": "A", "metric": "em_mc"}"#,
        "\n",
    );
    let files = [
        ("llm_candidates/default_llm.json", LLM),
        ("query_data/default_query_train.jsonl", queries),
        ("train.json", train),
        ("test.json", test),
    ];
    Sample::new("routerdc", Format::LlmRouter, &files)
}

pub(super) fn llmrouterbench() -> Sample {
    let run = |model: &str, time: &str, cost: [&str; 2], score: &str| {
        let record = |index: usize, query: &str, score: &str| {
            format!(
                "  {{\n   \"index\": {index},\n   \"origin_query\": \"{query}\",\n   \"prompt\": \"Q: {query}\",\n   \
                 \"prompt_tokens\": {},\n   \"completion_tokens\": 50,\n   \"cost\": {},\n   \"score\": {score},\n   \
                 \"ground_truth\": \"2\",\n   \"raw_output\": [\"long\", {{\"a\": null}}]\n  }}",
                100 * index,
                cost[index - 1],
            )
        };
        format!(
            "{{\n \"performance\": 0.5,\n \"counts\": 2,\n \"model_name\": \"{model}\",\n \"dataset_name\": \"Math 500\",\n \
             \"split\": \"test\",\n \"demo\": {},\n \"records\": [\n{},\n{}\n ]\n}}\n",
            time.is_empty(),
            record(1, "1+1?", score),
            record(2, "2+2?", "1.0"),
        )
    };
    Sample {
        name: "llmrouterbench",
        format: Format::LlmRouterBench,
        files: vec![
            ("bench/math/test/a/math-test-a-20250101_000000.json", run("a", "1", ["9.0", "9.0"], "0.0")),
            ("bench/math/test/a/math-test-a-20250102_000000.json", run("a", "2", ["0.0002", "0.0003"], "0.5")),
            ("bench/math/test/a/math-test-a-20250103_000000.json", run("a", "", ["9.0", "9.0"], "0.0")),
            ("bench/math/test/b/math-test-b-20250101_000000.json", run("b", "1", ["0.002", "0.003"], "null")),
        ],
    }
}

pub(super) fn routerbench() -> Sample {
    let table = concat!(
        ",sample_id,prompt,eval_name,x/a,b,x/a|model_response,b|model_response,x/a|total_cost,b|total_cost,oracle_model_to_route_to\n",
        "0,mmlu-law.val.1,\"['Which?\\nA or B', 'Sure?']\",mmlu-law,1.0,True,\"A\n\",B,0.0002,0.002,x/a\n",
        "1,gsm.2,2+2?,grade-school-math,0.0,0.75,3,4,0.0001,0.001,b\n",
    );
    Sample::new("routerbench", Format::RouterBench, &[("routerbench_0shot.csv", table)])
}

pub(super) fn routerbench_lines() -> Sample {
    let lines = concat!(
        r#"{"sample_id": "mmlu-law.val.1", "prompt": ["Which?\nA or B", "Sure?"], "eval_name": "mmlu-law", "b": true, "x/a": 1.0, "x/a|total_cost": 0.0002, "b|total_cost": 0.002, "oracle": "b", "oracle|total_cost": 0.0}"#,
        "\n",
        r#"{"sample_id": "gsm.2", "prompt": "2+2?", "eval_name": "grade-school-math", "b": 0.75, "x/a": 0.0, "x/a|total_cost": 0.0001, "b|total_cost": 0.001, "oracle|total_cost": 0.0}"#,
        "\n",
    );
    Sample::new("routerbench_lines", Format::RouterBench, &[("rows.jsonl", lines)])
}

pub(super) fn all() -> Vec<Sample> {
    vec![shared(), coderouterbench(), llmrouter(), routerdc(), llmrouterbench(), routerbench(), routerbench_lines()]
}
