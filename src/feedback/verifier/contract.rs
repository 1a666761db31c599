//! The host side of `verifiers/wit`, generated at compile time, one module per world.

/// Every verifier: `describe` and `verify`.
pub(super) mod judging {
    wasmtime::component::bindgen!({
        path: "verifiers/wit",
        world: "verifier",
        exports: { default: async },
    });
}

/// Those that run the answer's code in a second instance of themselves.
pub(super) mod running {
    wasmtime::component::bindgen!({
        path: "verifiers/wit",
        world: "exec-verifier",
        imports: { default: async },
        exports: { default: async },
    });
}
