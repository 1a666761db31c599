//! The figures against a world whose truth is known.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::round::{ArmId, Audited, Coin, DecisionId, Domain, Found, Missing, ProbeEnd, ProbedArm};

const ROUNDS: u64 = 1_000;
const SHARE: f64 = 0.4;
/// The chance of a right answer, by domain and arm; the answers to one task go together.
const SKILL: [[f64; 3]; 2] = [[0.8, 0.6, 0.35], [0.3, 0.45, 0.7]];

/// A router that learns: mostly the arm that was best so far, and every arm with a probability of at least 0.2.
struct World {
    rng: ChaCha8Rng,
    arms: Vec<ArmId>,
    domains: Vec<Domain>,
    /// Rounds and rewards by domain and arm.
    seen: [[(f64, f64); 3]; 2],
    /// Per domain and arm, the sum of what it is expected to bring more than what was done.
    gains: [[f64; 3]; 2],
    /// What the best arm of each task brought more than what was to be expected, summed.
    per_task: f64,
    rounds: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            arms: ["a", "b", "c"].map(|arm| ArmId::new(arm).unwrap()).into(),
            domains: ["math", "text"].map(|domain| Domain::new(domain).unwrap()).into(),
            seen: [[(0.0, 0.0); 3]; 2],
            gains: [[0.0; 3]; 2],
            per_task: 0.0,
            rounds: 0,
        }
    }

    fn pmf(&self, domain: usize) -> [f64; 3] {
        let mean = |arm: usize| (self.seen[domain][arm].1 + 0.5) / (self.seen[domain][arm].0 + 1.0);
        let best = (0..3).max_by(|a, b| mean(*a).total_cmp(&mean(*b))).unwrap();
        let floor = (20.0 / (self.rounds as f64 + 60.0)).max(0.2);
        [0, 1, 2].map(|arm| if arm == best { 1.0 - 2.0 * floor } else { floor })
    }

    /// One round, told to the tracker, and its probe where the coin chose it.
    fn round(&mut self, tracker: &mut Tracker) -> Option<Audited> {
        let domain = usize::from(self.rng.random::<f64>() < 0.5);
        let pmf = self.pmf(domain);
        let hard: f64 = self.rng.random();
        let rewards: [f64; 3] = [0, 1, 2].map(|arm| {
            let own: f64 = self.rng.random();
            let draw = if self.rng.random::<f64>() < 0.6 { hard } else { own };
            f64::from(u8::from(draw < SKILL[domain][arm])) - 0.02 * arm as f64
        });
        let mean = |arm: usize| SKILL[domain][arm] - 0.02 * arm as f64;
        let expected: f64 = (0..3).map(|arm| pmf[arm] * rewards[arm]).sum();
        let value: f64 = (0..3).map(|arm| pmf[arm] * mean(arm)).sum();
        (0..3).for_each(|arm| self.gains[domain][arm] += mean(arm) - value);
        self.per_task += rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max) - expected;
        let draw: f64 = self.rng.random();
        let taken = if draw < pmf[0] { 0 } else { 1 + usize::from(draw >= pmf[0] + pmf[1]) };
        let seen = &mut self.seen[domain][taken];
        *seen = (seen.0 + 1.0, seen.1 + rewards[taken]);
        let coin = Coin { probability: SHARE, chosen: self.rng.random::<f64>() < SHARE };
        self.rounds += 1;
        let decision = DecisionId::from(u128::from(self.rounds));
        let candidates: Vec<_> = self.arms.iter().cloned().zip(pmf).collect();
        tracker.observe(&Observed {
            decision,
            domain: &self.domains[domain],
            arm: &self.arms[taken],
            propensity: pmf[taken],
            candidates: &candidates,
            coin: Some(coin),
            score: rewards[taken].clamp(0.0, 1.0),
            reward: rewards[taken],
            cost_usd: 0.0,
            truth: None,
            voters: &[],
        });
        let probed = |arm: usize| ProbedArm {
            mode: crate::round::Mode::Single,
            arm: self.arms[arm].clone(),
            p: pmf[arm],
            cost_usd: 0.1,
            found: Found::Judged { score: rewards[arm].clamp(0.0, 1.0), reward: rewards[arm] },
        };
        coin.chosen.then(|| Audited {
            decision_id: decision,
            domain: self.domains[domain].clone(),
            probability: SHARE,
            end: ProbeEnd::Measured,
            arms: (0..3).map(probed).collect(),
            nano_usd: 200_000_000,
        })
    }

    /// The regret against the best fixed arm per domain.
    fn fixed(&self) -> f64 {
        self.gains.iter().map(|gains| gains.iter().copied().fold(f64::NEG_INFINITY, f64::max)).sum()
    }
}

fn find(tracker: &Tracker, kind: Kind, target: Target) -> Measure {
    let found = tracker.measures().into_iter().find(|one| (one.kind, one.target) == (kind, target));
    found.unwrap()
}

/// Whether an interval that is about all rounds holds the truth; unknown while there is none.
fn holds(measure: &Measure, truth: f64) -> Option<bool> {
    measure.interval.filter(|all| all.rounds == measure.rounds).map(|all| (all.low..=all.high).contains(&truth))
}

#[test]
fn intervals_hold_at_all_times_and_audits_are_right_on_average() {
    let runs = 200;
    let (mut held, mut asked) = ([0; 3], [0; 3]);
    let (mut errors, mut widths) = (vec![], [0.0; 3]);
    for seed in 0..runs {
        let (mut world, mut tracker) = (World::new(seed), Tracker::default());
        let mut missed = [false; 3];
        let mut late = None;
        for round in 1..=ROUNDS {
            let probe = world.round(&mut tracker);
            // A probe ends while later rounds are learnt.
            if let Some(audited) = std::mem::replace(&mut late, probe) {
                tracker.probe(&audited);
            }
            if !round.is_multiple_of(100) {
                continue;
            }
            let figures = [
                (Kind::Estimated, Target::BestFixedPerDomain, world.fixed()),
                (Kind::Audited, Target::BestFixedPerDomain, world.fixed()),
                (Kind::Audited, Target::BestPerTask, world.per_task),
            ];
            for (place, (kind, target, truth)) in figures.into_iter().enumerate() {
                let holds = holds(&find(&tracker, kind, target), truth);
                missed[place] |= holds == Some(false);
                asked[place] += i32::from(holds.is_some());
            }
        }
        (0..3).for_each(|place| held[place] += i32::from(!missed[place]));
        for (measure, width) in tracker.measures().iter().zip(&mut widths) {
            let wide = measure.interval.map_or(f64::NAN, |all| (all.high - all.low) / measure.rounds as f64);
            *width += wide / runs as f64;
        }
        let audited = find(&tracker, Kind::Audited, Target::BestPerTask);
        errors.push(audited.cum_regret.unwrap() - world.per_task);
    }
    assert!(held.iter().all(|held| *held >= 180), "of {runs} runs {held:?} never missed");
    assert!(asked.iter().all(|asked| *asked >= 400), "intervals were there {asked:?} times");
    let narrow = widths.iter().zip([0.25, 0.11, 0.18]).all(|(width, most)| *width < most);
    assert!(narrow, "an interval that says nothing holds always: {widths:?} a round");
    let n = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / n;
    let deviation = (errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    assert!(mean.abs() < 3.0 * deviation / n.sqrt(), "off by {mean} on average, sd {deviation}");
}

#[test]
fn a_tracker_that_is_kept_and_read_back_goes_on_with_the_same_bits() {
    let (mut world, mut live) = (World::new(3), Tracker::default());
    let (mut twin, mut kept) = (World::new(3), Tracker::default());
    let text = |tracker: &Tracker| serde_json::to_string(tracker).unwrap();
    for round in 1..=400 {
        for (world, tracker) in [(&mut world, &mut live), (&mut twin, &mut kept)] {
            if let Some(probe) = world.round(tracker) {
                tracker.probe(&probe);
            }
        }
        if round % 7 == 0 {
            kept = serde_json::from_str(&text(&kept)).unwrap();
        }
    }
    assert_eq!(text(&kept), text(&live));
    let figures = |tracker: &Tracker| serde_json::to_string(&tracker.report()).unwrap();
    assert_eq!(figures(&kept), figures(&live));
}

/// As compaction left it before there were intervals and probes.
#[test]
fn a_tracker_of_an_earlier_version_is_read() {
    let (mut world, mut tracker) = (World::new(9), Tracker::default());
    (0..50).for_each(|_| drop(world.round(&mut tracker)));
    let mut kept = serde_json::to_value(&tracker).unwrap();
    kept.as_object_mut().unwrap().retain(|key, _| key != "audits" && key != "ordered");
    let works = kept["domains"].as_object_mut().unwrap();
    for work in works.values_mut() {
        work.as_object_mut().unwrap().remove("order");
        let estimated = work["estimated"].as_object_mut().unwrap();
        estimated.retain(|key, _| ["rounds", "reward", "arms"].contains(&key.as_str()));
        for arm in estimated["arms"].as_object_mut().unwrap().values_mut() {
            arm["doubly_robust"] = serde_json::json!(10.0);
        }
    }
    let mut read: Tracker = serde_json::from_value(kept).unwrap();
    assert_eq!((read.rounds(), read.report().audits.is_none()), (50, true));
    for _ in 0..900 {
        world.round(&mut read);
    }
    let estimated = find(&read, Kind::Estimated, Target::BestFixedPerDomain);
    let covered = estimated.interval.unwrap().rounds;
    assert_eq!((estimated.rounds, covered), (950, 900), "the interval is of the rounds since");
}

#[test]
fn what_was_not_measured_is_counted_and_left_out() {
    let (mut world, mut tracker) = (World::new(5), Tracker::default());
    let mut measured = 0;
    for _ in 0..300 {
        let Some(mut audited) = world.round(&mut tracker) else { continue };
        if measured >= 20 {
            audited.end = if measured % 2 == 0 { ProbeEnd::Incomplete } else { ProbeEnd::OverCap };
            audited.arms[1].found = Found::Missing(Missing::Late);
        }
        measured += 1;
        tracker.probe(&audited);
    }
    let counts = tracker.report().audits.unwrap();
    assert_eq!((counts.measured, counts.chosen, counts.rounds), (20, measured, 300));
    assert_eq!(counts.incomplete + counts.over_cap, measured - 20);
    assert!((counts.cost_usd - 0.2 * measured as f64).abs() < 1e-9);
    assert!(find(&tracker, Kind::Audited, Target::BestPerTask).interval.is_none(), "20 probes say too little");
}

#[test]
fn another_share_begins_another_measurement() {
    let (mut world, mut tracker) = (World::new(7), Tracker::default());
    let late: Vec<_> = (0..200).filter_map(|_| world.round(&mut tracker)).collect();
    let (domain, arm) = (Domain::new("math").unwrap(), ArmId::new("a").unwrap());
    let candidates = [(arm.clone(), 1.0)];
    let mut round = |id: u128, probability: f64| {
        tracker.observe(&Observed {
            decision: DecisionId::from(id),
            domain: &domain,
            arm: &arm,
            propensity: 1.0,
            candidates: &candidates,
            coin: Some(Coin { probability, chosen: false }),
            score: 1.0,
            reward: 1.0,
            cost_usd: 0.0,
            truth: None,
            voters: &[],
        });
    };
    round(1_000, 0.05);
    round(3, SHARE);
    round(1_001, 0.05);
    late.iter().for_each(|probe| tracker.probe(probe));
    let report = tracker.report();
    let counts = report.audits.unwrap();
    assert_eq!((counts.probability, counts.rounds, counts.measured), (0.05, 2, late.len() as u64));
    assert_eq!(find(&tracker, Kind::Audited, Target::BestPerTask).cum_regret, None, "they are of the one before");
}
