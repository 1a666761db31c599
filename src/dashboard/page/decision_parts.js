// The parts of a decision's page, made from GET /v1/decisions/{id}. Each gives a node or several.
//
//   action(x)        "single / gpt-5"
//   sentence(d)      why this arm, in words
//   facts, prompt, answer, options, calls, trajectory, feedback, cost, neighbours, masked, audit

import { bar, clamp01, grid, h, isNum, kv, list, MAX_ITEMS, pbar, rec, str, textBlock } from "./dom.js";
import { F2, int, ms, pct, plural, prob, score, score3, us, usd } from "./format.js";
import { pageLink } from "./url.js";

const VOTERS_MAX = 12; // columns
const NAME_MAX = 120;
const BLOCKS_MAX = 40; // texts of a conversation, verdicts of a round
const MESSAGES_OPEN = 4; // the last ones of a conversation

const muted = (text) => h("p", { class: "muted" }, text);
const name = (x) => { const t = str(x); return t.length > NAME_MAX ? `${t.slice(0, NAME_MAX)}…` : t; };
export const action = (x) => `${name(rec(x).mode)} / ${name(rec(x).arm)}`;
const policyText = (p) => (rec(p).name ? `${name(p.name)}${p.card ? ` of ${name(p.card)}` : ""}` : "");
const more = (all, max, one, many) => all.length > max && muted(`${plural(all.length - max, one, many)} not shown.`);

const WHY = {
  exploit: "it was the most promising option by the policy's own estimate",
  explore: "the policy was sampling an option that it wants to know more about",
  fallback: "the policy had no answer, or every arm was resting after failures",
  pinned: "the request or the session fixed the arm",
  forced: "no other arm was allowed",
};

export function sentence(d) {
  const dec = rec(d.decision), reason = str(dec.reason), n = list(dec.pmf).filter((o) => o && o.p > 0).length;
  const why = Object.hasOwn(WHY, reason) ? WHY[reason] : "see below";
  const among = n > 1 ? ` among ${int(n)} options` : "";
  return `Chosen with probability ${prob(dec.propensity)}${among} (${name(reason) || "no reason given"}: ${why}).`;
}

/** What a language model that routes said of the task. */
function proposed(of) {
  if (!of) return "";
  const p = rec(of), refused = list(p.violations).length;
  const what = p.mode ? `${name(p.mode)}${p.arm ? ` / ${name(p.arm)}` : ""}` : p.failure ? `nothing: ${str(p.failure).slice(0, 300)}` : "nothing that could be read";
  return `${what}, by a language model (${[usd(p.cost_usd), ms(p.latency_ms), refused && plural(refused, "turn refused", "turns refused")].filter(Boolean).join(", ")})`;
}

export function facts(d, id) {
  const task = rec(d.task), dec = rec(d.decision), ctx = rec(d.context), out = rec(d.outcome), last = ctx.session_last;
  const state = d.abandoned ? "abandoned: nobody said what became of it before its lease ended" : d.outcome ? str(out.status) : "not answered yet";
  const limits = Object.entries(rec(task.constraints)).filter(([, v]) => v !== null && !(Array.isArray(v) && !v.length));
  const instead = str(ctx.instead_of);
  return kv([
    ["Decision", name(dec.id) || id.slice(0, NAME_MAX)], ["Task", name(task.id)],
    ["Domain", task.domain ? h("a", { href: pageLink("domains", str(task.domain)) }, name(task.domain)) : ""],
    ["Domain found by likeness", isNum(ctx.domain_similarity) ? score3(ctx.domain_similarity) : ""],
    ["Proposed", proposed(ctx.proposal)],
    ["Policy", policyText(dec.policy)], ["Learnt rounds", isNum(dec.learnt_rounds) ? int(dec.learnt_rounds) : ""], ["Seed", name(dec.seed)],
    ["Status", name(state)], ["Cost", d.outcome ? usd(out.cost_usd) : ""], ["Latency", d.outcome ? ms(out.latency_ms) : ""],
    ["In place of", instead ? h("a", { href: pageLink("decisions", instead) }, "an earlier decision that gave no answer") : ""],
    ["Session", name(ctx.session)], ["Last in the session", last ? action(last) : ""], ["Tenant", name(task.tenant)],
    ["Limits", limits.map(([k, v]) => `${k}: ${str(v)}`).join("; ").slice(0, 300)],
    ["Reward", ctx.reward ? `${str(ctx.reward.e1)} × score ${ctx.reward.e2 < 0 ? "−" : "+"} ${str(Math.abs(ctx.reward.e2))} × dollars` : ""],
  ]);
}

// ---------------------------------------------------------------- texts

/** A text, or why it is not there: texts may be kept as a hash or not at all. */
function keptText(text, kept, label) {
  const t = str(text);
  if (kept === "hashed" || /^blake3:[0-9a-f]{32}$/.test(t)) return [muted("The journal keeps only a hash of this text."), t && textBlock(t, `${label}, hashed`)];
  if (t) return [textBlock(t, label)];
  if (kept === "erased") return [muted("This text was erased: somebody asked for it.")];
  return [muted(kept === "dropped" ? "The journal does not keep this text." : "Empty, or not kept.")];
}

export function prompt(d) {
  const task = rec(d.task), kept = str(rec(d.outcome).kept), messages = list(task.messages).map(rec);
  const talk = messages.length > 1 || (messages.length === 1 && messages[0].role !== "user");
  const said = (m) => [h("h3", {}, name(m.role) || "message"), ...keptText(m.content, kept, `Message of ${name(m.role)}`)];
  const parts = talk ? messages.slice(-MESSAGES_OPEN).flatMap(said) : keptText(task.prompt, kept, "Prompt");
  const earlier = messages.slice(-BLOCKS_MAX, -MESSAGES_OPEN);
  if (earlier.length) parts.unshift(h("details", {}, h("summary", {}, plural(messages.length - MESSAGES_OPEN, "earlier message", "earlier messages")), earlier.flatMap(said), more(messages, BLOCKS_MAX, "message", "messages")));
  const meta = rec(task.metadata);
  if (Object.keys(meta).length) parts.push(h("details", {}, h("summary", {}, "Metadata"), textBlock(JSON.stringify(meta, null, 2), "Metadata")));
  return parts;
}

export function answer(d) {
  if (!d.outcome) return [muted(d.abandoned ? "Nobody said what became of it." : "Not answered yet.")];
  const out = rec(d.outcome), tools = list(out.tool_calls).map(rec);
  const text = tools.length && !str(out.output) ? [] : out.status === "failed" && !str(out.output) ? [muted("No answer: the worker failed.")] : keptText(out.output, str(out.kept), "Answer");
  return [...text, ...tools.slice(0, BLOCKS_MAX).flatMap((t) => [h("h3", {}, `Tool call: ${name(t.name)}`), ...keptText(t.arguments, str(out.kept), `Arguments of ${name(t.name)}`)]),
    more(tools, BLOCKS_MAX, "tool call", "tool calls")];
}

// ---------------------------------------------------------------- options

/** Every option that anybody gave a probability, likeliest first, the chosen one among those that are shown. */
function optionsOf(dec, views) {
  const all = new Map();
  for (const o of list(dec.pmf)) if (o) all.set(action(o), o);
  for (const v of views) for (const x of v) if (x && !all.has(action(x))) all.set(action(x), { mode: x.mode, arm: x.arm, p: 0 });
  const chosen = action(dec), p = (o) => (isNum(o.p) ? o.p : 0);
  return [...all.values()].sort((a, b) => p(b) - p(a) || Number(action(b) === chosen) - Number(action(a) === chosen));
}

/** The pmf beside each voter's view of the same options, and what a policy on trial would have done. */
export function options(d) {
  const dec = rec(d.decision), voters = list(dec.voters).map(rec), shadow = dec.shadow ? rec(dec.shadow) : null;
  const all = optionsOf(dec, [...voters.map((v) => list(v.pmf)), list(shadow && shadow.pmf)]);
  if (!all.length) return [muted("No options were recorded.")];
  const shown = voters.slice(0, VOTERS_MAX), view = (v) => new Map(list(v.pmf).map((x) => [action(x), x.p]));
  const views = shown.map(view), trial = shadow ? view(shadow) : null;
  const expects = all.some((o) => isNum(o.expected)), chosen = action(dec);
  const cell = (map, o) => h("td", { class: "num" }, map.has(action(o)) ? prob(map.get(action(o))) : "–");
  const head = [["Option"], ["Probability"], ...(expects ? [["Expected utility", "num"]] : []), ...(trial ? [[["on trial: ", name(rec(shadow.policy).name)], "num"]] : []),
    ...shown.map((v) => [[name(v.policy), h("span", {}, `weight ${isNum(v.weight) ? F2.format(v.weight) : "–"}`)], "num"])];
  const rows = all.map((o) => {
    const mine = action(o) === chosen;
    return h("tr", { class: mine ? "chosen" : null }, h("th", { scope: "row" }, action(o), mine && h("span", { class: "tag" }, "chosen")), h("td", {}, pbar(o.p)),
      expects && h("td", { class: "num" }, score3(o.expected)), trial && cell(trial, o), views.map((v) => cell(v, o)));
  });
  const caption = `The probability of each option${voters.length ? ", and the view of each voter with its weight" : ""}${trial ? ", and of the policy on trial" : ""}.`;
  return [grid(caption, head, rows), more(voters, VOTERS_MAX, "voter", "voters")];
}

const CLOSED = { disabled: "disabled", quarantined: "quarantined", unhealthy: "resting after failures", too_dear: "too dear for this task", failed: "failed on this task before" };
function whyClosed(why) {
  if (typeof why === "string") return Object.hasOwn(CLOSED, why) ? CLOSED[why] : why.slice(0, NAME_MAX).replaceAll("_", " ");
  return Object.entries(rec(why)).map(([k, v]) => `${k} ${str(v)}`).join(", ").slice(0, NAME_MAX);
}
export const masked = (all) => [h("ul", { class: "plain" }, all.slice(0, MAX_ITEMS).map((m) => h("li", {}, h("b", {}, name(rec(m).arm)), `: ${whyClosed(rec(m).why)}`))), more(all, MAX_ITEMS, "arm", "arms")];

export function neighbours(d) {
  const ctx = rec(d.context), near = list(ctx.neighbours).map(rec), text = str(rec(d.task).prompt);
  if (!near.length) return [muted(`None recalled (${name(ctx.recall) || "unknown"}${ctx.recall_error ? `: ${str(ctx.recall_error).slice(0, 300)}` : ""}).`)];
  const outcome = (o) => h("details", {}, h("summary", {}, `${action(o)}: ${score(rec(o).score)}, ${usd(rec(o).cost_usd)}`), str(rec(o).trace) ? textBlock(o.trace, "Trace") : muted("No trace."));
  const rows = near.map((n) => h("tr", {}, h("td", { class: "detail" }, isNum(n.seq) ? h("a", { href: pageLink("memory", "", { entry: String(n.seq) }) }, name(n.task_id)) : name(n.task_id)), h("td", {}, pbar(n.similarity)), h("td", { class: "detail" }, name(n.domain)),
    h("td", { class: "detail" }, list(n.outcomes).length ? list(n.outcomes).slice(0, VOTERS_MAX).map(outcome) : "–")));
  const link = text && !text.startsWith("blake3:") && h("p", { class: "after" }, h("a", { href: pageLink("memory", "", { q: text.slice(0, 1000) }) }, "Search memory for this prompt"));
  return [grid("Past tasks nearest to this one, and how each arm did on them.", [["Task"], ["Similarity"], ["Domain"], ["Outcomes"]], rows), link];
}

// ---------------------------------------------------------------- calls and cost

const callStatus = (s) => (typeof s === "string" ? s : Object.entries(rec(s)).map(([k, v]) => `${k}: ${str(v)}`).join(", ")).slice(0, 300);

/** Calls on one axis of time. Where several make one answer it is known when each began; else they are drawn one after the other
 *  where that fits. */
export function calls(d) {
  const out = rec(d.outcome), all = list(out.calls).map(rec);
  if (!all.length) return [muted(d.outcome ? "No calls were recorded." : "Not answered yet.")];
  const took = (c) => (isNum(c.latency_ms) && c.latency_ms > 0 ? c.latency_ms : 0), began = (c) => (isNum(c.started_ms) && c.started_ms > 0 ? c.started_ms : 0);
  const known = Boolean(out.trajectory), sum = all.reduce((t, c) => t + took(c), 0);
  const whole = Math.max(isNum(out.latency_ms) ? out.latency_ms : 0, ...all.map((c) => took(c) + (known ? began(c) : 0)));
  const inRow = !known && sum <= whole * 1.05, end = inRow ? Math.max(whole, sum) : whole;
  let at = 0;
  const rows = all.map((c, n) => {
    const from = known ? began(c) : inRow ? at : 0, seen = list(c.refs).filter(isNum);
    at += took(c);
    return h("tr", {}, h("th", { scope: "row" }, known && h("span", { class: "tag" }, `n${n + 1}`), " ", name(c.arm)),
      h("td", {}, name(c.role) || "–", seen.length > 0 && h("div", { class: "cell-sub" }, `sees ${seen.map((r) => `n${r}`).join(", ")}`)),
      h("td", { class: c.status === "ok" ? "detail short" : "detail short fail" }, callStatus(c.status)),
      h("td", { class: "wait" }, lane(from / end, took(c) / end), h("div", { class: "cell-sub" }, from > 0 ? `${ms(c.latency_ms)}, from ${ms(from)}` : ms(c.latency_ms))),
      known && h("td", { class: "num" }, isNum(c.score) ? score3(c.score) : "–"),
      h("td", { class: "num" }, int(c.input_tokens)), h("td", { class: "num" }, int(c.output_tokens)), h("td", { class: "num" }, usd(c.cost_usd)));
  });
  const how = known ? "each from when it began" : inRow ? "drawn one after the other" : "they overlapped, so each is drawn from the start";
  return [grid(`${plural(all.length, "call", "calls")} to workers; the bars share one axis from 0 to ${ms(end)}, ${how}.`,
    [["Arm"], ["Role"], ["Status"], ["Time"], ...(known ? [["Verified", "num"]] : []), ["Tokens in", "num"], ["Tokens out", "num"], ["Cost", "num"]], rows)];
}

const DRIVERS = { rule: "a fixed rule", mode_router: "the mode-router", llm: "a language model" };
const INSTEAD = { resampled: "a refused turn was written once more", best_so_far: "the best output so far became the answer", single_call: "the domain's best worker was called once" };
const LIMITS = { turns: "all turns were used up", dollars: "the next calls could have cost more than the task may", time: "its time was up" };
const worded = (words, key) => (Object.hasOwn(words, str(key)) ? words[key] : name(key).replaceAll("_", " "));

/** How several calls made one answer: the turns, what was refused, and what each call wrote. */
export function trajectory(d) {
  const out = rec(d.outcome), t = rec(out.trajectory), all = list(out.calls).map(rec), n = (x) => `n${int(x)}`;
  const refused = list(t.turns).map(rec).filter((turn) => turn.violation).length;
  const end = isNum(t.answered_by) ? `${n(t.answered_by)}'s output is the answer${t.kept_best ? ", verified to be better than the one that the turns ended with" : ""}` : str(out.output) ? "the driver wrote the answer" : "there is no answer";
  const words = kv([
    ["Turns by", `${worded(DRIVERS, t.driver)}${t.model ? ` (${name(t.model)})` : ""}`], ["End", end], ["Alpha", isNum(t.alpha) ? F2.format(t.alpha) : ""],
    ["Limit", t.stopped_by ? worded(LIMITS, t.stopped_by) : ""], ["Instead", list(t.fallbacks).map((f) => worded(INSTEAD, f)).join("; ")],
    ["Refused turns", refused ? int(refused) : ""], ["Workers offered", list(t.offered).map((a, i) => `worker_${i + 1} ${name(a)}`).join(", ").slice(0, 600)], ["Prices", name(t.prices)],
  ]);
  const turn = (x) => h("li", {}, x.violation ? h("span", { class: "fail" }, `refused: ${worded({}, x.violation)}`) : list(x.calls).length ? `calls ${list(x.calls).map(n).join(", ")}` : "answers",
    isNum(x.probability) && h("span", { class: "muted" }, `, drawn with probability ${prob(x.probability)}`),
    str(x.said) && h("details", {}, h("summary", {}, "What was written"), textBlock(x.said, "What the language model wrote of this turn")));
  const wrote = (c, i) => h("details", {}, h("summary", {}, `${n(i + 1)} ${name(c.role)} by ${name(c.arm)}${isNum(c.score) ? `, verified ${score3(c.score)}` : ""}`),
    keptText(c.output, str(out.kept), `Output of n${i + 1}`), str(c.trace) && [h("h3", {}, "Verifiers' words"), textBlock(c.trace, `Verifiers' words on n${i + 1}`)]);
  const turns = list(t.turns).map(rec);
  return [words, h("ol", { class: "timeline" }, turns.slice(0, BLOCKS_MAX).map(turn)), more(turns, BLOCKS_MAX, "turn", "turns"), ...all.slice(0, BLOCKS_MAX).map(wrote)];
}
function lane(from, part) {
  const i = h("i");
  i.style.left = `${(clamp01(from) * 100).toFixed(2)}%`;
  i.style.width = `${(clamp01(part) * 100).toFixed(2)}%`;
  return h("div", { class: "lane", "aria-hidden": "true" }, i);
}

export function cost(d) {
  const out = rec(d.outcome), parts = new Map();
  for (const c of list(out.calls).map(rec)) {
    const key = `${name(c.arm)}${c.role ? `, ${name(c.role)}` : ""}`;
    parts.set(key, (parts.get(key) || 0) + (isNum(c.cost_usd) ? c.cost_usd : 0));
  }
  if (!d.outcome) return [muted("Not answered yet.")];
  const probe = d.audited && isNum(d.audited.nano_usd) ? d.audited.nano_usd / 1e9 : 0;
  const rows = [...parts].sort((a, b) => b[1] - a[1]);
  const whole = Math.max(isNum(out.cost_usd) ? out.cost_usd : 0, ...rows.map(([, v]) => v), probe);
  const row = ([label, v], cls) => h("tr", { class: cls }, h("th", { scope: "row" }, label), h("td", { class: "wait" }, bar(whole > 0 ? v / whole : 0)),
    h("td", { class: "num" }, usd(v)), h("td", { class: "num" }, whole > 0 && isNum(out.cost_usd) && out.cost_usd > 0 ? pct(v / out.cost_usd) : "–"));
  const shown = rows.slice(0, MAX_ITEMS - 2).map((r) => row(r));
  shown.push(row(["All of the round", out.cost_usd], "chosen"));
  if (d.audited) shown.push(row(["Audit probe, paid by nobody's budget but its own", probe]));
  const charged = list(d.feedback).map(rec).find((f) => isNum(f.cost_usd) && f.cost_usd > 0);
  return [grid("Dollars by arm and role.", [["Part"], ["Share"], ["Dollars", "num"], ["Of the round", "num"]], shown), charged && muted(`The reward was charged ${usd(charged.cost_usd)}.`)];
}

// ---------------------------------------------------------------- feedback

const SOURCES = { verifier: "Verifiers", client: "Client", failure: "Failure", judge: "Judge", thumbs: "Thumbs" };
const sourceText = (s) => (Object.hasOwn(SOURCES, str(s)) ? SOURCES[s] : name(s));

export function feedback(d) {
  const entry = (f, waits) => h("li", {}, h("p", {}, h("b", {}, sourceText(f.source)), ` scored ${score3(f.score)}, reward ${score3(f.reward)}`,
    isNum(f.trust) && f.trust < 1 && `, trusted ${pct(f.trust)}`, waits && ", waits for the outcome"),
    list(f.verdicts).slice(0, BLOCKS_MAX).map((v) => verdict(rec(v))), more(list(f.verdicts), BLOCKS_MAX, "verdict", "verdicts"));
  const all = [...list(d.feedback).map((f) => [rec(f), false]), ...list(d.early).map((f) => [rec(f), true])];
  if (!all.length) return [muted(d.abandoned ? "None came." : "None yet.")];
  return [h("ol", { class: "timeline" }, all.slice(0, BLOCKS_MAX).map(([f, waits]) => entry(f, waits))), more(all, BLOCKS_MAX, "entry", "entries")];
}

const STATUSES = { scored: "scored", not_applicable: "does not apply", invalid_task: "the task is not valid for it", error: "failed", limit_exceeded: "ran past its limit" };
function verdict(v) {
  const signals = list(v.signals).map(rec), trace = list(v.trace), status = str(v.status);
  const words = [
    `${Object.hasOwn(STATUSES, status) ? STATUSES[status] : name(status)}${isNum(v.score) ? ` ${score3(v.score)}` : ""}`, `weight ${isNum(v.weight) ? F2.format(v.weight) : "–"}`,
    v.gate === true ? "gate: a zero here is a zero in all" : "", isNum(v.duration_us) ? us(v.duration_us) : "", isNum(v.fuel) ? `fuel ${int(v.fuel)}` : "", v.sha256 ? `sha256 ${str(v.sha256).slice(0, 12)}…` : "",
  ].filter(Boolean).join(" · ");
  const lines = `Trace, ${plural(trace.length, "line", "lines")}`;
  return h("div", { class: "verdict" },
    h("p", { title: v.sha256 ? str(v.sha256).slice(0, NAME_MAX) : null }, h("b", {}, `${name(v.verifier)}/${name(v.version)}`), ` · ${words}`),
    signals.length > 0 && grid(`Signals of ${name(v.verifier)}.`, [["Signal"], ["Score"], ["Weight", "num"], ["Detail"]],
      signals.map((s) => h("tr", {}, h("th", { scope: "row" }, name(s.name)), h("td", {}, pbar(s.score)), h("td", { class: "num" }, isNum(s.weight) ? F2.format(s.weight) : "–"), h("td", { class: "detail" }, str(s.detail).slice(0, 2000))))),
    trace.length > 0 && h("details", { open: trace.length <= 12 }, h("summary", {}, lines), textBlock(trace.map(str).join("\n"), lines)));
}

// ---------------------------------------------------------------- audit

const ENDS = { measured: "every arm was judged", incomplete: "an arm could not be judged", cut_off: "the daemon stopped first", over_cap: "not begun: the day's dollars did not suffice", busy: "not begun: too many were under way" };
export function audit(a) {
  const end = str(a.end), arms = list(a.arms).map(rec);
  const words = h("p", { class: "muted" }, `Chosen with probability ${prob(a.probability)} to run on every arm; ${Object.hasOwn(ENDS, end) ? ENDS[end] : name(end)}.`);
  if (!arms.length) return [words];
  const rows = arms.map((x) => {
    const judged = rec(x.judged);
    return h("tr", {}, h("th", { scope: "row" }, x.mode ? action(x) : name(x.arm)), h("td", {}, pbar(x.p)), h("td", { class: "num" }, x.judged ? score3(judged.score) : name(x.missing).replaceAll("_", " ") || "–"),
      h("td", { class: "num" }, x.judged ? score3(judged.reward) : "–"), h("td", { class: "num" }, usd(x.cost_usd)));
  });
  return [words, grid("What every arm brought.", [["Arm"], ["Probability"], ["Score", "num"], ["Reward", "num"], ["Cost", "num"]], rows)];
}
