use candle_core::{DType, Device};

use super::{
    super::{Architecture, CONFIG_FILE, Target, tests::smollm2, tests::tiny},
    *,
};
use crate::train::mode_router::{environment::Toy, rollout::Ended};

/// Steps of every kind within four: practice, all forced, fewer and fewer.
fn settings() -> BackboneSettings {
    BackboneSettings {
        warm_up: 1,
        steps: 3,
        queries: 2,
        rollouts: 3,
        rate: 1e-2,
        warm_up_rate: 1e-2,
        schedule: Schedule { cold: 1, anneal: 4, support: 0.5, progressive: true },
        loss: LossSettings { floor: 0.33, ..LossSettings::default() },
        lora: LoraSettings { rank: 2, alpha: 4.0, targets: vec![Target::QProj, Target::DownProj] },
        sampling: Sampling { mode_tokens_max: 5, turn_tokens_max: 8, ..Sampling::default() },
        ..BackboneSettings::default()
    }
}

fn trainer(toy: &Toy, dtype: DType, settings: BackboneSettings) -> BackboneTrainer<'_> {
    BackboneTrainer::new(toy, tiny::backbone(Architecture::Llama, dtype), settings).unwrap()
}

fn numbers(trainer: &BackboneTrainer<'_>) -> Vec<Vec<f32>> {
    let read = |variable: &Var| variable.flatten_all().unwrap().to_vec1().unwrap();
    trainer.variables().values().map(read).collect()
}

#[test]
fn a_training_that_was_broken_off_goes_on_exactly_where_it_was_left() {
    let toy = Toy::new(5);
    let model = || tiny::backbone(Architecture::Llama, DType::F32);
    let mut whole = trainer(&toy, DType::F32, settings());
    let mut reports: Vec<StepReport> = (0..2).map(|_| whole.step().unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    whole.save(folder.path()).unwrap();
    reports.extend((0..2).map(|_| whole.step().unwrap()));
    assert!(reports[0].warm_up && reports[0].gradient > 0.0 && reports[2].support > 0.0, "{reports:?}");
    assert_eq!(reports[1].violations.values().sum::<u64>(), 6, "a model with random numbers breaks rules");
    let mut resumed = BackboneTrainer::resume(&toy, model(), settings(), folder.path()).unwrap();
    assert_eq!(resumed.done(), 2);
    assert_eq!((0..2).map(|_| resumed.step().unwrap()).collect::<Vec<_>>(), reports[2..]);
    assert_eq!(numbers(&resumed), numbers(&whole));
    // Longer is the same training; another rate or model is not.
    let told = |model: Backbone, settings: BackboneSettings| {
        BackboneTrainer::resume(&toy, model, settings, folder.path()).err().map(|error| error.to_string())
    };
    assert_eq!(told(model(), BackboneSettings { steps: 9, ..settings() }), None);
    let other = told(model(), BackboneSettings { rate: 1e-3, ..settings() }).unwrap();
    assert!(other.contains("rate is 0.01 there and 0.001 here"), "{other}");
    let other = told(tiny::backbone(Architecture::Qwen2, DType::F32), settings()).unwrap();
    assert!(other.contains("the model is another one"), "{other}");
    let file = folder.path().join("training.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert!(told(model(), settings()).unwrap().contains("training.safetensors"));
}

#[test]
fn adapters_are_written_as_peft_names_them() {
    let toy = Toy::new(3);
    let mut trainer = BackboneTrainer::new(&toy, tiny::backbone(Architecture::Qwen3, DType::F32), settings()).unwrap();
    trainer.step().unwrap();
    let folder = tempfile::tempdir().unwrap();
    trainer.save(folder.path()).unwrap();
    let found = candle_core::safetensors::load(folder.path().join("adapter_model.safetensors"), &Device::Cpu).unwrap();
    let size = |name: &str| found[name].dims().to_vec();
    assert_eq!(found.len(), 2 * 2 * 2);
    assert_eq!(size("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"), [2, 32]);
    assert_eq!(size("base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"), [64, 2]);
    assert_eq!(size("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"), [2, 64]);
    let config = std::fs::read_to_string(folder.path().join(CONFIG_FILE)).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!((config["r"].as_u64(), config["lora_alpha"].as_f64()), (Some(2), Some(4.0)));
    assert_eq!(config["target_modules"], serde_json::json!(["q_proj", "down_proj"]));
    assert_eq!(config["peft_type"], "LORA");
}

#[test]
fn practice_teaches_the_rules() {
    let toy = Toy::new(6);
    let all = LoraSettings { rank: 8, alpha: 16.0, targets: Target::ALL.to_vec() };
    let settings = BackboneSettings { warm_up: 12, warm_up_rate: 2e-2, lora: all, ..settings() };
    let mut trainer = trainer(&toy, DType::F32, settings);
    let losses: Vec<f64> = (0..12).map(|_| trainer.step().unwrap().loss).collect();
    assert!((losses[0] - (tiny::VOCABULARY as f64).ln()).abs() < 1.0, "nothing is known at first: {losses:?}");
    assert!(losses[11] < losses[0] - 1.0, "{losses:?}");
}

fn rollout(tokens: &[(u32, Kind)]) -> TextRollout {
    TextRollout {
        tokens: tokens.iter().map(|(token, _)| *token).collect(),
        kinds: tokens.iter().map(|(_, kind)| *kind).collect(),
        mode: Some(Mode::Multi),
        made: vec![],
        ended: Ended::Unterminated,
    }
}

/// The gradient of one group's rollouts, and what is told of it.
fn pulled(
    trainer: &BackboneTrainer<'_>,
    rollouts: Vec<TextRollout>,
    weights: Vec<Option<Advantage>>,
) -> (Gradients, StepReport) {
    let written =
        Written { beginning: vec![1, 2, 3, 4, 5], group: Group { pool: 0, alpha: 0.0, forced: false, rollouts } };
    let (mut gradients, mut report) = (Gradients::new(), StepReport::default());
    trainer.pull(&[written], &[weights], &mut gradients, &mut report).unwrap();
    (gradients, report)
}

fn all(gradients: &Gradients) -> Vec<f64> {
    let read = |gradient: &Tensor| gradient.flatten_all().unwrap().to_vec1::<f64>().unwrap();
    gradients.values().flat_map(read).collect()
}

#[test]
fn what_is_masked_has_no_gradient_and_rows_that_count_nowhere_are_left_out() {
    let toy = Toy::new(3);
    let trainer = trainer(&toy, DType::F64, settings());
    let (mode, inner, masked) = (Kind::Mode, Kind::Inner, Kind::Masked);
    let free = rollout(&[(5, mode), (6, mode), (9, masked), (8, masked), (7, inner), (11, inner)]);
    let forced = rollout(&[(5, masked), (6, masked), (9, masked), (8, masked)]);
    let weight = Some(Advantage { mode: 0.5, inner: -0.25 });
    let (nothing, report) = pulled(&trainer, vec![forced.clone(), free.clone()], vec![weight, None]);
    assert!(nothing.is_empty() && report.loss == 0.0);
    let (alone, report) = pulled(&trainer, vec![free.clone()], vec![weight]);
    assert!(all(&alone).iter().any(|slope| *slope != 0.0));
    assert!((report.loss_mode + 0.5).abs() < 1e-9 && (report.loss_inner - 0.25).abs() < 1e-9, "{report:?}");
    // A row beside it whose tokens are all masked, or that counts nowhere, changes nothing.
    let (beside, _) = pulled(&trainer, vec![free.clone(), forced, free], vec![weight, weight, None]);
    assert!(all(&alone).iter().zip(all(&beside)).all(|(alone, beside)| (alone - beside).abs() < 1e-12));
}

#[test]
fn the_gradient_is_the_same_in_one_tree_or_several_and_modes_may_be_told_apart_or_not() {
    let toy = Toy::new(3);
    let of = |pack_tokens_max: usize, comet: bool| {
        let trainer = trainer(&toy, DType::F64, BackboneSettings { pack_tokens_max, comet, ..settings() });
        let kinds = [Kind::Mode, Kind::Masked, Kind::Inner, Kind::Inner];
        let row = |n: u32| rollout(&[0, 1, 2, 3].map(|at| (n * 31 + at * 7, kinds[at as usize])));
        let weight = |n: u32| Advantage { mode: 0.1 * f64::from(n), inner: 0.3 - 0.2 * f64::from(n) };
        let (gradients, report) = pulled(&trainer, (1..6).map(row).collect(), (0..5).map(weight).map(Some).collect());
        (all(&gradients), report)
    };
    let (together, whole) = of(1_000, true);
    for room in [13, 5, 1] {
        let (apart, report) = of(room, true);
        assert!((report.loss - whole.loss).abs() < 1e-12);
        assert!(together.iter().zip(&apart).all(|(one, other)| (one - other).abs() < 1e-12), "{room}");
    }
    let (plain, report) = of(1_000, false);
    assert_ne!(plain, together);
    // All tokens are weighed by the sum of both parts: the mean of (.1 - .2) n + .3 is .1.
    assert!((report.loss + 0.1).abs() < 1e-9, "{report:?}");
}

#[test]
fn the_term_that_keeps_modes_alive_has_the_gradient_of_finite_differences() {
    let toy = Toy::new(4);
    let trainer = trainer(&toy, DType::F64, settings());
    // B is zero at first, and A would have no gradient.
    for (place, variable) in trainer.variables.values().enumerate() {
        let number = |n: usize| 0.2 * ((n * 5 + place) as f64 * 0.37).sin();
        let numbers: Vec<f64> = (0..variable.elem_count()).map(number).collect();
        variable.set(&Tensor::from_vec(numbers, variable.shape(), &Device::Cpu).unwrap()).unwrap();
    }
    let at_step = |step: u64| {
        let (mut gradients, mut report) = (Gradients::new(), StepReport::default());
        trainer.keep_modes_alive(step, &mut gradients, &mut report).unwrap();
        (report.support, gradients)
    };
    let (support, gradients) = at_step(2);
    assert!(support > 0.0 && gradients.len() == trainer.variables.len());
    for (name, variable) in &trainer.variables {
        let gradient = &gradients[name];
        let size = number(&gradient.sqr().unwrap().sum_all().unwrap()).unwrap().sqrt();
        let before = variable.as_tensor().copy().unwrap();
        // Along the gradient itself the term grows by its length.
        let at = |step: f64| {
            variable.set(&(&before + (gradient * (step / size)).unwrap()).unwrap()).unwrap();
            at_step(2).0
        };
        let found = (at(1e-5) - at(-1e-5)) / 2e-5;
        variable.set(&before).unwrap();
        assert!(size > 1e-9 && (found - size).abs() < 1e-5 * size, "{name}: {found} instead of {size}");
    }
    let (support, gradients) = at_step(0);
    assert!(gradients.is_empty() && support == 0.0, "in the cold start there is no such term");
}

#[test]
fn a_question_that_has_no_room_is_refused_with_what_to_do() {
    let toy = Toy::new(3);
    let sampling = Sampling { tokens_max: 400, ..settings().sampling };
    let mut trainer = trainer(&toy, DType::F32, BackboneSettings { sampling, ..settings() });
    let error = trainer.step().unwrap_err().to_string();
    assert!(error.contains("toy-") && error.contains("of 400") && error.contains("longer context"), "{error}");
}

#[test]
fn two_steps_on_a_real_model() {
    let Some(file) = smollm2() else { return };
    let toy = Toy::new(3);
    let defaults = BackboneSettings::default();
    let settings = BackboneSettings {
        steps: 2,
        queries: 1,
        rollouts: 2,
        sampling: Sampling { turn_tokens_max: 16, mode_tokens_max: 8, ..defaults.sampling },
        ..defaults
    };
    let backbone = Backbone::load(&file, &Device::Cpu).unwrap();
    let mut trainer = BackboneTrainer::new(&toy, backbone, settings).unwrap();
    for step in 0..2 {
        let report = trainer.step().unwrap();
        assert_eq!((report.step, report.rollouts, report.rho), (step, 2, 1.0));
        assert!(report.loss.is_finite() && report.gradient.is_finite() && report.kl.abs() < 1e-3, "{report:?}");
    }
}
