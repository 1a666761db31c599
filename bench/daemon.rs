//! `pointsman serve` as a process of its own that can be killed, stopped and measured.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Jiffies a second: what the kernel counts processor time in for programs, whatever it uses itself.
const TICKS_PER_S: f64 = 100.0;

/// The longest that a start may take.
const START_MAX: Duration = Duration::from_secs(300);

/// A daemon on `FOLDER/data` with `FOLDER/pointsman.toml`; its log is `FOLDER/log`. Killed when dropped.
pub struct Daemon {
    child: Child,
    log: PathBuf,
    started: Instant,
    address: Option<SocketAddr>,
}

impl Daemon {
    /// Starts the program and does not wait for it.
    pub fn spawn(program: &Path, folder: &Path) -> Self {
        Self::spawn_as(Command::new(program), folder)
    }

    /// The same by another command, such as one that runs the program under other conditions.
    pub fn spawn_as(mut command: Command, folder: &Path) -> Self {
        let log = folder.join("log");
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(folder.join("pointsman.toml"))
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("the folder is the caller's"));
        let child = command.spawn().expect("the program was built before");
        Self { child, log, started: Instant::now(), address: None }
    }

    /// Waits until it takes requests; returns how long that took since it was started, or what it said when it ended.
    pub fn ready(&mut self) -> Result<Duration, String> {
        let stdout = self.child.stdout.take().expect("it is piped, and waited for once");
        let (said, line) = mpsc::channel();
        thread::spawn(move || {
            let (mut line, mut stdout) = (String::new(), BufReader::new(stdout));
            let read = stdout.read_line(&mut line).map(|_| line);
            said.send((read, stdout.into_inner()))
        });
        let Ok((line, stdout)) = line.recv_timeout(START_MAX) else {
            return Err(format!("not ready after {START_MAX:?}: {}", self.log()));
        };
        // Kept open, as whoever runs a daemon does.
        self.child.stdout = Some(stdout);
        let line = line.map_err(|error| error.to_string())?;
        let took = self.started.elapsed();
        let address = line.split_whitespace().find_map(|word| word.strip_prefix("http://")?.parse().ok());
        match address {
            Some(address) => {
                self.address = Some(address);
                Ok(took)
            }
            None => {
                let status = self.child.wait().map_err(|error| error.to_string())?;
                Err(format!("{status}: {}", self.log()))
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("asked after it was ready")
    }

    /// The address of a route.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// What it said on stderr.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.end();
    }

    /// Asks it to stop, as Ctrl-C does.
    pub fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
    }

    /// Asks it to stop and waits.
    pub fn stop(mut self) -> ExitStatus {
        self.interrupt();
        self.child.wait().expect("it is our child")
    }

    /// Seconds of processor time so far.
    pub fn cpu_s(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name, in parentheses, may hold spaces; user and system time are the 12th and 13th after it.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let ticks: f64 = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
        ticks / TICKS_PER_S
    }

    /// Resident memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).map_or(f64::NAN, |kib| kib / 1024.0)
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}
