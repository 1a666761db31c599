//! `pointsman webhooks`: how webhooks are doing, a message to try one, and signatures for those who write a receiver.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use pointsman::{
    journal::now_ms,
    webhooks::{Secrets, TestReport, WebhookReport},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    ask::{Running, Where, show, table},
    folders::Folders,
};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman webhooks list                        where each is in the journal, what was taken, what waits
  pointsman webhooks test billing                send a signed webhook.test now, and say what the receiver answered
  echo whsec_$(openssl rand -base64 32)          make a secret
  SECRET=whsec_... pointsman webhooks sign --secret-env SECRET --id msg_1 body.json
                                                 the headers of a message, to test a receiver with

`list` and `test` ask a running daemon, with the admin key in $POINTSMAN_ADMIN_KEY where one is needed. `sign` needs none.")]
pub(super) struct WebhooksArguments {
    #[command(flatten)]
    place: Where,
    #[command(subcommand)]
    command: WebhooksCommand,
}

#[derive(Subcommand)]
enum WebhooksCommand {
    /// Show all webhooks.
    List,
    /// Send a message of type webhook.test now; the exit code is 1 if it was not taken.
    Test {
        /// The webhook.
        name: String,
    },
    /// Sign a body as the daemon does.
    Sign(SignArguments),
}

#[derive(Args)]
struct SignArguments {
    /// The variable that holds the secret, whsec_BASE64.
    #[arg(long, value_name = "VARIABLE")]
    secret_env: String,
    /// The message's id.
    #[arg(long, default_value = "msg_example")]
    id: String,
    /// Seconds since 1970 [default: now].
    #[arg(long, value_name = "SECONDS")]
    timestamp: Option<u64>,
    /// The body; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    body: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    webhooks: Vec<WebhookReport>,
}

pub(super) async fn run(arguments: WebhooksArguments, folders: &Folders) -> Result<()> {
    let WebhooksArguments { place, command } = arguments;
    match command {
        WebhooksCommand::List => {
            let listed: Listed = Running::find(&place, folders)?.get("/v1/webhooks", &[]).await?;
            show(place.json, &listed.webhooks, |webhooks| render(webhooks))
        }
        WebhooksCommand::Test { name } => {
            let path = format!("/v1/webhooks/{}/test", super::ask::escape(&name));
            let report: TestReport = Running::find(&place, folders)?.post(&path, json!({})).await?;
            show(place.json, &report, told)?;
            if !report.taken {
                bail!("{name} did not take the message");
            }
            Ok(())
        }
        WebhooksCommand::Sign(arguments) => sign(place.json, &arguments),
    }
}

fn sign(as_json: bool, arguments: &SignArguments) -> Result<()> {
    let SignArguments { secret_env, id, timestamp, body } = arguments;
    let text = std::env::var(secret_env).with_context(|| format!("${secret_env} is not set"))?;
    let secrets = Secrets::parse(&text).with_context(|| format!("${secret_env}"))?;
    let bytes = read(body)?;
    let timestamp = timestamp.unwrap_or_else(|| now_ms().unsigned_abs() / 1_000);
    let signature = secrets.sign(id, timestamp, &bytes);
    let headers = json!({"webhook-id": id, "webhook-timestamp": timestamp.to_string(), "webhook-signature": signature});
    show(as_json, &headers, |_| {
        format!("webhook-id: {id}\nwebhook-timestamp: {timestamp}\nwebhook-signature: {signature}")
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    Ok(bytes)
}

fn told(report: &TestReport) -> String {
    let TestReport { webhook, message_id, status, answer, problem, took_ms, .. } = report;
    let said = match (problem, status) {
        (Some(problem), _) => format!("not taken: it {problem}"),
        (None, Some(status)) => format!("taken with {status}"),
        (None, None) => "taken".into(),
    };
    let answer = if answer.is_empty() { String::new() } else { format!("; it said: {answer}") };
    format!("{webhook}: {message_id} was {said} after {took_ms:.0} ms{answer}")
}

fn render(webhooks: &[WebhookReport]) -> String {
    if webhooks.is_empty() {
        return "there is no webhook: write [[webhooks]] into the configuration, see docs/webhooks.md".into();
    }
    let header = ["name", "status", "behind", "waiting", "delivered", "failed", "given up", "next try", "last error"];
    let mut table = table(header, &[2, 3, 4, 5, 6, 7]);
    for webhook in webhooks {
        let next = webhook.next_try_ms.map(|at| format!("in {:.0} s", ((at - now_ms()) as f64 / 1e3).max(0.0)));
        table.add_row([
            webhook.name.to_string(),
            webhook.status.as_str().to_owned(),
            webhook.behind.to_string(),
            webhook.waiting.to_string(),
            webhook.delivered.to_string(),
            webhook.failed.to_string(),
            webhook.given_up.to_string(),
            next.unwrap_or_default(),
            webhook.last_error.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}
