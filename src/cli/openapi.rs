//! `pointsman openapi`: the description of the HTTP surface, as `/openapi.json` serves it.

use pointsman::api;

use super::ask::show;

/// Prints the document.
pub(super) fn run() -> anyhow::Result<()> {
    show(true, &api::description(), |_| String::new())
}
