//! The recorded outcomes, where POINTSMAN_DATA names their folder.

use super::*;

fn recorded(name: &str) -> Option<Dataset> {
    let Some(data) = std::env::var_os("POINTSMAN_DATA").filter(|data| !data.is_empty()) else {
        println!("skipped: POINTSMAN_DATA is not set, so there is no recorded dataset to read");
        return None;
    };
    Some(Dataset::read(&Path::new(&data).join(name), &ReadOptions::default()).unwrap())
}

#[test]
fn coderouterbench_is_whole_and_of_one_price_list() {
    let Some(dataset) = recorded("coderouterbench") else { return };
    assert_eq!((dataset.tasks.len(), dataset.models.len()), (10_175, 8));
    assert_eq!((dataset.without_prompt, dataset.unmeasured), (9_999 - 8_868, 1_986 + 324 + 840));
    assert_eq!(dataset.warnings, ["48536 costs are estimates of the source"]);
    let test = dataset.only(&["test".into()]).unwrap();
    assert_eq!((test.tasks.len(), test.unmeasured, test.without_prompt), (2_919, 840, 2_919 - 2_602));
    assert_eq!(dataset.only(&["train".into(), "val".into()]).unwrap().tasks.len(), 6_067 + 1_013);
    let ood = dataset.only(&["ood176".into()]).unwrap();
    assert_eq!((ood.tasks.len(), ood.without_prompt), (176, 0));
}

#[test]
fn llmrouter_is_whole() {
    let Some(dataset) = recorded("llmrouter") else { return };
    assert_eq!((dataset.tasks.len(), dataset.models.len(), dataset.without_prompt), (6_108, 9, 0));
}
