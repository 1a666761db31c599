//! `POST /v1/chat/completions` and `POST /v1/messages`: the two chat protocols, for clients that change their base URL and
//! nothing else.
//!
//! The model is `auto`, `auto:DOMAIN`, or an arm's name, which pins it. Headers say what the body cannot: the domain, the
//! session, the tenant, how much money counts. Answers carry headers that say what was decided. Errors are the protocol's own.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde_json::json;

use super::{
    ApiState, Caller, Problem,
    openapi::{
        chat::{AnthropicAnswers, AnthropicChat, OpenAiAnswers, OpenAiChat},
        parts::ChatHeaders,
        problems::{Form, problems, shared},
    },
    request::body,
};
use crate::{
    chat::{ChatError, ChatRequest, ErrorKind, Protocol, error_body},
    round::{
        ArmId, CallStatus, Constraints, Domain, IdempotencyKey, Invalid, Message, Metadata, OutcomeStatus,
        RewardWeights, SessionId, Task, TaskId, TenantId,
    },
    router::{ChatRound, ChatStream, Decided, Streamed, WorkerError},
};

/// The model that leaves the choice to the router.
pub(super) const AUTO: &str = "auto";
/// What is embedded of a message that holds no text.
const NO_TEXT: &str = "(no text)";

/// Problems of chats, besides those of tasks.
const CHAT: &[&str] =
    &["invalid-json", "body-timeout", "too-large", "unknown-model", "invalid-request", "worker-failed"];

/// Where each protocol is spoken.
const ROUTES: [(&str, Protocol); 2] =
    [("/v1/chat/completions", Protocol::OpenAi), ("/v1/messages", Protocol::Anthropic)];

/// A problem in the form of the protocol that a route speaks, if it speaks one.
pub(super) fn in_protocol(route: &str, problem: &Problem) -> Option<Response> {
    let (_, protocol) = ROUTES.into_iter().find(|(known, _)| *known == route)?;
    Some(refused(protocol, problem))
}

problems!(OpenAiProblems = Form::Chat("OpenAiError"), shared::CLIENT, shared::TASK, shared::DURABLE, CHAT);
problems!(AnthropicProblems = Form::Chat("AnthropicError"), shared::CLIENT, shared::TASK, shared::DURABLE, CHAT);

/// Answers a chat of OpenAI's protocol.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    operation_id = "chat_completions",
    tag = "chat",
    params(ChatHeaders),
    request_body = OpenAiChat,
    responses(OpenAiAnswers, OpenAiProblems)
)]
pub(super) async fn completions(State(state): State<ApiState>, caller: Caller, request: Request) -> Response {
    answer(&state, &caller, Protocol::OpenAi, request).await
}

/// Answers a chat of Anthropic's protocol.
#[utoipa::path(
    post,
    path = "/v1/messages",
    operation_id = "messages",
    tag = "chat",
    params(ChatHeaders),
    request_body = AnthropicChat,
    responses(AnthropicAnswers, AnthropicProblems)
)]
pub(super) async fn messages(State(state): State<ApiState>, caller: Caller, request: Request) -> Response {
    answer(&state, &caller, Protocol::Anthropic, request).await
}

async fn answer(state: &ApiState, caller: &Caller, protocol: Protocol, request: Request) -> Response {
    match run(state, caller, protocol, request).await {
        Ok(response) => response,
        Err(problem) => refused(protocol, &problem),
    }
}

async fn run(state: &ApiState, caller: &Caller, protocol: Protocol, request: Request) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let bytes = body(request, state).await?;
    let mut chat = ChatRequest::parse(protocol, &bytes)?;
    let mut task = task(state, &mut chat, &headers)?;
    caller.own(&mut task)?;
    let explain = flag(&headers, "x-pointsman-explain")?;
    let chat = Arc::new(chat);
    if chat.stream() {
        return Ok(match state.router.chat_stream(task, chat).await? {
            Streamed::Begun(begun) => streamed(begun, explain),
            Streamed::Failed(round) => failed(protocol, *round, explain),
        });
    }
    let round = state.router.chat(task, chat, explain).await?;
    if round.outcome.status == OutcomeStatus::Failed {
        return Ok(failed(protocol, round, explain));
    }
    let ChatRound { decided: by, outcome, score, repeated, body, .. } = round;
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    decided(&by, explain, response.headers_mut());
    set(response.headers_mut(), "x-pointsman-cost-usd", &outcome.cost_usd.to_string());
    if let Some(score) = score {
        set(response.headers_mut(), "x-pointsman-score", &score.get().to_string());
    }
    if repeated {
        set(response.headers_mut(), "x-pointsman-repeated", "true");
    }
    Ok(response)
}

/// The task that a chat is.
fn task(state: &ApiState, chat: &mut ChatRequest, headers: &HeaderMap) -> Result<Task, Problem> {
    let mut constraints = Constraints { needs: chat.needs().to_vec(), ..Constraints::default() };
    let mut domain = None;
    match chat.model().split_once(':') {
        Some((AUTO, named)) => domain = Some(Domain::new(named)?),
        _ if chat.model() == AUTO => {}
        _ => constraints.arms = Some(vec![pinned(state, chat.model())?]),
    }
    if let Some(named) = text(headers, "x-pointsman-domain")? {
        domain = Some(Domain::new(named)?);
    }
    let task = Task {
        id: TaskId::generate(),
        domain: domain.unwrap_or_else(Domain::unknown),
        messages: texts(chat),
        metadata: Metadata::new(),
        constraints,
        reward: reward(headers)?,
        alpha: alpha(headers)?,
        session: text(headers, "x-pointsman-session")?.map(SessionId::new).transpose()?,
        tenant: text(headers, "x-pointsman-tenant")?.map(TenantId::new).transpose()?,
        idempotency_key: text(headers, "idempotency-key")?.map(IdempotencyKey::new).transpose()?,
    };
    task.validate()?;
    Ok(task)
}

/// The texts. A request of images alone has none, and is told by that.
fn texts(chat: &mut ChatRequest) -> Vec<Message> {
    let mut messages = chat.take_messages();
    if let Some(last) = messages.iter_mut().rev().find(|message| message.role == "user")
        && last.content.trim().is_empty()
    {
        NO_TEXT.clone_into(&mut last.content);
    }
    messages
}

/// The arm of a model's name.
fn pinned(state: &ApiState, model: &str) -> Result<ArmId, Problem> {
    let known = state.router.arm_ids();
    if let Some(arm) = known.iter().find(|arm| arm.as_str() == model) {
        return Ok(arm.clone());
    }
    let names = known.iter().map(ArmId::as_str).collect::<Vec<_>>().join(", ");
    let detail = format!("there is no model {model:?}; ask for auto, auto:DOMAIN, or one of: {names}");
    Err(Problem::new(StatusCode::NOT_FOUND, "unknown-model", "There is no such model", detail))
}

/// The weights of the reward: `X-Pointsman-Reward: e1,e2`, or `X-Pointsman-Alpha: a`, which is (1 - a, -a).
/// What cost weighs, for policies that were trained on it: the same header that the reward is made of. Its range was checked there.
fn alpha(headers: &HeaderMap) -> Result<Option<f64>, Problem> {
    Ok(text(headers, "x-pointsman-alpha")?.and_then(|alpha| alpha.trim().parse().ok()))
}

fn reward(headers: &HeaderMap) -> Result<Option<RewardWeights>, Problem> {
    let number = |field: &'static str, text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| Invalid::new(field, format!("{text:?} is not a number")))
    };
    let weights = match (text(headers, "x-pointsman-reward")?, text(headers, "x-pointsman-alpha")?) {
        (Some(_), Some(_)) => {
            return Err(Invalid::new("X-Pointsman-Alpha", "cannot come with X-Pointsman-Reward; send one").into());
        }
        (Some(both), None) => {
            let field = "X-Pointsman-Reward";
            let (e1, e2) = both.split_once(',').ok_or_else(|| Invalid::new(field, "must be e1,e2 such as 1,-0.1"))?;
            RewardWeights { e1: number(field, e1)?, e2: number(field, e2)? }
        }
        (None, Some(alpha)) => {
            let alpha = number("X-Pointsman-Alpha", alpha)?;
            if !(0.0..1.0).contains(&alpha) {
                return Err(Invalid::new("X-Pointsman-Alpha", "must be from 0 to below 1").into());
            }
            RewardWeights { e1: 1.0 - alpha, e2: -alpha }
        }
        (None, None) => return Ok(None),
    };
    weights.validate()?;
    Ok(Some(weights))
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Invalid> {
    let ascii = |value: &'a HeaderValue| value.to_str().map_err(|_| Invalid::new(name, "must be printable ASCII"));
    headers.get(name).map(ascii).transpose()
}

fn flag(headers: &HeaderMap, name: &'static str) -> Result<bool, Invalid> {
    match text(headers, name)? {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(_) => Err(Invalid::new(name, "must be true or false")),
    }
}

fn streamed(ChatStream { decided: by, frames }: ChatStream, explain: bool) -> Response {
    let frames = stream::unfold(frames, |mut frames| async { Some((frames.recv().await?, frames)) });
    let body = Body::from_stream(frames.map(Ok::<_, Infallible>));
    let mut response =
        ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body).into_response();
    // Proxies that gather an answer before they hand it on would undo the streaming.
    set(response.headers_mut(), "x-accel-buffering", "no");
    decided(&by, explain, response.headers_mut());
    response
}

/// What was decided, as headers.
fn decided(Decided { decision, observed, task, .. }: &Decided, explain: bool, headers: &mut HeaderMap) {
    set(headers, "x-pointsman-decision", &decision.id.to_string());
    set(headers, "x-pointsman-arm", decision.arm.as_str());
    set(headers, "x-pointsman-mode", &decision.mode.to_string());
    set(headers, "x-pointsman-domain", task.domain.as_str());
    set(headers, "x-pointsman-propensity", &decision.propensity.get().to_string());
    if let Some(failed) = observed.instead_of {
        set(headers, "x-pointsman-instead-of", &failed.to_string());
    }
    if explain {
        let why = json!({"reason": decision.reason, "policy": decision.policy, "pmf": decision.pmf, "masked": observed.masked});
        set(headers, "x-pointsman-explain", &why.to_string());
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // All are numbers, names of printable ASCII, or JSON of such.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// No worker answered. A request that the worker itself refused is the client's to mend, with the worker's own words.
fn failed(protocol: Protocol, round: ChatRound, explain: bool) -> Response {
    let ChatRound { decided: by, outcome, failure, .. } = round;
    let arm = &by.decision.arm;
    let why = outcome
        .calls
        .iter()
        .rev()
        .find_map(|call| match &call.status {
            CallStatus::Error(why) => Some(why.as_str()),
            CallStatus::Ok => None,
        })
        .unwrap_or("no reason was given");
    let (status, kind) = match &failure {
        Some(WorkerError::Refused { status, .. }) => {
            let kind = if *status == 413 { ErrorKind::TooLarge } else { ErrorKind::InvalidRequest };
            (StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST), kind)
        }
        Some(WorkerError::Unsupported(_)) => (StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest),
        Some(WorkerError::Overloaded { .. } | WorkerError::Busy(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Overloaded)
        }
        Some(WorkerError::TimedOut(_) | WorkerError::Stalled(_)) => (StatusCode::GATEWAY_TIMEOUT, ErrorKind::Server),
        Some(_) | None => (StatusCode::BAD_GATEWAY, ErrorKind::Server),
    };
    let body = error_body(protocol, kind, &format!("arm {arm} gave no answer: {why}"));
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    decided(&by, explain, response.headers_mut());
    response
}

/// A problem in the protocol's own form.
fn refused(protocol: Protocol, problem: &Problem) -> Response {
    let kind = match problem.status().as_u16() {
        401 => ErrorKind::Authentication,
        403 => ErrorKind::Permission,
        404 => ErrorKind::NotFound,
        413 => ErrorKind::TooLarge,
        402 | 429 => ErrorKind::RateLimit,
        503 | 529 => ErrorKind::Overloaded,
        400..=499 => ErrorKind::InvalidRequest,
        _ => ErrorKind::Server,
    };
    // Neither protocol knows 422.
    let status = match problem.status() {
        StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        other => other,
    };
    let body = error_body(protocol, kind, problem.detail());
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    set(response.headers_mut(), "x-pointsman-problem", problem.kind());
    if let Some(seconds) = problem.retry_after_s() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

impl From<ChatError> for Problem {
    fn from(error: ChatError) -> Self {
        let detail = error.to_string();
        match error {
            ChatError::Invalid { field, .. } | ChatError::Untranslatable { field, .. } => {
                Self::new(StatusCode::BAD_REQUEST, "invalid-request", "A field is not valid", detail)
                    .with("field", field)
            }
            ChatError::Answer { .. } | ChatError::Broken(_) | ChatError::FrameTooLong(_) => Self::internal(&detail),
        }
    }
}
