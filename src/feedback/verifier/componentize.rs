//! Wraps a core module, as compilers make it, into a component that the sandbox runs.
//!
//! The module says in a custom section which world it is for; wit-bindgen writes that section. A libc brings imports of
//! `wasi_snapshot_preview1` along, even where nothing uses them. They are linked here against an adapter that denies
//! everything, so that the component imports nothing: what it cannot ask for needs no guarding. What can go wrong: a
//! module that does want a clock or randomness builds, and finds out when it is called.

use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, metadata};
use wit_parser::WorldKey;

/// What a verifier must export.
const VERIFY: &str = "pointsman:verifier/verify@0.1.0";
/// What the contract's worlds may import.
const CONTRACT: &str = "pointsman:verifier/";
const PREVIEW1: &str = "wasi_snapshot_preview1";
const DENY: &str = include_str!("wasi_deny.wat");

/// Why a module could not be wrapped.
#[derive(Debug, thiserror::Error)]
pub enum ComponentizeError {
    /// Not WebAssembly, or cut short.
    #[error("it is no WebAssembly module ({0}): give the file that the compiler wrote, whole")]
    NotAModule(String),
    /// Nothing to do.
    #[error("it is a component already: use it as it is")]
    AlreadyAComponent,
    /// No custom section names a world.
    #[error(
        "it names no world: generate bindings of wit/verifier.wit with wit-bindgen and link them, \
         in C the file verifier_component_type.o too"
    )]
    NoWorld,
    /// The world is another one.
    #[error("its world does not export {VERIFY}: build it for the world `verifier` of wit/verifier.wit")]
    WrongWorld,
    /// It wants what no verifier gets.
    #[error(
        "it imports {0}, which no verifier gets: it may import {CONTRACT}* and {PREVIEW1}; \
         in C, an import from `env` is a function that no source file defines"
    )]
    Imports(String),
    /// The module and its world disagree.
    #[error("it does not fit its world: {0}; generate its bindings anew")]
    Misfit(String),
}

/// The component of a core module that carries a world of the contract.
pub fn componentize(module: &[u8]) -> Result<Vec<u8>, ComponentizeError> {
    refuse_unknown_imports(module)?;
    let misfit = |error: &dyn std::fmt::Display| ComponentizeError::Misfit(format!("{error:#}"));
    let (stripped, bindgen) = metadata::decode(module).map_err(|error| misfit(&error))?;
    if stripped.is_none() {
        return Err(ComponentizeError::NoWorld);
    }
    let is_verify = |key: &WorldKey| match key {
        WorldKey::Interface(id) => bindgen.resolve.id_of(*id).is_some_and(|name| name == VERIFY),
        WorldKey::Name(_) => false,
    };
    if !bindgen.resolve.worlds[bindgen.world].exports.keys().any(is_verify) {
        return Err(ComponentizeError::WrongWorld);
    }
    let deny = wat::parse_str(DENY).map_err(|error| misfit(&error))?;
    let encoded = ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|encoder| encoder.adapter(PREVIEW1, &deny))
        .and_then(|mut encoder| encoder.encode());
    encoded.map_err(|error| misfit(&error))
}

/// The encoder would name the first such import only, and not what to do.
fn refuse_unknown_imports(module: &[u8]) -> Result<(), ComponentizeError> {
    let malformed = |error: wasmparser::BinaryReaderError| ComponentizeError::NotAModule(error.message().to_owned());
    let mut unknown = vec![];
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding: Encoding::Component, .. } => {
                return Err(ComponentizeError::AlreadyAComponent);
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.map_err(malformed)?;
                    if import.module != PREVIEW1 && !import.module.starts_with(CONTRACT) {
                        unknown.push(format!("{}::{}", import.module, import.name));
                    }
                }
            }
            _ => {}
        }
    }
    if unknown.is_empty() { Ok(()) } else { Err(ComponentizeError::Imports(unknown.join(", "))) }
}

#[cfg(test)]
mod tests;
