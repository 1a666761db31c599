#!/usr/bin/env bash
# Measures the README's figures with the release build and writes bench/results/. See bench/README.md.
# Usage: bench/run.sh [demo] [action] [memory] [embedding] [domains] [replay]    all of them without a name
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release
bin=${CARGO_TARGET_DIR:-target}/release/pointsman
out=bench/results
mkdir -p "$out"
{
    date -u +%F
    uname -sm
    grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | sed 's/^ *//' || true
    echo "$(nproc) cores"
    rustc --version
} > "$out/machine.txt"
wanted=" ${*:-demo action memory embedding domains replay} "
wants() { [[ $wanted == *" $1 "* ]]; }
if wants demo; then
    "$bin" demo --tasks 2000 --json "$out/demo.json" | tee "$out/demo.txt"
fi
if wants action; then
    cargo bench --bench action 2>&1 | tee /dev/stderr | sed -n '/^64 x 8 arms/,$p' > "$out/action.txt"
fi
if wants memory; then
    snapshot=$(mktemp -u).zip
    POINTSMAN_BENCH_SNAPSHOT=$snapshot cargo bench --bench memory 2>&1 | tee /dev/stderr |
        sed -n '/^the writer stored/,$p' > "$out/memory.txt"
    bench/resident.sh "$bin" "$snapshot" | tee "$out/resident.txt"
    rm -f "$snapshot"
fi
if wants embedding; then
    cargo bench --bench embedding 2>&1 | tee /dev/stderr | sed -n '/^[0-9]* cores, /,$p' > "$out/embedding.txt"
fi
if wants domains; then
    cargo bench --bench domains 2>/dev/null | tee "$out/domains.txt"
fi
if ! wants replay; then
    exit
elif [ -d "${POINTSMAN_DATA:-}/llmrouter" ]; then
    policies=(uniform fixed:llama-3.1-nemotron-51b-instruct lin_ucb memory_knn domain_prior hybrid_linear ensemble)
    arguments=()
    for policy in "${policies[@]}"; do arguments+=(--policy "$policy"); done
    replay=("$bin" replay --dataset "$POINTSMAN_DATA/llmrouter" --seeds 5 "${arguments[@]}")
    "${replay[@]}" --json "$out/replay.json" | tee "$out/replay.txt"
    "${replay[@]}" --reward 1,0 --json "$out/replay_score.json" | tee "$out/replay_score.txt"
else
    echo "skipped the replay: POINTSMAN_DATA does not name a folder with llmrouter/"
fi
