// Talking to the daemon.
//
//   getJson(path, signal)                 GET; the answer's JSON
//   send(method, path, body, options)     any other; a body that is no string, Blob or buffer goes as JSON.
//                                         options: {contentType, signal}. Where the daemon wants another key it
//                                         is asked for in a dialog and the request goes again. Resolves with the
//                                         answer's JSON (null where it has none).
//   HttpError                             status, name (last part of the problem's type), title, detail
//   Cancelled                             thrown by `send` where the key's dialog was closed
//   needsKey(error)                       whether the daemon wants a key, or another one
//   problemText(error)                    one or two sentences for a person
//   headers(accept)                       request headers with the key
//   hasKey()  setKey(text)  onKey(fn)     the key; it stays in this tab's session

import { h, openDialog, rec, store, str } from "./dom.js";

const KEY = "pointsman.key";
let key = store("sessionStorage", KEY) || "";
const watchers = new Set();

export const hasKey = () => Boolean(key);
export const onKey = (fn) => watchers.add(fn);
export function setKey(text) {
  key = text.trim();
  store("sessionStorage", KEY, key || null);
  for (const fn of watchers) fn();
}
export const headers = (accept, shown = key) => (shown ? { accept, authorization: `Bearer ${shown}` } : { accept });

export class HttpError extends Error {
  constructor(status, problem) {
    const title = str(problem.title).slice(0, 200), detail = str(problem.detail).slice(0, 600);
    super([title, detail].filter(Boolean).join(": ") || `The daemon answered ${status}.`);
    this.status = status;
    this.name = str(problem.type).split(/[/:]/).pop() || "problem";
    this.title = title;
    this.detail = detail;
  }
}
export class Cancelled extends Error {}

/** The error that an answer stands for; problems are RFC 9457 documents. */
async function failure(res) {
  try { return new HttpError(res.status, rec(await res.json())); } catch { return new HttpError(res.status, {}); }
}

export async function getJson(path, signal) {
  const res = await fetch(path, { headers: headers("application/json"), cache: "no-store", signal });
  if (!res.ok) throw await failure(res);
  return res.json();
}

/** Whether what was asked for is not there, or could not be: such a name is no name. */
export const isUnknown = (e) => e instanceof HttpError && [400, 404, 422].includes(e.status);
export const needsKey = (e) => e instanceof HttpError && (e.status === 401 || (e.status === 403 && ["admin-only", "problem"].includes(e.name)));

export function problemText(e) {
  if (e instanceof HttpError) return `The daemon answered with status ${e.status}. ${e.message}`;
  if (e.name === "AbortError" || e.name === "TimeoutError") return "The daemon did not answer in time.";
  if (e instanceof TypeError) return "No answer came back. Is the daemon running, and is this address still right?";
  if (e instanceof SyntaxError) return "The daemon's answer was not JSON.";
  return e.message;
}

async function request(shown, method, path, body, { contentType, signal } = {}) {
  const raw = typeof body === "string" || body instanceof Blob || body instanceof ArrayBuffer || ArrayBuffer.isView(body);
  const head = headers("application/json", shown);
  if (body !== undefined && body !== null) head["content-type"] = contentType || (raw ? "application/octet-stream" : "application/json");
  const payload = body === undefined || body === null ? undefined : raw ? body : JSON.stringify(body);
  const res = await fetch(path, { method, headers: head, body: payload, cache: "no-store", signal });
  if (!res.ok) throw await failure(res);
  const text = await res.text();
  return text ? JSON.parse(text) : null;
}

export async function send(method, path, body, options) {
  let shown = key;
  for (;;) {
    try {
      const answer = await request(shown, method, path, body, options);
      if (shown !== key) setKey(shown); // only a key that opened something is kept
      return answer;
    } catch (e) {
      if (!needsKey(e)) throw e;
      shown = await askKey(shown === key ? e.message : `The daemon did not accept that key. ${e.message}`);
      if (!shown) throw new Cancelled("No key was given.");
    }
  }
}

/** The key that somebody typed, "" where the dialog was closed. */
async function askKey(reason) {
  const input = h("input", { id: "admin-key", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const body = h("div", { class: "dialog-text" }, h("p", {}, reason),
    h("p", { class: "muted" }, "Changing things needs an admin key. It stays in this tab and is forgotten when the tab closes."),
    h("p", { class: "notice-row" }, h("label", { for: "admin-key" }, "Admin key"), input));
  const actions = [{ label: "Cancel", value: null }, { label: "Use this key", value: true, submit: true }];
  const given = await openDialog({ title: "This needs an admin key", body, actions });
  return given === true ? input.value.trim() : "";
}
