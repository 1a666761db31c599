#!/usr/bin/env bash
# Resident memory of a daemon whose memory is full: uploads and restores a snapshot of 20,000 entries (bench/memory.rs
# leaves one), sends 500 tasks, and reads VmRSS; then the same after a restart. Usage: bench/resident.sh BINARY SNAPSHOT
set -euo pipefail
bin=$1 snapshot=$2
work=$(mktemp -d)
daemon=
trap 'kill "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT
for arm in a b c; do printf '[[arms]]\nid = "%s"\nkind = "scripted"\ndefault_skill = 0.5\n' "$arm"; done > "$work/pointsman.toml"
start() {
    # Emptied here, not by the daemon, which the loop would not wait for.
    : > "$work/out"
    "$bin" serve --config "$work/pointsman.toml" --data-dir "$work/data" --listen 127.0.0.1:0 > "$work/out" 2> "$work/log" &
    daemon=$!
    until grep -q '^Listening' "$work/out"; do
        kill -0 "$daemon" || { cat "$work/log"; exit 1; }
        sleep 0.1
    done
    url=$(grep -o 'http://[0-9.:]*' "$work/out" | head -1)
}
tasks() {
    for n in $(seq "$1" "$2"); do echo "{\"domain\": \"math\", \"prompt\": \"What is $n plus $n?\"}"; done |
        curl -sS -T - -X POST "$url/v1/tasks/stream" > "$work/answers"
    [ "$(grep -c decision_id "$work/answers")" = $(($2 - $1 + 1)) ]
}
resident() { awk '/^VmRSS/ { printf "%.0f MB\n", $2 / 1024 }' "/proc/$daemon/status"; }
memory() { "$bin" memory --data-dir "$work/data" "$@"; }
start
tasks 1 50
echo "resident with 50 entries: $(resident)"
memory snapshot upload "$snapshot" --name full
memory snapshot restore full
echo "resident just after restoring 20,000 entries: $(resident)"
tasks 51 550
memory stats | head -1
echo "resident with a full memory after 500 more tasks: $(resident)"
kill -INT "$daemon"; wait "$daemon"
start
tasks 551 600
memory stats | head -1
echo "resident with a full memory after a restart: $(resident)"
