//! LiteLLM's proxy in front of the same worker, where the program is given.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(120);

/// How long it gets to come to itself after it stood still.
const SETTLES: Duration = Duration::from_secs(10);

/// The proxy; ended when dropped.
pub struct Proxy {
    child: Child,
    pub address: SocketAddr,
}

impl Proxy {
    /// The program that `POINTSMAN_LITELLM` names.
    pub fn program() -> Option<PathBuf> {
        std::env::var_os("POINTSMAN_LITELLM").map(PathBuf::from)
    }

    /// Starts it with as many worker processes as there are cores, in front of `worker`.
    pub async fn start(program: &Path, folder: &Path, worker: SocketAddr) -> Result<Self, String> {
        let config = folder.join("litellm.yaml");
        let text = format!(
            "model_list:\n  - model_name: auto\n    litellm_params:\n      model: openai/mock\n      api_base: http://{worker}/v1\n      \
             api_key: none\nlitellm_settings:\n  telemetry: false\n"
        );
        fs::write(&config, text).map_err(|error| error.to_string())?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| error.to_string())?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let log = File::create(folder.join("litellm.log")).map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--num_workers", &cores.to_string(), "--config"])
            .arg(&config)
            .env("LITELLM_LOG", "ERROR")
            // Without one it asks for no key of its clients, as the daemon on loopback does not.
            .env("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true")
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // Its processes are a group, so that all of them are stopped and ended.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let proxy = Self { child, address };
        let ready = async {
            let url = format!("http://{address}/health/liveliness");
            while !reqwest::get(&url).await.is_ok_and(|answer| answer.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let started = tokio::time::timeout(START_MAX, ready).await;
        started.map_err(|_| {
            let log = fs::read_to_string(folder.join("litellm.log")).unwrap_or_default();
            format!("LiteLLM's proxy did not start: {log}")
        })?;
        Ok(proxy)
    }

    /// Lets it run where it is the one that is measured, and stands it still while another one is: with nothing to do it still
    /// takes some of the processor.
    pub async fn runs_for(&self, measured: SocketAddr) {
        if measured == self.address {
            self.send(Signal::CONT);
            // Its processes watch each other, and have to find out that all are well.
            tokio::time::sleep(SETTLES).await;
        } else {
            self.send(Signal::STOP);
        }
    }

    fn send(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            // An error means that it has ended, which its clients will notice.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.send(Signal::CONT);
        self.send(Signal::TERM);
        let _ = self.child.wait();
    }
}
