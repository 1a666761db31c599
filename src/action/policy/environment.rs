//! A seeded environment for the learners' tests: arms whose success depends on the domain and on the text.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{LearntRound, Opinion, Policy, Standings, observe};
use crate::{
    action::sample::{normalised, sample},
    round::{ArmId, Candidate, Context, Domain, Embedding, Mode, Neighbour, RewardWeights, TaskId, TriedArm},
};

/// Arms in the environment.
pub(in crate::action) const ARMS: usize = 4;

/// Probability that arm a solves a task of domain d; the last domain's best arm depends on the sign of the text's
/// first coordinate, which no domain statistic can see.
const SUCCESS: [[f64; ARMS]; 3] = [[0.8, 0.5, 0.4, 0.2], [0.3, 0.4, 0.8, 0.5], [0.2, 0.5, 0.3, 0.5]];

/// A stream of tasks and the memory of past ones.
pub(in crate::action) struct Environment {
    rng: ChaCha8Rng,
    past: Vec<(Embedding, TriedArm)>,
    standings: Standings,
}

/// A context with `arms` candidates that cost a dollar in a thousand.
pub(in crate::action) fn context(arms: usize) -> Context {
    let candidate = |arm| Candidate::new(Mode::Single, ArmId::new(format!("arm-{arm}")).unwrap(), 0.001);
    let embedding = Embedding::new(vec![1.0, 0.5, 0.0, 0.0]).unwrap();
    Context::new(embedding, Domain::unknown(), (0..arms).map(candidate).collect())
}

impl Environment {
    pub(in crate::action) fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), past: Vec::new(), standings: Standings::default() }
    }

    /// The next task as a policy sees it, and each arm's probability of success.
    pub(in crate::action) fn task(&mut self) -> (Context, [f64; ARMS]) {
        let domain = self.rng.random_range(0..SUCCESS.len());
        let sign = if self.rng.random() { 1.0 } else { -1.0 };
        let mut text: Vec<f32> = (0..8).map(|_| self.rng.random_range(-0.2..0.2)).collect();
        text[0] = sign;
        let mut success = SUCCESS[domain];
        if domain == 2 {
            (success[1], success[3]) = if sign > 0.0 { (0.9, 0.2) } else { (0.2, 0.9) };
        }
        let embedding = Embedding::new(text).unwrap();
        let neighbours = self.recall(&embedding);
        let domain = Domain::new(format!("domain-{domain}")).unwrap();
        (Context { embedding, domain, neighbours, ..context(ARMS) }, success)
    }

    fn recall(&self, embedding: &Embedding) -> Vec<Neighbour> {
        let mut near: Vec<(f32, usize)> =
            self.past.iter().enumerate().map(|(seq, (other, _))| (embedding.cosine(other), seq)).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(10);
        let neighbour = |(similarity, seq): (f32, usize)| Neighbour {
            seq: seq as u64,
            task_id: TaskId::new("past").unwrap(),
            similarity,
            domain: None,
            outcomes: vec![self.past[seq].1.clone()],
        };
        near.into_iter().map(neighbour).collect()
    }

    /// Runs a policy for `rounds` rounds with reward = `weights.e1` * score; the mean probability of success it got.
    pub(in crate::action) fn run(&mut self, policy: &mut dyn Policy, rounds: u64, weights: RewardWeights) -> f64 {
        let mut total = 0.0;
        for _ in 0..rounds {
            let (mut context, success) = self.task();
            context.weights = weights;
            observe(&mut context, &self.standings);
            let seed = self.rng.random();
            let Opinion { pmf, voters, .. } = policy.decide(&context, seed).unwrap();
            let taken = sample(&pmf, seed).unwrap();
            let score = if self.rng.random_bool(success[taken]) { 1.0 } else { 0.0 };
            let arm = context.candidates[taken].arm.clone();
            let cost_usd = context.candidates[taken].cost_usd;
            let round = LearntRound {
                propensity: pmf[taken],
                seed,
                voters: &voters,
                ..LearntRound::new(&context, taken, score)
            };
            policy.learn(&round);
            self.standings.learn(&round);
            let tried = TriedArm { mode: Mode::Single, arm, score, cost_usd, trace: String::new() };
            self.past.push((context.embedding.clone(), tried));
            total += success[taken];
        }
        total / rounds as f64
    }
}

/// Draws `20,000` times and compares how often each candidate came with what was stated.
pub(in crate::action) fn assert_stated_frequencies(name: &str, policy: &dyn Policy, context: &Context) {
    let draws = 20_000;
    let (mut stated, mut drawn) = (vec![0.0; context.candidates.len()], vec![0.0; context.candidates.len()]);
    for seed in 0..draws {
        let pmf = normalised(policy.decide(context, seed).unwrap().pmf).unwrap();
        drawn[sample(&pmf, seed).unwrap()] += 1.0;
        stated.iter_mut().zip(&pmf).for_each(|(sum, p)| *sum += p);
    }
    for (stated, drawn) in stated.iter().zip(drawn) {
        // Counted draws and the sample come from the same seed: shared random numbers would show here.
        let bound = 4.0 * f64::sqrt(stated * (1.0 - stated / draws as f64)) + 1e-6;
        assert!((stated - drawn).abs() <= bound, "{name}: stated {stated}, drawn {drawn}");
    }
}
