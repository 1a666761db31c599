//! Whatever bytes a file has, reading gives an error or a dataset that keeps its promises.

use std::collections::HashSet;

use proptest::{prelude::*, sample::Index};

use super::{samples::*, *};

/// What every dataset that is read promises.
fn holds(dataset: &Dataset) {
    let mut ids = HashSet::new();
    assert!(!dataset.models.is_empty() && !dataset.tasks.is_empty());
    for model in &dataset.models {
        assert!(model.input_per_1m >= 0.0 && model.input_per_1m.is_finite(), "{model:?}");
        assert!(model.output_per_1m >= 0.0 && model.output_per_1m.is_finite(), "{model:?}");
    }
    for task in &dataset.tasks {
        assert!(ids.insert(task.id.clone()), "{} twice", task.id);
        assert_eq!(task.results.len(), dataset.models.len());
        assert!(!task.text().trim().is_empty());
        for result in &task.results {
            assert!((0.0..=1.0).contains(&result.score), "{result:?}");
            assert!(result.cost_usd >= 0.0 && result.cost_usd.is_finite(), "{result:?}");
        }
    }
    let unmeasured = dataset.tasks.iter().flat_map(|task| &task.results).filter(|result| !result.measured);
    assert_eq!(dataset.unmeasured, unmeasured.count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn changed_bytes_give_an_error_or_a_whole_dataset(
        sample in any::<Index>(),
        file in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>(), 0..3_u8), 1..4),
        allow_mixed_prices in any::<bool>(),
        told in any::<bool>(),
    ) {
        let samples = all();
        let sample = sample.get(&samples);
        let (name, text) = file.get(&sample.files);
        let mut bytes = text.clone().into_bytes();
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let folder = sample.written();
        put(folder.path(), name, &bytes);
        let format = told.then_some(sample.format);
        let options = ReadOptions { format, allow_mixed_prices, ..ReadOptions::default() };
        match Dataset::read(folder.path(), &options) {
            Ok(dataset) => holds(&dataset),
            Err(error) => prop_assert!(error.to_string().len() < 900, "{error}"),
        }
    }

    #[test]
    fn changed_bytes_of_a_compressed_file_give_an_error_or_the_same(
        sample in any::<Index>(),
        file in any::<Index>(),
        at in any::<Index>(),
        bits in 1..=255_u8,
    ) {
        let samples = all();
        let sample = sample.get(&samples);
        let (name, text) = file.get(&sample.files);
        let folder = sample.compressed();
        let good = read(folder.path(), sample.format).unwrap();
        let mut bytes = gzip(text.as_bytes());
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        put(folder.path(), &format!("{name}.gz"), &bytes);
        if let Ok(dataset) = read(folder.path(), sample.format) {
            prop_assert_eq!(dataset, good);
        }
    }
}

#[test]
fn a_compressed_file_that_is_cut_anywhere_is_an_error_in_that_file() {
    for sample in all() {
        for (name, text) in &sample.files {
            // Of the runs that an older one is not read of only the head is.
            let older = name.contains("20250103") || (name.contains("/a/") && name.contains("20250101"));
            if older {
                continue;
            }
            let folder = sample.compressed();
            let whole = gzip(text.as_bytes());
            for length in 0..whole.len() {
                put(folder.path(), &format!("{name}.gz"), &whole[..length]);
                let error = said(folder.path(), read(folder.path(), sample.format));
                let expected = format!("{name}.gz:");
                assert!(error.starts_with(&expected) && error.contains("is cut off"), "{length} of {name}: {error}");
            }
        }
    }
}
