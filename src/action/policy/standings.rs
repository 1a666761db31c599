//! Standings: counts and mean scores per (domain, action), the sufficient statistics of every policy that knows domains.
//!
//! Domains come from clients, so their number is bounded: past [`DOMAINS_MAX`] a new domain only adds to its actions'
//! totals over all domains. Each domain's cells sit behind one Arc, so that a snapshot shares all but the one that
//! changed. Forgetting costs nothing: instead of shrinking all that is old, what is new weighs more (`inflation`), and
//! reading divides by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action, LearntRound,
    state::{Row, StateError, read, write},
};
use crate::round::Domain;

/// How many domains have cells of their own.
pub(in crate::action) const DOMAINS_MAX: usize = 256;
/// Past this, all cells are divided by the inflation once, long before anything overflows.
const INFLATION_MAX: f64 = 1e12;

/// What is known of one action somewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cell {
    /// Rounds, each counted by its trust.
    pub n: f64,
    /// The sum of their scores.
    pub sum: f64,
    /// The sum of their squared scores.
    pub squares: f64,
}

/// The cells of all domains, and each action's total.
#[derive(Debug, Clone)]
pub struct Standings {
    domains: BTreeMap<Domain, Arc<BTreeMap<Action, Cell>>>,
    totals: Arc<BTreeMap<Action, Cell>>,
    rounds: u64,
    inflation: f64,
}

/// Standings as stored; a row's numbers are n, sum and squares.
#[derive(Serialize, Deserialize)]
struct Stored {
    rounds: u64,
    inflation: f64,
    totals: Vec<Row>,
    domains: Vec<(Domain, Vec<Row>)>,
}

impl Default for Standings {
    fn default() -> Self {
        Self { domains: BTreeMap::new(), totals: Arc::default(), rounds: 0, inflation: 1.0 }
    }
}

impl Cell {
    /// (sum + mass * prior) / (n + mass): the mean, shrunk toward `prior` as if that had been seen `mass` times.
    pub fn shrunk_mean(&self, prior: f64, mass: f64) -> f64 {
        (self.sum + mass * prior) / (self.n + mass)
    }

    fn add(&mut self, score: f64, weight: f64) {
        self.n += weight;
        self.sum += weight * score;
        self.squares += weight * score * score;
    }

    fn scaled(&self, factor: f64) -> Self {
        Self { n: self.n * factor, sum: self.sum * factor, squares: self.squares * factor }
    }

    /// Whether scores in [0, 1] could have led to these numbers.
    fn is_sound(&self) -> bool {
        let rounding = 1e-6 * (1.0 + self.n);
        let within = |value: f64| value.is_finite() && value >= -rounding && value <= self.n + rounding;
        (0.0..1e15).contains(&self.n) && within(self.sum) && within(self.squares)
    }
}

impl Standings {
    /// Adds one round; one whose score is out of range changes nothing.
    pub fn learn(&mut self, round: &LearntRound<'_>) {
        if let Some((score, trust)) = round.lesson() {
            self.add(&round.context.domain, round.action(), score, trust);
        }
    }

    /// Adds one score of a trust in (0, 1], or of as many rounds as a prior counts for.
    pub(super) fn add(&mut self, domain: &Domain, action: Action, score: f64, trust: f64) {
        self.rounds += 1;
        let weight = trust * self.inflation;
        Arc::make_mut(&mut self.totals).entry(action.clone()).or_default().add(score, weight);
        if self.domains.len() < DOMAINS_MAX || self.domains.contains_key(domain) {
            let cells = self.domains.entry(domain.clone()).or_default();
            Arc::make_mut(cells).entry(action).or_default().add(score, weight);
        }
    }

    /// Multiplies all counts and sums by `keep`, in (0, 1].
    pub fn forget(&mut self, keep: f64) {
        self.inflation /= keep;
        if self.inflation > INFLATION_MAX {
            let factor = 1.0 / self.inflation;
            let every = self.domains.values_mut().chain(std::iter::once(&mut self.totals));
            every.for_each(|cells| Arc::make_mut(cells).values_mut().for_each(|cell| *cell = cell.scaled(factor)));
            self.inflation = 1.0;
        }
    }

    /// What an action did in a domain.
    pub fn cell(&self, domain: &Domain, action: &Action) -> Cell {
        self.read(self.domains.get(domain).and_then(|cells| cells.get(action)))
    }

    /// What an action did in all domains.
    pub fn total(&self, action: &Action) -> Cell {
        self.read(self.totals.get(action))
    }

    /// A cell's numbers as they count today.
    pub(super) fn read(&self, cell: Option<&Cell>) -> Cell {
        cell.map_or_else(Cell::default, |cell| cell.scaled(1.0 / self.inflation))
    }

    /// All actions ever learnt, in order.
    pub(super) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.totals.keys()
    }

    /// Every domain's cells, in order, to be read with [`Standings::read`].
    pub(super) fn domains(&self) -> impl Iterator<Item = (&Domain, &BTreeMap<Action, Cell>)> {
        self.domains.iter().map(|(domain, cells)| (domain, &**cells))
    }

    /// The domains with cells of their own, in order.
    pub fn known_domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.keys()
    }

    /// How many rounds were learnt.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }
}

impl Standings {
    /// All numbers, as JSON.
    pub fn state(&self) -> Value {
        let rows = |cells: &BTreeMap<Action, Cell>| -> Vec<Row> {
            cells.iter().map(|(action, cell)| Row::new(action, [cell.n, cell.sum, cell.squares])).collect()
        };
        write(&Stored {
            rounds: self.rounds,
            inflation: self.inflation,
            totals: rows(&self.totals),
            domains: self.domains.iter().map(|(domain, cells)| (domain.clone(), rows(cells))).collect(),
        })
    }

    /// [`Standings::from_state`] in place; an error changes nothing.
    pub(super) fn restore(&mut self, state: &Value) -> Result<Vec<Action>, StateError> {
        let (standings, poisoned) = Self::from_state(state)?;
        *self = standings;
        Ok(poisoned)
    }

    /// Reads [`Standings::state`]; actions with numbers that make no sense are left out and returned.
    pub fn from_state(state: &Value) -> Result<(Self, Vec<Action>), StateError> {
        let stored: Stored = read(state)?;
        if !(1.0..=INFLATION_MAX).contains(&stored.inflation) {
            return Err(StateError::Shape(format!("inflation {} is out of range", stored.inflation)));
        }
        let mut poisoned = BTreeSet::new();
        let mut cells = |rows: &[Row]| -> BTreeMap<Action, Cell> {
            let mut cells = BTreeMap::new();
            for row in rows {
                let sound = match row.values()[..] {
                    [n, sum, squares] => Some(Cell { n, sum, squares }).filter(Cell::is_sound),
                    _ => None,
                };
                match sound {
                    Some(cell) => drop(cells.insert(row.action(), cell)),
                    None => drop(poisoned.insert(row.action())),
                }
            }
            cells
        };
        let mut totals = cells(&stored.totals);
        let mut domains: BTreeMap<_, _> =
            stored.domains.iter().map(|(domain, rows)| (domain.clone(), cells(rows))).collect();
        // An action whose numbers are wrong in one place is not believed in the others.
        for action in &poisoned {
            totals.remove(action);
            domains.values_mut().for_each(|cells| {
                cells.remove(action);
            });
        }
        let domains = domains.into_iter().map(|(domain, cells)| (domain, Arc::new(cells))).collect();
        let standings = Self { domains, totals: Arc::new(totals), rounds: stored.rounds, inflation: stored.inflation };
        Ok((standings, poisoned.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{ArmId, Mode};

    fn action(name: &str) -> Action {
        (Mode::Single, ArmId::new(name).unwrap())
    }

    #[test]
    fn domains_are_bounded_and_the_totals_still_learn() {
        let mut standings = Standings::default();
        for number in 0..DOMAINS_MAX + 10 {
            standings.add(&Domain::new(format!("d{number}")).unwrap(), action("a"), 0.5, 1.0);
        }
        assert_eq!(standings.domains().count(), DOMAINS_MAX);
        assert_eq!(standings.total(&action("a")).n, (DOMAINS_MAX + 10) as f64);
    }

    #[test]
    fn forgetting_is_the_discounted_sum_also_past_the_inflation_limit() {
        let mut standings = Standings::default();
        let (mut n, mut sum) = (0.0, 0.0);
        for round in 0..500 {
            let score = f64::from(round % 3) / 2.0;
            standings.forget(0.9);
            standings.add(&Domain::unknown(), action("a"), score, 0.5);
            (n, sum) = (0.9 * n + 0.5, 0.9 * sum + 0.5 * score);
        }
        let cell = standings.cell(&Domain::unknown(), &action("a"));
        assert!((cell.n - n).abs() < 1e-9 && (cell.sum - sum).abs() < 1e-9, "{cell:?}");
    }

    #[test]
    fn a_state_comes_back_bit_for_bit_and_a_damaged_row_costs_its_arm_alone() {
        let mut standings = Standings::default();
        for round in 0..50_u32 {
            standings.forget(0.99);
            let name = ["a", "b"][round as usize % 2];
            standings.add(&Domain::unknown(), action(name), f64::from(round % 7) / 7.0, 1.0);
        }
        let mut state: Value = serde_json::from_str(&standings.state().to_string()).unwrap();
        let (again, poisoned) = Standings::from_state(&state).unwrap();
        assert!(poisoned.is_empty());
        assert_eq!(again.state(), standings.state());
        for bad in [Value::Null, (-3.0).into(), 1e300.into()] {
            state["domains"][0][1][0]["numbers"][1] = bad;
            let (again, poisoned) = Standings::from_state(&state).unwrap();
            assert_eq!(poisoned, [action("a")]);
            assert_eq!((again.total(&action("a")).n, again.cell(&Domain::unknown(), &action("a")).n), (0.0, 0.0));
            assert_eq!(again.total(&action("b")), standings.total(&action("b")));
        }
        assert!(Standings::from_state(&Value::Bool(true)).is_err());
    }
}
