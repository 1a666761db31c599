//! What becomes of the features of a decision.
//!
//! - **Arms** are named by the feature `id`, else `arm`, wherever in the action's object it is, if every action of the decision
//!   has one; actions of one id are one arm, with the sum of their probabilities. Else they are named by `name`, else `_tag`, if
//!   these differ. A namespace of such a name with a single feature names the arm as well. Otherwise arms are `action-1`,
//!   `action-2` and so on, by position. Characters that an arm's id cannot have become `_`; of a name that is too long the end
//!   becomes a hash.
//! - **The embedding** is of the shared features: each is hashed to one of 63 places with a sign (Weinberger, Dasgupta,
//!   Langford, Smola and Attenberg, Feature Hashing for Large Scale Multitask Learning, 2009), the 64th is always 1, and
//!   the sum is scaled to length 1. A string, and a word of `_text`, is a feature of value 1 that has the text in
//!   its name; true is 1; a number x counts as it is up to 1, and as 1 + ln |x| with its sign beyond, so that a time
//!   stamp does not drown the rest. A shared list of numbers called `Embedding` is taken as it is instead.
//! - **The domain** is a shared string feature called `domain` or `dimension`, in lower case; `unknown` without one.
//! - What was known of each arm (a namespace `Features` with `recall_mean`, `prior_mean` and so on, as this router's own
//!   export writes it) is taken back. Other features of actions are not used: policies here know arms by name.
//!
//! Names begin with `_` where they are not features. Capitals do not matter in the names above.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::DsjsonProblem;
use crate::round::{ArmFeatures, ArmId, Domain, Embedding};

/// The length of an embedding that is hashed.
pub const DIMENSION: usize = 64;
/// The longest id of an arm, and of a domain.
const ARM_BYTES_MAX: usize = 128;
const DOMAIN_BYTES_MAX: usize = 64;

/// A name for each action.
pub(super) fn arms(multi: &[Value]) -> Result<Vec<ArmId>, DsjsonProblem> {
    let names = |key: &str| multi.iter().map(|action| named(action, key)).collect::<Option<Vec<String>>>();
    let differ = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let ids = || ["id", "arm"].into_iter().find_map(names);
    let labels = || ["name", "_tag"].into_iter().filter_map(names).find(differ);
    let names = ids().or_else(labels);
    let names = names.unwrap_or_else(|| (1..=multi.len()).map(|n| format!("action-{n}")).collect());
    names.iter().map(|name| arm(name)).collect()
}

/// The value of the first feature, or the single feature of the first namespace, of this name.
fn named(value: &Value, key: &str) -> Option<String> {
    let found = match value {
        Value::Object(object) => object.iter().find_map(|(name, inner)| {
            if !name.eq_ignore_ascii_case(key) {
                return named(inner, key);
            }
            match inner {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                Value::Object(namespace) if namespace.len() == 1 => {
                    let (name, inner) = namespace.iter().next()?;
                    Some(inner.as_str().unwrap_or(name).to_owned())
                }
                Value::Object(_) | Value::Array(_) => named(inner, key),
                Value::Null | Value::Bool(_) => None,
            }
        }),
        Value::Array(entries) => entries.iter().find_map(|entry| named(entry, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    found.filter(|name| !name.trim().is_empty())
}

/// The arm of this name, spelt as an arm's id may be.
fn arm(name: &str) -> Result<ArmId, DsjsonProblem> {
    let mut spelt = spelt(name, |c| c.is_ascii_alphanumeric() || ".-_/:@".contains(c));
    if spelt.len() > ARM_BYTES_MAX {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        spelt.truncate(ARM_BYTES_MAX - 17);
        spelt = format!("{spelt}-{}", &hash[..16]);
    }
    ArmId::new(&spelt).map_err(|error| DsjsonProblem::Other(error.to_string()))
}

/// Each character that is not allowed becomes one that is.
fn spelt(text: &str, allowed: impl Fn(char) -> bool) -> String {
    text.trim().chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// What was known of an arm, where the line says so in this router's way.
pub(super) fn known(action: &Value) -> ArmFeatures {
    let features = action.get("Features").map(ArmFeatures::deserialize);
    features
        .and_then(Result::ok)
        .filter(|features| {
            let ArmFeatures { recall_mean, recall_mass, recall_spread, prior_mean, prior_rounds, .. } = features;
            [recall_mean, recall_mass, recall_spread, prior_mean, prior_rounds]
                .iter()
                .all(|x| x.is_finite() && **x >= 0.0)
        })
        .unwrap_or_default()
}

/// The shared domain.
pub(super) fn domain(shared: &Map<String, Value>) -> Domain {
    let found = ["domain", "dimension"].iter().find_map(|key| domain_in(shared, key));
    found.and_then(|name| Domain::new(name).ok()).unwrap_or_else(Domain::unknown)
}

fn domain_in(object: &Map<String, Value>, key: &str) -> Option<String> {
    object.iter().filter(|(name, _)| !name.starts_with('_')).find_map(|(name, inner)| match inner {
        Value::String(text) if name.eq_ignore_ascii_case(key) => {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
            let mut spelt = spelt(&text.to_lowercase(), allowed);
            spelt.truncate(DOMAIN_BYTES_MAX);
            Some(spelt)
        }
        Value::Object(namespace) => domain_in(namespace, key),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    })
}

/// The shared features as a vector.
pub(super) fn embedding(shared: &Map<String, Value>) -> Result<Embedding, DsjsonProblem> {
    let dense = shared.get("Embedding").and_then(Value::as_array);
    let dense: Option<Vec<f32>> =
        dense.and_then(|numbers| numbers.iter().map(|x| x.as_f64().map(|x| x as f32)).collect());
    let vector = dense.unwrap_or_else(|| {
        let mut vector = vec![0.0; DIMENSION];
        vector[DIMENSION - 1] = 1.0;
        for (name, value) in shared.iter().filter(|(name, _)| *name != "_multi") {
            hash(&mut vector, name, name, value);
        }
        vector
    });
    Embedding::new(vector).map_err(|error| DsjsonProblem::Other(format!("the shared features: {error}")))
}

/// Adds a value under its path of names.
fn hash(vector: &mut [f32], path: &str, name: &str, value: &Value) {
    if name == "_text" {
        let words = value.as_str().unwrap_or_default().split_whitespace();
        words.for_each(|word| add(vector, &format!("{path}={word}"), 1.0));
        return;
    }
    if name.starts_with('_') {
        return;
    }
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => add(vector, path, 1.0),
        Value::Number(number) => add(vector, path, number.as_f64().map_or(0.0, compressed)),
        Value::String(text) => add(vector, &format!("{path}={text}"), 1.0),
        Value::Array(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                // Objects of a list are namespaces of the same name, as Vowpal Wabbit has it; numbers have their place.
                let place = if entry.is_object() { path.to_owned() } else { format!("{path}[{at}]") };
                hash(vector, &place, "", entry);
            }
        }
        Value::Object(object) => {
            object.iter().for_each(|(name, inner)| hash(vector, &format!("{path}\u{0}{name}"), name, inner));
        }
    }
}

fn compressed(x: f64) -> f64 {
    if x.abs() <= 1.0 { x } else { x.signum() * (1.0 + x.abs().ln()) }
}

/// The place is the hash's low bits, the sign its highest.
fn add(vector: &mut [f32], path: &str, value: f64) {
    let bytes = *blake3::hash(path.as_bytes()).as_bytes();
    let place = usize::from(bytes[0]) % (vector.len() - 1);
    let sign = if bytes[31] & 0x80 == 0 { 1.0 } else { -1.0 };
    vector[place] += (sign * value) as f32;
}
