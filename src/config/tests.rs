use std::{fs, path::Path};

use super::*;

const GOOD: &str = r#"
[[arms]]
id = "a"
kind = "scripted"
default_skill = 0.5
"#;

fn no_env(_: &str) -> Option<String> {
    None
}

/// What the invalid samples find in their environment.
fn sample_env(name: &str) -> Option<String> {
    let secret = match name {
        "GOOD_SECRET" => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "SHORT_SECRET" => "whsec_c2hvcnQ=",
        "NOT_BASE64" => "whsec_of-no-base64-at-all-but-long",
        "NO_PREFIX" => "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        _ => return None,
    };
    Some(secret.into())
}

#[test]
fn the_defaults_and_one_arm_are_enough() {
    let config = check(GOOD, Path::new("."), &no_env).unwrap();
    assert!(config.listen.ip().is_loopback());
    assert_eq!(config.default_verifiers.len(), 3);
    assert_eq!(config.memory_cap, 20_000);
}

#[test]
fn the_example_file_is_right() {
    let text = include_str!("../../pointsman.example.toml");
    check(text, Path::new("."), &|_| Some("a-key-of-some-length".into())).unwrap();
}

#[test]
fn reports_every_problem_at_once_with_its_key() {
    let text = r#"
    speed = "fast"
    [server]
    listen = "0.0.0.0:80"
    [memory]
    cap = 0
    [reward]
    e2 = 1.0
    [domains.Math]
    [domains.code]
    verifiers = [{ name = "magic", weight = -1.0 }]
    [[arms]]
    id = "two words"
    kind = "openai"
    base_url = "ftp://x"
    model = ""
    api_key_env = "NO_SUCH_KEY"
    [[arms]]
    id = "b"
    kind = "scripted"
    default_skill = 2.0
    colour = "red"
    "#;
    let problems = check(text, Path::new("."), &no_env).unwrap_err();
    insta::assert_snapshot!(problems);
}

/// Each file in `bad/` names, in its first line, the key that must be reported.
#[test]
fn every_invalid_sample_fails_for_its_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/bad");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let expected = text.lines().next().unwrap().trim_start_matches("# ").to_owned();
        let problems = check(&text, Path::new("."), &sample_env).unwrap_err();
        let keys: Vec<_> = problems.0.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, [expected.as_str()], "{}: {problems}", path.display());
        seen += 1;
    }
    assert!(seen >= 10);
}

#[test]
fn secrets_of_webhooks_are_never_shown() {
    let hook = |variable: &str| {
        format!(
            "{GOOD}[[webhooks]]\nname = \"a\"\nurl = \"https://example.com/h?key=hunter2\"\nsecret_env = \"{variable}\"\n"
        )
    };
    let config = check(&hook("GOOD_SECRET"), Path::new("."), &sample_env).unwrap();
    assert_eq!(config.webhooks[0].events.len(), 1);
    let shown = format!("{config:?}");
    assert!(!shown.contains("MfKQ9r8GKYq") && !shown.contains("hunter2"), "{shown}");
    for variable in ["SHORT_SECRET", "NOT_BASE64", "NO_PREFIX"] {
        let problems = check(&hook(variable), Path::new("."), &sample_env).unwrap_err().to_string();
        let secret = sample_env(variable).unwrap();
        assert!(problems.contains(variable) && !problems.contains(&secret), "{problems}");
    }
}

#[test]
fn keys_are_never_shown() {
    let text = r#"
    [[arms]]
    id = "a"
    kind = "openai"
    base_url = "https://api.example.com/v1"
    model = "m"
    api_key_env = "KEY"
    "#;
    let config = check(text, Path::new("."), &|_| Some("hunter2-hunter2-hunter2".into())).unwrap();
    assert!(config.admin_key.is_some());
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_short_admin_key_is_refused_and_none_is_no_problem() {
    let refused = check(GOOD, Path::new("."), &|_| Some("hunter2".into())).unwrap_err();
    assert_eq!(refused.0[0].key, "server.admin_key_env");
    assert!(!refused.to_string().contains("hunter2"));
    assert!(check(GOOD, Path::new("."), &no_env).unwrap().admin_key.is_none());
}

/// The description of `POST /v1/arms` is written by hand, beside the API; this holds it against what is read here.
#[test]
fn the_described_keys_of_an_arm_are_those_that_are_read() {
    let mut read: std::collections::BTreeSet<String> = raw::ARM_KEYS.iter().map(|key| (*key).to_owned()).collect();
    read.insert("kind".into());
    for kind in ["openai", "anthropic", "scripted", "replay"] {
        let table = toml::Table::from_iter([("kind".to_owned(), kind.into()), ("no_such_key".to_owned(), 1.into())]);
        let error = toml::Value::Table(table).try_into::<raw::Worker>().unwrap_err().to_string();
        let (_, known) = error.split_once("expected one of").or_else(|| error.split_once("expected")).unwrap();
        read.extend(known.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    let description = crate::api::description();
    let properties = description["components"]["schemas"]["NewArm"]["properties"].as_object().unwrap();
    assert_eq!(properties.keys().cloned().collect::<std::collections::BTreeSet<_>>(), read);
}
