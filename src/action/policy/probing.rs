//! A probing set: what each arm scored in each domain before the router ran, for `domain_prior` to start from.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    Action, Standings,
    trained::{TrainedError, TrainedKind, read, write},
};
use crate::round::{ArmId, Domain, Mode};

/// Cells read at most: every domain that standings keep, with a thousand arms each.
const CELLS_MAX: usize = 256_000;

/// Counts and mean scores per (domain, action).
#[derive(Debug, Clone, PartialEq)]
pub struct ProbingSet {
    /// What it was made of, for people.
    pub trained_on: String,
    /// When, in milliseconds since 1970.
    pub trained_at_ms: i64,
    /// The cells.
    pub cells: Vec<ProbingCell>,
    /// Actions with a cell that makes no sense: none of their cells is used.
    pub left_out: Vec<Action>,
}

/// What one action scored in one domain.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbingCell {
    /// The domain.
    pub domain: Domain,
    /// The action.
    pub action: Action,
    /// Scores behind the mean, at least 1.
    pub rounds: u64,
    /// In [0, 1].
    pub mean_score: f64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    trained_on: String,
    trained_at_ms: i64,
    cells: Vec<StoredCell>,
}

#[derive(Serialize, Deserialize)]
struct StoredCell {
    domain: Domain,
    mode: Mode,
    arm: ArmId,
    rounds: u64,
    // JSON has no NaN: it is written as null.
    mean_score: Option<f64>,
}

impl ProbingSet {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TrainedError> {
        read(path, TrainedKind::Probing, Self::check)
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let cell = |cell: &ProbingCell| StoredCell {
            domain: cell.domain.clone(),
            mode: cell.action.0,
            arm: cell.action.1.clone(),
            rounds: cell.rounds,
            mean_score: Some(cell.mean_score),
        };
        let (trained_on, trained_at_ms) = (self.trained_on.clone(), self.trained_at_ms);
        write(TrainedKind::Probing, &Stored { trained_on, trained_at_ms, cells: self.cells.iter().map(cell).collect() })
    }

    /// The arms that were left out, as a sentence to show; None when there are none.
    pub fn warning(&self) -> Option<String> {
        let names: Vec<_> = self.left_out.iter().map(|(mode, arm)| format!("{arm} ({mode:?})")).collect();
        (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("the probing set leaves out arms with numbers that make no sense: {names}")
        })
    }

    fn check(stored: Stored) -> Result<Self, String> {
        let Stored { trained_on, trained_at_ms, cells } = stored;
        if cells.len() > CELLS_MAX {
            return Err(format!("it has {} cells, at most {CELLS_MAX} are read", cells.len()));
        }
        let mut set = Self { trained_on, trained_at_ms, cells: Vec::with_capacity(cells.len()), left_out: Vec::new() };
        for StoredCell { domain, mode, arm, rounds, mean_score } in cells {
            let action = (mode, arm);
            match mean_score.filter(|mean| (0.0..=1.0).contains(mean) && rounds > 0) {
                Some(mean_score) => set.cells.push(ProbingCell { domain, action, rounds, mean_score }),
                None => set.left_out.push(action),
            }
        }
        set.left_out.sort();
        set.left_out.dedup();
        set.cells.retain(|cell| !set.left_out.contains(&cell.action));
        Ok(set)
    }

    /// The standings that a policy starts from: each cell counts for its rounds, but for at most `mass`.
    pub(super) fn standings(&self, mass: f64) -> Standings {
        let mut standings = Standings::default();
        for ProbingCell { domain, action, rounds, mean_score } in &self.cells {
            standings.add(domain, action.clone(), *mean_score, mass.min(*rounds as f64));
        }
        standings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(arm: &str, mean_score: f64) -> ProbingCell {
        let action = (Mode::Single, ArmId::new(arm).unwrap());
        ProbingCell { domain: Domain::unknown(), action, rounds: 90, mean_score }
    }

    #[test]
    fn a_file_comes_back_and_a_damaged_cell_costs_its_arm_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("priors.json");
        let cells = vec![cell("a", 0.25), cell("b", 0.75)];
        let set = ProbingSet { trained_on: "made up".into(), trained_at_ms: 7, cells, left_out: vec![] };
        std::fs::write(&path, set.to_json()).unwrap();
        assert_eq!(ProbingSet::read(&path).unwrap(), set);
        for bad in ["null", "1.5", "-1", "1e400"] {
            std::fs::write(&path, set.to_json().replace("0.25", bad)).unwrap();
            let read = ProbingSet::read(&path);
            let Ok(read) = read else {
                assert_eq!(bad, "1e400", "JSON numbers that are no f64 are refused with the file");
                continue;
            };
            assert_eq!((read.cells, read.left_out), (vec![cell("b", 0.75)], vec![cell("a", 0.0).action]));
        }
        for (from, to, said) in [("\"format\":1", "\"format\":2", "format 2"), ("probing", "x", "kind"), ("}]", "", "")]
        {
            std::fs::write(&path, set.to_json().replace(from, to)).unwrap();
            let error = ProbingSet::read(&path).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("pointsman train priors"), "{error}");
        }
    }

    #[test]
    fn a_cell_counts_for_its_rounds_but_for_at_most_the_mass() {
        let set = ProbingSet { trained_on: "".into(), trained_at_ms: 0, cells: vec![cell("a", 0.5)], left_out: vec![] };
        let n = |mass| set.standings(mass).cell(&Domain::unknown(), &cell("a", 0.5).action).n;
        assert_eq!((n(20.0), n(1e9)), (20.0, 90.0));
    }
}
