//! Rounds by time: rings of buckets, each ring's wider and reaching further back than those of the one before.
//!
//! | Width | Buckets | Reaches back at least |
//! |---|---|---|
//! | 1 s | 300 | 5 minutes |
//! | 15 s | 240 | 1 hour |
//! | 5 min | 288 | 1 day |
//! | 3 h | 248 | 31 days |
//! | 1 day | 400 | 400 days |
//!
//! Only buckets with rounds take a place, so a ring reaches further back where little happened. Every round is in each ring,
//! and a view reads one of them: the finest that reaches back as far as is asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::{
    Lived,
    report::{HistoryReport, Point},
};
use crate::round::{ArmId, Mode};

/// A ring's bucket width in milliseconds, and how many buckets it has.
const RINGS: [(i64, usize); 5] = [(1_000, 300), (15_000, 240), (300_000, 288), (10_800_000, 248), (86_400_000, 400)];
/// Arms that a bucket tells apart.
const ARMS_MAX: usize = 64;
/// Rounds of a block of the recent ones, and how many blocks there are.
const RECENT: (u64, usize) = (50, 20);

/// Sums over rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Sums {
    /// Rounds.
    pub rounds: u64,
    /// Those without an answer.
    pub failures: u64,
    /// Scores.
    pub score: f64,
    /// Rewards.
    pub reward: f64,
    /// Dollars.
    pub cost_usd: f64,
    /// Regret, where it is exact.
    pub exact_regret: f64,
    /// Regret as it was estimated.
    pub estimated_regret: f64,
    /// Tasks run on every arm.
    pub probes: u64,
    /// Rounds in which there was a choice.
    pub choices: u64,
    /// Rounds of these in which another arm than the favourite was to be expected.
    pub exploring: f64,
}

/// A part of time, as it is asked for, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// From when on; from the beginning where absent.
    pub from_ms: Option<i64>,
    /// Until when; until the end where absent.
    pub to_ms: Option<i64>,
}

/// Rounds by time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Timeline {
    totals: Sums,
    rings: Vec<Ring>,
    /// The last rounds, in blocks; the newest is still growing.
    recent: VecDeque<Sums>,
    /// Rounds by mode.
    modes: Vec<(Mode, u64)>,
    /// The numbers of arms in buckets.
    arms: BTreeMap<ArmId, u32>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Ring {
    buckets: VecDeque<Bucket>,
    /// Whether there were older ones.
    cut: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Bucket {
    /// Its place in time: the bucket's start over the ring's width.
    at: i64,
    sums: Sums,
    /// Rounds by arm, as numbered.
    arms: Vec<(u32, u64)>,
    /// Rounds of further arms.
    others: u64,
    modes: Vec<(Mode, u64)>,
}

type Row = (u64, u64, f64, f64, f64, f64, f64, u64, u64, f64);

impl From<Row> for Sums {
    fn from(
        (rounds, failures, score, reward, cost_usd, exact_regret, estimated_regret, probes, choices, exploring): Row,
    ) -> Self {
        Self { rounds, failures, score, reward, cost_usd, exact_regret, estimated_regret, probes, choices, exploring }
    }
}

impl From<Sums> for Row {
    fn from(sums: Sums) -> Self {
        let Sums {
            rounds,
            failures,
            score,
            reward,
            cost_usd,
            exact_regret,
            estimated_regret,
            probes,
            choices,
            exploring,
        } = sums;
        (rounds, failures, score, reward, cost_usd, exact_regret, estimated_regret, probes, choices, exploring)
    }
}

impl Sums {
    fn add(&mut self, lived: &Lived<'_>) {
        self.rounds += 1;
        self.failures += u64::from(lived.failed);
        self.score += lived.score;
        self.reward += lived.reward;
        self.cost_usd += lived.cost_usd;
        self.exact_regret += lived.exact_regret;
        self.estimated_regret += lived.estimated_regret;
        self.choices += u64::from(lived.exploring.is_some());
        self.exploring += lived.exploring.unwrap_or_default();
    }

    /// All of both, or what one has more than another; counts below 0 are 0.
    fn with(self, other: Self, sign: f64) -> Self {
        let count = |a: u64, b: u64| if sign < 0.0 { a.saturating_sub(b) } else { a.saturating_add(b) };
        Self {
            rounds: count(self.rounds, other.rounds),
            failures: count(self.failures, other.failures),
            score: self.score + sign * other.score,
            reward: self.reward + sign * other.reward,
            cost_usd: self.cost_usd + sign * other.cost_usd,
            exact_regret: self.exact_regret + sign * other.exact_regret,
            estimated_regret: self.estimated_regret + sign * other.estimated_regret,
            probes: count(self.probes, other.probes),
            choices: count(self.choices, other.choices),
            exploring: self.exploring + sign * other.exploring,
        }
    }

    fn over<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        parts.fold(Self::default(), |sums, part| sums.with(*part, 1.0))
    }

    /// Regret of a kind.
    pub fn regret(&self, exact: bool) -> f64 {
        if exact { self.exact_regret } else { self.estimated_regret }
    }

    /// What a sum of these rounds is a round; nothing without rounds.
    pub fn mean(&self, of: f64) -> Option<f64> {
        (self.rounds > 0).then(|| of / self.rounds as f64)
    }
}

impl Default for Timeline {
    fn default() -> Self {
        let rings = RINGS.map(|_| Ring::default());
        Self {
            totals: Sums::default(),
            rings: rings.into(),
            recent: VecDeque::new(),
            modes: vec![],
            arms: BTreeMap::new(),
        }
    }
}

impl Timeline {
    pub(super) fn add(&mut self, lived: &Lived<'_>) {
        self.totals.add(lived);
        count(&mut self.modes, lived.mode);
        if self.recent.back().is_none_or(|block| block.rounds == RECENT.0) {
            if self.recent.len() == RECENT.1 {
                self.recent.pop_front();
            }
            self.recent.push_back(Sums::default());
        }
        if let Some(block) = self.recent.back_mut() {
            block.add(lived);
        }
        let arm = self.number(lived.arm);
        for (ring, (width, cap)) in self.rings.iter_mut().zip(RINGS) {
            if let Some(bucket) = ring.bucket(lived.at_ms.div_euclid(width), cap) {
                bucket.add(lived, arm);
            }
        }
    }

    pub(super) fn probe(&mut self, at_ms: i64) {
        self.totals.probes += 1;
        for (ring, (width, cap)) in self.rings.iter_mut().zip(RINGS) {
            if let Some(bucket) = ring.bucket(at_ms.div_euclid(width), cap) {
                bucket.sums.probes += 1;
            }
        }
    }

    fn number(&mut self, arm: &ArmId) -> u32 {
        if let Some(number) = self.arms.get(arm) {
            return *number;
        }
        let number = u32::try_from(self.arms.len()).unwrap_or(u32::MAX);
        self.arms.insert(arm.clone(), number);
        number
    }

    /// Sums over all rounds.
    pub fn totals(&self) -> Sums {
        self.totals
    }

    /// All rounds by mode.
    pub fn modes(&self) -> impl Iterator<Item = (Mode, u64)> {
        self.modes.iter().copied()
    }

    /// Sums over the last rounds: 1,000, and up to 50 fewer.
    pub fn recent(&self) -> Sums {
        Sums::over(self.recent.iter())
    }

    /// The points of a part of time; `exact` says which regret is meant.
    pub fn report(&self, range: Range, exact: bool) -> HistoryReport {
        let from_ms = range.from_ms.unwrap_or(i64::MIN);
        let reaches = |(ring, (width, _)): &(&Ring, (i64, usize))| {
            !ring.cut || ring.buckets.front().is_some_and(|first| first.at <= from_ms.div_euclid(*width))
        };
        let rings = || self.rings.iter().zip(RINGS);
        let Some((ring, (width, _))) = rings().find(reaches).or_else(|| rings().next_back()) else {
            return HistoryReport::default();
        };
        let (first, last) = (from_ms.div_euclid(width), range.to_ms.unwrap_or(i64::MAX).div_euclid(width));
        let since = Sums::over(ring.buckets.iter().filter(|bucket| bucket.at >= first).map(|bucket| &bucket.sums));
        let shown: Vec<_> = ring.buckets.iter().filter(|bucket| (first..=last).contains(&bucket.at)).collect();
        // An arm that no point shows takes no column.
        let busy: BTreeSet<u32> = shown.iter().flat_map(|bucket| bucket.arms.iter().map(|(arm, _)| *arm)).collect();
        let (names, arms): (Vec<_>, Vec<_>) = self
            .arms
            .iter()
            .filter(|(_, number)| busy.contains(number))
            .map(|(name, number)| (name.clone(), *number))
            .unzip();
        let mut modes: Vec<Mode> = shown.iter().flat_map(|bucket| bucket.modes.iter().map(|(mode, _)| *mode)).collect();
        modes.sort_unstable();
        modes.dedup();
        let before = self.totals.with(since, -1.0);
        // What is left of sums of nothing is rounding.
        let before = if before.rounds == 0 { Sums { probes: before.probes, ..Sums::default() } } else { before };
        HistoryReport {
            width_ms: width,
            from_ms: range.from_ms,
            to_ms: range.to_ms,
            before: Point::of(0, &before, exact),
            points: shown.iter().map(|bucket| bucket.point(width, exact, &arms, &modes)).collect(),
            arms: names,
            modes,
        }
    }
}

fn count(modes: &mut Vec<(Mode, u64)>, mode: Mode) {
    match modes.iter_mut().find(|(known, _)| *known == mode) {
        Some((_, rounds)) => *rounds += 1,
        None => modes.push((mode, 1)),
    }
}

impl Ring {
    /// The bucket of a place in time; none where that is before all that are kept.
    fn bucket(&mut self, at: i64, cap: usize) -> Option<&mut Bucket> {
        let place = match self.buckets.back() {
            Some(last) if last.at <= at => self.buckets.len() - usize::from(last.at == at),
            _ => self.buckets.partition_point(|bucket| bucket.at < at),
        };
        if self.buckets.get(place).is_none_or(|bucket| bucket.at != at) {
            if self.buckets.len() == cap && place == 0 {
                self.cut = true;
                return None;
            }
            self.buckets.insert(place, Bucket { at, ..Bucket::default() });
        }
        let mut place = place;
        if self.buckets.len() > cap {
            self.cut = true;
            self.buckets.pop_front();
            place -= 1;
        }
        self.buckets.get_mut(place)
    }
}

impl Bucket {
    fn add(&mut self, lived: &Lived<'_>, arm: u32) {
        self.sums.add(lived);
        let full = self.arms.len() == ARMS_MAX;
        match self.arms.iter_mut().find(|(known, _)| *known == arm) {
            Some((_, rounds)) => *rounds += 1,
            None if full => self.others += 1,
            None => self.arms.push((arm, 1)),
        }
        count(&mut self.modes, lived.mode);
    }

    fn point(&self, width: i64, exact: bool, arms: &[u32], modes: &[Mode]) -> Point {
        let rounds = |of: &u32| self.arms.iter().find(|(arm, _)| arm == of).map_or(0, |(_, rounds)| *rounds);
        let by_mode = |of: &Mode| self.modes.iter().find(|(mode, _)| mode == of).map_or(0, |(_, rounds)| *rounds);
        Point {
            arms: arms.iter().map(rounds).collect(),
            others: self.others,
            modes: modes.iter().map(by_mode).collect(),
            ..Point::of(self.at.saturating_mul(width), &self.sums, exact)
        }
    }
}
