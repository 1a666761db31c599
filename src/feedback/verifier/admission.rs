//! What a file must be before any of its code runs: a component of the contract that imports nothing but what is
//! denied or harmless.
//!
//! Imports and exports are read without compiling, so that a wrong file is refused in microseconds with its reason.

use std::borrow::Cow;

use wasmparser::{ComponentExternName, Encoding, Parser, Payload};
use wasmtime::Engine;

use super::componentize::{ComponentizeError, componentize};

/// The largest component that is taken: CPython with its library is 19 to 32 MB.
pub const COMPONENT_BYTES_MAX: usize = 64 << 20;
/// What every verifier exports; a later patch version may come with more functions.
const VERIFY: &str = "pointsman:verifier/verify@0.1.";
/// What one that runs code exports.
const RUNNER: &str = "pointsman:verifier/runner@0.1.";
/// Names of types; there is nothing to link.
const TYPES: &str = "pointsman:verifier/types@0.1.";
/// The way to the second instance.
const SANDBOX: &str = "pointsman:verifier/sandbox@0.1.";
/// The parts of WASI 0.2 that are linked, each denied or fixed.
const DENIED: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// Why a component is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More bytes than are read.
    #[error("it is larger than {COMPONENT_BYTES_MAX} bytes: build it without debug information")]
    TooLarge,
    /// Some other file.
    #[error("it is not WebAssembly: it does not start with \\0asm; send the .wasm file itself, not text or an archive")]
    NotWasm,
    /// Machine code, which would run outside the sandbox.
    #[error("it is precompiled machine code, which is never loaded: send the WebAssembly that it was compiled from")]
    Precompiled,
    /// A core module that cannot be made a component.
    #[error("it is a core module that cannot be made a component: {0}")]
    CoreModule(String),
    /// Cut off, or damaged.
    #[error("it is truncated or damaged: {0}")]
    Malformed(String),
    /// It needs what no verifier gets.
    #[error("it imports {}, which no verifier gets; of WASI 0.2 there are io, clocks, random, cli, filesystem and sockets, \
             all denied", .0.join(", "))]
    UnknownImports(Vec<String>),
    /// It is a component of something else, or of another version.
    #[error("it does not export pointsman:verifier/verify@0.1.0, but {}: build it against verifiers/wit of this version",
            if .0.is_empty() { "nothing".into() } else { .0.join(", ") })]
    OtherWorld(Vec<String>),
    /// It imports the second instance and does not export what would run in it.
    #[error(
        "it imports pointsman:verifier/sandbox but does not export pointsman:verifier/runner: build it against the \
             world exec-verifier"
    )]
    NoRunner,
    /// The compiler refused it.
    #[error("it does not compile: {0}")]
    DoesNotCompile(String),
    /// Its functions have other types than the contract's, or it needs more than an instance may have.
    #[error("it cannot be instantiated: {0}; it may be built against other records than those of verifiers/wit")]
    DoesNotInstantiate(String),
    /// It could not say what it is.
    #[error("its describe failed: {0}")]
    DescribeFailed(String),
    /// What it says of itself makes no sense.
    #[error("its manifest is wrong: {0}")]
    BadManifest(String),
    /// It failed on a plain task.
    #[error("it failed on a plain task: {0}")]
    ProbeFailed(String),
}

impl Refusal {
    /// A stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::NotWasm => "not-wasm",
            Self::Precompiled => "precompiled",
            Self::CoreModule(_) => "core-module",
            Self::Malformed(_) => "malformed",
            Self::UnknownImports(_) => "unknown-imports",
            Self::OtherWorld(_) => "other-world",
            Self::NoRunner => "no-runner",
            Self::DoesNotCompile(_) => "does-not-compile",
            Self::DoesNotInstantiate(_) => "does-not-instantiate",
            Self::DescribeFailed(_) => "describe-failed",
            Self::BadManifest(_) => "bad-manifest",
            Self::ProbeFailed(_) => "probe-failed",
        }
    }
}

/// A component that may be compiled.
pub(super) struct Admitted<'a> {
    /// It, or what was made of a core module.
    pub component: Cow<'a, [u8]>,
    /// Whether it runs code in a second instance.
    pub runs_code: bool,
}

/// The component that a file is, or that can be made of the core module that it is.
pub(super) fn component(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    if bytes.len() > COMPONENT_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(Refusal::Precompiled);
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(Refusal::NotWasm);
    }
    if Parser::is_core_wasm(bytes) {
        let made = componentize(bytes).map_err(|error| match error {
            ComponentizeError::NotAModule(why) => Refusal::Malformed(why),
            error => Refusal::CoreModule(error.to_string()),
        })?;
        return Ok(Cow::Owned(made));
    }
    Ok(Cow::Borrowed(bytes))
}

/// Looks at a file without running or compiling any of it.
pub(super) fn admit(bytes: &[u8]) -> Result<Admitted<'_>, Refusal> {
    let component = component(bytes)?;
    let Surface { imports, exports } = Surface::of(&component)?;
    let linked = |name: &String| {
        let denied = DENIED.iter().any(|package| name.starts_with(package)) && name.contains("@0.2.");
        denied || name.starts_with(TYPES) || name.starts_with(SANDBOX)
    };
    let unknown: Vec<String> = imports.iter().filter(|name| !linked(name)).cloned().collect();
    if !unknown.is_empty() {
        return Err(Refusal::UnknownImports(unknown));
    }
    if !exports.iter().any(|name| name.starts_with(VERIFY)) {
        return Err(Refusal::OtherWorld(exports));
    }
    let runs_code = imports.iter().any(|name| name.starts_with(SANDBOX));
    if runs_code && !exports.iter().any(|name| name.starts_with(RUNNER)) {
        return Err(Refusal::NoRunner);
    }
    Ok(Admitted { component, runs_code })
}

/// The names at a component's edge.
struct Surface {
    imports: Vec<String>,
    exports: Vec<String>,
}

impl Surface {
    fn of(bytes: &[u8]) -> Result<Self, Refusal> {
        let malformed = |error: wasmparser::Error| Refusal::Malformed(error.to_string());
        let mut surface = Self { imports: vec![], exports: vec![] };
        // Modules and components nested in it have edges of their own, which are its own affair.
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(malformed)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(Refusal::NotWasm),
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        surface.imports.push(named(&import.map_err(malformed)?.name));
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        surface.exports.push(named(&export.map_err(malformed)?.name));
                    }
                }
                // The other sections say nothing of the edge.
                _ => {}
            }
        }
        Ok(surface)
    }
}

fn named(name: &ComponentExternName<'_>) -> String {
    name.name.to_owned()
}
