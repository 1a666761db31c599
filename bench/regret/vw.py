"""Vowpal Wabbit's explorers on the LLMRouter outcome matrix: the stream of `pointsman replay`, in orders of its own.

Each task is one multiline example: the domain is shared, every model is an action known by its name, and models interact
with the domain (words or embeddings only cost VW's explorers, as they cost ours). After each decision VW learns the cost (-score) with the probability with which
the model was drawn. Prints the mean regret over shuffled cold starts for several settings.

Usage: python vw.py FOLDER [SEEDS]      FOLDER holds tasks.jsonl.gz and results.csv.gz; needs vowpalwabbit==9.11.9
"""

import csv
import gzip
import json
import random
import statistics
import sys

import vowpalwabbit

EXPLORERS = {
    "epsilon .05": "--epsilon 0.05",
    "squarecb, gamma_scale 10": "--squarecb --gamma_scale 10",
    "squarecb, gamma_scale 30": "--squarecb --gamma_scale 30",
    "squarecb, gamma_scale 100": "--squarecb --gamma_scale 100",
    "bag 8": "--bag 8",
    "cover 8": "--cover 8",
}


def read(folder):
    scores = {}
    with gzip.open(f"{folder}/results.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            scores.setdefault(row["task_id"], {})[row["model"]] = float(row["score"])
    with gzip.open(f"{folder}/tasks.jsonl.gz", "rt") as file:
        tasks = [json.loads(line) for line in file]
    tasks = [task for task in tasks if task.get("prompt")]
    models = sorted(next(iter(scores.values())))
    return [(task["dimension"].lower(), [scores[task["task_id"]][model] for model in models]) for task in tasks], models


def run(options, stream, models, seed):
    order = stream[:]
    rng = random.Random(seed)
    rng.shuffle(order)
    vw = vowpalwabbit.Workspace(f"--cb_explore_adf {options} -q DM --quiet --random_seed {seed}")
    regret = 0.0
    for domain, scores in order:
        lines = [f"shared |D {domain}"] + [f"|M m{place}" for place in range(len(models))]
        pmf = vw.predict(lines)
        total = sum(pmf)
        place = rng.choices(range(len(pmf)), [p / total for p in pmf])[0]
        regret += max(scores) - scores[place]
        lines[place + 1] = f"0:{-scores[place]}:{pmf[place] / total} |M m{place}"
        vw.learn(lines)
    vw.finish()
    return regret


def main():
    folder, seeds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    stream, models = read(folder)
    print(f"Vowpal Wabbit {vowpalwabbit.__version__}, {len(stream)} tasks x {len(models)} models, {seeds} orders")
    for name, options in EXPLORERS.items():
        regrets = [run(options, stream, models, seed) for seed in range(seeds)]
        print(f"{name:28s} regret {statistics.mean(regrets):7.1f}  sd {statistics.stdev(regrets):5.1f}", flush=True)


if __name__ == "__main__":
    main()
