"""Scores one answer: finds the tests, finds the code, runs one against the other, tells what came of it."""

import dataclasses
import json
import math

from extract import ANSWER_MAX, PYTHON, read_answer
from find import InvalidTask, find_tests, is_doubtful
from prompt import read_prompt
from run import FAILURES_MAX, NotApplicable, Run, cut

WEIGHTS = {"loads": 1.0, "tests": 3.0, "all_tests": 6.0}
# How sure the verdict is: tests made for the purpose; the prompt's few examples; one of many right outputs; none.
SURE, EXAMPLES, DOUBTFUL, LOADS_ONLY = 1.0, 0.9, 0.5, 0.3


class BadConfig(Exception):
    """The configuration is wrong."""


@dataclasses.dataclass
class Judged:
    score: float
    confidence: float
    signals: list  # (name, score, weight, detail)
    trace: list


def judge(prompt_text, metadata_text, answer_text, config_text, sandbox):
    weights = read_config(config_text)
    metadata = read_metadata(metadata_text)
    language = (metadata.get("language") or "").lower()
    if language and language not in PYTHON:
        raise NotApplicable(f"the language is {language}")
    prompt = read_prompt(prompt_text)
    tests = find_tests(metadata, prompt)
    too_long = len(answer_text) > ANSWER_MAX
    answer = read_answer("" if too_long else answer_text)
    if not tests and not language and not answer.says_python:
        raise NotApplicable("no tests, and no code was asked for")
    trace = [f"{tests.count()} tests from {tests.source}" if tests else "no tests: only whether the code loads"]
    trace += [cut(f"skipped: {line}") for line in tests.skipped[:FAILURES_MAX]]
    confidence = LOADS_ONLY
    if tests:
        doubtful = tests.source != "metadata" and is_doubtful(prompt_text)
        confidence = SURE if tests.source == "metadata" else DOUBTFUL if doubtful else EXAMPLES
    if not answer.blocks:
        why = f"the answer is longer than {ANSWER_MAX} characters" if too_long else "no code in the answer"
        return sum_up(weights, confidence, why, tests.count(), 0, [*trace, why])
    plan = {"blocks": answer.blocks, "fenced": answer.fenced, "stub": prompt.stub, "prelude": prompt.prelude,
            "entry": metadata.get("entry_point") or prompt.entry}
    run = Run(sandbox, plan, trace, prompt, metadata)
    problem = run.everything(tests)
    if not run.total:
        confidence = LOADS_ONLY
    return sum_up(weights, confidence, problem, run.total, run.passed, trace)


def read_config(text):
    """Weights of the signals, by name; the rest keep their defaults."""
    try:
        config = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise BadConfig("the config is not JSON") from None
    if not isinstance(config, dict) or set(config) - {"weights"} or not isinstance(config.get("weights", {}), dict):
        raise BadConfig("the config is an object with the one key weights")
    weights = {**WEIGHTS, **config.get("weights", {})}
    for name, weight in weights.items():
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if name not in WEIGHTS or not number or not math.isfinite(weight) or weight < 0:
            raise BadConfig(f"weights.{name} is not a number of at least 0, or no signal has that name")
    if not weights["loads"] + weights["tests"] + weights["all_tests"] > 0:
        raise BadConfig("every weight is 0")
    return weights


def read_metadata(text):
    try:
        metadata = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise InvalidTask("the metadata is not JSON") from None
    if not isinstance(metadata, dict):
        raise InvalidTask("the metadata is no object")
    for key in ("language", "entry_point"):
        if metadata.get(key) is not None and not isinstance(metadata[key], str):
            raise InvalidTask(f"{key} is no string")
    return metadata


def sum_up(weights, confidence, problem, total, passed, trace):
    """The signals, and their weighted mean."""
    signals = [("loads", 0.0 if problem else 1.0, weights["loads"], cut(problem))]
    if total:
        detail = f"{passed} of {total}"
        signals.append(("tests", passed / total, weights["tests"], detail))
        signals.append(("all_tests", float(passed == total), weights["all_tests"], detail))
    weight = sum(signal[2] for signal in signals)
    score = sum(signal[1] * signal[2] for signal in signals) / weight if weight else 0.0
    return Judged(score, confidence, signals, trace)
