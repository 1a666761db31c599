//! TLS, HTTP/2, and a certificate that is renewed while the daemon runs.

use std::{fs, path::Path, time::Duration};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::{Certificate, Client, Version};

use crate::served::{CONFIG, Served, output, pointsman, sum};

/// An authority whose certificates for this machine are written as files.
fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn write(folder: &Path, authority: &CertifiedIssuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(folder.join("cert.pem"), certificate.pem()).unwrap();
}

fn trusting(authority: &CertifiedIssuer<'static, KeyPair>) -> Client {
    let root = Certificate::from_pem(authority.pem().as_bytes()).unwrap();
    // No connection outlives its request, so that each one shakes hands anew.
    Client::builder().tls_certs_only([root]).pool_max_idle_per_host(0).build().unwrap()
}

#[tokio::test]
async fn clients_of_tls_are_served_and_a_renewed_certificate_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (authority("first"), authority("second"));
    write(folder.path(), &first);
    let config = format!("[server]\ntls = {{ certificate = \"cert.pem\", key = \"key.pem\" }}\n{CONFIG}");
    let served = Served::in_folder(&config, folder.path());
    assert!(served.url.starts_with("https://"), "{}", served.url);
    let url = format!("{}/v1/tasks", served.url);
    let answer = trusting(&first).post(&url).json(&sum(1, 2)).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
    assert!(trusting(&second).post(&url).json(&sum(1, 2)).send().await.is_err(), "a stranger's certificate");
    // Its own commands find it.
    let (status, shown, error) =
        output(pointsman().args(["policy", "list", "--data-dir"]).arg(folder.path().join("data")));
    assert!(status.success(), "{shown}{error}");

    // Files that cannot be used change nothing.
    fs::write(folder.path().join("cert.pem"), "no certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(3_000)).await;
    assert!(trusting(&first).get(format!("{}/healthz", served.url)).send().await.is_ok());
    write(folder.path(), &second);
    let renewed = async {
        while trusting(&second).get(format!("{}/healthz", served.url)).send().await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), renewed).await.expect("the new certificate was not taken up");
    assert!(trusting(&first).get(format!("{}/healthz", served.url)).send().await.is_err());
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_named_at_start() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["cert.pem", "key.pem"] {
        fs::write(folder.path().join(file), "nothing").unwrap();
    }
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ntls = {{ certificate = \"cert.pem\", key = \"key.pem\" }}\n{CONFIG}"
    );
    let file = folder.path().join("pointsman.toml");
    fs::write(&file, &config).unwrap();
    let serve = |file: &Path| {
        output(pointsman().args(["serve", "--config"]).arg(file).arg("--data-dir").arg(folder.path().join("data")))
    };
    let (status, _, error) = serve(&file);
    assert!(!status.success() && error.contains("cert.pem") && error.contains("PEM"), "{error}");
    fs::write(&file, config.replace("cert.pem", "none.pem")).unwrap();
    let (status, _, error) = serve(&file);
    assert!(status.code() == Some(64) && error.contains("server.tls.certificate"), "{error}");
}

#[tokio::test]
async fn http_2_is_spoken_without_tls_too() {
    let served = Served::new(CONFIG);
    let client = Client::builder().http2_prior_knowledge().build().unwrap();
    let tasks = (0..40).map(|n| client.post(format!("{}/v1/tasks", served.url)).json(&sum(n, 1)).send());
    for answer in futures::future::join_all(tasks).await {
        let answer = answer.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
    }
}
