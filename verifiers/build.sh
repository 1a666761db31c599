#!/usr/bin/env bash
# Builds the three first-party components into built/ and writes their sums.
#   build.sh           build, componentise, write built/{*.wasm,SHA256SUMS,TOOLCHAIN}
#   build.sh --check   build elsewhere and compare the sums; skipped when the toolchain is not the recorded one
#
# The compiler: rustup's wasm32-unknown-unknown when installed; else Debian's rustc-web, unpacked into a cache folder
# (never installed) and used with the standard library built from its sources.
# Environment: CARGO_TARGET_DIR (default verifiers/target), POINTSMAN_RUSTC_WEB (that cache folder).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
names=(rules json answer)
target=wasm32-unknown-unknown
work=${CARGO_TARGET_DIR:-$here/target}
cache=${POINTSMAN_RUSTC_WEB:-${XDG_CACHE_HOME:-$HOME/.cache}/pointsman/rustc-web}
cargo_args=()

fetch_rustc_web() {
    local packages=(rustc-web rust-web-src libstd-rust-web-dev) depends
    mkdir -p "$cache/debs"
    # The runtime library and LLVM carry their version in their names.
    packages+=("$(apt-cache depends libstd-rust-web-dev | awk '/Depends: libstd-rust-web-[0-9]/ { print $2; exit }')")
    depends=$(apt-cache depends "${packages[-1]}")
    packages+=("$(awk '/Depends: libllvm/ { print $2; exit }' <<<"$depends")")
    (cd "$cache/debs" && apt-get download "${packages[@]}" && for deb in *.deb; do dpkg -x "$deb" "$cache/root"; done)
    rm -r "$cache/debs"
}

choose_toolchain() {
    if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        rustc=$(rustup which rustc)
        sysroot=$("$rustc" --print sysroot)
    else
        local linker_root
        linker_root=$(rustc --print sysroot)
        rustc=$cache/root/usr/bin/rustc
        [ -x "$rustc" ] || fetch_rustc_web
        export LD_LIBRARY_PATH=$cache/root/usr/lib/x86_64-linux-gnu RUSTC_BOOTSTRAP=1
        export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker_root/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld
        sysroot=$(cd "$("$rustc" --print sysroot)" && pwd -P)
        cargo_args=(-Zbuild-std=std,panic_abort)
    fi
    toolchain=$("$rustc" --version)
}

# Builds into folder $1. Paths are remapped so that the sums do not depend on where the sources lie.
build_into() {
    local out=$1 home=${CARGO_HOME:-$HOME/.cargo} packages=()
    mkdir -p "$out"
    for name in "${names[@]}"; do packages+=(-p "$name"); done
    # The flags name this folder, and cargo hashes flags into symbol names: they go through a wrapper, unseen.
    local wrapper=$work/guest/rustc-remapped
    mkdir -p "$work/guest"
    cat >"$wrapper" <<EOF
#!/bin/sh
shift
exec "$rustc" --remap-path-prefix="$here"=/verifiers --remap-path-prefix="$home"=/cargo --remap-path-prefix="$sysroot"=/rust --remap-path-prefix="$work"=/target "\$@"
EOF
    chmod +x "$wrapper"
    (cd "$here" && RUSTC=$rustc RUSTC_WRAPPER=$wrapper RUSTFLAGS="" CARGO_ENCODED_RUSTFLAGS="" CARGO_TARGET_DIR=$work/guest \
        cargo build --locked --release --target "$target" "${cargo_args[@]}" "${packages[@]}")
    (cd "$here" && unset LD_LIBRARY_PATH RUSTC_BOOTSTRAP && CARGO_TARGET_DIR=$work cargo build --locked -p componentize)
    for name in "${names[@]}"; do
        "$work/debug/componentize" "$work/guest/$target/release/$name.wasm" "$out/$name.wasm"
    done
    (cd "$out" && sha256sum "${names[@]/%/.wasm}" >SHA256SUMS)
}

choose_toolchain
if [ "${1:-}" = --check ]; then
    if [ "$toolchain" != "$(cat "$here/built/TOOLCHAIN")" ]; then
        echo "skipped: built with $(cat "$here/built/TOOLCHAIN"), this is $toolchain"
        exit 0
    fi
    scratch=$(mktemp -d)
    trap 'rm -r "$scratch"' EXIT
    work=$scratch/target
    build_into "$scratch/built"
    diff "$here/built/SHA256SUMS" "$scratch/built/SHA256SUMS" && echo "the committed components are what the sources build"
else
    build_into "$here/built"
    echo "$toolchain" >"$here/built/TOOLCHAIN"
    cat "$here/built/SHA256SUMS"
fi
