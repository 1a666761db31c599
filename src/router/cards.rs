//! Policy cards on disk: a folder of TOML files, read again when one changes.
//!
//! A card that cannot be used is kept with its problem, so that an operator sees why it is not there; it never takes the
//! place of one that decides.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
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

/// A file's path, when it was written and how long it is.
pub(super) type Trace = (PathBuf, Option<SystemTime>, u64);

/// A policy at work, and where it comes from.
pub(super) struct Acting {
    pub policy: Box<dyn Policy>,
    pub card: Arc<Card>,
    /// The policy's name with its wrappers.
    pub name: String,
}

/// Where cards come from, and what their models must fit.
#[derive(Debug, Clone)]
pub(super) struct CardSource {
    /// The folder of cards, which the files that they name are taken from.
    pub folder: Option<PathBuf>,
    /// The embedding model in use.
    pub model: String,
    /// Its vectors' dimension.
    pub dimension: usize,
}

impl CardSource {
    /// Reads a card's text.
    pub fn parse(&self, text: &str) -> Result<Card, CardError> {
        let card = Card::parse(text, self.folder.as_deref().unwrap_or(Path::new(".")))?;
        card.settings.check_embedding(&self.model, self.dimension)?;
        Ok(card)
    }

    /// What shows that a card's file, or one that it names, was written: paths, times and lengths.
    pub fn traces(&self, cards: &Cards) -> Vec<Trace> {
        let Some(folder) = &self.folder else { return vec![] };
        let cards = cards.values().flatten();
        let named = cards.flat_map(|card| card.settings.trained_files().map(|file| folder.join(file)));
        let mut paths: Vec<PathBuf> = card_files(folder).into_iter().chain(named).collect();
        paths.sort();
        let trace = |path: PathBuf| {
            let metadata = fs::metadata(&path).ok();
            let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
            (path, modified, metadata.map_or(0, |metadata| metadata.len()))
        };
        paths.into_iter().map(trace).collect()
    }

    /// Reads all cards of the folder, beside the compiled-in one. A folder that is not there has none.
    pub fn read_all(&self) -> Cards {
        let mut cards = Cards::from([(DEFAULT_CARD.into(), Ok(Arc::new(Card::compiled_in())))]);
        for path in self.folder.as_deref().map(card_files).unwrap_or_default() {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            cards.insert(name.clone(), self.read(&path, &name).map(Arc::new));
        }
        cards
    }

    fn read(&self, path: &Path, name: &str) -> Result<Card, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
        let card = self.parse(&text).map_err(|error| error.to_string())?;
        card.settings
            .warnings()
            .iter()
            .for_each(|warning| tracing::warn!(card = %name, %warning, "part of a file is left out"));
        if card.name() == name {
            Ok(card)
        } else {
            Err(format!("its name is {:?}, its file's {name:?}: they must be the same", card.name()))
        }
    }
}

/// The cards' files, in order; none where there is no folder.
fn card_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    paths.sort();
    paths
}

impl Card {
    /// Reads a card's text and the files that it names, which are taken from `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, CardError> {
        let settings = PolicySettings::parse_in(text, folder)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(text.as_bytes());
        for file in settings.trained_files() {
            // It was read a moment ago; gone now, it counts as empty.
            hasher.update(&fs::read(folder.join(file)).unwrap_or_default());
        }
        let digest = hasher.finalize().to_hex()[..8].to_owned();
        Ok(Self { text: text.into(), settings, digest })
    }

    /// The compiled-in card.
    pub fn compiled_in() -> Self {
        Self::parse("", Path::new(".")).expect("the compiled-in card is valid: a test parses it")
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

    /// The same policy, nothing learnt yet.
    pub fn afresh(&self) -> Result<Self, CardError> {
        Self::new(Arc::clone(&self.card), &self.name)
    }

    pub fn reference(&self) -> PolicyRef {
        PolicyRef { name: self.name.clone(), version: self.card.settings.version, card: self.card.label() }
    }

    pub fn snapshot(&self) -> Self {
        Self { policy: self.policy.snapshot(), card: Arc::clone(&self.card), name: self.name.clone() }
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
        let source = |folder: &Path| CardSource { folder: Some(folder.into()), model: "m".into(), dimension: 2 };
        let cards = source(folder.path()).read_all();
        assert_eq!(cards.keys().collect::<Vec<_>>(), ["broken", "default", "other", "wide"]);
        assert_eq!(cards["wide"].as_ref().unwrap().settings.lin_ucb.alpha, 2.0);
        assert!(cards["broken"].as_ref().unwrap_err().contains("choose one of"));
        assert!(cards["other"].as_ref().unwrap_err().contains("must be the same"));
        assert_eq!(source(&folder.path().join("none")).read_all().len(), 1);
    }

    #[test]
    fn a_label_changes_with_the_text() {
        let [one, two] = ["", "version = 7"].map(|text| Card::parse(text, Path::new(".")).unwrap().label());
        assert!(one.starts_with("default@") && one != two);
    }
}
