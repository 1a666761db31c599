//! How we take a server that fails, with a stand-in for one.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
};

use ::qdrant_client::qdrant::{HealthCheckReply, UpdateStatus};
use prost::Message;
use tokio::runtime::Runtime;
use tonic::Code;

use super::{
    super::contract::{entries, entry, shape},
    stub::{Reply, Stub, healthy, info, written},
    *,
};

const KEY: &str = "a-very-secret-key";

fn settings(url: &str) -> ServerSettings {
    ServerSettings {
        url: url.into(),
        api_key: Some(ApiKey::new(KEY)),
        collection: "memory".into(),
        connect_timeout_ms: 2_000,
        // Long enough for a stand-in on a busy machine.
        write_timeout_ms: 30_000,
        recall_timeout_ms: 30_000,
    }
}

fn open(runtime: &Runtime, settings: &ServerSettings) -> Result<ServerMemory, MemoryError> {
    let opened = ServerMemory::open(settings, &shape(), runtime.handle().clone());
    if let Err(error) = &opened {
        assert_names_the_place(error);
    }
    opened
}

fn assert_names_the_place(error: &MemoryError) {
    let said = error.to_string();
    assert!(said.contains("the collection memory on 127.0.0.1:"), "{said}");
    assert!(!said.contains(KEY), "{said}");
}

fn recall(memory: &ServerMemory) -> Result<Vec<Neighbour>, MemoryError> {
    memory.query(&entry(0).embedding, 3, 0.0, &Filter::default())
}

/// A port where nobody listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_server_that_is_down_refuses_and_is_found_when_it_is_back() {
    let (runtime, port) = (Runtime::new().unwrap(), free_port());
    let memory = open(&runtime, &settings(&format!("http://127.0.0.1:{port}"))).unwrap();
    let all: [Result<(), MemoryError>; 5] = [
        memory.put(0, &entries(0..2)),
        memory.held().map(|_| ()),
        memory.scan(0, 10).map(|_| ()),
        memory.replace(None, 0, &mut std::iter::empty()),
        recall(&memory).map(|_| ()),
    ];
    for failed in all {
        let error = failed.unwrap_err();
        assert!(matches!(error, MemoryError::Unavailable(_)), "{error}");
        assert_names_the_place(&error);
    }
    let _stub = Stub::start(port, |request| healthy(&shape(), request));
    memory.put(0, &entries(0..2)).unwrap();
    assert_eq!(recall(&memory).unwrap(), [], "a write that succeeds lets recall through again");
}

#[test]
fn a_server_that_never_answers_is_waited_for_only_so_long() {
    let runtime = Runtime::new().unwrap();
    // The system takes connections for it.
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hole.local_addr().unwrap());
    let memory = open(&runtime, &ServerSettings { write_timeout_ms: 20, recall_timeout_ms: 20, ..settings(&url) });
    let memory = memory.unwrap();
    let error = memory.put(0, &entries(0..1)).unwrap_err();
    assert!(matches!(error, MemoryError::Unknown(_)), "{error}");
    assert_names_the_place(&error);
}

#[test]
fn recall_fails_at_once_while_the_server_is_away() {
    let runtime = Runtime::new().unwrap();
    let stub = Stub::start(0, |request| match request {
        "Points/Query" => Reply::Silence,
        other => healthy(&shape(), other),
    });
    let memory = open(&runtime, &ServerSettings { recall_timeout_ms: 20, ..settings(&stub.url()) }).unwrap();
    let slow = recall(&memory).unwrap_err();
    assert!(matches!(&slow, MemoryError::Unknown(said) if said.contains("recall's 20 ms")), "{slow}");
    for _ in 0..20 {
        let error = recall(&memory).unwrap_err();
        // One of them may find the pause over.
        assert!(matches!(&error, MemoryError::Unavailable(_) | MemoryError::Unknown(_)), "{error}");
    }
    assert!(stub.calls("Points/Query") <= 3, "{}", stub.calls("Points/Query"));
    memory.put(0, &entries(0..1)).unwrap();
    let error = recall(&memory).unwrap_err();
    assert!(matches!(error, MemoryError::Unknown(_)), "a write has closed the breaker: {error}");
}

#[test]
fn a_write_that_breaks_off_is_unknown_and_may_be_put_again() {
    let runtime = Runtime::new().unwrap();
    let left = AtomicUsize::new(2);
    let stub = Stub::start(0, move |request| match request {
        // Twice, since the client tries again by itself.
        "Points/Upsert" if left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok() => {
            Reply::Cut
        }
        other => healthy(&shape(), other),
    });
    let memory = open(&runtime, &settings(&stub.url())).unwrap();
    let error = memory.put(0, &entries(0..2)).unwrap_err();
    assert!(matches!(error, MemoryError::Unknown(_)), "{error}");
    let looked = stub.calls("Collections/Get");
    memory.put(0, &entries(0..2)).unwrap();
    assert_eq!(stub.calls("Collections/Get"), looked + 1, "the collection is looked at again");
    memory.put(2, &entries(2..3)).unwrap();
    assert_eq!(stub.calls("Collections/Get"), looked + 1, "but not every time");
}

#[test]
fn a_server_that_dies_during_a_write_is_unknown_and_then_unavailable() {
    let runtime = Runtime::new().unwrap();
    let stub = Stub::start(0, |request| healthy(&shape(), request));
    let (url, port) = (stub.url(), stub.port);
    let memory = open(&runtime, &settings(&url)).unwrap();
    memory.put(0, &entries(0..2)).unwrap();
    drop(stub);
    let error = memory.put(2, &entries(2..3)).unwrap_err();
    assert!(matches!(error, MemoryError::Unknown(_)), "the client may have sent it before it was refused: {error}");
    let error = memory.put(2, &entries(2..3)).unwrap_err();
    assert!(matches!(error, MemoryError::Unavailable(_)), "nothing was sent: {error}");
    let _stub = Stub::start(port, |request| healthy(&shape(), request));
    // It is not the server that was there: it holds nothing.
    let error = memory.put(2, &entries(2..3)).unwrap_err();
    assert!(matches!(&error, MemoryError::Unavailable(said) if said.contains("lost entries")), "{error}");
    assert_eq!(memory.held().unwrap().next_seq, 0);
    memory.put(2, &entries(2..3)).unwrap();
}

#[test]
fn a_restart_between_two_writes_is_not_noticed() {
    let runtime = Runtime::new().unwrap();
    let stub = Stub::start(0, |request| healthy(&shape(), request));
    let (url, port) = (stub.url(), stub.port);
    let memory = open(&runtime, &settings(&url)).unwrap();
    memory.put(0, &entries(0..2)).unwrap();
    drop(stub);
    let _stub = Stub::start(port, |request| healthy(&shape(), request));
    memory.put(2, &entries(2..3)).unwrap();
    recall(&memory).unwrap();
}

#[test]
fn a_write_that_is_not_completed_is_unknown() {
    let runtime = Runtime::new().unwrap();
    let stub = Stub::start(0, |request| match request {
        "Points/Upsert" => Reply::Message(written(UpdateStatus::Acknowledged)),
        other => healthy(&shape(), other),
    });
    let error = open(&runtime, &settings(&stub.url())).unwrap().put(0, &entries(0..1)).unwrap_err();
    assert!(matches!(error, MemoryError::Unknown(_)), "{error}");
}

#[test]
fn a_collection_for_something_else_is_refused_with_advice() {
    let runtime = Runtime::new().unwrap();
    let others = [
        (Shape { dimension: 9, ..shape() }, "memory rebuild"),
        (Shape { model: "other".into(), ..shape() }, "memory rebuild"),
        (Shape { cap: 70, ..shape() }, "memory copy"),
    ];
    for (found, advice) in others {
        let stub = Stub::start(0, move |_| Reply::Message(info(&found, true)));
        let said = open(&runtime, &settings(&stub.url())).err().unwrap().to_string();
        assert!(said.contains(advice), "{said}");
    }
    let stub = Stub::start(0, |_| Reply::Message(info(&shape(), false)));
    let said = open(&runtime, &settings(&stub.url())).err().unwrap().to_string();
    assert!(said.contains("not a Pointsman memory") && said.contains("1.16"), "{said}");
}

#[test]
fn another_collection_under_the_same_name_is_found_when_it_refuses_a_write() {
    let runtime = Runtime::new().unwrap();
    let looked = AtomicUsize::new(0);
    let stub = Stub::start(0, move |request| match request {
        "Points/Upsert" => Reply::Fail(Code::InvalidArgument, "Wrong input: Vector dimension error: expected dim: 9"),
        "Collections/Get" if looked.fetch_add(1, Ordering::AcqRel) > 0 => {
            Reply::Message(info(&Shape { dimension: 9, ..shape() }, true))
        }
        other => healthy(&shape(), other),
    });
    let error = open(&runtime, &settings(&stub.url())).unwrap().put(0, &entries(0..1)).unwrap_err();
    assert!(matches!(error, MemoryError::Mismatch { .. }), "{error}");
}

#[test]
fn an_old_server_and_a_wrong_key_are_named() {
    let runtime = Runtime::new().unwrap();
    let stub = Stub::start(0, |request| match request {
        "Qdrant/HealthCheck" => {
            Reply::Message(HealthCheckReply { version: "1.15.5".into(), ..Default::default() }.encode_to_vec())
        }
        _ => Reply::Fail(Code::NotFound, "Not found: Collection `memory` doesn't exist!"),
    });
    let said = open(&runtime, &settings(&stub.url())).err().unwrap().to_string();
    assert!(said.contains("1.15.5") && said.contains("1.16 or newer"), "{said}");
    for code in [Code::Unauthenticated, Code::PermissionDenied] {
        let stub = Stub::start(0, move |_| Reply::Fail(code, "Invalid API key or JWT"));
        let said = open(&runtime, &settings(&stub.url())).err().unwrap().to_string();
        assert!(said.contains("api_key"), "{said}");
    }
}

#[test]
fn a_server_that_fails_inside_says_why() {
    let runtime = Runtime::new().unwrap();
    let stub = Stub::start(0, |request| match request {
        "Points/Upsert" => Reply::Fail(Code::Internal, "Service internal error: No space left on device"),
        "Points/Query" => Reply::Fail(Code::ResourceExhausted, "too many requests"),
        other => healthy(&shape(), other),
    });
    let memory = open(&runtime, &settings(&stub.url())).unwrap();
    let error = memory.put(0, &entries(0..1)).unwrap_err();
    assert!(matches!(&error, MemoryError::Other(said) if said.contains("No space left")), "{error}");
    let error = recall(&memory).unwrap_err();
    assert!(matches!(&error, MemoryError::Unavailable(said) if said.contains("overloaded")), "{error}");
}
