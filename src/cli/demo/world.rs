//! The demo's world: tasks of four domains with their right answers, and five workers that are good at different
//! things.
//!
//! Task `index` of a seed is always the same, so a demo can be repeated. The prompts are put together from parts, so
//! that thousands of them differ but the work in a domain is alike.

use rand::{Rng, SeedableRng, seq::IndexedRandom, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// The configuration that the demo runs with; the address is added. With modes the workers are others.
pub(super) fn config(modes: bool) -> String {
    let plain = include_str!("demo.toml");
    if !modes {
        return plain.into();
    }
    let domains = plain.split("[[arms]]").next().unwrap_or_default();
    format!("{domains}{}", include_str!("modes.toml"))
}

const NAMES: [&str; 16] = [
    "Ada", "Bruno", "Chloe", "Dmitri", "Elena", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kemal", "Lucia", "Mina",
    "Nadia", "Oskar", "Priya",
];
const THINGS: [&str; 12] = [
    "apples",
    "tickets",
    "marbles",
    "stamps",
    "books",
    "seashells",
    "cookies",
    "pencils",
    "coins",
    "balloons",
    "postcards",
    "beads",
];
const CITIES: [&str; 12] =
    ["Lisbon", "Oslo", "Nairobi", "Lima", "Hanoi", "Turin", "Accra", "Quito", "Seoul", "Porto", "Dakar", "Riga"];
const WORDS: [&str; 32] = [
    "amber", "bridge", "candle", "desert", "engine", "forest", "garden", "harbour", "island", "jungle", "kettle",
    "ladder", "meadow", "needle", "orchard", "pebble", "quartz", "ribbon", "silver", "timber", "umbrella", "velvet",
    "window", "yellow", "zephyr", "anchor", "basket", "copper", "dragon", "ember", "falcon", "glacier",
];
const CAPITALS: [(&str, &str); 16] = [
    ("France", "Paris"),
    ("Japan", "Tokyo"),
    ("Kenya", "Nairobi"),
    ("Peru", "Lima"),
    ("Norway", "Oslo"),
    ("Canada", "Ottawa"),
    ("Egypt", "Cairo"),
    ("Thailand", "Bangkok"),
    ("Chile", "Santiago"),
    ("Greece", "Athens"),
    ("Poland", "Warsaw"),
    ("Cuba", "Havana"),
    ("Nepal", "Kathmandu"),
    ("Ghana", "Accra"),
    ("Latvia", "Riga"),
    ("Austria", "Vienna"),
];
const ELEMENTS: [(&str, &str); 14] = [
    ("gold", "Au"),
    ("silver", "Ag"),
    ("iron", "Fe"),
    ("sodium", "Na"),
    ("potassium", "K"),
    ("tin", "Sn"),
    ("lead", "Pb"),
    ("mercury", "Hg"),
    ("copper", "Cu"),
    ("helium", "He"),
    ("neon", "Ne"),
    ("carbon", "C"),
    ("oxygen", "O"),
    ("tungsten", "W"),
];

/// One task as a line for `/v1/tasks/stream`.
pub(super) fn task(seed: u64, index: u64) -> Value {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index);
    let (domain, prompt, metadata) = match rng.random_range(0..4) {
        0 => arithmetic(&mut rng),
        1 => extraction(&mut rng),
        2 => text(&mut rng),
        _ => choice(&mut rng),
    };
    json!({"id": format!("demo-{seed}-{index}"), "domain": domain, "prompt": prompt, "metadata": metadata})
}

type Parts = (&'static str, String, Value);

fn pick<'a>(rng: &mut ChaCha8Rng, from: &[&'a str]) -> &'a str {
    from.choose(rng).copied().unwrap_or_default()
}

fn arithmetic(rng: &mut ChaCha8Rng) -> Parts {
    let (who, other) = (pick(rng, &NAMES), pick(rng, &NAMES));
    let (thing, city) = (pick(rng, &THINGS), pick(rng, &CITIES));
    let (a, b, c) = (rng.random_range(12..90), rng.random_range(3..12), rng.random_range(2..9));
    let (prompt, reference) = match rng.random_range(0..4) {
        0 => (
            format!(
                "{who} buys {a} {thing} at a market in {city}, gives {b} of them to {other} and then buys {c} boxes \
                 with {b} {thing} each. How many {thing} does {who} have now?"
            ),
            a - b + b * c,
        ),
        1 => (
            format!(
                "A shop in {city} sells {thing} at {b} euros each. {who} buys {c} of them and pays with a {note} euro \
                 note. How many euros does {who} get back?",
                note = b * c + a
            ),
            a,
        ),
        2 => (
            format!(
                "{who} walks {b} km every day for {c} days and {other} walks {a} km in the same time. How many km do \
                 they walk together?"
            ),
            b * c + a,
        ),
        _ => (
            format!(
                "In a hall in {city} there are {c} rows with {b} chairs each, and {a} more chairs along the wall. \
                 {who} takes {taken} chairs away. How many chairs are left?",
                taken = c
            ),
            c * b + a - c,
        ),
    };
    ("arithmetic", prompt, json!({"answer": "number", "reference": reference}))
}

fn extraction(rng: &mut ChaCha8Rng) -> Parts {
    let (who, city, thing) = (pick(rng, &NAMES), pick(rng, &CITIES), pick(rng, &THINGS));
    let (age, count) = (rng.random_range(18..80), rng.random_range(2..60));
    let (sentence, reference, properties) = if rng.random_bool(0.5) {
        (
            format!("{who}, who turned {age} last spring, moved to {city} two years ago."),
            json!({"name": who, "age": age, "city": city}),
            json!({"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}}),
        )
    } else {
        (
            format!("On Monday {who} ordered {count} {thing}, to be sent to {city} before the weekend."),
            json!({"customer": who, "item": thing, "quantity": count, "destination": city}),
            json!({"customer": {"type": "string"}, "item": {"type": "string"}, "quantity": {"type": "integer"},
                   "destination": {"type": "string"}}),
        )
    };
    let keys: Vec<_> = reference.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect();
    let prompt = format!("Extract {} as one JSON object from this text: \"{sentence}\"", keys.join(", "));
    let schema = json!({"type": "object", "properties": properties, "required": keys, "additionalProperties": false});
    ("extraction", prompt, json!({"schema": schema, "reference": reference, "format": "json"}))
}

fn text(rng: &mut ChaCha8Rng) -> Parts {
    let mut words = WORDS.to_vec();
    words.shuffle(rng);
    words.truncate(rng.random_range(4..8));
    let given = words.join(" ");
    let (instruction, reference) = match rng.random_range(0..4) {
        0 => ("Write these words in reverse order", words.iter().rev().copied().collect::<Vec<_>>().join(" ")),
        1 => {
            let mut sorted = words.clone();
            sorted.sort_unstable();
            ("Sort these words alphabetically", sorted.join(" "))
        }
        2 => (
            "Remove every vowel (a, e, i, o, u) from these words",
            given.chars().filter(|c| !"aeiou".contains(*c)).collect(),
        ),
        _ => ("Join these words with hyphens", words.join("-")),
    };
    ("text", format!("{instruction}: {given}"), json!({"answer": "exact", "reference": reference}))
}

fn choice(rng: &mut ChaCha8Rng) -> Parts {
    let pairs: &[(&str, &str)] = if rng.random_bool(0.5) { &CAPITALS } else { &ELEMENTS };
    let mut options: Vec<_> = pairs.to_vec();
    options.shuffle(rng);
    options.truncate(4);
    let right = rng.random_range(0..4);
    let (asked, _) = options[right];
    let question = if pairs.len() == CAPITALS.len() {
        format!("What is the capital of {asked}?")
    } else {
        format!("What is the chemical symbol of {asked}?")
    };
    let letters = ["A", "B", "C", "D"];
    let listed: Vec<_> = letters.iter().zip(&options).map(|(letter, (_, text))| format!("{letter}) {text}")).collect();
    let choices: Vec<_> = options.iter().map(|(_, text)| *text).collect();
    let prompt = format!("{question}\n{}\nAnswer with one letter.", listed.join("\n"));
    ("choice", prompt, json!({"answer": "choice", "choices": choices, "reference": letters[right]}))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_demo_configuration_is_right() {
        for modes in [false, true] {
            let checked = pointsman::config::check(&config(modes), std::path::Path::new("."), &|_| None).unwrap();
            assert_eq!((checked.arms.len(), checked.domains.len()), (5, 4));
            assert_eq!(checked.modes.enabled.len(), if modes { 3 } else { 1 });
        }
    }

    #[test]
    fn tasks_repeat_with_their_seed_and_are_of_four_domains() {
        let tasks: Vec<_> = (0..400).map(|index| task(1, index)).collect();
        assert_eq!(tasks[7], task(1, 7));
        assert_ne!(tasks[7]["prompt"], task(2, 7)["prompt"]);
        let domains: BTreeSet<_> = tasks.iter().map(|task| task["domain"].as_str().unwrap()).collect();
        assert_eq!(domains.len(), 4);
        let prompts: BTreeSet<_> = tasks.iter().map(|task| task["prompt"].as_str().unwrap()).collect();
        assert!(prompts.len() > 350, "{}", prompts.len());
    }
}
