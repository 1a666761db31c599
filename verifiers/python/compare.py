"""When a value of the answer counts as the expected one."""

import math

RELATIVE = 1e-6
ABSOLUTE = 1e-9


def same(got, expected, any_order=False, loose=False):
    """Equality as in Python, but floats may differ in the last digits.

    `loose` takes a tuple for a list, for expected values that were written as JSON. `any_order` compares lists as
    multisets, for tasks that say so.
    """
    if isinstance(got, bool) or isinstance(expected, bool):
        return isinstance(got, (bool, int)) and isinstance(expected, (bool, int)) and got == expected
    if isinstance(got, float) or isinstance(expected, float):
        return _close(got, expected)
    if loose and isinstance(got, tuple) and isinstance(expected, list):
        got = list(got)
    if isinstance(got, (list, tuple)) and type(got) is type(expected):
        if len(got) != len(expected):
            return False
        if all(same(a, b, False, loose) for a, b in zip(got, expected)):
            return True
        return any_order and _same_items(got, expected, loose)
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[key], expected[key], False, loose) for key in expected)
    return bool(got == expected)


def _close(got, expected):
    if not isinstance(got, (int, float)) or not isinstance(expected, (int, float)):
        return bool(got == expected)
    try:
        return got == expected or (got != got and expected != expected) or math.isclose(
            got, expected, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    except OverflowError:
        return False


def _same_items(got, expected, loose):
    left = list(expected)
    for item in got:
        for index, other in enumerate(left):
            if same(item, other, False, loose):
                del left[index]
                break
        else:
            return False
    return True


def same_output(got, expected):
    """Printed text, trailing blanks aside; numbers are compared as numbers where the text differs."""
    mine, theirs = _lines(got), _lines(expected)
    if mine == theirs:
        return True
    words, wanted = " ".join(mine).split(), " ".join(theirs).split()
    if len(mine) != len(theirs) or len(words) != len(wanted):
        return False
    return all(a == b or _same_number(a, b) for a, b in zip(words, wanted))


def _same_number(got, expected):
    # Only a fraction is written in more than one way; `007` is not 7.
    if "." not in expected:
        return False
    try:
        return _close(float(got), float(expected))
    except ValueError:
        return False


def _lines(text):
    return [line.rstrip() for line in text.replace("\r\n", "\n").rstrip().split("\n")]
