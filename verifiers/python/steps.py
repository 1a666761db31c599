"""One test, and how it is run on the trusted side.

A step runs in a namespace where the answer's names are stand-ins (proxy.py). It passes by returning and fails by
raising; steps that do not count are the set-up of those after them.
"""

import ast
import contextlib
import dataclasses
import io
import re
import unittest

from compare import same
from values import NotPlain, read_literal


class Failed(Exception):
    """The answer gave something else; the message says what."""


def brief(value, limit=80):
    text = value if isinstance(value, str) and limit == 0 else repr(value)
    return text if len(text) <= limit or not limit else text[:limit - 3] + "..."


def mismatch(got, expected):
    return Failed(f"got {brief(got)}, expected {brief(expected)}")


@dataclasses.dataclass
class Step:
    """Statements that must run without an error."""
    label: str
    code: object
    counts: bool = True

    def run(self, names):
        exec(self.code, names)

    def needs(self):
        return names_in(self.code)


@dataclasses.dataclass
class Example:
    """An expression and the value it must have."""
    label: str
    code: object
    expected: object
    any_order: bool = False
    loose: bool = False
    counts: bool = True

    def run(self, names):
        got = eval(self.code, names)
        if not same(got, self.expected, self.any_order, self.loose):
            raise mismatch(got, self.expected)

    def needs(self):
        return names_in(self.code)


@dataclasses.dataclass
class Call:
    """Arguments for the function asked for, whatever the answer named it."""
    label: str
    args: list
    kwargs: dict
    expected: object
    any_order: bool = False
    counts: bool = True

    def run(self, names):
        got = names[TARGET](*self.args, **self.kwargs)
        if same(got, self.expected, self.any_order, True):
            return
        if got is None and self.args and same(self.args[0], self.expected, self.any_order, True):
            return  # works in place, as such tasks ask for
        raise mismatch(got, self.expected)

    def needs(self):
        return {TARGET}


# No identifier, so that no name of a test meets it.
TARGET = "(target)"


# The line of a traceback that names the error.
RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::[ \t]*(.*))?$", re.M)


@dataclasses.dataclass
class Doctest:
    """What an interactive session would show."""
    label: str
    code: object
    want: str
    counts: bool = True

    def run(self, names):
        printed = io.StringIO()
        error, value = None, None
        with contextlib.redirect_stdout(printed):
            try:
                value = eval(self.code, names)  # None for statements
            except Exception as caught:
                error = caught
        if self.want.startswith("Traceback"):
            wanted = RAISED.search(self.want)
            if error is None:
                raise Failed(f"no error, expected {wanted[0] if wanted else 'one'}")
            if not wanted or not _error_matches(error, wanted):
                raise Failed(f"got {type(error).__name__}: {error}, expected {wanted[0] if wanted else 'another'}")
            return
        if error is not None:
            raise error
        got = printed.getvalue() + (f"{value!r}\n" if value is not None else "")
        if not self.counts or _shown_alike(got, self.want) or self._equal(printed.getvalue(), value):
            return
        raise Failed(f"got {brief(got.strip(), 80)}, expected {brief(self.want.strip(), 80)}")

    def _equal(self, printed, value):
        try:
            return not printed and same(value, read_literal(self.want))
        except NotPlain:
            return False

    def needs(self):
        return names_in(self.code)


def _error_matches(error, wanted):
    name = wanted[1].rsplit(".", 1)[-1]
    kinds = {kind.__name__ for kind in type(error).__mro__}
    message = (wanted[2] or "").strip()
    return name in kinds and (not message or _shown_alike(str(error), message))


def _shown_alike(got, want):
    """As doctest with ELLIPSIS and NORMALIZE_WHITESPACE."""
    got, want = " ".join(got.split()), " ".join(want.split())
    if got == want or "..." not in want:
        return got == want
    pattern = ".*".join(re.escape(part) for part in want.split("..."))
    return re.fullmatch(pattern, got, re.S) is not None


@dataclasses.dataclass
class Method:
    """One method of a unittest.TestCase that the set-up defined."""
    label: str
    case: str
    method: str
    uses: set
    counts: bool = True

    def run(self, names):
        kind = names[self.case]
        result = unittest.TestResult()
        unittest.TestSuite([kind(self.method)]).run(result)
        if not result.wasSuccessful():
            _, text = (result.failures + result.errors)[0]
            if "CannotCross: " in text:
                raise NotPlain("the test passes what cannot cross")
            raise Failed(text.strip().splitlines()[-1])
        if result.skipped:
            raise NotPlain("the test skips itself")

    def needs(self):
        return self.uses


@dataclasses.dataclass
class Program:
    """What a whole program reads and must print."""
    label: str
    stdin: str
    expected: str
    counts: bool = True


@dataclasses.dataclass
class Group:
    """Steps that share one namespace."""
    source: str
    steps: list


def names_in(code):
    """Every name that the code and the functions inside it look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            found |= names_in(constant)
    return found


def compiled(nodes):
    return compile(ast.Module(list(nodes), []), "<tests>", "exec")


def placed(nodes):
    """As `compiled`, for nodes that were made rather than parsed."""
    return compile(ast.fix_missing_locations(ast.Module(list(nodes), [])), "<tests>", "exec")
