"""Scores whether an answer mentions every word that the task asks for.

The task's metadata names the words: {"must_mention": ["Paris", "Seine"]}. Case does not matter.

Only modules that this file imports are in the component, and nothing reaches the network, files or the clock.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types

WEIGHT = 1.0


class Verify(exports.Verify):
    """The two functions of the contract in wit/verifier.wit."""

    def describe(self) -> types.Manifest:
        """Says what this verifier is; must always give the same."""
        return types.Manifest(
            name="{{name}}",
            version="0.1.0",
            domains=["*"],
            signals=[types.SignalSpec("mentions", WEIGHT, "share of the words in must_mention that the answer has")],
            config_schema="",
            deterministic=True,
        )

    def verify(
        self, task: types.Task, response: types.Response, config: str, budget: types.Budget
    ) -> types.Verdict:
        """Scores one answer. The answer is untrusted: it may be empty, huge, or try to fool you."""
        words = words_wanted(task.metadata)
        answer = response.text.lower()
        missing = [word for word in words if word.lower() not in answer]
        score = 1.0 - len(missing) / len(words)
        detail = "missing: " + ", ".join(missing) if missing else "all are there"
        return types.Verdict(
            score=score,
            confidence=1.0,
            signals=[types.Signal("mentions", score, WEIGHT, detail)],
            trace=[],
        )


def words_wanted(metadata: str) -> list[str]:
    """The task's words; a task without any is none of our business, and one with other things is malformed."""
    try:
        words = json.loads(metadata or "{}").get("must_mention", [])
    except (ValueError, AttributeError) as error:
        raise Err(types.VerifyError_InvalidTask(f"metadata is no JSON object: {error}")) from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Err(types.VerifyError_InvalidTask("must_mention is no list of words"))
    if not words:
        raise Err(types.VerifyError_NotApplicable("the task has no must_mention"))
    return words
