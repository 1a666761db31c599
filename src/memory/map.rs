//! A map of what memory holds: its newest entries in two dimensions, for people to look at.
//!
//! Principal components: the two directions in which the embeddings vary most. What is near on the map need not be alike, since
//! two of hundreds of dimensions hold a small part of the variance, which is told; what is alike is near.

use std::collections::BTreeMap;

use linfa::{DatasetBase, traits::Fit};
use linfa_reduction::Pca;
use ndarray_of_linfa::{Array2, Axis};
use serde::Serialize;

use super::{Entry, Held, Memory, MemoryError};
use crate::round::{ArmId, Domain, TaskId};

/// Entries read at a time; the map's are such stretches, evenly spread over the ring.
const STRETCH: u64 = 50;

/// The map.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = MemoryMap)]
pub struct Map {
    /// When it was drawn, in milliseconds since 1970.
    pub computed_at_ms: i64,
    /// The entries that memory held.
    pub entries: u64,
    /// The part of the variance that lies along each axis.
    pub explained: Vec<f64>,
    /// The domains that points are of.
    pub domains: Vec<Domain>,
    /// The arms that did best on points.
    pub arms: Vec<ArmId>,
    /// The points, oldest first.
    pub points: Points,
}

/// Points, column by column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = MemoryMapPoints)]
pub struct Points {
    /// The entry's number.
    pub seq: Vec<u64>,
    /// Along the direction in which embeddings vary most.
    pub x: Vec<f32>,
    /// Along the next one.
    pub y: Vec<f32>,
    /// The place of its domain in `domains`.
    pub domain: Vec<u32>,
    /// The place in `arms` of the arm with the best score on it; null where none was tried.
    pub arm: Vec<Option<u32>>,
    /// That score.
    pub score: Vec<Option<f32>>,
    /// When its outcome was journaled, in milliseconds since 1970.
    pub at_ms: Vec<i64>,
    /// The task.
    pub task: Vec<TaskId>,
}

/// Draws a map of at most `points` entries.
pub fn draw(memory: &dyn Memory, points: u64, now_ms: i64) -> Result<Map, MemoryError> {
    let Held { next_seq, count, .. } = memory.held()?;
    let entries = spread(memory, next_seq.saturating_sub(count), count, points)?;
    let mut map = Map { computed_at_ms: now_ms, entries: count, ..Map::default() };
    let mut places = (BTreeMap::new(), BTreeMap::new());
    for (seq, entry) in &entries {
        let best = entry.outcomes.iter().max_by(|a, b| a.score.total_cmp(&b.score));
        let domain = place(&mut places.0, &mut map.domains, &entry.domain);
        let Points { seq: seqs, domain: domains, arm, score, at_ms, task, .. } = &mut map.points;
        seqs.push(*seq);
        domains.push(domain);
        arm.push(best.map(|best| place(&mut places.1, &mut map.arms, &best.arm)));
        #[expect(clippy::cast_possible_truncation, reason = "a score for the eye")]
        score.push(best.map(|best| best.score as f32));
        at_ms.push(entry.at_ms);
        task.push(entry.task_id.clone());
    }
    (map.points.x, map.points.y, map.explained) = project(&entries);
    Ok(map)
}

/// Entries in stretches that are evenly spread over the ring; all where they are few.
fn spread(memory: &dyn Memory, first: u64, count: u64, points: u64) -> Result<Vec<(u64, Entry)>, MemoryError> {
    let stretches = points.min(count).div_ceil(STRETCH);
    let mut entries: Vec<(u64, Entry)> = vec![];
    for stretch in 0..stretches {
        let from = first + if count <= points { stretch * STRETCH } else { count * stretch / stretches };
        let read = memory.scan(from, STRETCH as usize)?;
        let last = entries.last().map(|(seq, _)| *seq);
        entries.extend(read.into_iter().filter(|(seq, _)| last.is_none_or(|last| *seq > last)));
    }
    entries.truncate(points as usize);
    Ok(entries)
}

fn place<T: Ord + Clone>(places: &mut BTreeMap<T, u32>, names: &mut Vec<T>, name: &T) -> u32 {
    if let Some(place) = places.get(name) {
        return *place;
    }
    let place = u32::try_from(names.len()).unwrap_or(u32::MAX);
    places.insert(name.clone(), place);
    names.push(name.clone());
    place
}

/// Where entries are along the first two principal components, and the part of the variance along each. Fewer than three entries, or
/// ones that are all alike, lie at one place.
fn project(entries: &[(u64, Entry)]) -> (Vec<f32>, Vec<f32>, Vec<f64>) {
    let nowhere = || (vec![0.0; entries.len()], vec![0.0; entries.len()], vec![0.0; 2]);
    let columns = entries.first().map_or(0, |(_, entry)| entry.embedding.as_slice().len());
    let cells: Vec<f64> =
        entries.iter().flat_map(|(_, entry)| entry.embedding.as_slice()).map(|number| f64::from(*number)).collect();
    let Ok(records) = Array2::from_shape_vec((entries.len(), columns), cells) else { return nowhere() };
    let Some(mean) = records.mean_axis(Axis(0)) else { return nowhere() };
    let centred = &records - &mean;
    let total = centred.iter().map(|number| number * number).sum::<f64>();
    if entries.len() < 3 || columns < 3 || total < 1e-12 {
        return nowhere();
    }
    let Ok(fitted) = Pca::params(2).fit(&DatasetBase::from(records)) else { return nowhere() };
    let components = fitted.components();
    let axis = |row: usize| {
        let component = components.row(row);
        // A component has no sign; its largest part is made positive, so that the next map is not mirrored.
        let largest = component.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(1.0);
        let along = centred.dot(&component) * largest.signum();
        let explained = along.iter().map(|number| number * number).sum::<f64>() / total;
        #[expect(clippy::cast_possible_truncation, reason = "a place for the eye")]
        let along: Vec<f32> = along.iter().map(|number| *number as f32).collect();
        (along, explained)
    };
    if components.nrows() < 2 {
        return nowhere();
    }
    let ((x, along_x), (y, along_y)) = (axis(0), axis(1));
    (x, y, vec![along_x, along_y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        memory::ScanMemory,
        round::{Embedding, Mode, TriedArm},
    };

    fn memory(entries: &[(f32, f32, f32)]) -> ScanMemory {
        let memory = ScanMemory::new(1_000);
        let stored: Vec<_> = entries
            .iter()
            .enumerate()
            .map(|(n, (x, y, z))| {
                let length = (1.0 + x * x + y * y + z * z).sqrt();
                let embedding = [1.0, *x, *y, *z].map(|number| number / length);
                Entry {
                    task_id: TaskId::new(format!("t{n}")).unwrap(),
                    domain: Domain::new(if *x > 0.0 { "right" } else { "left" }).unwrap(),
                    at_ms: n as i64,
                    embedding: Embedding::new(embedding.to_vec()).unwrap(),
                    outcomes: [("a", 0.2), ("b", 0.9)]
                        .map(|(arm, score)| TriedArm {
                            mode: Mode::Single,
                            arm: ArmId::new(arm).unwrap(),
                            score,
                            cost_usd: 0.0,
                            trace: String::new(),
                        })
                        .into(),
                }
            })
            .collect();
        memory.put(0, &stored).unwrap();
        memory
    }

    #[test]
    fn groups_lie_apart_along_the_first_axis_and_the_map_is_the_same_again() {
        let side = |n: usize| if n.is_multiple_of(2) { 1.0 } else { -1.0 };
        let memory = memory(&std::array::from_fn::<_, 400, _>(|n| {
            (side(n), 0.1 * ((n * 7) % 11) as f32 / 11.0, 0.05 * ((n * 3) % 5) as f32 / 5.0)
        }));
        let map = draw(&memory, 2_000, 5).unwrap();
        assert_eq!((map.entries, map.points.seq.len(), map.computed_at_ms), (400, 400, 5));
        assert_eq!(map.arms, [ArmId::new("b").unwrap()], "the best arm of each");
        let right = map.domains.iter().position(|domain| domain.as_str() == "right").unwrap() as u32;
        let of = |wanted: bool| {
            let x = map.points.x.iter().zip(&map.points.domain).filter(|(_, domain)| (**domain == right) == wanted);
            x.map(|(x, _)| *x).collect::<Vec<_>>()
        };
        let apart = of(true).into_iter().fold(f32::MAX, f32::min) - of(false).into_iter().fold(f32::MIN, f32::max);
        assert!(apart.abs() > 1.0, "{apart}");
        assert!(map.explained[0] > 0.95 && map.explained[1] < 0.05, "{:?}", map.explained);
        assert_eq!(draw(&memory, 2_000, 5).unwrap(), map);
    }

    #[test]
    fn a_full_ring_is_sampled_evenly_and_few_entries_do_no_harm() {
        let many = memory(&std::array::from_fn::<_, 1_000, _>(|n| (n as f32 / 500.0 - 1.0, (n % 10) as f32, 0.3)));
        let map = draw(&many, 200, 0).unwrap();
        assert_eq!((map.entries, map.points.seq.len()), (1_000, 200));
        assert!(
            map.points.seq.is_sorted() && map.points.seq[0] == 0 && map.points.seq[199] >= 750,
            "{:?}",
            map.points.seq
        );
        for few in 0..4 {
            let map = draw(&memory(&vec![(1.0, 0.0, 0.0); few]), 200, 0).unwrap();
            assert_eq!((map.points.x.len(), map.points.y.len()), (few, few));
            assert!(map.points.x.iter().chain(&map.points.y).all(|number| number.is_finite()));
        }
    }
}
