"""What a task's prompt says about the code it wants: stub, imports, helpers, and the text that may hold examples.

The prompt is trusted, so it is parsed here. It is also written by people: whatever does not parse is left as text.
"""

import ast
import dataclasses
import itertools
import re

from extract import PYTHON, fenced_blocks

CODE_START = re.compile(r"^(?:from [\w.]+ import |import \w|def \w|async def \w|class \w|@\w)", re.M)
STARTS_MAX = 20
NAMED = (
    re.compile(r"(?:function|method|def)\s+(?:called\s+|named\s+)?[`'\"]?([A-Za-z_]\w*)[`'\"]?\s*\("),
    re.compile(r"(?:function|method)\s+(?:called|named)\s+[`'\"]?([A-Za-z_]\w*)"),
    re.compile(r"\b(?:implement|write|define|complete)\s+(?:the\s+)?[`'\"]([A-Za-z_]\w*)[`'\"(]", re.I),
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclasses.dataclass
class Prompt:
    text: str
    stub: str = ""  # the code that a completion goes on from
    prelude: list = dataclasses.field(default_factory=list)  # its imports and helpers, a statement each
    entry: str = ""  # `name` or `Class.method`, empty when not told
    params: list = dataclasses.field(default_factory=list)
    prose: str = ""  # everything but code: text around it, docstrings, comments
    tree: ast.Module | None = None
    names: set = dataclasses.field(default_factory=set)  # names the code defines


def read_prompt(text):
    code, around, tree = _split(text)
    if tree is None:
        return Prompt(text, entry=_named(text), prose=text)
    prompt = Prompt(text, stub=code, tree=tree, names={node.name for node in tree.body if hasattr(node, "name")})
    node, owner = _entry(tree)
    if node is not None:
        prompt.entry = f"{owner}.{node.name}" if owner else node.name
        prompt.params = [arg.arg for arg in node.args.posonlyargs + node.args.args if arg.arg not in ("self", "cls")]
    lines = code.split("\n")
    prompt.prelude = ["\n".join(lines[_first_line(item) - 1:item.end_lineno]) for item in tree.body
                      if _is_prelude(item, prompt.entry)]
    prompt.prose = "\n".join([around, *_docstrings(tree), *_comments(code)])
    return prompt


def _first_line(node):
    return min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])


# Where prose may follow the code: a line at the margin that opens no statement.
PROSE_AFTER = re.compile(r"\n(?=[^\s#@)\]}])(?!from |import |def |class |async |else|elif|except|finally)")


def _split(text):
    """The prompt's Python code, the rest, and the code's tree."""
    if "```" in text or "~~~" in text:
        blocks = [body for body, tag in fenced_blocks(text) if tag in PYTHON or not tag]
        code = "\n".join(body for body in blocks if CODE_START.search(body) and parse_stub(body) is not None)
        if code and (tree := parse_stub(code)) is not None:
            # Asserts and examples inside the fences are kept as text.
            return code, text, tree
    for start in itertools.islice(CODE_START.finditer(text), STARTS_MAX):
        code = text[start.start():]
        if (tree := parse_stub(code)) is not None:
            return code, text[:start.start()], tree
        end = PROSE_AFTER.search(text, start.end())
        if end and (tree := parse_stub(text[start.start():end.start()])) is not None:
            return text[start.start():end.start()], text[:start.start()] + text[end.start():], tree
    return "", text, None


def parse_stub(code):
    """Parses code whose last function may have no body yet, or half of one."""
    lines = [line for line in code.splitlines() if line.strip()]
    if not lines:
        return None
    indent = re.match(r"\s*", lines[-1])[0]
    for tail in ("", f"\n{indent}    pass", f"\n{indent}pass"):
        try:
            return ast.parse(code.rstrip() + tail + "\n")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _entry(tree):
    """The last function without a body, else the last function; then the class it is in."""
    found = []
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            found.append((node, ""))
        elif isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, FUNCTIONS) and not item.name.startswith("_")]
            if node.name == "Solution":
                found.extend((item, node.name) for item in methods[:1])
    stubs = [pair for pair in found if is_stub(pair[0])]
    if not found:
        return None, ""
    return (stubs or found)[-1]


def is_stub(function):
    """Nothing but a docstring, `pass`, `...` or `raise NotImplementedError`."""
    for node in function.body:
        constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        unwritten = isinstance(node, ast.Raise) and "NotImplemented" in ast.unparse(node)
        if not (constant or unwritten or isinstance(node, ast.Pass)):
            return False
    return True


def _is_prelude(node, entry):
    if isinstance(node, FUNCTIONS):
        return node.name != entry and node.name != "check" and not is_stub(node)
    if isinstance(node, ast.ClassDef):
        return node.name != entry.split(".")[0]
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign))


def _docstrings(tree):
    if text := ast.get_docstring(tree, clean=False):
        yield text
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield from _docstrings(node)


def _comments(code):
    return [line.strip().lstrip("# ") for line in code.splitlines() if line.strip().startswith("#")]


def _named(text):
    """The function that a prompt without code names."""
    for pattern in NAMED:
        match = pattern.search(text)
        if match and match[1].lower() not in ("that", "which", "to", "the", "a", "an", "called", "named"):
            return match[1]
    return ""
