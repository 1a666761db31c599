"""One instance of the untrusted side, for the stubbed sandbox: requests as JSON lines, replies likewise."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import runner  # noqa: E402

# The answer gets file descriptors that lead nowhere.
requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
nowhere = os.open(os.devnull, os.O_RDWR)
for descriptor in (0, 1, 2):
    os.dup2(nowhere, descriptor)

candidate = runner.Candidate()
for line in requests:
    kind, *args = json.loads(line)
    try:
        if kind == "load":
            candidate.load(*args)
            reply = [True, candidate.take_printed()]
        else:
            reply = [True, runner.answer_request(candidate, *args)]
    except BaseException as error:
        reply = [False, runner.describe_error(error)]
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
