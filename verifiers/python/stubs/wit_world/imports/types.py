"""The records of the contract."""

import collections

Task = collections.namedtuple("Task", "id domain prompt metadata")
Response = collections.namedtuple("Response", "text")
Budget = collections.namedtuple("Budget", "deadline_ms memory_bytes")
Signal = collections.namedtuple("Signal", "name score weight detail")
Verdict = collections.namedtuple("Verdict", "score confidence signals trace")
SignalSpec = collections.namedtuple("SignalSpec", "name weight doc")
Manifest = collections.namedtuple("Manifest", "name version domains signals config_schema deterministic")
VerifyError_NotApplicable = collections.namedtuple("VerifyError_NotApplicable", "value")
VerifyError_InvalidTask = collections.namedtuple("VerifyError_InvalidTask", "value")
VerifyError_Internal = collections.namedtuple("VerifyError_Internal", "value")
