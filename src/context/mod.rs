//! Observe: from a task to what a policy may look at. What of a chat counts ([`chat`]) and its vector ([`embedding`]);
//! recall is asked of [`crate::memory`].

pub mod chat;
pub mod embedding;
