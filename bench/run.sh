#!/usr/bin/env bash
# Measures the README's figures with the release build and writes bench/results/. See bench/README.md.
# Usage: bench/run.sh [demo] [action] [memory] [embedding] [domains] [verifiers] [regret] [classifiers] [replay]
#        [journal] [kill] [faults] [off_policy] [paper] [mode_router] [load] [soak] [pages] [mode_training]
#        all of them but load, soak, pages and mode_training without a name
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
wanted=" ${*:-demo action memory embedding domains verifiers journal kill faults off_policy mode_router regret paper classifiers replay} "
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
# What a table was measured with, and on.
measured() {
    echo "\$ $*"
    paste -sd, "$out/machine.txt" | sed 's/,/, /g'
    echo
}
journal() {
    local file=$1
    shift
    set -- cargo bench --bench journal -- "$@" --json "$out/$file.json"
    { measured "$@"; "$@" 2>/dev/null; } | tee "$out/$file.txt"
}
if wants journal; then
    journal journal
fi
if wants soak; then
    journal soak soak
fi
if wants pages; then
    set -- cargo bench --bench pages -- --json "$out/pages.json"
    { measured "$@"; "$@" 2>/dev/null; } | tee "$out/pages.txt"
fi
if wants load; then
    set -- cargo bench --bench load -- --seconds 10 --json "$out/load.json"
    { measured "$@"; "$@" 2>/dev/null; } | tee "$out/load.txt"
fi
if wants kill; then
    { measured cargo bench --bench kill; cargo bench --bench kill 2>/dev/null; } | tee "$out/kill.txt"
fi
if wants faults; then
    set -- cargo test --release --test integration -- faults:: --test-threads 1
    { measured "$@"; "$@" 2>&1 | tee /dev/stderr | sed -n 's/.*\(| .* | .*\)$/\1/p'; } > "$out/faults.txt"
fi
if wants off_policy; then
    { measured cargo bench --bench off_policy; cargo bench --bench off_policy 2>/dev/null; } | tee "$out/off_policy.txt"
fi
if wants mode_router; then
    set -- cargo bench --bench mode_router
    { measured "$@"; "$@" 2>/dev/null | grep -E '^mode_router/|time:' | sed 'N;s/\n */  /'; } | tee "$out/mode_router.txt"
fi
if wants mode_training; then
    set -- cargo bench --bench mode_training -- --json "$out/mode_training.json"
    { measured "$@"; "$@" 2>/dev/null; } | tee "$out/mode_training.txt"
fi
if wants embedding; then
    cargo bench --bench embedding 2>&1 | tee /dev/stderr | sed -n '/^[0-9]* cores, /,$p' > "$out/embedding.txt"
fi
if wants domains; then
    cargo bench --bench domains 2>/dev/null | tee "$out/domains.txt"
fi
if wants verifiers; then
    python=$("$bin" verify setup) || echo "python is left out: its verifier could not be built"
    POINTSMAN_PYTHON_VERIFIER=${python:-} cargo bench --bench verifiers 2>/dev/null | tee "$out/verifiers.txt"
fi
if wants verifiers && [ -d "${POINTSMAN_DATA:-}/gsm8k_responses" ]; then
    (cd verifiers && cargo run --quiet --release -p answer --example gsm8k) > "$out/answer_gsm8k.md"
fi
if wants verifiers && [ -d "${POINTSMAN_DATA:-}/coderouterbench" ]; then
    (cd verifiers/python && python3 coverage.py "$POINTSMAN_DATA") | tee "$out/python_coverage.txt"
fi
if [ ! -d "${POINTSMAN_DATA:-}/llmrouter" ]; then
    echo "skipped regret and replay: POINTSMAN_DATA does not name a folder with llmrouter/"
    exit
fi
data=$POINTSMAN_DATA/llmrouter
replay() {
    local file=$1
    shift
    "$bin" replay --dataset "$data" "$@" --json "$out/$file.json" | tee "$out/$file.txt"
}
if wants paper && [ -n "${POINTSMAN_DATA:-}" ]; then
    { measured pointsman bench paper --data coderouterbench
      "$bin" bench paper --data "$POINTSMAN_DATA/coderouterbench" --csv "$out/paper.csv" 2>/dev/null; } | tee "$out/paper.txt"
fi
if wants regret; then
    all=()
    for policy in uniform epsilon_greedy ucb1 beta_thompson domain_prior memory_knn knn_ucb lin_ucb lin_thompson \
        square_cb bag hybrid_linear hybrid_ucb hybrid_text ensemble fixed:llama-3.1-nemotron-51b-instruct; do
        all+=(--policy "$policy")
    done
    replay regret --reward 1,0 --seeds 5 "${all[@]}"
    # Five orders differ by tens from five others.
    replay regret_20 --reward 1,0 --seeds 20 --policy ensemble --policy hybrid_text
    venv=$(mktemp -d)
    if python3 -m venv "$venv" && "$venv/bin/pip" --quiet install vowpalwabbit==9.11.9 numpy; then
        "$venv/bin/python" bench/regret/vw.py "$data" 5 | tee "$out/regret_vw.txt"
    else
        echo "skipped Vowpal Wabbit: it could not be installed"
    fi
    rm -rf "$venv"
fi
if wants classifiers; then
    trained=$(mktemp -d)
    "$bin" train classifier --dataset "$data" --split train --out "$trained/classifier.json"
    "$bin" train classifier --kind tfidf --dataset "$data" --split train --out "$trained/tfidf_classifier.json"
    "$bin" train priors --dataset "$data" --split train --out "$trained/priors.json"
    cat > "$trained/trained.toml" <<'CARD'
name = "trained"
[classifier]
model = "classifier.json"
[tfidf_classifier]
model = "tfidf_classifier.json"
[domain_prior]
probing = "priors.json"
CARD
    replay classifiers --split test --seeds 8 --card "$trained/trained.toml" \
        --policy uniform --policy classifier --policy tfidf_classifier --policy domain_prior
    rm -rf "$trained"
fi
if wants replay; then
    replay replay --seeds 5 --policy uniform --policy ensemble --policy hybrid_text --policy hybrid_linear \
        --policy domain_prior --policy memory_knn --policy lin_ucb --policy fixed:llama-3.1-nemotron-51b-instruct
fi
