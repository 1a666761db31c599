use candle_core::{DType, Device, Tensor, Var};
use std::collections::BTreeMap;

use super::{
    environment::{Environment, Failed, Made, Outcome, Query, Toy, World},
    loss::{Batch, Counts, Kind, LossSettings, loss, number, support},
    network::{Network, Sequence, variables},
    plans::Plan,
    rollout::{Ended, Free, Rollout, prefix, roll, stream},
    *,
};
use crate::{
    action::policy::mode_router::{Card, Checkpoint, Frozen, ModeRouter, Piece, Prefix, Shape, Weights},
    grammar::{Rules, Token, Writing},
    round::Mode,
};

const TINY: Shape = Shape { width: 16, layers: 2, heads: 2 };

/// Trajectories of every mode, written under the mask of an untrained network's world.
fn trajectories(network: &Frozen, seed: u64) -> Vec<Rollout> {
    let toy = Toy::new(6);
    let write = |query: usize, mode: Mode, forced: bool| {
        let mut rng = stream(&[b"test", &seed.to_le_bytes(), &(query as u64).to_le_bytes()]);
        let order = rollout::shuffled(toy.workers().len(), &mut rng);
        let prefix = prefix(&toy.queries()[query], 0.3, &order);
        let begun = network.begin(&prefix);
        let mut rules = warm_up::Rules { modes: [1.0 / 3.0; 3], rng: &mut rng, targets: vec![] };
        roll(network, &begun, &prefix, &order, &*toy.world(query, seed), forced.then_some(mode), &mut rules)
    };
    (0..6).map(|query| write(query, Mode::ALL[query % 3], query < 3)).collect()
}

#[test]
fn what_is_served_is_what_was_trained() {
    let weights = Weights::first(TINY, 5);
    let frozen = Frozen::new(weights.clone());
    let rollouts = trajectories(&frozen, 1);
    let sequences: Vec<&Sequence> = rollouts.iter().map(|rollout| &rollout.sequence).collect();
    let said = Network::fixed(&weights, DType::F32, &Device::Cpu).unwrap().read(&sequences).unwrap();
    let log_pi: Vec<f32> = said.log_pi.to_vec1().unwrap();
    let mut found = Vec::new();
    for rollout in &rollouts {
        let Sequence { prefix, pieces, choices } = &rollout.sequence;
        let mut reading = frozen.begin(prefix);
        let mut writing = Writing::new(prefix.workers.len(), Rules::default());
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                frozen.read(&mut reading, *piece);
            }
            if let Piece::Written(token) = piece {
                writing.push(*token).unwrap();
            }
            for choice in choices.iter().filter(|choice| choice.at == at) {
                let logits = frozen.logits(&reading, &writing);
                let sum: f64 = logits.iter().map(|(_, logit)| f64::from(*logit).exp()).sum();
                let chosen = logits.iter().find(|(token, _)| *token == choice.token).unwrap().1;
                found.push(f64::from(chosen) - sum.ln());
            }
        }
    }
    assert_eq!(found.len(), log_pi.len());
    for (served, trained) in found.iter().zip(&log_pi) {
        assert!((served - f64::from(*trained)).abs() < 1e-4, "{served} {trained}");
    }
}

#[test]
fn the_workers_order_does_not_matter() {
    let checkpoint = Checkpoint {
        card: Card::new(TINY, "m".into(), [0.0, 0.5]),
        weights: Weights::first(TINY, 6),
        hash: String::new(),
    };
    let router = ModeRouter::new(&checkpoint, 0.0);
    let toy = Toy::new(1);
    let order = [2, 0, 3, 1];
    let straight = prefix(&toy.queries()[0], 0.2, &[0, 1, 2, 3]);
    let turned = prefix(&toy.queries()[0], 0.2, &order);
    let offered: Vec<(Mode, usize)> =
        Mode::ALL.into_iter().flat_map(|mode| (0..4).map(move |worker| (mode, worker))).collect();
    let (one, other) = (router.joint(&straight, &offered), router.joint(&turned, &offered));
    assert!((one.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    for (place, (mode, worker)) in offered.iter().enumerate() {
        let there = offered
            .iter()
            .position(|other| *other == (*mode, order.iter().position(|w| w == worker).unwrap()))
            .unwrap();
        assert!((one[place] - other[there]).abs() < 1e-6);
    }
    let single: Vec<(Mode, usize)> = (0..4).map(|worker| (Mode::Single, worker)).collect();
    assert!((router.joint(&straight, &single).iter().sum::<f64>() - 1.0).abs() < 1e-9, "over what is offered");
}

/// The whole loss of a few trajectories: policy terms, distance and support.
fn whole_loss(shape: Shape, variables: &BTreeMap<String, Var>, rollouts: &[Rollout], reference: &Network) -> Tensor {
    let sequences: Vec<&Sequence> = rollouts.iter().map(|rollout| &rollout.sequence).collect();
    let said = Network::learning(shape, variables).read(&sequences).unwrap();
    let log_ref = reference.read(&sequences).unwrap().log_pi.detach();
    let kind: Vec<Kind> = rollouts.iter().flat_map(|rollout| rollout.kinds.clone()).collect();
    let advantage: Vec<f64> = (0..kind.len()).map(|place| ((place * 7 % 11) as f64 - 5.0) / 5.0).collect();
    // The reference wrote them, so that ratios are not 1 and some are clipped.
    let batch =
        Batch { log_pi: &said.log_pi, log_old: &log_ref, log_ref: &log_ref, advantage: &advantage, kind: &kind };
    let settings = LossSettings { beta: 0.5, floor: 0.33, ..LossSettings::default() };
    let loss = loss(&batch, Counts::of(&kind), &settings).unwrap().total;
    (loss + (support(&said.log_modes, settings.floor).unwrap() * 0.5).unwrap()).unwrap()
}

#[test]
fn every_variable_has_a_gradient_and_it_is_that_of_finite_differences() {
    let shape = Shape { width: 8, layers: 1, heads: 2 };
    let weights = Weights::first(shape, 3);
    let rollouts = trajectories(&Frozen::new(weights.clone()), 2);
    let reference = Network::fixed(&Weights::first(shape, 4), DType::F64, &Device::Cpu).unwrap();
    let variables = variables(&weights, DType::F64, &Device::Cpu).unwrap();
    let value =
        |variables: &BTreeMap<String, Var>| number(&whole_loss(shape, variables, &rollouts, &reference)).unwrap();
    let gradients = whole_loss(shape, &variables, &rollouts, &reference).backward().unwrap();
    for (name, variable) in &variables {
        let gradient = gradients.get(variable).unwrap_or_else(|| panic!("{name} has no gradient"));
        let gradient: Vec<f64> = gradient.flatten_all().unwrap().to_vec1().unwrap();
        let largest = gradient.iter().fold(0.0_f64, |most, g| most.max(g.abs()));
        assert!(largest > 1e-9, "{name} has a gradient of 0");
        // A query's bias moves all its keys' products alike only where keys do: the largest one is checked.
        let place = gradient.iter().position(|g| g.abs() == largest).unwrap();
        let first: Vec<f64> = variable.flatten_all().unwrap().to_vec1().unwrap();
        let at = |by: f64| {
            let mut moved = first.clone();
            moved[place] += by;
            variable.set(&Tensor::from_vec(moved, variable.dims(), &Device::Cpu).unwrap()).unwrap();
            let value = value(&variables);
            variable.set(&Tensor::from_vec(first.clone(), variable.dims(), &Device::Cpu).unwrap()).unwrap();
            value
        };
        let step = 1e-5;
        let differences = (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step);
        let error = (differences - gradient[place]).abs() / gradient[place].abs().max(1e-6);
        assert!(error <= 1e-5, "{name}: {} by differences {differences}", gradient[place]);
    }
}

#[test]
fn forced_declarations_are_read_and_not_chosen() {
    let frozen = Frozen::new(Weights::first(TINY, 8));
    for (number, rollout) in trajectories(&frozen, 3).iter().enumerate() {
        let declared =
            rollout.sequence.pieces.iter().filter(|piece| matches!(piece, Piece::Written(Token::Mode(_)))).count();
        assert_eq!(declared, 1);
        let chosen = rollout.kinds.iter().filter(|kind| **kind == Kind::Mode).count();
        assert_eq!(chosen, usize::from(number >= 3), "the first three were forced");
        assert!(matches!(rollout.ended, Ended::Answered(_)), "{:?}", rollout.ended);
    }
}

fn small(seed: u64) -> TrainSettings {
    TrainSettings { warm_up: 2, practice: 1, steps: 6, queries: 4, rollouts: 4, ..toy::settings(seed, true) }
}

#[test]
fn a_training_that_was_broken_off_goes_on_exactly_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, file) = (Toy::new(12), folder.path().join("training.safetensors"));
    let mut straight = Trainer::new(&toy, small(1), Device::Cpu).unwrap();
    let mut broken = Trainer::new(&toy, small(1), Device::Cpu).unwrap();
    for step in 0..9 {
        let wanted = straight.step().unwrap();
        assert_eq!(broken.step().unwrap(), wanted, "step {step}");
        broken.save(&file).unwrap();
        broken = Trainer::resume(&toy, small(1), Device::Cpu, &file).unwrap();
    }
    assert_eq!(broken.weights().unwrap(), straight.weights().unwrap());
    let other = Trainer::resume(&toy, small(2), Device::Cpu, &file);
    assert!(matches!(other, Err(TrainError::OtherSettings { what, .. }) if what.contains("seed")));
    std::fs::write(&file, b"nothing of the kind").unwrap();
    assert!(matches!(Trainer::resume(&toy, small(1), Device::Cpu, &file), Err(TrainError::File { .. })));
}

/// Every call of one worker fails.
struct Failing(Toy);

struct FailingWorld<'a>(Box<dyn World + 'a>);

impl Environment for Failing {
    fn domains(&self) -> &[String] {
        self.0.domains()
    }

    fn workers(&self) -> &[String] {
        self.0.workers()
    }

    fn queries(&self) -> &[Query] {
        self.0.queries()
    }

    fn world(&self, query: usize, seed: u64) -> Box<dyn World + '_> {
        Box::new(FailingWorld(self.0.world(query, seed)))
    }
}

impl World for FailingWorld<'_> {
    fn run(
        &self,
        made: &[Made],
        new: std::ops::Range<usize>,
    ) -> Result<Vec<crate::action::policy::mode_router::Seen>, Failed> {
        if made[new.clone()].iter().any(|call| call.worker == 3) { Err(Failed) } else { self.0.run(made, new) }
    }

    fn close(&self, made: &[Made], answer: usize) -> Result<Outcome, Failed> {
        self.0.close(made, answer)
    }
}

#[test]
fn calls_that_fail_are_no_evidence_and_training_goes_on() {
    let failing = Failing(Toy::new(12));
    let mut trainer = Trainer::new(&failing, small(4), Device::Cpu).unwrap();
    let mut failed = 0;
    while trainer.done() < trainer.steps() {
        let report = trainer.step().unwrap();
        assert!(report.loss.is_finite() && report.gradient.is_finite());
        let broke: u64 = report.violations.values().sum();
        failed += u64::from(!report.warm_up && broke < report.rollouts);
    }
    assert!(failed > 0);
    // A rollout whose call failed has no reward, not -1.
    let network = Frozen::new(trainer.weights().unwrap());
    let known: Prefix = prefix(&failing.queries()[0], 0.0, &[3]);
    let mut writer = Free::new(&network, stream(&[b"x"]));
    let world = failing.world(0, 1);
    let ended: Vec<Ended> = (0..40)
        .map(|_| roll(&network, &network.begin(&known), &known, &[3], &*world, Some(Mode::Single), &mut writer).ended)
        .collect();
    assert!(
        ended.contains(&Ended::Failed) && ended.iter().all(|ended| !matches!(ended, Ended::Answered(_))),
        "{ended:?}"
    );
}

#[test]
fn without_progressive_exploration_one_mode_is_left_and_with_it_every_mode_finds_its_place() {
    let collapsed = toy::run(toy::settings(1, false), &|_| {}).unwrap();
    assert!(collapsed.modes[0] > 0.99, "{:?}", collapsed.modes);
    let explored = toy::run(toy::settings(1, true), &|_| {}).unwrap();
    assert!(explored.modes.iter().all(|share| *share > 0.2), "{:?}", explored.modes);
    assert!(explored.score > 0.80 && explored.score > collapsed.score + 0.2, "{} {}", explored.score, collapsed.score);
}

#[test]
fn a_plan_that_is_shown_comes_to_what_it_comes_to_by_itself() {
    let (toy, network) = (Toy::new(3), Frozen::new(Weights::first(TINY, 7)));
    let order = [2, 0, 3, 1];
    let plans = [
        Plan::Single(1),
        Plan::Multi(vec![1, 0]),
        Plan::Multi(vec![2, 3, 1, 0]),
        Plan::Team(vec![2, 3], None, 2),
        Plan::Team(vec![0], Some(1), 2),
    ];
    for (query, plan) in (0..3).flat_map(|query| plans.iter().map(move |plan| (query, plan))) {
        let world = toy.world(query, 11);
        let shown = plans::tokens(&*world, plan, &order);
        let prefix = prefix(&toy.queries()[query], 0.0, &order);
        let mut rng = stream(&[b"unused"]);
        let mut rules = warm_up::Rules { modes: [0.2, 0.3, 0.5], rng: &mut rng, targets: vec![] };
        let mut writer = warm_up::Shown { rules: &mut rules, tokens: shown.clone().into_iter() };
        let rollout = roll(&network, &network.begin(&prefix), &prefix, &order, &*world, None, &mut writer);
        let chosen: Vec<Token> = rollout.sequence.choices.iter().map(|choice| choice.token).collect();
        assert_eq!(chosen, shown, "{plan:?}");
        let trial = plans::trial(&toy, query, 11, plan);
        let Ended::Answered(outcome) = rollout.ended else { panic!("{plan:?}: {:?}", rollout.ended) };
        assert_eq!((outcome.score, outcome.cost_usd.unwrap()), (trial.score, trial.cost_usd), "{plan:?}");
        assert_eq!(rollout.made.len() as f64, trial.calls);
        // Modes are taught as they are to be tried, all else as it is shown, with a little of what the rules allow.
        assert_eq!(rules.targets.len(), shown.len());
        for (target, shown) in rules.targets.iter().zip(&shown) {
            assert!((target.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
            let of_shown = target.iter().find(|(token, _)| token == shown).unwrap().1;
            match shown {
                Token::Mode(mode) => {
                    assert_eq!(of_shown, [0.2, 0.3, 0.5][crate::action::policy::mode_router::mode_place(*mode)]);
                }
                _ => assert!(of_shown > 0.97 - 1e-9, "{shown:?} {of_shown}"),
            }
        }
    }
}

#[test]
fn the_search_finds_the_best_plan_of_each_mode() {
    let toy = Toy::new(300);
    for kind in 0..3 {
        let best = plans::Search::new(&toy, kind, 0.0, 1.0).best();
        // Right is one worker, by kind of task and mode; rounds and teams of it alone cannot be had, so that part of their calls is wrong.
        assert_eq!(best[0].0, Plan::Single(kind));
        let Plan::Multi(sequence) = &best[1].0 else { panic!("{best:?}") };
        assert!(sequence.contains(&(kind + 1)) && sequence.len() == 2, "{sequence:?}");
        let wanted = (kind + 2) % 4;
        assert_eq!(best[2].0, Plan::Team(vec![wanted], None, wanted));
    }
}

#[test]
fn what_is_practised_is_what_is_done_then() {
    let toy = Toy::new(30);
    let settings = TrainSettings {
        warm_up: 0,
        practice: 150,
        steps: 1,
        alpha: [0.0, 0.4],
        prior: [1.0 / 3.0; 3],
        ..toy::settings(1, true)
    };
    let mut trainer = Trainer::new(&toy, settings, Device::Cpu).unwrap();
    while trainer.done() < 150 {
        assert!(trainer.step().unwrap().warm_up);
    }
    let network = Frozen::new(trainer.weights().unwrap());
    let order = [0, 1, 2, 3];
    for (query, mode) in (0..3).flat_map(|query| Mode::ALL.map(|mode| (query, mode))) {
        let prefix = prefix(&toy.queries()[query], 0.0, &order);
        let best = plans::Search::new(&toy, query, 0.0, trainer.cost_reference_usd(0)).best();
        let world = toy.world(query, 5);
        let mut writer = rollout::Masked::new(&network, None);
        let rollout = roll(&network, &network.begin(&prefix), &prefix, &order, &*world, Some(mode), &mut writer);
        let workers: Vec<usize> = rollout.made.iter().map(|made| made.worker).collect();
        let wanted = match &best[crate::action::policy::mode_router::mode_place(mode)].0 {
            Plan::Single(worker) => vec![*worker],
            Plan::Multi(sequence) => sequence.clone(),
            Plan::Team(executors, verifier, summarizer) => {
                [&executors[..], verifier.as_slice(), &[*summarizer]].concat()
            }
        };
        assert_eq!(workers, wanted, "{mode} of kind {query}");
    }
}

#[test]
fn modes_are_shown_by_what_they_come_to_and_none_is_forgotten() {
    assert!(warm_up::modes([0.5; 3]).iter().all(|share| (share - 1.0 / 3.0).abs() < 1e-12));
    let shares = warm_up::modes([0.62, 0.60, -1.0]);
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(((shares[0] - 0.01) / (shares[1] - 0.01) - 1.0_f64.exp()).abs() < 1e-6, "{shares:?}");
    assert!((shares[2] - 0.01).abs() < 1e-9);
}
