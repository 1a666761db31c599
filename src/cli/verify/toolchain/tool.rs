//! Runs other programs: bounded in time, their output kept for the error.

use std::{
    fs::File,
    io::{Read, Seek},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Between two looks at a running program.
const POLL: Duration = Duration::from_millis(20);
/// A program that does not say what it is in this time is not usable.
const PROBE_MAX: Duration = Duration::from_secs(60);
/// How much of a failed program's output an error repeats: compilers say the most important first, others last.
const HEAD_LINES: usize = 20;
const TAIL_LINES: usize = 20;

/// Runs a program to its end; gives its standard output.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Files, not pipes: nobody need read them meanwhile.
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut running = Running(command.spawn().with_context(|| format!("cannot start {name}"))?);
    let status = running.wait(limit).with_context(|| format!("{name} cannot be waited for"))?;
    let (said, complained) = (read(&mut out)?, read(&mut err)?);
    let Some(status) = status else {
        bail!(
            "{} took more than {} s and was stopped\n{}",
            shown(command),
            limit.as_secs(),
            excerpt(&said, &complained)
        );
    };
    if !status.success() {
        bail!("{} failed ({status})\n{}", shown(command), excerpt(&said, &complained));
    }
    Ok(said)
}

/// What a program says that may be missing; nothing when it fails.
pub(super) fn probe(program: &str, arguments: &[&str]) -> Option<String> {
    run(Command::new(program).args(arguments), PROBE_MAX).ok()
}

/// A child that does not outlive its owner.
struct Running(Child);

impl Running {
    /// Nothing when it did not end in time.
    fn wait(&mut self, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
        let started = Instant::now();
        loop {
            match self.0.try_wait()? {
                None if started.elapsed() < limit => thread::sleep(POLL),
                ended => return Ok(ended),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(file: &mut File) -> Result<String> {
    let mut bytes = vec![];
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Of what it complained, or of what it said where it complained of nothing.
fn excerpt(said: &str, complained: &str) -> String {
    let text = if complained.trim().is_empty() { said } else { complained };
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() <= HEAD_LINES + TAIL_LINES {
        return lines.join("\n");
    }
    let (head, tail) = (&lines[..HEAD_LINES], &lines[lines.len() - TAIL_LINES..]);
    let left_out = lines.len() - HEAD_LINES - TAIL_LINES;
    format!("{}\n({left_out} lines left out)\n{}", head.join("\n"), tail.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String> {
        run(Command::new("sh").args(["-c", script]), limit)
    }

    #[test]
    fn gives_what_a_program_prints() {
        assert_eq!(shell("echo said; echo noise >&2", PROBE_MAX).unwrap(), "said\n");
    }

    #[test]
    fn a_failure_repeats_the_command_and_what_the_program_complained_of() {
        let error = format!("{:#}", shell("echo data; echo reason >&2; exit 3", PROBE_MAX).unwrap_err());
        assert!(error.starts_with("sh -c echo data") && error.ends_with(")\nreason"), "{error}");
        let error = format!("{:#}", shell("seq 100; exit 3", PROBE_MAX).unwrap_err());
        assert!(error.contains(")\n1\n") && error.ends_with("\n100"), "{error}");
        assert!(error.contains("\n20\n(60 lines left out)\n81\n"), "{error}");
    }

    #[test]
    fn stops_a_program_that_takes_too_long() {
        let error = format!("{:#}", shell("echo begun; exec sleep 1000", Duration::ZERO).unwrap_err());
        assert!(error.contains("was stopped"), "{error}");
    }

    #[test]
    fn a_missing_program_says_nothing() {
        assert_eq!(probe("a-program-that-is-not-there", &[]), None);
    }
}
