//! A dozen kills at random moments under mixed load; `bench/run.sh kill` does a hundred.

use std::path::PathBuf;

use crate::crash;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_doubled_in_a_dozen_kills_and_the_state_is_the_journals() {
    // Fetches the model.
    crate::served::pointsman();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_pointsman"));
    let plan = crash::Plan { program, kills: 12, seed: 12, life_ms: 900, in_checkpoint: 0 };
    let folder = tempfile::tempdir().unwrap();
    let report = crash::run(&plan, folder.path()).await;
    println!("{report}");
    assert!(report.faults.is_empty(), "{report}");
    assert_eq!(report.kills(), 12);
}
