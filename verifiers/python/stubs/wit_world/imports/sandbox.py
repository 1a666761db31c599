"""The other instance, as a process of its own: what the host does with a second component instance.

A process has the host's files and network, so only harmless code may run here.
"""

import json
import pathlib
import resource
import selectors
import subprocess
import sys

from componentize_py_types import Err

SECONDS = 20
MEMORY = 1 << 30
HERE = pathlib.Path(__file__).resolve()
child = None


def _limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def stop():
    global child
    if child is not None:
        child.kill()
        child.communicate()
        child = None


def _ask(request):
    if child is None:
        raise Err("limit: the instance is gone")
    try:
        child.stdin.write(json.dumps(request) + "\n")
        child.stdin.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(child.stdout, selectors.EVENT_READ)
            ready = waiting.select(SECONDS)
        line = child.stdout.readline() if ready else ""
    except BrokenPipeError:
        ready, line = True, ""
    if not line:
        stop()
        raise Err("trapped: the process ended" if ready else "limit: it ran out of time")
    ok, text = json.loads(line)
    if not ok:
        raise Err(text)
    return text


def load(code):
    global child
    stop()
    child = subprocess.Popen([sys.executable, "-I", str(HERE.parents[2] / "instance.py")], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, preexec_fn=_limits)
    return _ask(["load", code])


def call(name, args):
    return _ask(["call", name, args])
