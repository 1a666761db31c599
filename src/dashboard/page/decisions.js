// The live stream of decisions: newest first, filtered, pausable. Rows stand still while somebody looks at one.

import { needsKey } from "./api.js";
import { $, h, isNum, list, say, setText, str } from "./dom.js";
import { feed } from "./feed.js";
import { clock, dateTime, int, ms, plural, prob, score, score3, usd } from "./format.js";
import { figures, load, setState } from "./layout.js";
import { onQuery, pageLink, query, setQuery } from "./url.js";

const ROWS = 200;
const KEPT = 2000; // rounds that a changed filter can still find
const ROWS_EVERY_MS = 200;
const NAMES_MAX = 500;
const FILTERS = ["domain", "arm", "status", "reason", "q"];

// ---------------------------------------------------------------- rounds

const rounds = new Map(); // decision id → its newest event, oldest first
let filter = readFilter();
let paused = false, pointed = false, waiting = 0, missed = 0;

function readFilter() {
  return { ...Object.fromEntries(FILTERS.map((name) => [name, query(name)])), text: query("q").toLowerCase() };
}
function matches(d) {
  const { domain, arm, status, reason, text } = filter;
  if (domain && str(d.domain) !== domain) return false;
  if (arm && str(d.arm) !== arm) return false;
  if (reason && str(d.reason) !== reason) return false;
  if (status && statusOf(d) !== status) return false;
  return !text || str(d.prompt_head).toLowerCase().includes(text);
}
const statusOf = (d) => (d.status === "failed" ? "failed" : isNum(d.score) ? "done" : "pending");

/** The newest rounds that the filter lets through. */
function newest() {
  const all = [...rounds.values()], found = [];
  for (let i = all.length - 1; i >= 0 && found.length < ROWS; i -= 1) if (matches(all[i])) found.push(all[i]);
  return found;
}

// ---------------------------------------------------------------- rows

const body = $("rows").tBodies[0];
const drawn = new Map(); // decision id → {d, tr}: the rows on the page
let queued = false, drawnAt = -Infinity;

const focused = () => body.contains(document.activeElement) && document.activeElement.matches(":focus-visible");
const held = () => paused || pointed || focused();

function schedule() {
  if (queued || document.hidden) return;
  queued = true;
  setTimeout(() => requestAnimationFrame(() => {
    queued = false;
    drawnAt = performance.now();
    if (held()) { refreshScores(); drawNote(); } else drawRows();
  }), Math.max(0, drawnAt + ROWS_EVERY_MS - performance.now()));
}

/** Rows that stand still still get their late scores. */
function refreshScores() {
  for (const [id, row] of drawn) {
    const d = rounds.get(id);
    if (!d || d === row.d || row.tr.contains(document.activeElement)) continue;
    const tr = rowOf(d);
    row.tr.replaceWith(tr);
    drawn.set(id, { d, tr });
  }
}

function drawRows() {
  const rows = newest(), next = new Map();
  for (const d of rows) {
    const old = drawn.get(d.decision_id);
    next.set(d.decision_id, old && old.d === d ? old : { d, tr: rowOf(d) });
  }
  for (const [id, row] of drawn) if (next.get(id) !== row) row.tr.remove();
  drawn.clear();
  let place = body.firstElementChild;
  for (const [id, row] of next) {
    if (row.tr === place) place = place.nextElementSibling; else body.insertBefore(row.tr, place);
    drawn.set(id, row);
  }
  waiting = 0;
  drawNote();
}

function drawNote() {
  const bits = [];
  if (waiting && held()) bits.push(`${plural(waiting, "newer row waits", "newer rows wait")}${paused ? "" : " while you look"}`);
  if (missed) bits.push(`${int(missed)} skipped in all (too fast for this page)`);
  setText($("rows-note"), bits.join("; "));
  $("rows-empty").hidden = drawn.size > 0;
  if (!drawn.size) setText($("rows-empty"), emptyText());
  if (feed.state === "live") setState(rounds.size ? "ready" : "empty");
}
function emptyText() {
  if (rounds.size) return `None matches these filters (${plural(rounds.size, "decision", "decisions")} seen). New ones that match show up here.`;
  if (feed.state !== "live") return "Waiting for the live connection …";
  if (figures.last && !(figures.last.rounds > 0)) return "No rounds yet. POST a task to /v1/tasks and its round shows up here within a second.";
  return "Waiting for the next round.";
}

function rowOf(d) {
  const td = (cls, text) => h("td", cls ? { class: cls, title: /name|wide/.test(cls) ? text.slice(0, 500) : null } : {}, text);
  const status = statusOf(d);
  return h("tr", { "data-id": d.decision_id },
    h("td", { class: "num" }, h("a", { href: pageLink("decisions", d.decision_id), "aria-label": `Round ${int(d.round)}: why ${str(d.arm).slice(0, 80)}` }, int(d.round))),
    h("td", { class: "opt", title: dateTime(d.at_ms) }, clock(d.at_ms)), td("name", str(d.domain)), td("name", str(d.arm)), td("opt", str(d.mode)),
    td(d.reason === "explore" ? "explore" : d.reason === "fallback" ? "fail" : "", str(d.reason).slice(0, 24)), td("num opt", prob(d.propensity)),
    status === "failed" ? td("num fail", "failed") : td("num", status === "pending" ? "pending" : score(d.score)),
    td("num opt", score3(d.reward)), td("num opt", usd(d.cost_usd)), td("num opt", ms(d.latency_ms)),
    td("opt wide", str(d.prompt_head)));
}

body.addEventListener("pointerenter", (ev) => { pointed = ev.pointerType === "mouse"; });
body.addEventListener("pointerleave", () => { pointed = false; schedule(); });
body.addEventListener("focusout", () => schedule());
body.addEventListener("click", (ev) => { // the whole row is its link
  const tr = ev.target.closest("tr"), sel = getSelection();
  if (!tr || ev.target.closest("a") || (sel && !sel.isCollapsed && body.contains(sel.anchorNode))) return;
  tr.querySelector("a").click();
});
body.addEventListener("keydown", (ev) => {
  const tr = ev.target.closest("tr");
  const to = tr && (ev.key === "ArrowDown" ? tr.nextElementSibling : ev.key === "ArrowUp" ? tr.previousElementSibling : null);
  if (!to) return;
  ev.preventDefault();
  to.querySelector("a").focus();
});

// ---------------------------------------------------------------- filters

const names = { domain: new Set(), arm: new Set() };
function noteName(kind, name) {
  if (!name || names[kind].has(name) || names[kind].size >= NAMES_MAX) return;
  names[kind].add(name);
  fillSoon(kind);
}
const filling = new Set();
function fillSoon(kind) {
  if (filling.has(kind)) return;
  filling.add(kind);
  setTimeout(() => { filling.delete(kind); fill(kind); });
}
function fill(kind) {
  const select = $(`f-${kind}`);
  if (document.activeElement === select) return; // an open list must not change
  const all = [...new Set([...names[kind], ...(filter[kind] ? [filter[kind]] : [])])].sort();
  select.replaceChildren(h("option", { value: "" }, "All"), ...all.map((n) => h("option", { value: n }, n)));
  select.value = filter[kind];
}
for (const kind of ["domain", "arm"]) $(`f-${kind}`).addEventListener("blur", () => fill(kind));

function showFilter() {
  fill("domain");
  fill("arm");
  for (const name of ["status", "reason", "q"]) if ($(`f-${name}`).value !== filter[name]) $(`f-${name}`).value = filter[name];
  $("clear").hidden = !FILTERS.some((name) => filter[name]);
}
function applyFilter() {
  filter = readFilter();
  showFilter();
  drawRows();
  say(`${plural(drawn.size, "decision matches", "decisions match")}`);
}
$("filters").addEventListener("submit", (ev) => ev.preventDefault());
$("filters").addEventListener("input", (ev) => {
  setQuery(ev.target.name, ev.target.value);
  applyFilter();
});
$("clear").addEventListener("click", () => {
  for (const name of FILTERS) setQuery(name, "");
  applyFilter();
  $("f-q").focus();
});
onQuery(applyFilter);

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  setText($("pause"), paused ? "Resume" : "Pause");
  say(paused ? "Paused: new rows wait" : "Going on");
  schedule();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) schedule(); });

// ---------------------------------------------------------------- start

showFilter();
feed.on("round", (d) => {
  if (typeof d.decision_id !== "string" || !d.decision_id) return;
  const fresh = !rounds.has(d.decision_id); // else the same round again, for example with its late score
  rounds.set(d.decision_id, d);
  if (rounds.size > KEPT) rounds.delete(rounds.keys().next().value);
  if (fresh && matches(d)) waiting += 1;
  noteName("domain", str(d.domain));
  noteName("arm", str(d.arm));
  schedule();
});
feed.on("lagged", (d) => {
  missed += isNum(d.missed) ? d.missed : 0;
  schedule();
});
feed.on("state", schedule);
figures.on((d) => {
  for (const x of list(d.domains)) noteName("domain", str(x.domain));
  for (const x of list(d.arms)) noteName("arm", str(x.arm));
  if (!rounds.size) schedule(); // what is said in place of rows depends on them
});
// Without a live connection this asks for the key, or says what is wrong.
load(async (signal) => {
  await figures.refresh(signal).catch((e) => { if (feed.state !== "live" || needsKey(e)) throw e; });
  return rounds.size ? "ready" : "empty";
});
