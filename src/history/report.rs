//! A part of time, as the page's charts and `GET /v1/history` show it.

use serde::Serialize;

use super::Sums;
use crate::round::{ArmId, Mode};

/// Points of a part of time, oldest first; a time without rounds has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = History)]
pub struct HistoryReport {
    /// How long a point is, in milliseconds.
    pub width_ms: i64,
    /// From when on it was asked for, in milliseconds since 1970; null for the beginning.
    pub from_ms: Option<i64>,
    /// Until when; null for the end.
    pub to_ms: Option<i64>,
    /// The arms that the points' numbers are of, in their order.
    pub arms: Vec<ArmId>,
    /// The same for modes.
    pub modes: Vec<Mode>,
    /// All before the first point.
    pub before: Point,
    /// The points.
    pub points: Vec<Point>,
}

/// Sums over the rounds of a part of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = HistoryPoint)]
pub struct Point {
    /// When it begins, in milliseconds since 1970.
    pub at_ms: i64,
    /// Verified rounds.
    pub rounds: u64,
    /// Those whose worker gave no answer.
    pub failures: u64,
    /// Their scores.
    pub score: f64,
    /// Their rewards.
    pub reward: f64,
    /// Their dollars.
    pub cost_usd: f64,
    /// What regret grew by, of the kind that the headline is of.
    pub regret: f64,
    /// Tasks that were run on every arm.
    pub probes: u64,
    /// Rounds by arm.
    pub arms: Vec<u64>,
    /// Rounds of arms that are not told apart.
    pub others: u64,
    /// Rounds by mode.
    pub modes: Vec<u64>,
}

impl Point {
    pub(super) fn of(at_ms: i64, sums: &Sums, exact: bool) -> Self {
        let Sums { rounds, failures, score, reward, cost_usd, probes, .. } = *sums;
        let regret = sums.regret(exact);
        Self {
            at_ms,
            rounds,
            failures,
            score,
            reward,
            cost_usd,
            regret,
            probes,
            arms: vec![],
            others: 0,
            modes: vec![],
        }
    }
}
