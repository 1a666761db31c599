use wasmtime::{
    Engine, Store,
    component::{Component, Linker, Val},
};
use wit_component::{DecodedWasm, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::*;

/// All of preview 1; the adapter must know each, so that any module links.
const PREVIEW1_FUNCTIONS: &str = "args_get args_sizes_get clock_res_get clock_time_get environ_get environ_sizes_get \
     fd_advise fd_allocate fd_close fd_datasync fd_fdstat_get fd_fdstat_set_flags fd_fdstat_set_rights fd_filestat_get \
     fd_filestat_set_size fd_filestat_set_times fd_pread fd_prestat_dir_name fd_prestat_get fd_pwrite fd_read \
     fd_readdir fd_renumber fd_seek fd_sync fd_tell fd_write path_create_directory path_filestat_get \
     path_filestat_set_times path_link path_open path_readlink path_remove_directory path_rename path_symlink \
     path_unlink_file poll_oneoff proc_exit proc_raise random_get sched_yield sock_accept sock_recv sock_send \
     sock_shutdown";

/// A module for the world `verifier`, with these imports and this body of `describe`.
fn guest(imports: &str, describe: &str) -> Vec<u8> {
    let text = format!(
        r#"(module {imports}
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
            (func (export "pointsman:verifier/verify@0.1.0#describe") (result i32) {describe} (i32.const 1024))
            (func (export "pointsman:verifier/verify@0.1.0#verify")
                (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64) (result i32) unreachable))"#
    );
    wat::parse_str(text).unwrap()
}

fn with_world(mut module: Vec<u8>, wit: &str, world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

fn with_contract(module: Vec<u8>) -> Vec<u8> {
    with_world(module, include_str!("../../../../verifiers/wit/verifier.wit"), "verifier")
}

fn imports(component: &[u8]) -> Vec<String> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(component).unwrap() else {
        panic!("no component");
    };
    resolve.worlds[world].imports.keys().map(|key| resolve.name_world_key(key)).collect()
}

/// Calls `describe` in a host that links nothing.
fn describe(component: &[u8]) -> wasmtime::Result<Val> {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &Component::new(&engine, component)?)?;
    let (_, verify) = instance.get_export(&mut store, None, VERIFY).unwrap();
    let (_, function) = instance.get_export(&mut store, Some(&verify), "describe").unwrap();
    let mut results = [Val::Bool(false)];
    instance.get_func(&mut store, function).unwrap().call(&mut store, &[], &mut results)?;
    let [manifest] = results;
    Ok(manifest)
}

#[test]
fn wraps_a_module_without_imports() {
    let component = componentize(&with_contract(guest("", ""))).unwrap();
    assert_eq!(imports(&component), ["pointsman:verifier/types@0.1.0"]);
    assert!(matches!(describe(&component).unwrap(), Val::Record(fields) if fields[0].0 == "name"));
}

#[test]
fn the_adapter_denies_every_function_of_preview1() {
    let adapter = wat::parse_str(DENY).unwrap();
    let mut exports: Vec<String> = vec![];
    for payload in Parser::new(0).parse_all(&adapter) {
        if let Payload::ExportSection(section) = payload.unwrap() {
            exports.extend(section.into_iter().map(|export| export.unwrap().name.to_owned()));
        }
    }
    exports.sort();
    assert_eq!(exports.join(" "), PREVIEW1_FUNCTIONS);
}

#[test]
fn a_module_that_tries_wasi_imports_nothing_and_is_denied() {
    let imports_wasi = r#"
        (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))"#;
    let body = r#"
        (i32.store (i32.const 16) (i32.const 7))
        (if (call $environ (i32.const 16) (i32.const 20)) (then unreachable))
        (if (i32.load (i32.const 16)) (then unreachable))
        (if (i32.ne (call $clock (i32.const 0) (i64.const 0) (i32.const 32)) (i32.const 52)) (then unreachable))
        (if (i32.ne (call $random (i32.const 32) (i32.const 8)) (i32.const 52)) (then unreachable))
        (if (i64.ne (i64.load (i32.const 32)) (i64.const 0)) (then unreachable))
        (i32.store (i32.const 44) (i32.const 3))
        (i32.store (i32.const 52) (i32.const 4))
        (if (call $write (i32.const 1) (i32.const 40) (i32.const 2) (i32.const 60)) (then unreachable))
        (if (i32.ne (i32.load (i32.const 60)) (i32.const 7)) (then unreachable))
        (if (i32.ne (call $write (i32.const 3) (i32.const 40) (i32.const 2) (i32.const 60)) (i32.const 8))
            (then unreachable))"#;
    let component = componentize(&with_contract(guest(imports_wasi, body))).unwrap();
    assert_eq!(imports(&component), ["pointsman:verifier/types@0.1.0"]);
    describe(&component).unwrap();
}

#[test]
fn exit_traps() {
    let exits = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#;
    let component = componentize(&with_contract(guest(exits, "(call $exit (i32.const 0))"))).unwrap();
    assert!(describe(&component).is_err());
}

#[test]
fn refuses_what_is_no_module() {
    let whole = with_contract(guest("", ""));
    for bytes in [&b""[..], b"#!/bin/sh", &whole[..whole.len() / 2]] {
        assert!(matches!(componentize(bytes), Err(ComponentizeError::NotAModule(_))));
    }
}

#[test]
fn refuses_a_component() {
    let component = componentize(&with_contract(guest("", ""))).unwrap();
    assert!(matches!(componentize(&component), Err(ComponentizeError::AlreadyAComponent)));
}

#[test]
fn refuses_a_module_without_a_world() {
    assert!(matches!(componentize(&guest("", "")), Err(ComponentizeError::NoWorld)));
}

#[test]
fn refuses_a_module_of_another_world() {
    let module = with_world(guest("", ""), "package a:b; world w { export run: func(); }", "w");
    assert!(matches!(componentize(&module), Err(ComponentizeError::WrongWorld)));
}

#[test]
fn names_every_import_that_no_verifier_is_given() {
    let imports = r#"(import "env" "sqrt" (func)) (import "wasi_unstable" "fd_write" (func))"#;
    let Err(ComponentizeError::Imports(named)) = componentize(&with_contract(guest(imports, ""))) else {
        panic!("taken");
    };
    assert_eq!(named, "env::sqrt, wasi_unstable::fd_write");
}

#[test]
fn refuses_a_module_that_lacks_what_its_world_exports() {
    let module = with_contract(wat::parse_str(r#"(module (memory (export "memory") 1))"#).unwrap());
    assert!(matches!(componentize(&module), Err(ComponentizeError::Misfit(_))));
}
