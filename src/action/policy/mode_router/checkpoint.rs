//! A trained mode-router in a file: safetensors, with a card of JSON in its header that says what it is and where it comes from.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize};

use super::{
    Descriptor,
    packed::{pack, unpack},
    weights::{EMBEDDING, Shape, Weights},
};

/// The tokens, the pieces and what workers are described by. Raised when one of them changes.
const GRAMMAR: &str = "pointsman-modes-1";
/// The header's key of the card.
const CARD: &str = "card";
/// The largest file that is read.
const BYTES_MAX: u64 = 256 << 20;
/// The most dollars that can be meant.
const COST_REFERENCE_MAX: f64 = 1e6;

/// What a checkpoint is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The grammar that it writes.
    pub grammar: String,
    /// The network's size.
    pub shape: Shape,
    /// Numbers of a worker's descriptor.
    pub descriptor: usize,
    /// Numbers of an embedding.
    pub embedding: usize,
    /// The model that embedded the tasks; another one's, of as many numbers too, are refused where it is used.
    pub embedding_model: String,
    /// The alphas that it was trained on, in [0, 1].
    pub alpha: [f64; 2],
    /// Dollars at which a trajectory's cost halved its reward, by dataset.
    pub cost_reference_usd: BTreeMap<String, f64>,
    /// The datasets.
    pub trained_on: String,
    /// The command.
    pub command: String,
    /// Its seed.
    pub seed: u64,
    /// Steps.
    pub steps: u64,
}

impl Card {
    /// The card of a network of this program.
    pub fn new(shape: Shape, embedding_model: String, alpha: [f64; 2]) -> Self {
        Self {
            grammar: GRAMMAR.into(),
            shape,
            descriptor: Descriptor::NUMBERS,
            embedding: EMBEDDING,
            embedding_model,
            alpha,
            cost_reference_usd: BTreeMap::new(),
            trained_on: String::new(),
            command: String::new(),
            seed: 0,
            steps: 0,
        }
    }
}

/// A trained network with its card.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What it is.
    pub card: Card,
    /// Its numbers.
    pub weights: Weights,
    /// The first digits of the BLAKE3 hash of the file.
    pub hash: String,
}

/// Why a checkpoint cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The file cannot be read or written.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        reason: String,
    },
    /// Not a checkpoint.
    #[error("{path} is no mode-router's checkpoint: {reason}; make one with `pointsman train mode-router`")]
    Shape {
        /// The file.
        path: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// Of another version of the grammar, or of other inputs.
    #[error("{path} was trained for {what} {found}, this program has {wanted}: train it again")]
    Other {
        /// The file.
        path: String,
        /// What differs.
        what: &'static str,
        /// In the file.
        found: String,
        /// Here.
        wanted: String,
    },
}

/// The checkpoint that comes with the program; `policies/mode-router/README.md` is its card.
const SHIPPED: &[u8] = include_bytes!("../../../../policies/mode-router/mode-router.safetensors");

impl Checkpoint {
    /// The one that comes with the program.
    pub fn shipped() -> Arc<Self> {
        static READ: OnceLock<Arc<Checkpoint>> = OnceLock::new();
        let read = || Self::from_bytes(SHIPPED, "the mode-router that comes with this program");
        READ.get_or_init(|| Arc::new(read().expect("a test reads it"))).clone()
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let shown = path.display().to_string();
        let file = |reason: String| CheckpointError::File { path: shown.clone(), reason };
        let size = fs::metadata(path).map_err(|error| file(error.to_string()))?.len();
        if size > BYTES_MAX {
            return Err(file(format!("{size} bytes, at most {BYTES_MAX} are read")));
        }
        let bytes = fs::read(path).map_err(|error| file(error.to_string()))?;
        Self::from_bytes(&bytes, &shown)
    }

    /// Reads what a file holds; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &str) -> Result<Self, CheckpointError> {
        let wrong = |reason: String| CheckpointError::Shape { path: path.into(), reason };
        let (text, mut found) = unpack(CARD, bytes).map_err(wrong)?;
        let card: Card = serde_json::from_str(&text).map_err(|error| wrong(format!("its card: {error}")))?;
        card.check(path)?;
        let mut numbers = BTreeMap::new();
        for (name, shape) in card.shape.names() {
            let (found, read) = found.remove(&name).ok_or_else(|| wrong(format!("{name} is missing")))?;
            if found != shape {
                return Err(wrong(format!("{name} has the shape {found:?}, not {shape:?}")));
            }
            numbers.insert(name, read);
        }
        if let Some(name) = found.keys().next() {
            return Err(wrong(format!("{name} is none of its parts")));
        }
        let weights = Weights { shape: card.shape, numbers };
        Ok(Self { card, weights, hash: blake3::hash(bytes).to_hex()[..12].to_owned() })
    }

    /// The file's bytes.
    pub fn to_bytes(card: &Card, weights: &Weights) -> Result<Vec<u8>, CheckpointError> {
        let wrong = |reason: String| CheckpointError::Shape { path: "the trained network".into(), reason };
        let text = serde_json::to_string(card).map_err(|error| wrong(error.to_string()))?;
        let numbers = weights.shape.names().into_iter().map(|(name, shape)| {
            let numbers = weights.get(&name).to_vec();
            (name, (shape.to_vec(), numbers))
        });
        pack(CARD, &text, &numbers.collect()).map_err(wrong)
    }
}

impl Card {
    /// The model whose embeddings it understands, and how many numbers they have.
    pub fn embedding(&self) -> (&str, usize) {
        (&self.embedding_model, self.embedding)
    }

    fn check(&self, path: &str) -> Result<(), CheckpointError> {
        let other =
            |what, found: String, wanted: String| CheckpointError::Other { path: path.into(), what, found, wanted };
        if self.grammar != GRAMMAR {
            return Err(other("the grammar", self.grammar.clone(), GRAMMAR.into()));
        }
        if self.descriptor != Descriptor::NUMBERS {
            return Err(other(
                "workers described by so many numbers:",
                self.descriptor.to_string(),
                Descriptor::NUMBERS.to_string(),
            ));
        }
        if self.embedding != EMBEDDING {
            return Err(other("embeddings of so many numbers:", self.embedding.to_string(), EMBEDDING.to_string()));
        }
        let [low, high] = self.alpha;
        let sound = self.shape.is_sound()
            && (0.0 <= low && low <= high && high <= 1.0)
            && self.cost_reference_usd.values().all(|usd| (0.0..=COST_REFERENCE_MAX).contains(usd));
        if !sound {
            let reason = "its card has a shape, an alpha or a cost_reference_usd out of range".into();
            return Err(CheckpointError::Shape { path: path.into(), reason });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::action::policy::{
        PolicySettings, build,
        mode_router::{Numbers, Raw},
    };

    const TINY: Shape = Shape { width: 16, layers: 1, heads: 2 };
    const FILE: &str = "model.safetensors";

    fn bytes() -> Vec<u8> {
        let card = Card {
            cost_reference_usd: BTreeMap::from([("d".into(), 0.01)]),
            ..Card::new(TINY, "all-MiniLM-L6-v2".into(), [0.1, 0.5])
        };
        Checkpoint::to_bytes(&card, &Weights::first(TINY, 1)).unwrap()
    }

    /// What is said of a file whose card or numbers were changed.
    fn refused(change: impl FnOnce(&mut Value, &mut Numbers)) -> String {
        let (text, mut numbers) = unpack(CARD, &bytes()).unwrap();
        let mut card = serde_json::from_str(&text).unwrap();
        change(&mut card, &mut numbers);
        let changed = pack(CARD, &card.to_string(), &numbers).unwrap();
        Checkpoint::from_bytes(&changed, FILE).unwrap_err().to_string()
    }

    #[test]
    fn a_card_or_a_part_that_is_not_as_it_should_be_is_named() {
        let set = |key: &str, value: Value| refused(|card, _| card[key] = value);
        let cases = [
            (set("colour", "red".into()), "unknown field `colour`"),
            (refused(|card, _| drop(card.as_object_mut().unwrap().remove("seed"))), "missing field `seed`"),
            (set("cost_reference_usd", json!({"d": -1.0})), "cost_reference_usd out of range"),
            (set("cost_reference_usd", json!({"d": null})), "expected f64"),
            (set("alpha", json!([0.0, 1.5])), "out of range"),
            (set("shape", json!({"width": 15, "layers": 1, "heads": 2})), "out of range"),
            (refused(|_, numbers| drop(numbers.remove("task"))), "task is missing"),
            (
                refused(|_, numbers| drop(numbers.insert("more".into(), (vec![1], vec![0.0])))),
                "more is none of its parts",
            ),
            (
                refused(|_, numbers| numbers.get_mut("places").unwrap().1[0] = f32::INFINITY),
                "places has a number that is not",
            ),
        ];
        for (found, wanted) in cases {
            assert!(found.contains(wanted) && found.contains(FILE), "{found:?} does not say {wanted:?}");
        }
        let training = pack("training", "{}", &Numbers::new()).unwrap();
        let error = Checkpoint::from_bytes(&training, FILE).unwrap_err().to_string();
        assert!(error.contains("its header has no card") && error.contains("pointsman train mode-router"), "{error}");
    }

    #[test]
    fn a_policy_card_names_a_checkpoint_and_is_refused_with_a_bad_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, bytes()).unwrap();
        let card = "[mode_router]\nmodel = \"model.safetensors\"";
        let settings = PolicySettings::parse_in(card, folder.path()).unwrap();
        assert_eq!(build("mode_router", &settings).unwrap().name(), "mode_router");
        // As many numbers of another model of embeddings would be read, and mean nothing.
        assert!(settings.check_embedding("all-MiniLM-L6-v2", EMBEDDING).is_ok());
        let error = settings.check_embedding("bge-small-en-v1.5", EMBEDDING).unwrap_err().to_string();
        assert!(error.contains("all-MiniLM-L6-v2") && error.contains("bge-small-en-v1.5"), "{error}");
        fs::write(&path, &bytes()[..500]).unwrap();
        let error = PolicySettings::parse_in(card, folder.path()).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert!(format!("{error} {source:?}").contains(FILE), "{error} {source:?}");
    }

    #[test]
    fn raw_numbers_of_one_worker_are_neutral() {
        let alone =
            Descriptor::relative(&[Raw { output_tokens: 9.0, latency_ms: 9.0, cost_usd: 9.0, ..Raw::default() }]);
        assert_eq!(alone, [Descriptor::default()]);
    }

    proptest! {
        #[test]
        fn no_damage_makes_the_reader_panic_or_let_through_what_is_not_finite(
            place in any::<prop::sample::Index>(), value in any::<u8>(),
        ) {
            let mut damaged = bytes();
            let place = place.index(damaged.len().min(6_000));
            damaged[place] = value;
            if let Ok(read) = Checkpoint::from_bytes(&damaged, FILE) {
                prop_assert!(read.weights.numbers.values().flatten().all(|number| number.is_finite()));
            }
        }
    }
}
