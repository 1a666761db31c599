//! How often the intervals of off-policy estimates hold the truth, on simulated logs.
//!
//! `cargo bench --bench off_policy [-- --seeds 20]` draws 200 worlds of 5 to 8 arms and six kinds of tasks in three domains, lets a
//! policy that learns (square_cb, a Thompson sampler or epsilon-greedy, by seed, over a floor that gives every arm at least
//! 10 % / arms) decide 10,000 tasks with scores of 0 or 1, and evaluates four policies on the log. The truth is the world's:
//! the mean over the rounds of what the evaluated policy, as far as it had learnt, was worth over all kinds of tasks. It is
//! asked at three numbers of rounds, and at 95 of them together, 5 % apart from 100 on, where a single miss counts.

use std::collections::BTreeMap;

use pointsman::{
    action::{
        policy::{LearntRound, Opinion, Policy, PolicySettings, build},
        sample::sample,
    },
    regret::Interval,
    replay::off_policy::{Comparison, Estimate, Evaluation, Logged, OffPolicyReport},
    round::{
        ArmId, Candidate, Context, Decision, DecisionId, Domain, Embedding, Mode, PolicyRef, Probability, Propensity,
        Reason, RewardWeights, TaskId,
    },
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

const ROUNDS: u64 = 10_000;
const AT: [u64; 3] = [2_000, 5_000, 10_000];
const KINDS: usize = 6;
const FLOOR: f64 = 0.1;
const LOGGING: [&str; 3] = ["square_cb", "lin_thompson", "epsilon_greedy"];
/// Evaluated two by two, so that their difference is as well.
const PAIRS: [(&str, &str); 2] = [("lin_ucb", "domain_prior"), ("fixed:arm-0", "uniform")];

/// Six kinds of tasks, equally often, and each arm's probability of success on each.
struct World {
    rng: ChaCha8Rng,
    contexts: Vec<Context>,
    success: Vec<Vec<f64>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let arms = rng.random_range(5..=8);
        let quality: Vec<f64> = (0..arms).map(|_| rng.random_range(0.2..0.7)).collect();
        let success = (0..KINDS)
            .map(|_| quality.iter().map(|mean| (mean + rng.random_range(-0.3..0.3_f64)).clamp(0.03, 0.97)).collect())
            .collect();
        let contexts = (0..KINDS)
            .map(|kind| {
                let text = Embedding::new((0..8).map(|_| rng.random_range(-1.0..1.0)).collect()).expect("not zero");
                let domain = Domain::new(format!("domain-{}", kind % 3)).expect("a plain name");
                let candidates = (0..arms).map(|arm| Candidate::new(Mode::Single, arm_id(arm), 0.0)).collect();
                Context { weights: RewardWeights { e1: 1.0, e2: 0.0 }, ..Context::new(text, domain, candidates) }
            })
            .collect();
        Self { rng, contexts, success }
    }

    /// What a policy is worth as it is now.
    fn value(&self, policy: &dyn Policy, seed: u64) -> f64 {
        let of_kind = |(context, success): (&Context, &Vec<f64>)| {
            let pmf = policy.decide(context, seed).expect("it can judge").pmf;
            pmf.iter().zip(success).map(|(p, success)| p * success).sum::<f64>()
        };
        self.contexts.iter().zip(&self.success).map(of_kind).sum::<f64>() / KINDS as f64
    }
}

fn arm_id(arm: usize) -> ArmId {
    ArmId::new(format!("arm-{arm}")).expect("a plain name")
}

/// What was logged of a task.
struct Row {
    kind: usize,
    decision: Decision,
    taken: usize,
    score: f64,
}

impl Row {
    fn round<'a>(&'a self, world: &'a World) -> LearntRound<'a> {
        LearntRound {
            propensity: self.decision.propensity.get(),
            seed: self.decision.seed,
            ..LearntRound::new(&world.contexts[self.kind], self.taken, self.score)
        }
    }
}

/// A policy that learns from its own picks. `stated_floor` is the floor that the log speaks of.
fn log(world: &mut World, policy: &str, stated_floor: f64) -> Vec<Row> {
    let mut policy = build(policy, &PolicySettings::default()).expect("it is registered");
    let mut rows = Vec::with_capacity(ROUNDS as usize);
    for number in 0..ROUNDS {
        let kind = world.rng.random_range(0..KINDS);
        let id = DecisionId::from(u128::from(number) + (u128::from(world.rng.random::<u64>()) << 64));
        let context = &world.contexts[kind];
        let Opinion { pmf, .. } = policy.decide(context, id.seed()).expect("it can judge");
        let over =
            |floor: f64| -> Vec<f64> { pmf.iter().map(|p| (1.0 - floor) * p + floor / pmf.len() as f64).collect() };
        let taken = sample(&over(FLOOR), id.seed()).expect("a distribution");
        let score = f64::from(u8::from(world.rng.random_bool(world.success[kind][taken])));
        let row = Row { kind, decision: decision(id, context, &over(stated_floor), taken), taken, score };
        policy.learn(&row.round(world));
        rows.push(row);
    }
    rows
}

fn decision(id: DecisionId, context: &Context, pmf: &[f64], taken: usize) -> Decision {
    let entry = |(candidate, p): (&Candidate, &f64)| Probability {
        mode: candidate.mode,
        arm: candidate.arm.clone(),
        p: *p,
        expected: None,
    };
    Decision {
        id,
        task_id: TaskId::new("task").expect("a plain name"),
        mode: Mode::Single,
        arm: context.candidates[taken].arm.clone(),
        propensity: Propensity::new(pmf[taken]).expect("above the floor"),
        pmf: context.candidates.iter().zip(pmf).map(entry).collect(),
        voters: vec![],
        policy: PolicyRef { name: "logged".into(), version: 1, card: String::new() },
        shadow: None,
        learnt_rounds: 0,
        state_at: 1,
        reason: Reason::Explore,
        seed: id.seed(),
    }
}

/// What was seen of one interval in one simulation.
#[derive(Default, Clone)]
struct Seen {
    kind: &'static str,
    missed_at: [bool; 3],
    width_at: [f64; 3],
    ever_missed: bool,
    plain_missed_at: [bool; 3],
    plain_ever_missed: bool,
}

impl Seen {
    fn look(&mut self, round: u64, interval: Option<Interval>, plain: Option<Interval>, truth: f64) {
        let missed = |interval: Option<Interval>| interval.is_some_and(|interval| !interval.contains(truth));
        self.ever_missed |= missed(interval);
        self.plain_ever_missed |= missed(plain);
        if let Some(at) = AT.iter().position(|at| *at == round) {
            // An interval that is not given is as wide as all that can be.
            self.width_at[at] = interval.map_or(1.0, |interval| interval.width());
            self.missed_at[at] = missed(interval);
            self.plain_missed_at[at] = missed(plain);
        }
    }
}

/// The interval of one moment, mean -+ 1.96 standard errors.
fn plain(estimate: &Estimate) -> Option<Interval> {
    let half = 1.96 * estimate.standard_error?;
    let value = estimate.value?;
    Some(Interval { low: value - half, high: value + half })
}

type Found = BTreeMap<(usize, String, &'static str), Seen>;

/// One simulated log, with all that is evaluated on it.
fn simulate(seed: u64) -> Found {
    let mut world = World::new(seed);
    let rows = log(&mut world, LOGGING[seed as usize % LOGGING.len()], FLOOR);
    let settings = PolicySettings::default();
    let make = |name: &str| build(name, &settings).expect("it is registered");
    let mut found = Found::new();
    for (place, (a, b)) in PAIRS.into_iter().enumerate() {
        let evaluation = |name: &'static str| Evaluation::new(name, &|| make(name));
        let mut comparison = Comparison::new(evaluation(a), evaluation(b), 0.05);
        let mut copies = [make(a), make(b)];
        let (mut truth, mut look_at) = ([0.0; 2], 100);
        for (row, round) in rows.iter().zip(1..) {
            for (truth, copy) in truth.iter_mut().zip(&copies) {
                *truth += world.value(copy.as_ref(), row.decision.seed);
            }
            let learnt = row.round(&world);
            comparison.take(&Logged::Verified { decision: &row.decision, round: learnt }).expect("it can be evaluated");
            copies.iter_mut().for_each(|copy| copy.learn(&learnt));
            if round < look_at && !AT.contains(&round) {
                continue;
            }
            look_at = look_at.max(round + round / 20);
            let means = truth.map(|sum| sum / round as f64);
            let report = comparison.report();
            let mut look = |policy: &str, estimator, kind, interval, plain, truth| {
                let seen = found.entry((2 * place, policy.to_owned(), estimator)).or_default();
                seen.kind = kind;
                seen.look(round, interval, plain, truth);
            };
            for (OffPolicyReport { policy, rejection, ips, snips, dr, .. }, truth) in
                [&report.a, &report.b].into_iter().zip(means)
            {
                let mut estimates = vec![("ips", ips), ("snips", snips), ("dr", dr)];
                if !LEARNERS.contains(&policy.as_str()) {
                    // A learner that lives from kept rounds is another one, whose worth is not followed here.
                    estimates.insert(0, ("rejection", rejection));
                }
                for (name, estimate) in estimates {
                    let kind = estimate.interval_kind.map_or("", |kind| kind.words());
                    look(policy, name, kind, estimate.interval, plain(estimate), truth);
                }
            }
            look(&format!("{a} - {b}"), "dr", "asymptotic", report.interval, None, means[0] - means[1]);
        }
    }
    found
}

const LEARNERS: [&str; 2] = ["lin_ucb", "domain_prior"];

/// The round at which an arm was first told not to be taken as often as was stated.
fn alarm(seed: u64, stated_floor: f64) -> Option<u64> {
    let mut world = World::new(seed);
    let rows = log(&mut world, LOGGING[seed as usize % LOGGING.len()], stated_floor);
    let mut evaluation =
        Evaluation::new("uniform", &|| build("uniform", &PolicySettings::default()).expect("it is registered"));
    rows.iter().zip(1..).find_map(|(row, round)| {
        let logged = Logged::Verified { decision: &row.decision, round: row.round(&world) };
        evaluation.take(&logged).expect("it can be evaluated");
        (round % 250 == 0 && !evaluation.report().miscalibrated.is_empty()).then_some(round)
    })
}

fn main() {
    let mut arguments = std::env::args();
    if arguments.any(|argument| argument == "--test") {
        println!("off_policy: nothing is measured with --test");
        return;
    }
    let mut arguments = std::env::args().skip_while(|argument| argument != "--seeds");
    let seeds: u64 = arguments.nth(1).map_or(200, |seeds| seeds.parse().expect("--seeds N"));
    let simulations: Vec<Found> = (0..seeds).into_par_iter().map(simulate).collect();
    println!("{seeds} simulated logs of {ROUNDS} rounds, intervals of 95 %, of which the truth is in, %:");
    println!(
        "\n{:<22} {:<9} {:<10} {:>20} {:>9} {:>22} {:>20} {:>9}",
        "", "", "", "after 2k  5k  10k", "always", "mean width", "+- 1.96 se: 2k 5k 10k", "always"
    );
    for key in simulations[0].keys() {
        let seen: Vec<&Seen> = simulations.iter().filter_map(|found| found.get(key)).collect();
        let share = |missed: &dyn Fn(&Seen) -> bool| {
            let held = seen.iter().filter(|seen| !missed(seen)).count();
            format!("{:.1}", 100.0 * held as f64 / seen.len() as f64)
        };
        let at =
            |missed: &dyn Fn(&Seen) -> [bool; 3]| [0, 1, 2].map(|place| share(&|seen| missed(seen)[place])).join(" ");
        let width = [0, 1, 2]
            .map(|at| format!("{:.3}", seen.iter().map(|seen| seen.width_at[at]).sum::<f64>() / seen.len() as f64));
        let plain = if key.1.contains(" - ") {
            ["", ""].map(ToOwned::to_owned)
        } else {
            [at(&|seen| seen.plain_missed_at), share(&|seen| seen.plain_ever_missed)]
        };
        println!(
            "{:<22} {:<9} {:<10} {:>20} {:>9} {:>22} {:>20} {:>9}",
            key.1,
            key.2,
            seen.last().map_or("", |seen| seen.kind),
            at(&|seen| seen.missed_at),
            share(&|seen| seen.ever_missed),
            width.join(" "),
            plain[0],
            plain[1]
        );
    }
    println!(
        "\nlogs in which an arm is told not to have been taken as often as was stated, and after how many rounds at the median:"
    );
    for (what, stated_floor) in [("true propensities", FLOOR), ("those without the floor of 10 %, but for 1 %", 0.01)] {
        let mut rounds: Vec<u64> = (0..seeds).into_par_iter().filter_map(|seed| alarm(seed, stated_floor)).collect();
        rounds.sort_unstable();
        let median = rounds.get(rounds.len() / 2).map_or("-".into(), u64::to_string);
        println!("{what:<46} {:>4} of {seeds} {median:>8}", rounds.len());
    }
}
