//! `pointsman serve` and `pointsman check-config`.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use pointsman::config::{Config, check as check_text};

use super::{
    daemon::{Daemon, asked_to_stop},
    folders::{DataFolder, Folders},
};

#[derive(Args)]
#[command(after_help = "Examples:
  pointsman serve --config pointsman.toml
  pointsman serve --config pointsman.toml --data-dir ./state --listen 127.0.0.1:0")]
pub(super) struct ServeArguments {
    /// The configuration file; see pointsman.example.toml.
    #[arg(long, value_name = "FILE", default_value = "pointsman.toml")]
    config: PathBuf,
    /// Where state is kept [default: the user's data folder].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Overrides server.listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

#[derive(Args)]
pub(super) struct CheckArguments {
    /// The configuration file.
    #[arg(value_name = "FILE", default_value = "pointsman.toml")]
    config: PathBuf,
}

pub(super) fn check(arguments: &CheckArguments) -> Result<()> {
    let config = read(&arguments.config, None)?;
    println!("{} is right: {} arms, {} domains", arguments.config.display(), config.arms.len(), config.domains.len());
    Ok(())
}

pub(super) async fn run(arguments: ServeArguments, folders: &Folders) -> Result<()> {
    let config = read(&arguments.config, arguments.listen)?;
    let data = DataFolder::lock(arguments.data_dir.as_deref().unwrap_or(&folders.data))?;
    eprintln!("Data folder: {}", data.path.display());
    let daemon = Daemon::start(&config, folders, data).await?;
    let opened = daemon.opened;
    match opened.resumed {
        Some(resumed) => eprintln!(
            "Resumed from the checkpoint at journal event {} ({} rounds learnt) and read {} events after it",
            resumed.at, resumed.rounds, opened.read
        ),
        None => eprintln!("No checkpoint: folded the journal from zero, {} events", opened.read),
    }
    eprintln!(
        "{} rounds learnt in all, {} memory entries written again, {:.1} s",
        opened.rounds,
        opened.memory_rewritten,
        opened.took.as_secs_f64()
    );
    if opened.memory_behind > 0 {
        eprintln!("Memory does not answer yet: {} entries wait for it", opened.memory_behind);
    }
    let who = match (daemon.state.exposed, daemon.state.router.keys().is_empty(), daemon.state.admin_key.is_some()) {
        (false, true, false) => "loopback only: no key was made, and whoever is on this machine is trusted",
        (false, true, true) => "loopback only: no key was made; changes need $POINTSMAN_ADMIN_KEY",
        (true, _, _) | (_, false, _) => "every request needs a key",
    };
    let stop = asked_to_stop();
    println!("Listening on {0} ({who}); page: {0}/dashboard", daemon.url);
    stop.await;
    eprintln!("Finishing what is running ...");
    daemon.stop().await
}

/// Reads and checks a file. An address given on the command line replaces the file's.
pub(super) fn read(path: &Path, listen: Option<SocketAddr>) -> Result<Config> {
    let text = fs::read_to_string(path).with_context(|| {
        format!("cannot read {}: copy pointsman.example.toml there, or give --config FILE", path.display())
    })?;
    let text = match listen {
        Some(address) => with_listen(&text, address)?,
        None => text,
    };
    let base = path.parent().unwrap_or(Path::new("."));
    Ok(check_text(&text, base, &|name| std::env::var(name).ok())?)
}

/// The same file with another address, so that it is checked by the same rules.
fn with_listen(text: &str, address: SocketAddr) -> Result<String> {
    let Ok(mut table) = text.parse::<toml::Table>() else { return Ok(text.into()) };
    let server = table.entry("server").or_insert_with(|| toml::Table::new().into());
    if let Some(server) = server.as_table_mut() {
        server.insert("listen".into(), address.to_string().into());
    }
    toml::to_string(&table).context("the configuration cannot be written again")
}
