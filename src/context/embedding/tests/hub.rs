//! Fetching from a hub that a stub server on this machine plays.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Response, Uri, header},
    response::IntoResponse,
    response::Redirect,
};
use futures::stream;
use tokio::sync::oneshot;

use super::*;
use crate::context::embedding::tiny;

const REPOSITORY: &str = "/Xenova/bge-large-en-v1.5/resolve/main/";

/// How the stub answers for a file.
#[derive(Clone)]
enum Answer {
    File(Vec<u8>),
    /// Half of what it promises.
    Truncated(Vec<u8>),
    Status(u16),
    /// A first piece, then nothing for ever.
    Slow,
    /// A redirect to another path, with the SHA-256 and size that the hub states of large files.
    Redirect(String, String, usize),
}

struct Stub {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Stub {
    /// Serves answers by path.
    fn start(answers: BTreeMap<String, Answer>) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let state = (Arc::new(answers), Arc::clone(&requests));
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let routes = Router::new().fallback(answer).with_state(state);
                tokio::select! { _ = axum::serve(listener, routes).into_future() => {}, _ = stopped => {} }
            });
        });
        Self { address, requests, stop: Some(stop), thread: Some(thread) }
    }

    fn options(&self) -> FetchOptions {
        // Ample for a file of this size, and short for a test that waits for it to be over.
        let hub = Hub { endpoint: format!("http://{}/", self.address), deadline: Duration::from_secs(30) };
        FetchOptions { model: Some("BAAI/bge-large-en-v1.5".into()), hub: Some(hub), ..FetchOptions::default() }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

type Answers = (Arc<BTreeMap<String, Answer>>, Arc<AtomicUsize>);

async fn answer(State((answers, requests)): State<Answers>, uri: Uri) -> Response<Body> {
    requests.fetch_add(1, Ordering::SeqCst);
    let piece = |bytes: Vec<u8>| stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from(bytes))]);
    match answers.get(uri.path()).cloned().unwrap_or(Answer::Status(404)) {
        Answer::File(bytes) => Response::new(Body::from(bytes)),
        Answer::Truncated(bytes) => {
            let (whole, half) = (bytes.len(), bytes[..bytes.len() / 2].to_vec());
            Response::builder().header(header::CONTENT_LENGTH, whole).body(Body::from_stream(piece(half))).unwrap()
        }
        Answer::Status(status) => Response::builder().status(status).body(Body::empty()).unwrap(),
        Answer::Slow => {
            use futures::StreamExt;
            Response::new(Body::from_stream(piece(vec![b'{']).chain(stream::pending())))
        }
        Answer::Redirect(to, sha256, bytes) => {
            let mut response = Redirect::temporary(&to).into_response();
            response.headers_mut().insert("x-linked-etag", format!("\"{sha256}\"").parse().unwrap());
            response.headers_mut().insert("x-linked-size", bytes.into());
            response
        }
    }
}

/// A repository with a tiny model in it.
fn repository(dimension: usize) -> BTreeMap<String, Answer> {
    let path =
        |name: &str| if name == ONNX { format!("{REPOSITORY}onnx/{name}") } else { format!("{REPOSITORY}{name}") };
    tiny::model(dimension).into_iter().map(|(name, bytes)| (path(&name), Answer::File(bytes))).collect()
}

/// A cache in which something stands for the default model.
fn cache() -> TempDir {
    let cache = TempDir::new().unwrap();
    installed(cache.path());
    cache
}

/// Fetches, and asserts that it failed and left nothing.
fn refused(answers: BTreeMap<String, Answer>, deadline: Duration) -> String {
    let (cache, stub) = (cache(), Stub::start(answers));
    let mut options = stub.options();
    options.hub.as_mut().unwrap().deadline = deadline;
    let error = fetch(cache.path(), &options, &|_| ()).unwrap_err();
    let left = fs::read_dir(models_dir(cache.path())).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, [".lock", MODEL_ID]);
    assert!(matches!(error, EmbeddingError::Hub { .. }), "{error}");
    error.to_string()
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn nothing_is_downloaded_unless_the_hub_is_allowed() {
    let cache = cache();
    let fetched = |model: &str| {
        let options = FetchOptions { model: Some(model.into()), ..FetchOptions::default() };
        fetch(cache.path(), &options, &|_| ()).unwrap_err().to_string()
    };
    assert!(fetched("bge-large-en-v1.5").contains("--from-hub"));
    assert!(fetched("bge").contains("models list"));
}

#[test]
fn absent_and_closed_files_are_named() {
    let mut answers = repository(8);
    answers.remove(&format!("{REPOSITORY}onnx/model.onnx"));
    let error = refused(answers, LONG);
    assert!(error.contains("/onnx/model.onnx: there is no such file"), "{error}");
    for (status, words) in [(401, "account"), (500, "500 Internal")] {
        let answers = [(format!("{REPOSITORY}config.json"), Answer::Status(status))].into();
        let error = refused(answers, LONG);
        assert!(error.contains("/config.json") && error.contains(words), "{error}");
    }
}

#[test]
fn a_cut_file_is_refused() {
    let mut answers = repository(8);
    let path = format!("{REPOSITORY}onnx/model.onnx");
    let Answer::File(bytes) = answers.remove(&path).unwrap() else { unreachable!() };
    let sha256 = "0".repeat(64);
    answers.insert(path.clone(), Answer::Truncated(bytes.clone()));
    assert!(refused(answers.clone(), LONG).contains("model.onnx"));
    answers.insert("/large".into(), Answer::File(bytes.clone()));
    answers.insert(path.clone(), Answer::Redirect("/large".into(), sha256, bytes.len()));
    assert!(refused(answers.clone(), LONG).contains("another SHA-256"));
    answers.insert(path.clone(), Answer::Redirect(path, String::new(), 0));
    assert!(refused(answers, LONG).contains("redirected more than"));
}

#[test]
fn the_deadline_holds_for_everything_together() {
    let mut answers = repository(8);
    answers.insert(format!("{REPOSITORY}tokenizer.json"), Answer::Slow);
    let error = refused(answers, Duration::from_millis(300));
    assert!(error.contains("--deadline-s"), "{error}");
}

#[test]
fn a_hub_that_cannot_be_reached_is_named() {
    let cache = cache();
    let hub = Hub { endpoint: "http://127.0.0.1:1".into(), deadline: LONG };
    let options = FetchOptions { model: Some("bge-large-en-v1.5".into()), hub: Some(hub), ..FetchOptions::default() };
    let error = fetch(cache.path(), &options, &|_| ()).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1/Xenova") && error.contains("HF_ENDPOINT"), "{error}");
}

#[test]
fn a_file_that_is_no_model_is_not_installed() {
    let (cache, mut answers) = (cache(), repository(8));
    answers.insert(format!("{REPOSITORY}onnx/model.onnx"), Answer::File(b"not a model".into()));
    let stub = Stub::start(answers);
    // Which error depends on whether the stand-in or a real library is loaded; either way nothing is left.
    fetch(cache.path(), &stub.options(), &|_| ()).unwrap_err();
    assert!(!installed_dir(cache.path(), "bge-large-en-v1.5").exists());
}

#[cfg(unix)]
#[test]
fn a_model_is_installed_once_listed_and_found_again() {
    let Some(real) = real() else { return };
    let cache = TempDir::new().unwrap();
    fs::create_dir_all(models_dir(cache.path()).join(".fetch-stale")).unwrap();
    let library = ModelFiles::resolve(&real).unwrap();
    std::os::unix::fs::symlink(library.dir(), installed_dir(cache.path(), MODEL_ID)).unwrap();
    let mut answers = repository(1_024);
    let path = format!("{REPOSITORY}onnx/model.onnx");
    let Some(Answer::File(bytes)) = answers.remove(&path) else { unreachable!() };
    let sha256 = {
        let file = cache.path().join("model");
        fs::write(&file, &bytes).unwrap();
        FileEntry::of(&file).unwrap().sha256
    };
    answers.insert(path, Answer::Redirect("/large?signature=1".into(), sha256.clone(), bytes.len()));
    answers.insert("/large".into(), Answer::File(bytes));
    let stub = Stub::start(answers);
    let told = std::sync::Mutex::new(vec![]);
    let files = fetch(cache.path(), &stub.options(), &|progress| told.lock().unwrap().push(progress)).unwrap();
    assert_eq!(files.model_id(), format!("bge-large-en-v1.5@{}", &sha256[..12]));
    assert_eq!((files.dimension(), files.tokens_max(), files.pooling), (1_024, 64, Pooling::Cls));
    files.verify().unwrap();
    let told = told.into_inner().unwrap();
    let downloading = |progress: &&FetchProgress| progress.stage == FetchStage::Downloading;
    let bytes: Vec<_> = told.iter().filter(downloading).map(|progress| progress.bytes_done).collect();
    assert!(bytes.is_sorted() && *bytes.last().unwrap() > 10_000_000, "{bytes:?}");
    assert_eq!(told.last().unwrap().stage, FetchStage::Done);

    let requests = stub.requests.load(Ordering::SeqCst);
    assert_eq!(fetch(cache.path(), &stub.options(), &|_| ()).unwrap(), files);
    assert_eq!(stub.requests.load(Ordering::SeqCst), requests, "what is whole is not downloaded again");
    let found = ModelFiles::installed(cache.path()).unwrap();
    let ids: Vec<_> = found.iter().map(|files| files.as_ref().unwrap().model_id()).collect();
    assert_eq!(ids, [MODEL_ID, files.model_id()]);
    let settings = EmbeddingSettings { model: Some("BGELargeENV15".into()), ..EmbeddingSettings::new(cache.path()) };
    assert_eq!(ModelFiles::resolve(&settings).unwrap(), files);
    let settings = EmbeddingSettings { model_dir: Some(files.dir().into()), model: None, ..settings };
    assert_eq!(ModelFiles::resolve(&settings).unwrap(), files);
    assert_eq!(Embedder::load(&files, 64).unwrap().embed(&["a text"]).unwrap()[0].as_slice().len(), 1_024);

    let onnx = installed_dir(cache.path(), "bge-large-en-v1.5").join(ONNX);
    fs::write(&onnx, "cut").unwrap();
    assert!(matches!(
        ModelFiles::resolve(&EmbeddingSettings { model_dir: None, model: Some("BGELargeENV15".into()), ..settings }),
        Err(EmbeddingError::Corrupt { .. })
    ));
    assert_eq!(fetch(cache.path(), &stub.options(), &|_| ()).unwrap(), files, "what is damaged is");
}
