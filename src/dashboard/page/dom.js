// Elements, untrusted values and small parts that every page uses.
//
// Every value from the daemon is untrusted text: it reaches a page through text nodes only. The page's
// content security policy forbids style attributes; set `el.style.x` instead.
//
//   $(id)                              element by id
//   h(tag, attrs, ...children)         new element; strings become text nodes, null and false are left out,
//                                      attributes named on… are event listeners, `class` is the class
//   setText(el, text)                  writes only what changed, so that nothing is announced twice
//   list, rec, isNum, str, clamp01     an array / object / finite number / text / part of 1, whatever came
//   clip(text)                         at most MAX_TEXT characters, saying how many were cut
//   MAX_ITEMS                          rows that a table inside a page shows at most
//   bar(share)  pbar(p)                a bar; a bar with its probability beside it
//   kv(pairs)                          a list of names and values; empty values are left out
//   textBlock(text, label)             preformatted text in a box that scrolls
//   grid(caption, head, rows)          a table in a box that scrolls; head: [[text or nodes, class], …]
//   fillTable(table, head, rows)       replaces head (a row, or null to keep it) and rows, keeping focus (by
//                                      data-key) and a text selection
//   say(text)                          tells a screen reader, politely
//   store(area, key, value)            reads, writes or (null) forgets; works without storage too
//   css(name)                          a custom property's value, such as css("--muted")
//   openDialog({title, body, actions}) modal dialog; resolves with the chosen action's value, null when closed

import { int, prob } from "./format.js";

const MAX_TEXT = 20000;
export const MAX_ITEMS = 100;

export const $ = (id) => document.getElementById(id);
export const list = (x) => (Array.isArray(x) ? x : []);
export const rec = (x) => (x && typeof x === "object" ? x : {});
export const isNum = (x) => typeof x === "number" && Number.isFinite(x);
export const clamp01 = (x) => (isNum(x) ? Math.min(1, Math.max(0, x)) : 0);
export function str(x) {
  if (x === null || x === undefined) return "";
  return typeof x === "string" ? x : typeof x === "object" ? JSON.stringify(x) : String(x);
}
export function clip(text) {
  const t = str(text);
  return t.length > MAX_TEXT ? `${t.slice(0, MAX_TEXT)}\n… ${int(t.length - MAX_TEXT)} more characters` : t;
}

export function h(tag, attrs, ...children) {
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

export function setText(el, text) {
  if (el && el.textContent !== text) el.textContent = text;
}

export function bar(share) {
  const fill = h("i");
  fill.style.width = `${(clamp01(share) * 100).toFixed(1)}%`;
  return h("div", { class: "bar", "aria-hidden": "true" }, fill);
}
export const pbar = (p) => h("div", { class: "pbar" }, bar(p), h("span", {}, prob(p)));

const filled = ([, v]) => v !== null && v !== undefined && v !== "" && v !== false;
export const kv = (pairs) => h("dl", { class: "kv" }, pairs.filter(filled).map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v))));
export const textBlock = (text, label) => h("pre", { class: "text", tabindex: 0, role: "group", "aria-label": label }, clip(text));

export function grid(caption, head, rows) {
  const cut = rows.slice(0, MAX_ITEMS);
  const said = cut.length < rows.length ? `${caption} First ${MAX_ITEMS} of ${int(rows.length)}.` : caption;
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
    h("table", {}, h("caption", {}, said),
      h("thead", {}, h("tr", {}, head.map(([name, cls]) => h("th", { scope: "col", class: cls }, name)))), h("tbody", {}, cut)));
}

export function fillTable(table, head, rows) {
  const sel = getSelection();
  if (sel && !sel.isCollapsed && table.contains(sel.anchorNode)) return;
  const focus = table.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  if (head) table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...rows);
  if (focus === undefined) return;
  for (const el of table.querySelectorAll("[data-key]")) if (el.dataset.key === focus) el.focus({ preventScroll: true });
}

export const say = (text) => setText($("say"), text);
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function store(area, key, value) {
  try {
    if (value === undefined) return window[area].getItem(key);
    if (value === null) window[area].removeItem(key);
    else window[area].setItem(key, value);
  } catch { /* storage may be off; the page works without it */ }
  return null;
}

let dialogs = 0;
export function openDialog({ title, body, actions }) {
  const id = `dialog-${(dialogs += 1)}`;
  return new Promise((resolve) => {
    let chosen = null;
    const buttons = actions.map((a) => h("button", {
      type: a.submit ? "submit" : "button", class: a.danger ? "danger" : a.submit ? "primary" : null, "data-value": str(a.value),
      onclick: a.submit ? null : () => { chosen = a.value; dialog.close(); },
    }, a.label));
    const form = h("form", { method: "dialog", class: "dialog-in", autocomplete: "off" }, h("h2", { id }, title), body, h("div", { class: "dialog-actions" }, buttons));
    form.addEventListener("submit", () => { chosen = (actions.find((a) => a.submit) || {}).value; });
    const dialog = h("dialog", { "aria-labelledby": id }, form);
    dialog.addEventListener("close", () => { dialog.remove(); resolve(chosen); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
