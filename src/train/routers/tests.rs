//! Every offline router on a made-up world in which the best arm can be told.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::round::{Candidate, Mode};

/// Three kinds of task in two domains. In `code`, the text and the embedding tell which of two arms solves it.
fn task(kind: usize, noise: f32) -> KnownTask {
    let (domain, text) = [("math", "add these numbers"), ("code", "write a parser"), ("code", "draw a chart")][kind];
    let mut vector = vec![0.2; 8];
    vector[kind] = 1.0;
    vector[7] = noise;
    let scores: Vec<f64> = (0..3).map(|arm| if arm == kind { 1.0 } else { 0.0 }).collect();
    let rewards = scores.iter().map(|score| score - 0.01).collect();
    let text = format!("{text} please, number {}", (100.0 * noise) as i32);
    let embedding = Embedding::new(vector).unwrap();
    KnownTask { text: text.into(), embedding, domain: Domain::new(domain).unwrap(), scores, rewards }
}

fn known() -> Known {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let arms = ["a", "b", "c"].map(|arm| ArmId::new(arm).unwrap()).to_vec();
    // b is the better one of the two in code.
    let kinds = [0, 1, 1, 2];
    Known { arms, tasks: (0..400).map(|place| task(kinds[place % 4], rng.random_range(0.0..0.3))).collect() }
}

fn context(task: &KnownTask, arms: &[&str]) -> Context {
    let candidate = |arm: &&str| Candidate::new(Mode::Single, ArmId::new(*arm).unwrap(), 0.01);
    let candidates = arms.iter().map(candidate).collect();
    Context { text: task.text.clone(), ..Context::new(task.embedding.clone(), task.domain.clone(), candidates) }
}

#[test]
fn every_router_finds_the_arm_that_it_can_know_of() {
    let known = known();
    for name in NAMES {
        let router = fit(name, &known).unwrap();
        assert_eq!(router.name(), name);
        for (kind, arm) in [(0, "a"), (1, "b"), (2, "c")] {
            // Domains alone cannot tell a parser from a chart.
            let wanted = if name == "dimension_best" && kind == 2 { "b" } else { arm };
            let context = context(&task(kind, 0.15), &["a", "b", "c"]);
            let opinion = router.decide(&context, 1).unwrap();
            let taken = highest(&opinion.pmf);
            assert_eq!(context.candidates[taken].arm.as_str(), wanted, "{name}, kind {kind}: {opinion:?}");
        }
    }
}

#[test]
fn the_same_tasks_give_the_same_router_bit_for_bit() {
    let known = known();
    for name in ["logreg", "tfidf_mlp", "routellm_mf"] {
        let context = context(&task(2, 0.11), &["a", "b", "c"]);
        let scores = [(); 2].map(|()| judge(name, &known).unwrap().scores(&context));
        assert_eq!(
            scores[0].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            scores[1].iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        );
    }
}

#[test]
fn an_arm_that_came_later_is_taken_only_where_no_known_one_may_be() {
    let router = fit("dimension_best", &known()).unwrap();
    let pmf = |arms: &[&str]| router.decide(&context(&task(0, 0.1), arms), 1).unwrap().pmf;
    assert_eq!(pmf(&["new", "c"]), [0.0, 1.0]);
    assert_eq!(pmf(&["new"]), [1.0]);
}

#[test]
fn nothing_known_and_unknown_names_are_refused() {
    let nothing = Known { arms: known().arms, tasks: vec![] };
    let error = fit("logreg", &nothing).err().unwrap().to_string();
    assert!(error.contains("--warm"), "{error}");
    let error = fit("oracle", &known()).err().unwrap().to_string();
    assert!(NAMES.iter().all(|name| error.contains(name)), "{error}");
}
