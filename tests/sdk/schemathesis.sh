#!/usr/bin/env bash
# Requests that schemathesis makes of the API's description, sent to a running daemon: no 5xx, no answer that is not described.
# Usage: SCHEMATHESIS=PROGRAM ADMIN_KEY=... CLIENT_KEY=... schemathesis.sh URL
# The daemon should have finished a task, whose event `GET /v1/events` can show, and should have scripted workers only.
set -euo pipefail
url=$1
here=$(cd "$(dirname "$0")" && pwd)
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

# The same requests each time, so that a failure can be looked at, and a change is what makes one. An API that works needs two
# minutes for each key; ten mean that it hangs.
as() {
    local who=$1 key=$2 tries=0 out
    shift 2
    out=$(mktemp)
    until timeout 600 "$SCHEMATHESIS" --config-file "$here/schemathesis.toml" --no-color run "$url/openapi.json" \
        --header "Authorization: Bearer $key" "$@" >"$out" 2>&1; do
        # Python 3.11 may fail by itself where several threads parse (its issue 106905). That says nothing of the API, and
        # what does is found again.
        if ! grep -q "AST constructor recursion depth mismatch" "$out" || [ $((tries += 1)) -gt 3 ]; then
            cat "$out"
            return 1
        fi
    done
    cat "$out"
    rm -f "$out"
    echo "as $who: no breach"
}

# Arms come last: where all are switched off, a 503 is the right answer to every task.
as admin "$ADMIN_KEY" --exclude-path-regex '^/v1/arms/'
# What only admins may do answers a client 403, whatever is sent.
as client "$CLIENT_KEY" --exclude-path-regex '^/v1/(arms|policies|domains|keys|tenants|memory)/'
as admin-of-arms "$ADMIN_KEY" --include-path-regex '^/v1/arms/'
