// The overview's charts, from /v1/history (buckets of time) and /v1/regret (rounds of all time).
//
//   drawHistory(history, {from, to})   all charts but the curve of all time
//   drawRegret(report)                 the curve of all time with its references, over rounds
//   noteCharts(text, button)           words in place of the charts that have nothing to show

import { LineChart, StackChart } from "./chart.js";
import { isNum, list, rec, str } from "./dom.js";
import { F3, score3, short, usd } from "./format.js";

const empty = "No rounds in this time.";
const regret = new LineChart("regret", { title: "Cumulative regret", axis: "time", empty });
const recent = new LineChart("window", { title: "Regret a round", axis: "time", format: (x) => (isNum(x) ? F3.format(x) : "–"), empty });
const scores = new LineChart("score", { title: "Score and reward", axis: "time", format: score3, y: "auto", empty });
const cost = new LineChart("cost", { title: "Dollars", axis: "time", format: usd, tick: (x) => `$${short(x)}`, empty });
const arms = new StackChart("arms", { title: "Share of each arm", axis: "time", empty });
const modes = new StackChart("modes", { title: "Share of each mode", axis: "time", empty });

export function noteCharts(text, button) {
  for (const c of [regret, recent, scores, cost, arms, modes]) if (!c.data) c.note(text, button && button());
}

const per = (sum, n) => (isNum(sum) && n > 0 ? sum / n : null);
const column = (points, name, i) => points.map((p) => list(p[name])[i]);
const named = (points, field, names) => list(names).map((name, i) => ({ id: str(name), label: str(name), values: column(points, field, i) }));

export function drawHistory(history, { from, to, curve }) {
  const points = list(history.points).filter((p) => p && isNum(p.at_ms));
  const x = points.map((p) => p.at_ms), gap = history.width_ms > 0 ? history.width_ms : undefined;
  const xRange = isNum(from) && isNum(to) ? [Math.min(from, ...x.slice(0, 1)), Math.max(to, ...x.slice(-1))] : undefined;
  const probes = { label: "Audit probes", values: points.map((p) => p.probes || 0) };
  if (curve) drawCurve(history, points, xRange, probes);
  recent.update({ x, gap, xRange, marks: probes, series: [{ id: "regret", label: "Regret a round", colour: "--ours", values: points.map((p) => per(p.regret, p.rounds)) }] });
  scores.update({ x, gap, xRange, series: [
    { id: "score", label: "Score", colour: "--s2", values: points.map((p) => per(p.score, p.rounds)) },
    { id: "reward", label: "Reward", colour: "--s5", dash: "6 4", values: points.map((p) => per(p.reward, p.rounds)) },
  ] });
  cost.update({ x, gap, xRange, series: [{ id: "cost", label: "Dollars", colour: "--s1", values: points.map((p) => p.cost_usd) }] });
  arms.update({ x, gap, xRange, series: named(points, "arms", history.arms), others: points.map((p) => p.others || 0) });
  modes.update({ x, gap, xRange, series: named(points, "modes", history.modes) });
}

/** Regret summed from before the first bucket on; each sum stands at its bucket's end. */
function drawCurve(history, points, xRange, probes) {
  const before = rec(history.before).regret;
  let sum = isNum(before) ? before : 0;
  const x = points.map((p) => p.at_ms + (history.width_ms || 0)), values = points.map((p) => (sum += isNum(p.regret) ? p.regret : 0));
  const marks = { ...probes, values: probes.values.slice() };
  if (points.length && x[0] > history.from_ms) {
    x.unshift(Math.max(history.from_ms, points[0].at_ms));
    values.unshift(isNum(before) ? before : 0);
    marks.values.unshift(0);
  }
  regret.update({ axis: "time", x, xRange, marks, series: [{ id: "cum_regret", label: "Pointsman", colour: "--ours", width: 2.5, values }] });
}

export function drawRegret(report) {
  const points = list(report.series).filter((p) => p && isNum(p.round));
  const all = [
    { id: "cum_regret", label: "Pointsman", colour: "--ours", width: 2.5 },
    { id: "uniform", label: "Uniform", colour: "--uniform", dash: "6 4", width: 1.6 },
    { id: "best_fixed", label: "Best fixed arm", colour: "--fixed", dash: "9 3 2 3", width: 1.6 },
  ].map((s) => ({ ...s, values: points.map((p) => p[s.id]) }));
  regret.update({ axis: "rounds", x: points.map((p) => p.round), series: all.filter((s) => s.id === "cum_regret" || s.values.some(isNum)) });
}
