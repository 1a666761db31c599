// What every chart has: readout, names that hide their series, zoom, keys, a text alternative, export, colours. chart.js has the
// kinds of charts and says how they are used.
//
//   Chart                     base class; a subclass has make(data), which gives {keys, columns, series, source, …}
//   COLOURS                   how many things have a colour of their own
//   assign(ids)               gives ids colours that differ: slotOf(id) is the place, colourOf(id) the custom property
//   paint, mix, clear, inkOn  a colour's value; mixed with another; with an alpha; the ink that is read on it
//   FONT, dashes, pxRatio, yRanges, labelWidth, spread, shorten    parts of a drawing
//   csvText, saveFile, onThemeChange   see chart.js

import { $, css, h, isNum, say, setText, str } from "./dom.js";
import { amount, clock, day, dayTime, F0, hourMinute, int, short } from "./format.js";

export const COLOURS = 7; // --s0 … --s6; what has none is shown together
const NAME_MAX = 40;
export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

const charts = new Set();
export function onThemeChange() { for (const c of charts) c.restyle(); }

// ---------------------------------------------------------------- colours

const slots = new Map(); // id → index of its colour, for as long as the page is open
/** Gives each id a colour; one that has one keeps it where no other of these ids has the same. */
export function assign(ids) {
  const taken = new Set();
  const without = [];
  for (const id of ids) {
    const slot = slots.get(id);
    if (slot === undefined || slot >= COLOURS || taken.has(slot)) without.push(id); else taken.add(slot);
  }
  for (const id of without) {
    let slot = 0;
    while (taken.has(slot) && slot < COLOURS) slot += 1;
    taken.add(slot);
    slots.set(id, slot);
  }
}
export const slotOf = (id) => slots.get(id);
export function colourOf(id) {
  if (!slots.has(id)) slots.set(id, slots.size);
  return slots.get(id) < COLOURS ? `--s${slots.get(id)}` : "--s-other";
}
export const paint = (colour) => (colour.startsWith("--") ? css(colour) : colour);
function rgb(colour) {
  const m = /^#([0-9a-f]{6})$/i.exec(colour);
  const n = m ? parseInt(m[1], 16) : 0x888888;
  return [n >> 16, (n >> 8) & 255, n & 255];
}
export function mix(a, b, t) {
  const x = rgb(a), y = rgb(b);
  return `#${x.map((v, i) => Math.round(v * t + y[i] * (1 - t)).toString(16).padStart(2, "0")).join("")}`;
}
export const clear = (colour, alpha) => `rgb(${rgb(colour).join(" ")} / ${alpha})`;
export function inkOn(colour) {
  const [r, g, b] = rgb(colour).map((v) => { const c = v / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#101418" : "#ffffff";
}

// ---------------------------------------------------------------- export

export function csvText(rows) {
  const cell = (x) => {
    if (isNum(x)) return String(x);
    const text = str(x);
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

export function saveFile(name, type, body) {
  const url = URL.createObjectURL(body instanceof Blob ? body : new Blob([body], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export const pxRatio = (u) => u.ctx.canvas.width / u.width;
export const shorten = (text) => (text.length > NAME_MAX ? `${text.slice(0, NAME_MAX - 1)}…` : text);

/** The chart's picture with its title and legend, on the page's background. */
function picture(chart) {
  const from = chart.plot.ctx.canvas, scale = pxRatio(chart.plot), pad = 14 * scale, line = 20 * scale;
  const canvas = h("canvas"), ctx = canvas.getContext("2d");
  const width = from.width + 2 * pad;
  ctx.font = `${12 * scale}px ${FONT}`;
  const rows = [[]];
  let x = 0;
  for (const k of chart.shownKeys()) {
    const w = ctx.measureText(k.label).width + 40 * scale;
    if (x > 0 && x + w > from.width) { rows.push([]); x = 0; }
    rows[rows.length - 1].push({ k, x });
    x += w;
  }
  canvas.width = width;
  canvas.height = from.height + 2 * pad + line * (rows.length + 1);
  ctx.fillStyle = css("--surface");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.textBaseline = "middle";
  ctx.fillStyle = css("--text");
  ctx.font = `600 ${14 * scale}px ${FONT}`;
  ctx.fillText(chart.options.title, pad, pad + line / 2);
  ctx.font = `${12 * scale}px ${FONT}`;
  rows.forEach((row, n) => {
    const y = pad + line * (n + 1.5);
    for (const { k, x: at } of row) {
      drawSwatch(ctx, k, pad + at, y, scale);
      ctx.fillStyle = css("--text");
      ctx.fillText(k.label, pad + at + 24 * scale, y);
    }
  });
  ctx.drawImage(from, pad, pad + line * (rows.length + 1));
  return canvas;
}
function drawSwatch(ctx, k, x, y, scale) {
  ctx.save();
  ctx.fillStyle = ctx.strokeStyle = k.paint;
  if (k.fill) ctx.fillRect(x + 2 * scale, y - 5 * scale, 14 * scale, 10 * scale);
  else {
    ctx.lineWidth = 2.5 * scale;
    ctx.setLineDash(dashes(k.dash).map((v) => v * scale));
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + 18 * scale, y);
    ctx.stroke();
  }
  ctx.restore();
}
export const dashes = (dash) => (dash ? dash.split(" ").map(Number) : []);

function swatch(k) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 22 10");
  svg.setAttribute("aria-hidden", "true");
  const shape = k.shape === "diamond" ? "path" : k.shape === "dot" ? "circle" : k.fill ? "rect" : "line";
  const attrs = {
    path: { d: "M11 0L16 5L11 10L6 5Z" }, circle: { cx: 11, cy: 5, r: 4 }, rect: { x: 5, y: 0, width: 12, height: 10, rx: 2 },
    line: { x1: 1, y1: 5, x2: 21, y2: 5, "stroke-width": 2.5, "stroke-dasharray": k.dash || "none" },
  }[shape];
  const el = document.createElementNS(svg.namespaceURI, shape);
  for (const [name, v] of Object.entries(attrs)) el.setAttribute(name, v);
  el.style.setProperty(shape === "line" ? "stroke" : "fill", k.paint);
  svg.append(el);
  return svg;
}

// ---------------------------------------------------------------- axes

/** Labels of an axis of time: the day at its first tick, else as much of the time as the ticks differ in. */
function timeTicks(u, splits, axis, space, step) {
  let last = "";
  return splits.map((at) => {
    const date = day(at), fresh = date !== last;
    last = date;
    if (step >= 86400e3) return fresh ? date : "";
    const text = step >= 60e3 ? hourMinute(at) : clock(at);
    return fresh ? `${text}\n${date}` : text;
  });
}
const roundTicks = (u, splits) => splits.map((x) => (!Number.isInteger(x) ? "" : Math.abs(x) >= 1e6 ? short(x) : F0.format(x)));
export const labelWidth = (u, values) => Math.max(40, 16 + 6.4 * Math.max(0, ...(values || []).map((v) => str(v).length)));

export const yRanges = {
  unit: () => [0, 1],
  zero: (min, max, zoomed) => {
    if (zoomed) return yRanges.auto(min, max);
    const low = Math.min(0, min * 1.05), high = Math.max(0, max * 1.05);
    return high > low ? [low, high] : [0, 1];
  },
  auto: (min, max) => {
    // Values that hardly differ get room enough for ticks whose texts differ.
    const pad = Math.max((max - min) * 0.06, Math.abs(max) * 0.004) || 0.5;
    return [min - pad, max + pad];
  },
};

/** Rows to draw: `source[i]` is the point behind row i, -1 for a cut. The last point before a cut is drawn to its bucket's end. */
export function spread(xs, gap) {
  const rows = { x: [], source: [] };
  const add = (x, i) => { rows.x.push(x); rows.source.push(i); };
  xs.forEach((x, i) => {
    add(x, i);
    const next = xs[i + 1];
    if (!gap || (next !== undefined && next - x <= gap * 1.5)) return;
    add(x + gap * 0.999, i);
    if (next !== undefined) add(x + gap, -1);
  });
  return rows;
}

// ---------------------------------------------------------------- the base

/** A chart with readout, names, keys and export. A subclass says what is drawn. */
export class Chart {
  constructor(name, options) {
    this.options = { axis: "rounds", format: amount, tick: short, y: "zero", empty: "Nothing to draw yet.", ...options };
    this.name = name;
    this.host = $(`${name}-chart`);
    this.readout = $(`${name}-readout`);
    this.plot = null;
    this.data = null;
    this.sig = "";
    this.zoomed = false;
    this.hidden = new Set();
    this.buttons($(`${name}-tools`));
    this.hear();
    charts.add(this);
  }
  buttons(tools) {
    const button = (label, title, fn) => h("button", { type: "button", class: "quiet", "aria-label": `${label}: ${this.options.title}`, title, onclick: fn }, label);
    this.reset = button("Reset zoom", "Reset zoom", () => { this.unzoom(); this.host.focus(); });
    this.reset.hidden = true;
    this.savers = [button("PNG", "Save as a picture", () => this.savePng()), button("CSV", "Save the numbers", () => this.saveCsv())];
    for (const b of this.savers) b.disabled = true;
    tools.append(this.reset, ...this.savers);
  }
  hear() {
    this.host.tabIndex = 0;
    this.host.setAttribute("role", "group");
    this.host.setAttribute("aria-roledescription", "chart");
    this.host.setAttribute("aria-label", `${this.options.title}: loading`);
    this.host.addEventListener("keydown", (ev) => this.onKey(ev));
    this.host.addEventListener("blur", () => this.leave());
    new ResizeObserver(() => {
      if (this.plot && this.host.clientWidth > 0) this.plot.setSize(this.size());
      else if (!this.plot && this.data) this.draw();
    }).observe(this.host);
  }
  leave() { if (this.plot) this.plot.setCursor({ left: -10, top: -10 }); }
  size() { return { width: Math.max(200, this.host.clientWidth), height: Math.max(120, this.host.clientHeight) }; }
  note(text, button) {
    this.data = null;
    if (this.plot) this.plot.destroy();
    this.plot = null;
    this.sig = "";
    this.setZoomed(false);
    for (const b of this.savers) b.disabled = true;
    this.host.replaceChildren(h("p", { class: "chart-note" }, text, button));
    this.readout.replaceChildren();
    this.host.setAttribute("aria-label", `${this.options.title}: ${text}`);
  }
  restyle() { this.sig = ""; if (this.data) this.draw(); }
  get time() { return ((this.data && this.data.axis) || this.options.axis) === "time"; }
  update(data) {
    if (!data.x.length) return this.note(this.options.empty);
    if (this.data && this.data.axis !== data.axis) this.setZoomed(false);
    this.data = data;
    if (this.host.clientWidth > 0) this.draw();
  }
  draw() {
    const made = (this.made = this.make(this.data)); // { keys, columns, series, … }
    const sig = JSON.stringify([this.time, made.rest, made.keys.map((k) => [k.id, k.label, k.paint, k.dash, Boolean(k.low)])]);
    if (!this.plot || this.sig !== sig) this.rebuild(sig);
    else {
      this.plot.setData(made.columns, false);
      const [from, to] = this.bounds();
      if (this.zoomed && (this.view.max <= from || this.view.min >= to)) this.setZoomed(false);
      this.frame();
    }
    for (const b of this.savers) b.disabled = false;
    this.showValues();
    this.host.setAttribute("aria-label", this.describe());
  }
  rebuild(sig) {
    if (this.plot) this.plot.destroy();
    this.host.replaceChildren();
    this.sig = sig;
    this.plot = new window.uPlot(this.uplotOptions(this.made), this.made.columns, this.host);
    this.frame();
    this.drawReadout();
  }
  /** Sets the part of the x axis that is shown: the kept zoom, or all. */
  frame() {
    const [min, max] = this.zoomed ? [this.view.min, this.view.max] : this.bounds();
    this.plot.setScale("x", { min, max });
  }
  bounds() {
    const xs = this.made.columns[0];
    const [from, to] = this.data.xRange || [xs[0], xs[xs.length - 1]];
    return to > from ? [from, to] : [from - 1, from + 1];
  }
  axis() {
    return {
      stroke: css("--muted"), font: `11px ${FONT}`,
      grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 },
    };
  }
  uplotOptions(made) {
    const axis = this.axis(), { time } = this;
    return {
      ...this.size(),
      ms: 1,
      padding: [10, 12, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, dist: 5 },
        points: made.points === false ? { show: false } : { size: 7 },
        bind: { dblclick: () => () => this.unzoom() },
      },
      scales: {
        x: { time, range: (u, min, max) => [min, max] },
        y: { range: (u, min, max) => (isNum(min) && isNum(max) ? yRanges[this.options.y](min, max, this.zoomed) : [0, 1]) },
      },
      axes: [
        { ...axis, size: time ? 42 : 30, space: 70, values: time ? timeTicks : roundTicks },
        { ...axis, size: labelWidth, space: 40, values: (u, v) => v.map((x) => this.options.tick(x)) },
      ],
      series: [{}, ...made.series],
      bands: made.bands,
      hooks: {
        setCursor: [() => this.showValues()],
        setSelect: [(u) => this.select(u)],
        draw: [(u) => { if (this.made.draw) this.made.draw(u); }],
      },
    };
  }
  /** A part was dragged over: uPlot shows it, here it is kept. */
  select(u) {
    const { left, width } = u.select;
    if (!(width > 0)) return;
    this.view = { min: u.posToVal(left, "x"), max: u.posToVal(left + width, "x") };
    this.setZoomed(true);
  }
  setZoomed(on) { this.zoomed = on; this.reset.hidden = !on; }
  unzoom() {
    this.setZoomed(false);
    if (this.plot) this.frame();
  }
  shownKeys() { return this.made.keys.filter((k) => !this.hidden.has(k.id)); }
  drawReadout() {
    this.at = h("span", { class: "at" });
    this.vals = new Map();
    const rest = this.made.rest ? h("span", { class: "muted" }, this.made.rest) : null;
    this.readout.replaceChildren(this.at, ...this.made.keys.map((k) => this.keyButton(k)), ...(rest ? [rest] : []));
  }
  keyButton(k) {
    const val = h("span", { class: "val" });
    this.vals.set(k.id, val);
    const b = h("button", { type: "button", "aria-pressed": !this.hidden.has(k.id), title: `Hide or show ${k.label}` },
      swatch(k), h("span", { class: "key-name" }, shorten(k.label)), val);
    b.addEventListener("click", () => {
      if (this.hidden.has(k.id)) this.hidden.delete(k.id); else this.hidden.add(k.id);
      b.setAttribute("aria-pressed", String(!this.hidden.has(k.id)));
      this.toggle(k.id);
    });
    return b;
  }
  xText(i) {
    const x = this.data.x[i];
    if (!this.time) return `Round ${int(x)}`;
    return this.data.gap < 60e3 ? clock(x) : dayTime(x);
  }
  /** The point under the pointer or the keys, else the last one; -1 where it is a cut. */
  point() {
    const { source } = this.made, i = this.plot && this.plot.cursor.left >= 0 ? this.plot.cursor.idx : null;
    return isNum(i) ? source[i] : this.data.x.length - 1;
  }
  showValues() {
    if (!this.vals || !this.made || !this.plot) return;
    const i = this.point();
    setText(this.at, i < 0 ? "no rounds" : this.xText(i));
    for (const k of this.made.keys) setText(this.vals.get(k.id), i < 0 ? "–" : k.text(i));
  }
  valuesAt(i) { return this.made.keys.map((k) => `${k.label} ${k.text(i)}`).join(", "); }
  describe() {
    const last = this.data.x.length - 1;
    const span = last === 0 ? this.xText(0) : `${this.xText(0)} to ${this.xText(last)}`;
    const trends = this.made.keys.map((k) => {
      const known = k.values ? k.values.filter(isNum) : [];
      return known.length ? `${k.label}: first ${k.format(known[0])}, latest ${k.format(known[known.length - 1])}, highest ${k.format(known.reduce((a, b) => Math.max(a, b)))}` : `${k.label}: no values`;
    });
    return `${this.options.title}, ${span}. ${trends.join("; ")}.`;
  }
  onKey(ev) {
    if (!this.plot || ev.ctrlKey || ev.metaKey || ev.altKey) return;
    const last = this.data.x.length - 1, step = ev.shiftKey ? 10 : 1;
    let i = Math.max(0, this.point());
    if (ev.key === "ArrowLeft") i -= step;
    else if (ev.key === "ArrowRight") i += step;
    else if (ev.key === "Home") i = 0;
    else if (ev.key === "End") i = last;
    else if (ev.key === "+" || ev.key === "=") this.zoomAt(this.data.x[i]);
    else if (ev.key === "0" || (ev.key === "Escape" && this.zoomed)) this.unzoom();
    else return;
    ev.preventDefault();
    this.goTo(Math.min(last, Math.max(0, i)));
  }
  zoomAt(x) {
    const { min, max } = this.plot.scales.x, half = (max - min) / 4;
    if (half * 2 < (this.time ? 1000 : 4)) return;
    const mid = Math.min(max - half, Math.max(min + half, x));
    this.view = { min: mid - half, max: mid + half };
    this.setZoomed(true);
    this.frame();
  }
  goTo(i) {
    const xs = this.data.x, last = xs.length - 1;
    if (this.zoomed) { // stay inside what is shown
      const { min, max } = this.plot.scales.x;
      while (i < last && xs[i] < min) i += 1;
      while (i > 0 && xs[i] > max) i -= 1;
    }
    this.plot.setCursor({ left: Math.max(0, this.plot.valToPos(xs[i], "x")), top: 8 });
    say(`${this.xText(i)}: ${this.valuesAt(i)}`);
  }
  fileName(ext) { return `pointsman-${this.name}.${ext}`; }
  savePng() { picture(this).toBlob((blob) => { if (blob) saveFile(this.fileName("png"), "image/png", blob); }); }
  saveCsv() { saveFile(this.fileName("csv"), "text/csv;charset=utf-8", csvText(this.csvRows())); }
  csvRows() {
    const { time } = this;
    const columns = this.made.keys.flatMap((k) => [[k.label, k.values], ...(k.low ? [[`${k.label}, low`, k.low], [`${k.label}, high`, k.high]] : [])]);
    return [[time ? "time" : "round", ...columns.map(([name]) => name)],
      ...this.data.x.map((x, i) => [time ? new Date(x).toISOString() : x, ...columns.map(([, values]) => values[i])])];
  }
}

