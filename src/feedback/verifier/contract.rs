//! The host side of `verifiers/wit`, generated at compile time.

wasmtime::component::bindgen!({ path: "verifiers/wit", world: "verifier" });
