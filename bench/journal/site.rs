//! A data folder with a daemon of scripted workers, and real rounds in it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    daemon::Daemon,
    load::{self, Shape},
    rounds::Rounds,
};

/// Enough to keep two cores busy, and the journal's groups large.
pub const SHAPE: Shape = Shape { streams: 8, window: 16 };
const ARMS: &str = r#"
[domains.math]
[domains.text]

[[arms]]
id = "good"
kind = "scripted"
default_skill = 0.9
input_usd_per_1m = 1.0
output_usd_per_1m = 2.0

[[arms]]
id = "fair"
kind = "scripted"
default_skill = 0.7
input_usd_per_1m = 0.2
output_usd_per_1m = 0.4

[[arms]]
id = "bad"
kind = "scripted"
default_skill = 0.2
"#;

/// A data folder of a daemon.
pub struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    /// An empty one.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("there is room for temporary files") }
    }

    /// Starts the daemon with some settings besides the arms; returns how long that took.
    pub fn start(&self, settings: &str) -> (Daemon, Duration) {
        fs::write(self.path().join("pointsman.toml"), format!("{settings}{ARMS}")).expect("the folder is ours");
        let mut daemon = Daemon::spawn(Path::new(env!("CARGO_BIN_EXE_pointsman")), self.path());
        let took = daemon.ready().expect("it starts");
        (daemon, took)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self, name: &str) -> PathBuf {
        self.path().join("data").join(name)
    }

    pub fn journal(&self) -> PathBuf {
        self.data("journal.sqlite")
    }
}

/// Stops a daemon and waits.
pub fn stop(daemon: Daemon) {
    assert!(daemon.stop().success(), "the daemon did not stop cleanly");
}

/// A stopped daemon's folder after so many rounds through HTTP, and the last of those rounds. `prompts` is what the journal
/// keeps of them.
pub fn real_rounds(count: u64, prompts: &str) -> (Site, Rounds) {
    let site = Site::new();
    let (daemon, _) = site.start(&format!("[memory]\ncap = 1000\n[journal]\nprompts = \"{prompts}\"\n"));
    let loaded = load::rounds(&daemon, SHAPE, count);
    assert_eq!((loaded.outcomes, loaded.problems), (count, 0));
    stop(daemon);
    let real = Rounds::read(&site.journal());
    (site, real)
}
