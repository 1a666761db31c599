"""Sample runs in a prompt that asks for a whole program: what it reads, what it must print."""

import re

from examples import EXAMPLES_MAX
from steps import Program

# A heading of its own; `Sample Input 1:` may also be glued to the end of a sentence.
SAMPLE = re.compile(r"(?:^[ \t#*-]*(?:sample|example)?[ \t]*|(?<=[.)])(?:sample|example)[ \t]+)inputs?[ \t]*#?\d*[ \t*:-]*$",
                    re.I | re.M)
SAMPLE_OUT = re.compile(r"^[ \t#*-]*(?:sample|example)?[ \t]*outputs?[ \t]*(?:for[^\n]*)?#?\d*[ \t*:-]*$", re.I | re.M)


def sample_runs(text):
    """`Sample Input 1`, a block, `Sample Output 1`, a block: what a program reads and prints."""
    found = []
    for match in SAMPLE.finditer(text):
        output = SAMPLE_OUT.search(text, match.end())
        if not output or SAMPLE.search(text, match.end(), output.start()):
            continue
        given = _block(text[match.end():output.start()], whole=True)
        wanted = _block(text[output.end():], whole=False)
        # The section that explains the format has headings of the same form.
        if given and wanted and not _is_prose(given) and not _is_prose(wanted):
            found.append(Program(f"sample {len(found) + 1}", given + "\n", wanted))
    return found[:EXAMPLES_MAX]


def _block(text, whole):
    text = re.sub(r"^[ \t]*(?:```|~~~)\w*[ \t]*\n?", "", text.strip("\n"), flags=re.M) if "```" in text or "~~~" in text else text
    text = text.strip("\n")
    lines = text.split("\n")
    if whole and len(lines) > 2 and not any(line.strip() for line in lines[1::2]):
        text = "\n".join(lines[::2])  # every line set apart by a blank one
    return text.rstrip() if whole else re.split(r"\n[ \t]*\n|\n(?=Explanation|Note\b|Example|Sample)", text)[0].rstrip()


FORMAT_WORDS = re.compile(r"\b(?:the|input|output|given|line contains|standard|print)\b|\\|\$|\bs_|_\{?[12]\b", re.I)
SENTENCE = re.compile(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}|\\|_\{?\w", re.I)


def _is_prose(text):
    """An explanation of the format: sentences, or notation."""
    return FORMAT_WORDS.search(text) is not None and SENTENCE.search(text) is not None
