#!/usr/bin/env bash
# The C compiler of the guests that hold C (tree-sitter's runtime and grammars): zig cc, pinned.
#
#   wasm-cc.sh FOLDER   writes FOLDER/wasm-cc and FOLDER/wasm-ar, and prints zig's version
#
# Clang alone would do where it is installed, but its version is the machine's; PyPI's ziglang is the same everywhere,
# which the committed sums need. Environment: POINTSMAN_ZIG (a folder with a virtual environment that has it).
set -euo pipefail

pinned=0.17.0
out=$1
zig=${POINTSMAN_ZIG:-${XDG_CACHE_HOME:-$HOME/.cache}/pointsman/ziglang-$pinned}
if [ ! -x "$zig/bin/python" ]; then
    python3 -m venv "$zig" >&2
    "$zig/bin/pip" install --quiet "ziglang==$pinned" >&2
fi

mkdir -p "$out"
# The crate `cc` names the target in clang's words, which zig does not know.
cat >"$out/wasm-cc" <<EOF
#!/usr/bin/env bash
args=()
for arg in "\$@"; do
    case \$arg in
    --target=*) ;;
    *) args+=("\$arg") ;;
    esac
done
export ZIG_GLOBAL_CACHE_DIR="$out/zig-cache" ZIG_LOCAL_CACHE_DIR="$out/zig-cache"
exec "$zig/bin/python" -m ziglang cc -target wasm32-freestanding -fno-sanitize=undefined "\${args[@]}"
EOF
cat >"$out/wasm-ar" <<EOF
#!/usr/bin/env bash
exec "$zig/bin/python" -m ziglang ar "\$@"
EOF
chmod +x "$out/wasm-cc" "$out/wasm-ar"
echo "zig $("$zig/bin/python" -m ziglang version)"
