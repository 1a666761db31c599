// A daemon of the program under test, with scripted workers and a folder of its own.

import { spawn, spawnSync } from "node:child_process";
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "./wait.mjs";

const PROGRAM = process.env.POINTSMAN_PROGRAM;

export const ARMS = `
[domains.math]
[domains.text]

[[arms]]
id = "good"
kind = "scripted"
default_skill = 0.9
input_usd_per_1m = 1.0
output_usd_per_1m = 2.0

[[arms]]
id = "fair"
kind = "scripted"
default_skill = 0.7
input_usd_per_1m = 0.2
output_usd_per_1m = 0.4

[[arms]]
id = "bad"
kind = "scripted"
default_skill = 0.2
`;

/** An arm that nobody answers for. */
export const DOWN = `
[[arms]]
id = "down"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
model = "m"
retries = 0
`;

export const sum = (n, more = {}) => ({ id: `sum-${n}`, domain: "math", prompt: `What is ${n} plus ${n + 1}?`, metadata: { reference: 2 * n + 1, answer: "number" }, ...more });
export const word = (n, more = {}) => ({ id: `word-${n}`, domain: "text", prompt: `Say the word lamp${n}.`, metadata: { reference: `lamp${n}` }, ...more });

/** Sums and words in turn. */
export const mixed = (count, from = 0) => Array.from({ length: count }, (_, i) => (i % 2 ? word(from + i) : sum(from + i)));

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export class Daemon {
  /** `cards` are policy cards' texts by name; `adminKey` is what POINTSMAN_ADMIN_KEY holds. */
  static async start({ config = ARMS, cards = {}, adminKey = "" } = {}) {
    const daemon = new Daemon();
    daemon.folder = mkdtempSync(join(tmpdir(), "pointsman-pages-"));
    daemon.data = join(daemon.folder, "data");
    daemon.adminKey = adminKey;
    daemon.key = ""; // what this client sends
    mkdirSync(join(daemon.folder, "policies"));
    for (const [name, text] of Object.entries(cards)) writeFileSync(join(daemon.folder, "policies", `${name}.toml`), text);
    writeFileSync(join(daemon.folder, "pointsman.toml"), config);
    daemon.port = await freePort();
    daemon.url = `http://127.0.0.1:${daemon.port}`;
    await daemon.again();
    return daemon;
  }

  /** Starts it on the same folder and port as before. */
  async again() {
    const { folder, data, adminKey } = this;
    const args = ["serve", "--listen", `127.0.0.1:${this.port}`, "--config", join(folder, "pointsman.toml"), "--data-dir", data];
    this.child = spawn(PROGRAM, args, { env: { ...process.env, POINTSMAN_ADMIN_KEY: adminKey }, stdio: ["ignore", "pipe", "pipe"] });
    this.ended = new Promise((resolve) => this.child.once("close", resolve));
    this.child.stderr.pipe(createWriteStream(join(folder, "log"), { flags: "a" }));
    const listens = new Promise((resolve) => createInterface(this.child.stdout).on("line", (line) => { if (line.includes("http://")) resolve(true); }));
    if (!(await Promise.race([listens, this.ended.then(() => false)]))) throw new Error(`the daemon did not start: ${this.log()}`);
  }

  /** Ends it as `kill -9` does. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  async dispose() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  log() {
    try { return readFileSync(join(this.folder, "log"), "utf8").slice(-2000); } catch { return ""; }
  }

  /** Another command of the program, on this daemon's folder; its standard output. */
  run(...args) {
    const ran = spawnSync(PROGRAM, args, { encoding: "utf8", env: { ...process.env, POINTSMAN_ADMIN_KEY: this.adminKey } });
    if (ran.status !== 0) throw new Error(`${args.join(" ")}: ${ran.stdout}${ran.stderr}`);
    return ran.stdout.trim();
  }

  /** Saves a replay of two tasks and two models under a name. */
  replay(name) {
    const table = "sample_id,prompt,eval_name,a,b,a|total_cost,b|total_cost\nmmlu-law.val.1,Which?,mmlu-law,1.0,0.5,0.0002,0.002\ngsm.2,Why?,grade-school-math,0.0,1.0,0.0001,0.001\n";
    writeFileSync(join(this.folder, "table.csv"), table);
    writeFileSync(join(this.folder, "models.json"), JSON.stringify({ models: ["a", "b"].map((model) => ({ model, input_per_1m: 1, output_per_1m: 2 })) }));
    const policies = ["--policy", "uniform", "--policy", "lin_ucb", "--seeds", "2"];
    this.run("replay", "--dataset", join(this.folder, "table.csv"), ...policies, "--save", name, "--data-dir", this.data);
  }

  async ask(path, body) {
    const headers = { ...(this.key && { authorization: `Bearer ${this.key}` }), ...(body !== undefined && { "content-type": "application/json" }) };
    const response = await fetch(this.url + path, { method: body === undefined ? "GET" : "POST", headers, body: typeof body === "object" ? JSON.stringify(body) : body });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`);
    return text;
  }
  async get(path) { return JSON.parse(await this.ask(path)); }

  /** Runs a task; its answer. */
  async task(task) { return JSON.parse(await this.ask("/v1/tasks", task)); }

  /** Runs a task that no worker answers. */
  async failing(task) {
    const response = await fetch(`${this.url}/v1/tasks`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(task) });
    if (response.status !== 502) throw new Error(`a task that was to fail was answered ${response.status}: ${await response.text()}`);
  }

  /** Runs tasks through one stream; their answers. */
  async stream(tasks) {
    const text = await this.ask("/v1/tasks/stream", tasks.map((task) => JSON.stringify(task)).join("\n"));
    const answers = text.trim().split("\n").map((line) => JSON.parse(line));
    for (const answer of answers) if (!answer.decision_id) throw new Error(`a line was refused: ${JSON.stringify(answer)}`);
    return answers;
  }

  /** Waits until so many rounds are learnt and in memory. */
  learnt(rounds) {
    return until(`${rounds} rounds are learnt`, async () => {
      const d = await this.get("/v1/overview");
      return d.rounds >= rounds && d.memory.behind === 0;
    });
  }
}
