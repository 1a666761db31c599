//! `POST /v1/tasks/stream`: NDJSON in, NDJSON out, of any length.
//!
//! A line's answer is written as soon as its task is finished, or in input order with `?order=input`. A bad line
//! answers with a problem under its line number and the stream goes on. While as many tasks are in flight as the
//! limit allows, no more of the body is read, so a fast client is slowed to the pace of the workers. When the daemon stops, the
//! lines that it has read are answered, and the response ends.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    ApiState, Caller, Problem,
    openapi::problems::{problems, shared},
    request::{Object, Parameters, TaskRequest, parse},
    tasks::{TaskAnswer, answer},
};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Options {
    /// In which order answers come.
    #[serde(default)]
    order: Order,
}

/// In which order answers come.
#[derive(Debug, Default, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// As tasks finish.
    #[default]
    Finished,
    /// As lines came.
    Input,
}

/// One line of a stream's answer.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = StreamLine)]
pub(super) enum Line {
    /// The task of the line was run.
    Answered(Answered),
    /// It was not.
    Refused(Refused),
}

/// The answer to one line of a stream.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamAnswer)]
pub(super) struct Answered {
    /// The line that it belongs to, counted from 1.
    line: u64,
    #[serde(flatten)]
    answer: Box<TaskAnswer>,
}

/// Why one line of a stream has no answer.
#[derive(Serialize, ToSchema)]
#[schema(as = StreamProblem)]
pub(super) struct Refused {
    /// The line that it belongs to, counted from 1.
    line: u64,
    /// Why, and what to do.
    problem: Problem,
}

problems!(StreamProblems: shared::CLIENT, &["invalid-query"]);

/// Runs tasks line by line, with answers as they finish; a wrong line answers with its problem and the stream goes on.
#[utoipa::path(
    post,
    path = "/v1/tasks/stream",
    operation_id = "stream_tasks",
    tag = "tasks",
    params(Options),
    request_body(content = Option<String>, content_type = "application/x-ndjson", description = "A `TaskRequest` on each line, of any number"),
    responses(
        (status = 200, description = "A `StreamLine` on each line", content_type = "application/x-ndjson", body = String),
        StreamProblems
    )
)]
pub(super) async fn run(
    State(state): State<ApiState>,
    caller: Caller,
    Parameters(Options { order }): Parameters<Options>,
    request: axum::extract::Request,
) -> Result<Response, Problem> {
    let concurrency = state.limits.stream_concurrency;
    // A stream may go on for ever; a daemon that stops reads no further, and answers what it has read.
    let lines = lines(request.into_body().into_data_stream(), state.limits.line_bytes_max)
        .take_until(state.stopping.clone().cancelled_owned());
    let answers = lines.map(move |(number, line)| {
        let (state, caller) = (state.clone(), caller.clone());
        async move { one(&state, &caller, number, line).await }
    });
    let body = match order {
        Order::Finished => Body::from_stream(answers.buffer_unordered(concurrency)),
        Order::Input => Body::from_stream(answers.buffered(concurrency)),
    };
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

async fn one(
    state: &ApiState,
    caller: &Caller,
    line: u64,
    bytes: Result<Bytes, Problem>,
) -> Result<Bytes, std::convert::Infallible> {
    let answered = async {
        let task = parse::<Object<TaskRequest>>(&bytes?)?.0.into_task(&HeaderMap::new(), caller)?;
        // A tenant's rate slows the stream down; it refuses no line.
        answer(state.router.run_in_turn(task).await?)
    };
    let line = match answered.await {
        Ok(answer) => Line::Answered(Answered { line, answer: Box::new(answer) }),
        Err(problem) => Line::Refused(Refused { line, problem }),
    };
    let mut text = serde_json::to_vec(&line).unwrap_or_else(|error| {
        // Answers hold only finite numbers and text, so this cannot happen; if it does, it must be seen.
        tracing::error!(%error, "an answer could not be written");
        b"{}".to_vec()
    });
    text.push(b'\n');
    Ok(text.into())
}

type Numbered = (u64, Result<Bytes, Problem>);

/// Splits a body into numbered lines, counted from 1. Blank lines are passed over; one that is too long is a problem
/// and its rest is passed over.
fn lines<E: std::fmt::Display>(
    chunks: impl Stream<Item = Result<Bytes, E>> + Send + Unpin,
    line_bytes_max: usize,
) -> impl Stream<Item = Numbered> + Send {
    let splitter = Splitter { buffer: Vec::new(), number: 0, skipping: false, line_bytes_max };
    stream::unfold((chunks, splitter, false), |(mut chunks, mut splitter, ended)| async move {
        if ended {
            return None;
        }
        let (found, ended) = match chunks.next().await {
            Some(Ok(chunk)) => (splitter.push(&chunk), false),
            Some(Err(error)) => {
                // The client went away; whole lines so far were answered or are being worked on.
                tracing::info!(%error, "a task stream broke off");
                (vec![], true)
            }
            None => (splitter.end(), true),
        };
        Some((stream::iter(found), (chunks, splitter, ended)))
    })
    .flatten()
}

struct Splitter {
    buffer: Vec<u8>,
    number: u64,
    skipping: bool,
    line_bytes_max: usize,
}

impl Splitter {
    fn push(&mut self, chunk: &[u8]) -> Vec<Numbered> {
        let mut found = Vec::new();
        let mut parts = chunk.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let complete = parts.peek().is_some();
            if !self.skipping && self.buffer.len() + part.len() > self.line_bytes_max {
                self.skipping = true;
                self.buffer = Vec::new();
                let detail = format!("the line is over {} bytes and was passed over", self.line_bytes_max);
                found.push((self.number + 1, Err(Problem::too_large(detail))));
            }
            if !self.skipping {
                self.buffer.extend_from_slice(part);
            }
            if complete {
                self.finish(&mut found);
            }
        }
        found
    }

    fn finish(&mut self, found: &mut Vec<Numbered>) {
        self.number += 1;
        let line = std::mem::take(&mut self.buffer);
        if !std::mem::take(&mut self.skipping) && !line.trim_ascii().is_empty() {
            found.push((self.number, Ok(line.into())));
        }
    }

    fn end(&mut self) -> Vec<Numbered> {
        let mut found = Vec::new();
        self.finish(&mut found);
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(chunks: &[&[u8]], max: usize) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut splitter = Splitter { buffer: vec![], number: 0, skipping: false, line_bytes_max: max };
        let mut found: Vec<_> = chunks.iter().flat_map(|chunk| splitter.push(chunk)).collect();
        found.extend(splitter.end());
        found.into_iter().map(|(number, line)| (number, line.ok().map(|bytes| bytes.to_vec()))).collect()
    }

    #[test]
    fn a_line_that_is_too_long_is_a_problem_and_the_next_one_is_read() {
        let found = split(&[b"ok\n12345", b"6789\nok2\n\n", b"last"], 6);
        let ok = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(found, [(1, ok("ok")), (2, None), (3, ok("ok2")), (5, ok("last"))]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_where_chunks_end(
            text in "[ab\n]{0,60}",
            cuts in prop::collection::vec(0usize..60, 0..6),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.sort_unstable();
            let mut chunks = vec![];
            let mut rest = text.as_bytes();
            let mut taken = 0;
            for cut in cuts {
                let (head, tail) = rest.split_at(cut - taken);
                chunks.push(head);
                rest = tail;
                taken = cut;
            }
            chunks.push(rest);
            prop_assert_eq!(split(&chunks, 8), split(&[text.as_bytes()], 8));
        }
    }
}
