#!/usr/bin/env bash
# Finds a Rust that builds wasm32-unknown-unknown: rustup's when that target is installed; else Debian's rustc-web,
# unpacked into a cache folder (never installed), with the standard library built from its sources.
#
#   rust-wasm.sh          prints what cargo needs, one KEY=VALUE a line, the value verbatim to the end of its line:
#                         RUSTC, SYSROOT, TOOLCHAIN (the compiler's version), CARGO_ARGS (split at spaces), and, only
#                         with rustc-web, variables for cargo's environment: LD_LIBRARY_PATH, RUSTC_BOOTSTRAP,
#                         CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER
#   source rust-wasm.sh   defines wasm_rust, which prints the same lines
#
# Environment: POINTSMAN_RUSTC_WEB (that cache folder). Needs apt and dpkg where rustup has no such target.

wasm_rust() (
    set -euo pipefail
    target=wasm32-unknown-unknown
    if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        rustc=$(rustup which rustc)
        echo "RUSTC=$rustc"
        echo "SYSROOT=$("$rustc" --print sysroot)"
        echo "TOOLCHAIN=$("$rustc" --version)"
        echo "CARGO_ARGS="
        return
    fi
    cache=${POINTSMAN_RUSTC_WEB:-${XDG_CACHE_HOME:-$HOME/.cache}/pointsman/rustc-web}
    # The linker comes from the Rust at hand: rustc-web brings none.
    linker=$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld
    rustc=$cache/root/usr/bin/rustc
    [ -x "$rustc" ] || fetch_rustc_web "$cache" >&2
    export LD_LIBRARY_PATH=$cache/root/usr/lib/x86_64-linux-gnu
    sysroot=$(cd "$("$rustc" --print sysroot)" && pwd -P)
    echo "RUSTC=$rustc"
    echo "SYSROOT=$sysroot"
    echo "TOOLCHAIN=$("$rustc" --version)"
    echo "CARGO_ARGS=-Zbuild-std=std,panic_abort"
    echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
    echo "RUSTC_BOOTSTRAP=1"
    echo "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker"
)

# Unpacks into folder $1/root. A half-done download is left in no place where it would be taken for whole.
fetch_rustc_web() {
    local cache=$1 packages=(rustc-web rust-web-src libstd-rust-web-dev) depends scratch
    mkdir -p "$cache"
    scratch=$(mktemp -d "$cache/fetch.XXXXXX")
    # The runtime library and LLVM carry their version in their names.
    packages+=("$(apt-cache depends libstd-rust-web-dev | awk '/Depends: libstd-rust-web-[0-9]/ { print $2; exit }')")
    depends=$(apt-cache depends "${packages[-1]}")
    packages+=("$(awk '/Depends: libllvm/ { print $2; exit }' <<<"$depends")")
    (cd "$scratch" && apt-get download "${packages[@]}" && for deb in *.deb; do dpkg -x "$deb" root; done)
    rm -rf "$cache/root"
    mv "$scratch/root" "$cache/root"
    rm -r "$scratch"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    wasm_rust
fi
