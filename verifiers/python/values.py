"""Values that cross between the two instances, as text in Python's literal syntax.

Why not `repr` and `ast.literal_eval`: infinities, frozensets and dates have no literal there, and an object whose
`__repr__` the answer wrote could pose as one. So both ways go through a closed list of types. What is not on it is
`NotPlain`. Text from the other side is data: it is parsed, never evaluated, and is bounded in size and depth.
"""

import ast
import datetime
import decimal
import fractions
import itertools
import types

TEXT_MAX = 1_000_000
DEPTH_MAX = 100
# An iterator is sent as the items it would give; an endless one is cut here.
ITEMS_MAX = 10_000
# `repr` of longer integers is refused by the interpreter; hexadecimal has no such limit.
DECIMAL_BITS_MAX = 10_000

ITERATORS = (types.GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice,
             type(iter([])), type(iter(())), type({}.keys()), type({}.values()), type({}.items()))


class NotPlain(Exception):
    """The value, or the text, is none of the types that cross."""


class Handle:
    """Stands for an object of the answer's own class, which stays in the other instance."""

    def __init__(self, number):
        self.number = number


def encode(value, foreign=None, depth=0):
    """Writes `value` as a literal. `foreign` may turn an object of an unknown class into a Handle's number."""
    if depth > DEPTH_MAX:
        raise NotPlain("not a plain value: nested too deep")
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is bytes or kind is float:
        return repr(value)
    if isinstance(value, int):
        return int.__repr__(value) if int.bit_length(value) < DECIMAL_BITS_MAX else hex(value)

    def items(values):
        return ", ".join([encode(item, foreign, depth + 1) for item in values])

    if isinstance(value, list):
        return f"[{items(list.__iter__(value))}]"
    if isinstance(value, tuple):
        return f"({items(tuple.__iter__(value))}{',' if tuple.__len__(value) == 1 else ''})"
    if isinstance(value, dict):
        pairs = [f"{encode(key, foreign, depth + 1)}: {encode(item, foreign, depth + 1)}"
                 for key, item in dict.items(value)]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (set, frozenset)):
        name = "frozenset" if isinstance(value, frozenset) else "set"
        return f"{name}([{items(value)}])"
    if kind is range:
        return f"[{items(value)}]"
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    return _encode_rare(value, kind, foreign, depth, items)


def _encode_rare(value, kind, foreign, depth, items):
    if kind is complex:
        return f"complex({value.real!r}, {value.imag!r})"
    if kind is bytearray:
        return f"bytearray({bytes(value)!r})"
    if kind is decimal.Decimal:
        return f"Decimal({str(value)!r})"
    if kind is fractions.Fraction:
        return f"Fraction({value.numerator}, {value.denominator})"
    if kind is datetime.datetime and value.tzinfo is None:
        return "datetime" + repr(tuple(value.timetuple()[:6]) + (value.microsecond,))
    if kind is datetime.date:
        return f"date({value.year}, {value.month}, {value.day})"
    if kind is datetime.timedelta:
        return f"timedelta({value.days}, {value.seconds}, {value.microseconds})"
    if kind is Handle:
        return f"handle({value.number})"
    if depth == 0 and isinstance(value, ITERATORS):
        return f"iterator([{items(itertools.islice(value, ITEMS_MAX))}])"
    number = foreign(value) if foreign else None
    if number is None:
        raise NotPlain(f"not a plain value: {kind.__name__}")
    return f"handle({number})"


MAKERS = {
    "set": set, "frozenset": frozenset, "complex": complex, "bytearray": bytearray, "iterator": iter,
    "Decimal": decimal.Decimal, "Fraction": fractions.Fraction, "datetime": datetime.datetime,
    "date": datetime.date, "timedelta": datetime.timedelta,
}
CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


def decode(text, handle=Handle):
    """Reads what `encode` wrote; `handle` makes the stand-in for an object of the other side."""
    if len(text) > TEXT_MAX:
        raise NotPlain(f"not a plain value: {len(text)} characters, at most {TEXT_MAX} are taken")
    try:
        return _build(ast.parse(text, mode="eval").body, handle)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ArithmeticError) as error:
        raise NotPlain(f"not a plain value: {type(error).__name__}") from None


def _build(node, handle):
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items):
            return [_build(item, handle) for item in items]
        case ast.Tuple(elts=items):
            return tuple([_build(item, handle) for item in items])
        case ast.Dict(keys=keys, values=items):
            return {_build(key, handle): _build(item, handle) for key, item in zip(keys, items)}
        case ast.Set(elts=items):
            return {_build(item, handle) for item in items}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_build(operand, handle)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return +_build(operand, handle)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.Call(func=ast.Name(id="handle"), args=[ast.Constant(value=number)]):
            return handle(number)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in MAKERS:
            return MAKERS[name](*[_build(arg, handle) for arg in args])
        case _:
            raise ValueError("not a literal")


WORDS = {"true": "True", "false": "False", "null": "None", "none": "None", "nil": "None", "infinity": "inf"}


def read_literal(text):
    """A value as people write it in a task: a literal, or one of the words other languages use."""
    text = text.strip()
    return decode(WORDS.get(text.lower(), text))
