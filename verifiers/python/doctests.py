"""Interactive sessions (`>>> `) in a prompt, as steps."""

import re

from examples import call_form
from steps import Doctest, Group

LINE = re.compile(r"^[ \t]*>>>[ \t]?(.*)$")
MORE = re.compile(r"^[ \t]*\.\.\.(?:[ \t](.*)|)$")
EXAMPLES_MAX = 100


def read_sessions(text, known, skipped):
    """One group of all sessions, in order; a later one may use the names of an earlier one."""
    steps, lines, at = [], text.split("\n"), 0
    while at < len(lines) and len(steps) < EXAMPLES_MAX:
        match = LINE.match(lines[at])
        at += 1
        if not match:
            continue
        source = [match[1]]
        while at < len(lines) and (more := MORE.match(lines[at])):
            source.append(more[1] or "")
            at += 1
        want = []
        while at < len(lines) and lines[at].strip() and not LINE.match(lines[at]):
            line = lines[at].strip()
            if line.startswith(('"""', "'''", "```")):
                break
            want.append(line)
            at += 1
        step = _step("\n".join(source), "\n".join(want), known, skipped)
        if step is not None:
            steps.append(step)
    return Group("doctest", steps) if any(step.counts for step in steps) else None


def _step(source, want, known, skipped):
    code, expression = _compiled(source)
    if code is None:
        form = call_form(source, known)
        if form is None:
            skipped.append(f"example {source[:80]!r} does not parse")
        return form
    # `>>> f(1) == 2` with nothing below it is meant as a statement of fact.
    if not want and expression and (form := call_form(source, known)):
        return form
    if want and re.search(r"<[\w.]+ object at 0x|<function |DataFrame|array\(", want):
        skipped.append(f"example {source[:80]!r} shows no comparable value")
        want = ""
    return Doctest(source[:100], code, want, counts=bool(want))


def _compiled(source):
    """(code, whether it is an expression), or (None, False)."""
    for mode in ("eval", "exec"):
        try:
            return compile(source, "<example>", mode), mode == "eval"
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None, False
