//! `componentize CORE.wasm OUT.wasm`: wraps a core module into a component.
//!
//! The module carries its world in a custom section that wit-bindgen wrote. No adapter is linked, so a module
//! that imports WASI is refused here instead of failing in the host.

use anyhow::{Context, Result, bail};
use wit_component::ComponentEncoder;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [core_path, out_path] = args.as_slice() else { bail!("usage: componentize CORE.wasm OUT.wasm") };
    let core = std::fs::read(core_path).with_context(|| format!("read {core_path}"))?;
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&core)
        .with_context(|| format!("{core_path} is not a core module with an embedded world"))?
        .encode()
        .with_context(|| format!("encode {core_path}"))?;
    std::fs::write(out_path, component).with_context(|| format!("write {out_path}"))
}
