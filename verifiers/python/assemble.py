"""Which of the answer's blocks are its code, and how a completion joins the prompt's stub.

This runs in the untrusted instance, before the code does: parsing hostile text there cannot harm the trusted side.

Order of trying: the code by itself when it defines what is asked for; the prompt's code followed by the answer, as it
stands or indented as a body. Whatever the prompt imports and defines comes before, unless the answer has its own.
"""

import ast
import dataclasses
import textwrap
import warnings

# Online judges import these for a `class Solution`, so answers in that form leave the imports out.
JUDGE_IMPORTS = """
import bisect, collections, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
from builtins import pow
"""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


class NoCode(Exception):
    """Nothing in the answer reads as Python."""


@dataclasses.dataclass
class Source:
    prelude: str
    code: str
    outline: dict


def choose(plan, program=False):
    """`plan` holds `blocks` (text, is it fenced), `entry`, and the prompt's `stub` and `prelude`."""
    entry, stub = plan["entry"], plan["stub"]
    texts = [text for text, _ in plan["blocks"]]
    parsed = [(text, tree) for text in texts if (tree := parse(text)) is not None and tree.body]
    code = join(parsed, entry)
    if stub and not (code and defines(code, entry)):
        completed = complete(stub, texts)
        if completed:
            code = completed
    if not code and not plan["fenced"]:
        code = longest_run(texts[0]) if texts else ""
    if not code:
        broken = next((text for text in texts if looks_like_code(text)), None)
        if broken is None:
            raise NoCode("no code in the answer")
        compile(broken, "candidate.py", "exec")  # names the syntax error
        raise NoCode("no code in the answer")
    if not plan["fenced"] and not has_substance(ast.parse(code)):
        raise NoCode("no code in the answer")
    outline = outline_of(ast.parse(code))
    prelude = "" if program else plan["prelude"]
    if "Solution" in outline["classes"]:
        prelude = JUDGE_IMPORTS + prelude
    return Source(prelude, code, outline)


def parse(text):
    """The module, or None. Compiles as well, since `return` outside a function parses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in (text, textwrap.dedent(text)):
            try:
                compile(form, "candidate.py", "exec", dont_inherit=True)
                return ast.parse(form)
            except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
                continue
    return None


def join(parsed, entry):
    """The blocks in order. Of several that define the entry point, or the same names, the last stands."""
    if not parsed:
        return ""
    names = [{node.name for node in tree.body if isinstance(node, DEFINITIONS)} for _, tree in parsed]
    if not any(names):
        return "\n".join(dedented(text) for text, _ in parsed)
    first = next(index for index, found in enumerate(names) if found)
    kept = []
    for index, (text, tree) in enumerate(parsed):
        later = set().union(*names[index + 1:])
        replaced = names[index] and (names[index] <= later or (entry and entry in names[index] and entry in later))
        # After the definitions, a block without any shows how to use them.
        usage = index > first and not names[index]
        if not replaced and not usage:
            kept.append(dedented(text))
    return "\n".join(kept)


def dedented(text):
    try:
        ast.parse(text)
        return text
    except SyntaxError:
        return textwrap.dedent(text)


def defines(code, entry):
    """Whether the code has the function or class asked for; of `Solution.method` the class is enough."""
    if not entry:
        return True
    first = entry.split(".")[0]
    for node in ast.parse(code).body:
        if isinstance(node, DEFINITIONS) and node.name == first:
            return True
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == first for t in node.targets):
            return True
        if isinstance(node, IMPORTS) and any((alias.asname or alias.name) == first for alias in node.names):
            return True
    return False


def complete(stub, texts):
    """The prompt's code with the answer as the rest of it."""
    indent = body_indent(stub)
    for text in texts:
        body = text.strip("\n")
        if not looks_like_code(body):
            continue
        forms = (body, indent + body, textwrap.indent(textwrap.dedent(body), indent))
        for form in dict.fromkeys(forms):
            whole = stub.rstrip() + "\n" + form + "\n"
            if parse(whole) is not None:
                return whole
    return ""


def body_indent(stub):
    last = [line for line in stub.splitlines() if line.strip()][-1]
    indent = last[:len(last) - len(last.lstrip())]
    return indent + "    " if last.rstrip().endswith(":") or not indent else indent


def looks_like_code(text):
    """Prose that happens to parse, such as a lone word, is not code."""
    starts = ("return", "def ", "class ", "import ", "from ", "for ", "while ", "if ", "print(", "with ", "try:", "@",
              "async ", "raise ", "assert ", "yield", "pass", "global ")
    lines = [line.strip() for line in text.splitlines()]
    return any(line.startswith(starts) or _assigns(line) for line in lines)


def _assigns(line):
    left, mark, right = line.partition("=")
    return bool(mark and right.strip()) and left.rstrip("+-*/%|&^ ").replace(".", "").replace("_", "").isalnum()


def has_substance(tree):
    kinds = DEFINITIONS + IMPORTS + (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Try,
                                     ast.With, ast.Raise, ast.Assert)
    return any(isinstance(node, kinds) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
               for node in tree.body)


def longest_run(text):
    """Code inside prose without fences: from its first line that opens a definition, as far as it parses."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(("def ", "class ", "import ", "from ", "@", "async "))]
    for start in starts[:5]:
        for end in _ends(lines, start):
            code = "\n".join(lines[start:end])
            if (tree := parse(code)) is not None and has_substance(tree):
                return code
    return ""


def _ends(lines, start):
    """Ends worth trying: the last line, then every line at the margin that follows code, from the back."""
    yield len(lines)
    margins = [i for i in range(len(lines) - 1, start, -1) if lines[i] and not lines[i][0].isspace()]
    yield from margins[:200]


def outline_of(tree):
    """Names at the top: functions in order, and each class's public methods."""
    functions = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    classes = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = [item.name for item in node.body
                                  if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]
    return {"functions": functions[:100], "classes": dict(list(classes.items())[:100])}
