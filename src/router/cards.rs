//! Policy cards on disk: a folder of TOML files, read again when one changes.
//!
//! A card that cannot be used is kept with its problem, so that an operator sees why it is not there; it never takes the
//! place of one that decides.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    action::policy::{CardError, Policy, PolicySettings, build},
    round::PolicyRef,
};

/// The name of the compiled-in card.
pub const DEFAULT_CARD: &str = "default";

/// A checked card with its text.
#[derive(Debug, PartialEq)]
pub struct Card {
    /// The text, as it is journaled when the card is put to use.
    pub text: String,
    /// What it says, laid over the default card.
    pub settings: PolicySettings,
    digest: String,
}

/// All cards by name; one that cannot be used is its problem.
pub type Cards = BTreeMap<String, Result<Arc<Card>, String>>;

/// A policy at work, and where it comes from.
pub(super) struct Acting {
    pub policy: Box<dyn Policy>,
    pub card: Arc<Card>,
    /// The policy's name with its wrappers.
    pub name: String,
}

impl Card {
    /// Reads a card's text.
    pub fn parse(text: &str) -> Result<Self, CardError> {
        let settings = PolicySettings::parse(text)?;
        let digest = blake3::hash(text.as_bytes()).to_hex()[..8].to_owned();
        Ok(Self { text: text.into(), settings, digest })
    }

    /// The compiled-in card.
    pub fn compiled_in() -> Self {
        Self::parse("").expect("the compiled-in card is valid: a test parses it")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Its name and the first digits of the hash of its text, such as `default@1f0c6a7e`.
    pub fn label(&self) -> String {
        format!("{}@{}", self.settings.name, self.digest)
    }
}

impl Acting {
    /// A policy of a card, nothing learnt yet.
    pub fn new(card: Arc<Card>, name: &str) -> Result<Self, CardError> {
        let policy = build(name, &card.settings).map_err(|error| CardError::Range(vec![error.to_string()]))?;
        Ok(Self { policy, card, name: name.into() })
    }

    pub fn reference(&self) -> PolicyRef {
        PolicyRef { name: self.name.clone(), version: self.card.settings.version, card: self.card.label() }
    }

    pub fn snapshot(&self) -> Self {
        Self { policy: self.policy.snapshot(), card: Arc::clone(&self.card), name: self.name.clone() }
    }
}

/// Reads all cards of a folder, beside the compiled-in one. A folder that is not there has none.
pub fn read_cards(folder: Option<&Path>) -> Cards {
    let mut cards = Cards::from([(DEFAULT_CARD.into(), Ok(Arc::new(Card::compiled_in())))]);
    let Some(entries) = folder.and_then(|folder| fs::read_dir(folder).ok()) else { return cards };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        cards.insert(name.clone(), read_card(path, &name).map(Arc::new));
    }
    cards
}

fn read_card(path: &Path, name: &str) -> Result<Card, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let card = Card::parse(&text).map_err(|error| error.to_string())?;
    if card.name() == name {
        Ok(card)
    } else {
        Err(format!("its name is {:?}, its file's {name:?}: they must be the same", card.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_cards_and_the_problems_of_those_that_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("wide.toml", "name = \"wide\"\n[lin_ucb]\nalpha = 2.0");
        write("other.toml", "name = \"another\"");
        write("broken.toml", "policy = \"linucb\"");
        write("notes.txt", "not a card");
        let cards = read_cards(Some(folder.path()));
        assert_eq!(cards.keys().collect::<Vec<_>>(), ["broken", "default", "other", "wide"]);
        assert_eq!(cards["wide"].as_ref().unwrap().settings.lin_ucb.alpha, 2.0);
        assert!(cards["broken"].as_ref().unwrap_err().contains("choose one of"));
        assert!(cards["other"].as_ref().unwrap_err().contains("must be the same"));
        assert_eq!(read_cards(Some(&folder.path().join("none"))).len(), 1);
    }

    #[test]
    fn a_label_changes_with_the_text() {
        let [one, two] = ["", "version = 7"].map(|text| Card::parse(text).unwrap().label());
        assert!(one.starts_with("default@") && one != two);
    }
}
