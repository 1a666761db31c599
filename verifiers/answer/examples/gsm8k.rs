//! Compares the verifier with the labels of a real evaluation and explains every disagreement, as Markdown.
//!
//! `POINTSMAN_DATA=FOLDER cargo run --release -p answer --example gsm8k`, where the folder holds
//! `gsm8k_responses/tasks.jsonl.gz`. The labels were made by one rule: the last run of digits in the answer, commas
//! dropped, equals the reference. Where that rule took a part of a number for the whole, the label is wrong by itself;
//! what is left was read by eye, and `gsm8k_read.json` keeps who was right and why.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use answer::Answer;
use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use reading::number;
use serde::Deserialize;
use serde_json::Value;

/// Characters of an answer's end that are shown.
const SHOWN: usize = 120;

#[derive(Deserialize)]
struct Task {
    task_id: String,
    reference: Value,
    responses: std::collections::BTreeMap<String, String>,
    correct: HashMap<String, bool>,
}

#[derive(Deserialize)]
struct ByEye {
    /// "verifier", "label" or "neither".
    right: String,
    why: String,
}

#[derive(Default)]
struct Counts {
    total: u32,
    agreed: u32,
    label_errors: u32,
    verifier_errors: u32,
    unclear: u32,
}

fn main() -> Result<()> {
    let folder = std::env::var_os("POINTSMAN_DATA").context("POINTSMAN_DATA is not set")?;
    let path = Path::new(&folder).join("gsm8k_responses/tasks.jsonl.gz");
    let file = std::fs::File::open(&path).with_context(|| path.display().to_string())?;
    let mut lines = String::new();
    GzDecoder::new(file).read_to_string(&mut lines)?;
    let by_eye: HashMap<String, ByEye> = serde_json::from_str(include_str!("gsm8k_read.json"))?;

    let mut counts = Counts::default();
    let mut rows = vec![];
    for line in lines.lines() {
        let task: Task = serde_json::from_str(line)?;
        for (model, text) in &task.responses {
            let label = *task.correct.get(model).context("an answer without a label")?;
            counts.total += 1;
            rows.extend(compare(&task, model, text, label, &by_eye, &mut counts)?);
        }
    }
    print_report(&counts, &rows);
    Ok(())
}

/// A row of the table when verifier and label disagree.
fn compare(
    task: &Task,
    model: &str,
    text: &str,
    label: bool,
    by_eye: &HashMap<String, ByEye>,
    counts: &mut Counts,
) -> Result<Option<String>> {
    let metadata = serde_json::json!({"reference": task.reference}).to_string();
    let raw = verdict::RawTask { id: &task.task_id, domain: "math", metadata: &metadata, prompt: "" };
    let verdict = verdict::judge::<Answer>(&raw, text, "").map_err(|e| anyhow::anyhow!("{e:?}"))?;
    if (verdict.score == 1.0) == label {
        counts.agreed += 1;
        return Ok(None);
    }
    let read = &verdict.signals.first().context("a verdict without a signal")?.detail;
    let (right, why) = match by_eye.get(&format!("{}/{model}", task.task_id)) {
        Some(seen) => (seen.right.as_str(), seen.why.clone()),
        None => mechanical(text, read).map_or(("unclear", "not yet read by eye".to_owned()), |why| ("verifier", why)),
    };
    match right {
        "verifier" => counts.label_errors += 1,
        "label" => counts.verifier_errors += 1,
        _ => counts.unclear += 1,
    }
    let said = if label { "right" } else { "wrong" };
    Ok(Some(format!(
        "| {} | {model} | {} | {} | {read} | {said} | {right} | {why} |",
        task.task_id,
        task.reference,
        ending(text)
    )))
}

/// The label's rule took part of the answer's last number for the whole, while the verifier read that number.
fn mechanical(text: &str, read: &str) -> Option<String> {
    let run = last_run(text)?;
    let last = *number::scan(&number::clean(text)).last()?;
    let verifier: f64 = read.split(' ').next()?.parse().ok()?;
    let part = last.value != run.parse::<f64>().ok()?;
    (part && verifier == last.value).then(|| format!("the rule read {run}, the number is {verifier}"))
}

/// The label's rule.
fn last_run(text: &str) -> Option<String> {
    let text = text.replace(',', "");
    text.rsplit(|c: char| !c.is_ascii_digit()).find(|run| !run.is_empty()).map(str::to_owned)
}

fn ending(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let from = flat.chars().count().saturating_sub(SHOWN);
    let cut = if from > 0 { "…" } else { "" };
    format!("{cut}{}", flat.chars().skip(from + usize::from(from > 0)).collect::<String>())
}

fn print_report(counts: &Counts, rows: &[String]) {
    let share = |a: u32, b: u32| 100.0 * f64::from(a) / f64::from(b.max(1));
    let kept = counts.total - counts.label_errors;
    println!("# The numeric verifier against the labels of GSM8K answers\n");
    println!("Written by `verifiers/answer/examples/gsm8k.rs`: answers of two models to the 1,319 test tasks of GSM8K");
    println!("(Cobbe et al., 2021), labelled right or wrong in the evaluation data of RouteLLM.\n");
    println!("| | answers | agree | share |");
    println!("|---|---|---|---|");
    println!("| all | {} | {} | {:.2} % |", counts.total, counts.agreed, share(counts.agreed, counts.total));
    println!("| label errors set aside | {kept} | {} | {:.2} % |\n", counts.agreed, share(counts.agreed, kept));
    println!(
        "{} disagreements: in {} the label is wrong, in {} the verifier, {} cannot be decided.\n",
        rows.len(),
        counts.label_errors,
        counts.verifier_errors,
        counts.unclear
    );
    println!("The labels follow one rule: the last run of digits in the answer, commas dropped, equals the reference.");
    println!(
        "\"$20.00\" is 0 to it and \"7.5\" is 5. Such labels are found wrong by the program; the rest were read by"
    );
    println!(
        "eye (`verifiers/answer/examples/gsm8k_read.json`). Where both agree nothing was read again: mistakes that"
    );
    println!("they share are not counted.\n");
    println!("| task | model | reference | the answer ends | verifier read | label | right is | why |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        println!("{row}");
    }
}
