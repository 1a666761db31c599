//! Mounts that only a child of the test sees: a small disk, or one that cannot be written.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::row;
use crate::served::pointsman;

/// A mount namespace with mounts of its own; gone when dropped.
pub(super) struct Mounts {
    holder: Child,
}

impl Mounts {
    /// Runs a shell script that mounts, in a new namespace. None where that is not allowed.
    pub(super) fn new(fault: &str, script: &str) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.arg(format!("{script} && echo mounted && exec sleep 600"));
        let holder = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut holder = holder.inspect_err(|error| row(fault, &format!("skipped: no unshare ({error})"))).ok()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.trim() != "mounted" {
            let _ = holder.wait();
            row(fault, "skipped: it needs root, to mount in a namespace of its own");
            return None;
        }
        Some(Self { holder })
    }

    /// The program, run inside.
    pub(super) fn pointsman(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).arg(pointsman().get_program());
        command
    }

    /// A path as it is inside.
    pub(super) fn inside(&self, path: &Path) -> PathBuf {
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(path.strip_prefix("/").unwrap())
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
