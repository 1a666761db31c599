//! A stand-in for a server, to fail as told: what it answers comes from a script, by the name of the request.
//!
//! It speaks gRPC with the client's own messages, but passes the bytes on undecoded, so that it need not name the sixty
//! requests of the real services. It proves how we take failures, and nothing about Qdrant.

use std::{
    collections::HashMap,
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use ::qdrant_client::qdrant::{
    CollectionConfig, CollectionInfo, CollectionParams, CountResponse, CountResult, Distance,
    GetCollectionInfoResponse, PayloadSchemaInfo, PointsOperationResponse, QueryResponse, ScrollResponse, UpdateResult,
    UpdateStatus, Value, VectorParams, VectorsConfig, vectors_config::Config,
};
use axum::{Router, body::Body, extract::Request, response::Response};
use prost::{
    Message,
    bytes::{Buf, BufMut},
};
use tokio::{net::TcpListener, runtime::Runtime};
use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use super::super::Shape;

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Message(Vec<u8>),
    Fail(Code, &'static str),
    /// Takes it and is never heard of again.
    Silence,
    /// Breaks all connections.
    Cut,
}

type Script = dyn Fn(&str) -> Reply + Send + Sync;

/// Ends, with all its connections, when dropped.
pub(super) struct Stub {
    pub port: u16,
    runtime: Option<Runtime>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// Listens on a port of 127.0.0.1, on a free one for zero. The script is told requests such as `Points/Query`.
    pub fn start(port: u16, script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (script, log, open): (Arc<Script>, _, _) = (Arc::new(script), Arc::clone(&calls), Arc::clone(&connections));
        let router = Router::new().fallback(move |request: Request| {
            let name = request.uri().path().trim_start_matches("/qdrant.").to_owned();
            let reply = script(&name);
            log.lock().unwrap().push(name);
            answer(request, reply, Arc::clone(&open))
        });
        let incoming = futures::stream::unfold(listener, move |listener| {
            let connections = Arc::clone(&connections);
            async move {
                let accepted = listener.accept().await.map(|(stream, _)| keep(stream, &connections));
                Some((accepted, listener))
            }
        });
        let routes = tonic::service::Routes::from(router);
        runtime.spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(Box::pin(incoming)));
        Self { port, runtime: Some(runtime), calls }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How often a request came.
    pub fn calls(&self, name: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| *call == name).count()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // Returns when its threads are gone, and with them the connections.
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(10));
    }
}

/// A second handle of a connection, to break it with.
fn keep(stream: tokio::net::TcpStream, connections: &Mutex<Vec<TcpStream>>) -> tokio::net::TcpStream {
    let stream = stream.into_std().unwrap();
    connections.lock().unwrap().push(stream.try_clone().unwrap());
    tokio::net::TcpStream::from_std(stream).unwrap()
}

async fn answer(request: Request, reply: Reply, connections: Arc<Mutex<Vec<TcpStream>>>) -> Response {
    let service = tower::service_fn(move |_: tonic::Request<Vec<u8>>| {
        let (reply, connections) = (reply.clone(), Arc::clone(&connections));
        async move {
            match reply {
                Reply::Message(message) => Ok(tonic::Response::new(message)),
                Reply::Fail(code, message) => Err(Status::new(code, message)),
                Reply::Silence => std::future::pending().await,
                Reply::Cut => {
                    connections.lock().unwrap().drain(..).for_each(|stream| stream.shutdown(Shutdown::Both).unwrap());
                    std::future::pending().await
                }
            }
        }
    });
    tonic::server::Grpc::new(Raw).unary(service, request).await.map(Body::new)
}

/// Messages as bytes.
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; from.remaining()];
        from.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

/// What a server with an empty memory says, without keeping anything.
pub(super) fn healthy(shape: &Shape, request: &str) -> Reply {
    Reply::Message(match request {
        "Collections/Get" => info(shape, true),
        "Points/Scroll" => ScrollResponse::default().encode_to_vec(),
        "Points/Query" => QueryResponse::default().encode_to_vec(),
        "Points/Count" => {
            CountResponse { result: Some(CountResult { count: 0 }), ..Default::default() }.encode_to_vec()
        }
        "Points/Upsert" => written(UpdateStatus::Completed),
        other => panic!("the script does not know {other}"),
    })
}

/// The answer to a write.
pub(super) fn written(status: UpdateStatus) -> Vec<u8> {
    let result = Some(UpdateResult { operation_id: None, status: status as i32 });
    PointsOperationResponse { result, ..Default::default() }.encode_to_vec()
}

/// What a server says of a collection, with our metadata or without.
pub(super) fn info(shape: &Shape, ours: bool) -> Vec<u8> {
    let marker = serde_json::json!({
        "format": 1, "model": shape.model, "dimension": shape.dimension, "cap": shape.cap, "origin": null, "next_seq": 0,
    });
    let vectors = VectorParams { size: shape.dimension as u64, distance: Distance::Dot as i32, ..Default::default() };
    let params = CollectionParams {
        vectors_config: Some(VectorsConfig { config: Some(Config::Params(vectors)) }),
        ..Default::default()
    };
    let metadata = HashMap::from([("pointsman".to_owned(), Value::from(marker))]);
    let config = CollectionConfig {
        params: Some(params),
        metadata: if ours { metadata } else { HashMap::new() },
        ..Default::default()
    };
    let indexes = ["domain", "arms", "seq"].map(|field| (field.to_owned(), PayloadSchemaInfo::default()));
    let info = CollectionInfo { config: Some(config), payload_schema: indexes.into(), ..Default::default() };
    GetCollectionInfoResponse { result: Some(info), ..Default::default() }.encode_to_vec()
}
