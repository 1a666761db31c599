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
//   onThemeChange()                  draws all charts anew (layout.js calls it)
//   saveFile(name, type, body)       download
//   csvText(rows)                    rows of cells as CSV; a cell that a spreadsheet would run as a formula gets a '
//
// Values that are null or not finite are gaps. Colours are names of custom properties such as "--ours".

import { assign, Chart, clear, colourOf, COLOURS, dashes, FONT, inkOn, labelWidth, mix, paint, pxRatio, shorten, slotOf, spread, yRanges } from "./chart_base.js";
import { css, isNum, say, setText, str } from "./dom.js";
import { int, pct } from "./format.js";

export { csvText, onThemeChange, saveFile } from "./chart_base.js";

const LINES = 8; // more are hard to tell apart
const POINTS_MAX = 5000;

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
  const shown = own.sort((a, b) => slotOf(a.id) - slotOf(b.id)).map((s) => ({ ...s, colour: colourOf(s.id) }));
  if (others && total(others) > 0) rest.push({ values: clean(others), many: true });
  if (!rest.length) return shown;
  const values = rest[0].values.map((_, i) => rest.reduce((t, s) => t + (isNum(s.values[i]) ? s.values[i] : 0), 0));
  const label = rest.some((s) => s.many) ? "all others" : `${rest.length} more`;
  return [...shown, { id: "\u0000others", label, values, colour: "--s-other" }];
}

// ---------------------------------------------------------------- points

export class ScatterChart extends Chart {
  constructor(name, options) { super(name, { y: "auto", ...options }); this.picked = -1; }
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
    setText(this.at, this.picked < 0 ? `${int(this.order.length)} points` : shorten(str(this.data.label(this.picked))));
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
