//! Golden lines, number extraction in prose, and agreement with the labels of a real evaluation.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;

#[test]
fn golden_lines_hold() {
    let failures = verdict::golden::failures::<Answer>(include_str!("../golden.jsonl"));
    assert!(failures.is_empty(), "{failures:#?}");
}

/// How the labels of the data set were made: the last run of digits in the text, commas dropped. This reading
/// explains 2,635 of 2,638 labels, and takes "$20.00" for 0 and "0.84" for 84.
fn harness_number(text: &str) -> Option<f64> {
    let text = text.replace(',', "");
    text.rsplit(|c: char| !c.is_ascii_digit()).find(|run| !run.is_empty())?.parse().ok()
}

/// Labels are trusted where the harness read a whole number and not the decimals of one, nor lost its sign.
#[test]
fn agrees_with_the_labels_of_real_answers() {
    let Some(folder) = std::env::var_os("POINTSMAN_DATA") else {
        println!("skipped: POINTSMAN_DATA is not set");
        return;
    };
    let path = std::path::Path::new(&folder).join("gsm8k_responses/tasks.jsonl.gz");
    let mut lines = String::new();
    GzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_string(&mut lines).unwrap();
    let (mut agreed, mut total, mut agreed_trusted, mut trusted) = (0_u32, 0_u32, 0_u32, 0_u32);
    for line in lines.lines() {
        let task: Value = serde_json::from_str(line).unwrap();
        let metadata = serde_json::json!({"reference": task["reference"]}).to_string();
        for (model, text) in task["responses"].as_object().unwrap() {
            let text = text.as_str().unwrap();
            let verdict =
                verdict::judge::<Answer>(&verdict::RawTask { metadata: &metadata, ..Default::default() }, text, "")
                    .unwrap();
            let agrees = (verdict.score == 1.0) == task["correct"][model].as_bool().unwrap();
            let last = number::scan(&number::clean(text)).last().map(|n| n.value);
            let read_whole = last == harness_number(text);
            total += 1;
            agreed += u32::from(agrees);
            trusted += u32::from(read_whole);
            agreed_trusted += u32::from(agrees && read_whole);
            if !agrees {
                println!(
                    "{} {model} trusted {read_whole} {:?} {:?}",
                    task["task_id"],
                    verdict.trace,
                    text.lines().last()
                );
            }
        }
    }
    let share = f64::from(agreed) / f64::from(total);
    let share_trusted = f64::from(agreed_trusted) / f64::from(trusted);
    println!("agreement {agreed} of {total}: {:.2} %", share * 100.0);
    println!("with trusted labels {agreed_trusted} of {trusted}: {:.2} %", share_trusted * 100.0);
    assert!(share_trusted >= 0.985, "{share_trusted}");
    assert!(share >= 0.97, "{share}");
}
