"""In how many real prompts tests are found: `coverage.py DATA_FOLDER` prints a table.

DATA_FOLDER holds `coderouterbench/tasks.jsonl.gz`, one task a line with `source`, `language` and `prompt`.
"""

import collections
import gzip
import json
import pathlib
import sys

import find
import prompt

SOURCES = ("humaneval", "hex_python", "he_completion", "he_testgen", "mbpp", "mbpp_completion", "mbpp_testgen", "lcb",
           "lcb_testgen", "bcb", "bcb_algo2", "bcb_completion")


def read_prompts(folder):
    """Prompts of each source."""
    prompts = collections.defaultdict(list)
    with gzip.open(pathlib.Path(folder) / "coderouterbench" / "tasks.jsonl.gz", "rt") as lines:
        for line in lines:
            task = json.loads(line)
            if task["prompt"] and task["language"] == "python":
                prompts[task["source"]].append(task["prompt"])
    return prompts


def measure(prompts):
    """(prompts with tests, tests in all, prompts per kind, prompts with something skipped)"""
    found, tests, skipped, kinds = 0, 0, 0, collections.Counter()
    for text in prompts:
        made = find.find_tests({}, prompt.read_prompt(text))
        found += bool(made)
        tests += made.count()
        skipped += bool(made.skipped)
        kinds[made.source or "none"] += 1
    return found, tests, kinds, skipped


def main():
    prompts = read_prompts(sys.argv[1])
    print("| source | prompts | with tests | share | tests a prompt | with skipped examples | kinds |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for source in SOURCES:
        found, tests, kinds, skipped = measure(prompts[source])
        count = len(prompts[source])
        told = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
        print(f"| {source} | {count} | {found} | {100 * found / count:.0f} % | {tests / max(found, 1):.1f} | {skipped} | {told} |")


if __name__ == "__main__":
    main()
