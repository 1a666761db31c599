//! The formats, and which of them lies at a path.

use std::{fmt, path::Path, str::FromStr};

use super::{coderouterbench, error::DatasetError, llmrouter, llmrouterbench, routerbench, shared};

/// How a dataset is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// This crate's own: `tasks.jsonl`, `results.csv`, `models.json`.
    Shared,
    /// CodeRouterBench as released.
    CodeRouterBench,
    /// The routing data of the LLMRouter library.
    LlmRouter,
    /// The results of LLMRouterBench.
    LlmRouterBench,
    /// RouterBench's data frames as CSV or lines of JSON.
    RouterBench,
}

/// A name that is no format's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of shared, coderouterbench, llmrouter, llmrouterbench, routerbench")]
pub struct UnknownFormat;

impl Format {
    /// All of them, in the order that they are looked for: the last needs to walk through folders.
    pub const ALL: [Self; 5] =
        [Self::Shared, Self::CodeRouterBench, Self::LlmRouter, Self::RouterBench, Self::LlmRouterBench];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::CodeRouterBench => "coderouterbench",
            Self::LlmRouter => "llmrouter",
            Self::LlmRouterBench => "llmrouterbench",
            Self::RouterBench => "routerbench",
        }
    }

    /// The format of what lies at a path, told by the names of files and columns.
    pub fn find(path: &Path) -> Result<Self, DatasetError> {
        std::fs::metadata(path).map_err(|source| DatasetError::Io { path: path.into(), source })?;
        for format in Self::ALL {
            let is_at = match format {
                Self::Shared => shared::is_at(path),
                Self::CodeRouterBench => coderouterbench::is_at(path),
                Self::LlmRouter => llmrouter::is_at(path),
                Self::RouterBench => routerbench::is_at(path)?,
                Self::LlmRouterBench => path.is_dir() && llmrouterbench::is_at(path),
            };
            if is_at {
                return Ok(format);
            }
        }
        let problem = "no dataset is found here: it needs tasks.jsonl, results.csv and models.json (shared), \
                           *_results_long.csv (coderouterbench), *routing*data.jsonl (llmrouter), \
                           bench/BENCHMARK/SPLIT/MODEL/*.json (llmrouterbench) or a .csv or .jsonl file with columns \
                           MODEL|total_cost (routerbench); --format says which, and then what is missing is told";
        Err(DatasetError::Layout { path: path.into(), problem: problem.into() })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or(UnknownFormat)
    }
}
