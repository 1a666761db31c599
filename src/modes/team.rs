//! Modes of more than one call: a driver writes turns, the grammar checks them, workers run them, verifiers look at what came out.
//!
//! Every limit is checked before a call is sent. What is refused is written once more; after that the best output so far is the
//! answer, and where there is none, one call of the worker that does best in the domain. Each of these is recorded in the
//! trajectory and counted. A call that fails is no fault of the turn: the trajectory goes on with what there is.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use tracing::Instrument;

use super::{
    Ran,
    driver::{Driver, DriverError, Offered, SeenCall, View, best},
    prompt::{self, Shown},
    single::{called, trace_end, traced},
};
use crate::{
    arms::{
        Arm, estimate_tokens,
        worker::{Ask, Part, WorkerError},
    },
    grammar::{Answer, Episode, Request, Rules, Turn, Violation},
    round::{
        Call, CallStatus, DecisionId, Guardrail, Kept, Mode, ModeFallback, Outcome, OutcomeStatus, SAID_BYTES_MAX,
        Task, Trajectory, TurnTaken,
    },
    telemetry::Metric,
};

/// How far a trajectory may go.
#[derive(Debug, Clone, PartialEq)]
pub struct Guardrails {
    /// Calls and turns.
    pub rules: Rules,
    /// Dollars of a task; none for no limit but the task's own.
    pub cost_usd_max: Option<f64>,
    /// How long it may take.
    pub wall: Duration,
    /// How much of an output later calls and the driver are shown, in bytes.
    pub shown_bytes_max: usize,
    /// The score from which an output counts as verified, in (0, 1].
    pub pass_score: f64,
}

/// What verifiers say of an output between two calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The score in [0, 1]; none where they could not say.
    pub score: Option<f64>,
    /// Their words, short, for the journal.
    pub trace: String,
    /// The same for later calls; empty where they could tell what the right answer is.
    pub words: String,
}

/// Has outputs verified while a trajectory goes on, and is told how workers did.
#[async_trait]
pub trait Watch: Sync {
    /// What the verifiers say.
    async fn check(&self, output: &str) -> Checked;

    /// A call is over.
    fn called(&self, arm: &Arm, failure: Option<&WorkerError>);
}

/// What is run.
pub struct Team<'a> {
    /// The decision.
    pub decision_id: DecisionId,
    /// The task.
    pub task: &'a Task,
    /// How.
    pub mode: Mode,
    /// The workers that may be called; the one drawn is the first.
    pub offered: Vec<Arm>,
    /// The one of them that does best in the domain.
    pub best: usize,
    /// What cost weighs, as the trajectory records it.
    pub alpha: f64,
    /// The driver's model, as the trajectory records it.
    pub model: Option<String>,
    /// The limits.
    pub guardrails: &'a Guardrails,
}

/// Runs a trajectory to its end.
pub async fn run_team(team: &Team<'_>, driver: &mut dyn Driver, watch: &dyn Watch) -> Ran {
    let mut running = Running::new(team, driver, watch);
    let end = running.go_on(driver).await;
    running.close(end, driver.cost_usd()).await
}

/// How the turns ended.
enum End {
    Answered(Answer),
    Broken,
}

struct Running<'a> {
    team: &'a Team<'a>,
    watch: &'a dyn Watch,
    offered: Vec<Offered>,
    started: Instant,
    episode: Episode,
    calls: Vec<Call>,
    seen: Vec<SeenCall>,
    trajectory: Trajectory,
    failure: Option<WorkerError>,
}

impl<'a> Running<'a> {
    fn new(team: &'a Team<'a>, driver: &dyn Driver, watch: &'a dyn Watch) -> Self {
        let trajectory = Trajectory {
            driver: driver.name().into(),
            model: team.model.clone(),
            alpha: team.alpha,
            offered: team.offered.iter().map(|arm| arm.id.clone()).collect(),
            prices: prices(&team.offered),
            turns: vec![],
            fallbacks: vec![],
            stopped_by: None,
            answered_by: None,
            kept_best: false,
        };
        let able = |arm: &Arm| arm.capabilities.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Self {
            team,
            watch,
            offered: team.offered.iter().map(|arm| Offered { description: able(arm) }).collect(),
            started: Instant::now(),
            episode: Episode::new(team.offered.len(), driver.rules(team.guardrails.rules)),
            calls: vec![],
            seen: vec![],
            trajectory,
            failure: None,
        }
    }

    async fn go_on(&mut self, driver: &mut dyn Driver) -> End {
        if self.episode.take(&Turn::Mode(self.team.mode)).is_err() {
            return End::Broken;
        }
        let mut refused = None;
        loop {
            if let Some(limit) = self.limit() {
                return self.stop(limit);
            }
            let (before, left) = (self.calls.len(), self.time_left());
            let written = match tokio::time::timeout(left, driver.next(&self.view(refused))).await {
                Ok(written) => written,
                Err(_) => continue,
            };
            let said = driver.said().map(|said| cut(&said, SAID_BYTES_MAX));
            let taken = written.and_then(|written| {
                let turn = self.with_first(written.turn);
                self.episode.take(&turn)?;
                Ok((turn, written.probability))
            });
            match taken {
                Ok((Turn::Calls(requests), probability)) => {
                    refused = None;
                    let calls = (before + 1..=before + requests.len()).collect();
                    self.trajectory.turns.push(TurnTaken { probability, calls, said, violation: None });
                    if !self.affordable(&requests) {
                        return self.stop(Guardrail::Dollars);
                    }
                    if !self.run(&requests).await {
                        return End::Broken;
                    }
                }
                Ok((Turn::Answer(answer), probability)) => {
                    self.trajectory.turns.push(TurnTaken { probability, said, ..TurnTaken::default() });
                    return End::Answered(answer);
                }
                // The mode was drawn with the decision; the episode refuses another.
                Ok((Turn::Mode(_), _)) => return End::Broken,
                Err(error) => match self.refuse(error, refused, said) {
                    Some(violation) => refused = Some(violation),
                    None => return End::Broken,
                },
            }
        }
    }

    fn stop(&mut self, limit: Guardrail) -> End {
        metrics::counter!(Metric::Guardrails.name(), "limit" => limit.as_str()).increment(1);
        self.trajectory.stopped_by = Some(limit);
        End::Broken
    }

    /// The first call is the drawn worker's, whoever wrote the turn.
    fn with_first(&self, mut turn: Turn) -> Turn {
        if let Turn::Calls(requests) = &mut turn
            && self.calls.is_empty()
            && let Some(first) = requests.first_mut()
        {
            first.worker = 0;
        }
        turn
    }

    fn view(&self, refused: Option<Violation>) -> View<'_> {
        View {
            question: self.team.task.prompt(),
            offered: &self.offered,
            mode: self.team.mode,
            first: 0,
            pass_score: self.team.guardrails.pass_score,
            episode: &self.episode,
            seen: &self.seen,
            refused,
        }
    }

    /// What was wrong with a turn, if it may be written once more.
    fn refuse(&mut self, error: DriverError, refused: Option<Violation>, said: Option<String>) -> Option<Violation> {
        let (code, violation) = match error {
            DriverError::Violation(violation) => (violation.code().to_owned(), Some(violation)),
            DriverError::Failed(why) => {
                tracing::warn!(%why, decision = %self.team.decision_id, "the driver gave no turn");
                ("driver_failed".into(), None)
            }
        };
        metrics::counter!(Metric::Violations.name(), "code" => code.clone()).increment(1);
        self.trajectory.turns.push(TurnTaken { said, violation: Some(code), ..TurnTaken::default() });
        let again = violation.filter(|_| refused.is_none());
        if again.is_some() {
            self.fall_back(ModeFallback::Resampled);
        }
        again
    }

    fn fall_back(&mut self, to: ModeFallback) {
        metrics::counter!(Metric::ModeFallbacks.name(), "to" => to.as_str()).increment(1);
        self.trajectory.fallbacks.push(to);
    }

    fn time_left(&self) -> Duration {
        let deadline = self.team.task.constraints.deadline_ms.map_or(Duration::MAX, Duration::from_millis);
        self.team.guardrails.wall.min(deadline).saturating_sub(self.started.elapsed())
    }

    fn limit(&self) -> Option<Guardrail> {
        if self.time_left().is_zero() {
            return Some(Guardrail::Time);
        }
        self.episode.is_out_of_turns().then_some(Guardrail::Turns)
    }

    fn spent_usd(&self) -> f64 {
        self.calls.iter().map(|call| call.cost_usd).sum()
    }

    /// Whether the next calls may be paid for: what they read is known, what they write is taken to be as long as so far.
    fn affordable(&self, requests: &[Request]) -> bool {
        let limits = [self.team.guardrails.cost_usd_max, self.team.task.constraints.cost_usd_max];
        let Some(most) = limits.into_iter().flatten().reduce(f64::min) else { return true };
        let read: usize = self.team.task.messages.iter().map(|message| message.content.len()).sum();
        let cost = |request: &Request| {
            let shown: usize = self.refs(request).iter().map(|node| self.seen[*node].output.len()).sum();
            let arm = &self.team.offered[request.worker];
            arm.prices.cost_usd(estimate_tokens(read + shown), self.expected_output_tokens())
        };
        self.spent_usd() + requests.iter().map(cost).sum::<f64>() <= most
    }

    fn expected_output_tokens(&self) -> u64 {
        let written: Vec<u64> = self.calls.iter().map(|call| call.output_tokens).filter(|tokens| *tokens > 0).collect();
        written.iter().sum::<u64>() / written.len().max(1) as u64
    }

    /// The earlier calls that a call is shown: those it refers to, or in rounds the last one that gave an answer.
    fn refs(&self, request: &Request) -> Vec<usize> {
        match request.role {
            Some(_) => request.refs.iter().copied().filter(|node| !self.seen[*node].output.is_empty()).collect(),
            None => self.seen.iter().rposition(|call| !call.output.is_empty()).into_iter().collect(),
        }
    }

    /// Makes the calls of one turn side by side. Whether there is anything to go on with.
    async fn run(&mut self, requests: &[Request]) -> bool {
        let began = self.started.elapsed();
        let made = join_all((0..requests.len()).map(|place| self.call(requests, place))).await;
        let mut answered = false;
        for (mut call, failure, seen) in made {
            call.started_ms = began.as_secs_f64() * 1e3;
            answered |= failure.is_none();
            self.failure = failure.or(self.failure.take());
            self.seen.push(seen);
            self.calls.push(call);
        }
        // What others wrote before can still be made an answer of.
        answered || best(&self.seen, |_| true).is_some()
    }

    /// One call: what it was, why it failed, and what others are shown of it.
    async fn call(&self, requests: &[Request], place: usize) -> (Call, Option<WorkerError>, SeenCall) {
        let Team { task, mode, guardrails, decision_id, .. } = self.team;
        let request = &requests[place];
        let arm = &self.team.offered[request.worker];
        let (refs, role) = (self.refs(request), request.role.map_or(Call::WORKER, |role| role.as_str()));
        let shown = refs.iter().map(|node| {
            let SeenCall { role, output, score, trace } = &self.seen[*node];
            Shown { number: node + 1, role, output, score: *score, trace }
        });
        let messages =
            prompt::ask(task, *decision_id, *mode, request, &shown.collect::<Vec<_>>(), guardrails.pass_score);
        let asked = Task { messages, ..Task::clone(task) };
        let outputs: Vec<(&str, &str)> =
            refs.iter().map(|node| (self.seen[*node].role, self.seen[*node].output.as_str())).collect();
        let same = |other: &Request| other.worker == request.worker && other.role == request.role;
        let earlier = self.calls.iter().filter(|call| call.arm == arm.id && call.role == role).count();
        let before = earlier + requests[..place].iter().filter(|other| same(other)).count();
        let part = Part { role, before, shown: &outputs };
        let ask = Ask { task: &asked, chat: None, part: Some(part) };
        let (outcome, failure) = self.ask(&ask, arm).await;
        self.watch.called(arm, failure.as_ref());
        let mut call = outcome.calls.into_iter().next().unwrap_or_else(|| Call::new(arm.id.clone(), CallStatus::Ok));
        call.role = role.into();
        call.refs = refs.iter().map(|node| node + 1).collect();
        let output = cut(&outcome.output, guardrails.shown_bytes_max);
        call.output = outcome.output;
        let mut seen = String::new();
        if failure.is_none() && role != "planner" && role != "verifier" {
            let Checked { score, trace, words } = self.watch.check(&call.output).await;
            (call.score, call.trace) = (score, trace);
            seen = words;
        }
        let seen = SeenCall { role, output, score: call.score, trace: seen };
        (call, failure, seen)
    }

    async fn ask(&self, ask: &Ask<'_>, arm: &Arm) -> (Outcome, Option<WorkerError>) {
        let started = Instant::now();
        let span = traced(ask, arm);
        let answered = tokio::time::timeout(self.time_left(), arm.worker.answer(ask).instrument(span.clone())).await;
        let latency_ms = started.elapsed().as_secs_f64() * 1e3;
        let id = self.team.decision_id;
        let (outcome, failure) = match answered {
            Ok(Ok(reply)) => (called(id, ask, arm, &reply.said, reply.cost_usd, None, latency_ms), None),
            failed => {
                let late = || WorkerError::TimedOut(latency_ms as u64);
                let failure = failed.ok().and_then(Result::err).unwrap_or_else(late);
                let said = crate::chat::Answer::default();
                (called(id, ask, arm, &said, Some(0.0), Some(&failure), latency_ms), Some(failure))
            }
        };
        trace_end(&span, &outcome, failure.as_ref());
        (outcome, failure)
    }

    /// Makes the outcome of what there is.
    async fn close(mut self, end: End, driver_usd: f64) -> Ran {
        let answered = match end {
            End::Answered(Answer::Text(text)) => Some((None, text)),
            End::Answered(Answer::Node(node)) => self.at(node),
            End::Broken => None,
        };
        let answered = match answered.map(|(node, text)| self.kept_best(node, text)) {
            Some(answered) => Some(answered),
            None => self.instead().await,
        };
        let cost_usd = self.spent_usd() + driver_usd;
        let (node, output) = answered.unwrap_or_default();
        self.trajectory.answered_by = node.map(|node| node + 1);
        let done = !output.is_empty();
        let failure = if done { None } else { Some(self.failure.take().unwrap_or_else(|| self.why_nothing())) };
        let outcome = Outcome {
            decision_id: self.team.decision_id,
            status: if done { OutcomeStatus::Done } else { OutcomeStatus::Failed },
            output,
            tool_calls: vec![],
            kept: Kept::Whole,
            calls: self.calls,
            cost_usd,
            latency_ms: self.started.elapsed().as_secs_f64() * 1e3,
            trajectory: Some(self.trajectory),
        };
        Ran { outcome, failure, judged: None, body: Bytes::new() }
    }

    /// Why there is no answer although no call failed.
    fn why_nothing(&self) -> WorkerError {
        match self.trajectory.stopped_by {
            Some(Guardrail::Dollars) => {
                WorkerError::Unsupported("the calls of this mode are expected to cost more than the task may".into())
            }
            Some(Guardrail::Time) => WorkerError::TimedOut(self.started.elapsed().as_millis() as u64),
            Some(Guardrail::Turns) | None => WorkerError::Protocol("no call wrote anything".into()),
        }
    }

    /// A call's whole output, where it wrote one.
    fn at(&self, node: usize) -> Option<(Option<usize>, String)> {
        let output = &self.calls.get(node)?.output;
        (!output.is_empty()).then(|| (Some(node), output.clone()))
    }

    /// The answer, or an earlier output that was verified to be better.
    fn kept_best(&mut self, node: Option<usize>, text: String) -> (Option<usize>, String) {
        let score = |node: usize| self.seen[node].score;
        let Some(ours) = node.and_then(score) else { return (node, text) };
        let better = best(&self.seen, |other| score(other).is_some_and(|theirs| theirs > ours));
        match better.and_then(|better| self.at(better)) {
            Some(better) => {
                self.trajectory.kept_best = true;
                better
            }
            None => (node, text),
        }
    }

    /// The best output so far, or one call of the domain's best worker.
    async fn instead(&mut self) -> Option<(Option<usize>, String)> {
        if let Some(found) = best(&self.seen, |_| true).and_then(|node| self.at(node)) {
            self.fall_back(ModeFallback::BestSoFar);
            return Some(found);
        }
        let best = self.team.best;
        let untried = !self.calls.iter().any(|call| call.arm == self.team.offered[best].id);
        if self.time_left().is_zero() || !(untried || self.calls.is_empty()) {
            return None;
        }
        self.fall_back(ModeFallback::SingleCall);
        let request = Request { worker: best, role: None, refs: vec![], task: String::new() };
        if !self.affordable(std::slice::from_ref(&request)) {
            return None;
        }
        self.run(&[request]).await;
        self.at(self.calls.len() - 1)
    }
}

/// The offered workers' prices in a few digits, to tell whether two trajectories were priced alike.
fn prices(offered: &[Arm]) -> String {
    let mut hasher = blake3::Hasher::new();
    for arm in offered {
        hasher.update(arm.id.as_str().as_bytes());
        hasher.update(&arm.prices.input_usd_per_1m.to_le_bytes());
        hasher.update(&arm.prices.output_usd_per_1m.to_le_bytes());
    }
    hasher.finalize().to_hex()[..8].to_owned()
}

/// At most so many bytes of a text, whole characters.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.into();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{} [...]", &text[..end])
}
