//! Which waiting texts go through the model together, and when it pays to wait for more.
//!
//! Measured for all-MiniLM-L6-v2 in fp32 on one thread (docs/embedding-model.md has the table): a batch of texts of
//! equal token length gives each the bits that it gets alone, since each row of a matrix product is computed by itself;
//! it takes 0.3 to 0.6 of the time per text at 8 to 16 tokens, 0.85 at 64, and gains nothing from 128 on. Texts of
//! unequal length would have to be padded, which costs as much as it gains. So a batch holds texts of one length, and
//! at most [`BATCH_TOKENS_MAX`] tokens, which take no longer than one long text. The oldest text always goes next, so
//! that none starves.
//!
//! What can go wrong: a processor on which a batch does change the bits; the pool tries at the start and then embeds
//! one by one.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::EmbeddingError;
use crate::round::Embedding;

/// Tokens of one batch; beyond, a text gains nothing more and the batch's first one waits for the others.
const BATCH_TOKENS_MAX: usize = 192;
/// Longer texts have too many tokens to be batched, so that nobody needs to count them.
pub(super) const BATCH_BYTES_MAX: usize = 768;

/// A text that waits, and who waits for it.
pub(super) struct Job {
    pub text: String,
    /// Tokens of it, special ones included; none if it goes alone.
    pub tokens: Option<usize>,
    pub reply: oneshot::Sender<Result<Embedding, EmbeddingError>>,
}

/// The texts that wait, oldest first, and how many are at work.
pub(super) struct Queue {
    waiting: VecDeque<Job>,
    running: usize,
    sessions: usize,
    batch_max: usize,
}

impl Queue {
    pub fn new(sessions: usize, batch_max: usize) -> Self {
        Self { waiting: VecDeque::new(), running: 0, sessions, batch_max }
    }

    pub fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// Puts a batch that failed as a whole back to the front, each text for itself.
    pub fn retry_alone(&mut self, batch: Vec<Job>) {
        self.running -= batch.len();
        for job in batch.into_iter().rev() {
            self.waiting.push_front(Job { tokens: None, ..job });
        }
    }

    /// The oldest text that somebody still waits for, and those that may go with it.
    pub fn take(&mut self) -> Option<Vec<Job>> {
        loop {
            let oldest = self.waiting.pop_front()?;
            if !oldest.reply.is_closed() {
                let mut batch = vec![oldest];
                self.running += 1;
                self.fill(&mut batch);
                return Some(batch);
            }
        }
    }

    /// Adds to a batch what now waits and fits.
    pub fn fill(&mut self, batch: &mut Vec<Job>) {
        let tokens = batch[0].tokens;
        let mut at = 0;
        while self.room(batch) > 0 && at < self.waiting.len() {
            if self.waiting[at].tokens != tokens {
                at += 1;
            } else if let Some(job) = self.waiting.remove(at).filter(|job| !job.reply.is_closed()) {
                batch.push(job);
                self.running += 1;
            }
        }
    }

    /// A batch of this length has left the model.
    pub fn finished(&mut self, texts: usize) {
        self.running -= texts;
    }

    /// Whether more texts that fit may come soon: there is room, nothing else waits, and more texts are at work than
    /// there are sessions, so that callers come in numbers. Otherwise waiting would only add to the time.
    pub fn worth_waiting(&self, batch: &[Job]) -> bool {
        self.room(batch) > 0 && self.waiting.is_empty() && self.running > self.sessions
    }

    /// How many texts wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many more texts fit.
    fn room(&self, batch: &[Job]) -> usize {
        let most = batch[0].tokens.map_or(1, |tokens| self.batch_max.min(BATCH_TOKENS_MAX / tokens.max(1)));
        most.saturating_sub(batch.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Reply = oneshot::Receiver<Result<Embedding, EmbeddingError>>;

    /// A queue of texts of the given lengths; 0 stands for one that goes alone.
    fn queue(sessions: usize, batch_max: usize, lengths: &[usize]) -> (Queue, Vec<Reply>) {
        let mut queue = Queue::new(sessions, batch_max);
        let push = |(place, &tokens): (usize, &usize)| {
            let (reply, receiver) = oneshot::channel();
            queue.push(Job { text: place.to_string(), tokens: Some(tokens).filter(|&n| n > 0), reply });
            receiver
        };
        let receivers = lengths.iter().enumerate().map(push).collect();
        (queue, receivers)
    }

    fn texts(batch: Option<Vec<Job>>) -> Vec<String> {
        batch.unwrap_or_default().into_iter().map(|job| job.text).collect()
    }

    #[test]
    fn the_oldest_goes_first_with_those_of_its_length() {
        let (mut queue, _replies) = queue(1, 16, &[7, 9, 7, 0, 9, 7, 0]);
        assert_eq!(texts(queue.take()), ["0", "2", "5"]);
        assert_eq!(texts(queue.take()), ["1", "4"]);
        assert_eq!(texts(queue.take()), ["3"]);
        assert_eq!(texts(queue.take()), ["6"]);
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_batch_is_bounded_by_texts_and_by_tokens() {
        for (tokens, batch_max, wanted) in [(4, 16, 16), (20, 16, 9), (64, 16, 3), (96, 16, 2), (97, 16, 1), (4, 1, 1)]
        {
            let (mut queue, _replies) = queue(1, batch_max, &[tokens; 20]);
            assert_eq!(queue.take().unwrap().len(), wanted, "{tokens} tokens");
        }
    }

    #[test]
    fn texts_that_nobody_waits_for_are_dropped() {
        let (mut queue, mut replies) = queue(1, 16, &[7, 7, 7]);
        replies.remove(0);
        replies.remove(1);
        assert_eq!(texts(queue.take()), ["1"]);
        assert!(queue.take().is_none());
    }

    #[test]
    fn waiting_is_worth_it_only_when_nothing_waits_and_callers_come_in_numbers() {
        let (mut few, _replies) = queue(2, 16, &[7, 9]);
        let batch = few.take().unwrap();
        assert!(!few.worth_waiting(&batch), "another text waits");
        let other = few.take().unwrap();
        assert!(!few.worth_waiting(&batch) && !few.worth_waiting(&other), "one each");
        let (mut many, _replies) = queue(2, 16, &[7, 7, 9]);
        let (pair, single) = (many.take().unwrap(), many.take().unwrap());
        assert!(many.worth_waiting(&pair) && many.worth_waiting(&single));
        many.finished(2);
        assert!(!many.worth_waiting(&single));
        let (mut long, _replies) = queue(1, 16, &[0, 7, 7]);
        let (long_text, _pair) = (long.take().unwrap(), long.take().unwrap());
        assert!(!long.worth_waiting(&long_text), "it goes alone");
    }

    #[test]
    fn a_failed_batch_comes_back_first_and_one_by_one() {
        let (mut queue, _replies) = queue(1, 16, &[7, 7, 7, 9]);
        let batch = queue.take().unwrap();
        queue.retry_alone(batch);
        for wanted in ["0", "1", "2", "3"] {
            assert_eq!(texts(queue.take()), [wanted]);
        }
    }
}
