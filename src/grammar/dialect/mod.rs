//! The text forms of trajectories, as language models write and read them.
//!
//! [`routeweaver`] has modes, calls with roles and references, and an answer; its turns are checked by [`Episode`](super::Episode) like
//! anybody's. [`router_r1`] has thoughts, searches one after the other, and an answer; it has a small state of its own. Both read a
//! turn or name the first thing wrong with it, and never guess: a tag is one only in its exact form.
//!
//! What can go wrong: a text that is not the model's, such as a question or what a worker wrote, holds a tag. [`escape`] takes
//! that from it before the model sees it, also where the tag only looks like one.

pub mod escape;
pub mod router_r1;
pub mod routeweaver;

mod tag;
