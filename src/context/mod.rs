//! Observe: from a task to what a policy may look at: what of a chat counts ([`chat`]), its vector ([`embedding`]), its
//! domain where nobody named one ([`domain`]); recall is asked of [`crate::memory`].

pub mod chat;
pub mod domain;
pub mod embedding;
