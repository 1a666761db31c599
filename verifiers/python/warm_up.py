"""Judges a few answers at build time, so that the snapshot holds compiled patterns and warm caches."""

import builtins
import json
import sys

import judge
import runner


class Err(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


class Local:
    """Both sides in one instance: fit for the code below, never for an answer."""
    Error = Err

    def __init__(self):
        self.candidate = None

    def load(self, code):
        self.candidate = runner.Candidate()
        self.candidate.load(code)
        return self.candidate.take_printed()

    def call(self, name, args):
        try:
            return runner.answer_request(self.candidate, name, args)
        except BaseException as error:
            raise Err(runner.describe_error(error)) from None


STUB = '''from typing import List


def near(numbers: List[float], limit: float) -> bool:
    """ Tells whether two numbers are closer than the limit.
    >>> near([1.0, 2.0], 0.5)
    False
    >>> near([], 1)
    Traceback (most recent call last):
    ValueError: empty
    Example: near([1, 2], 3) -> True
    """
'''
BODY = '''    if not numbers:
        raise ValueError("empty")
    return any(abs(a - b) < limit for i, a in enumerate(numbers) for b in numbers[:i])
'''
METHOD = "class Solution:\n    def add(self, a, b):\n        print('x')\n" \
         "        return {'sum': [a + b, (1,), {2}, 0.5, -1, None]}\n"
RUN = "n = int(input())\nprint(sum(map(int, input().split())), n)\n"
UNIT = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(near([1, 2], 3), True)\n"
CHECK = "def check(candidate):\n    assert candidate([1.0, 2.0], 0.5) == False\n    assert abs(candidate([1], 3) - 0) < 1\n"
SAMPLE = "Read n.\n\nInput\n\nn, then numbers\n\nSample Input 1\n\n2\n1 2\n\nSample Output 1\n\n3 2\n"
PAIR = "Example 1:\nInput: a = 1, b = 2\nOutput: {\"sum\": 3}\n"

CASES = [
    (STUB, {}, BODY), (STUB, {}, f"Here:\n```python\n{STUB}{BODY}```\nDone."),
    (STUB, {"tests": CHECK, "entry_point": "near"}, f"```python\n{STUB}{BODY}```"),
    (STUB, {"tests": UNIT}, f"```\n{STUB}{BODY}\n```\n```\nnear([1], 2)\n```"),
    ("Write `near(numbers, limit)`. near([1], 2) => False", {}, f"```python\n{STUB}{BODY}```"),
    ("", {"tests": [{"input": [1, 2], "output": 3}], "entry_point": "add"}, METHOD),
    (SAMPLE, {}, f"```python\n{RUN}```"), (PAIR, {}, f"```python\n{METHOD}```"),
    ("", {"language": "python"}, "```python\ndef f(:\n```"),
    ("", {"language": "python"}, "```python\nraise ValueError(1)\n```"),
]


def run():
    """Three rounds: the interpreter specialises code after a few calls."""
    streams, real_open, main = (sys.stdin, sys.stdout, sys.stderr, sys.argv), builtins.open, sys.modules.get("__main__")
    for _ in range(3):
        for prompt, metadata, answer in CASES:
            judge.judge(prompt, json.dumps(metadata), answer, "", Local())
    sys.stdin, sys.stdout, sys.stderr, sys.argv = streams
    builtins.open = real_open
    sys.modules.pop("candidate", None)
    if main is not None:
        sys.modules["__main__"] = main
