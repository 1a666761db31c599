// The page's one live connection: server-sent events of /v1/events, read with fetch so that a key can go along.
//
//   feed.on(name, fn)    name: "round" | "figures" | "lagged" (fn gets the event's data), or "state" (fn gets
//                        "connecting" | "live" | "reconnecting" | "down" | "auth"; called at once with the present one)
//   feed.start()         opens it; once is enough
//   feed.restart()       closes it and opens it anew, at once
//   feed.state
//
// It goes on after the last event that it saw, waits longer after each failure, reopens a connection that went silent,
// and is closed while the tab is hidden.

import { headers, onKey } from "./api.js";
import { rec } from "./dom.js";

const SILENCE_MS = 60000; // the daemon sends a comment line more often than this
const HIDDEN_CLOSE_MS = 30000;
const BACKOFF_MAX_MS = 30000;
const DOWN_AFTER = 3; // failures in a row until it is called down
const LINE_MAX = 4 << 20;

export const backoff = (fails) => Math.min(BACKOFF_MAX_MS, 1000 * 2 ** Math.min(fails, 8)) * (0.85 + Math.random() * 0.3);

/** Splits a byte stream into events; `id` outlives an event, as the standard says. */
class EventParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.lastId = "";
    this.reset();
  }
  reset() { this.rest = ""; this.name = ""; this.data = []; this.id = this.lastId; }
  push(text) {
    this.rest += text;
    const keep = this.rest.endsWith("\r") ? 1 : 0; // half a CRLF
    const lines = this.rest.slice(0, this.rest.length - keep).split(/\r\n|\n|\r/);
    this.rest = lines.pop() + (keep ? "\r" : "");
    if (this.rest.length > LINE_MAX) throw new Error("a line of the event stream is too long");
    for (const line of lines) this.line(line);
  }
  line(line) {
    if (line === "") {
      this.lastId = this.id;
      if (this.data.length) this.onEvent(this.name || "message", this.data.join("\n"));
      this.name = "";
      this.data = [];
      return;
    }
    const at = line.indexOf(":");
    const field = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (field === "event") this.name = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id" && /^[\x20-\x7e]{0,200}$/.test(value)) this.id = value;
  }
}

class Feed {
  constructor() {
    this.state = "connecting";
    this.handlers = new Map();
    this.parser = new EventParser((name, text) => this.event(name, text));
    this.started = false;
    this.open = null;
    this.timer = 0;
    this.fails = 0;
  }
  on(name, fn) {
    if (!this.handlers.has(name)) this.handlers.set(name, new Set());
    this.handlers.get(name).add(fn);
    if (name === "state") fn(this.state);
    return () => this.handlers.get(name).delete(fn);
  }
  emit(name, value) {
    for (const fn of this.handlers.get(name) || []) {
      try { fn(value); } catch (e) { console.error(e); }
    }
  }
  setState(state) {
    if (state === this.state) return;
    this.state = state;
    this.emit("state", state);
  }
  event(name, text) {
    let data;
    try { data = rec(JSON.parse(text)); } catch { return; }
    this.emit(name, data);
  }
  start() {
    if (this.started) return;
    this.started = true;
    let hiddenTimer = 0;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(hiddenTimer);
      if (document.hidden) hiddenTimer = setTimeout(() => this.close(), HIDDEN_CLOSE_MS);
      else if (!this.open) this.restart();
    });
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (ev) => { if (ev.persisted) this.restart(); });
    addEventListener("online", () => { if (this.state !== "live") this.restart(); });
    onKey(() => this.restart());
    this.connect();
  }
  restart() {
    this.close();
    this.fails = 0;
    this.connect();
  }
  close() {
    clearTimeout(this.timer);
    const open = this.open;
    this.open = null;
    if (open) open.abort();
    this.setState("connecting");
  }
  async connect() {
    const mine = (this.open = new AbortController());
    this.parser.reset();
    let watchdog = 0, refused = false;
    const alive = () => { clearTimeout(watchdog); watchdog = setTimeout(() => mine.abort(), SILENCE_MS); };
    try {
      alive();
      const head = headers("text/event-stream");
      if (this.parser.lastId) head["last-event-id"] = this.parser.lastId;
      const res = await fetch("/v1/events", { headers: head, cache: "no-store", signal: mine.signal });
      refused = res.status === 401 || res.status === 403;
      if (!res.ok || !res.body) throw new Error(`status ${res.status}`);
      this.fails = 0;
      this.setState("live");
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        alive();
        this.parser.push(value);
      }
    } catch (e) {
      if (this.open === mine && e.name !== "AbortError" && !(e instanceof TypeError)) console.warn("event stream:", e.message);
    } finally {
      clearTimeout(watchdog);
      mine.abort();
    }
    if (this.open === mine) this.lost(refused);
  }
  lost(refused) {
    this.open = null;
    if (refused) return this.setState("auth"); // a new key restarts it
    this.fails += 1;
    this.setState(this.fails > DOWN_AFTER ? "down" : "reconnecting");
    if (!document.hidden) this.timer = setTimeout(() => this.connect(), backoff(this.fails - 1));
  }
}

export const feed = new Feed();
