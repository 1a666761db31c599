// Interactive charts on uPlot (window.uPlot): a readout that follows the pointer and names each series, names that hide their
// series, drag to zoom, keys, a text alternative, PNG and CSV export, themes. A zoom is kept while data grows.
//
// Each chart NAME takes these elements of the template: #NAME-tools (gets the buttons), #NAME-readout, #NAME-chart.
//
//   new LineChart(name, options)     .update({x, series, gap, xRange, marks, axis})
//     series: [{id, label, values, colour, dash, width, low, high}]   low and high, where given, are drawn as a band
//     marks: {label, values}         how many things happened at each x; drawn as diamonds at the bottom
//   new StackChart(name, options)    .update({x, series: [{id, label, values}], gap, xRange, others})
//     values are counts or shares; each x is scaled to 1. The 7 busiest have a colour, the rest is one area.
//     `others` may hold the counts of things that are not in `series`.
//   new ScatterChart(name, options)  .update({x, y, group, groups, label})
//     group: index into groups (names) of each point; label(i): text of point i. options.onpick(i): on click and Enter.
//   options: {title, axis: "rounds" | "time", format, tick, y: "zero" | "unit" | "auto", empty}
//     axis "time" takes ms since 1970. format: a value as text. tick: the same for the axis.
//     y "zero" keeps 0 in view, "unit" is 0 to 1, "auto" fits the values. empty: words where there is no point.
//   gap      the width of a bucket of time: where buckets are missing between two points the line is cut
//   axis     where it is another one than the options say
//   xRange   [from, to] that is shown while not zoomed
//   chart.note(text, button)         words instead of a chart (loading, nothing there, an error); update() takes them away
//   colourOf(id)                     the custom property of a thing's colour, the same in all charts of the page
//   onThemeChange()                  draws all charts anew (layout.js calls it)
//   saveFile(name, type, body)       download
//   csvText(rows)                    rows of cells as CSV; a cell that a spreadsheet would run as a formula gets a '
//
// Values that are null or not finite are gaps. Colours are names of custom properties such as "--ours".

import { $, css, h, isNum, say, setText, str } from "./dom.js";
import { amount, clock, day, dayTime, F0, hourMinute, int, pct, short } from "./format.js";

const COLOURS = 7; // --s0 … --s6; what has none is shown together
const LINES = 8;
const POINTS_MAX = 5000;
const NAME_MAX = 40;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

const charts = new Set();
export function onThemeChange() { for (const c of charts) c.restyle(); }

// ---------------------------------------------------------------- colours

const slots = new Map(); // id → index of its colour, for as long as the page is open
/** Gives each id a colour; one that has one keeps it where no other of these ids has the same. */
function assign(ids) {
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
export function colourOf(id) {
  if (!slots.has(id)) slots.set(id, slots.size);
  return slots.get(id) < COLOURS ? `--s${slots.get(id)}` : "--s-other";
}
const paint = (colour) => (colour.startsWith("--") ? css(colour) : colour);
function rgb(colour) {
  const m = /^#([0-9a-f]{6})$/i.exec(colour);
  const n = m ? parseInt(m[1], 16) : 0x888888;
  return [n >> 16, (n >> 8) & 255, n & 255];
}
function mix(a, b, t) {
  const x = rgb(a), y = rgb(b);
  return `#${x.map((v, i) => Math.round(v * t + y[i] * (1 - t)).toString(16).padStart(2, "0")).join("")}`;
}
const clear = (colour, alpha) => `rgb(${rgb(colour).join(" ")} / ${alpha})`;
function inkOn(colour) {
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

const pxRatio = (u) => u.ctx.canvas.width / u.width;
const short40 = (text) => (text.length > NAME_MAX ? `${text.slice(0, NAME_MAX - 1)}…` : text);

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
const dashes = (dash) => (dash ? dash.split(" ").map(Number) : []);

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
const labelWidth = (u, values) => Math.max(40, 16 + 6.4 * Math.max(0, ...(values || []).map((v) => str(v).length)));

const yRanges = {
  unit: () => [0, 1],
  zero: (min, max, zoomed) => {
    if (zoomed) return yRanges.auto(min, max);
    const low = Math.min(0, min * 1.05), high = Math.max(0, max * 1.05);
    return high > low ? [low, high] : [0, 1];
  },
  auto: (min, max) => {
    const pad = (max - min) * 0.06 || Math.abs(max) * 0.1 || 0.5;
    return [min - pad, max + pad];
  },
};

/** Rows to draw: `source[i]` is the point behind row i, -1 for a cut. The last point before a cut is drawn to its bucket's end. */
function spread(xs, gap) {
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
class Chart {
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
      swatch(k), h("span", { class: "key-name" }, short40(k.label)), val);
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

const clean = (values) => values.map((v) => (isNum(v) ? v : null));
/** At most POINTS_MAX of the points, the last one among them. */
function thin(data, series) {
  const n = data.x.length, step = Math.ceil(n / POINTS_MAX);
  const keep = step === 1 ? (a) => a : (a) => a.filter((_, i) => (n - 1 - i) % step === 0);
  return { x: keep(data.x), series: series.map((s) => ({ ...s, values: keep(clean(s.values)), low: s.low && keep(clean(s.low)), high: s.high && keep(clean(s.high)) })), keep };
}

// ---------------------------------------------------------------- lines

export class LineChart extends Chart {
  update(data) {
    const shown = data.series.slice(0, LINES);
    const { x, series, keep } = thin(data, shown);
    super.update({ ...data, x, series, marks: data.marks && { ...data.marks, values: keep(data.marks.values) }, dropped: data.series.length - shown.length });
  }
  make(data) {
    const rows = spread(data.x, data.gap), at = (values) => rows.source.map((i) => (i < 0 ? null : values[i]));
    const format = this.options.format;
    assign(data.series.filter((s) => !s.colour).map((s) => s.id));
    const keys = data.series.map((s) => ({
      id: s.id, label: s.label, values: s.values, low: s.low, high: s.high, dash: s.dash, width: s.width || 2, paint: paint(s.colour || colourOf(s.id)), format,
      text: (i) => format(s.values[i]) + (s.low && isNum(s.low[i]) && isNum(s.high[i]) ? ` (${format(s.low[i])} to ${format(s.high[i])})` : ""),
    }));
    const columns = [rows.x], series = [], bands = [];
    for (const k of keys) {
      const show = !this.hidden.has(k.id);
      k.columns = k.low ? [columns.length, columns.length + 1, columns.length + 2] : [columns.length];
      columns.push(at(k.values));
      series.push({ label: k.label, stroke: k.paint, width: k.width, show, dash: k.dash ? dashes(k.dash) : undefined, points: { show: data.x.length === 1 } });
      if (!k.low) continue;
      const edge = { stroke: clear(k.paint, 0.35), width: 1, show, points: { show: false } };
      columns.push(at(k.high), at(k.low));
      series.push(edge, edge);
      bands.push({ series: [columns.length - 2, columns.length - 1], fill: clear(k.paint, 0.16) });
    }
    const made = { keys, columns, series, bands, source: rows.source, rest: data.dropped > 0 ? `${int(data.dropped)} more not drawn` : "" };
    if (data.marks && data.marks.values.some((n) => n > 0)) this.addMarks(made, data.marks);
    return made;
  }
  toggle(id) {
    for (const n of this.made.keys.find((k) => k.id === id).columns || []) this.plot.setSeries(n, { show: !this.hidden.has(id) });
    this.plot.redraw();
  }
  addMarks(made, marks) {
    const k = { id: "marks", label: marks.label, values: marks.values, paint: css("--warn"), shape: "diamond", format: int, text: (i) => int(marks.values[i]) };
    made.keys.push(k);
    made.draw = (u) => {
      if (this.hidden.has(k.id)) return;
      const r = 4 * pxRatio(u), y = u.bbox.top + u.bbox.height - r - 1;
      u.ctx.save();
      u.ctx.fillStyle = k.paint;
      for (const [i, x] of this.data.x.entries()) {
        if (!(marks.values[i] > 0) || x < u.scales.x.min || x > u.scales.x.max) continue;
        const cx = u.valToPos(x, "x", true);
        u.ctx.beginPath();
        for (const [dx, dy] of [[0, -r], [r, 0], [0, r], [-r, 0]]) u.ctx.lineTo(cx + dx, y + dy);
        u.ctx.fill();
      }
      u.ctx.restore();
    };
  }
}

// ---------------------------------------------------------------- shares

export class StackChart extends Chart {
  constructor(name, options) { super(name, { format: pct, tick: (x) => `${Math.round(x * 100)}%`, y: "unit", ...options }); }
  update(data) {
    const { x, series, keep } = thin(data, data.series);
    super.update({ ...data, x, series: grouped(series, data.others && keep(data.others)) });
  }
  make(data) {
    const { x, source } = spread(data.x, data.gap);
    const surface = css("--surface");
    const sums = data.x.map((_, i) => data.series.reduce((t, s) => t + (isNum(s.values[i]) ? Math.max(0, s.values[i]) : 0), 0));
    const keys = data.series.map((s) => {
      const values = s.values.map((v, i) => (sums[i] > 0 ? Math.max(0, v || 0) / sums[i] : null));
      return { id: s.id, label: s.label, values, fill: true, paint: mix(paint(s.colour), surface, 0.78), format: pct, text: (i) => pct(values[i]) };
    });
    // Stacked: the highest sum is drawn first and each lower one over it.
    const heights = data.x.map((_, i) => (sums[i] > 0 ? 0 : null)), layers = [];
    for (const k of keys) {
      if (!this.hidden.has(k.id)) k.values.forEach((v, i) => { if (v !== null) heights[i] += v; });
      layers.unshift(heights.slice());
    }
    this.tops = layers;
    return {
      keys, source, points: false,
      columns: [x, ...layers.map((values) => source.map((i) => (i < 0 ? null : values[i])))],
      series: keys.slice().reverse().map((k) => ({ label: k.label, stroke: () => (source.length * 4 < this.host.clientWidth ? surface : k.paint), width: 1, fill: k.paint, points: { show: false } })),
      draw: (u) => this.names(u),
    };
  }
  toggle() { this.draw(); }
  /** Each name inside its area, where the area is high enough. */
  names(u) {
    const { keys } = this.made, xs = this.data.x, scale = pxRatio(u);
    const shown = xs.map((x, i) => i).filter((i) => xs[i] >= u.scales.x.min && xs[i] <= u.scales.x.max);
    if (shown.length < 2) return;
    const ctx = u.ctx, pos = new Map(shown.map((i) => [i, u.valToPos(xs[i], "x", true)]));
    ctx.save();
    ctx.font = `600 ${11 * scale}px ${FONT}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    keys.forEach((k, n) => {
      if (this.hidden.has(k.id)) return;
      const label = k.label.length > 24 ? `${k.label.slice(0, 23)}…` : k.label;
      const best = this.room(u, shown, pos, this.tops[keys.length - 1 - n], k.values, ctx.measureText(label).width + 12 * scale);
      if (!best || best.room * u.bbox.height < 15 * scale) return;
      ctx.fillStyle = inkOn(k.paint);
      ctx.fillText(label, best.cx, u.valToPos(best.y, "y", true));
    });
    ctx.restore();
  }
  /** Where an area is free over a label's width, and how high. */
  room(u, shown, pos, top, values, width) {
    let best = null;
    for (const i of shown) {
      const cx = pos.get(i);
      if (cx - width / 2 < pos.get(shown[0]) || cx + width / 2 > pos.get(shown[shown.length - 1])) continue;
      let hi = 1, lo = 0;
      for (const j of shown) {
        if (Math.abs(pos.get(j) - cx) > width / 2) continue;
        if (values[j] === null || this.data.x[j + 1] - this.data.x[j] > this.data.gap * 1.5) { hi = 0; continue; }
        hi = Math.min(hi, top[j]);
        lo = Math.max(lo, top[j] - values[j]);
      }
      if (!best || hi - lo > best.room) best = { room: hi - lo, cx, y: (hi + lo) / 2 };
    }
    return best;
  }
}

/** The busiest series with their colours, and all others as one. */
function grouped(series, others) {
  const total = (values) => values.reduce((t, v) => t + (isNum(v) ? v : 0), 0);
  const busy = series.map((s) => ({ s, n: total(s.values) })).filter(({ n }) => n > 0).sort((a, b) => b.n - a.n).map(({ s }) => s);
  const own = busy.slice(0, COLOURS), rest = busy.slice(COLOURS);
  assign(own.map((s) => s.id));
  const shown = own.sort((a, b) => slots.get(a.id) - slots.get(b.id)).map((s) => ({ ...s, colour: colourOf(s.id) }));
  if (others && total(others) > 0) rest.push({ values: clean(others), many: true });
  if (!rest.length) return shown;
  const values = rest[0].values.map((_, i) => rest.reduce((t, s) => t + (isNum(s.values[i]) ? s.values[i] : 0), 0));
  const label = rest.some((s) => s.many) ? "all others" : `${rest.length} more`;
  return [...shown, { id: "\u0000others", label, values, colour: "--s-other" }];
}

// ---------------------------------------------------------------- points

export class ScatterChart extends Chart {
  constructor(name, options) { super(name, { y: "auto", ...options }); this.picked = -1; this.off = new Set(); }
  update(data) {
    this.picked = -1;
    super.update({ ...data, xRange: undefined });
  }
  make(data) {
    const counts = data.groups.map(() => 0);
    data.group.forEach((g) => { if (counts[g] !== undefined) counts[g] += 1; });
    const order = data.groups.map((_, i) => i).filter((i) => counts[i] > 0).sort((a, b) => counts[b] - counts[a]);
    const own = order.slice(0, COLOURS);
    assign(own.map((g) => data.groups[g]));
    const keyOf = new Map(own.map((g, n) => [g, n]));
    const keys = own.map((g) => ({ id: data.groups[g], label: data.groups[g] || "(none)", paint: css(colourOf(data.groups[g])), shape: "dot", fill: true, points: [] }));
    if (order.length > COLOURS) keys.push({ id: "\u0000others", label: `${int(order.length - COLOURS)} more`, paint: css("--s-other"), shape: "dot", fill: true, points: [] });
    data.x.forEach((x, i) => {
      if (!isNum(x) || !isNum(data.y[i])) return;
      const key = keys[keyOf.has(data.group[i]) ? keyOf.get(data.group[i]) : keys.length - 1];
      if (key) key.points.push(i);
    });
    for (const k of keys) k.text = () => int(k.points.length);
    this.sort(keys);
    return {
      keys,
      columns: [null, ...keys.map((k) => [k.points.map((i) => data.x[i]), k.points.map((i) => data.y[i])])],
      series: keys.map((k) => ({ label: k.label, show: !this.hidden.has(k.id), paths: (u, n) => this.dots(u, n, k), facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }] })),
    };
  }
  /** The points that are shown, from left to right: what pointer and keys go through. */
  sort(keys) {
    this.order = keys.flatMap((k) => (this.hidden.has(k.id) ? [] : k.points)).sort((a, b) => this.data.x[a] - this.data.x[b]);
  }
  toggle(id) {
    this.sort(this.made.keys);
    this.plot.setSeries(this.made.keys.findIndex((k) => k.id === id) + 1, { show: !this.hidden.has(id) });
    this.mark(-1);
    this.showValues();
  }
  uplotOptions(made) {
    const axis = this.axis();
    const range = (u, min, max) => (isNum(min) && isNum(max) ? yRanges.auto(min, max) : [0, 1]);
    const values = (u, v) => v.map((x) => this.options.tick(x));
    return {
      ...this.size(),
      mode: 2,
      padding: [10, 12, 0, 0],
      legend: { show: false },
      cursor: { x: false, y: false, points: { show: false }, drag: { x: true, y: true, dist: 5 }, bind: { dblclick: () => () => this.unzoom() } },
      scales: { x: { time: false, range }, y: { range } },
      axes: [{ ...axis, size: 30, space: 70, values }, { ...axis, size: labelWidth, space: 40, values }],
      series: [null, ...made.series],
      hooks: {
        setSelect: [(u) => this.select(u)],
        draw: [(u) => this.ring(u)],
        ready: [(u) => this.hearPointer(u)],
      },
    };
  }
  dots(u, n, k) {
    const [xs, ys] = u.data[n], r = 3.2 * pxRatio(u), ctx = u.ctx, { bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = clear(k.paint, 0.72);
    xs.forEach((x, i) => {
      const cx = u.valToPos(x, "x", true), cy = u.valToPos(ys[i], "y", true);
      ctx.beginPath();
      ctx.arc(cx, cy, r, 0, 2 * Math.PI);
      ctx.fill();
    });
    ctx.restore();
    return null;
  }
  ring(u) {
    if (this.picked < 0) return;
    const ctx = u.ctx, scale = pxRatio(u);
    ctx.save();
    ctx.strokeStyle = css("--text");
    ctx.lineWidth = 2 * scale;
    ctx.beginPath();
    ctx.arc(u.valToPos(this.data.x[this.picked], "x", true), u.valToPos(this.data.y[this.picked], "y", true), 6 * scale, 0, 2 * Math.PI);
    ctx.stroke();
    ctx.restore();
  }
  hearPointer(u) {
    u.over.addEventListener("pointermove", (ev) => { if (!ev.buttons) this.mark(this.nearest(u, ev)); });
    u.over.addEventListener("pointerleave", () => this.mark(-1));
    u.over.addEventListener("click", (ev) => {
      const i = this.nearest(u, ev);
      if (i >= 0 && this.options.onpick) this.options.onpick(i);
    });
  }
  nearest(u, ev) {
    const box = u.over.getBoundingClientRect(), px = ev.clientX - box.left, py = ev.clientY - box.top;
    let best = -1, least = 18 ** 2;
    for (const i of this.order) {
      const d = (u.valToPos(this.data.x[i], "x") - px) ** 2 + (u.valToPos(this.data.y[i], "y") - py) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }
  mark(i) {
    if (i === this.picked) return;
    this.picked = i;
    this.plot.redraw(false);
    this.showValues();
  }
  leave() { if (this.plot) this.mark(-1); }
  select(u) {
    const { left, top, width, height } = u.select;
    if (!(width > 0 && height > 0)) return;
    this.view = { x: { min: u.posToVal(left, "x"), max: u.posToVal(left + width, "x") }, y: { min: u.posToVal(top + height, "y"), max: u.posToVal(top, "y") } };
    this.setZoomed(true);
  }
  frame() { if (this.zoomed) for (const axis of ["x", "y"]) this.plot.setScale(axis, this.view[axis]); }
  unzoom() {
    this.setZoomed(false);
    if (this.plot) this.plot.setData(this.made.columns, true);
  }
  draw() {
    this.sig = ""; // what a series draws is in its paths
    super.draw();
  }
  showValues() {
    if (!this.vals) return;
    setText(this.at, this.picked < 0 ? `${int(this.order.length)} points` : short40(str(this.data.label(this.picked))));
    for (const k of this.made.keys) setText(this.vals.get(k.id), k.text());
  }
  describe() { return `${this.options.title}, ${int(this.order.length)} points. ${this.made.keys.map((k) => `${k.label}: ${k.text()}`).join("; ")}.`; }
  /** The points that keys go through: those inside the zoom. */
  inView() {
    if (!this.zoomed) return this.order;
    const { x, y } = this.view, within = (v, s) => v >= s.min && v <= s.max;
    return this.order.filter((i) => within(this.data.x[i], x) && within(this.data.y[i], y));
  }
  onKey(ev) {
    if (!this.plot || ev.ctrlKey || ev.metaKey || ev.altKey) return;
    const order = this.inView(), step = ev.shiftKey ? 10 : 1, last = order.length - 1;
    let at = order.indexOf(this.picked);
    if (ev.key === "ArrowLeft" || ev.key === "ArrowUp") at = Math.max(0, at - step);
    else if (ev.key === "ArrowRight" || ev.key === "ArrowDown") at = Math.min(last, at + step);
    else if (ev.key === "Home") at = 0;
    else if (ev.key === "End") at = last;
    else if (ev.key === "Enter" && at >= 0 && this.options.onpick) return this.options.onpick(this.picked);
    else if (ev.key === "0" || (ev.key === "Escape" && this.zoomed)) { ev.preventDefault(); return this.unzoom(); }
    else return;
    ev.preventDefault();
    if (last < 0) return;
    this.mark(order[at]);
    say(str(this.data.label(this.picked)));
  }
  csvRows() { return [["x", "y", "group", "label"], ...this.data.x.map((x, i) => [x, this.data.y[i], this.data.groups[this.data.group[i]], this.data.label(i)])]; }
}
