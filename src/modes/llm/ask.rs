//! One request to the model.

use serde_json::json;

use super::{History, Llm};
use crate::{
    arms::{
        estimate_tokens,
        worker::{Ask, WorkerError},
    },
    chat::{ChatRequest, Finish, Protocol},
    round::{Domain, Message, Metadata, Task, TaskId},
};

/// What the model is to go on from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prompt {
    /// The messages; never empty.
    pub messages: Vec<Message>,
    /// Where it stops.
    pub stop: &'static [&'static str],
    /// Tokens that it may write.
    pub tokens_max: u32,
    /// How long it may take, in milliseconds, at least 1.
    pub limit_ms: u64,
}

/// What the model said.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// Its words, as they came.
    pub text: String,
    /// Whether it came to an end by itself or at a word where it was to stop, and not at the limit of tokens.
    pub is_ended: bool,
    /// Dollars that it cost.
    pub cost_usd: f64,
}

impl Llm {
    /// Asks once.
    pub(super) async fn ask(&self, prompt: &Prompt) -> Result<Said, WorkerError> {
        let unfit = |why: String| WorkerError::Unsupported(why);
        let chat =
            ChatRequest::parse(Protocol::OpenAi, &self.body(prompt)).map_err(|error| unfit(error.to_string()))?;
        let id = TaskId::new("llm").map_err(|error| unfit(error.to_string()))?;
        let mut task = Task::plain(id, Domain::unknown(), "", Metadata::new());
        task.messages.clone_from(&prompt.messages);
        task.constraints.deadline_ms = Some(prompt.limit_ms);
        let reply = self.worker.answer(&Ask { chat: Some(&chat), ..Ask::of(&task) }).await?;
        let read = || prompt.messages.iter().map(|message| message.content.len()).sum();
        let cost_usd = match (reply.cost_usd, reply.said.usage) {
            (Some(cost_usd), _) => cost_usd,
            (None, Some(usage)) => self.prices.cost_usd(usage.input_tokens, usage.output_tokens),
            (None, None) => self.prices.cost_usd(estimate_tokens(read()), estimate_tokens(reply.said.text.len())),
        };
        let is_ended = reply.said.finish != Some(Finish::Length);
        Ok(Said { text: reply.said.text, is_ended, cost_usd })
    }

    fn body(&self, prompt: &Prompt) -> Vec<u8> {
        let mut body = json!({
            "model": "auto",
            "messages": prompt.messages,
            "temperature": self.settings.temperature,
            "top_p": self.settings.top_p,
            "max_tokens": prompt.tokens_max,
            "stop": prompt.stop,
        });
        let goes_on = prompt.messages.last().is_some_and(|last| last.role == "assistant");
        if goes_on && self.settings.history == History::Continued {
            body["add_generation_prompt"] = false.into();
            body["continue_final_message"] = true.into();
        }
        body.to_string().into_bytes()
    }
}
