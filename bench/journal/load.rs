//! Load through HTTP that costs the client little: one thread a stream, lines written ahead, answers read as bytes.
//!
//! Each stream keeps a fixed number of lines unanswered and sends a line for every answer, so the load is as fast as the
//! daemon and ends by itself. The time from a line to its answer is told by the line's number.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::daemon::Daemon;

/// Prompts, few enough that all embeddings are soon in the cache.
const PROMPTS: u64 = 64;

/// How many tasks are under way.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub streams: usize,
    /// Lines of one stream that wait for their answers.
    pub window: usize,
}

/// What a load gave.
#[derive(Debug, Default)]
pub struct Measured {
    /// Acknowledged outcomes.
    pub outcomes: u64,
    /// Lines that were answered with a problem.
    pub problems: u64,
    pub seconds: f64,
    /// Processor time of the daemon.
    pub daemon_cpu_s: f64,
    /// From line to answer, in microseconds, sorted.
    pub latency_us: Vec<u32>,
}

impl Measured {
    /// A quantile of the times from line to answer, in milliseconds.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        let place = (quantile * (self.latency_us.len().max(1) - 1) as f64).round() as usize;
        self.latency_us.get(place).map_or(f64::NAN, |us| f64::from(*us) / 1_000.0)
    }

    pub fn per_s(&self) -> f64 {
        self.outcomes as f64 / self.seconds
    }
}

/// When a load ends, and what of it counts.
struct Bounds {
    measuring: AtomicBool,
    ending: AtomicBool,
    /// Lines that may still be sent.
    left: AtomicU64,
}

impl Bounds {
    fn new(lines: u64, measuring: bool) -> Self {
        Self { measuring: measuring.into(), ending: false.into(), left: lines.into() }
    }

    fn take(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        !self.ending.load(Ordering::Relaxed)
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Loads a daemon for a while and counts what comes after the warm-up.
pub fn sustain(daemon: &Daemon, shape: Shape, warm_up: Duration, counted: Duration) -> Measured {
    let bounds = Bounds::new(u64::MAX, false);
    run(daemon, shape, &bounds, || {
        thread::sleep(warm_up);
        let (started, cpu) = (Instant::now(), daemon.cpu_s());
        bounds.measuring.store(true, Ordering::Relaxed);
        thread::sleep(counted);
        bounds.measuring.store(false, Ordering::Relaxed);
        let spent = (started.elapsed(), daemon.cpu_s() - cpu);
        bounds.ending.store(true, Ordering::Relaxed);
        spent
    })
}

/// Sends so many tasks and waits for all answers.
pub fn rounds(daemon: &Daemon, shape: Shape, rounds: u64) -> Measured {
    let bounds = Bounds::new(rounds, true);
    let (started, cpu) = (Instant::now(), daemon.cpu_s());
    let measured = run(daemon, shape, &bounds, Default::default);
    Measured { seconds: started.elapsed().as_secs_f64(), daemon_cpu_s: daemon.cpu_s() - cpu, ..measured }
}

fn run(daemon: &Daemon, shape: Shape, bounds: &Bounds, watch: impl FnOnce() -> (Duration, f64)) -> Measured {
    let address = daemon.address();
    let mut all = thread::scope(|scope| {
        let stream = |n: usize| scope.spawn(move || one_stream(address, n as u64, shape.window, bounds));
        let streams: Vec<_> = (0..shape.streams).map(stream).collect();
        let (spent, daemon_cpu_s) = watch();
        let mut all = Measured { seconds: spent.as_secs_f64(), daemon_cpu_s, ..Measured::default() };
        for stream in streams {
            let one = stream.join().expect("a stream ends by itself");
            all.outcomes += one.outcomes;
            all.problems += one.problems;
            all.latency_us.extend(one.latency_us);
        }
        all
    });
    all.latency_us.sort_unstable();
    all
}

/// One task; the same `n` gives the same text.
fn line(n: u64) -> String {
    let (a, b) = (n % PROMPTS, 7 * (n % PROMPTS) % 50);
    let sum = a + b;
    let domain = ["math", "text"][(n % 2) as usize];
    format!(
        r#"{{"domain":"{domain}","prompt":"What is {a} plus {b}?","metadata":{{"reference":{sum},"answer":"number"}}}}"#
    )
}

fn one_stream(address: SocketAddr, first: u64, window: usize, bounds: &Bounds) -> Measured {
    let mut socket = TcpStream::connect(address).expect("the daemon listens");
    socket.set_nodelay(true).expect("it is a TCP socket");
    let head = format!(
        "POST /v1/tasks/stream HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).expect("the daemon reads");
    let mut measured = Measured::default();
    // When line n was sent, at place n % window of the ring that holds at least all unanswered lines.
    let mut sent_at: Vec<Instant> = vec![Instant::now()];
    let (mut wanted, mut unanswered, mut ended) = (window, 0, false);
    let (mut lines, mut buffer) = (Lines::default(), vec![0; 1 << 16]);
    loop {
        let mut batch = String::new();
        for _ in 0..wanted {
            if !bounds.take() {
                break;
            }
            let n = sent_at.len() as u64;
            batch.push_str(&line(n * 31 + first));
            batch.push('\n');
            sent_at.push(Instant::now());
            unanswered += 1;
        }
        if !batch.is_empty() {
            let chunk = format!("{:x}\r\n{batch}\r\n", batch.len());
            socket.write_all(chunk.as_bytes()).expect("the daemon reads");
        } else if wanted > 0 && !ended {
            socket.write_all(b"0\r\n\r\n").expect("the daemon reads");
            ended = true;
        }
        if unanswered == 0 {
            return measured;
        }
        let read = socket.read(&mut buffer).expect("the daemon answers");
        assert!(read > 0, "the daemon closed a stream with {unanswered} lines unanswered");
        let now = Instant::now();
        wanted = 0;
        lines.push(&buffer[..read], |answer| {
            wanted += 1;
            unanswered -= 1;
            if !bounds.measuring.load(Ordering::Relaxed) {
                return;
            }
            if answer.is_problem {
                measured.problems += 1;
            } else {
                measured.outcomes += 1;
                let took = now.duration_since(sent_at[answer.line]).as_micros();
                measured.latency_us.push(u32::try_from(took).unwrap_or(u32::MAX));
            }
        });
    }
}

struct Answer {
    line: usize,
    is_problem: bool,
}

/// Finds the answers among the bytes of a chunked response: they are the lines that begin with a brace, since the rest is
/// headers and the sizes of chunks, and the daemon sends a line as one chunk.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, bytes: &[u8], mut found: impl FnMut(Answer)) {
        self.0.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(length) = self.0[from..].iter().position(|byte| *byte == b'\n') {
            let line = &self.0[from..from + length];
            from += length + 1;
            if let Some(rest) = line.strip_prefix(br#"{"line":"#) {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
                let number = digits.fold(0, |number, digit| 10 * number + usize::from(digit - b'0'));
                let is_problem = line.windows(11).any(|part| part == br#""problem":{"#);
                found(Answer { line: number, is_problem });
            }
        }
        self.0.drain(..from);
    }
}
