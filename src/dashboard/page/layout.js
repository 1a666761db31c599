// What every page has around its content: theme, connection, header facts, alerts' badge, notices. Every page imports it.
//
//   main                  the <main>; its data-state is loading | ready | empty | error
//   setState(state)       sets it, and aria-busy while loading
//   load(task, options)   runs `task(signal)` and shows what became of it: an error with a countdown to the next try, the
//                         key's form where a key is wanted. The task draws; it may return "empty" or "error" where that is
//                         the page's state, else it is "ready". It runs again when a key is given, and where an earlier
//                         answer stands on the page that is marked as stale meanwhile. options: {timeout: ms}.
//                         Gives {run(), stop()}; it runs at once.
//   figures.last          the newest /v1/overview, null before the first
//   figures.on(fn)        calls fn with each new one, and at once with the last one
//   figures.refresh()     fetches it now (resolves when it came, throws where it did not)
//   figures.now()         the daemon's clock, which may differ from this machine's
//   ticker(fn, ms)        calls fn every ms while the page is visible; gives a function that stops it

import { getJson, hasKey, HttpError, needsKey, onKey, problemText, setKey } from "./api.js";
import { onThemeChange } from "./chart.js";
import { $, clamp01, isNum, list, rec, setText, store, str } from "./dom.js";
import { backoff, feed } from "./feed.js";
import { clock, int, plural, span } from "./format.js";

const TIMEOUT_MS = 10000;
const SKEW_MS = 5000; // less than this may be the way that an answer took

export const main = $("main");
export function setState(state) {
  main.dataset.state = state;
  main.setAttribute("aria-busy", String(state === "loading"));
}

// ---------------------------------------------------------------- theme

let theme = document.documentElement.dataset.theme || "auto";
function applyTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText($("theme"), `Theme: ${theme}`);
  onThemeChange();
}
$("theme").addEventListener("click", () => {
  theme = { auto: "light", light: "dark", dark: "auto" }[theme];
  store("localStorage", "pointsman.theme", theme === "auto" ? null : theme);
  applyTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
setText($("theme"), `Theme: ${theme}`);

// ---------------------------------------------------------------- connection

const STATES = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", down: "Unreachable", auth: "Key needed" };
feed.on("state", (state) => {
  $("conn").dataset.state = state;
  setText($("conn-text"), STATES[state]);
});

// ---------------------------------------------------------------- figures in the header

let uptime = null; // {s, at}: how long the daemon was up, and when it said so
export const figures = {
  last: null,
  ahead: 0, // ms that the daemon's clock is ahead of this one
  watchers: new Set(),
  now() { return Date.now() + this.ahead; },
  on(fn) {
    this.watchers.add(fn);
    if (this.last) fn(this.last);
  },
  take(d) {
    this.last = d;
    if (isNum(d.at_ms)) this.ahead = Math.abs(d.at_ms - Date.now()) > SKEW_MS ? d.at_ms - Date.now() : 0;
    drawHeader(d);
    for (const fn of this.watchers) {
      try { fn(d); } catch (e) { console.error(e); }
    }
  },
  async refresh(signal) { this.take(rec(await getJson("/v1/overview", signal))); },
};
feed.on("figures", (d) => figures.take(d));

function drawHeader(d) {
  const policy = rec(d.policy), memory = rec(d.memory);
  setText($("f-policy"), policy.name ? `${str(policy.name)}${policy.card ? ` of ${str(policy.card)}` : ""}` : "–");
  const cap = isNum(memory.cap) && memory.cap > 0;
  setText($("f-memory"), isNum(memory.entries) ? `${int(memory.entries)}${cap ? ` of ${int(memory.cap)}` : ""}` : "–");
  $("f-memory-bar").hidden = !cap;
  const fill = cap ? clamp01(memory.entries / memory.cap) * 100 : 0;
  $("f-memory-bar").setAttribute("aria-valuenow", fill.toFixed(0));
  $("f-memory-bar").firstElementChild.style.width = `${fill.toFixed(1)}%`;
  uptime = isNum(d.uptime_s) ? { s: d.uptime_s, at: performance.now() } : null;
  drawUptime();
  const alerts = list(d.alerts).length;
  $("alerts-badge").hidden = !alerts;
  setText($("alerts-badge"), alerts > 99 ? "99+" : int(alerts));
  setText($("alerts-said"), alerts ? `, ${plural(alerts, "alert", "alerts")}` : "");
}
function drawUptime() {
  setText($("f-uptime"), uptime ? span(uptime.s + (feed.state === "live" ? (performance.now() - uptime.at) / 1000 : 0)) : "–");
}

export function ticker(fn, ms) {
  const timer = setInterval(() => { if (!document.hidden) fn(); }, ms);
  return () => clearInterval(timer);
}
ticker(drawUptime, 20000);

// ---------------------------------------------------------------- notices

const loaders = new Set();

class Loader {
  constructor(task, { timeout = TIMEOUT_MS } = {}) {
    this.task = task;
    this.timeout = timeout;
    this.fails = 0;
    this.loadedAt = 0;
    loaders.add(this);
    onKey(() => this.run());
    document.addEventListener("visibilitychange", () => { if (!document.hidden && this.fails) this.run(); });
    $("retry").addEventListener("click", () => { if (this.fails) { this.fails = 0; setText($("error-count"), "Trying …"); this.run(); } });
  }
  stop() {
    clearTimeout(this.timer);
    clearInterval(this.counter);
    if (this.abort) this.abort.abort();
    this.abort = null;
  }
  async run() {
    this.stop();
    const mine = (this.abort = new AbortController());
    const timeout = setTimeout(() => mine.abort(), this.timeout);
    try {
      const state = await this.task(mine.signal);
      if (this.abort !== mine) return;
      this.done(state || "ready");
    } catch (e) {
      if (this.abort === mine) this.failed(e);
    } finally {
      clearTimeout(timeout);
    }
  }
  done(state) {
    this.fails = 0;
    this.loadedAt = Date.now();
    $("error").hidden = true;
    $("auth").hidden = true;
    delete main.dataset.stale;
    if (feed.state === "down") feed.restart();
    setState(state);
  }
  failed(e) {
    this.fails += 1;
    if (this.loadedAt) main.dataset.stale = "";
    else setState("error");
    $("error").hidden = needsKey(e);
    $("auth").hidden = !needsKey(e);
    if (needsKey(e)) return showKeyForm(e);
    const fault = !(e instanceof HttpError || e instanceof TypeError || e instanceof SyntaxError || e.name === "AbortError");
    if (fault) console.error(e);
    setText($("error-title"), e instanceof HttpError || e instanceof SyntaxError ? "The daemon could not give this page's data"
      : fault ? "The daemon's answer could not be shown" : "The daemon cannot be reached");
    const text = fault ? "It may be of another version than this page." : problemText(e);
    setText($("error-text"), text + (this.loadedAt ? ` What is shown below is from ${clock(this.loadedAt)}.` : ""));
    if (!document.hidden) this.again(backoff(this.fails));
  }
  again(wait) {
    const until = Date.now() + wait;
    const tick = () => setText($("error-count"), `Trying again in ${Math.max(1, Math.ceil((until - Date.now()) / 1000))} s (attempt ${this.fails}).`);
    tick();
    this.counter = setInterval(tick, 1000);
    this.timer = setTimeout(() => this.run(), wait);
  }
}

const KEY_REFUSALS = {
  "key-expired": "This key has expired. Enter another one.",
  "key-revoked": "This key was revoked. Enter another one.",
  "admin-only": "This needs an admin key. Enter one.",
};
function showKeyForm(e) {
  const refusal = KEY_REFUSALS[e.name], given = hasKey() || Boolean(refusal); // the browser may send a key of its own
  const why = refusal || (given ? "The daemon did not accept this key for the dashboard. Enter another one." : "Enter a key that may read the dashboard.");
  setText($("auth-title"), given ? "Another key is needed" : "This daemon asks for a key");
  setText($("auth-text"), `${why} It stays in this tab and is forgotten when the tab closes.`);
}
$("auth-form").addEventListener("submit", (ev) => {
  ev.preventDefault();
  const text = $("auth-key").value;
  $("auth-key").value = "";
  setKey(text);
});

export function load(task, options) {
  const loader = new Loader(task, options);
  loader.run();
  return loader;
}

// ---------------------------------------------------------------- start

const nav = document.querySelector(".nav"), current = nav.querySelector("[aria-current]");
if (current) nav.scrollLeft = current.offsetLeft - nav.clientWidth / 2; // it may be cut off on a narrow screen
// Pages that do not load the figures themselves still show the header; what goes wrong there is their own notice's matter.
const refreshQuietly = () => figures.refresh().catch(() => {});
if (!["overview", "decisions"].includes(main.dataset.page)) {
  refreshQuietly();
  onKey(refreshQuietly);
}
let wasLive = false;
feed.on("state", (state) => {
  if (state === "live" && wasLive) refreshQuietly(); // figures are pushed only when they change
  wasLive = wasLive || state === "live";
  // Without the live connection the page grows old: its own notice says so, and goes when the daemon is back.
  for (const l of loaders) if (state === "down" || (state === "live" && l.fails)) l.run();
});
feed.start();
