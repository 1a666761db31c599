//! Observe: from a task to what a policy may look at. So far the embedding; recall is asked of [`crate::memory`].

pub mod embedding;
