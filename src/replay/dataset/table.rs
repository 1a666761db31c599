//! The rows of a CSV file, with the number and name of a column in every error.
//!
//! RFC 4180 as pandas writes it: quoted fields may hold commas, quotes and line ends. Rows end in LF or CRLF, also mixed;
//! for the line numbers to be right either way the parser ends rows at LF alone and the CR is taken off here. Only the
//! fields that are asked for need to be text.

use std::{path::Path, rc::Rc};

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::{
    error::{Column, DatasetError, shown, words},
    source::{NOT_UTF8, Progress, Source, read_error, utf8},
};

/// A file with a header row, read row by row.
pub(super) struct Table {
    path: std::path::PathBuf,
    csv: csv::Reader<Source>,
    progress: Rc<Progress>,
    headers: Vec<String>,
    record: ByteRecord,
    line: u64,
}

impl Table {
    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        let source = Source::open(path)?;
        let progress = source.progress();
        let csv = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .terminator(Terminator::Any(b'\n'))
            .from_reader(source);
        let mut table =
            Self { path: path.into(), csv, progress, headers: Vec::new(), record: ByteRecord::new(), line: 1 };
        if !table.read()? {
            return Err(table.row_error("there is no header"));
        }
        for place in 0..table.record.len() {
            let name = utf8(table.field(place)).map_err(|_| {
                let column = Some(Column::Numbered(place + 1, String::new()));
                DatasetError::Line { path: path.into(), line: table.line, column, problem: NOT_UTF8.into() }
            })?;
            if !name.is_empty() && table.headers.iter().any(|other| other == name) {
                let problem = format!("the header names {} twice", shown(name));
                return Err(table.row_error(problem));
            }
            let name = name.to_owned();
            table.headers.push(name);
        }
        Ok(table)
    }

    /// The columns' names.
    pub(super) fn headers(&self) -> &[String] {
        &self.headers
    }

    /// The column of this name, if there is one.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.headers.iter().position(|header| header == name)
    }

    /// The first column of these names; an error says that the first is missing.
    pub(super) fn need(&self, names: &[&str]) -> Result<usize, DatasetError> {
        names
            .iter()
            .find_map(|name| self.column(name))
            .ok_or_else(|| self.row_error(format!("the header names no column {}", names.join(" or "))))
    }

    /// A column as an error names it.
    pub(super) fn place(&self, column: usize) -> Column {
        Column::Numbered(column + 1, self.headers.get(column).cloned().unwrap_or_default())
    }

    /// The line that the row starts in.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Goes to the next row; false at the end.
    pub(super) fn next(&mut self) -> Result<bool, DatasetError> {
        if !self.read()? {
            return Ok(false);
        }
        let (fields, columns) = (self.record.len(), self.headers.len());
        if fields != columns {
            return Err(self.row_error(format!("the row has {fields} columns, the header {columns}")));
        }
        Ok(true)
    }

    /// A field's text.
    pub(super) fn text(&self, column: usize) -> Result<&str, DatasetError> {
        utf8(self.field(column)).map_err(|_| self.error(column, NOT_UTF8))
    }

    /// A field's number. Python's True and False are 1 and 0.
    pub(super) fn number(&self, column: usize) -> Result<f64, DatasetError> {
        let text = self.text(column)?.trim();
        match text {
            "True" => Ok(1.0),
            "False" => Ok(0.0),
            _ => text.parse().map_err(|_| self.error(column, format!("{} is no number", shown(text)))),
        }
    }

    /// A field's whole number, also one written as 59.0; None if it is blank.
    pub(super) fn count(&self, column: usize) -> Result<Option<u64>, DatasetError> {
        let text = self.text(column)?.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let whole = text.strip_suffix(".0").unwrap_or(text);
        whole.parse().map(Some).map_err(|_| self.error(column, format!("{} is no whole number", shown(text))))
    }

    /// An error in a column of this row.
    pub(super) fn error(&self, column: usize, problem: impl Into<String>) -> DatasetError {
        let (path, column) = (self.path.clone(), Some(self.place(column)));
        DatasetError::Line { path, line: self.line, column, problem: problem.into() }
    }

    /// An error in this row.
    pub(super) fn row_error(&self, problem: impl Into<String>) -> DatasetError {
        DatasetError::Line { path: self.path.clone(), line: self.line, column: None, problem: problem.into() }
    }

    fn field(&self, column: usize) -> &[u8] {
        let field = self.record.get(column).unwrap_or_default();
        let last = column + 1 == self.record.len();
        if last { field.strip_suffix(b"\r").unwrap_or(field) } else { field }
    }

    /// The next row that is not blank.
    fn read(&mut self) -> Result<bool, DatasetError> {
        loop {
            self.progress.next_record();
            let read = self.csv.read_byte_record(&mut self.record);
            if !read.map_err(|error| self.parse_error(error))? {
                return Ok(false);
            }
            // The parser is behind the row now, whose own line ends are in its fields.
            let position = self.csv.position();
            let ended = u64::from(!self.progress.ends_without_newline(position.byte()));
            let inside = self.record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
            self.line = position.line().saturating_sub(ended + inside).max(1);
            if self.record.len() > 1 || !self.field(0).is_empty() {
                return Ok(true);
            }
        }
    }

    fn parse_error(&self, error: csv::Error) -> DatasetError {
        let line = self.progress.line();
        match error.into_kind() {
            csv::ErrorKind::Io(error) => read_error(&self.path, line, error),
            kind => {
                let problem = words(csv_words(&kind));
                DatasetError::Line { path: self.path.clone(), line, column: None, problem }
            }
        }
    }
}

fn csv_words(kind: &csv::ErrorKind) -> String {
    format!("the row cannot be parsed: {kind:?}")
}
