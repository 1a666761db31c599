//! What all replays of one stream share: the candidates of each task, and what is known before the first task comes.
//!
//! A warm start is full information: every model's outcome on every task of some other splits (a probing set), met in
//! their released order. Contexts, neighbours and standings of those tasks do not depend on the policy, so they are made once;
//! what a task of the stream will recall of them as well.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::{Dataset, DatasetTask, Learner, ReplayError, Scoring};
use crate::{
    action::policy::{Attempt, LearntRound, Standings, observe},
    memory::MIN_SIMILARITY,
    round::{Candidate, Context, Embedding, Mode, Neighbour, TriedArm},
};

/// Tasks whose neighbours one thread looks for at a time.
const CHUNK: usize = 64;

/// A stream of tasks, ready to be replayed by any policy.
pub struct Prepared<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) embeddings: &'a [Embedding],
    /// Of each task.
    candidates: Vec<Vec<Candidate>>,
    /// Neighbours that a task recalls.
    pub(super) recall: usize,
    warm: Option<Warm<'a>>,
    /// What the arms did on tasks that are known before.
    standings: Standings,
}

/// What is known before.
struct Warm<'a> {
    dataset: &'a Dataset,
    splits: Vec<String>,
    contexts: Vec<Context>,
    scoring: Scoring,
    /// For each task of the stream, the nearest of the known ones.
    nearest: Vec<Vec<Near>>,
}

/// A known task that is near, by place.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Near {
    place: usize,
    similarity: f32,
}

impl<'a> Prepared<'a> {
    /// A stream that starts from nothing. `embeddings` are those of the tasks' texts, in order; each task recalls at most
    /// `recall` neighbours.
    pub fn cold(dataset: &'a Dataset, embeddings: &'a [Embedding], recall: usize) -> Result<Self, ReplayError> {
        one_each(dataset, embeddings)?;
        let candidates = all_candidates(dataset);
        Ok(Self { dataset, embeddings, candidates, recall, warm: None, standings: Standings::default() })
    }

    /// A stream before which all outcomes on other tasks of the same models are known.
    pub fn warm(
        dataset: &'a Dataset,
        embeddings: &'a [Embedding],
        (known, known_embeddings): (&'a Dataset, &'a [Embedding]),
        scoring: Scoring,
        recall: usize,
    ) -> Result<Self, ReplayError> {
        one_each(dataset, embeddings)?;
        one_each(known, known_embeddings)?;
        if known.models != dataset.models {
            return Err(ReplayError::OtherModels);
        }
        let before = nearest(known_embeddings, known_embeddings, recall, |task| task);
        let mut standings = Standings::default();
        let mut contexts = Vec::with_capacity(known.tasks.len());
        for ((task, embedding), near) in known.tasks.iter().zip(known_embeddings).zip(&before) {
            let mut context = Context {
                text: task.text().into(),
                neighbours: near.iter().map(|near| neighbour(known, *near, scoring)).collect(),
                weights: scoring.weights,
                ..Context::new(embedding.clone(), task.domain.clone(), candidates(known, task))
            };
            observe(&mut context, &standings);
            for attempt in full_information(task, scoring) {
                standings.learn(&attempt.round(&context, &context.candidates[attempt.place]));
            }
            contexts.push(context);
        }
        let nearest = nearest(embeddings, known_embeddings, recall, |_| known.tasks.len());
        let mut splits: Vec<String> = known.tasks.iter().map(|task| task.split.clone()).collect();
        splits.dedup();
        let warm = Warm { dataset: known, splits, contexts, scoring, nearest };
        let candidates = all_candidates(dataset);
        Ok(Self { dataset, embeddings, candidates, recall, warm: Some(warm), standings })
    }

    /// How many tasks the stream has.
    pub fn tasks(&self) -> usize {
        self.dataset.tasks.len()
    }

    /// The splits whose outcomes are known before.
    pub fn warm_splits(&self) -> &[String] {
        self.warm.as_ref().map_or(&[], |warm| &warm.splits)
    }

    pub(super) fn standings(&self) -> &Standings {
        &self.standings
    }

    pub(super) fn candidates(&self, task: usize) -> &[Candidate] {
        &self.candidates[task]
    }

    /// Shows a learner everything that is known before.
    pub(super) fn teach(&self, learner: &mut Learner) {
        let Some(warm) = &self.warm else { return };
        for (context, task) in warm.contexts.iter().zip(&warm.dataset.tasks) {
            let attempts = full_information(task, warm.scoring);
            match learner {
                Learner::Single(policy) => {
                    for attempt in &attempts {
                        let round = attempt.round(context, &context.candidates[attempt.place]);
                        policy.learn(&LearntRound { probing: true, ..round });
                    }
                }
                Learner::Cascade(cascade) => cascade.learn(context, &attempts),
            }
        }
    }

    /// What a task recalls: the nearest of the stream's own past, which are given, and of what was known before.
    pub(super) fn neighbours(&self, task: usize, recent: Vec<Neighbour>) -> Vec<Neighbour> {
        let Some(warm) = &self.warm else { return recent };
        let after = warm.dataset.tasks.len() as u64;
        let recent = recent.into_iter().map(|near| Neighbour { seq: after + near.seq, ..near });
        let known = warm.nearest[task].iter().map(|near| neighbour(warm.dataset, *near, warm.scoring));
        let mut all: Vec<Neighbour> = recent.chain(known).collect();
        all.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(b.seq.cmp(&a.seq)));
        all.truncate(self.recall);
        all
    }
}

fn one_each(dataset: &Dataset, embeddings: &[Embedding]) -> Result<(), ReplayError> {
    if embeddings.len() == dataset.tasks.len() {
        return Ok(());
    }
    Err(ReplayError::Embeddings { embeddings: embeddings.len(), tasks: dataset.tasks.len() })
}

fn all_candidates(dataset: &Dataset) -> Vec<Vec<Candidate>> {
    dataset.tasks.iter().map(|task| candidates(dataset, task)).collect()
}

/// Every model, at the cost that a router would expect.
fn candidates(dataset: &Dataset, task: &DatasetTask) -> Vec<Candidate> {
    let candidate =
        |model: &super::Model| Candidate::new(Mode::Single, model.arm.clone(), model.expected_cost_usd(task.text()));
    dataset.models.iter().map(candidate).collect()
}

/// Every model's outcome as an attempt that was certain to be made.
fn full_information(task: &DatasetTask, scoring: Scoring) -> Vec<Attempt> {
    let attempt = |(place, result): (usize, &super::TaskResult)| {
        let worth = scoring.worth(result);
        Attempt { place, propensity: 1.0, seed: 0, voters: Vec::new(), score: worth.score, cost_usd: worth.cost_usd }
    };
    task.results.iter().enumerate().map(attempt).collect()
}

fn neighbour(known: &Dataset, near: Near, scoring: Scoring) -> Neighbour {
    let task = &known.tasks[near.place];
    let tried = |(model, result): (&super::Model, &super::TaskResult)| {
        let worth = scoring.worth(result);
        TriedArm {
            mode: Mode::Single,
            arm: model.arm.clone(),
            score: worth.score,
            cost_usd: worth.cost_usd,
            trace: String::new(),
        }
    };
    Neighbour {
        seq: near.place as u64,
        task_id: task.id.clone(),
        similarity: near.similarity,
        domain: Some(task.domain.clone()),
        outcomes: known.models.iter().zip(&task.results).map(tried).collect(),
    }
}

/// For each text the nearest of the known ones before `before(its place)`, nearest first, later ones first of those as near.
fn nearest(
    texts: &[Embedding],
    known: &[Embedding],
    recall: usize,
    before: impl Fn(usize) -> usize + Sync,
) -> Vec<Vec<Near>> {
    let next = AtomicUsize::new(0);
    // Guards the chunks that are done, with their first place.
    let done = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let first = CHUNK * next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = texts.get(first..texts.len().min(first + CHUNK)).filter(|chunk| !chunk.is_empty()) else {
                break;
            };
            let of = |(offset, text): (usize, &Embedding)| of_text(text, &known[..before(first + offset)], recall);
            let found: Vec<_> = chunk.iter().enumerate().map(of).collect();
            done.lock().unwrap_or_else(PoisonError::into_inner).push((first, found));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(first, _)| *first);
    done.into_iter().flat_map(|(_, found)| found).collect()
}

fn of_text(text: &Embedding, known: &[Embedding], recall: usize) -> Vec<Near> {
    let near = |(place, known)| Near { place, similarity: text.cosine(known) };
    let mut near: Vec<Near> =
        known.iter().enumerate().map(near).filter(|near| near.similarity >= MIN_SIMILARITY).collect();
    let order = |a: &Near, b: &Near| b.similarity.total_cmp(&a.similarity).then(b.place.cmp(&a.place));
    if near.len() > recall && recall > 0 {
        near.select_nth_unstable_by(recall - 1, order);
        near.truncate(recall);
    }
    near.sort_by(order);
    near
}
