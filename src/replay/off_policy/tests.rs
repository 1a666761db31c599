//! The estimators on seeded logs whose truth is known, and beside other implementations' numbers.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::*;
use crate::{
    action::{
        policy::{LearntRound, PolicySettings, build},
        sample::sample,
    },
    round::{
        ArmId, Candidate, Context, Decision, Domain, Embedding, Mode, PolicyRef, Probability, Propensity, Reason,
        RewardWeights, TaskId,
    },
};

pub(super) const ARMS: usize = 3;
pub(super) const COSTS_USD: [f64; ARMS] = [0.1, 0.4, 0.9];
/// Probability of a score of 1, by domain and arm.
pub(super) const SUCCESS: [[f64; ARMS]; 2] = [[0.9, 0.4, 0.2], [0.1, 0.5, 0.8]];
pub(super) const LOGGED: [[f64; ARMS]; 2] = [[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]];
/// Of sixteenths, which features of 32 bits hold exactly.
pub(super) const CANDIDATE: [[f64; ARMS]; 2] = [[0.3125, 0.5, 0.1875], [0.125, 0.375, 0.5]];
const WEIGHTS: RewardWeights = RewardWeights { e1: 1.0, e2: -0.5 };

/// A policy that says what it is told: each candidate's probability is written into its features.
#[derive(Clone, Copy)]
struct Told;

impl Policy for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn decide(&self, context: &Context, _seed: u64) -> Result<Opinion, PolicyError> {
        let pmf = context.candidates.iter().map(|candidate| f64::from(candidate.features.recall_mean)).collect();
        Ok(Opinion { pmf, ..Opinion::default() })
    }

    fn learn(&mut self, _round: &LearntRound<'_>) {}

    fn snapshot(&self) -> Box<dyn Policy> {
        Box::new(*self)
    }
}

/// One logged round, owned.
#[derive(Clone)]
pub(super) struct Row {
    pub context: Context,
    pub decision: Decision,
    pub score: f64,
    cost_usd: f64,
    constant: f64,
}

impl Row {
    fn new(id: u128, context: Context, pmf: &[f64], taken: usize, seed: u64) -> Self {
        let entry = |(candidate, p): (&Candidate, &f64)| Probability {
            mode: candidate.mode,
            arm: candidate.arm.clone(),
            p: *p,
            expected: None,
        };
        let decision = Decision {
            id: DecisionId::from(id),
            task_id: TaskId::new("t").unwrap(),
            mode: Mode::Single,
            arm: context.candidates[taken].arm.clone(),
            propensity: Propensity::new(pmf[taken]).unwrap(),
            pmf: context.candidates.iter().zip(pmf).map(entry).collect(),
            voters: vec![],
            policy: PolicyRef { name: "logged".into(), version: 1, card: String::new() },
            shadow: None,
            learnt_rounds: 0,
            state_at: 1,
            reason: Reason::Explore,
            seed,
        };
        let cost_usd = context.candidates[taken].cost_usd;
        Self { context, decision, score: 0.0, cost_usd, constant: 0.0 }
    }

    fn round(&self) -> LearntRound<'_> {
        let Decision { mode, arm, propensity, seed, voters, .. } = &self.decision;
        LearntRound {
            context: &self.context,
            mode: *mode,
            arm,
            propensity: propensity.get(),
            seed: *seed,
            voters,
            score: self.score,
            reward: self.context.weights.reward(self.score, self.cost_usd) + self.constant,
            cost_usd: self.cost_usd,
            trust: 1.0,
            probing: false,
        }
    }

    pub fn logged(&self) -> Logged<'_> {
        Logged::Verified { decision: &self.decision, round: self.round() }
    }
}

fn context(domain: &str, costs_usd: &[f64], told: &[f64]) -> Context {
    let candidate = |(place, (cost_usd, told)): (usize, (&f64, &f64))| {
        let arm = ArmId::new(format!("arm-{place}")).unwrap();
        let mut candidate = Candidate::new(Mode::Single, arm, *cost_usd);
        candidate.features.recall_mean = *told as f32;
        candidate
    };
    let candidates = costs_usd.iter().zip(told).enumerate().map(candidate).collect();
    let embedding = Embedding::new(vec![1.0, 0.5]).unwrap();
    Context { weights: WEIGHTS, ..Context::new(embedding, Domain::new(domain).unwrap(), candidates) }
}

/// Draws a log of the stated world.
pub(super) fn world(seed: u64, rounds: u128, pmfs: &[[f64; ARMS]; 2]) -> Vec<Row> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let row = |id| {
        let domain = rng.random_range(0..2);
        let seed = rng.random();
        let taken = sample(&pmfs[domain], seed).unwrap();
        let context = context(&format!("domain-{domain}"), &COSTS_USD, &CANDIDATE[domain]);
        let mut row = Row::new(id, context, &pmfs[domain], taken, seed);
        row.score = f64::from(u8::from(rng.random_bool(SUCCESS[domain][taken])));
        row
    };
    (0..rounds).map(row).collect()
}

/// One of a report's estimates.
type Pick = fn(&OffPolicyReport) -> &Estimate;

pub(super) fn told() -> Box<dyn Policy> {
    Box::new(Told)
}

pub(super) fn evaluate(rows: &[Row], factory: &dyn Fn() -> Box<dyn Policy>) -> OffPolicyReport {
    let mut evaluation = Evaluation::new("candidate", factory);
    rows.iter().for_each(|row| evaluation.take(&row.logged()).unwrap());
    evaluation.report()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

#[test]
fn every_estimator_finds_the_true_value_and_its_own_error() {
    let value = |domain: usize, arm: usize| WEIGHTS.reward(SUCCESS[domain][arm], COSTS_USD[arm]);
    let truth: f64 = (0..2).flat_map(|d| (0..ARMS).map(move |a| 0.5 * CANDIDATE[d][a] * value(d, a))).sum();
    let logs = 300;
    let reports: Vec<_> = (0..logs).map(|seed| evaluate(&world(seed, 400, &LOGGED), &told)).collect();
    let estimators: [(&str, Pick); 4] =
        [("rejection", |r| &r.rejection), ("ips", |r| &r.ips), ("snips", |r| &r.snips), ("dr", |r| &r.dr)];
    for (name, of) in estimators {
        let values: Vec<f64> = reports.iter().map(|report| of(report).value.unwrap()).collect();
        let stated: Vec<f64> = reports.iter().map(|report| of(report).standard_error.unwrap()).collect();
        let spread = deviation(&values);
        let off = (mean(&values) - truth) / (spread / (logs as f64).sqrt());
        println!(
            "{name}: {:.4} for {truth:.4}, {off:.2} errors off, spread {spread:.4}, stated {:.4}",
            mean(&values),
            mean(&stated)
        );
        assert!(off.abs() < 4.0, "{name}: {} for {truth}, {off} standard errors off", mean(&values));
        assert!((mean(&stated) / spread - 1.0).abs() < 0.15, "{name}: {} stated, {spread} seen", mean(&stated));
    }
    // The logged policy's own mean is another number, which would show.
    assert!((mean(&reports.iter().map(|r| r.logged.value.unwrap()).collect::<Vec<_>>()) - truth).abs() > 0.02);
}

#[test]
fn rejection_keeps_the_share_that_the_two_policies_leave_it() {
    let ratio_max = |domain: usize| (0..ARMS).map(|a| CANDIDATE[domain][a] / LOGGED[domain][a]).fold(0.0, f64::max);
    let share = 0.5 / ratio_max(0) + 0.5 / ratio_max(1);
    let rounds = 20_000;
    let kept = evaluate(&world(5, rounds, &LOGGED), &told).rejection.rounds as f64;
    let expected = share * rounds as f64;
    assert!((kept - expected).abs() < 4.0 * (expected * (1.0 - share)).sqrt(), "{kept} for {expected}");
    // One arm against a uniform log: Li et al.'s rule keeps one round in three, those that took it.
    let rows = world(6, 3_000, &[[1.0 / 3.0; ARMS]; 2]);
    let took = rows.iter().filter(|row| row.decision.arm.as_str() == "arm-1").count();
    let fixed = || build("fixed:arm-1", &PolicySettings::default()).unwrap();
    assert_eq!(evaluate(&rows, &fixed).rejection.rounds, took as u64);
}

#[test]
fn a_policy_compared_with_itself_gets_the_logged_mean_exactly() {
    for name in ["ensemble", "lin_ucb", "budget:domain_prior", "hybrid_linear"] {
        let factory = || build(name, &PolicySettings::default()).unwrap();
        let (mut policy, mut rng) = (factory(), ChaCha8Rng::seed_from_u64(9));
        let mut evaluation = Evaluation::new(name, &factory);
        for id in 0..300 {
            let domain = rng.random_range(0..2);
            let context = context(&format!("domain-{domain}"), &COSTS_USD, &CANDIDATE[domain]);
            let seed = rng.random();
            let opinion = policy.decide(&context, seed).unwrap();
            let pmf = normalised(opinion.pmf).unwrap();
            let taken = sample(&pmf, seed).unwrap();
            let mut row = Row::new(id, context, &pmf, taken, seed);
            row.decision.voters = opinion.voters;
            row.score = f64::from(u8::from(rng.random_bool(SUCCESS[domain][taken])));
            evaluation.take(&row.logged()).unwrap();
            policy.learn(&row.round());
        }
        let report = evaluation.report();
        for estimate in [&report.rejection, &report.ips, &report.snips] {
            assert_eq!((estimate.value, estimate.rounds), (report.logged.value, 300), "{name}: {report:?}");
            assert_eq!((estimate.weight_max, estimate.effective_rounds), (1.0, 300.0), "{name}");
        }
        assert_eq!(report.dr.weight_max, 1.0);
        let (dr, logged) = (report.dr.value.unwrap(), report.logged.value.unwrap());
        assert!((dr - logged).abs() < 3.0 * report.dr.standard_error.unwrap(), "{name}: {dr} for {logged}");
    }
}

#[test]
fn a_constant_added_to_every_reward_is_added_to_snips_and_not_to_ips() {
    let rows = world(3, 200, &LOGGED);
    let (before, constant) = (evaluate(&rows, &told), 2.5);
    let raised: Vec<_> = rows.into_iter().map(|row| Row { constant, ..row }).collect();
    let after = evaluate(&raised, &told);
    let change = |of: Pick| of(&after).value.unwrap() - of(&before).value.unwrap();
    assert!((change(|r| &r.snips) - constant).abs() < 1e-12 && (change(|r| &r.rejection) - constant).abs() < 1e-12);
    assert!((after.snips.standard_error.unwrap() - before.snips.standard_error.unwrap()).abs() < 1e-9);
    assert!((change(|r| &r.ips) - constant).abs() > 0.01);
}

#[test]
fn rejection_learns_from_what_it_keeps_alone_whoever_spoke_first() {
    let rows = world(4, 200, &LOGGED);
    let mut first = Evaluation::new("domain_prior", &|| build("domain_prior", &PolicySettings::default()).unwrap());
    for row in &rows {
        let weak = LearntRound { trust: 0.3, cost_usd: 0.0, ..row.round() };
        first.take(&Logged::Weak { decision: &row.decision, round: weak }).unwrap();
        first.take(&row.logged()).unwrap();
    }
    let report = first.report();
    assert_eq!((report.rounds, report.weak), (200, 200));
    let kept = report.rejection.rounds;
    assert!(kept > 0 && kept < 200);
    let rounds = |policy: &dyn Policy| policy.state()["rounds"].as_u64();
    assert_eq!(rounds(first.rejection.policy()), Some(2 * kept));
    assert_eq!(rounds(first.looking_on.as_ref()), Some(400));
}

#[test]
fn money_spent_without_a_score_is_charged() {
    let card = PolicySettings::parse("[budget]\nusd_per_task = 0.5").unwrap();
    let mut evaluation = Evaluation::new("budget", &|| build("budget:uniform", &card).unwrap());
    let rows = world(4, 60, &[[1.0 / 3.0; ARMS]; 2]);
    rows[..30].iter().for_each(|row| evaluation.take(&row.logged()).unwrap());
    let price = |evaluation: &Evaluation| evaluation.looking_on.state()["wrapper"]["price"].as_f64().unwrap();
    let before = price(&evaluation);
    for Row { decision, context, .. } in &rows[30..] {
        evaluation.take(&Logged::Unscored { decision, context, cost_usd: 0.9 }).unwrap();
    }
    assert!(price(&evaluation) > before, "{before} and then {}", price(&evaluation));
    assert_eq!((evaluation.report().rounds, evaluation.report().unscored), (30, 30));
}

#[test]
fn what_cannot_be_used_is_refused_by_name_and_changes_nothing() {
    let good = world(1, 1, &LOGGED).remove(0);
    let altered = |change: fn(&mut Row)| {
        let mut row = good.clone();
        change(&mut row);
        row
    };
    let rows = [
        altered(|row| row.decision.arm = ArmId::new("gone").unwrap()),
        altered(|row| row.decision.propensity = Propensity::new(1e-3).unwrap()),
        altered(|row| row.decision.pmf[0].p = 0.99),
        altered(|row| row.decision.pmf.clear()),
        altered(|row| row.score = f64::NAN),
    ];
    let report = evaluate(&rows, &told);
    assert_eq!((report.rounds, report.refused.rounds), (0, 5));
    let words = ["gone", "0.001", "sums to", "one by one", "NaN"];
    for ((decision, why), word) in report.refused.first.iter().zip(words) {
        assert!(*decision == good.decision.id && why.to_string().contains(word), "{why}");
    }
    assert_eq!((report.ips.value, report.snips.value, report.ips.standard_error), (None, None, None));
}

#[test]
fn a_candidate_that_cannot_judge_ends_the_evaluation() {
    let row = world(1, 1, &LOGGED).remove(0);
    let mut evaluation =
        Evaluation::new("fixed:missing", &|| build("fixed:missing", &PolicySettings::default()).unwrap());
    let error = evaluation.take(&row.logged()).unwrap_err().to_string();
    assert!(error.contains("fixed:missing") && error.contains(&row.decision.id.to_string()), "{error}");
}

#[test]
fn few_effective_rounds_and_what_was_never_taken_are_told() {
    let many = evaluate(&world(2, 2_000, &LOGGED), &told);
    assert_eq!((&many.ips.warning, many.unsupported), (&None, 0.0));
    let few = evaluate(&world(2, 40, &LOGGED), &told);
    assert!(few.snips.warning.unwrap().contains("of 40 rounds"));
    let greedy = evaluate(&world(2, 500, &[[1.0, 0.0, 0.0]; 2]), &told);
    assert!((greedy.unsupported - 0.78).abs() < 0.05, "{}", greedy.unsupported);
}

/// Inputs and other implementations' outputs; `origin` in the file says whose.
#[derive(Deserialize)]
struct Reference {
    weights: RewardWeights,
    sets: Vec<Set>,
}

#[derive(Deserialize)]
struct Set {
    name: String,
    rounds: Vec<Given>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Given {
    domain: String,
    costs_usd: Vec<f64>,
    logged: Vec<f64>,
    candidate: Vec<f64>,
    taken: usize,
    score: f64,
    cost_usd: f64,
}

#[derive(Deserialize)]
struct Expected {
    ips: f64,
    snips: f64,
    dr: f64,
    dr_standard_error: f64,
    vw_ips: f64,
    vw_snips: f64,
    vw_ips_standard_error: f64,
    rejection: Option<f64>,
}

#[test]
fn agrees_with_other_implementations() {
    let reference: Reference = serde_json::from_str(include_str!("reference.json")).unwrap();
    assert_eq!(reference.weights, WEIGHTS);
    for Set { name, rounds, expected } in reference.sets {
        let row = |(id, given): (usize, &Given)| {
            let context = context(&given.domain, &given.costs_usd, &given.candidate);
            let row = Row::new(id as u128, context, &given.logged, given.taken, id as u64);
            Row { score: given.score, cost_usd: given.cost_usd, ..row }
        };
        let report = evaluate(&rounds.iter().enumerate().map(row).collect::<Vec<_>>(), &told);
        let mut pairs = vec![
            (report.ips.value, expected.ips),
            (report.ips.value, expected.vw_ips),
            (report.ips.standard_error, expected.vw_ips_standard_error),
            (report.snips.value, expected.snips),
            (report.snips.value, expected.vw_snips),
            (report.dr.value, expected.dr),
            (report.dr.standard_error, expected.dr_standard_error),
        ];
        pairs.extend(expected.rejection.map(|rejection| (report.rejection.value, rejection)));
        for (ours, theirs) in pairs {
            assert!((ours.unwrap() - theirs).abs() < 1e-12, "{name}: {ours:?} for {theirs}");
        }
    }
}
