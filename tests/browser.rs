//! The pages in a real browser: `tests/browser/run.mjs` drives one in front of daemons of its own.

use std::process::Command;

use crate::served::{output, pointsman};

/// `POINTSMAN_BROWSER` names the folder in which `npm install` put what `tests/browser/package.json` names.
#[test]
fn the_pages_do_in_a_browser_what_they_are_for() {
    let Some(packages) = std::env::var_os("POINTSMAN_BROWSER") else {
        println!("skipped: POINTSMAN_BROWSER names no folder with the packages of tests/browser/package.json");
        return;
    };
    let program = pointsman();
    let mut node = Command::new("node");
    node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/run.mjs"))
        .env("POINTSMAN_BROWSER", packages)
        .env("POINTSMAN_PROGRAM", program.get_program())
        .env_remove("POINTSMAN_PAGES");
    let (status, stdout, stderr) = output(&mut node);
    assert!(status.success(), "{stdout}{stderr}");
    println!("{stdout}");
}
