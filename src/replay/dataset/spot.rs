//! Where in a file something stands, and what the file calls it: every format has its own names for the same parts.

use std::path::Path;

use super::error::{Column, DatasetError};

/// What a field of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Id,
    Prompt,
    Domain,
    Model,
    Score,
    Cost,
}

/// What a file calls its fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(pub(super) Vec<(Part, Column)>);

impl Names {
    /// Fields of JSON objects.
    pub(super) fn fields(names: &[(Part, &str)]) -> Self {
        Self(names.iter().map(|(part, name)| (*part, field(name))).collect())
    }

    /// What the file calls a part.
    pub(super) fn column(&self, part: Part) -> Option<Column> {
        self.0.iter().find(|(named, _)| *named == part).map(|(_, column)| column.clone())
    }
}

/// Where something stands.
pub(super) struct Spot<'a> {
    pub(super) path: &'a Path,
    pub(super) line: u64,
    pub(super) names: &'a Names,
}

impl Spot<'_> {
    /// Something wrong there.
    pub(super) fn error(&self, part: Part, problem: impl Into<String>) -> DatasetError {
        let (path, column) = (self.path.to_owned(), self.names.column(part));
        DatasetError::Line { path, line: self.line, column, problem: problem.into() }
    }

    /// File and line, for a warning.
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", file_name(self.path), self.line)
    }
}

/// A file's name without its folder.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A JSON object's field.
pub(super) fn field(name: &str) -> Column {
    Column::Field(name.into())
}
