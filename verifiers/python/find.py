"""Where a task's tests come from: its metadata, else the prompt, in a fixed order."""

import ast
import contextlib
import dataclasses
import re

from doctests import read_sessions
from examples import Known, call_forms, labelled_pairs
from samples import sample_runs
from steps import Group
from suite import Malformed, read_suite, source_group


DOUBT = re.compile(r"(?:print|output|return|find) any (?:of them|one|such|valid)|multiple (?:valid )?(?:answers|solutions)"
                   r"|any of them (?:is|are|will be) accepted", re.I)


class InvalidTask(Exception):
    """The task's metadata is wrong."""


@dataclasses.dataclass
class Tests:
    source: str
    groups: list
    programs: list
    skipped: list

    def __bool__(self):
        return bool(self.groups or self.programs)

    def count(self):
        return len(self.programs) + sum(step.counts for group in self.groups for step in group.steps)


def find_tests(metadata, prompt):
    """Tests of the metadata; without any, those found in the prompt."""
    entry = metadata.get("entry_point") or prompt.entry
    if metadata.get("tests"):
        try:
            groups, programs = read_suite(metadata["tests"], entry)
        except Malformed as error:
            raise InvalidTask(str(error)) from None
        return Tests("metadata", groups, programs, [])
    any_order = re.search(r"\bany (?:valid )?order\b", prompt.text, re.I) is not None
    known = Known(entry, prompt.params, prompt.names - {entry.split(".")[0]}, any_order)
    skipped, groups, programs = [], [], []
    sessions = read_sessions(prompt.prose, known, skipped)
    if sessions:
        groups.append(sessions)
    asserts = prompt_asserts(prompt, skipped)
    if asserts:
        groups.append(asserts)
    if not groups:
        # Without a name to look for, whatever looks like a call may be mathematics: it comes last.
        programs = [] if entry else sample_runs(prompt.text)
        readers = (call_forms, labelled_pairs) if entry else (labelled_pairs, call_forms)
        for read in readers if not programs else ():
            if pairs := read(prompt.prose, known, skipped):
                groups.append(Group("examples", pairs))
                break
    kinds = [group.source for group in groups] + (["sample runs"] if programs else [])
    return Tests(" and ".join(kinds), groups, programs, skipped)


def prompt_asserts(prompt, skipped):
    """`assert` lines of the text and `check(candidate)` of the code."""
    lines, found = prompt.prose.split("\n"), []
    at = 0
    while at < len(lines):
        if lines[at].lstrip(" \t`-*").startswith("assert "):
            for end in range(at + 1, min(at + 20, len(lines)) + 1):
                source = "\n".join([lines[at].strip(" \t`-*"), *lines[at + 1:end]])
                try:
                    found.append((source, source_group(source, prompt.entry, "asserts")))
                    at = end - 1
                    break
                except Malformed:
                    continue
            else:
                skipped.append(f"{lines[at].strip()[:80]!r} does not parse")
        at += 1
    steps = [step for _, group in found for step in group.steps]
    for node in prompt.tree.body if prompt.tree else []:
        if getattr(node, "name", "") == "check":
            with contextlib.suppress(Malformed):
                steps += source_group(ast.unparse(node), prompt.entry).steps
    return Group("asserts", steps) if any(step.counts for step in steps) else None


def is_doubtful(text):
    """More than one output is right, so one example of it proves little."""
    return DOUBT.search(text) is not None
