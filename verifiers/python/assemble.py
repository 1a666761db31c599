"""Which of the answer's blocks are its code, and how a completion joins the prompt's stub.

This runs in the untrusted instance, before the code does: parsing hostile text there cannot harm the trusted side.

Order of trying: the code by itself when it defines what is asked for; the prompt's code followed by the answer, as it
stands or indented as a body. Whatever the prompt imports and defines comes before, unless the answer has its own.
"""

import ast
import dataclasses
import re
import textwrap
import types
import warnings

# Online judges import these for a `class Solution`, so answers in that form leave the imports out.
JUDGE_IMPORTS = tuple(compile(line, "prompt.py", "exec") for line in """
import bisect, collections, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
from builtins import pow
""".split("\n") if line)


class NoCode(Exception):
    """Nothing in the answer reads as Python."""


@dataclasses.dataclass
class Block:
    text: str
    code: types.CodeType

    def names(self):
        """Functions and classes that it defines at the top, or under a condition there."""
        return {item.co_name for item in self.code.co_consts if isinstance(item, types.CodeType)
                and item.co_name.isidentifier() and item.co_name != "__annotate__"}


@dataclasses.dataclass
class Source:
    prelude: tuple
    code: types.CodeType


def choose(plan, program=False):
    """`plan` holds `blocks` (text, language tag), `fenced`, `entry`, and the prompt's `stub` and `prelude`."""
    entry, stub = plan["entry"], plan["stub"]
    texts = [text for text, _ in plan["blocks"]]
    block = join([found for text in texts if (found := parse(text)) is not None], entry)
    if stub and not (block and defines(block, entry)):
        block = complete(stub, texts) or block
    if not block and not plan["fenced"]:
        block = longest_run(texts[0])
    if not block:
        for text in texts:
            if looks_like_code(text):
                compile(text, "candidate.py", "exec")  # raises the syntax error, which says where
        raise NoCode("no code in the answer")
    if not plan["fenced"] and not has_substance(ast.parse(block.text)):
        raise NoCode("no code in the answer")
    prelude = () if program else tuple(plan["prelude"])
    if "Solution" in block.names():
        prelude = JUDGE_IMPORTS + prelude
    return Source(prelude, block.code)


def parse(text):
    """The compiled block, or None. Blocks without a statement are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in dict.fromkeys((text, textwrap.dedent(text))):
            try:
                code = compile(form, "candidate.py", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
                continue
            return Block(form, code) if form.strip() else None
    return None


def join(blocks, entry):
    """The blocks in order. Of several that define the entry point, or the same names, the last stands."""
    names = [block.names() for block in blocks]
    if any(names):
        first = next(index for index, found in enumerate(names) if found)
        kept = []
        for index, block in enumerate(blocks):
            later = set().union(*names[index + 1:])
            replaced = names[index] and (names[index] <= later or (entry in names[index] and entry in later))
            # After the definitions, a block without any shows how to use them.
            usage = index > first and not names[index]
            if not replaced and not usage:
                kept.append(block)
        blocks = kept
    return blocks[0] if len(blocks) == 1 else parse("\n".join(block.text for block in blocks))


def defines(block, entry):
    """Whether the code has the function or class asked for; of `Solution.method` the class is enough."""
    first = entry.split(".")[0]
    return not entry or first in block.names() or re.search(
        rf"^{re.escape(first)}\b.*=|^(?:from|import)\b.*\b{re.escape(first)}\b", block.text, re.M) is not None


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
            if (block := parse(whole)) is not None:
                return block
    return None


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
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign,
             ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Try, ast.With, ast.Raise, ast.Assert)
    return any(isinstance(node, kinds) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
               for node in tree.body)


def longest_run(text):
    """Code inside prose without fences: from its first line that opens a definition, as far as it parses."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(("def ", "class ", "import ", "from ", "@", "async "))]
    for start in starts[:5]:
        for end in _ends(lines, start):
            code = "\n".join(lines[start:end])
            if (block := parse(code)) is not None and has_substance(ast.parse(code)):
                return block
    return None


def _ends(lines, start):
    """Ends worth trying: the last line, then every line at the margin that follows code, from the back."""
    yield len(lines)
    margins = [i for i in range(len(lines) - 1, start, -1) if lines[i] and not lines[i][0].isspace()]
    yield from margins[:200]
