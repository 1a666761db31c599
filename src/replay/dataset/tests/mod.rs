//! Small datasets of every format, written by hand: good, bad, damaged and cut off; and the real ones where they are.

mod bad_input;
mod formats;
mod fuzz;
mod real;
mod samples;

use super::*;

/// Reads with a format.
fn read(path: &Path, format: Format) -> Result<Dataset, DatasetError> {
    Dataset::read(path, &ReadOptions { format: Some(format), ..ReadOptions::default() })
}

/// What an error says, without the folder.
fn said(folder: &Path, result: Result<Dataset, DatasetError>) -> String {
    let folder = format!("{}/", folder.display());
    result.map_or_else(|error| error.to_string().replace(&folder, ""), |dataset| format!("no error: {dataset:?}"))
}

#[test]
fn the_expected_cost_is_what_a_router_knows_before_the_answer() {
    let model = Model { arm: ArmId::new("a").unwrap(), input_per_1m: 1.0, output_per_1m: 2.0 };
    assert!((model.expected_cost_usd("12345678") - (2.0 + 400.0) / 1e6).abs() < 1e-15);
}
