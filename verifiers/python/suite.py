"""Tests given in the metadata: Python source, or pairs of input and output.

Source is cut into steps so that the share of passed tests is known: every top-level assert, every assert of
`check(candidate)`, every `test_*` function and every method of a TestCase is one. What stands between is set-up.
Each `assert left == right` is rewritten to tell both sides when it fails; what it accepts stays the same.
"""

import ast
import re

from steps import TARGET, Call, Failed, Group, Method, Program, Step, brief, compiled, mismatch, names_in, placed
from values import NotPlain, read_literal

TESTS_MAX = 200


# `unittest.main()`, `check(f)` and the like: the steps are run anyway.
RUNNER = re.compile(r"if __name__|unittest\.(?:main|TextTestRunner)|check\(")


class Malformed(Exception):
    """The tests cannot be read; the message says why."""


def check_equal(got, expected, *message):
    """Takes the place of `assert got == expected`."""
    if not got == expected:
        raise Failed(f"{mismatch(got, expected)}{f' ({brief(message[0])})' if message else ''}")


def statements(body, inner=True):
    """The statements of a body and those inside them; `inner` goes into functions and classes too."""
    for node in body:
        yield node
        if inner or not isinstance(node, SCOPES):
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from statements(getattr(node, field, ()), inner)


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def tell_sides(body):
    """Rewrites the asserts in place. Only statements are walked: walking expressions is most of the cost."""
    for index, node in enumerate(body):
        match node:
            case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
                name = ast.copy_location(ast.Name("__check_equal__", ast.Load()), node)
                call = ast.Call(name, [left, right, *([node.msg] if node.msg else [])], [])
                body[index] = ast.copy_location(ast.Expr(ast.copy_location(call, node)), node)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if inner := getattr(node, field, None):
                tell_sides(inner)


def read_suite(tests, entry):
    """Groups of steps and programs, from `metadata.tests`."""
    if isinstance(tests, str):
        return [source_group(tests, entry)], []
    if not isinstance(tests, list):
        raise Malformed("tests is neither text nor an array")
    groups, programs, calls = [], [], []
    for number, test in enumerate(tests[:TESTS_MAX], 1):
        if isinstance(test, str):
            groups.append(source_group(test, entry))
        elif isinstance(test, dict) and "input" in test and "output" in test:
            made = pair(test["input"], test["output"], entry, number)
            (programs if isinstance(made, Program) else calls).append(made)
        else:
            raise Malformed(f"test {number} is neither text nor an object with input and output")
    if calls:
        groups.append(Group("metadata", calls))
    return groups, programs


def pair(given, wanted, entry, number):
    """Text in and text out is a program's, unless a function is asked for."""
    if not entry and isinstance(given, str):
        text = wanted if isinstance(wanted, str) else str(wanted)
        return Program(f"test {number}", given, text)
    if isinstance(given, dict):
        args, kwargs = [], given
    elif isinstance(given, list):
        args, kwargs = given, {}
    else:
        args, kwargs = _arguments(given), {}
    if isinstance(wanted, str):
        wanted = _value(wanted, args)
    return Call(f"test {number}: {brief(args or kwargs, 60)}", args, kwargs, wanted)


def _arguments(given):
    """A string's lines as one literal each, else its comma-separated literals, else the string itself."""
    if not isinstance(given, str):
        return [given]
    for read in (lambda: [read_literal(line) for line in given.strip().split("\n")],
                 lambda: list(read_literal(f"({given.strip()},)"))):
        try:
            return read()
        except NotPlain:
            continue
    return [given]


def _value(wanted, args):
    """An expected value that was written as text; a quoted or other literal is read, a word stays text."""
    try:
        return read_literal(wanted)
    except NotPlain:
        return wanted


def source_group(source, entry, name="metadata"):
    """Cuts Python source into steps."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Malformed(f"the tests are not Python: {error}") from None
    lines = source.split("\n")
    tell_sides(tree.body)
    steps = []
    for node in tree.body:
        label = lines[node.lineno - 1].strip()[:100]
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            steps += _check_steps(node, lines)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not node.args.args:
            call = ast.Expr(ast.Call(ast.Name(node.name, ast.Load()), [], []))
            steps += [Step(label, compiled([node]), False), Step(node.name, placed([call]))]
        elif isinstance(node, ast.ClassDef) and _is_test_case(node):
            steps.append(Step(label, compiled([node]), False))
            uses = names_in(compiled(tree.body))
            steps += [Method(f"{node.name}.{item.name}", node.name, item.name, uses) for item in node.body
                      if isinstance(item, ast.FunctionDef) and item.name.startswith("test")]
        elif RUNNER.match(label):
            continue
        else:
            steps.append(Step(label, compiled([node]), _asserts(node)))
    if not any(step.counts for step in steps):
        raise Malformed("the tests assert nothing")
    return Group(name, steps[:TESTS_MAX * 2])


def _check_steps(function, lines):
    """The body of `check(candidate)` as steps of its own, unless it needs to be a function."""
    parameter = function.args.args[0].arg if function.args.args else "candidate"
    target = ast.Subscript(ast.Call(ast.Name("globals", ast.Load()), [], []), ast.Constant(TARGET), ast.Load())
    bind = ast.Assign([ast.Name(parameter, ast.Store())], target)
    if any(isinstance(node, (ast.Return, ast.Nonlocal, ast.Global)) for node in statements(function.body, False)):
        call = ast.Expr(ast.Call(ast.Name("check", ast.Load()), [target] if function.args.args else [], []))
        return [Step("def check", compiled([function]), False), Step("check(candidate)", placed([call]))]
    steps = [Step("check", placed([bind]), False)]
    for node in function.body:
        label = lines[node.lineno - 1].strip()[:100]
        steps.append(Step(label, compiled([node]), _asserts(node)))
    return steps


def _asserts(node):
    """Whether a statement asserts; defining a function that does is not yet asserting."""
    if isinstance(node, SCOPES):
        return False
    return any(isinstance(item, ast.Assert) or any(map(_is_assertion, _calls(item))) for item in statements([node], False))


def _calls(node):
    """The calls that a statement makes by itself."""
    if isinstance(node, ast.Expr):
        return [node.value]
    return [item.context_expr for item in node.items] if isinstance(node, ast.With) else []


def _is_assertion(node):
    function = getattr(node, "func", None)
    name = getattr(function, "id", None) or getattr(function, "attr", None) or ""
    return name.startswith(("assert", "__check_equal__", "check_"))


def _is_test_case(node):
    return any("TestCase" in ast.unparse(base) for base in node.bases)
