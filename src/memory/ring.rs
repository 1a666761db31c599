//! The embedded ring's vectors in RAM, as one matrix, with what a hit tells: recall reads neither disk nor JSON.
//!
//! What bounds a scan is reading the matrix, so a pass reads it in 16 bits a number, and queries that wait together share the pass.
//! Its scores only choose: whatever could be among the best is scored again by [`Embedding::cosine`], so an answer is the
//! same bits whoever asks at the same time.
//!
//! Why nothing is missed: with numbers rounded to multiples of 1/S a vector of n numbers is off by at most r = sqrt(n) / 2S,
//! so the product of two of unit length is off by at most 2r + r^2, by Cauchy's and Schwarz's inequality, and so small that its sum
//! fits 32 bits, in any order of adding. A cosine, a sum of n products, is off by at most n u / (1 - n u) with u = 2^-24 (Higham,
//! Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). Both together are at most [`off_by_max`]. Where k rows have a
//! score of `s` or more in the pass, their cosine is at least `s - off_by_max`, so a row below `s - 2 off_by_max` cannot be
//! one of the k.

use multiversion::multiversion;

use super::{Entry, MemoryError};
use crate::round::{Domain, Embedding, Neighbour, TaskId, TriedArm};

/// Rows that stay in the processor's cache while all queries are scored against them.
const BLOCK: usize = 64;
/// What 1 is in the pass: the largest number of 16 bits.
const ONE: f32 = 32_767.0;

/// A ring of vectors; slot `seq % cap` holds entry `seq`.
pub(super) struct Ring {
    cap: u64,
    dimension: usize,
    vectors: Vec<f32>,
    /// The same as the pass reads it.
    rounded: Vec<i16>,
    rows: Vec<Option<Row>>,
}

/// What stands beside a vector.
struct Row {
    seq: u64,
    task_id: TaskId,
    domain: Domain,
    outcomes: Vec<TriedArm>,
}

impl Ring {
    /// An empty ring of `cap` slots, at least one.
    pub fn new(cap: u64, dimension: usize) -> Self {
        Self { cap, dimension, vectors: vec![], rounded: vec![], rows: vec![] }
    }

    /// Takes an entry into its slot, unless that holds a newer one. Its embedding is of the ring's dimension.
    pub fn put(&mut self, seq: u64, entry: &Entry) -> Result<(), MemoryError> {
        let slot = usize::try_from(seq % self.cap).map_err(|error| MemoryError::Invalid(error.to_string()))?;
        if self.rows.len() <= slot {
            self.grow(slot + 1);
        }
        if self.rows[slot].as_ref().is_none_or(|held| held.seq <= seq) {
            let place = slot * self.dimension;
            let (vector, place) = (entry.embedding.as_slice(), place..place + self.dimension);
            self.vectors[place.clone()].copy_from_slice(vector);
            self.rounded[place].copy_from_slice(&rounded(vector));
            let Entry { task_id, domain, outcomes, .. } = entry.clone();
            self.rows[slot] = Some(Row { seq, task_id, domain, outcomes });
        }
        Ok(())
    }

    fn grow(&mut self, slots: usize) {
        if self.rows.capacity() < slots {
            // No room above the cap, as a vector that doubles by itself would take.
            let room = usize::try_from(self.cap).unwrap_or(usize::MAX).min(slots.saturating_mul(2)).max(slots);
            self.rows.reserve_exact(room - self.rows.len());
            self.vectors.reserve_exact(room * self.dimension - self.vectors.len());
            self.rounded.reserve_exact(room * self.dimension - self.rounded.len());
        }
        self.rows.resize_with(slots, || None);
        self.vectors.resize(slots * self.dimension, 0.0);
        self.rounded.resize(slots * self.dimension, 0);
    }

    /// The answers to some queries, each of the ring's dimension, in their order.
    pub fn query(&self, embeddings: &[Embedding], k: usize, min_similarity: f32) -> Vec<Vec<Neighbour>> {
        let off_by = off_by_max(self.dimension);
        let mut best: Vec<Best> = embeddings.iter().map(|_| Best::new(k, min_similarity, off_by)).collect();
        let asked: Vec<Vec<i16>> = embeddings.iter().map(|embedding| rounded(embedding.as_slice())).collect();
        let mut scores = [0; BLOCK];
        let blocks = self.rounded.chunks(BLOCK * self.dimension).zip(self.rows.chunks(BLOCK));
        for (first, (vectors, rows)) in (0..).step_by(BLOCK).zip(blocks) {
            for (asked, best) in asked.iter().zip(best.iter_mut()) {
                let scores = &mut scores[..rows.len()];
                products(vectors, asked, scores);
                for (slot, (score, row)) in (first..).zip(scores.iter().zip(rows)) {
                    best.offer(*score as f32 / (ONE * ONE), slot, row);
                }
            }
        }
        embeddings.iter().zip(best).map(|(embedding, best)| self.exactly(embedding, best, k, min_similarity)).collect()
    }

    /// The best of the chosen rows, by their cosine.
    fn exactly(&self, embedding: &Embedding, best: Best, k: usize, min_similarity: f32) -> Vec<Neighbour> {
        let similar = |slot: usize| {
            let row = self.rows[slot].as_ref()?;
            Some((embedding.cosine_with(self.vector(slot)), row))
                .filter(|(similarity, _)| *similarity >= min_similarity)
        };
        let mut found: Vec<(f32, &Row)> = best.found.into_iter().filter_map(|(_, slot)| similar(slot)).collect();
        let order = |a: &(f32, &Row), b: &(f32, &Row)| b.0.total_cmp(&a.0).then(b.1.seq.cmp(&a.1.seq));
        if found.len() > k && k > 0 {
            found.select_nth_unstable_by(k - 1, order);
        }
        found.truncate(k);
        found.sort_unstable_by(order);
        found.into_iter().map(|(similarity, row)| row.as_neighbour(similarity)).collect()
    }

    fn vector(&self, slot: usize) -> &[f32] {
        &self.vectors[slot * self.dimension..(slot + 1) * self.dimension]
    }
}

impl Row {
    fn as_neighbour(&self, similarity: f32) -> Neighbour {
        Neighbour {
            seq: self.seq,
            task_id: self.task_id.clone(),
            similarity,
            domain: Some(self.domain.clone()),
            outcomes: self.outcomes.clone(),
        }
    }
}

/// A vector as the pass reads it.
fn rounded(vector: &[f32]) -> Vec<i16> {
    vector.iter().map(|x| (x * ONE).round() as i16).collect()
}

/// How far a score of the pass and a cosine are apart at most. Lengths may be off by 1e-5 each, and a score is a number of 24 bits;
/// the parts added to both bounds are more than enough for that, and for cosines that would be above 1, where they end.
fn off_by_max(dimension: usize) -> f32 {
    1.1 * (dimension as f32).sqrt() / ONE + (dimension + 256) as f32 * f32::EPSILON
}

/// The rows that may be among the best `k` for one query.
struct Best {
    k: usize,
    off_by: f32,
    /// What is below cannot be.
    floor: f32,
    found: Vec<(f32, usize)>,
    /// How many are found before the floor is raised.
    full: usize,
}

impl Best {
    fn new(k: usize, min_similarity: f32, off_by: f32) -> Self {
        let floor = if k == 0 { f32::INFINITY } else { min_similarity - off_by };
        Self { k, off_by, floor, found: vec![], full: 4 * k }
    }

    fn offer(&mut self, score: f32, slot: usize, row: &Option<Row>) {
        if score >= self.floor && row.is_some() {
            self.found.push((score, slot));
            if self.found.len() >= self.full {
                self.raise();
            }
        }
    }

    fn raise(&mut self) {
        let (_, (kth, _), _) = self.found.select_nth_unstable_by(self.k - 1, |a, b| b.0.total_cmp(&a.0));
        self.floor = self.floor.max(*kth - 2.0 * self.off_by);
        let floor = self.floor;
        self.found.retain(|(score, _)| *score >= floor);
        // Many may be alike; they are not looked through again for each one more.
        self.full = (2 * self.found.len()).max(4 * self.k);
    }
}

/// The products of rows with one vector, by instructions as wide as the processor has.
#[multiversion(targets("x86_64+avx2"))]
fn products(rows: &[i16], theirs: &[i16], scores: &mut [i32]) {
    for (score, ours) in scores.iter_mut().zip(rows.chunks_exact(theirs.len())) {
        *score = ours.iter().zip(theirs).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{Filter, Memory, ScanMemory, entry_for_tests},
        *,
    };

    /// A vector of a family: members of one are alike but for their last bits.
    fn vector(family: u64, member: u8, dimension: usize) -> Embedding {
        let mut bytes = vec![0; dimension];
        blake3::Hasher::new().update(&family.to_le_bytes()).finalize_xof().fill(&mut bytes);
        let mut vector: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte) - 100.5).collect();
        vector[0] = f32::from_bits(vector[0].to_bits() + u32::from(member));
        Embedding::new(vector).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn answers_are_those_of_an_exact_scan_whoever_asks_at_the_same_time(
            dimension in 1_usize..70,
            cap in 1_u64..400,
            put in prop::collection::vec((0_u64..12, 0_u8..4, 0_u64..3), 0..500),
            asked in prop::collection::vec((0_u64..14, 0_u8..4), 1..20),
            k in 0_usize..20,
            min_similarity in -1.0_f32..1.0,
        ) {
            let (mut ring, scan) = (Ring::new(cap, dimension), ScanMemory::new(cap));
            let mut next = 0;
            for (family, member, left_out) in put {
                let seq = next + left_out;
                next = seq + 1;
                let entry = Entry { embedding: vector(family, member, dimension), ..entry_for_tests(seq) };
                ring.put(seq, &entry).unwrap();
                scan.put(seq, &[entry]).unwrap();
            }
            let asked: Vec<_> = asked.into_iter().map(|(family, member)| vector(family, member, dimension)).collect();
            let together = ring.query(&asked, k, min_similarity);
            prop_assert_eq!(together.len(), asked.len());
            for (embedding, answer) in asked.iter().zip(together) {
                let wanted = scan.query(embedding, k, min_similarity, &Filter::default()).unwrap();
                prop_assert_eq!(&answer, &wanted);
                let alone = ring.query(std::slice::from_ref(embedding), k, min_similarity);
                prop_assert_eq!(alone, vec![wanted]);
            }
        }
    }
}
