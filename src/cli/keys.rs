//! `pointsman keys`: make, list and revoke API keys, through the daemon that has the data folder, or in the folder itself.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use pointsman::{
    access::{Keys, NewKey},
    api::{KeyReport, KeyStatus},
    journal::{Journal, JournalReader, now_ms},
    round::{KeyId, KeyName, KeyRole, TenantId},
    router::{create_key, keys_of, revoke_key},
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    ask::{Running, Where, show, table},
    folders::{DataFolder, Folders, Owner},
    memory::open_journal,
};

/// The model that a new journal is opened for; it matters to tasks only, and there are none yet.
const NO_MODEL: &str = "none";

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman keys create --name me --role admin            the first key: from then on every request needs one
  pointsman keys create --name shop --tenant acme --days 90
  pointsman keys create --name ci > key.txt               the key alone is on standard output
  pointsman keys list
  pointsman keys revoke abcdefghij23

A running daemon is asked over HTTP, with the admin key in $POINTSMAN_ADMIN_KEY. With the daemon stopped no key is needed: whoever
may write to the data folder may make one.")]
pub(super) struct KeysArguments {
    #[command(flatten)]
    place: Where,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Make a key. It is shown once: what is kept is a hash.
    Create(CreateArguments),
    /// List all keys, without their secret parts.
    List,
    /// Revoke a key, at once and for good.
    Revoke {
        /// Its id: what stands between the underscores of pm_ID_SECRET.
        id: KeyId,
    },
}

#[derive(Args)]
struct CreateArguments {
    /// What people call it.
    #[arg(long, value_name = "NAME")]
    name: KeyName,
    /// What it lets do: send tasks and feedback, or all.
    #[arg(long, value_enum, default_value_t = Role::Client)]
    role: Role,
    /// The tenant whose tasks it sends and sees.
    #[arg(long, value_name = "NAME")]
    tenant: Option<TenantId>,
    /// Days until it opens nothing any more [default: never].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    days: Option<u16>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Client,
    Admin,
}

/// A key that was just made.
#[derive(Serialize, Deserialize)]
struct Made {
    #[serde(flatten)]
    report: KeyReport,
    key: String,
}

#[derive(Deserialize)]
struct Listed {
    keys: Vec<KeyReport>,
}

/// Who answers.
enum Target {
    Daemon(Running),
    Here { data: DataFolder, keys: Keys },
}

pub(super) async fn run(arguments: KeysArguments, folders: &Folders) -> Result<()> {
    let KeysArguments { place, command } = arguments;
    let target = Target::find(&place, folders).await?;
    match command {
        KeysCommand::Create(arguments) => {
            let made = target.create(arguments).await?;
            show(place.json, &made, |made| made.key.clone())?;
            eprintln!("Keep it: it is not shown again. Its id is {}.", made.report.id);
            Ok(())
        }
        KeysCommand::List => show(place.json, &target.list().await?, |keys| render(keys)),
        KeysCommand::Revoke { id } => {
            let report = target.revoke(id).await?;
            show(place.json, &report, |key| format!("{} ({}) opens nothing any more", key.id, key.name))
        }
    }
}

impl Target {
    async fn find(place: &Where, folders: &Folders) -> Result<Self> {
        if let Some(url) = &place.url {
            return Ok(Self::Daemon(Running::at(url)?));
        }
        let path: PathBuf = place.data_dir.clone().unwrap_or_else(|| folders.data.clone());
        if path.exists() {
            match DataFolder::owner(&path)? {
                Owner::Other { url: Some(url) } => return Ok(Self::Daemon(Running::at(&url)?)),
                Owner::Other { url: None } => {
                    bail!("the data folder {} is used by another process; wait until it ends", path.display())
                }
                // Given back at once, and locked below.
                Owner::Us(_) => {}
            }
        }
        let data = DataFolder::lock(&path)?;
        let keys = keys_of(&data.journal()).await?;
        Ok(Self::Here { data, keys })
    }

    async fn create(&self, arguments: CreateArguments) -> Result<Made> {
        let CreateArguments { name, role, tenant, days } = arguments;
        let role = match role {
            Role::Client => KeyRole::Client,
            Role::Admin => KeyRole::Admin,
        };
        match self {
            Self::Daemon(daemon) => {
                let body = json!({"name": name, "role": role, "tenant": tenant, "expires_in_days": days});
                daemon.post("/v1/keys", body).await
            }
            Self::Here { data, keys } => {
                let journal = journal(data).await?;
                let new = NewKey { name, role, tenant, expires_in_days: days };
                let issued = create_key(&journal, keys, new).await;
                journal.close().await;
                let issued = issued?;
                let report = KeyReport::of(&issued.record, now_ms());
                Ok(Made { report, key: issued.secret.reveal().to_owned() })
            }
        }
    }

    async fn list(&self) -> Result<Vec<KeyReport>> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.get::<Listed>("/v1/keys", &[]).await?.keys),
            Self::Here { keys, .. } => Ok(keys.list().iter().map(|key| KeyReport::of(key, now_ms())).collect()),
        }
    }

    async fn revoke(&self, id: KeyId) -> Result<KeyReport> {
        match self {
            Self::Daemon(daemon) => {
                let path = format!("/v1/keys/{id}");
                Ok(daemon.send(Method::DELETE, &path, |request| request).await?.json().await?)
            }
            Self::Here { data, keys } => {
                let journal = journal(data).await?;
                let revoked = revoke_key(&journal, keys, id).await;
                journal.close().await;
                Ok(KeyReport::of(&*revoked?, now_ms()))
            }
        }
    }
}

async fn journal(data: &DataFolder) -> Result<Journal> {
    let path = data.journal();
    let model = if path.exists() {
        let reader = JournalReader::open_recorded(&path).await?;
        let model = reader.embedding_model().to_owned();
        reader.close_reader().await;
        model
    } else {
        NO_MODEL.to_owned()
    };
    open_journal(data, &model).await
}

fn render(keys: &[KeyReport]) -> String {
    if keys.is_empty() {
        return "no key was made: loopback is trusted; make one with `pointsman keys create --name me --role admin`"
            .into();
    }
    let mut table = table(["id", "name", "role", "tenant", "status", "days left"], &[5]);
    for key in keys {
        let status = match key.status {
            KeyStatus::Usable => "usable",
            KeyStatus::Expired => "expired",
            KeyStatus::Revoked => "revoked",
        };
        let days = key.expires_at_ms.map(|at| ((at - now_ms()) as f64 / 86_400_000.0).max(0.0));
        table.add_row([
            key.id.to_string(),
            key.name.to_string(),
            key.role.as_str().to_owned(),
            key.tenant.as_ref().map(ToString::to_string).unwrap_or_default(),
            status.to_owned(),
            days.map(|days| format!("{days:.1}")).unwrap_or_default(),
        ]);
    }
    table.to_string()
}
