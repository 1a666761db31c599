"""The blocks of an answer that may be its code. Text only: nothing of the answer is parsed as Python on this side."""

import dataclasses
import re

ANSWER_MAX = 1_000_000
BLOCKS_MAX = 50

FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([\w+.#-]*)[^`\n]*$")
PYTHON = {"python", "py", "python3", "py3", "python2", "cpython", "ipython"}
SESSION = re.compile(r"\s*(>>> |\$ |In \[\d+\]:|C:\\)")


@dataclasses.dataclass
class Answer:
    blocks: list  # (text, language tag) pairs
    fenced: bool  # False when the blocks are the whole answer
    says_python: bool  # a fence names the language


def read_answer(text):
    """Python blocks win over blocks without a name; blocks of other languages and shell sessions are not code."""
    text = text[text.rfind("</think>") + len("</think>"):] if "</think>" in text else text
    if not any(mark in text for mark in ("```", "~~~")):
        return Answer([(text, "")] if text.strip() else [], False, False)
    fences = fenced_blocks(text)
    named = [block for block in fences if block[1] in PYTHON]
    usable = named or [block for block in fences if not block[1]]
    code = [block for block in usable if not SESSION.match(block[0])]
    return Answer(code, True, bool(named))


def fenced_blocks(text):
    """Blocks between ``` or ~~~ lines, with their tags; a last one left open runs to the end. At most BLOCKS_MAX."""
    blocks, lines, fence = [], [], None
    for line in text.split("\n"):
        line = line.rstrip("\r")
        match = FENCE.match(line) if ("```" in line or "~~~" in line) and len(line) < 200 else None
        if fence is None:
            if match:
                fence, lines = match, []
        elif match and match[2][0] == fence[2][0] and len(match[2]) >= len(fence[2]) and not match[3]:
            blocks.append(_block(fence, lines))
            fence = None
            if len(blocks) == BLOCKS_MAX:
                return blocks
        else:
            lines.append(line)
    if fence is not None:
        blocks.append(_block(fence, lines))
    return blocks


def _block(fence, lines):
    indent = fence[1]
    if indent:
        lines = [line.removeprefix(indent) for line in lines]
    return "\n".join(lines) + "\n", fence[3].lower()
