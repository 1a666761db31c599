#!/usr/bin/env bash
# Builds the first-party components into built/ and writes their sums.
#   build.sh           build, componentise, write built/{*.wasm,SHA256SUMS,TOOLCHAIN}
#   build.sh --check   build elsewhere and compare the sums; skipped when the toolchain is not the recorded one
#
# rust-wasm.sh finds the Rust, wasm-cc.sh the C compiler (for `syntax`, which holds tree-sitter).
# Environment: CARGO_TARGET_DIR (default verifiers/target), POINTSMAN_RUSTC_WEB, POINTSMAN_ZIG (see those two),
# CARGO_BUILD_JOBS.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
names=(rules json answer syntax consistency)
target=wasm32-unknown-unknown
work=${CARGO_TARGET_DIR:-$here/target}
source "$here/rust-wasm.sh"

# Variables for cargo's environment are kept apart: the host's own Rust must not see them.
guest_env=()
cargo_args=()
choose_toolchain() {
    local lines key value
    lines=$(wasm_rust)
    while IFS='=' read -r key value; do
        case $key in
        RUSTC) rustc=$value ;;
        SYSROOT) sysroot=$value ;;
        TOOLCHAIN) toolchain=$value ;;
        CARGO_ARGS) read -ra cargo_args <<<"$value" ;;
        *) guest_env+=("$key=$value") ;;
        esac
    done <<<"$lines"
    toolchain+=$'\n'$("$here/wasm-cc.sh" "$work/guest-cc")
}

# Headers for C without a C library. The grammars' build scripts do not ask for them, so they come as flags.
wasm_headers() {
    local manifest
    manifest=$(cd "$here" && cargo metadata --locked --format-version 1 |
        grep -o '"[^"]*/tree-sitter-language-[^"/]*/Cargo.toml"' | head -1 | tr -d '"')
    echo "$(dirname "$manifest")/wasm/include"
}

# Builds into folder $1. Paths are remapped so that the sums do not depend on where the sources lie.
build_into() {
    local out=$1 home=${CARGO_HOME:-$HOME/.cargo} packages=() headers
    mkdir -p "$out"
    for name in "${names[@]}"; do packages+=(-p "$name"); done
    headers=$(wasm_headers)
    # The flags name this folder, and cargo hashes flags into symbol names: they go through a wrapper, unseen.
    local wrapper=$work/guest/rustc-remapped
    mkdir -p "$work/guest"
    cat >"$wrapper" <<EOF
#!/bin/sh
shift
exec "$rustc" --remap-path-prefix="$here"=/verifiers --remap-path-prefix="$home"=/cargo --remap-path-prefix="$sysroot"=/rust --remap-path-prefix="$work"=/target "\$@"
EOF
    chmod +x "$wrapper"
    (cd "$here" && env "${guest_env[@]}" RUSTC="$rustc" RUSTC_WRAPPER="$wrapper" RUSTFLAGS="" CARGO_ENCODED_RUSTFLAGS="" \
        CARGO_TARGET_DIR="$work/guest" CC_wasm32_unknown_unknown="$work/guest-cc/wasm-cc" \
        AR_wasm32_unknown_unknown="$work/guest-cc/wasm-ar" \
        CFLAGS_wasm32_unknown_unknown="-I$headers -ffile-prefix-map=$home=/cargo" \
        cargo build --locked --release --target "$target" "${cargo_args[@]}" "${packages[@]}")
    (cd "$here" && CARGO_TARGET_DIR=$work cargo build --locked -p componentize)
    for name in "${names[@]}"; do
        "$work/debug/componentize" "$work/guest/$target/release/$name.wasm" "$out/$name.wasm"
    done
    (cd "$out" && sha256sum "${names[@]/%/.wasm}" >SHA256SUMS)
}

if [ "${1:-}" = --check ]; then
    recorded=$here/built/TOOLCHAIN
    scratch=$(mktemp -d)
    trap 'rm -r "$scratch"' EXIT
    work=$scratch/target
    choose_toolchain
    if [ "$toolchain" != "$(cat "$recorded")" ]; then
        echo "skipped: built with $(tr '\n' ' ' <"$recorded"), this is $(tr '\n' ' ' <<<"$toolchain")"
        exit 0
    fi
    build_into "$scratch/built"
    diff "$here/built/SHA256SUMS" "$scratch/built/SHA256SUMS" && echo "the committed components are what the sources build"
else
    choose_toolchain
    build_into "$here/built"
    echo "$toolchain" >"$here/built/TOOLCHAIN"
    cat "$here/built/SHA256SUMS"
fi
