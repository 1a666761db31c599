use super::{
    super::{PolicySettings, environment::context},
    *,
};
use crate::round::{ArmId, Embedding, Mode};

/// A round of arm `arm` in domain `domain` with a text of its own.
fn teach(policy: &mut HybridText, domain: usize, arm: usize, text: [f32; 3], score: f64) -> Vec<f64> {
    let mut context = context(4);
    context.domain = Domain::new(format!("domain-{domain}")).unwrap();
    context.embedding = Embedding::new(text.to_vec()).unwrap();
    policy.learn(&LearntRound::new(&context, arm, score));
    context.embedding.as_slice().iter().map(|x| f64::from(*x)).collect()
}

/// A context whose embedding is another model's, so that the domain alone is common to the arms.
fn of_domain(domain: &str) -> Context {
    Context { domain: Domain::new(domain).unwrap(), ..context(4) }
}

fn text(number: usize) -> [f32; 3] {
    let angle = number as f32 * 0.7;
    [angle.cos().abs(), angle.sin().abs(), 0.2 * (number % 5) as f32]
}

/// Rounds of three domains and three of four arms; the last domain is hardly seen.
fn rounds(number: usize) -> impl Iterator<Item = (usize, usize, [f32; 3], f64)> {
    (0..number).map(|i| (if i == 7 { 2 } else { i % 2 }, i % 3, text(i), (i % 5) as f64 / 5.0))
}

fn taught(number: usize) -> HybridText {
    let mut policy = HybridText::new(PolicySettings::default().hybrid_text, 0.0);
    rounds(number).for_each(|(domain, arm, text, score)| drop(teach(&mut policy, domain, arm, text, score)));
    policy
}

/// The same model written out: one coefficient per domain, landmark, arm and cell, by ridge regression.
fn dense(weights: &[f64], number: usize, domain: usize) -> Posterior {
    let settings = PolicySettings::default().hybrid_text;
    let (domains, arms, texts) = (3, 4, settings.landmarks);
    let size = domains + texts + arms + domains * arms;
    let prior = |column: usize| match column {
        _ if column < domains => settings.domain_precision,
        _ if column < domains + texts => settings.text_precision,
        _ if column < domains + texts + arms => settings.arm_precision,
        _ => settings.cell_precision,
    };
    let own = |domain: usize, arm: usize| [domains + texts + arm, domains + texts + arms + domain * arms + arm];
    let mut precision = Array2::from_diag(&Array1::from_shape_fn(size, prior));
    let mut moment = Array1::<f64>::zeros(size);
    let mut landmarks = Landmarks::default();
    for ((domain, arm, text, score), weight) in rounds(number).zip(weights) {
        let text = Embedding::new(text.to_vec()).unwrap();
        let near =
            landmarks.learn(&text, settings.landmarks, settings.landmark_similarity, settings.landmark_power as i32);
        let mut x = Array1::<f64>::zeros(size);
        x[domain] = 1.0;
        own(domain, arm).iter().for_each(|column| x[*column] = 1.0);
        near.iter().enumerate().for_each(|(place, near)| x[domains + place] = *near);
        moment.scaled_add(weight * score / settings.noise, &x);
        let outer = Array2::from_shape_fn((size, size), |(i, j)| x[i] * x[j]);
        precision.scaled_add(weight / settings.noise, &outer);
    }
    let covariance = Cholesky::of(precision.view()).unwrap().inverse();
    let mut pick = Array2::zeros((arms, size));
    (0..arms).for_each(|arm| own(domain, arm).iter().for_each(|column| pick[[arm, *column]] = 1.0));
    let effects = covariance.dot(&moment);
    let covariance = pick.dot(&covariance).dot(&pick.t());
    Posterior { common: effects[domain], mean: pick.dot(&effects), covariance }
}

fn agree(policy: &HybridText, weights: &[f64], number: usize, tolerance: f64) {
    for domain in 0..3 {
        let solved = policy.posterior(&of_domain(&format!("domain-{domain}")));
        let dense = dense(weights, number, domain);
        assert!((&solved.mean - &dense.mean).iter().all(|e| e.abs() < tolerance), "{} {}", solved.mean, dense.mean);
        assert!((solved.common - dense.common).abs() < tolerance, "{} {}", solved.common, dense.common);
        assert!((&solved.covariance - &dense.covariance).iter().all(|e| e.abs() < tolerance));
    }
}

#[test]
fn the_posterior_is_that_of_the_dense_joint_model() {
    agree(&taught(40), &[1.0; 40], 40, 1e-10);
    // Across a solve, and far from one.
    agree(&taught(500), &[1.0; 500], 500, 1e-9);
}

#[test]
fn forgetting_is_the_weighted_regression() {
    let keep = 0.99_f64;
    let number = 2 * FORGET_EVERY as usize;
    let mut policy = HybridText::new(PolicySettings::default().hybrid_text, 0.0);
    for (domain, arm, text, score) in rounds(number) {
        teach(&mut policy, domain, arm, text, score);
        policy.forget(keep);
    }
    let blocks = |place: usize| ((number - place).div_ceil(FORGET_EVERY as usize) * FORGET_EVERY as usize) as i32;
    let weights: Vec<f64> = (0..number).map(|place| keep.powi(blocks(place))).collect();
    agree(&policy, &weights, number, 1e-9);
}

#[test]
fn a_damaged_number_costs_its_arm_and_a_shared_one_its_effect() {
    let policy = taught(60);
    let arm = |name: &str| (Mode::Single, ArmId::new(name).unwrap());
    let state = policy.state();
    let place = |wanted: &Effect| policy.model.places[wanted];
    let n = policy.model.dimensions();
    let damaged = |row: usize| {
        let mut state = state.clone();
        state["precision"][row * n] = Value::Null;
        let mut again = taught(0);
        let poisoned = again.restore(&state).unwrap();
        (again, poisoned)
    };
    let (again, poisoned) = damaged(place(&Effect::Arm(arm("arm-1"))));
    assert_eq!(poisoned, [arm("arm-1")]);
    assert!(
        again
            .model
            .places
            .keys()
            .all(|effect| !matches!(effect, Effect::Arm(a) | Effect::Cell(a, _) if a.1.as_str() == "arm-1"))
    );
    assert!(again.decide(&context(4), 1).is_ok());
    let (again, poisoned) = damaged(place(&Effect::Text(0)));
    assert!(poisoned.is_empty() && !again.model.places.contains_key(&Effect::Text(0)));
    assert!(again.decide(&context(4), 1).is_ok());
    let mut other = state.clone();
    other["moment"] = serde_json::json!([1.0]);
    assert!(taught(0).restore(&other).is_err());
}

#[test]
fn the_model_is_bounded_and_arms_beyond_it_are_still_told_apart() {
    let mut policy = HybridText::new(PolicySettings::default().hybrid_text, 0.0);
    for domain in 0..150 {
        teach(&mut policy, domain, domain % 3, text(domain), (domain % 3) as f64 / 2.0);
    }
    assert_eq!(policy.model.dimensions(), DIMENSIONS_MAX);
    let posterior = policy.posterior(&of_domain("never-seen"));
    assert!(posterior.mean[2] > posterior.mean[0] + 0.2, "{}", posterior.mean);
}
