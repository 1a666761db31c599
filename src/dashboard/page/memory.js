// Memory: how full it is, what it holds as a map, and searching it as recall does.

import { getJson, HttpError, needsKey, problemText } from "./api.js";
import { ScatterChart } from "./chart.js";
import { showDialog } from "./dialog.js";
import { $, bar, clip, css, h, isNum, kv, list, MAX_ITEMS, rec, say, setText, str } from "./dom.js";
import { ago, bytes, dateTime, F1, F3, int, pct, plural, score, usd } from "./format.js";
import { figures, load } from "./layout.js";
import { SortedTable } from "./tables.js";
import { onQuery, pageLink, query, setQuery } from "./url.js";

/** Counting reads every entry and the map every embedding: seconds, so that they are read once and have time. */
const SLOW_MS = 60000;
const MAP_POINTS = 2000;
const NAMES_MAX = 500;
const OUTCOMES_SHOWN = 3;

const AGES = [["within the hour", 3600e3], ["within the day", 86400e3], ["within three days", 3 * 86400e3], ["within a week", 7 * 86400e3], ["within a month", 30 * 86400e3], ["older", Infinity]];
const SCORES = ["0", "above 0 to 0.25", "to 0.5", "to 0.75", "below 1", "1"];

// ---------------------------------------------------------------- what it holds

const domainTable = new SortedTable($("domains"), {
  by: "n", most: 12,
  columns: [
    { id: "domain", name: "Domain", value: (d) => d.name, cell: (d) => h("a", { href: pageLink("domains", d.name) }, d.name) },
    { id: "n", name: "Entries", class: "num", down: true, value: (d) => d.n, cell: (d) => int(d.n) },
    { id: "share", name: "Share", class: "cell", cell: (d) => [pct(d.share), bar(d.share)] },
  ],
});
const armTable = new SortedTable($("arms"), {
  by: "n", most: 12,
  columns: [
    { id: "arm", name: "Arm", value: (a) => a.name, cell: (a) => a.name },
    { id: "n", name: "Entries", class: "num", down: true, value: (a) => a.n, cell: (a) => int(a.n) },
    { id: "score", name: "Score", class: "num", down: true, value: (a) => a.score, cell: (a) => score(a.score) },
  ],
});
const snapshotTable = new SortedTable($("snapshots"), {
  by: "made", most: 20,
  columns: [
    { id: "name", name: "Name", value: (s) => str(s.name), cell: (s) => str(s.name) || "–" },
    { id: "n", name: "Entries", class: "num", down: true, value: (s) => s.count, cell: (s) => int(s.count) },
    { id: "bytes", name: "Size", class: "num opt-s", down: true, value: (s) => s.bytes, cell: (s) => bytes(s.bytes) },
    { id: "made", name: "Made", class: "opt-s", down: true, value: (s) => s.created_at_ms, cell: (s) => dateTime(s.created_at_ms) },
    { id: "state", name: "State", class: "detail", cell: (s) => (str(s.problem) ? h("span", { class: "problem" }, str(s.problem)) : `can be restored${str(s.model) ? `; embeddings of ${str(s.model)}` : ""}`) },
  ],
});

load(async (signal) => {
  const stats = rec(await getJson("/v1/memory", signal));
  drawStats(stats);
  const none = stats.count === 0;
  readSnapshots();
  if (none) return "empty";
  readMap();
  if (query("q")) search();
  return "ready";
}, { timeout: SLOW_MS });

function drawStats(d) {
  const cap = isNum(d.cap) && d.cap > 0;
  setText($("n-entries"), int(d.count));
  setText($("n-entries-sub"), cap ? `of ${int(d.cap)}; ${d.count >= d.cap ? "the oldest gives way to each new one" : `${pct(d.count / d.cap)} full`}` : "");
  $("fill").hidden = !cap;
  if (cap && isNum(d.count)) $("fill").value = d.count / d.cap;
  drawAge("oldest", d.oldest_at_ms);
  drawAge("newest", d.newest_at_ms);
  setText($("memory-model"), ["Past tasks with what each arm made of them", str(d.model) && `embeddings of ${str(d.model)}`, isNum(d.dimension) && `${int(d.dimension)} numbers each`, str(d.origin) && `rests on a snapshot, ${str(d.origin).slice(0, 12)}…`].filter(Boolean).join("; "));
  const domains = Object.entries(rec(d.domains)).map(([name, n]) => ({ name, n, share: d.count > 0 && isNum(n) ? n / d.count : null }));
  const arms = Object.entries(rec(d.arms)).map(([name, tried]) => ({ name, n: rec(tried).count, score: rec(tried).mean_score }));
  domainTable.update(domains);
  armTable.update(arms);
  offer("s-domain", "domain", domains);
  offer("s-arm", "arm", arms);
}

function drawAge(which, at) {
  setText($(`n-${which}`), isNum(at) ? ago(at) : "–");
  setText($(`n-${which}-sub`), isNum(at) ? dateTime(at) : "");
}

figures.on((d) => {
  const memory = rec(d.memory);
  setText($("n-behind"), int(memory.behind));
  setText($("n-behind-sub"), memory.failing ? "its store fails; entries wait" : memory.behind === 0 ? "all that was learnt is in it" : "entries not written yet");
});

async function readSnapshots() {
  try {
    const snapshots = list(await getJson("/v1/memory/snapshots")).map(rec);
    if (snapshots.length) snapshotTable.update(snapshots);
    else tell("snapshots", 5, "There is no snapshot yet.");
  } catch (e) {
    tell("snapshots", 5, `The snapshots could not be read. ${problemText(e)}`);
  }
}
function tell(table, columns, text) {
  $(table).tBodies[0].replaceChildren(h("tr", { class: "waiting" }, h("td", { colspan: columns }, text)));
}

// ---------------------------------------------------------------- the map

/** What is found by search has a ring, groups that have an order keep it and go from one colour to another. */
class MapChart extends ScatterChart {
  rings = [];
  make(data) {
    const made = super.make(data);
    if (!data.ramp) return made;
    const [from, to] = data.ramp.map(css), last = Math.max(1, data.groups.length - 1), place = (k) => data.groups.indexOf(k.id);
    for (const k of made.keys) k.paint = place(k) < 0 ? css("--s-other") : blend(from, to, place(k) / last);
    const order = made.keys.map((_, i) => i).sort((a, b) => place(made.keys[a]) - place(made.keys[b]));
    return { ...made, keys: order.map((i) => made.keys[i]), columns: [null, ...order.map((i) => made.columns[i + 1])], series: order.map((i) => made.series[i]) };
  }
  ring(u) {
    const picked = this.picked;
    for (this.picked of this.rings) super.ring(u);
    this.picked = picked;
    super.ring(u);
  }
  showValues() {
    super.showValues();
    setText($("map-at"), this.picked < 0 ? POINT_HINT : pointWords(map.points[this.picked]));
  }
}
const POINT_HINT = "Press a point, or go to one with the arrow keys and press Enter, for what memory holds of it. Drag to zoom, 0 or a double click resets.";

/** Between two colours of the form #rrggbb. */
function blend(from, to, t) {
  const part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  return `#${[0, 1, 2].map((i) => Math.round(part(from, i) * (1 - t) + part(to, i) * t).toString(16).padStart(2, "0")).join("")}`;
}

let map = null; // what is drawn: the answer's points, as records
const chart = new MapChart("map", { title: "Map of remembered tasks", tick: () => "", empty: "There is nothing to draw yet: a map needs a few different tasks.", onpick: (i) => showEntry(map.points[i].seq) });

async function readMap() {
  chart.note("Reading the embeddings and finding the two axes …");
  const timeout = AbortSignal.timeout(SLOW_MS);
  try {
    map = readPoints(rec(await getJson(`/v1/memory/map?points=${MAP_POINTS}`, timeout)));
    drawMap();
    drawFound();
  } catch (e) {
    if (needsKey(e)) return chart.note("The map needs a key that may read memory.");
    if (!(e instanceof HttpError || e instanceof TypeError || e instanceof DOMException || e instanceof SyntaxError)) throw e;
    chart.note(`The map could not be read. ${problemText(e)}`, h("button", { type: "button", onclick: readMap }, "Try again"));
  }
}

function readPoints(d) {
  const p = rec(d.points), column = (name) => list(p[name]), name = (names, i) => (isNum(i) ? str(list(names)[i]) : "");
  const points = column("x").map((x, i) => ({
    x, y: column("y")[i], seq: column("seq")[i], domain: name(d.domains, column("domain")[i]), arm: name(d.arms, column("arm")[i]), score: column("score")[i], at: column("at_ms")[i], task: str(column("task")[i]),
  })).filter((q) => isNum(q.x) && isNum(q.y));
  return { points, entries: d.entries, explained: list(d.explained).filter(isNum), computed: d.computed_at_ms };
}

/** In which group a point is, by what the colours are to tell; groups with an order have a ramp of colours. */
const COLOURS = {
  "": { of: (p) => p.domain || "(no domain)" },
  arm: { of: (p) => p.arm || "(none)" },
  score: {
    of: (p) => (!isNum(p.score) ? "not scored" : `score ${SCORES[p.score <= 0 ? 0 : p.score >= 1 ? 5 : Math.min(4, Math.floor(p.score * 4) + 1)]}`),
    order: SCORES.map((s) => `score ${s}`), ramp: ["--s5", "--s0"],
  },
  age: { of: (p) => (isNum(p.at) ? AGES.find(([, ms]) => Date.now() - p.at <= ms)[0] : "age not known"), order: AGES.map(([name]) => name), ramp: ["--s0", "--s1"] },
};
const colouring = () => COLOURS[query("colour")] || COLOURS[""];

function drawMap() {
  const { points, explained } = map, by = colouring(), names = points.map(by.of), met = new Set(names);
  const groups = (by.order || []).filter((g) => met.delete(g)).concat([...met]);
  const place = new Map(groups.map((g, i) => [g, i]));
  chart.update({ x: points.map((p) => p.x), y: points.map((p) => p.y), group: names.map((n) => place.get(n)), groups, ramp: by.ramp, label: (i) => pointWords(points[i]) });
  const share = explained.length ? `The two axes tell ${percent(explained.reduce((a, b) => a + b, 0))} of how the embeddings differ (${explained.map(percent).join(" and ")}). ` : "";
  const variance = `${share}Distance on this map is only a hint: tasks that are near each other may be unlike, and search knows better.`;
  const sample = isNum(map.entries) && map.entries > points.length ? ` ${int(points.length)} of ${int(map.entries)} entries are drawn.` : "";
  setText($("map-note"), `Each point is a task. ${variance}${sample}${isNum(map.computed) ? ` Computed ${ago(map.computed)}.` : ""}`);
}
const percent = (x) => `${F1.format(x * 100)}%`;
const pointWords = (p) => `${p.task} · ${p.domain || "no domain"} · ${p.arm || "no arm"} · score ${score(p.score)} · ${ago(p.at)}`;

$("colour").addEventListener("change", () => {
  setQuery("colour", $("colour").value);
  if (map) drawMap();
});

// ---------------------------------------------------------------- one entry

async function showEntry(seq) {
  if (!isNum(seq)) return;
  const body = h("div", { class: "ask-body", tabindex: 0, role: "region", "aria-label": "Entry" }, h("p", { class: "muted", role: "status" }, "Loading …"));
  setQuery("entry", String(seq));
  showDialog({ id: "entry", title: `Entry ${seq}`, body, onclose: () => setQuery("entry", "") });
  try {
    const e = rec(await getJson(`/v1/memory/entries/${encodeURIComponent(seq)}`));
    const outcomes = list(e.outcomes).map(rec), shown = outcomes.slice(0, MAX_ITEMS);
    body.replaceChildren(
      kv([["Task", str(e.task_id)], ["Domain", h("a", { href: pageLink("domains", str(e.domain)) }, str(e.domain))], ["Remembered", isNum(e.at_ms) ? `${dateTime(e.at_ms)}, ${ago(e.at_ms)}` : ""]]),
      ...shown.map((o) => h("section", { class: "outcome" }, h("h3", {}, `${str(o.mode)} / ${str(o.arm)}`), h("p", {}, `score ${isNum(o.score) ? F3.format(o.score) : "–"}, ${usd(o.cost_usd)}`),
        str(o.trace) && h("pre", { class: "text", tabindex: 0, role: "region", "aria-label": "Verifiers' words" }, clip(o.trace)))),
      outcomes.length ? "" : h("p", { class: "muted" }, "No arm was tried on it."));
  } catch (e) {
    const gone = e instanceof HttpError && e.status === 404;
    body.replaceChildren(h("p", { role: "alert" }, gone ? "Memory does not hold this entry any more: newer ones took its place." : problemText(e)));
  }
}

// ---------------------------------------------------------------- search

const FIELDS = [["q", "q", "text"], ["k", "k", "k"], ["min", "min", "min_similarity"], ["s-domain", "domain", "domain"], ["s-arm", "arm", "arm"]];
let found = [], searching = null;

/** The names that a search may be limited to; one that is in the address stays among them. */
function offer(id, name, entries) {
  const names = entries.map((e) => e.name).filter(Boolean).sort().slice(0, NAMES_MAX), chosen = query(name);
  if (chosen && !names.includes(chosen)) names.push(chosen);
  $(id).replaceChildren(h("option", { value: "" }, "any"), ...names.map((n) => h("option", { value: n }, n)));
  $(id).value = chosen;
}
function readForm() {
  for (const [id, name] of FIELDS) $(id).value = query(name);
  $("colour").value = query("colour") in COLOURS ? query("colour") : "";
}

async function search() {
  if (searching) searching.abort();
  const mine = (searching = new AbortController());
  const params = new URLSearchParams(FIELDS.map(([, name, param]) => [param, query(name)]).filter(([, v]) => v));
  setText($("search-note"), "Searching …");
  try {
    found = list(await getJson(`/v1/memory/search?${params}`, mine.signal)).map(rec);
    setText($("search-note"), found.length ? `${plural(found.length, "task", "tasks")} found. Those that the map draws have a ring there.` : "Memory holds no task that is as alike. Try a lower least similarity.");
    drawFound();
  } catch (e) {
    if (searching !== mine) return;
    found = [];
    drawFound();
    setText($("search-note"), `The search did not work. ${problemText(e)}`);
  }
}

function drawFound() {
  $("found-box").hidden = !found.length;
  const onMap = new Map(map ? map.points.map((p, i) => [p.seq, i]) : []);
  chart.rings = found.map((e) => onMap.get(e.seq)).filter(isNum);
  if (chart.plot) chart.plot.redraw(false);
  $("found").tBodies[0].replaceChildren(...found.map((e) => foundRow(e, onMap.get(e.seq))));
}

function foundRow(e, place) {
  const outcomes = list(e.outcomes).map(rec), task = str(e.task_id) || "(no name)";
  const words = outcomes.slice(0, OUTCOMES_SHOWN).map((o) => `${str(o.arm)}: ${score(o.score)}, ${usd(o.cost_usd)}`).join("; ");
  const mapButton = place === undefined ? h("span", { class: "none" }, map ? "not drawn" : "–")
    : h("button", { type: "button", "aria-label": `Show ${task} on the map`, onclick: () => showOnMap(place) }, "Show");
  return h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: () => showEntry(e.seq) }, task), h("span", { class: "cell-sub only-s" }, str(e.domain))),
    h("td", { class: "cell" }, isNum(e.similarity) ? F3.format(e.similarity) : "–", bar(e.similarity)),
    h("td", { class: "opt-s detail" }, str(e.domain)),
    h("td", { class: "detail" }, words + (outcomes.length > OUTCOMES_SHOWN ? ` and ${int(outcomes.length - OUTCOMES_SHOWN)} more` : "") || "–"),
    h("td", { class: "num opt-s" }, isNum(e.at_ms) ? ago(e.at_ms) : "–"), h("td", {}, mapButton));
}

function showOnMap(i) {
  $("map-panel").scrollIntoView({ block: "nearest" });
  chart.host.focus({ preventScroll: true });
  chart.mark(i);
  say(`On the map: ${pointWords(map.points[i])}`);
}

$("search").addEventListener("submit", (ev) => {
  ev.preventDefault();
  const url = new URL(location.href);
  for (const [id, name] of FIELDS) {
    const value = $(id).value.trim();
    if (value) url.searchParams.set(name, value); else url.searchParams.delete(name);
  }
  if (url.href !== location.href) history.pushState(null, "", url);
  search();
});
onQuery(() => {
  readForm();
  if (map) drawMap();
  if (query("q")) return search();
  found = [];
  drawFound();
});
readForm();
// A decision's page leads to the entries that it recalled.
if (/^\d{1,15}$/.test(query("entry"))) showEntry(Number(query("entry")));
for (const [id, name] of [["s-domain", "domain"], ["s-arm", "arm"]]) offer(id, name, []);
