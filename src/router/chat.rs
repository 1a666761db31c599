//! Chats: tasks that bring the client's own request along and whose answers go back in its protocol.
//!
//! A streamed answer reaches the client as the worker writes it, but for its last frames: those are held back until the
//! outcome is durable, as a whole answer is, so that a client that saw the end never sees it undone. Verification runs after
//! that: no client waits for it that does not ask for its score. Until the first content a worker that fails is replaced;
//! afterwards its answer breaks off with the protocol's own error, and is a failure.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, Span};

use super::{
    Claim, Explanation, Router, RouterError,
    audit::RunBy,
    running::Run,
    turn::{Attempt, Known, Verdict},
};
use crate::{
    access::{Admission, Hold},
    arms::{
        Arm,
        worker::{Ask, Reply, ReplyStream, WorkerError, Written, WrittenStream, written},
    },
    chat::{Answer, ChatRequest, ErrorKind, ToolCall, Usage, error_frame},
    journal::Decided,
    modes::{self, Ran},
    round::{Feedback, Mode, Outcome, OutcomeStatus, Score, Task},
};

/// Pieces of an answer that may wait for a slow client.
const AHEAD: usize = 32;
/// How long a client may take none of them before it counts as gone.
const CLIENT_STALL: Duration = Duration::from_secs(120);

/// A chat's whole answer.
#[derive(Debug, Clone)]
pub struct ChatRound {
    /// What was decided.
    pub decided: Arc<Decided>,
    /// What came of it.
    pub outcome: Outcome,
    /// What verifiers say of it, where it was waited for and they could say.
    pub score: Option<Score>,
    /// An earlier request had it done.
    pub repeated: bool,
    /// The answer in the client's protocol; empty where there is none.
    pub body: Bytes,
    /// Why there is none.
    pub failure: Option<WorkerError>,
}

/// A chat's answer as it comes.
#[derive(Debug)]
pub struct ChatStream {
    /// The decision whose worker answers.
    pub decided: Arc<Decided>,
    /// Frames in the client's protocol, the protocol's end or its error last.
    pub frames: mpsc::Receiver<Bytes>,
}

/// What a client gets that asked for a stream.
#[derive(Debug)]
pub enum Streamed {
    /// It begins.
    Begun(ChatStream),
    /// No worker answered.
    Failed(Box<ChatRound>),
}

impl Router {
    /// Runs a chat through the whole loop, as [`Router::run`] does a task. Returns once the answer is durable; it is verified after
    /// that, or, where the caller asks for the score, before.
    pub async fn chat(
        self: &Arc<Self>,
        task: Task,
        chat: Arc<ChatRequest>,
        scored: bool,
    ) -> Result<ChatRound, RouterError> {
        let mut task = task;
        self.restrict_chat(&mut task);
        let admission = self.tenants.admit(task.tenant.as_ref())?;
        let (answer, answered) = oneshot::channel();
        let router = Arc::clone(self);
        let chatted = async move { router.whole_turn(task, &chat, scored, admission, answer).await };
        self.rounds.spawn(chatted.in_current_span());
        answered.await.map_err(|_| RouterError::Internal("the round panicked".into()))?
    }

    async fn whole_turn(
        self: &Arc<Self>,
        task: Task,
        chat: &ChatRequest,
        scored: bool,
        admission: Admission,
        answer: oneshot::Sender<Result<ChatRound, RouterError>>,
    ) {
        let ran = async {
            let mut attempt = self.turn(task, Some(chat)).await?;
            if attempt.failure.is_none() && attempt.outcome.status == OutcomeStatus::Done && attempt.body.is_empty() {
                attempt.body = again(chat, &attempt.decided, &attempt.outcome)?;
            }
            Ok(attempt)
        };
        let Attempt { decided, outcome, verdict, repeated, failure, body } = match ran.await {
            Ok(attempt) => attempt,
            Err(error) => return drop(answer.send(Err(error))),
        };
        let (by, of) = (Arc::clone(&decided), outcome.clone());
        let told = |score| ChatRound { decided: by, outcome: of, score, repeated, body, failure };
        // The place is for the worker's time: a client that has its answer may ask again.
        drop(admission);
        match verdict {
            Verdict::Given(feedback) => drop(answer.send(Ok(told(feedback.score)))),
            Verdict::UnderWay => drop(answer.send(Ok(told(None)))),
            Verdict::Due(run) if scored => {
                let verified = self.verify_ran(&decided, &run, &outcome).await;
                if let Ok(feedback) = &verified {
                    self.have_audited(&decided, &outcome, feedback, Some(chat));
                }
                drop(answer.send(verified.map(|feedback| told(feedback.score))));
            }
            Verdict::Due(run) => {
                drop(answer.send(Ok(told(None))));
                match self.verify_ran(&decided, &run, &outcome).await {
                    Ok(feedback) => self.have_audited(&decided, &outcome, &feedback, Some(chat)),
                    Err(error) => {
                        tracing::error!(%error, decision = %decided.decision.id, "an answer that its client has got has no verdict");
                    }
                }
            }
        }
    }

    /// Runs a chat whose answer is streamed. Returns once there is something to see, or no worker answered.
    pub async fn chat_stream(self: &Arc<Self>, task: Task, chat: Arc<ChatRequest>) -> Result<Streamed, RouterError> {
        let mut task = task;
        self.restrict_chat(&mut task);
        let admission = self.tenants.admit(task.tenant.as_ref())?;
        let (begin, begun) = oneshot::channel();
        let router = Arc::clone(self);
        let streamed = async move { router.stream_turn(task, &chat, begin, admission).await };
        self.rounds.spawn(streamed.in_current_span());
        begun.await.map_err(|_| RouterError::Internal("the round panicked".into()))?
    }

    async fn stream_turn(self: &Arc<Self>, task: Task, chat: &ChatRequest, begin: Begin, admission: Admission) {
        match self.stream_begun(task, chat).await {
            Ok(Started::Running(running)) => running.go_on(self, chat, begin, admission).await,
            Ok(Started::Whole(whole)) => whole.close(self, chat, begin, admission).await,
            Ok(Started::Known(streamed)) => drop(begin.send(Ok(streamed))),
            Err(error) => drop(begin.send(Err(error))),
        }
    }

    async fn stream_begun<'a>(self: &'a Arc<Self>, task: Task, chat: &ChatRequest) -> Result<Started<'a>, RouterError> {
        if let Some(waiting) = self.registry.overload() {
            return Err(RouterError::Overloaded { waiting });
        }
        let (decided, hold, early, repeated) = match self.claim(task, RunBy::Router).await? {
            Claim::Fresh(decided, hold) => (decided, hold, vec![], false),
            Claim::Repeat(explanation) => match self.known(self.last_of(*explanation).await?).await? {
                Known::Done(decided, outcome, _) => return replayed(chat, decided, *outcome).map(Started::Known),
                Known::CutOff(cut_off) => {
                    let Explanation { decided, early, .. } = *cut_off;
                    let hold = self.hold_again(&decided)?;
                    (Arc::new(decided), hold, early, true)
                }
            },
        };
        self.open_stream(decided, hold, early, repeated, chat).await
    }

    /// Opens the decided worker's stream, or that of another one in its place.
    async fn open_stream<'a>(
        self: &'a Arc<Self>,
        decided: Arc<Decided>,
        hold: Hold,
        early: Vec<Feedback>,
        repeated: bool,
        chat: &ChatRequest,
    ) -> Result<Started<'a>, RouterError> {
        let first = decided.decision.id;
        let replacing = self.replacing.enter(first, vec![]).ok_or(RouterError::StillRunning(first))?;
        let (mut decided, mut hold, mut early, mut failed) = (decided, hold, early, vec![]);
        loop {
            let id = decided.decision.id;
            let run = self.running.enter(id, early).ok_or(RouterError::StillRunning(id))?;
            let started = Instant::now();
            let catalogue = self.catalogue.load_full();
            let (mode, arm) = (decided.decision.mode, &decided.decision.arm);
            let ran = match catalogue.get(arm) {
                // What several calls make of it is there whole or not at all.
                Ok(_) if mode != Mode::Single => {
                    let ran = self.run_mode(&decided, &ask(&decided, chat), mode, arm, true).await;
                    if ran.failure.is_none() && ran.outcome.status == OutcomeStatus::Done {
                        return Ok(Started::Whole(Box::new(Whole { decided, hold, ran, run, replacing, started })));
                    }
                    ran
                }
                Ok(arm) => {
                    let span = modes::traced(&ask(&decided, chat), arm);
                    match arm.worker.stream(&ask(&decided, chat)).instrument(span.clone()).await {
                        Ok(stream) => {
                            let arm = arm.clone();
                            let running = Running { decided, hold, arm, stream, run, replacing, started, span };
                            return Ok(Started::Running(Box::new(running)));
                        }
                        Err(failure) => not_begun(&decided, chat, arm, failure, started, &span),
                    }
                }
                Err(error) => modes::not_run(id, arm, &error.to_string()),
            };
            let attempt = self.close_run(&decided, hold, run, ran, repeated, started).await?;
            self.have_attempt_audited(&attempt, Some(chat));
            match self.instead(&attempt, &mut failed).await {
                Some((next, put_aside)) => (decided, hold, early) = (next, put_aside, vec![]),
                None => {
                    let Attempt { decided, outcome, failure, .. } = attempt;
                    return Ok(Started::Known(not_answered(decided, outcome, repeated, failure)));
                }
            }
        }
    }
}

type Begin = oneshot::Sender<Result<Streamed, RouterError>>;

fn ask<'a>(decided: &'a Decided, chat: &'a ChatRequest) -> Ask<'a> {
    Ask { chat: Some(chat), ..Ask::of(&decided.task) }
}

/// What a stream came to that did not begin.
fn not_begun(
    decided: &Decided,
    chat: &ChatRequest,
    arm: &Arm,
    failure: WorkerError,
    started: Instant,
    span: &Span,
) -> Ran {
    let (said, asked, id) = (Answer::default(), ask(decided, chat), decided.decision.id);
    let latency_ms = started.elapsed().as_secs_f64() * 1e3;
    let outcome = modes::called(id, &asked, arm, &said, Some(0.0), Some(&failure), latency_ms);
    modes::trace_end(span, &outcome, Some(&failure));
    Ran { outcome, failure: Some(failure), judged: None, body: Bytes::new() }
}

enum Started<'a> {
    Running(Box<Running<'a>>),
    Whole(Box<Whole<'a>>),
    Known(Streamed),
}

/// An answer that several calls made.
struct Whole<'a> {
    decided: Arc<Decided>,
    hold: Hold,
    ran: Ran,
    run: Run<'a>,
    replacing: Run<'a>,
    started: Instant,
}

impl Whole<'_> {
    /// Stores it, and lets the client have it.
    async fn close(self, router: &Arc<Router>, chat: &ChatRequest, begin: Begin, admission: Admission) {
        let Self { decided, hold, ran, run, replacing, started } = self;
        let closed = router.close_run(&decided, hold, run, ran, false, started).await;
        drop((admission, replacing));
        let streamed = closed.and_then(|attempt| {
            router.have_attempt_audited(&attempt, Some(chat));
            replayed(chat, attempt.decided, attempt.outcome)
        });
        drop(begin.send(streamed));
    }
}

/// An answer that is being streamed.
struct Running<'a> {
    decided: Arc<Decided>,
    hold: Hold,
    arm: Arm,
    stream: Box<dyn ReplyStream>,
    run: Run<'a>,
    /// Who asks again for what was decided first meanwhile is told to wait.
    replacing: Run<'a>,
    started: Instant,
    /// The call's, until the answer's end.
    span: Span,
}

impl Running<'_> {
    async fn go_on(mut self, router: &Arc<Router>, chat: &ChatRequest, begin: Begin, admission: Admission) {
        let (frames, received) = mpsc::channel(AHEAD);
        let streamed = Streamed::Begun(ChatStream { decided: Arc::clone(&self.decided), frames: received });
        // A client that left before the first byte is noticed when it is sent.
        drop(begin.send(Ok(streamed)));
        let failure = pump(self.stream.as_mut(), &frames).await.err();
        let protocol = chat.protocol();
        match self.close(router, chat, failure, &frames, admission).await {
            Ok(None) => {}
            Ok(Some(failure)) => {
                let _ = frames.send(error_frame(protocol, ErrorKind::Server, &failure.to_string())).await;
            }
            Err(error) => {
                tracing::error!(%error, "a streamed answer could not be stored");
                let _ = frames.send(error_frame(protocol, ErrorKind::Server, &error.to_string())).await;
            }
        }
    }

    /// Stores the outcome, lets the client see the end, and verifies. Gives back why the answer broke off, if it did.
    async fn close(
        self,
        router: &Arc<Router>,
        chat: &ChatRequest,
        failure: Option<WorkerError>,
        frames: &mpsc::Sender<Bytes>,
        admission: Admission,
    ) -> Result<Option<WorkerError>, RouterError> {
        let Self { decided, hold, arm, mut stream, run, replacing, started, span } = self;
        let latency_ms = started.elapsed().as_secs_f64() * 1e3;
        let (said, cost_usd) = (stream.said(), stream.cost_usd());
        let asked = ask(&decided, chat);
        let mut outcome =
            modes::called(decided.decision.id, &asked, &arm, said, cost_usd, failure.as_ref(), latency_ms);
        outcome.cost_usd += decided.proposal_usd();
        modes::trace_end(&span, &outcome, failure.as_ref());
        drop(span);
        if failure.is_some() {
            let ran = Ran { outcome, failure: failure.clone(), judged: None, body: Bytes::new() };
            let attempt = router.close_run(&decided, hold, run, ran, false, started).await?;
            router.have_attempt_audited(&attempt, Some(chat));
            return Ok(failure);
        }
        router.store_ran(&decided, hold, &outcome, started).await?;
        drop((admission, replacing));
        // A client that left by now has all but the end.
        let _ = frames.send(stream.last()).await;
        let feedback = router.verify_ran(&decided, &run, &outcome).await?;
        router.have_audited(&decided, &outcome, &feedback, Some(chat));
        Ok(None)
    }
}

/// Hands frames on until the answer's end.
async fn pump(stream: &mut dyn ReplyStream, frames: &mpsc::Sender<Bytes>) -> Result<(), WorkerError> {
    loop {
        let next = tokio::select! {
            next = stream.next() => next?,
            () = frames.closed() => return Err(WorkerError::ClientLeft),
        };
        let Some(bytes) = next else { return Ok(()) };
        match tokio::time::timeout(CLIENT_STALL, frames.send(bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(WorkerError::ClientLeft),
        }
    }
}

/// What a client was told before, in its protocol.
fn again(chat: &ChatRequest, decided: &Decided, outcome: &Outcome) -> Result<Bytes, RouterError> {
    let id = decided.decision.id.to_string();
    written(chat, about(&id, decided), &said(outcome)).map_err(|error| RouterError::Internal(error.to_string()))
}

fn replayed(chat: &ChatRequest, decided: Arc<Decided>, outcome: Outcome) -> Result<Streamed, RouterError> {
    if outcome.status == OutcomeStatus::Failed {
        return Ok(not_answered(decided, outcome, true, None));
    }
    let id = decided.decision.id.to_string();
    let reply = Reply { said: said(&outcome), cost_usd: Some(outcome.cost_usd), body: Bytes::new() };
    let stream = WrittenStream::new(chat, about(&id, &decided), reply);
    let frames = stream.map_err(|error| RouterError::Internal(error.to_string()))?.into_frames();
    let (send, received) = mpsc::channel(1);
    // There is room for one.
    let _ = send.try_send(frames);
    Ok(Streamed::Begun(ChatStream { decided, frames: received }))
}

fn not_answered(decided: Arc<Decided>, outcome: Outcome, repeated: bool, failure: Option<WorkerError>) -> Streamed {
    let body = Bytes::new();
    Streamed::Failed(Box::new(ChatRound { decided, outcome, score: None, repeated, body, failure }))
}

fn about<'a>(id: &'a str, decided: &'a Decided) -> Written<'a> {
    Written { id, model: decided.decision.arm.as_str(), created_s: decided.decision.id.created_s() }
}

/// What the journal holds of an answer.
fn said(outcome: &Outcome) -> Answer {
    let call = |call: &crate::round::ToolCall| ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    let sum = |tokens: fn(&crate::round::Call) -> u64| outcome.calls.iter().map(tokens).sum();
    let usage = Usage {
        input_tokens: sum(|call| call.input_tokens),
        output_tokens: sum(|call| call.output_tokens),
        ..Usage::default()
    };
    Answer {
        text: outcome.output.clone(),
        tool_calls: outcome.tool_calls.iter().map(call).collect(),
        finish: None,
        usage: Some(usage),
    }
}
