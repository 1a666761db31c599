//! Fixed ways of working: plans that are the same for all tasks of a domain, and the search for the best of them.
//!
//! A plan is one worker; a sequence of workers, asked in turn until an output passes; or a team of executors, a verifier perhaps and a summarizer. Single calls
//! are all compared, the others are found by beam search: the best pairs are made longer, the best teams wider.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::environment::{Environment, Made, Outcome, World};
use crate::{
    action::policy::mode_router::{Seen, mode_place},
    grammar::{Role, Token},
    round::Mode,
};

/// Tasks of a domain that plans are searched on, at most.
const SEARCHED: usize = 500;
/// Plans that are extended.
const BEAM: usize = 8;
/// Levels of alpha, from the lowest to the highest, for which fixed ways are known.
const LEVELS: usize = 4;

/// A fixed way of working.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// One call.
    Single(usize),
    /// In turn, until one passes after two calls.
    Multi(Vec<usize>),
    /// Executors side by side, a verifier of all of them if there is one, and a summarizer.
    Team(Vec<usize>, Option<usize>, usize),
}

/// A plan that was carried out in one world.
struct Carried {
    mode: Mode,
    made: Vec<Made>,
    answer: usize,
}

/// How one task went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Trial {
    /// Its score.
    pub score: f64,
    /// Dollars.
    pub cost_usd: f64,
    /// Milliseconds; 0 where unknown.
    pub latency_ms: f64,
    /// What part ran in each mode.
    pub modes: [f64; 3],
    /// Calls.
    pub calls: f64,
}

impl Trial {
    /// (1 - alpha) score + alpha score / (1 + cost / reference).
    pub fn reward(&self, alpha: f64, reference_usd: f64) -> f64 {
        self.score * ((1.0 - alpha) + alpha / (1.0 + self.cost_usd / reference_usd))
    }

    pub(super) fn came_to(&mut self, outcome: Outcome) {
        let Outcome { score, cost_usd, latency_ms } = outcome;
        (self.score, self.cost_usd, self.latency_ms) = (score, cost_usd.unwrap_or_default(), latency_ms);
    }

    pub(super) fn mean(trials: &[Self]) -> Self {
        let n = trials.len().max(1) as f64;
        let mean = |of: fn(&Self) -> f64| trials.iter().map(of).sum::<f64>() / n;
        let mode = |mode: usize| trials.iter().map(|trial| trial.modes[mode]).sum::<f64>() / n;
        Self {
            score: mean(|trial| trial.score),
            cost_usd: mean(|trial| trial.cost_usd),
            latency_ms: mean(|trial| trial.latency_ms),
            modes: [mode(0), mode(1), mode(2)],
            calls: mean(|trial| trial.calls),
        }
    }
}

/// The best plan of each mode, with its mean reward.
pub type Best = [(Plan, f64); 3];

/// The best plans of every domain, for some levels of alpha.
#[derive(Debug, Clone)]
pub struct FixedWays {
    alpha: [f64; 2],
    /// By level, then by domain.
    levels: Vec<Vec<Best>>,
}

impl FixedWays {
    /// Searches for them, for alphas in a range. `reference_usd` gives the dollars at which a trajectory's cost halves its reward in a pool.
    pub fn search(environment: &dyn Environment, [low, high]: [f64; 2], reference_usd: impl Fn(usize) -> f64) -> Self {
        let mut pools = vec![0; environment.domains().len()];
        environment.queries().iter().for_each(|query| pools[query.domain] = query.pool);
        let of = |alpha: f64| {
            let best =
                |(domain, pool): (usize, &usize)| Search::new(environment, domain, alpha, reference_usd(*pool)).best();
            pools.iter().enumerate().map(best).collect()
        };
        let level = |level: usize| low + (high - low) * level as f64 / (LEVELS - 1) as f64;
        Self { alpha: [low, high], levels: (0..LEVELS).map(|place| of(level(place))).collect() }
    }

    /// Those of a domain at the level that is nearest to alpha, which is in the range.
    pub fn of(&self, domain: usize, alpha: f64) -> &Best {
        let [low, high] = self.alpha;
        let level = (alpha - low) / (high - low).max(f64::MIN_POSITIVE) * (LEVELS - 1) as f64;
        &self.levels[(level.round() as usize).min(LEVELS - 1)][domain]
    }
}

/// Plans for the tasks of one domain.
pub struct Search<'a> {
    environment: &'a dyn Environment,
    /// Some of its tasks.
    places: Vec<usize>,
    workers: usize,
    alpha: f64,
    cost_reference_usd: f64,
}

impl<'a> Search<'a> {
    /// On tasks of a domain, for one alpha.
    pub fn new(environment: &'a dyn Environment, domain: usize, alpha: f64, cost_reference_usd: f64) -> Self {
        let queries = environment.queries();
        let of_domain = (0..queries.len()).filter(|query| queries[*query].domain == domain);
        let places: Vec<usize> = of_domain.take(SEARCHED).collect();
        let workers = places.first().map_or(0, |place| queries[*place].workers.len());
        Self { environment, places, workers, alpha, cost_reference_usd }
    }

    /// The best plan of each mode, with its mean reward on those tasks.
    pub fn best(&self) -> Best {
        let workers = 0..self.workers;
        let single = self.ranked(workers.clone().map(Plan::Single).collect());
        let mut multi = self.ranked(pairs(self.workers));
        for _ in 0..2 {
            self.more(&mut multi, BEAM, |plan| longer(plan, self.workers));
        }
        // The summarizer and the verifier are the cheapest at first; others are tried for the best teams.
        let cost = |worker: &usize| self.mean(&Plan::Single(*worker), |trial| trial.cost_usd);
        let Some(cheapest) = workers.clone().min_by(|a, b| cost(a).total_cmp(&cost(b))) else {
            return [(); 3].map(|()| (Plan::Single(0), 0.0));
        };
        let mut teams = self.ranked(workers.map(|worker| Plan::Team(vec![worker], None, cheapest)).collect());
        for _ in 0..4 {
            self.more(&mut teams, BEAM, |plan| wider(plan, self.workers));
        }
        self.more(&mut teams, 3, |plan| other_judges(plan, self.workers));
        [single, multi, teams].map(|plans| plans.into_iter().next().unwrap_or((Plan::Single(0), 0.0)))
    }

    fn more(&self, plans: &mut Vec<(Plan, f64)>, beam: usize, others: impl Fn(&Plan) -> Vec<Plan>) {
        let found = plans.iter().take(beam).flat_map(|(plan, _)| others(plan)).collect();
        plans.extend(self.ranked(found));
        plans.sort_by(|a, b| b.1.total_cmp(&a.1));
    }

    fn ranked(&self, plans: Vec<Plan>) -> Vec<(Plan, f64)> {
        let worth = |plan: Plan| {
            let reward = self.mean(&plan, |trial| trial.reward(self.alpha, self.cost_reference_usd));
            (plan, reward)
        };
        let mut ranked: Vec<(Plan, f64)> = plans.into_par_iter().map(worth).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    fn mean(&self, plan: &Plan, of: impl Fn(&Trial) -> f64) -> f64 {
        let all = self.places.iter().map(|place| of(&trial(self.environment, *place, 1, plan)));
        all.sum::<f64>() / self.places.len().max(1) as f64
    }
}

fn pairs(workers: usize) -> Vec<Plan> {
    let all = (0..workers).flat_map(|first| (0..workers).map(move |second| vec![first, second]));
    all.filter(|pair| pair[0] != pair[1]).map(Plan::Multi).collect()
}

fn longer(plan: &Plan, workers: usize) -> Vec<Plan> {
    let Plan::Multi(sequence) = plan else { return vec![] };
    if sequence.len() >= 4 {
        return vec![];
    }
    let more = (0..workers).filter(|worker| !sequence.contains(worker));
    more.map(|worker| Plan::Multi([&sequence[..], &[worker]].concat())).collect()
}

fn wider(plan: &Plan, workers: usize) -> Vec<Plan> {
    let Plan::Team(executors, verifier, summarizer) = plan else { return vec![] };
    let more = (0..workers).filter(|worker| executors.last().is_some_and(|last| last < worker));
    more.map(|worker| Plan::Team([&executors[..], &[worker]].concat(), *verifier, *summarizer)).collect()
}

fn other_judges(plan: &Plan, workers: usize) -> Vec<Plan> {
    let Plan::Team(executors, _, summarizer) = plan else { return vec![] };
    let summarizers = (0..workers).map(|worker| Plan::Team(executors.clone(), None, worker));
    let verifiers = (0..workers).map(|worker| Plan::Team(executors.clone(), Some(worker), *summarizer));
    summarizers.chain(verifiers).collect()
}

fn carry_out(world: &dyn World, plan: &Plan) -> Carried {
    let mut made: Vec<Made> = Vec::new();
    let call = |worker: usize, role: Option<Role>, refs: Vec<usize>, layer: usize| Made { worker, role, refs, layer };
    let (mode, answer) = match plan {
        Plan::Single(worker) => {
            made.push(call(*worker, None, vec![], 0));
            (Mode::Single, 0)
        }
        Plan::Multi(sequence) => {
            let mut passed = None;
            for (place, worker) in sequence.iter().enumerate() {
                made.push(call(*worker, None, vec![], place));
                let seen = world.run(&made, place..place + 1).unwrap_or_default();
                passed = passed.or((seen.first() == Some(&Seen::Pass)).then_some(place));
                if passed.is_some() && place >= 1 {
                    break;
                }
            }
            (Mode::Multi, passed.unwrap_or(0))
        }
        Plan::Team(executors, verifier, summarizer) => {
            made.extend(executors.iter().map(|worker| call(*worker, Some(Role::Executor), vec![], 0)));
            let outputs: Vec<usize> = (0..executors.len()).collect();
            if let Some(verifier) = verifier {
                made.push(call(*verifier, Some(Role::Verifier), outputs, 1));
            }
            let seen = (0..made.len()).collect();
            made.push(call(*summarizer, Some(Role::Summarizer), seen, 2));
            (Mode::Agentic, made.len() - 1)
        }
    };
    Carried { mode, made, answer }
}

/// Runs a plan in one world.
pub fn trial(environment: &dyn Environment, query: usize, seed: u64, plan: &Plan) -> Trial {
    let world = environment.world(query, seed);
    let Carried { mode, made, answer } = carry_out(&*world, plan);
    let mut trial = Trial { calls: made.len() as f64, ..Trial::default() };
    trial.modes[mode_place(mode)] = 1.0;
    if let Ok(outcome) = world.close(&made, answer) {
        trial.came_to(outcome);
    }
    trial
}

/// The tokens of a plan in one world, for a policy that knows the workers in an order of its own.
pub fn tokens(world: &dyn World, plan: &Plan, order: &[usize]) -> Vec<Token> {
    let Carried { mode, made, answer } = carry_out(world, plan);
    let known = |worker: usize| order.iter().position(|place| *place == worker).unwrap_or_default();
    let mut tokens = vec![Token::Mode(mode)];
    for (place, call) in made.iter().enumerate() {
        tokens.push(Token::Call(known(call.worker)));
        tokens.extend(call.role.map(Token::Role));
        tokens.extend(call.refs.iter().map(|node| Token::Ref(*node)));
        if mode == Mode::Agentic && made.get(place + 1).is_none_or(|next| next.layer != call.layer) {
            tokens.push(Token::EndLayer);
        }
    }
    tokens.push(Token::Answer(answer));
    tokens
}
