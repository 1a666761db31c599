"""Examples written in a prompt as people write them: `f(1) -> 2`, `Input: n = 3  Output: 4`.

Expected values must be literals. A line that only resembles an example is skipped; one that fails half-way is named.
"""

import ast
import builtins
import dataclasses
import re

from steps import Call, Example, brief
from values import NotPlain, read_literal

EXAMPLES_MAX = 100
CALL = re.compile(r"(?<![\w.])((?:[A-Za-z_]\w*(?:\(\))?\.)*[A-Za-z_]\w*)\(")
# What stands between a call and its value: an arrow, an equals sign, a comment mark, or words such as `should return`.
MARK = re.compile(
    r"\s*[`'\"]?\s*(?:#\s*)?(?:==>|=>|->|-->|➞|→|⇒|==|=|:\s"
    r"|(?:should|must|will|would)?\s*(?:returns?|be|outputs?|gives?|yields?|produces?|evaluates? to|equals?|is equal to|is)"
    r"(?:\s+(?:be|to|exactly))?\b\s*:?)\s*[`]?\s*", re.I)
TOKEN = re.compile(r"[-+]?[\w.]+(?:[eE][-+]?\d+)?")
# After the value: the end, a comment, punctuation, a word; an operator means the value goes on.
END = re.compile(r"[`]?\s*(?:$|[.,;!#`)(\]'\"]|//|[A-Za-z]|[-–—]{1,2}\s+(?!\d))")
OPEN = {"(": ")", "[": "]", "{": "}"}
AMBIGUOUS = re.compile(r"\s*(?:or|and|if)\b")


@dataclasses.dataclass
class Known:
    """What the prompt tells about the function asked for."""
    entry: str
    params: list
    names: set  # other names its code defines
    any_order: bool = False


def balanced(text, start):
    """The position after the bracket that closes the one at `start`, or -1. Brackets in strings do not count."""
    stack, at, quote = [], start, ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
            elif char == "\n":
                return -1
        elif char in "'\"":
            quote = char
        elif char in OPEN:
            stack.append(OPEN[char])
        elif char in ")]}":
            if not stack or stack.pop() != char:
                return -1
            if not stack:
                return at + 1
        at += 1
        if at - start > 20_000:
            return -1
    return -1


def literal_at(text, start):
    """The literal that begins at `start`: (its value, the position after it), or None."""
    if start >= len(text):
        return None
    char = text[start]
    if char in OPEN:
        end = balanced(text, start)
    elif char in "'\"":
        end = _string_end(text, start)
    else:
        match = TOKEN.match(text, start)
        end = match.end() if match else -1
        if match and match[0].endswith("."):
            end -= 1
    if end <= start:
        return None
    try:
        return read_literal(text[start:end].replace("\n", " ")), end
    except NotPlain:
        return None


def _string_end(text, start):
    at = start + 1
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\":
            at += 1
        elif text[at] == text[start]:
            return at + 1
        at += 1
    return -1


def call_forms(text, known, skipped):
    """Every `f(args) mark value` of the text."""
    found, at, seen = [], 0, set()
    while len(found) < EXAMPLES_MAX and (match := CALL.search(text, at)):
        at = match.end()
        form, end = _call_at(text, match, known, skipped)
        if form is not None:
            at = end
            if form.label not in seen:
                seen.add(form.label)
                found.append(form)
    return found


def call_form(line, known):
    match = CALL.search(line)
    return _call_at(line, match, known, [])[0] if match else None


def _call_at(text, match, known, skipped):
    name, nothing = match[1], (None, 0)
    if not _asked_for(name, known):
        return nothing
    close = balanced(text, match.end() - 1)
    mark = MARK.match(text, close) if close > 0 else None
    if not mark or mark.end() == close or "\n\n" in mark[0]:
        return nothing
    call = text[match.start():close]
    wanted = literal_at(text, mark.end())
    if wanted is None:
        if "=" in mark[0] or ">" in mark[0]:
            skipped.append(f"example {brief(call, 60)} has no value that can be read")
        return nothing
    value, end = wanted
    rest = text[end:].split("\n", 1)[0]
    tight = text[end:end + 1]
    if not END.match(rest) or tight and (tight.isalnum() or tight in "'\"_") or AMBIGUOUS.match(rest):
        skipped.append(f"example {brief(call, 60)} goes on after its value")
        return nothing
    if text[mark.end()] == "(" and not isinstance(value, tuple):
        skipped.append(f"example {brief(call, 60)} may mean a tuple of one")
        return nothing
    try:
        tree = ast.parse(call.replace("\n", " "), mode="eval")
        if unknown := _free_names(tree) - known.names - {name.split(".")[0]}:
            skipped.append(f"example {brief(call, 60)} uses {', '.join(sorted(unknown))}, which nothing defines")
            return nothing
        alias = _alias(tree.body, name, known)
        if alias is None:
            return nothing
        code = compile(ast.fix_missing_locations(ast.Expression(alias)), "<example>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        skipped.append(f"example {brief(call, 60)} does not parse")
        return nothing
    return Example(" ".join(call.split())[:100], code, value, known.any_order), end


def _free_names(tree):
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {name for name in used - bound if not hasattr(builtins, name)}


def _asked_for(name, known):
    if not known.entry:
        return "." not in name and name not in PROSE
    last = name.rsplit(".", 1)[-1]
    return last == known.entry.rsplit(".", 1)[-1] or ("." not in name and name not in known.names and name not in PROSE)


# Calls that explain a value rather than being asked for.
PROSE = set(dir(builtins)) | {
    "O", "gcd", "lcm", "sqrt", "log", "floor", "ceil", "mod", "XOR", "popcount", "dist", "f", "g", "S", "cos", "sin"}


def _alias(call, name, known):
    """The call, on the function asked for. An example under another name is meant for it when the arguments fit."""
    if not isinstance(call, ast.Call):
        return None
    entry = known.entry
    if not entry or name == entry:
        return call
    last = entry.rsplit(".", 1)[-1]
    if name.rsplit(".", 1)[-1] != last and len(call.args) + len(call.keywords) != len(known.params):
        return None
    if "." in entry:
        owner = ast.Call(ast.Name(entry.split(".")[0], ast.Load()), [], [])
        return ast.Call(ast.Attribute(owner, last, ast.Load()), call.args, call.keywords)
    if "." in name:
        return call
    return ast.Call(ast.Name(entry, ast.Load()), call.args, call.keywords)


ASSIGNED = re.compile(r"([A-Za-z_]\w*)\s*(?:=|:)\s*")
INPUT = re.compile(r"^[ \t>*]*(?:sample\s+)?inputs?\**\s*:\**[ \t]*", re.I | re.M)
OUTPUT = re.compile(r"^[ \t>*]*(?:sample\s+|expected\s+)?(?:outputs?|returns?)\**\s*:\**[ \t]*", re.I | re.M)
FOR = re.compile(r"\bfor\s+(?=[A-Za-z_]\w*\s*=)", re.I)
THEN = re.compile(r"[^\n]*?\b(?:output|result|answer|return\w*)\b[^\n]*?\b(?:be|is|returns?)\b\s*:?\s*", re.I)


def labelled_pairs(text, known, skipped):
    """`Input: nums = [1,2], k = 3` followed by `Output: 4`; also `For lst = [1] the output should be 2`."""
    found = []
    for match in INPUT.finditer(text):
        output = OUTPUT.search(text, match.end())
        if not output or INPUT.search(text, match.end(), output.start()):
            continue
        args = _arguments(text[match.end():output.start()].strip(), known)
        wanted = literal_at(text, output.end())
        if args is None or wanted is None:
            skipped.append(f"example {brief(text[match.end():output.start()].strip(), 60)} cannot be read")
            continue
        rest = text[wanted[1]:].split("\n", 1)[0]
        if AMBIGUOUS.match(rest) or re.match(r"\s*[-+*/<>=]", rest):
            skipped.append(f"example {brief(args, 60)} has more than one value")
            continue
        found.append(Call(f"input {brief(args, 80)}", args, {}, wanted[0], known.any_order))
    for match in FOR.finditer(text):
        args, end = _named_arguments(text, match.end())
        then = THEN.match(text, end) if args else None
        wanted = literal_at(text, then.end()) if then else None
        if wanted is not None and (not known.params or len(args) == len(known.params)):
            found.append(Call(f"input {brief(args, 80)}", args, {}, wanted[0], known.any_order))
    return found[:EXAMPLES_MAX]


def _named_arguments(text, start):
    """Values of `name = literal, name = literal`, and the position after them."""
    args, at = [], start
    while match := ASSIGNED.match(text, at):
        value = literal_at(text, match.end())
        if value is None:
            return [], at
        args.append(value[0])
        at = value[1]
        between = re.compile(r"\s*(?:,|and|\n|;)+\s*(?:and\s+)?").match(text, at)
        if not between or not ASSIGNED.match(text, between.end()):
            break
        at = between.end()
    return args, at


def _arguments(text, known):
    args, end = _named_arguments(text, 0)
    if args:
        return args if not text[end:].strip(" \n.,;`") else None
    if not known.entry:
        return None
    try:
        value = read_literal(f"({text},)")
        return list(value)
    except NotPlain:
        return None
