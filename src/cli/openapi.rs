//! `pointsman openapi`: the description of the HTTP surface, as `/openapi.json` serves it.

use super::ask::show;
use crate::api;

/// Prints the document.
pub(super) fn run() -> anyhow::Result<()> {
    show(true, &api::description(), |_| String::new())
}
