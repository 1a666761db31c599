"""Bodies that a schema cannot say: lines of tasks, and files that are mostly no component and no snapshot."""

import json

import schemathesis
from hypothesis import strategies as st

TASKS = st.fixed_dictionaries(
    {"prompt": st.text(max_size=40)}, optional={"domain": st.sampled_from(["math", "text", "poetry"])}
)
LINES = st.one_of(TASKS.map(json.dumps), st.text(max_size=40)).map(lambda line: line.encode())

schemathesis.openapi.media_type("application/x-ndjson", st.lists(LINES, max_size=5).map(b"\n".join))
schemathesis.openapi.media_type("application/wasm", st.binary(max_size=200).map(lambda rest: b"\0asm" + rest))
schemathesis.openapi.media_type("application/zip", st.binary(max_size=200).map(lambda rest: b"PK\3\4" + rest))
