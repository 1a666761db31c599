"""The answer against its tests: one session for functions, one fresh instance for every run of a program."""

import builtins
import contextlib
import importlib.util
import io
import json
import re

from compare import same_output
from proxy import Broken, CannotCross, Session, Stopped
from steps import TARGET, Failed, brief
from suite import check_equal
from values import NotPlain

FAILURES_MAX = 10
LINE_MAX = 200
# What `attempt` gives for a test that cannot be put to the answer.
SET_ASIDE = object()


class NotApplicable(Exception):
    """Another verifier's task."""


def cut(line):
    line = " ".join(line.split())
    return line if len(line) <= LINE_MAX else line[:LINE_MAX - 3] + "..."


class Run:
    """The answer against its tests."""

    def __init__(self, sandbox, plan, trace, prompt, metadata):
        self.session = Session(sandbox, plan)
        self.trace = trace
        self.prompt = prompt
        self.metadata = metadata
        self.total = self.passed = self.told = 0

    def everything(self, tests):
        """Gives "" when the code loads, else what was wrong with it."""
        if tests.programs and not tests.groups:
            problems = [self.program(program) for program in tests.programs]
            return problems[0] if all(problems) else ""
        try:
            problem = self.session.start()
        except (Stopped, Broken) as error:
            problem = str(error)
        if self.session.printed.strip():
            self.trace.append(cut(f"printed: {self.session.printed.strip()!r}"))
        if problem:
            self.missing_module(problem)
            self.trace.append(cut(f"does not load: {problem}"))
            self.total = tests.count()
            return problem
        for group in tests.groups:
            self.group(group)
        for program in tests.programs:
            self.program(program)
        return ""

    def missing_module(self, problem):
        """Not the answer's fault when the task itself asks for a module that is not here."""
        match = re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", problem)
        if not match:
            return
        name = match[1].split(".")[0]
        text = self.prompt.text + json.dumps(self.metadata.get("tests") or "")
        if re.search(rf"\b{name}\b", text) and importlib.util.find_spec(name) is None:
            raise NotApplicable(f"the task needs the module {name}, which is not here")

    def program(self, program):
        """One run of a whole program. Gives what went wrong while it ran."""
        self.total += 1
        try:
            problem, printed = self.session.run_program(program.stdin)
        except (Stopped, Broken) as error:
            problem, printed = str(error), ""
        if problem:
            self.missing_module(problem)
            self.fail(program.label, problem)
        elif same_output(printed, program.expected):
            self.passed += 1
        else:
            self.fail(program.label, f"printed {brief(printed.strip())}, expected {brief(program.expected.strip())}")
        return problem

    def group(self, group):
        """The steps of one namespace. A set-up that fails takes the tests after it along."""
        names = self.namespace(group)
        broken = ""
        for step in group.steps:
            if not step.counts and not broken:
                broken = self.attempt(step, names) or ""
                if broken is SET_ASIDE:
                    broken = ""
            elif step.counts:
                self.total += 1
                problem = f"set-up failed: {broken}" if broken else self.attempt(step, names)
                if problem is SET_ASIDE:
                    self.total -= 1
                elif problem:
                    self.fail(step.label, problem)
                else:
                    self.passed += 1

    def attempt(self, step, names):
        """Runs one step. Gives None, what went wrong, or SET_ASIDE for a test that cannot be put to the answer."""
        if self.session.gone and not self.session.revive():
            return self.session.gone or "limit: the instance is gone"
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                step.run(names)
            return None
        except CannotCross as error:
            self.trace.append(cut(f"set aside: {step.label}: {error}"))
            return SET_ASIDE
        except NotPlain:
            return SET_ASIDE
        except ModuleNotFoundError as error:
            self.missing_module(f"ModuleNotFoundError: {error}")
            return f"{type(error).__name__}: {error}"
        except (Failed, Broken, Stopped) as error:
            return str(error)
        except BaseException as error:
            text = str(error)
            return f"{type(error).__name__}: {text}" if text else type(error).__name__

    def namespace(self, group):
        """The answer's names as stand-ins, under what the prompt imports and defines, which is trusted."""
        names = {"__name__": "tests", "__check_equal__": check_equal}
        needed = set().union(*[step.needs() for step in group.steps])
        target = self.target()
        first, _, method = target.partition(".")
        # The answer must not stand in for a builtin that the tests rely on.
        asked = {name for name in needed if name == first or not hasattr(builtins, name)} | {first}
        try:
            stand_ins = self.session.stand_ins(asked)
        except (Stopped, Broken) as error:
            stand_ins, lacking = {}, str(error)
        else:
            lacking = f"the answer does not define {target or 'a function'}"
        names.update(stand_ins)
        for statement in self.prompt.prelude:
            with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
                exec(statement, names)
        if first in stand_ins:
            names[first] = stand_ins[first]
        names[TARGET] = callable_of(stand_ins.get(first), method, lacking)
        wanted = self.session.plan["entry"].rpartition(".")[2]
        if wanted and wanted not in names:
            names[wanted] = names[TARGET]
        return names

    def target(self):
        """The function meant: the one asked for, in or out of a class; else `Solution`'s method or the last function."""
        outline = self.session.outline
        functions = [name for name in outline["functions"] if isinstance(name, str) and name != "main"]
        methods = outline["classes"].get("Solution")
        methods = [name for name in methods if isinstance(name, str)] if isinstance(methods, list) else []
        wanted = self.session.plan["entry"]
        owner, _, last = wanted.rpartition(".")
        if wanted:
            if owner and owner not in outline["classes"] and last in functions:
                return last
            return f"Solution.{last}" if not owner and last in methods and last not in functions else wanted
        if methods:
            return f"Solution.{methods[0]}"
        return functions[-1] if functions else ""

    def fail(self, label, problem):
        self.told += 1
        if self.told <= FAILURES_MAX:
            self.trace.append(cut(f"failed: {label}: {problem}"))


def callable_of(found, method, lacking):
    """The function under test: a stand-in, a method of a new object, or what tells that there is none."""
    if found is None:
        def missing(*_args, **_kwargs):
            raise Failed(lacking)
        return missing
    if method:
        return lambda *args, **kwargs: getattr(found(), method)(*args, **kwargs)
    return found
