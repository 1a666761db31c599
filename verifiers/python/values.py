"""Values that cross between the two instances, as text.

The text is JSON in which Python's other types are objects with one key, the type's name: `{"tuple": [1, 2]}`. Why not
`repr` and `ast.literal_eval`: an object whose `__repr__` the answer wrote could pose as a literal, infinities and
frozensets have none, and parsing Python costs several times as much. So both ways go through a closed list of types;
what is not on it is `NotPlain`. Text from the other side is data: bounded, parsed, never evaluated.
"""

import ast
import datetime
import decimal
import fractions
import itertools
import json
import re
import types

TEXT_MAX = 1_000_000
DEPTH_MAX = 100
# An iterator is sent as the items it would give; an endless one is cut here.
ITEMS_MAX = 10_000
# Longer integers are refused in decimal; hexadecimal has no such limit.
DECIMAL_BITS_MAX = 10_000

NESTED = frozenset([list, dict])
ATOMS = frozenset([type(None), bool, str, float])
ITERATORS = (types.GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice,
             type(iter([])), type(iter(())), type({}.keys()), type({}.values()), type({}.items()))


class NotPlain(Exception):
    """The value, or the text, is none of the types that cross."""


class Handle:
    """Stands for an object of the answer's own class, which stays in the other instance."""

    def __init__(self, number):
        self.number = number


def encode(value, foreign=None):
    """Writes `value` as text. `foreign` may turn an object of an unknown class into a Handle's number."""
    return write(pack(value, foreign))


def write(packed):
    return json.dumps(packed)


def pack(value, foreign=None, depth=0):
    """The value as JSON's types; its subclasses' own methods are not asked."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, int):
        return int.__index__(value) if int.bit_length(value) < DECIMAL_BITS_MAX else {"int": hex(value)}
    if depth > DEPTH_MAX:
        raise NotPlain("not a plain value: nested too deep")

    def items(values):
        values = list(values)
        return values if _is_flat(values) else [pack(item, foreign, depth + 1) for item in values]

    if isinstance(value, list):
        return items(list.__iter__(value))
    if isinstance(value, tuple):
        return {"tuple": items(tuple.__iter__(value))}
    if isinstance(value, dict):
        return {"dict": items(itertools.chain.from_iterable(dict.items(value)))}
    if isinstance(value, frozenset):
        return {"frozenset": items(frozenset.__iter__(value))}
    if isinstance(value, set):
        return {"set": items(set.__iter__(value))}
    if kind is range:
        return items(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return _pack_rare(value, kind, foreign, depth, items)


def _is_flat(values):
    """Only atoms, or only short integers: long lists of these need no walk."""
    kinds = set(map(type, values))
    return kinds <= ATOMS or (kinds == {int} and max(map(int.bit_length, values)) < DECIMAL_BITS_MAX)


def _pack_rare(value, kind, foreign, depth, items):
    if isinstance(value, bytes):
        return {"bytes": bytes.hex(value)}
    if kind is bytearray:
        return {"bytearray": value.hex()}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    if kind is decimal.Decimal:
        return {"Decimal": [str(value)]}
    if kind is fractions.Fraction:
        return {"Fraction": [value.numerator, value.denominator]}
    if kind is datetime.datetime and value.tzinfo is None:
        return {"datetime": [*value.timetuple()[:6], value.microsecond]}
    if kind is datetime.date:
        return {"date": [value.year, value.month, value.day]}
    if kind is datetime.timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if depth == 0 and isinstance(value, ITERATORS):
        return {"iterator": items(itertools.islice(value, ITEMS_MAX))}
    number = foreign(value) if foreign else None
    if number is None:
        raise NotPlain(f"not a plain value: {kind.__name__}")
    return {"handle": number}


def _pairs(items):
    return dict(zip(items[::2], items[1::2], strict=True))


MAKERS = {
    "tuple": tuple, "dict": _pairs, "set": set, "frozenset": frozenset, "iterator": iter,
    "int": lambda text: int(text, 16), "bytes": bytes.fromhex, "bytearray": bytearray.fromhex,
    "complex": lambda parts: complex(*parts), "Decimal": lambda parts: decimal.Decimal(*parts),
    "Fraction": lambda parts: fractions.Fraction(*parts), "datetime": lambda parts: datetime.datetime(*parts),
    "date": lambda parts: datetime.date(*parts), "timedelta": lambda parts: datetime.timedelta(*parts),
}
# Brackets inside brackets, without what is between: more of them than honest values have.
# Possessive, and the last quote optional: linear in any text.
STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?')
DEEP = re.compile(r"(?:[\[{][^\[\]{}]*){%d}" % (4 * DEPTH_MAX))


def decode(text, handle=Handle):
    """Reads what `encode` wrote; `handle` makes the stand-in for an object of the other side."""
    if len(text) > TEXT_MAX:
        raise NotPlain(f"not a plain value: {len(text)} characters, at most {TEXT_MAX} are taken")
    if text.count("[") + text.count("{") > 4 * DEPTH_MAX and DEEP.search(STRING.sub("", text)):
        raise NotPlain("not a plain value: nested too deep")
    try:
        return _unpack(json.loads(text), handle)
    except (ValueError, TypeError, RecursionError, MemoryError, ArithmeticError) as error:
        raise NotPlain(f"not a plain value: {type(error).__name__}") from None


def _unpack(node, handle):
    kind = type(node)
    if kind is list:
        flat = NESTED.isdisjoint(map(type, node))
        return node if flat else [_unpack(item, handle) for item in node]
    if kind is not dict:
        return node
    if len(node) != 1:
        raise ValueError("not a value")
    (name, data), = node.items()
    if name == "handle":
        return handle(data)
    if name not in MAKERS:
        raise ValueError("not a value")
    return MAKERS[name](_unpack(data, handle))


def _literal(node):
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items):
            return [_literal(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple([_literal(item) for item in items])
        case ast.Dict(keys=keys, values=items):
            return {_literal(key): _literal(item) for key, item in zip(keys, items)}
        case ast.Set(elts=items):
            return {_literal(item) for item in items}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_literal(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return +_literal(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=complex() as imaginary)):
            return _literal(left) + imaginary
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "float" | "Decimal" as name), args=args, keywords=[]):
            makers = {"set": set, "frozenset": frozenset, "float": float, "Decimal": decimal.Decimal}
            return makers[name](*[_literal(arg) for arg in args])
        case _:
            raise ValueError("not a literal")


WORDS = {"true": "True", "false": "False", "null": "None", "none": "None", "nil": "None", "infinity": "inf"}


def read_literal(text):
    """A value as people write it in a task: a literal, or one of the words other languages use."""
    text = text.strip()
    try:
        return _literal(ast.parse(WORDS.get(text.lower(), text), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ArithmeticError) as error:
        raise NotPlain(f"not a literal: {type(error).__name__}") from None
