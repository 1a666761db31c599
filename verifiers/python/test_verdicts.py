"""The golden lines, and those attacks that need no sandbox, through the component's exports; real prompts where given."""

import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "stubs")]

import app  # noqa: E402
import coverage  # noqa: E402
from componentize_py_types import Err  # noqa: E402
from wit_world.imports import sandbox, types  # noqa: E402

ERRORS = {"VerifyError_NotApplicable": "not-applicable", "VerifyError_InvalidTask": "invalid-task",
          "VerifyError_Internal": "internal"}


def read_lines(name):
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def verify(line):
    """The verdict, or the name of the error."""
    task = line["task"]
    text = line["response"] * line.get("repeat", 1)
    try:
        return app.Verify().verify(types.Task(task["id"], task["domain"], task["prompt"], json.dumps(task["metadata"])),
                                   types.Response(text), line.get("config", ""), types.Budget(2000, 1 << 27))
    except Err as error:
        return ERRORS[type(error.value).__name__]
    finally:
        sandbox.stop()


class Verdicts(unittest.TestCase):
    def test_golden_lines_score_as_expected(self):
        lines = read_lines("golden.jsonl")
        self.assertGreaterEqual(len(lines), 40)
        for line in lines:
            with self.subTest(line["task"]["id"]):
                self.expect(line, verify(line))

    def test_cheats_get_the_score_they_deserve(self):
        lines = [line for line in read_lines("attacks.jsonl") if line["name"].startswith("cheat-")]
        self.assertGreaterEqual(len(lines), 10)
        for line in lines:
            with self.subTest(line["name"]):
                self.expect(line, verify(line))

    def expect(self, line, verdict):
        expect = line["expect"]
        if "error" in expect:
            self.assertEqual(verdict, expect["error"])
            return
        self.assertNotIsInstance(verdict, str)
        self.assertAlmostEqual(verdict.score, expect["score"], delta=expect["tolerance"], msg=verdict.trace)
        weight = sum(signal.weight for signal in verdict.signals)
        mean = sum(signal.weight * signal.score for signal in verdict.signals) / weight
        self.assertAlmostEqual(verdict.score, mean)
        if "trace" in expect:
            self.assertIn(expect["trace"], "\n".join(verdict.trace))

    def test_equal_arguments_give_equal_verdicts(self):
        line = read_lines("golden.jsonl")[0]
        self.assertEqual(verify(line), verify(line))

    def test_tests_are_found_in_nine_of_ten_humaneval_prompts(self):
        folder = os.environ.get("POINTSMAN_DATA")
        if not folder:
            print("skipped: POINTSMAN_DATA is not set", file=sys.stderr)
            self.skipTest("POINTSMAN_DATA is not set")
        prompts = coverage.read_prompts(folder)["humaneval"]
        found, _, _, _ = coverage.measure(prompts)
        self.assertEqual(len(prompts), 100)
        self.assertGreaterEqual(found, 90)


if __name__ == "__main__":
    unittest.main()
