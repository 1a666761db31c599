//! Reports of replays, kept in a daemon's data folder so that its page can show them.
//!
//! A report is one JSON file under a name. Files come from a command and may be anything; one that cannot be read is listed
//! with the reason.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::page::Section;
use crate::memory::snapshot::checked_name;

/// The format that is written and read.
const FORMAT: u32 = 1;
/// The largest file that is read.
const BYTES_MAX: u64 = 32 << 20;
/// Reports that are listed, the newest first.
const LISTED_MAX: usize = 200;

/// A folder of reports.
#[derive(Debug, Clone)]
pub struct Reports(PathBuf);

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ReplayReport)]
pub struct Report {
    format: u32,
    /// What was replayed.
    pub title: String,
    /// When it was saved, in milliseconds since 1970.
    pub created_ms: i64,
    /// Replays of one stream under one rule each.
    #[schema(value_type = Vec<Object>)]
    pub sections: Vec<Section>,
}

/// A report as listed.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = ListedReport)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What was replayed.
    pub title: Option<String>,
    /// When it was saved, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// The file's size.
    pub bytes: u64,
    /// Its sections.
    pub sections: usize,
    /// Policies in all of them.
    pub rows: usize,
    /// Why it cannot be read.
    pub problem: Option<String>,
}

/// Why a report could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// It could be no file's.
    #[error("{0:?} is no report's name: 1 to 80 of A-Z a-z 0-9 . _ -, and no dot at the start")]
    Name(String),
    /// There is none.
    #[error("there is no report {0:?}: GET /v1/reports lists them")]
    Unknown(String),
    /// It is of another format, or no report.
    #[error("the report {name:?} cannot be read: {problem}")]
    Damaged {
        /// The report.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The folder failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// What was read or written.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Reports {
    /// Those in a folder, which need not be there.
    pub fn of(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Saves a report under a name, in the place of one that had it; returns where.
    pub fn save(&self, name: &str, title: &str, sections: &[Section], now_ms: i64) -> Result<PathBuf, SavedError> {
        let path = self.path(name)?;
        let report = Report { format: FORMAT, title: title.into(), created_ms: now_ms, sections: sections.into() };
        let failed = |error| SavedError::Io { path: path.clone(), error };
        fs::create_dir_all(&self.0).map_err(failed)?;
        // Renamed into place, so that a page never reads half of it.
        let part = path.with_extension("part");
        let text = serde_json::to_vec(&report).map_err(|error| failed(error.into()))?;
        fs::write(&part, text).and_then(|()| fs::rename(&part, &path)).map_err(failed)?;
        Ok(path)
    }

    /// All there are, the newest first: 200 at most.
    pub fn list(&self) -> Result<Vec<Listed>, SavedError> {
        let failed = |error| SavedError::Io { path: self.0.clone(), error };
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            entries => entries.map_err(failed)?,
        };
        let mut files = vec![];
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| check(name).is_ok());
            if let (Some(name), true, Ok(meta)) =
                (name, path.extension().is_some_and(|end| end == "json"), path.metadata())
            {
                files.push((meta.modified().ok(), meta.len(), name.to_owned()));
            }
        }
        files.sort_by(|a, b| b.cmp(a));
        files.truncate(LISTED_MAX);
        Ok(files.into_iter().map(|(_, bytes, name)| self.listed(name, bytes)).collect())
    }

    fn listed(&self, name: String, bytes: u64) -> Listed {
        let unread = Listed { name, title: None, created_ms: None, bytes, sections: 0, rows: 0, problem: None };
        match self.read(&unread.name) {
            Ok(report) => Listed {
                sections: report.sections.len(),
                rows: report.sections.iter().map(|section| section.rows.len()).sum(),
                created_ms: Some(report.created_ms),
                title: Some(report.title),
                ..unread
            },
            Err(error) => Listed { problem: Some(error.to_string()), ..unread },
        }
    }

    /// One of them.
    pub fn read(&self, name: &str) -> Result<Report, SavedError> {
        let path = self.path(name)?;
        let damaged = |problem: String| SavedError::Damaged { name: name.into(), problem };
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => SavedError::Unknown(name.into()),
            _ => SavedError::Io { path: path.clone(), error },
        };
        if fs::metadata(&path).map_err(failed)?.len() > BYTES_MAX {
            return Err(damaged(format!("it has more than {BYTES_MAX} bytes")));
        }
        let report: Report =
            serde_json::from_slice(&fs::read(&path).map_err(failed)?).map_err(|error| damaged(error.to_string()))?;
        if report.format == FORMAT {
            Ok(report)
        } else {
            Err(damaged(format!("format {} is not known here", report.format)))
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, SavedError> {
        check(name)?;
        Ok(self.0.join(format!("{name}.json")))
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.0
    }
}

/// Refuses what can be no report's name.
pub fn check(name: &str) -> Result<(), SavedError> {
    checked_name(name).map_err(SavedError::Name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_listed_and_read_and_what_is_no_report_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let reports = Reports::of(folder.path().join("reports"));
        assert_eq!(reports.list().unwrap(), []);
        let section = Section { title: "a".into(), note: "<script>".into(), rows: vec![] };
        reports.save("mine", "A replay", std::slice::from_ref(&section), 7).unwrap();
        reports.save("mine", "A replay", &[section.clone(), section], 8).unwrap();
        let read = reports.read("mine").unwrap();
        assert_eq!((read.created_ms, read.sections.len(), read.sections[0].note.as_str()), (8, 2, "<script>"));
        fs::write(reports.folder().join("other.json"), "[]").unwrap();
        fs::write(reports.folder().join("later.json"), r#"{"format":9,"title":"","created_ms":0,"sections":[]}"#)
            .unwrap();
        fs::write(reports.folder().join("notes.txt"), "no report").unwrap();
        let listed = reports.list().unwrap();
        let problems: Vec<_> = listed.iter().filter(|one| one.problem.is_some()).map(|one| one.name.as_str()).collect();
        assert_eq!((listed.len(), problems.len()), (3, 2));
        assert!(matches!(reports.read("none"), Err(SavedError::Unknown(_))));
        for name in ["", "../mine", ".hidden", "a/b", "ä", &"a".repeat(81)] {
            assert!(matches!(reports.read(name), Err(SavedError::Name(_))), "{name}");
        }
    }
}
