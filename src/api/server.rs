//! How connections are served: HTTP/1 and HTTP/2 on one port, TLS where there is a certificate, and the limits that keep slow
//! and greedy clients from holding what others need.
//!
//! What clients meet: a head that does not come in time ends its connection; one with too many or too long headers is a 431; a
//! client that closes its sending half still gets its answer. Certificates are read again when their files change; files that
//! cannot be used are reported and the ones in use stay.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use axum::Router as Routes;
use axum_server::{Handle, Server, tls_rustls::RustlsConfig};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Headers of one request.
const HEADERS_MAX: usize = 100;
/// Bytes of one request's head; what HTTP/2 calls the header list.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 250;
/// How often a silent HTTP/2 connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How often the certificate's files are looked at.
const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// How connections are served.
#[derive(Debug, Clone)]
pub struct Serving {
    /// How long a client may take to begin a request and to send its head.
    pub header_timeout: Duration,
    /// How long what runs may take to finish once the server stops.
    pub shutdown: Duration,
    /// Where the certificate is, for TLS.
    pub tls: Option<TlsFiles>,
}

/// A certificate with what signs it, and its key; both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl TlsFiles {
    async fn read(&self) -> io::Result<RustlsConfig> {
        let unusable = |error: io::Error| {
            let Self { certificate, key } = self;
            io::Error::new(
                error.kind(),
                format!(
                    "the certificate {} and the key {} cannot be used ({error}): both must be PEM files and belong together",
                    certificate.display(),
                    key.display()
                ),
            )
        };
        RustlsConfig::from_pem_file(&self.certificate, &self.key).await.map_err(unusable)
    }

    /// When the files were last changed, as far as that can be told.
    fn changed(&self) -> [Option<SystemTime>; 2] {
        [&self.certificate, &self.key].map(|path| path.metadata().and_then(|about| about.modified()).ok())
    }

    /// Puts new files to work, until the server stops.
    async fn follow(self, config: RustlsConfig, stopping: CancellationToken) {
        let mut seen = self.changed();
        while stopping.run_until_cancelled(tokio::time::sleep(RELOAD_EVERY)).await.is_some() {
            let now = self.changed();
            if now == seen {
                continue;
            }
            seen = now;
            match config.reload_from_pem_file(&self.certificate, &self.key).await {
                Ok(()) => tracing::info!(certificate = %self.certificate.display(), "the new certificate is in use"),
                // The two files are seldom written at the same time: what is wrong now may be right a moment later.
                Err(error) => {
                    tracing::warn!(%error, "the certificate's files changed and cannot be used; the old ones stay")
                }
            }
        }
    }
}

/// Serves until `stopping` is cancelled and what ran then has ended or was cut off.
///
/// # Errors
/// The certificate cannot be used; the listener cannot be polled.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    settings: Serving,
    stopping: CancellationToken,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let handle = Handle::new();
    let stop = {
        let (handle, stopping, shutdown) = (handle.clone(), stopping.clone(), settings.shutdown);
        async move {
            stopping.cancelled().await;
            handle.graceful_shutdown(Some(shutdown));
        }
    };
    let server = limited(axum_server::from_tcp(listener)?.handle(handle), settings.header_timeout);
    let serving = match settings.tls {
        None => tokio::spawn(server.serve(routes.into_make_service())),
        Some(files) => {
            let config = files.read().await?;
            tokio::spawn(files.follow(config.clone(), stopping));
            let acceptor = axum_server::tls_rustls::RustlsAcceptor::new(config);
            tokio::spawn(server.acceptor(acceptor).serve(routes.into_make_service()))
        }
    };
    tokio::spawn(stop);
    Ok(serving)
}

fn limited(server: Server<SocketAddr>, header_timeout: Duration) -> Server<SocketAddr> {
    let mut server = server.first_request_timeout(header_timeout).accept_error_handler(|peer, error| {
        tracing::debug!(?peer, %error, "a connection could not be accepted");
    });
    let builder = server.http_builder();
    builder
        .http1()
        .header_read_timeout(header_timeout)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(true);
    builder
        .http2()
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(PING_EVERY);
    server
}
