#!/usr/bin/env bash
# Measures the README's figures with the release build and writes bench/results/. See bench/README.md.
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
"$bin" demo --tasks 2000 --json "$out/demo.json" | tee "$out/demo.txt"
if [ -d "${POINTSMAN_DATA:-}/llmrouter" ]; then
    policies=(uniform fixed:llama-3.1-nemotron-51b-instruct lin_ucb memory_knn domain_prior hybrid_linear ensemble)
    arguments=()
    for policy in "${policies[@]}"; do arguments+=(--policy "$policy"); done
    replay=("$bin" replay --dataset "$POINTSMAN_DATA/llmrouter" --seeds 5 "${arguments[@]}")
    "${replay[@]}" --json "$out/replay.json" | tee "$out/replay.txt"
    "${replay[@]}" --reward 1,0 --json "$out/replay_score.json" | tee "$out/replay_score.txt"
else
    echo "skipped the replay: POINTSMAN_DATA does not name a folder with llmrouter/"
fi
