"""The component's exports. What each part does is in its module; this only translates records.

Importing happens once, at build time: the component is a snapshot of the heap after it. So all that is slow the first
time (imports, regular expressions, the interpreter's own caches) is done here, by `warm_up`.
"""

import gc

import stdlib  # noqa: F401  imported for its effect
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import sandbox, types

import judge
import runner
import warm_up

SCHEMA = ('{"type":"object","additionalProperties":false,"properties":{"weights":{"type":"object",'
          '"additionalProperties":false,"properties":{"loads":{"type":"number","minimum":0},'
          '"tests":{"type":"number","minimum":0},"all_tests":{"type":"number","minimum":0}}}}}')
DOCS = {
    "loads": "the code compiles and its module body runs",
    "tests": "share of the tests passed",
    "all_tests": "1 when every test passed",
}


class Sandbox:
    """The host's import in the form that the trusted side takes."""
    Error = Err
    load = staticmethod(sandbox.load)
    call = staticmethod(sandbox.call)


class Verify(exports.Verify):
    def describe(self):
        signals = [types.SignalSpec(name, judge.WEIGHTS[name], doc) for name, doc in DOCS.items()]
        return types.Manifest("python", "0.1.0", ["*"], signals, SCHEMA, True)

    def verify(self, task, response, config, budget):
        try:
            made = judge.judge(task.prompt, task.metadata, response.text, config, Sandbox)
        except judge.NotApplicable as error:
            raise Err(types.VerifyError_NotApplicable(str(error))) from None
        except judge.InvalidTask as error:
            raise Err(types.VerifyError_InvalidTask(str(error))) from None
        except judge.BadConfig as error:
            raise Err(types.VerifyError_Internal(str(error))) from None
        signals = [types.Signal(*signal) for signal in made.signals]
        return types.Verdict(made.score, made.confidence, signals, made.trace)


# The answer of this instance; another instance has another.
CANDIDATE = runner.Candidate()


class Runner(exports.Runner):
    def load(self, code):
        try:
            CANDIDATE.load(code)
        except BaseException as error:
            raise Err(runner.describe_error(error)) from None
        return CANDIDATE.take_printed()

    def call(self, name, args):
        try:
            return runner.answer_request(CANDIDATE, name, args)
        except BaseException as error:
            raise Err(runner.describe_error(error)) from None


warm_up.run()
gc.collect()
gc.freeze()
