// The live page of a Pointsman daemon. Plain ES module, no framework.
// Every value from the daemon is untrusted text: it reaches the page through text nodes only.

const uPlot = window.uPlot;
const POLL_MS = 2000;
const POLL_TIMEOUT_MS = 10000;
const BACKOFF_MAX_MS = 30000;
const STREAM_SILENCE_MS = 60000; // the daemon sends a comment line more often than this
const HIDDEN_CLOSE_MS = 30000;
const ROWS = 30;
const ROWS_EVERY_MS = 250;
const MAX_DOMAINS = 500;
const MAX_TEXT = 20000;
const MAX_ITEMS = 100;
const COLOURS = 7; // --s0 … --s6; further arms are shown together

// ---------------------------------------------------------------- helpers

const $ = (id) => document.getElementById(id);
const list = (x) => (Array.isArray(x) ? x : []);
const rec = (x) => (x && typeof x === "object" ? x : {});
const isNum = (x) => typeof x === "number" && Number.isFinite(x);
const str = (x) => (x === null || x === undefined ? "" : typeof x === "string" ? x : typeof x === "object" ? JSON.stringify(x) : String(x));
const clamp01 = (x) => (isNum(x) ? Math.min(1, Math.max(0, x)) : 0);

/** An element with attributes and children; strings become text nodes. */
function h(tag, attrs, ...children) {
  const el = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k === "class") el.className = v;
    else if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else el.setAttribute(k, v === true ? "" : String(v));
  }
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== false) el.append(c);
  return el;
}

function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

const nf = (digits, min = digits) => new Intl.NumberFormat("en", { minimumFractionDigits: min, maximumFractionDigits: digits, signDisplay: "negative" });
const F0 = nf(0), F1 = nf(1), F2 = nf(2), F3 = nf(3), F4 = nf(4), F6 = nf(6);
const int = (x) => (isNum(x) ? F0.format(x) : "–");
const score = (x) => (isNum(x) ? F2.format(x) : "–");
const pct = (x) => (isNum(x) ? (x > 0 && x < 0.01 ? "<1%" : x < 1 && x > 0.99 ? ">99%" : `${F0.format(x * 100)}%`) : "–");
const prob = (x) => (isNum(x) ? (x > 0 && x < 0.001 ? "<0.001" : F3.format(x)) : "–");
function amount(x) {
  if (!isNum(x)) return "–";
  const a = Math.abs(x);
  return (a >= 1000 ? F0 : a >= 10 ? F1 : a >= 1 || a === 0 ? F2 : F3).format(x);
}
function usd(x) {
  if (!isNum(x)) return "–";
  if (x < 0) return `-${usd(-x)}`;
  if (x === 0) return "$0";
  if (x < 1e-6) return "<$0.000001";
  if (x >= 1000) return `$${F0.format(x)}`;
  if (x >= 1) return `$${F2.format(x)}`;
  if (x >= 0.01) return `$${F4.format(x)}`;
  return `$${F6.format(x)}`;
}
function ms(x) {
  if (!isNum(x)) return "–";
  if (x >= 10000) return `${F1.format(x / 1000)} s`;
  if (x >= 1000) return `${F2.format(x / 1000)} s`;
  return `${(x >= 10 ? F0 : F1).format(x)} ms`;
}
function span(s) {
  if (!isNum(s)) return "–";
  if (s < 90) return `${F0.format(s)} s`;
  if (s < 5400) return `${F0.format(s / 60)} min`;
  if (s < 172800) return `${F1.format(s / 3600)} h`;
  return `${F1.format(s / 86400)} days`;
}
const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
function clock(at) {
  try { return isNum(at) ? clockFormat.format(at) : "–"; } catch { return "–"; }
}
function clip(text) {
  const t = str(text);
  return t.length > MAX_TEXT ? `${t.slice(0, MAX_TEXT)}\n… ${int(t.length - MAX_TEXT)} more characters` : t;
}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function store(area, key, value) {
  try {
    if (value === undefined) return window[area].getItem(key);
    if (value === null) window[area].removeItem(key);
    else window[area].setItem(key, value);
  } catch { /* storage may be off; the page works without it */ }
  return null;
}
function setQuery(name, value) {
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value); else url.searchParams.delete(name);
  history.replaceState(null, "", url);
}
const query = (name) => new URL(location.href).searchParams.get(name) || "";

// ---------------------------------------------------------------- theme

const darkMedia = matchMedia("(prefers-color-scheme: dark)");
let theme = store("localStorage", "pointsman.theme");
if (theme !== "light" && theme !== "dark") theme = "auto";
function applyTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText($("theme"), `Theme: ${theme}`);
  regretChart.restyle();
  shareChart.restyle();
}
$("theme").addEventListener("click", () => {
  theme = { auto: "light", light: "dark", dark: "auto" }[theme];
  store("localStorage", "pointsman.theme", theme === "auto" ? null : theme);
  applyTheme();
});
darkMedia.addEventListener("change", () => { if (theme === "auto") applyTheme(); });

// ---------------------------------------------------------------- talking to the daemon

class HttpError extends Error {
  constructor(status, detail) {
    super(detail || `The daemon answered ${status}.`);
    this.status = status;
  }
}
let key = store("sessionStorage", "pointsman.key") || "";
const headers = (accept) => (key ? { accept, authorization: `Bearer ${key}` } : { accept });

async function getJson(path, signal) {
  const res = await fetch(path, { headers: headers("application/json"), cache: "no-store", signal });
  if (!res.ok) {
    let detail = "";
    try { // RFC 9457 problem documents
      const p = rec(await res.json());
      detail = [p.title, p.detail].filter((x) => typeof x === "string").join(": ").slice(0, 400);
    } catch { /* not JSON */ }
    throw new HttpError(res.status, detail);
  }
  return res.json();
}
const needsKey = (e) => e instanceof HttpError && (e.status === 401 || e.status === 403);
const backoff = (n) => Math.min(BACKOFF_MAX_MS, 1000 * 2 ** Math.min(n, 8)) * (0.85 + Math.random() * 0.3);

let figures = null; // the last /v1/regret
let figuresAt = 0;
let rate = null;
const link = { poll: "init", stream: "init" };

function showLink() {
  let state = "init", text = "Connecting";
  if (link.poll === "auth") [state, text] = ["down", "Key needed"];
  else if (link.poll === "down") [state, text] = ["down", "Unreachable"];
  else if (link.poll === "ok" && link.stream === "open") [state, text] = ["live", "Live"];
  else if (link.poll === "ok" && link.stream === "down") [state, text] = ["part", "Live figures, rows reconnecting"];
  $("conn").dataset.state = state;
  setText($("conn-text"), text);
}

// Figures: polled every two seconds while the page is visible.
let pollTimer = 0, countTimer = 0, pollFails = 0, polling = false;
async function poll() {
  clearTimeout(pollTimer);
  clearInterval(countTimer);
  if (polling || document.hidden) return;
  polling = true;
  const abort = new AbortController();
  const timeout = setTimeout(() => abort.abort(), POLL_TIMEOUT_MS);
  let next = POLL_MS, problem = null, got = null;
  try {
    got = await getJson("/v1/regret", abort.signal);
  } catch (e) {
    problem = e;
  } finally {
    clearTimeout(timeout);
    polling = false;
  }
  $("loading").hidden = true;
  if (problem) {
    pollFails += 1;
    next = needsKey(problem) ? 0 : backoff(pollFails);
    showProblem(problem, next);
  } else {
    const recovered = link.poll !== "ok";
    pollFails = 0;
    link.poll = "ok";
    $("error").hidden = true;
    $("auth").hidden = true;
    $("content").classList.remove("stale");
    try {
      takeFigures(rec(got));
    } catch (e) {
      console.error(e);
      showProblem(new Error("The daemon's figures could not be shown. It may be of another version than this page."), next);
    }
    if (link.stream === "init" || (link.stream === "down" && (recovered || !streamTimer))) openStream();
  }
  showLink();
  if (next && !document.hidden) pollTimer = setTimeout(poll, next);
}

function showProblem(e, wait) {
  $("content").classList.toggle("stale", Boolean(figures));
  if (needsKey(e)) {
    link.poll = "auth";
    $("error").hidden = true;
    $("auth").hidden = false;
    if (key) setText($("auth-text"), "The daemon did not accept this key for the dashboard. Enter another one. It stays in this tab and is forgotten when the tab closes.");
    return;
  }
  link.poll = "down";
  const what = e instanceof HttpError ? `It answered with status ${e.status}. ${e.message}`
    : e.name === "AbortError" ? "It did not answer within ten seconds."
    : e instanceof TypeError ? "No answer came back. Is it running, and is this address still right?"
    : e instanceof SyntaxError ? "Its answer was not JSON." : e.message;
  const since = figures ? ` The figures below are from ${clock(figuresAt)}.` : "";
  setText($("error-title"), e instanceof HttpError || e instanceof SyntaxError ? "The daemon could not give its figures" : "The daemon cannot be reached");
  setText($("error-text"), what + since);
  const until = Date.now() + wait;
  const tick = () => setText($("error-count"), `Trying again in ${Math.max(1, Math.ceil((until - Date.now()) / 1000))} s (attempt ${pollFails}).`);
  tick();
  countTimer = setInterval(tick, 1000);
  $("error").hidden = false;
}

$("retry").addEventListener("click", () => { pollFails = 0; setText($("error-count"), "Trying …"); poll(); });
$("auth-form").addEventListener("submit", (ev) => {
  ev.preventDefault();
  key = $("auth-key").value.trim();
  $("auth-key").value = "";
  store("sessionStorage", "pointsman.key", key || null);
  closeStream();
  poll();
});

// Rows: server-sent events, read with fetch so that a key can go along.
let stream = null, streamTimer = 0, streamFails = 0, hiddenTimer = 0, lastEventId = "";
function closeStream() {
  clearTimeout(streamTimer);
  streamTimer = 0;
  if (stream) { const s = stream; stream = null; s.abort(); }
  link.stream = "init";
}
async function openStream() {
  closeStream();
  const mine = (stream = new AbortController());
  link.stream = "connecting";
  let watchdog = 0;
  const alive = () => { clearTimeout(watchdog); watchdog = setTimeout(() => mine.abort(), STREAM_SILENCE_MS); };
  try {
    alive();
    const head = headers("text/event-stream");
    if (lastEventId) head["last-event-id"] = lastEventId;
    const res = await fetch("/v1/events", { headers: head, cache: "no-store", signal: mine.signal });
    if (!res.ok || !res.body) throw new HttpError(res.status);
    link.stream = "open";
    streamFails = 0;
    showLink();
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "", name = "", data = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      alive();
      rest += value;
      const keep = rest.endsWith("\r") ? 1 : 0; // half a CRLF
      const lines = rest.slice(0, rest.length - keep).split(/\r\n|\n|\r/);
      rest = lines.pop() + (keep ? "\r" : "");
      if (rest.length > 1 << 20) throw new Error("a line of the event stream is too long");
      for (const line of lines) {
        if (line === "") {
          if (data.length) onEvent(name || "message", data.join("\n"));
          name = ""; data = [];
          continue;
        }
        const at = line.indexOf(":");
        const field = at < 0 ? line : line.slice(0, at);
        const val = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
        if (field === "event") name = val;
        else if (field === "data") data.push(val);
        else if (field === "id" && /^[\x20-\x7e]{0,200}$/.test(val)) lastEventId = val;
      }
    }
  } catch (e) {
    if (stream === mine && e.name !== "AbortError") console.warn("event stream:", e.message);
  } finally {
    clearTimeout(watchdog);
    mine.abort();
  }
  if (stream !== mine) return; // closed on purpose
  stream = null;
  link.stream = "down";
  streamFails += 1;
  showLink();
  if (!document.hidden) {
    streamTimer = setTimeout(() => { streamTimer = 0; if (link.poll === "ok") openStream(); }, backoff(streamFails - 1));
  }
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    clearTimeout(pollTimer);
    hiddenTimer = setTimeout(closeStream, HIDDEN_CLOSE_MS);
  } else {
    poll();
    scheduleRows();
  }
});
addEventListener("pagehide", closeStream);
addEventListener("pageshow", (ev) => { if (ev.persisted) poll(); });

// ---------------------------------------------------------------- figures

function takeFigures(d) {
  if (figures && isNum(d.rounds) && isNum(d.uptime_s) && isNum(figures.uptime_s)) {
    const dt = d.uptime_s - figures.uptime_s, dr = d.rounds - figures.rounds;
    if (dt > 0.2 && dr >= 0) rate = rate === null ? dr / dt : 0.6 * rate + 0.4 * (dr / dt);
    else if (dt < 0) rate = null;
  }
  figures = d;
  figuresAt = Date.now();
  const none = !(d.rounds > 0);
  $("empty").hidden = !none;
  $("content").hidden = none;
  renderHeader(d);
  if (none) return renderEmpty();
  renderTiles(d);
  regretChart.update(d);
  shareChart.update(d);
  renderMeasures(d);
  renderDomains(d);
  renderVoters(d);
  for (const x of list(d.domains)) noteDomain(str(x.domain));
}

function renderHeader(d) {
  const policy = rec(d.policy), memory = rec(d.memory);
  setText($("f-policy"), policy.name ? `${str(policy.name)}${policy.card ? ` of ${str(policy.card)}` : ""}` : "–");
  const cap = isNum(memory.cap) && memory.cap > 0;
  setText($("f-memory"), isNum(memory.entries) ? `${int(memory.entries)}${cap ? ` of ${int(memory.cap)}` : ""}` : "–");
  $("f-memory-bar").hidden = !cap;
  const fill = cap ? clamp01(memory.entries / memory.cap) * 100 : 0;
  $("f-memory-bar").setAttribute("aria-valuenow", fill.toFixed(0));
  $("f-memory-bar").firstElementChild.style.width = `${fill.toFixed(1)}%`;
  setText($("f-uptime"), span(d.uptime_s));
  const p = d.progress && isNum(d.progress.total) && d.progress.total > 0 ? d.progress : null;
  $("demo").hidden = !p;
  if (p) {
    setText($("demo-text"), p.done >= p.total ? `Demo done: ${int(p.total)} rounds` : `Demo: ${int(p.done)} of ${int(p.total)} rounds`);
    $("demo-bar").max = p.total;
    $("demo-bar").value = Math.min(p.total, Math.max(0, p.done));
  }
}

function renderEmpty() {
  const body = '{"domain": "arithmetic", "prompt": "What is 17 * 23? Answer with the number."}';
  setText($("empty-curl"), [
    `curl -s ${location.origin}/v1/tasks`,
    ...(key ? ['  -H "authorization: Bearer $POINTSMAN_KEY"'] : []),
    "  -H 'content-type: application/json'",
    `  -d '${body}'`,
  ].join(" \\\n"));
}

function renderTiles(d) {
  const exact = d.kind === "exact";
  const series = list(d.series), last = rec(series[series.length - 1]);
  setText($("n-rounds"), int(d.rounds));
  setText($("n-rounds-sub"), rate === null ? `${int(list(d.arms).length)} arms, ${int(list(d.domains).length)} domains`
    : rate > 0 && rate < 0.1 ? "less than one in ten seconds" : `${F1.format(rate)} a second`);
  setText($("n-kind"), str(d.kind));
  setText($("n-regret"), amount(d.cum_regret));
  const bits = [];
  if (exact && isNum(last.uniform) && last.uniform > 0 && isNum(last.cum_regret)) {
    bits.push(`${pct(last.cum_regret / last.uniform)} of uniform's ${amount(last.uniform)}`);
  }
  const from = rec(series[Math.max(0, Math.floor(series.length * 0.9) - 1)]);
  if (series.length >= 10 && last.round > from.round && isNum(last.cum_regret) && isNum(from.cum_regret)) {
    bits.push(`lately ${F3.format((last.cum_regret - from.cum_regret) / (last.round - from.round))} a round`);
  }
  setText($("n-regret-sub"), bits.join("; ") || "best reward available minus the reward got");
  setText($("n-score"), isNum(d.score_mean) ? F3.format(d.score_mean) : "–");
  setText($("n-score-sub"), isNum(d.reward_sum) ? `reward ${amount(d.reward_sum)} in all` : "");
  setText($("n-cost"), usd(d.cost_usd));
  setText($("n-cost-sub"), isNum(d.cost_usd) ? `${usd((d.cost_usd / d.rounds) * 1000)} per 1,000 rounds` : "");
}

// ---------------------------------------------------------------- charts

function swatch(colour, dash, fill) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 22 10");
  svg.setAttribute("aria-hidden", "true");
  const el = document.createElementNS(svg.namespaceURI, fill ? "rect" : "line");
  const attrs = fill ? { x: 5, y: 0, width: 12, height: 10, rx: 2 } : { x1: 1, y1: 5, x2: 21, y2: 5, "stroke-width": 2.5, "stroke-dasharray": dash || "none" };
  for (const [k, v] of Object.entries(attrs)) el.setAttribute(k, v);
  el.style.setProperty(fill ? "fill" : "stroke", colour);
  svg.append(el);
  return svg;
}

/** A chart over rounds with its own readout, kept zoom, and keys. A subclass says what is drawn. */
class Chart {
  constructor(name) {
    this.host = $(`${name}-chart`);
    this.readout = $(`${name}-readout`);
    this.reset = $(`${name}-reset`);
    this.plot = null;
    this.sig = "";
    this.zoomed = false;
    this.hidden = new Set();
    this.data = null;
    this.host.tabIndex = 0;
    this.host.setAttribute("role", "group");
    this.host.setAttribute("aria-roledescription", "chart");
    this.host.addEventListener("keydown", (ev) => this.onKey(ev));
    this.host.addEventListener("blur", () => { if (this.plot) this.plot.setCursor({ left: -10, top: -10 }); });
    this.reset.addEventListener("click", () => { this.unzoom(); this.host.focus(); });
    new ResizeObserver(() => {
      if (this.plot && this.host.clientWidth > 0) this.plot.setSize(this.size());
      else if (!this.plot && this.data) this.draw();
    }).observe(this.host);
  }
  size() { return { width: Math.max(200, this.host.clientWidth), height: Math.max(120, this.host.clientHeight) }; }
  restyle() { this.sig = ""; if (this.data) this.draw(); }
  update(d) {
    this.data = d;
    if (this.host.clientWidth > 0) this.draw();
  }
  draw() {
    const made = this.make(this.data); // { keys: [{id, label, colour, dash}], columns, raw, series, y, bands }
    this.made = made;
    const xs = made.columns[0];
    const sig = JSON.stringify([made.keys.map((k) => k.id), theme, darkMedia.matches]);
    if (!this.plot || this.sig !== sig) {
      const old = this.plot ? { ...this.plot.scales.x } : null;
      if (this.plot) this.plot.destroy();
      this.sig = sig;
      this.plot = new uPlot(this.options(made), made.columns, this.host);
      if (this.zoomed && old) this.plot.setScale("x", { min: old.min, max: old.max });
      this.drawReadout();
    } else {
      const { min, max } = this.plot.scales.x;
      if (this.zoomed && xs.length && (max <= xs[0] || min >= xs[xs.length - 1])) this.setZoomed(false);
      this.plot.setData(made.columns, !this.zoomed);
      if (this.zoomed) this.plot.setScale("x", { min, max });
    }
    this.showValues();
    this.host.setAttribute("aria-label", this.describe());
  }
  options(made) {
    const axis = {
      stroke: css("--muted"), font: "11px system-ui, sans-serif",
      grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 },
    };
    return {
      ...this.size(),
      padding: [10, made.padRight || 10, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, dist: 5 },
        points: made.points === false ? { show: false } : { size: 7 },
        bind: { dblclick: (u, target, handler) => (ev) => { this.setZoomed(false); handler(ev); } },
      },
      scales: { x: { time: false }, y: made.y(this) },
      axes: [
        { ...axis, size: 30, space: 70, values: (u, v) => v.map((x) => (Number.isInteger(x) ? int(x) : "")) },
        { ...axis, size: 48, space: 40, values: made.yValues },
      ],
      series: [{}, ...made.series],
      hooks: {
        setCursor: [() => this.showValues()],
        setSelect: [(u) => { if (u.select.width > 0) this.setZoomed(true); }],
        draw: made.draw ? [made.draw] : [],
      },
    };
  }
  setZoomed(on) { this.zoomed = on; this.reset.hidden = !on; }
  unzoom() {
    this.setZoomed(false);
    if (this.plot && this.made.columns[0].length) this.plot.setData(this.made.columns, true);
  }
  drawReadout() {
    this.at = h("span", { class: "at" });
    this.vals = new Map();
    this.readout.replaceChildren(this.at, ...this.made.keys.map((k) => {
      const val = h("span", { class: "val" });
      this.vals.set(k.id, val);
      const b = h("button", { type: "button", "aria-pressed": !this.hidden.has(k.id), title: "Hide or show" },
        swatch(k.colour, k.dash, k.fill), h("span", {}, k.label), val);
      b.addEventListener("click", () => {
        if (this.hidden.has(k.id)) this.hidden.delete(k.id); else this.hidden.add(k.id);
        b.setAttribute("aria-pressed", String(!this.hidden.has(k.id)));
        this.toggle(k.id);
      });
      return b;
    }));
  }
  index() {
    const i = this.plot && this.plot.cursor.left >= 0 ? this.plot.cursor.idx : null;
    return isNum(i) ? i : this.made.columns[0].length - 1;
  }
  showValues() {
    if (!this.vals || !this.made) return;
    const i = this.index();
    if (i < 0) return;
    setText(this.at, `Round ${int(this.made.columns[0][i])}`);
    for (const k of this.made.keys) setText(this.vals.get(k.id), this.format(this.made.raw.get(k.id)[i]));
  }
  describe() {
    const xs = this.made.columns[0], i = xs.length - 1;
    if (i < 0) return `${this.title}: no points yet`;
    return `${this.title}, rounds ${int(xs[0])} to ${int(xs[i])}. Latest: ${this.valuesAt(i)}.`;
  }
  valuesAt(i) { return this.made.keys.map((k) => `${k.label} ${this.format(this.made.raw.get(k.id)[i])}`).join(", "); }
  onKey(ev) {
    if (!this.plot || ev.ctrlKey || ev.metaKey || ev.altKey) return;
    const u = this.plot, xs = this.made.columns[0], last = xs.length - 1;
    if (last < 0) return;
    const step = ev.shiftKey ? 10 : 1;
    let i = this.index();
    if (ev.key === "ArrowLeft") i -= step;
    else if (ev.key === "ArrowRight") i += step;
    else if (ev.key === "Home") i = 0;
    else if (ev.key === "End") i = last;
    else if (ev.key === "+" || ev.key === "=") {
      const { min, max } = u.scales.x, half = (max - min) / 4, mid = Math.min(max - half, Math.max(min + half, xs[i]));
      if (half * 2 >= 4) { this.setZoomed(true); u.setScale("x", { min: mid - half, max: mid + half }); }
    } else if (ev.key === "0" || ev.key === "Escape") {
      if (ev.key === "Escape" && !this.zoomed) return;
      this.unzoom();
    } else return;
    ev.preventDefault();
    i = Math.min(last, Math.max(0, i));
    if (this.zoomed) { // stay inside what is shown
      const { min, max } = u.scales.x;
      while (i < last && xs[i] < min) i += 1;
      while (i > 0 && xs[i] > max) i -= 1;
    }
    u.setCursor({ left: Math.max(0, u.valToPos(xs[i], "x")), top: 8 });
    setText($("say"), `Round ${int(xs[i])}: ${this.valuesAt(i)}`);
  }
}

class RegretChart extends Chart {
  title = "Cumulative regret";
  format(x) { return amount(x); }
  toggle(id) { this.plot.setSeries(this.made.keys.findIndex((k) => k.id === id) + 1, { show: !this.hidden.has(id) }); }
  update(d) {
    setText($("regret-kind"), str(d.kind));
    setText($("regret-method"), str(d.method) || "Best reward available minus the reward got, summed over rounds.");
    super.update(d);
  }
  make(d) {
    const points = list(d.series);
    const col = (name) => points.map((p) => (isNum(p[name]) ? p[name] : null));
    const keys = [{ id: "cum_regret", label: "Pointsman", colour: css("--ours"), width: 2.5 }];
    if (points.some((p) => isNum(p.uniform))) keys.push({ id: "uniform", label: "Uniform", colour: css("--uniform"), dash: "6 4", width: 1.6 });
    if (points.some((p) => isNum(p.best_fixed))) keys.push({ id: "best_fixed", label: "Best fixed arm", colour: css("--fixed"), dash: "9 3 2 3", width: 1.6 });
    const raw = new Map(keys.map((k) => [k.id, col(k.id)]));
    return {
      keys, raw,
      columns: [points.map((p) => p.round), ...raw.values()],
      series: keys.map((k) => ({
        label: k.label, stroke: k.colour, width: k.width, show: !this.hidden.has(k.id),
        dash: k.dash ? k.dash.split(" ").map(Number) : undefined, points: { show: points.length === 1 },
      })),
      y: (chart) => ({
        range: (u, min, max) => {
          if (!isNum(min) || !isNum(max)) return [0, 1];
          if (chart.zoomed) { const pad = (max - min) * 0.06 || 0.5; return [min - pad, max + pad]; }
          return [Math.min(0, min * 1.05), Math.max(max * 1.05, min < 0 ? 0.1 : 1)];
        },
      }),
      yValues: (u, v) => v.map((x) => (Math.abs(x) >= 1e4 ? `${amount(x / 1000)}k` : nf(2, 0).format(x))),
    };
  }
  describe() {
    const d = this.data;
    return `${super.describe()} ${d.kind === "exact" ? "Exact; the oracle is 0 by definition." : "Estimated."}`;
  }
}

// An arm keeps its colour for as long as the page is open.
const armSlots = new Map();
function slotOf(arm) {
  if (!armSlots.has(arm)) armSlots.set(arm, armSlots.size);
  return armSlots.get(arm);
}
function rgb(colour) {
  const m = /^#([0-9a-f]{6})$/i.exec(colour);
  const n = m ? parseInt(m[1], 16) : 0x888888;
  return [n >> 16, (n >> 8) & 255, n & 255];
}
function mix(a, b, t) {
  const x = rgb(a), y = rgb(b);
  return `#${x.map((v, i) => Math.round(v * t + y[i] * (1 - t)).toString(16).padStart(2, "0")).join("")}`;
}
function inkOn(colour) {
  const [r, g, b] = rgb(colour).map((v) => { const c = v / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#101418" : "#ffffff";
}

class ShareChart extends Chart {
  title = "Share of each arm";
  format(x) { return pct(x); }
  toggle() { this.draw(); }
  make(d) {
    const points = list(d.share_series);
    const arms = list(d.arms).slice();
    if (arms.length > COLOURS) arms.sort((a, b) => (b.rounds || 0) - (a.rounds || 0)); // the busiest arms get the colours
    const names = new Set(arms.map((a) => str(a.arm)));
    for (const p of points) for (const a of Object.keys(rec(p.shares))) names.add(a);
    const all = [...names];
    all.forEach(slotOf);
    const own = all.filter((a) => slotOf(a) < COLOURS), rest = all.filter((a) => slotOf(a) >= COLOURS);
    const surface = css("--surface");
    const keys = own.sort((a, b) => slotOf(a) - slotOf(b)).map((a) => ({ id: `arm ${a}`, arms: [a], label: a, colour: mix(css(`--s${slotOf(a)}`), surface, 0.78), fill: true }));
    if (rest.length) keys.push({ id: "other", arms: rest, label: `${rest.length} more`, colour: mix(css("--s-other"), surface, 0.78), fill: true });
    const get = (p, a) => { const s = rec(p.shares); return Object.hasOwn(s, a) && isNum(s[a]) ? s[a] : 0; };
    const raw = new Map(keys.map((k) => [k.id, points.map((p) => k.arms.reduce((t, a) => t + get(p, a), 0))]));
    // Stacked: the highest sum is drawn first and each lower one over it.
    const sums = points.map(() => 0), layers = [];
    for (const k of keys) {
      const vals = raw.get(k.id);
      if (!this.hidden.has(k.id)) vals.forEach((v, i) => { sums[i] += v; });
      layers.unshift(sums.slice());
    }
    const back = keys.slice().reverse();
    return {
      keys, raw,
      columns: [points.map((p) => p.round), ...layers],
      points: false,
      series: back.map((k) => ({ label: k.label, stroke: surface, width: 1, fill: k.colour, points: { show: false } })),
      y: () => ({ range: [0, 1] }),
      yValues: (u, v) => v.map((x) => `${Math.round(x * 100)}%`),
      draw: (u) => this.names(u),
    };
  }
  /** Each arm's name inside its area, where the area is high enough. */
  names(u) {
    const { keys, columns, raw } = this.made, xs = columns[0];
    if (xs.length < 2) return;
    const ctx = u.ctx, dpr = devicePixelRatio || 1;
    const shown = xs.map((x, i) => i).filter((i) => xs[i] >= u.scales.x.min && xs[i] <= u.scales.x.max);
    if (shown.length < 2) return;
    ctx.save();
    ctx.font = `600 ${11 * dpr}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    keys.forEach((k, n) => {
      if (this.hidden.has(k.id)) return;
      const top = columns[keys.length - n], vals = raw.get(k.id);
      const label = k.label.length > 24 ? `${k.label.slice(0, 23)}…` : k.label;
      const w = ctx.measureText(label).width + 12 * dpr;
      let best = null;
      for (const i of shown) {
        const cx = u.valToPos(xs[i], "x", true);
        if (cx - w / 2 < u.bbox.left || cx + w / 2 > u.bbox.left + u.bbox.width) continue;
        let hi = 1, lo = 0; // the free band over the label's width
        for (const j of shown) {
          if (Math.abs(u.valToPos(xs[j], "x", true) - cx) > w / 2) continue;
          hi = Math.min(hi, top[j]);
          lo = Math.max(lo, top[j] - vals[j]);
        }
        if (!best || hi - lo > best.room) best = { room: hi - lo, cx, y: (hi + lo) / 2 };
      }
      if (!best || best.room * u.bbox.height < 15 * dpr) return;
      ctx.fillStyle = inkOn(k.colour);
      ctx.fillText(label, best.cx, u.valToPos(best.y, "y", true));
    });
    ctx.restore();
  }
}

const regretChart = new RegretChart("regret");
const shareChart = new ShareChart("share");

// ---------------------------------------------------------------- tables of domains

function bar(share) {
  const fill = h("i");
  fill.style.width = `${(clamp01(share) * 100).toFixed(1)}%`;
  return h("div", { class: "bar", "aria-hidden": "true" }, fill);
}

/** Replaces a table's parts without losing keyboard focus or a text selection. */
function fillTable(table, head, rows) {
  const sel = getSelection();
  if (sel && !sel.isCollapsed && table.contains(sel.anchorNode)) return;
  const focus = table.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...rows);
  if (focus !== undefined) for (const el of table.querySelectorAll("[data-key]")) if (el.dataset.key === focus) el.focus({ preventScroll: true });
}

function armCell(a) {
  if (!a || !(a.rounds > 0)) return h("td", { class: "cell none" }, "not used");
  const best = a.best === true;
  return h("td", { class: best ? "cell is-best" : "cell" },
    h("div", { class: "cell-top" }, h("b", {}, pct(a.share_recent)), best && h("span", { class: "best" }, "best")),
    bar(a.share_recent),
    h("div", { class: "cell-sub" }, `score ${score(a.score_mean)}, n ${int(a.rounds)}`));
}

function renderDomains(d) {
  const arms = list(d.arms).map((a) => str(a.arm));
  const domains = list(d.domains);
  for (const x of domains) for (const a of list(x.arms)) if (!arms.includes(str(a.arm))) arms.push(str(a.arm));
  setText($("domains-best"), domains.some((x) => list(x.arms).some((a) => a.best === true)) ? "“best” marks the arm with the highest true mean reward in the domain." : "");
  const head = h("tr", {}, h("th", { scope: "col" }, "Domain"), h("th", { scope: "col", class: "num opt-s" }, "Rounds"), h("th", { scope: "col", class: "num" }, "Score"),
    h("th", { scope: "col", class: "num opt-s" }, "Regret"), arms.map((a) => h("th", { scope: "col" }, a)));
  const small = (x) => h("span", { class: "cell-sub only-s" }, `${int(x.rounds)} rounds, regret ${amount(x.cum_regret)}`); // narrow screens
  const byArm = (xs) => new Map(list(xs).map((a) => [str(a.arm), a]));
  const total = byArm(d.arms);
  const rows = [h("tr", { class: "all" }, h("th", { scope: "row" }, "All domains", small(d)), h("td", { class: "num opt-s" }, int(d.rounds)), h("td", { class: "num" }, score(d.score_mean)),
    h("td", { class: "num opt-s" }, amount(d.cum_regret)), arms.map((a) => armCell(total.get(a))))];
  for (const x of domains) {
    const name = str(x.domain), mine = byArm(x.arms);
    rows.push(h("tr", {},
      h("th", { scope: "row" }, h("button", { type: "button", class: "link", "data-key": name, title: "Show only this domain's decisions", onclick: () => setFilter(name) }, name), small(x)),
      h("td", { class: "num opt-s" }, int(x.rounds)), h("td", { class: "num" }, score(x.score_mean)), h("td", { class: "num opt-s" }, amount(x.cum_regret)),
      arms.map((a) => armCell(mine.get(a)))));
  }
  fillTable($("domains"), head, rows);
}

const KINDS = { exact: "Exact", estimated: "Estimated", audited: "Audited" };
const TARGETS = { best_fixed_per_domain: "best fixed arm of each domain", best_expected_per_task: "arm expected to be best on each task", best_per_task: "arm that proved best on each task" };

/** An interval as a line with its figure as a dot, on a scale that the table's rows share. */
function whisker(all, from, to) {
  const at = (x) => `${(clamp01((x - from) / (to - from)) * 100).toFixed(2)}%`;
  const zero = h("i", { class: "zero" }), line = h("i", { class: "span" }), dot = h("i", { class: "dot-at" });
  zero.style.left = at(0);
  line.style.left = at(all.low);
  line.style.width = `${(clamp01((all.high - all.low) / (to - from)) * 100).toFixed(2)}%`;
  dot.style.left = at(all.cum_regret);
  return h("div", { class: "whisker", "aria-hidden": "true" }, zero, line, dot);
}

function renderMeasures(d) {
  const measures = list(d.measures).filter((m) => isNum(m.cum_regret));
  $("measures-panel").hidden = !measures.length;
  if (!measures.length) return;
  const ends = measures.flatMap((m) => (m.interval ? [m.interval.low, m.interval.high] : [m.cum_regret])).filter(isNum);
  const low = Math.min(0, ...ends), high = Math.max(...ends, low + 1e-9), pad = (high - low) * 0.03;
  const head = h("tr", {}, h("th", { scope: "col" }, "Found by"), h("th", { scope: "col" }, "Against the"), h("th", { scope: "col", class: "num opt-s" }, "Rounds"),
    h("th", { scope: "col", class: "num" }, "Regret"), h("th", { scope: "col", class: "num opt-s" }, "A round"), h("th", { scope: "col" }, "Interval"));
  const rows = measures.map((m) => {
    const all = m.interval && isNum(m.interval.low) && isNum(m.interval.high) ? m.interval : null;
    const partly = all && all.rounds !== m.rounds ? `, of ${int(all.rounds)} rounds` : "";
    return h("tr", {},
      h("th", { scope: "row", title: str(m.method) }, KINDS[m.kind] || str(m.kind)), h("td", {}, TARGETS[m.target] || str(m.target)),
      h("td", { class: "num opt-s" }, int(m.rounds)), h("td", { class: "num" }, amount(m.cum_regret)),
      h("td", { class: "num opt-s" }, isNum(m.per_round) ? F4.format(m.per_round) : "–"),
      all ? h("td", { class: "cell" }, whisker(all, low - pad, high + pad), h("div", { class: "cell-sub" }, `${amount(all.low)} to ${amount(all.high)}${partly}`))
        : h("td", { class: "cell none" }, m.kind === "exact" ? "none: it is exact" : "too little is known yet"));
  });
  fillTable($("measures"), head, rows);
  setText($("measures-audits"), auditsSentence(d));
}

function auditsSentence(d) {
  const a = rec(d.audits), use = rec(d.audit);
  if (!d.audits && !d.audit) return "";
  const bits = [];
  if (d.audit) bits.push(`${nf(2, 0).format(use.share * 100)}% of tasks run on every arm; ${usd(use.spent_today_usd)} of ${usd(use.usd_per_day)} spent today${use.open ? "" : ", closed until tomorrow"}`);
  else bits.push("off now");
  if (d.audits) {
    bits.push(`${int(a.measured)} measured`);
    const lost = [["incomplete", a.incomplete], ["cut off", a.cut_off], ["over the cap", a.over_cap], ["too many at once", a.busy]];
    for (const [name, n] of lost) if (n > 0) bits.push(`${int(n)} ${name}`);
  }
  return `Audit probes: ${bits.join("; ")}.`;
}

function renderVoters(d) {
  const domains = list(d.domains).filter((x) => list(x.voters).length);
  $("voters-panel").hidden = !domains.length;
  if (!domains.length) return;
  const names = [...new Set(domains.flatMap((x) => list(x.voters).map((v) => str(v.policy))))];
  const head = h("tr", {}, h("th", { scope: "col" }, "Domain"), names.map((n) => h("th", { scope: "col" }, n)));
  const rows = domains.map((x) => {
    const w = new Map(list(x.voters).map((v) => [str(v.policy), v.weight]));
    const top = Math.max(...[...w.values()].filter(isNum));
    return h("tr", {}, h("th", { scope: "row" }, str(x.domain)), names.map((n) => {
      const v = w.get(n);
      if (!isNum(v)) return h("td", { class: "cell none" }, "–");
      return h("td", { class: v === top ? "cell is-best" : "cell" }, h("div", { class: "cell-top" }, h("b", {}, F2.format(v)), v === top && w.size > 1 && h("span", { class: "cell-sub" }, "most")), bar(v));
    }));
  });
  fillTable($("voters"), head, rows);
}

// ---------------------------------------------------------------- rows

const rings = new Map([["", []]]); // domain → its last rows, newest first; "" is every domain
const known = new Map(); // decision id → row element, for the rows on screen
let filter = query("domain");
let paused = false, pointed = false, waiting = 0, missed = 0;
let rowsQueued = false, rowsLast = 0;

function noteDomain(name) {
  if (rings.has(name) || !name || rings.size > MAX_DOMAINS) return;
  rings.set(name, []);
  drawFilter();
}
function drawFilter() {
  const names = [...rings.keys()].filter((n) => n).sort();
  if (filter && !names.includes(filter)) names.push(filter);
  $("filter").replaceChildren(h("option", { value: "" }, "All domains"), ...names.map((n) => h("option", { value: n }, n)));
  $("filter").value = filter;
}
function setFilter(name) {
  filter = name;
  setQuery("domain", name);
  drawFilter();
  waiting = 0;
  drawRows();
  setText($("say"), name ? `Decisions of ${name} only` : "Decisions of all domains");
}

function onEvent(name, text) {
  let d;
  try { d = rec(JSON.parse(text)); } catch { return; }
  if (name === "lagged") {
    missed += isNum(d.missed) ? d.missed : 0;
    scheduleRows();
  } else if (name === "round" && typeof d.decision_id === "string") {
    const domain = str(d.domain);
    noteDomain(domain);
    let fresh = false;
    for (const ring of new Set([rings.get(""), rings.get(domain)])) {
      if (!ring) continue;
      const at = ring.findIndex((r) => r.decision_id === d.decision_id);
      if (at >= 0) ring[at] = d; // the same round again, for example with its late score
      else { fresh = true; ring.unshift(d); if (ring.length > ROWS) ring.length = ROWS; }
    }
    if (fresh && (!filter || filter === domain)) waiting += 1;
    scheduleRows();
  }
}

const focused = () => $("rows").tBodies[0].contains(document.activeElement) && document.activeElement.matches(":focus-visible");
const held = () => paused || pointed || focused() || $("why").open;

function scheduleRows() {
  if (rowsQueued || document.hidden) return;
  rowsQueued = true;
  setTimeout(() => requestAnimationFrame(() => {
    rowsQueued = false;
    rowsLast = performance.now();
    if (held()) showRowsNote(); else drawRows();
  }), Math.max(0, rowsLast + ROWS_EVERY_MS - performance.now()));
}
function showRowsNote() {
  const bits = [];
  if (waiting && held()) bits.push(`${int(waiting)} newer ${waiting === 1 ? "row waits" : "rows wait"}${paused ? "" : " while you look"}`);
  if (missed) bits.push(`${int(missed)} skipped in all (too fast for this page)`);
  setText($("rows-note"), bits.join("; "));
}
function rowOf(d) {
  const failed = d.status === "failed";
  const td = (cls, text) => h("td", cls ? { class: cls, title: /name|wide/.test(cls) ? text : null } : {}, text);
  return h("tr", { "data-id": d.decision_id },
    h("td", { class: "num" }, h("button", { type: "button", class: "link", "aria-label": `Explain round ${int(d.round)}` }, int(d.round))),
    td("opt", clock(d.at_ms)), td("name", str(d.domain)), td("name", str(d.arm)), td("opt", str(d.mode)),
    td(d.reason === "explore" ? "explore" : "", str(d.reason)), td("num opt", prob(d.propensity)),
    failed ? td("num fail", "failed") : td("num", isNum(d.score) ? score(d.score) : "pending"),
    td("num opt", isNum(d.reward) ? F3.format(d.reward) : "–"), td("num opt", usd(d.cost_usd)), td("num opt", ms(d.latency_ms)),
    td("opt wide", str(d.prompt_head)));
}
function drawRows() {
  const ring = rings.get(filter) || [];
  const next = new Map();
  const trs = ring.map((d) => {
    const old = known.get(d.decision_id);
    const row = old && old.d === d ? old : { d, tr: rowOf(d) };
    next.set(d.decision_id, row);
    return row.tr;
  });
  known.clear();
  for (const [k, v] of next) known.set(k, v);
  $("rows").tBodies[0].replaceChildren(...trs);
  $("rows-empty").hidden = trs.length > 0;
  setText($("rows-empty"), filter ? `No decision of ${filter} since this page was opened.` : "Waiting for the next round. Only rounds answered while this page is open are listed.");
  waiting = 0;
  showRowsNote();
}

$("filter").addEventListener("change", () => setFilter($("filter").value));
addEventListener("popstate", () => { filter = query("domain"); drawFilter(); drawRows(); });
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  setText($("pause"), paused ? "Resume" : "Pause");
  scheduleRows();
});
{
  const body = $("rows").tBodies[0];
  body.addEventListener("pointerenter", (ev) => { pointed = ev.pointerType === "mouse"; });
  body.addEventListener("pointerleave", () => { pointed = false; scheduleRows(); });
  body.addEventListener("focusout", () => scheduleRows());
  body.addEventListener("click", (ev) => {
    const tr = ev.target.closest("tr");
    const sel = getSelection();
    if (!tr || (sel && !sel.isCollapsed && body.contains(sel.anchorNode))) return;
    explain(tr.dataset.id, tr.querySelector("button"), ev.detail === 0);
  });
  body.addEventListener("keydown", (ev) => {
    const tr = ev.target.closest("tr");
    const to = tr && (ev.key === "ArrowDown" ? tr.nextElementSibling : ev.key === "ArrowUp" ? tr.previousElementSibling : null);
    if (!to) return;
    ev.preventDefault();
    to.querySelector("button").focus();
  });
}

// ---------------------------------------------------------------- one decision explained

const dialog = $("why");
let explainAbort = null, opener = null;

async function explain(id, from, byKey) {
  if (!id) return;
  if (explainAbort) explainAbort.abort();
  const mine = (explainAbort = new AbortController());
  opener = byKey ? from : null;
  setText($("why-title"), "Decision");
  $("why-body").replaceChildren(h("p", { class: "why-sentence muted" }, "Loading …"));
  if (!dialog.open) dialog.showModal();
  $("why-title").focus();
  setQuery("decision", id);
  try {
    const d = rec(await getJson(`/v1/decisions/${encodeURIComponent(id)}`, mine.signal));
    if (explainAbort !== mine) return;
    drawDecision(d, id);
    $("why-body").scrollTop = 0;
  } catch (e) {
    if (explainAbort !== mine || e.name === "AbortError") return;
    const text = e instanceof HttpError && e.status === 404 ? "The daemon does not know this decision (any more)."
      : e instanceof HttpError ? `The daemon answered with status ${e.status}. ${e.message}` : "The daemon could not be reached.";
    $("why-body").replaceChildren(h("p", { class: "why-sentence", role: "alert" }, text),
      h("p", { class: "notice-row" }, h("button", { type: "button", onclick: () => explain(id, from, byKey) }, "Try again")));
  }
}
$("why-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (ev) => { if (ev.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => {
  if (explainAbort) explainAbort.abort();
  explainAbort = null;
  setQuery("decision", "");
  if (opener && opener.isConnected) opener.focus();
  else if (document.activeElement) document.activeElement.blur();
  opener = null;
  scheduleRows();
});

const section = (title, ...children) => h("section", {}, h("h3", {}, title), ...children);
const kv = (pairs) => h("dl", { class: "kv" }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "").map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v))));
const textBlock = (text, label) => h("pre", { class: "text", tabindex: 0, role: "region", "aria-label": label }, clip(text));
const action = (x) => `${str(rec(x).mode)} / ${str(rec(x).arm)}`;
const pbar = (p) => h("div", { class: "pbar" }, bar(p), h("span", {}, prob(p)));
function grid(caption, head, rows) {
  const cut = rows.length > MAX_ITEMS ? rows.slice(0, MAX_ITEMS) : rows;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption + (cut.length < rows.length ? ` First ${MAX_ITEMS} of ${int(rows.length)}.` : "")),
      h("thead", {}, h("tr", {}, head.map(([name, cls]) => h("th", { scope: "col", class: cls }, name)))), h("tbody", {}, cut)));
}
const WHY = {
  exploit: "it was the most promising option by the policy's own estimate",
  explore: "the policy was sampling an option that it wants to know more about",
  fallback: "the policy had no answer, or every arm was resting after failures",
  pinned: "the request or the session fixed the arm",
  forced: "no other arm was allowed",
};

function drawDecision(d, id) {
  const task = rec(d.task), ctx = rec(d.context), dec = rec(d.decision), policy = rec(dec.policy), out = d.outcome ? rec(d.outcome) : null;
  setText($("why-title"), `${action(dec)} for ${str(task.domain) || "a task"}`);
  const sentence = `Chosen with probability ${prob(dec.propensity)} (${str(dec.reason)}: ${WHY[dec.reason] || "see below"}).`;
  const parts = [
    h("p", { class: "why-sentence" }, sentence),
    section("Round", kv([
      ["Decision", str(dec.id) || id], ["Task", str(task.id)], ["Policy", policy.name ? `${str(policy.name)}${policy.card ? ` of ${str(policy.card)}` : ""}` : ""], ["Learnt rounds", isNum(dec.learnt_rounds) ? int(dec.learnt_rounds) : ""], ["Seed", str(dec.seed)],
      ["Status", out ? str(out.status) : "not answered yet"], ["Cost", out ? usd(out.cost_usd) : ""], ["Latency", out ? ms(out.latency_ms) : ""],
    ])),
    section("Prompt", textBlock(task.prompt, "Prompt")),
  ];
  const meta = rec(task.metadata);
  if (Object.keys(meta).length) parts.push(h("details", {}, h("summary", {}, "Metadata"), textBlock(JSON.stringify(meta, null, 2), "Metadata")));

  // The pmf beside each voter's view of the same options.
  const voters = list(dec.voters);
  const views = voters.map((v) => new Map(list(v.pmf).map((x) => [action(x), x.p])));
  const options = list(dec.pmf).slice().sort((a, b) => (b.p || 0) - (a.p || 0));
  const named = new Set(options.map(action));
  for (const v of voters) for (const x of list(v.pmf)) if (!named.has(action(x))) { named.add(action(x)); options.push({ mode: x.mode, arm: x.arm, p: 0 }); }
  const chosen = action(dec);
  // What a policy on trial would have done, as one more voter without a weight.
  const shadow = dec.shadow ? rec(dec.shadow) : null;
  const trial = shadow ? new Map(list(shadow.pmf).map((x) => [action(x), x.p])) : null;
  const expects = options.some((o) => isNum(o.expected));
  parts.push(section("Options and voters", grid(
    voters.length ? "The probability of each option, and the view of each voter with its weight." : "The probability of each option.",
    [["Option"], ["Probability"], ...(expects ? [["Expected utility", "num"]] : []), ...(trial ? [[["on trial: ", str(rec(shadow.policy).name)], "num"]] : []), ...voters.map((v) => [[str(v.policy), h("span", {}, `weight ${isNum(v.weight) ? F2.format(v.weight) : "–"}`)], "num"])],
    options.map((o) => {
      const name = action(o), mine = name === chosen;
      return h("tr", { class: mine ? "chosen" : null }, h("th", { scope: "row" }, name, mine && h("span", { class: "tag" }, "chosen")), h("td", {}, pbar(o.p)),
        expects && h("td", { class: "num" }, isNum(o.expected) ? F3.format(o.expected) : "–"), trial && h("td", { class: "num" }, trial.has(name) ? prob(trial.get(name)) : "–"),
        views.map((v) => h("td", { class: "num" }, v.has(name) ? prob(v.get(name)) : "–")));
    }))));

  const masked = list(ctx.masked);
  if (masked.length) parts.push(section("Not eligible", h("p", { class: "muted" }, masked.map((m) => `${str(m.arm)}: ${typeof m.why === "string" ? m.why.replaceAll("_", " ") : Object.entries(rec(m.why)).flat().map(str).join(" ")}`).join("; "))));

  const near = list(ctx.neighbours);
  parts.push(section("Remembered neighbours", near.length ? grid(`Recall: ${str(ctx.recall) || "ok"}. Past tasks nearest to this one and how each arm did on them.`,
    [["Task"], ["Similarity", "num"], ["Outcomes"]],
    near.map((n) => h("tr", {}, h("td", { class: "detail" }, str(n.task_id)), h("td", { class: "num" }, isNum(n.similarity) ? F3.format(n.similarity) : "–"),
      h("td", { class: "detail" }, list(n.outcomes).map((o) => `${action(o)}: ${score(o.score)}, ${usd(o.cost_usd)}`).join("; ") || "–"))))
    : h("p", { class: "muted" }, `None recalled (${str(ctx.recall) || "unknown"}).`)));

  if (out) {
    const calls = list(out.calls);
    parts.push(section("Answer", str(out.output) ? textBlock(out.output, "Answer") : h("p", { class: "muted" }, "No output."),
      calls.length > 0 && h("div", { class: "calls" }, grid("Calls to workers.",
        [["Arm"], ["Role"], ["Status"], ["Tokens in", "num"], ["Tokens out", "num"], ["Cost", "num"], ["Latency", "num"]],
        calls.map((c) => h("tr", {}, h("td", {}, str(c.arm)), h("td", {}, str(c.role) || "–"), h("td", {}, str(c.status)), h("td", { class: "num" }, int(c.input_tokens)),
          h("td", { class: "num" }, int(c.output_tokens)), h("td", { class: "num" }, usd(c.cost_usd)), h("td", { class: "num" }, ms(c.latency_ms))))))));
  } else {
    parts.push(section("Answer", h("p", { class: "muted" }, "Not answered yet.")));
  }

  const feedback = list(d.feedback);
  const fb = section("Feedback", !feedback.length && h("p", { class: "muted" }, "None yet."));
  for (const f of feedback) {
    fb.append(h("p", {}, h("b", {}, str(f.source)), ` scored ${isNum(f.score) ? F3.format(f.score) : "–"}, reward ${isNum(f.reward) ? F4.format(f.reward) : "–"}`));
    for (const v of list(f.verdicts).slice(0, MAX_ITEMS)) fb.append(verdict(v));
  }
  parts.push(fb);
  $("why-body").replaceChildren(...parts);
}

function verdict(v) {
  const signals = list(v.signals), trace = list(v.trace);
  const facts = [
    `${str(v.status)}${isNum(v.score) ? ` ${F3.format(v.score)}` : ""}`, `weight ${isNum(v.weight) ? F2.format(v.weight) : "–"}`, v.gate === true ? "gate: a zero here is a zero in all" : "",
    isNum(v.duration_us) ? ms(v.duration_us / 1000) : "", isNum(v.fuel) ? `fuel ${int(v.fuel)}` : "", v.sha256 ? `sha256 ${str(v.sha256).slice(0, 12)}…` : "",
  ].filter(Boolean).join(" · ");
  return h("div", { class: "verdict" },
    h("p", { title: v.sha256 ? str(v.sha256) : null }, h("b", {}, `${str(v.verifier)}/${str(v.version)}`), ` · ${facts}`),
    signals.length > 0 && grid(`Signals of ${str(v.verifier)}.`, [["Signal"], ["Score"], ["Weight", "num"], ["Detail"]],
      signals.map((s) => h("tr", {}, h("th", { scope: "row" }, str(s.name)), h("td", {}, pbar(s.score)), h("td", { class: "num" }, isNum(s.weight) ? F2.format(s.weight) : "–"), h("td", { class: "detail" }, clip(s.detail))))),
    trace.length > 0 && h("details", { open: trace.length <= 12 }, h("summary", {}, `Trace, ${int(trace.length)} ${trace.length === 1 ? "line" : "lines"}`), textBlock(trace.map(str).join("\n"), "Trace")));
}

// ---------------------------------------------------------------- start

applyTheme();
drawFilter();
drawRows();
poll();
if (query("decision")) explain(query("decision"), null, false);
