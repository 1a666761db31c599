//! Which files of a folder are LLMRouter's, as its repository lays them out and as people copy them.

use std::path::{Path, PathBuf};

use super::super::{source::folder_of, spot::file_name};

/// The files of a folder that a reader takes.
#[derive(Default)]
pub(super) struct Files {
    pub(super) routing: Vec<PathBuf>,
    pub(super) scored: Vec<PathBuf>,
    pub(super) queries: Vec<PathBuf>,
    pub(super) candidates: Option<PathBuf>,
}

/// The data lies in the folder or in `routing_data`, the rest beside it as the repository has it.
pub(super) fn find(path: &Path) -> Files {
    let mut files = Files::default();
    let folder = if path.is_dir() { path } else { folder_of(path) };
    if path.is_dir() {
        for place in [folder.to_owned(), folder.join("routing_data")] {
            files.take_data(listing(&place));
        }
    } else {
        files.take_data(vec![path.to_owned()]);
    }
    files.routing = without_copies(std::mem::take(&mut files.routing));
    let places = |name: &str| {
        let beside = [name.to_owned(), format!("../{name}"), format!("../example_data/{name}")];
        [folder.to_owned()].into_iter().chain(beside.map(|place| folder.join(place)))
    };
    let candidates = |path: &PathBuf| plain_name(path).ends_with("llm.json");
    files.candidates = places("llm_candidates").flat_map(|place| listing(&place)).find(candidates);
    let query = |path: &PathBuf| plain_name(path).contains("query") && plain_name(path).ends_with(".jsonl");
    let queries = |place: PathBuf| listing(&place).into_iter().filter(query).collect::<Vec<_>>();
    files.queries = places("query_data").map(queries).find(|files| !files.is_empty()).unwrap_or_default();
    files
}

impl Files {
    fn take_data(&mut self, paths: Vec<PathBuf>) {
        for path in paths {
            let name = plain_name(&path);
            let table = name.ends_with(".jsonl") || name.ends_with(".csv");
            if table && name.contains("routing") && name.contains("data") {
                self.routing.push(path);
            } else if name.ends_with("train.json") || name.ends_with("test.json") {
                self.scored.push(path);
            }
        }
    }
}

/// The files in a folder in the order of their splits, training first.
fn listing(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort_by_key(|path| {
        let split = split_of(path);
        (["train", "val", "test"].iter().position(|known| **known == split).unwrap_or(3), split, path.clone())
    });
    files
}

/// The library writes each file of records a second time as CSV: one of the two is read.
fn without_copies(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let stem = |path: &Path| path.with_file_name(plain_name(path)).with_extension("");
    let mut kept: Vec<PathBuf> = Vec::new();
    for file in files {
        match kept.iter_mut().find(|other| stem(other) == stem(&file)) {
            Some(other) if plain_name(other).ends_with(".csv") => *other = file,
            Some(_) => {}
            None => kept.push(file),
        }
    }
    kept
}

/// A file's name without .gz.
pub(super) fn plain_name(path: &Path) -> String {
    let name = file_name(path);
    name.strip_suffix(".gz").unwrap_or(&name).to_owned()
}

/// The split that a file's name says, or else the name.
pub(super) fn split_of(path: &Path) -> String {
    let name = plain_name(path);
    let known = ["train", "val", "test"].into_iter().find(|split| name.contains(split));
    known.map_or_else(|| name.split('.').next().unwrap_or_default().to_owned(), str::to_owned)
}
