//! How long a start takes on a long journal.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use super::{
    rounds::Rounds,
    site::{Site, stop},
};

/// Starts of a kind; the median counts.
const TIMES: usize = 3;

/// Makes the journal so many rounds longer and starts a daemon on it.
pub fn measure(site: &Site, real: &Rounds, rounds: u64) -> Value {
    real.fill(&site.journal(), rounds);
    println!("\nstarts with {rounds} more rounds in the journal, default memory of 20,000 entries");
    println!("{:<56}{:>12}", "", "seconds");
    let mut all = serde_json::Map::new();
    let mut say = |what: &str, mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!("{what:<56}{median:>12.2}");
        all.insert(what.into(), json!(median));
    };
    let start = |prepare: &dyn Fn()| {
        prepare();
        let (daemon, took): (_, Duration) = site.start("");
        let log = daemon.log();
        stop(daemon);
        (took.as_secs_f64(), log)
    };
    let again = |prepare: &dyn Fn(), said: &str| -> Vec<f64> {
        let times = (0..TIMES).map(|_| {
            let (took, log) = start(prepare);
            assert!(log.contains(said), "{log}");
            took
        });
        times.collect()
    };
    let zero = "folded the journal from zero";
    let forget = || drop(fs::remove_file(site.data("checkpoint.json")));
    let forget_all = || {
        forget();
        drop(fs::remove_dir_all(site.data("memory")));
    };
    say("from zero, with memory to be filled", again(&forget_all, zero));
    say("from zero", again(&forget, zero));
    say("from the checkpoint of a stop", again(&|| {}, "Resumed from the checkpoint"));
    all.into()
}
