//! The driver that needs no model: rounds until an answer is verified, and a team of fixed shape. The worker that was drawn makes
//! every call, so that what is learnt of (mode, worker) is of that worker.
//!
//! Rounds: call again, each call seeing the last output and what the verifiers said of it, until one passes; the answer is the best
//! verified output, the last where verifiers say nothing. Team: a planner; two executors that see the plan; where neither is verified
//! a verifier that sees both; a summarizer that sees what there is.

use async_trait::async_trait;

use super::{Driver, DriverError, SeenCall, View, Written};
use crate::{
    grammar::{Answer, Request, Role, Turn},
    round::Mode,
};

/// What a second executor is asked, so that it does not only repeat the first.
const ANOTHER_WAY: &str = "Take another way than the obvious one, and check each step.";

/// The driver.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rule;

#[async_trait]
impl Driver for Rule {
    fn name(&self) -> &'static str {
        "rule"
    }

    async fn next(&mut self, view: &View<'_>) -> Result<Written, DriverError> {
        let turn = match view.mode {
            Mode::Single | Mode::Multi => rounds(view),
            Mode::Agentic => team(view),
        };
        Ok(Written { turn, probability: Some(1.0) })
    }
}

fn rounds(view: &View<'_>) -> Turn {
    let verified = view.seen.iter().any(|call| passes(view, call));
    let silent = view.seen.iter().all(|call| call.score.is_none() && !call.output.is_empty());
    let end = verified || silent || view.episode.calls_left() == 0;
    match view.seen.len().checked_sub(1).filter(|_| end && view.episode.may_answer()) {
        Some(last) => Turn::Answer(Answer::Node(best(view.seen, |_| true).unwrap_or(last))),
        None => Turn::Calls(vec![request(view, None, vec![], "")]),
    }
}

fn team(view: &View<'_>) -> Turn {
    let nodes = view.episode.nodes();
    if view.episode.may_answer() {
        return Turn::Answer(Answer::Node(nodes.len() - 1));
    }
    let of = |role: Role| -> Vec<usize> { (0..nodes.len()).filter(|node| nodes[*node].role == Some(role)).collect() };
    let (plans, tries) = (of(Role::Planner), of(Role::Executor));
    Turn::Calls(match nodes.last().map(|node| node.layer) {
        None => vec![request(view, Some(Role::Planner), vec![], "")],
        Some(0) => {
            let execute = |task| request(view, Some(Role::Executor), plans.clone(), task);
            vec![execute(""), execute(ANOTHER_WAY)]
        }
        Some(1) if !tries.iter().any(|node| passes(view, &view.seen[*node])) => {
            vec![request(view, Some(Role::Verifier), tries, "")]
        }
        Some(_) => vec![request(view, Some(Role::Summarizer), (plans.len()..nodes.len()).collect(), "")],
    })
}

fn request(view: &View<'_>, role: Option<Role>, refs: Vec<usize>, task: &str) -> Request {
    Request { worker: view.first, role, refs, task: task.into() }
}

fn passes(view: &View<'_>, call: &SeenCall) -> bool {
    call.score.is_some_and(|score| score >= view.pass_score)
}

/// The output with the highest score among those that are answers, the later one of two alike; of outputs without a score the last.
pub(in crate::modes) fn best(seen: &[SeenCall], eligible: impl Fn(usize) -> bool) -> Option<usize> {
    let answers = (0..seen.len()).filter(|node| {
        let answers = seen[*node].role != "planner" && seen[*node].role != "verifier";
        answers && !seen[*node].output.is_empty() && eligible(*node)
    });
    let score = |node: usize| seen[node].score.unwrap_or(-1.0);
    answers.max_by(|a, b| score(*a).total_cmp(&score(*b)).then(a.cmp(b)))
}
