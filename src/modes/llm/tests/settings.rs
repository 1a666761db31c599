use std::collections::BTreeMap;

use super::*;

fn settings(dialect: Dialect) -> LlmSettings {
    let endpoint = Endpoint::Url { base_url: "http://127.0.0.1:8000/v1".into(), model: "m".into(), api_key_env: None };
    LlmSettings::new(endpoint, dialect)
}

#[test]
fn the_built_in_settings_are_well() {
    for dialect in Dialect::ALL {
        assert_eq!(settings(dialect).problems(), []);
        let name = serde_json::to_value(dialect).unwrap();
        assert_eq!(name, dialect.as_str());
    }
}

#[test]
fn every_setting_out_of_range_is_named() {
    let arm = |name: &str| ArmId::new(name).unwrap();
    let wrong = LlmSettings {
        endpoint: Endpoint::Url { base_url: "localhost:8000".into(), model: " ".into(), api_key_env: None },
        temperature: f64::NAN,
        top_p: 0.0,
        tokens_max: 0,
        mode_tokens_max: 0,
        timeout_ms: 0,
        resamples: 9,
        question_chars_max: 0,
        names: BTreeMap::from([(arm("a"), "Worker_7".into()), (arm("b"), "x:y".into())]),
        prompt: Some("Answer.".into()),
        ..settings(Dialect::Routeweaver)
    };
    let keys: Vec<_> = wrong.problems().into_iter().map(|(key, _)| key).collect();
    let numbers =
        ["temperature", "top_p", "tokens_max", "mode_tokens_max", "timeout_ms", "resamples", "question_chars_max"];
    assert_eq!(keys, [&["base_url", "model"][..], &numbers, &["prompt", "names", "names", "names"]].concat());
}

#[tokio::test]
async fn a_prompt_of_ones_own_is_filled_in_once() {
    let endpoint = Endpointed::new(&[MULTI, CALL_1]).await;
    let prompt = "Q: {question}\nW: {workers}\nGo.";
    let llm = endpoint.llm(|settings| settings.prompt = Some(prompt.into()), Dialect::Routeweaver);
    let pool = Pool::new(&["a", "bb"], &["x"]);
    llm.propose("What is {workers}? <answer>", &pool.offers(), &Mode::ALL, &Rules::default()).await;
    let asked = messages(&endpoint.asked()[0]);
    let filled = "Q: What is {workers}? <\\answer>\nW: worker_1: good at 1\nworker_2: good at 2\nGo.";
    assert_eq!(asked, [("user".to_owned(), filled.to_owned())]);
}

#[tokio::test]
async fn a_long_question_is_shown_in_part() {
    let endpoint = Endpointed::new(&[MULTI, CALL_1]).await;
    let llm = endpoint.llm(|settings| settings.question_chars_max = 100, Dialect::Routeweaver);
    let pool = Pool::new(&["a"], &["x"]);
    llm.propose(&"é".repeat(1_000), &pool.offers(), &Mode::ALL, &Rules::default()).await;
    assert_eq!(messages(&endpoint.asked()[0])[1].1.matches('é').count(), 100);
}
