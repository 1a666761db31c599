//! Upstreams that misbehave, each served on loopback by a few lines that write raw bytes.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// Answers the nth request with what `answer` says, by raw bytes, and closes; counts the requests.
async fn served<F>(answer: impl Fn(usize) -> F + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Future<Output = Vec<Vec<u8>>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let (counted, answer) = (Arc::clone(&count), Arc::new(answer));
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let (counted, answer) = (Arc::clone(&counted), Arc::clone(&answer));
            tokio::spawn(async move {
                request(&mut connection).await;
                for piece in answer(counted.fetch_add(1, Ordering::SeqCst)).await {
                    if piece.is_empty() {
                        tokio::time::sleep(Duration::from_millis(400)).await;
                    } else if connection.write_all(&piece).await.is_err() {
                        return;
                    }
                }
                let _ = connection.shutdown().await;
            });
        }
    });
    (address, count)
}

/// Reads a small request to the end of its body.
async fn request(connection: &mut TcpStream) {
    let mut read = Vec::new();
    let mut buffer = [0; 4_096];
    while !read.ends_with(b"{\"n\":1}") {
        match connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
}

fn pieces(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|piece| piece.as_bytes().to_vec()).collect()
}

fn upstream(address: SocketAddr) -> UpstreamSettings {
    UpstreamSettings {
        url: format!("http://{address}/v1/chat/completions"),
        model: "m".into(),
        headers: header::HeaderMap::new(),
        key_variable: Some("KEY".into()),
        timeout_ms: 5_000,
        idle_timeout_ms: 150,
        retries: 2,
        concurrency: 4,
    }
}

fn made(settings: UpstreamSettings) -> Upstream {
    Upstream::new(settings, client(Duration::from_millis(500), None).unwrap())
}

fn body() -> Bytes {
    Bytes::from_static(b"{\"n\":1}")
}

async fn fails(answer: &'static [&'static str], retries: u32) -> (WorkerError, usize) {
    let (address, count) = served(move |_| async move { pieces(answer) }).await;
    let error = made(UpstreamSettings { retries, ..upstream(address) }).whole(body(), None).await.unwrap_err();
    (error, count.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_call_that_failed_for_a_moment_is_tried_again() {
    let (address, count) = served(|n| async move {
        pieces(match n {
            0 => &["HTTP/1.1 503 Busy\r\nretry-after: 0.05\r\ncontent-length: 0\r\n\r\n"][..],
            1 => &["HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{\"cut"][..],
            _ => &[OK][..],
        })
    })
    .await;
    assert_eq!(made(upstream(address)).whole(body(), None).await.unwrap(), "{}");
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_does_not_help_is_not_tried_again_and_named() {
    for (answer, said) in [
        (&["HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n"][..], "$KEY"),
        (&["HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"], "does not know the model \"m\""),
        (&["HTTP/1.1 400 No\r\ncontent-length: 3\r\n\r\nbad"], "refused the request (400): bad"),
        (
            &["HTTP/1.1 307 Go\r\nlocation: http://192.0.2.1/x\r\ncontent-length: 0\r\n\r\n"],
            "redirects to http://192.0.2.1",
        ),
        (&["HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nxx"], "it is compressed"),
    ] {
        let (error, count) = fails(answer, 2).await;
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(count, 1, "{error}");
    }
    let (error, count) = fails(&["HTTP/1.1 500 No\r\ncontent-length: 15\r\n\r\n<html>no</html>"], 1).await;
    assert!(error.to_string().contains("500: a web page") && count == 2, "{error}");
    let (error, _) = fails(&["no HTTP at all"], 0).await;
    assert!(matches!(error, WorkerError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let mut answer = vec![b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec()];
    answer.extend(std::iter::repeat_n(vec![b'x'; 1 << 20], 17));
    let (address, _) = served(move |_| {
        let answer = answer.clone();
        async move { answer }
    })
    .await;
    let error = made(upstream(address)).whole(body(), None).await.unwrap_err();
    assert!(error.to_string().contains("longer than 16777216 bytes"), "{error}");
}

#[tokio::test]
async fn time_is_kept_and_places_are_counted() {
    let (address, _) = served(|_| async { pieces(&["", OK]) }).await;
    let slow = made(UpstreamSettings { idle_timeout_ms: 2_000, concurrency: 1, ..upstream(address) });
    let (first, second) = tokio::join!(slow.whole(body(), None), slow.whole(body(), Some(100)));
    assert_eq!(first.unwrap(), "{}");
    assert_eq!(second.unwrap_err(), WorkerError::Busy(1));
    assert_eq!(slow.whole(body(), Some(100)).await.unwrap_err(), WorkerError::TimedOut(100));
    assert_eq!(slow.whole(body(), None).await.unwrap(), "{}", "the place is free again");
}

#[tokio::test]
async fn a_stream_that_stops_or_breaks_says_so() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 30\r\n\r\n";
    let read = async |answer: &'static [&'static str]| {
        let (address, _) = served(move |_| async move { pieces(answer) }).await;
        let mut incoming = made(upstream(address)).stream(body(), None).await?;
        assert_eq!(incoming.content_type(), "text/event-stream");
        let mut text = Vec::new();
        while let Some(bytes) = incoming.next().await? {
            text.extend_from_slice(&bytes);
        }
        Ok::<_, WorkerError>(String::from_utf8(text).unwrap())
    };
    assert_eq!(read(&[HEAD, "data: 1234567\n\ndata: 1234567\n\n"]).await.unwrap().len(), 30);
    assert_eq!(read(&[HEAD, "data: 1\n\n", "", "data: 2"]).await.unwrap_err(), WorkerError::Stalled(150));
    assert!(matches!(read(&[HEAD, "data: 1\n\n"]).await.unwrap_err(), WorkerError::BrokeOff(_)));
    assert_eq!(read(&[HEAD, ""]).await.unwrap_err(), WorkerError::Stalled(150), "before the first byte");
}

#[tokio::test]
async fn a_redirect_on_the_same_host_is_followed() {
    let (address, count) = served(|n| async move {
        if n == 0 {
            pieces(&["HTTP/1.1 308 Go\r\nlocation: /v2/chat\r\ncontent-length: 0\r\n\r\n"])
        } else {
            pieces(&[OK])
        }
    })
    .await;
    assert_eq!(made(upstream(address)).whole(body(), None).await.unwrap(), "{}");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}
