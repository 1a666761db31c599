//! The referee of the architecture: a module may import only the modules below it.

use std::{collections::BTreeSet, fs, path::Path};

/// Each module of `src/` and what it may import. Nobody imports `config` or `cli`.
const MAY_IMPORT: [(&str, &[&str]); 23] = [
    ("round", &[]),
    ("telemetry", &["round"]),
    ("access", &["round"]),
    ("grammar", &["round"]),
    ("action", &["round", "grammar"]),
    ("chat", &["round"]),
    ("arms", &["round", "telemetry", "chat"]),
    ("feedback", &["round", "telemetry"]),
    ("memory", &["round", "telemetry"]),
    ("journal", &["round", "telemetry"]),
    ("context", &["round", "telemetry", "memory"]),
    ("modes", &["round", "telemetry", "arms", "action", "chat", "grammar"]),
    ("regret", &["round", "journal", "action", "modes"]),
    ("history", &["round", "regret"]),
    ("replay", &["round", "journal", "action", "modes", "memory", "regret"]),
    ("train", &["round", "journal", "action", "modes", "replay", "grammar"]),
    (
        "router",
        &[
            "round",
            "telemetry",
            "access",
            "action",
            "arms",
            "feedback",
            "memory",
            "journal",
            "context",
            "modes",
            "chat",
            "regret",
            "history",
            "replay",
        ],
    ),
    ("dashboard", &["router", "round", "telemetry", "regret"]),
    ("webhooks", &["router", "round", "telemetry", "journal"]),
    (
        "api",
        &["router", "chat", "round", "telemetry", "access", "regret", "history", "replay", "dashboard", "webhooks"],
    ),
    (
        "config",
        &[
            "round", "access", "chat", "arms", "feedback", "journal", "action", "memory", "context", "router",
            "webhooks", "api", "modes", "grammar",
        ],
    ),
    ("lib.rs", &[]),
    ("main.rs", &["cli"]),
];

#[test]
fn every_module_imports_only_the_layers_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = vec![];
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "cli" {
            continue;
        }
        let allowed = MAY_IMPORT.iter().find(|(module, _)| *module == name);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{name} is not in the layer table"));
        for import in imports(&path) {
            if import != name && !allowed.contains(&import.as_str()) {
                wrong.push(format!("{name} imports {import}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// First segments of every `crate::` path in the Rust files below.
fn imports(path: &Path) -> BTreeSet<String> {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().flat_map(|entry| imports(&entry.unwrap().path())).collect();
    }
    if path.extension().is_none_or(|extension| extension != "rs") {
        return BTreeSet::new();
    }
    let text: String = fs::read_to_string(path)
        .unwrap()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = BTreeSet::new();
    for (start, _) in text.match_indices("crate::") {
        if text[..start].ends_with('$') {
            continue;
        }
        let rest = text[start + "crate::".len()..].trim_start();
        if let Some(group) = rest.strip_prefix('{') {
            found.extend(heads(group));
        } else {
            found.extend(head(rest));
        }
    }
    found
}

fn head(path: &str) -> Option<String> {
    let name: String = path.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The first segment of each path in a brace group, nested groups passed over.
fn heads(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut found = vec![];
    let mut at_start = true;
    for (index, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            c if at_start && !c.is_whitespace() => {
                found.extend(head(&group[index..]));
                at_start = false;
            }
            _ => {}
        }
    }
    found
}

#[test]
fn the_referee_reads_nested_imports() {
    assert_eq!(heads("action::{a, b::{c}},\n round::Task, router}"), ["action", "round", "router"]);
}
