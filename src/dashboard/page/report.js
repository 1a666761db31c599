// One saved replay report: for each section the policies in a table, their regret over the rounds, cost against score, and who
// did the work in each domain.

import { getJson, isUnknown } from "./api.js";
import { LineChart, ScatterChart } from "./chart.js";
import { $, bar, css, h, isNum, list, rec, setText, str } from "./dom.js";
import { amount, dateTime, F1, F2, int, pct, plural, score3, short, usd } from "./format.js";
import { load } from "./layout.js";
import { saveCsv, SortedTable } from "./tables.js";
import { pathPart } from "./url.js";

const ROWS_SHOWN = 60;
const DOMAINS_SHOWN = 60;
const ARMS_SHOWN = 12;
const CURVES = 7;
const LABELS_MAX = 24;
/** Less than this is what rounding leaves where all orders came out the same. */
const SD_LEAST = 0.005;
const KINDS = { replayed: "replayed", published: "published decisions", reference: "reference: knows the outcomes" };
/** It takes the best answer of each task, so that its curve is zero and its point is out of reach. */
const ORACLE = "oracle";

const name = pathPart();
setText($("report-title"), name);

load(async (signal) => {
  try {
    return show(rec(await getJson(`/v1/reports/${encodeURIComponent(name)}`, signal)));
  } catch (e) {
    if (!isUnknown(e)) throw e;
    setText($("empty-text"), e.message);
    return "empty";
  }
});

function show(d) {
  const title = str(d.title) || name, sections = list(d.sections).map(rec);
  document.title = `${title} · Pointsman`;
  setText($("report-title"), title);
  setText($("report-made"), isNum(d.created_ms) ? `made ${dateTime(d.created_ms)}` : "");
  $("contents").hidden = sections.length < 2;
  $("contents").replaceChildren(...sections.map((s, i) => h("a", { href: `#section-${i}` }, str(s.title) || `Section ${i + 1}`)));
  $("content").replaceChildren();
  sections.forEach(drawSection);
  if (sections.length) return "ready";
  setText($("empty-title"), "This report has no section");
  setText($("empty-text"), "Nothing was replayed for it.");
  return "empty";
}

function drawSection(section, i) {
  const id = `section-${i}`, rows = list(section.rows).map(rec), title = str(section.title) || `Section ${i + 1}`;
  const table = h("table", { class: "matrix list", id: `${id}-table` }, h("caption", {}, "Press a column's name to sort by it. Regret is the best reward on each task minus the reward got, summed; ± is the standard deviation between the orders."), h("thead"), h("tbody"));
  $("content").append(h("section", { class: "panel report-section", id, "aria-labelledby": `${id}-title` },
    h("div", { class: "panel-head" }, h("h2", { id: `${id}-title` }, title), h("button", { type: "button", class: "quiet", "aria-label": `Save the table of ${title} as CSV`, onclick: () => saveTable(title, rows) }, "CSV")),
    str(section.note) && h("p", { class: "note" }, str(section.note)),
    h("div", { class: "scroll inner", tabindex: 0, role: "region", "aria-label": `Policies of ${title}` }, table),
    h("div", { class: "charts" }, figure(`${id}-regret`, "Regret over the rounds"), figure(`${id}-cost`, "Cost against score")),
    h("div", { id: `${id}-shares` })));
  new SortedTable(table, { columns: COLUMNS, by: "regret", most: ROWS_SHOWN, rowAttrs: (r) => ({ class: r.kind === "reference" ? "reference" : null }) }).update(rows);
  drawCurves(`${id}-regret`, rows);
  drawCosts(`${id}-cost`, rows);
  drawShares(id, rows);
}

function figure(chart, title) {
  return h("div", { class: "figure" }, h("div", { class: "panel-head" }, h("h3", {}, title), h("div", { class: "tools", id: `${chart}-tools` })),
    h("div", { class: "readout", id: `${chart}-readout` }), h("div", { class: "chart", id: `${chart}-chart` }));
}

// ---------------------------------------------------------------- the table

const percent2 = (x) => (isNum(x) ? `${F2.format(x * 100)}%` : "–");
const COLUMNS = [
  { id: "policy", name: "Policy", class: "detail", value: (r) => str(r.policy), cell: (r) => [str(r.policy) || "–", h("span", { class: "cell-sub only-s" }, `${str(r.kind)}, ${usd(r.total_cost_usd)}`)] },
  { id: "kind", name: "Kind", class: "opt-s", value: (r) => str(r.kind), cell: (r) => h("span", { title: KINDS[r.kind] || null }, str(r.kind)) },
  { id: "score", name: "Mean score", class: "num", down: true, value: (r) => r.mean_score, cell: (r) => percent2(r.mean_score) },
  { id: "regret", name: "Regret", class: "num", value: (r) => r.cum_regret, cell: (r) => [amount(r.cum_regret), r.cum_regret_sd >= SD_LEAST && h("span", { class: "sd" }, ` ± ${amount(r.cum_regret_sd)}`)] },
  { id: "cost", name: "Dollars", class: "num opt-s", value: (r) => r.total_cost_usd, cell: (r) => usd(r.total_cost_usd) },
  { id: "attempts", name: "Attempts", class: "num opt-s", value: (r) => r.attempts_mean, cell: (r) => (isNum(r.attempts_mean) ? F2.format(r.attempts_mean) : "–") },
  { id: "orders", name: "Orders", class: "num opt-s", down: true, value: (r) => r.seeds, cell: (r) => int(r.seeds) },
  { id: "seconds", name: "Seconds", class: "num opt-s", down: true, value: (r) => r.seconds, cell: (r) => (r.seconds > 0 ? F1.format(r.seconds) : "–") },
];

function saveTable(title, rows) {
  const fields = ["dataset", "split", "policy", "kind", "n", "seeds", "mean_score", "cum_regret", "cum_regret_sd", "total_cost_usd", "attempts_mean", "seconds", "rule", "order", "protocol"];
  saveCsv(`${name}-${title}`, fields, rows.map((r) => fields.map((f) => r[f])));
}

// ---------------------------------------------------------------- regret over the rounds

const curveOf = (r) => list(r.curve).filter((p) => Array.isArray(p) && isNum(p[0]) && isNum(p[1])).sort((a, b) => a[0] - b[0]);

/** A curve's values at other rounds: between two of its points on the line that joins them. */
function at(curve, xs) {
  let i = 0;
  return xs.map((x) => {
    while (i + 1 < curve.length && curve[i + 1][0] <= x) i += 1;
    const [from, low] = curve[i], next = curve[i + 1];
    if (x < from) return null;
    if (x === from) return low;
    return next ? low + ((next[1] - low) * (x - from)) / (next[0] - from) : null;
  });
}

/** Names of policies may come twice, such as from two cards; each line has its own. */
function label(r, i, rows) {
  const same = rows.filter((other) => other.policy === r.policy);
  return same.length > 1 ? `${str(r.policy)} (${same.indexOf(r) + 1})` : str(r.policy) || `policy ${i + 1}`;
}

function drawCurves(id, rows) {
  const drawn = rows.map((r, i) => ({ label: label(r, i, rows), kind: r.kind, policy: r.policy, regret: r.cum_regret, curve: curveOf(r) }))
    .filter((r) => r.curve.length > 1 && r.kind !== "reference" && r.policy !== ORACLE).sort((a, b) => a.regret - b.regret);
  const shown = drawn.slice(0, CURVES), x = [...new Set(shown.flatMap((r) => r.curve.map(([round]) => round)))].sort((a, b) => a - b);
  const left = drawn.length - shown.length;
  const chart = new LineChart(id, { title: `Cumulative regret, mean over the orders${left > 0 ? `; the ${CURVES} lowest of ${drawn.length}` : ""}`, empty: "No policy of this section has a curve." });
  chart.update({ x, series: shown.map((r, i) => ({ id: r.label, label: r.label, colour: `--s${i}`, dash: i > 3 ? "6 4" : undefined, values: at(r.curve, x) })) });
  if (left > 0) $(`${id}-chart`).after(h("p", { class: "hint" }, `The ${CURVES} curves of the lowest regret are drawn; ${int(left)} more are in the table.`));
}

// ---------------------------------------------------------------- cost against score

const COST_HINT = "Dollars (logarithmic) against mean score. The dashed line joins those that no other beats in both.";

/** Dollars stand on a logarithmic axis, the points have their names, and a line joins those that none beats in both. */
class CostChart extends ScatterChart {
  uplotOptions(made) {
    const options = super.uplotOptions(made);
    options.axes[0].values = (u, v) => v.map((x) => dollars(10 ** x));
    options.axes[0].splits = (u, n, low, high) => dollarTicks(low, high);
    options.axes[1].values = (u, v) => v.map((x) => `${Math.round(x * 1000) / 10}%`);
    options.scales.x.range = (u, low, high) => (isNum(low) && isNum(high) ? [low - 0.12, high + 0.25] : [0, 1]);
    options.hooks.draw.unshift((u) => this.front(u), (u) => this.names(u));
    return options;
  }
  showValues() {
    super.showValues();
    setText($(`${this.name}-at`), this.picked < 0 ? COST_HINT : this.data.label(this.picked));
  }
  px(u, i) { return [u.valToPos(this.data.x[i], "x", true), u.valToPos(this.data.y[i], "y", true)]; }
  front(u) {
    const ctx = u.ctx, scale = devicePixelRatio || 1, { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.strokeStyle = css("--accent");
    ctx.lineWidth = 1.5 * scale;
    ctx.setLineDash([5 * scale, 4 * scale]);
    ctx.beginPath();
    for (const i of this.data.front) ctx.lineTo(...this.px(u, i));
    ctx.stroke();
    ctx.restore();
  }
  /** A name is left out where it would cover another one. */
  names(u) {
    const ctx = u.ctx, scale = devicePixelRatio || 1, taken = [], { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.font = `${11 * scale}px system-ui, sans-serif`;
    ctx.fillStyle = css("--text");
    ctx.strokeStyle = css("--surface");
    ctx.lineWidth = 3 * scale;
    ctx.lineJoin = "round";
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    for (const i of [...this.data.front, ...this.order].slice(0, 200)) {
      if (taken.length >= LABELS_MAX) break;
      const [x, y] = this.px(u, i), text = this.data.names[i].length > 28 ? `${this.data.names[i].slice(0, 27)}…` : this.data.names[i];
      const wide = ctx.measureText(text).width, flip = x + wide + 10 * scale > left + width, from = flip ? x - wide - 7 * scale : x + 7 * scale;
      const box = [from, y - 7 * scale, from + wide, y + 7 * scale];
      const hits = taken.some(([a, b, c, d]) => box[0] < c && box[2] > a && box[1] < d && box[3] > b);
      if (hits || box[0] < left || y < top || y > top + height || x < left) continue;
      taken.push(box);
      ctx.strokeText(text, from, y);
      ctx.fillText(text, from, y);
    }
    ctx.restore();
  }
}

const dollars = (x) => (x >= 0.01 ? `$${short(x)}` : usd(x));

/** Round sums in a range of their logarithms: the wider the range, the fewer to a power of ten. */
function dollarTicks(low, high) {
  const digits = high - low > 3 ? [1] : high - low > 0.9 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], ticks = [];
  for (let power = Math.floor(low); power <= high; power += 1) for (const digit of digits) ticks.push(power + Math.log10(digit));
  return ticks.filter((t) => t >= low && t <= high);
}

function drawCosts(id, rows) {
  const points = rows.map((r, i) => ({ name: label(r, i, rows), r })).filter(({ r }) => r.total_cost_usd > 0 && isNum(r.total_cost_usd) && isNum(r.mean_score));
  const groups = [...new Set(points.map(({ r }) => str(r.kind) || "other"))], front = [];
  const able = points.map((p, i) => ({ ...p, i })).filter(({ r }) => r.policy !== ORACLE).sort((a, b) => a.r.total_cost_usd - b.r.total_cost_usd || b.r.mean_score - a.r.mean_score);
  for (const p of able) if (!front.length || p.r.mean_score > points[front[front.length - 1]].r.mean_score) front.push(p.i);
  $(`${id}-chart`).after(h("p", { class: "hint", id: `${id}-at` }, COST_HINT));
  const chart = new CostChart(id, { title: "Cost against score", empty: "No policy of this section has a cost." });
  chart.update({
    x: points.map(({ r }) => Math.log10(r.total_cost_usd)), y: points.map(({ r }) => r.mean_score), group: points.map(({ r }) => groups.indexOf(str(r.kind) || "other")), groups, front,
    names: points.map((p) => p.name), label: (i) => `${points[i].name}: ${percent2(points[i].r.mean_score)}, ${usd(points[i].r.total_cost_usd)}, regret ${amount(points[i].r.cum_regret)}`,
  });
}

// ---------------------------------------------------------------- shares

function drawShares(id, rows) {
  const able = rows.filter((r) => Object.keys(rec(r.domains)).length).sort((a, b) => (a.kind === "reference") - (b.kind === "reference") || a.cum_regret - b.cum_regret);
  if (!able.length) return;
  const pick = h("select", { id: `${id}-policy` }, able.map((r, i) => h("option", { value: i }, `${label(r, i, able)} (${str(r.kind)})`)));
  const table = h("table", { class: "matrix", id: `${id}-share-table` }, h("caption", {}, "Share of each domain's rounds whose answer came from the arm."), h("thead"), h("tbody"));
  const fill = () => fillShares(table, able[Number(pick.value)]);
  pick.addEventListener("change", fill);
  $(`${id}-shares`).append(h("div", { class: "panel-head" }, h("h3", { id: `${id}-shares-title` }, "Who did the work"), h("div", { class: "tools" }, h("label", { for: `${id}-policy` }, "Policy"), pick)),
    h("div", { class: "scroll inner", tabindex: 0, role: "group", "aria-labelledby": `${id}-shares-title` }, table));
  fill();
}

function fillShares(table, r) {
  const domains = Object.entries(rec(r.domains)), total = new Map();
  for (const [, d] of domains) for (const [arm, s] of Object.entries(rec(rec(d).share_by_arm))) if (isNum(s)) total.set(arm, (total.get(arm) || 0) + s * (isNum(d.n) ? d.n : 1));
  const arms = [...total.keys()].sort((a, b) => total.get(b) - total.get(a)), own = arms.slice(0, ARMS_SHOWN), rest = arms.slice(ARMS_SHOWN);
  const head = ["Domain", "Score", "Regret", ...own, ...(rest.length ? [`${int(rest.length)} more`] : [])];
  table.tHead.replaceChildren(h("tr", {}, head.map((text, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "num" : null }, text))));
  table.tBodies[0].replaceChildren(...domains.slice(0, DOMAINS_SHOWN).map(([domain, x]) => {
    const d = rec(x), shares = rec(d.share_by_arm), of = (arm) => (Object.hasOwn(shares, arm) && isNum(shares[arm]) ? shares[arm] : 0);
    const top = Math.max(...own.map(of));
    return h("tr", {}, h("th", { scope: "row" }, domain, h("span", { class: "cell-sub" }, plural(d.n, "round", "rounds"))), h("td", { class: "num" }, score3(d.mean_score)), h("td", { class: "num" }, amount(d.cum_regret)),
      own.map((arm) => shareCell(of(arm), of(arm) === top)), rest.length > 0 && shareCell(rest.reduce((t, arm) => t + of(arm), 0), false));
  }));
  if (domains.length > DOMAINS_SHOWN) table.tBodies[0].append(h("tr", {}, h("td", { colspan: head.length, class: "none" }, `${int(domains.length - DOMAINS_SHOWN)} more domains are not shown.`)));
}

function shareCell(share, isTop) {
  if (!(share > 0)) return h("td", { class: "cell none" }, "–");
  return h("td", { class: isTop ? "cell is-best" : "cell" }, h("div", { class: "cell-top" }, h("b", {}, pct(share))), bar(share));
}
