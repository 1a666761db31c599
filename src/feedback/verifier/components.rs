//! Where components come from: the program itself, the cache folder, and the files that were handed in.
//!
//! What was handed in is kept under its SHA-256 in the data folder, flushed before the journal speaks of it, so that a
//! restart judges by the same code. CPython with its library is too large to come with the program: it is built once,
//! from the sources that do come with it, into the cache folder.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::sources::PYTHON;
use crate::round::ComponentSource;

/// The verifiers that come with the program, by name.
const FIRST_PARTY: [(&str, &[u8]); 5] = [
    ("answer", include_bytes!("../../../verifiers/built/answer.wasm")),
    ("consistency", include_bytes!("../../../verifiers/built/consistency.wasm")),
    ("json", include_bytes!("../../../verifiers/built/json.wasm")),
    ("rules", include_bytes!("../../../verifiers/built/rules.wasm")),
    ("syntax", include_bytes!("../../../verifiers/built/syntax.wasm")),
];

/// The names of all first-party verifiers.
pub fn first_party_names() -> impl Iterator<Item = &'static str> {
    FIRST_PARTY.iter().map(|(name, _)| *name).chain([PYTHON.name])
}

/// Whether a first-party verifier has this name.
pub fn is_first_party(name: &str) -> bool {
    first_party_names().any(|known| known == name)
}

/// The component of a first-party verifier that comes with the program.
pub fn first_party(name: &str) -> Option<&'static [u8]> {
    FIRST_PARTY.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// A component that is not there.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// No first-party verifier has this name.
    #[error("there is no first-party verifier {name:?}; there are {}, and others need a component of their own",
            first_party_names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// A first-party verifier that is too large to come with the program.
    #[error("the first-party verifier {name:?} is not built yet: run `pointsman verify setup`, which builds it once")]
    NotBuilt {
        /// The name.
        name: String,
    },
    /// A file cannot be read or written.
    #[error("the component {path} cannot be {verb}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        verb: &'static str,
        /// What the system said.
        reason: io::Error,
    },
    /// A kept file is not what it was.
    #[error("the component {path} is damaged: its SHA-256 is not its name; put the file back from a copy")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// The folders of components.
#[derive(Debug, Clone)]
pub struct Components {
    stored: PathBuf,
    built: PathBuf,
}

impl Components {
    /// What is handed in is kept in the folder `stored`, which is made when it is first needed; what was built once is in
    /// the folder `built`.
    pub fn new(stored: PathBuf, built: PathBuf) -> Self {
        Self { stored, built }
    }

    /// Reads a component.
    pub(super) fn read(&self, source: &ComponentSource) -> Result<Cow<'static, [u8]>, ComponentError> {
        match source {
            ComponentSource::FirstParty(name) => match first_party(name) {
                Some(bytes) => Ok(Cow::Borrowed(bytes)),
                None if *name == PYTHON.name => {
                    let path = PYTHON.built_in(&self.built);
                    if !path.is_file() {
                        return Err(ComponentError::NotBuilt { name: name.clone() });
                    }
                    read(&path).map(Cow::Owned)
                }
                None => Err(ComponentError::Unknown { name: name.clone() }),
            },
            ComponentSource::Stored(sha256) => {
                let path = self.path(sha256);
                let bytes = read(&path)?;
                if digest(&bytes) == *sha256 { Ok(Cow::Owned(bytes)) } else { Err(ComponentError::Damaged { path }) }
            }
        }
    }

    /// Keeps a component of this SHA-256 for good. It is on the disk when this returns.
    pub(super) fn keep(&self, sha256: &str, bytes: &[u8]) -> Result<ComponentSource, ComponentError> {
        let path = self.path(sha256);
        // A file of the right name may be one that a power cut left empty.
        if !fs::read(&path).is_ok_and(|kept| digest(&kept) == sha256) {
            write(&self.stored, &path, bytes).map_err(|reason| ComponentError::File {
                path: path.clone(),
                verb: "written",
                reason,
            })?;
        }
        Ok(ComponentSource::Stored(sha256.into()))
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.stored.join(format!("{sha256}.wasm"))
    }
}

/// Reads a component file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, ComponentError> {
    fs::read(path).map_err(|reason| ComponentError::File { path: path.to_path_buf(), verb: "read", reason })
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(bytes)?;
    part.as_file().sync_all()?;
    part.persist(path)?;
    File::open(folder)?.sync_all()
}

/// The SHA-256 of bytes, in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let components = Components::new(folder.path().join("verifiers"), folder.path().join("built"));
        let keep = || components.keep(&digest(b"bytes"), b"bytes").unwrap();
        let source = keep();
        assert_eq!(source, keep());
        assert_eq!(*components.read(&source).unwrap(), *b"bytes");
        let ComponentSource::Stored(sha256) = &source else { panic!("{source:?}") };
        fs::write(components.path(sha256), b"byte").unwrap();
        assert!(matches!(components.read(&source), Err(ComponentError::Damaged { .. })));
        // Keeping it again mends it.
        keep();
        assert_eq!(*components.read(&source).unwrap(), *b"bytes");
        let unknown = components.read(&ComponentSource::FirstParty("magic".into())).unwrap_err();
        assert!(unknown.to_string().contains("answer, consistency, json"), "{unknown}");
        let unbuilt = components.read(&ComponentSource::FirstParty("python".into())).unwrap_err();
        assert!(unbuilt.to_string().contains("pointsman verify setup"), "{unbuilt}");
    }
}
