#!/usr/bin/env bash
# Builds the component `python`: CPython with these modules, as one file.
#   build.sh OUTPUT.wasm
# Environment: POINTSMAN_PYTHON_CACHE, the folder that keeps the build tool between builds.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?the path of the component to write}
cache=${POINTSMAN_PYTHON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pointsman/componentize-py}

# The tools are keyed by what is pinned, so that a new pin makes a new folder.
tools=$cache/$(sha256sum <"$here/requirements.txt" | cut -c1-16)
if [ ! -x "$tools/bin/componentize-py" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi
# An empty environment: otherwise the packages installed on this machine leak into the component.
empty=$cache/empty
[ -d "$empty" ] || python3 -m venv --without-pip "$empty"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here"/*.py "$scratch/"
rm "$scratch"/test_*.py "$scratch/coverage.py"
VIRTUAL_ENV=$empty "$tools/bin/componentize-py" --quiet -d "$here/../wit" -w exec-verifier \
    componentize app -p "$scratch" -o "$scratch/python.wasm"
mv "$scratch/python.wasm" "$out"
