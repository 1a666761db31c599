//! The names that workers have in this dialect.

use crate::grammar::Violation;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// The workers by the names that the model knows them by. Case does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    offered: Vec<String>,
    others: Vec<String>,
}

/// Why there are no such names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamesError {
    /// Two workers of one name.
    #[error("two workers have the name {0:?} in this dialect; give each its own")]
    Twice(String),
    /// It could not be read back.
    #[error(
        "{0:?} cannot be a worker's name in this dialect: it must have 1 to {NAME_BYTES_MAX} bytes, without a colon, < or >, line \
         breaks, or spaces at its ends"
    )]
    Form(String),
}

impl Names {
    /// The workers offered, in order, and others that the model may name although they are not.
    pub fn new(offered: Vec<String>, others: Vec<String>) -> Result<Self, NamesError> {
        let all: Vec<&String> = offered.iter().chain(&others).collect();
        for (place, name) in all.iter().enumerate() {
            let strange = |c: char| matches!(c, ':' | '<' | '>') || c.is_control();
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(strange) || name.trim() != **name {
                return Err(NamesError::Form((*name).clone()));
            }
            if all[..place].iter().any(|before| same(before, name)) {
                return Err(NamesError::Twice((*name).clone()));
            }
        }
        Ok(Self { offered, others })
    }

    /// Those of the workers offered, in order.
    pub fn offered(&self) -> &[String] {
        &self.offered
    }

    /// Whether there is such a name, offered or not.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.offered.iter().chain(&self.others).any(|known| same(known, name))
    }

    /// Reads `NAME: query`: the worker's place among those offered, and what it is asked.
    pub(super) fn read<'a>(&self, search: &'a str) -> Result<(usize, &'a str), Violation> {
        let (name, query) = search.split_once(':').ok_or(Violation::RouteMalformed)?;
        let (name, query) = (name.trim(), query.trim());
        if name.is_empty() {
            return Err(Violation::AttributeMissing);
        }
        match self.offered.iter().position(|offered| same(offered, name)) {
            None if self.knows(name) => Err(Violation::WorkerNotOffered),
            None => Err(Violation::UnknownModel),
            Some(_) if query.is_empty() => Err(Violation::EmptyTask),
            Some(place) => Ok((place, query)),
        }
    }
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}
