// One domain: what is believed of each arm, its verifiers and their changes, and how score, regret and votes went.

import { getJson, isUnknown, problemText } from "./api.js";
import { LineChart } from "./chart.js";
import { $, bar, clamp01, h, isNum, list, rec, setText, str } from "./dom.js";
import { amount, int, pct, plural, prob, score, score3, usd } from "./format.js";
import { load, ticker } from "./layout.js";
import { saveCsv, SortedTable } from "./tables.js";
import { onQuery, pageLink, pathPart, query, range, rangeFrom, RANGES, setQuery } from "./url.js";
import { Changes, verifierCard } from "./verifiers.js";

const EVERY_MS = 10000;
const HISTORY_EVERY_MS = 60000;
const ARMS_SHOWN = 40;

const domain = pathPart();
const path = `/v1/domains/${encodeURIComponent(domain)}`;
let arms = [], inherits = false;

setText($("domain-name"), domain || "(no name)");
document.title = `${domain} · Pointsman`;
$("to-decisions").href = pageLink("decisions", "", { domain });

const loader = load(async (signal) => {
  try {
    return show(rec(await getJson(path, signal)));
  } catch (e) {
    if (!isUnknown(e)) throw e;
    setText($("empty-text"), e.message);
    return "empty";
  }
});
ticker(() => loader.run(), EVERY_MS);

function show(d) {
  drawTiles(d);
  drawArms(list(d.arms).map(rec));
  drawVerifiers(list(d.verifiers).map((v) => ({ ...rec(v), inherited: d.inherited === true })));
  drawWeights(rec(d.weights));
}

// ---------------------------------------------------------------- figures

function drawTiles(d) {
  const some = isNum(d.rounds) && d.rounds > 0, interval = rec(d.regret_interval);
  setText($("n-rounds"), int(d.rounds));
  setText($("n-rounds-sub"), some ? plural(list(d.arms).length, "arm", "arms") : "none yet");
  setText($("n-kind"), d.kind === "exact" || d.kind === "estimated" ? d.kind : "");
  setText($("n-regret"), amount(d.cum_regret));
  setText($("n-regret-sub"), isNum(interval.low) && isNum(interval.high) ? `${amount(interval.low)} to ${amount(interval.high)} with 95%` : "best reward available minus the reward got");
  setText($("n-score"), score3(d.score_mean));
  setText($("n-score-sub"), isNum(d.reward_mean) ? `reward ${score3(d.reward_mean)} a round` : "");
  setText($("n-cost"), usd(d.cost_usd));
  setText($("n-cost-sub"), some && isNum(d.cost_usd) ? `${usd((d.cost_usd / d.rounds) * 1000)} per 1,000 rounds` : "");
}

// ---------------------------------------------------------------- arms

const posterior = (a) => rec(a.posterior);
let scale = [0, 1]; // what the whiskers' ends stand for
const armTable = new SortedTable($("arms"), {
  by: "mean", most: ARMS_SHOWN, rowAttrs: (a) => ({ "data-arm": str(a.arm) }),
  columns: [
    { id: "arm", name: "Arm", value: (a) => str(a.arm), cell: armName },
    { id: "belief", name: "Reward believed", class: "cell", cell: (a) => whisker(posterior(a)) },
    { id: "mean", name: "Mean", class: "num", down: true, value: (a) => posterior(a).mean, cell: (a) => score3(posterior(a).mean) },
    { id: "interval", name: "Interval", class: "num opt-s", cell: (a) => intervalText(posterior(a)) },
    { id: "share", name: "Share lately", class: "opt-s", down: true, value: (a) => a.share_recent, cell: (a) => [pct(a.share_recent), bar(a.share_recent)] },
    { id: "rounds", name: "Rounds", class: "num opt-s", down: true, value: (a) => a.rounds, cell: (a) => int(a.rounds) },
    { id: "score", name: "Score", class: "num opt-s", down: true, value: (a) => a.score_mean, cell: (a) => score(a.score_mean) },
    { id: "cost", name: "Cost a round", class: "num opt-s", down: true, value: (a) => a.cost_mean_usd, cell: (a) => usd(a.cost_mean_usd) },
  ],
});

function armName(a) {
  const state = str(a.state);
  return [str(a.arm) || "(no name)", a.best === true && h("span", { class: "best" }, "best"), state && state !== "active" && h("span", { class: "state bad" }, state),
    h("span", { class: "cell-sub only-s" }, `${int(a.rounds)} rounds, ${pct(a.share_recent)} lately`)];
}
const intervalText = (p) => (isNum(p.low) && isNum(p.high) ? `${score3(p.low)} to ${score3(p.high)}` : "–");

function whisker(p) {
  if (!isNum(p.mean)) return h("span", { class: "none" }, "nothing is believed yet");
  const [from, to] = scale, at = (x) => `${(clamp01((x - from) / (to - from)) * 100).toFixed(2)}%`;
  const dot = h("i", { class: "dot-at" }), zero = h("i", { class: "zero" }), parts = [dot];
  dot.style.left = at(p.mean);
  if (isNum(p.low) && isNum(p.high)) {
    const line = h("i", { class: "span" });
    line.style.left = at(p.low);
    line.style.right = `calc(100% - ${at(p.high)})`;
    parts.unshift(line);
  }
  if (from < 0 && to > 0) {
    zero.style.left = at(0);
    parts.unshift(zero);
  }
  return [h("div", { class: "whisker", "aria-hidden": "true" }, parts), h("div", { class: "cell-sub only-s" }, intervalText(p))];
}

function drawArms(now) {
  arms = now;
  const ends = arms.map(posterior).flatMap((p) => [p.low, p.mean, p.high]).filter(isNum);
  const low = ends.reduce((a, b) => Math.min(a, b), Infinity), high = ends.reduce((a, b) => Math.max(a, b), -Infinity);
  const pad = (high - low) * 0.03 || 0.05;
  scale = ends.length ? [low - pad, high + pad] : [0, 1];
  setText($("arms-scale"), ends.length ? `, from ${score3(low)} to ${score3(high)}` : "");
  const idle = arms.filter((a) => str(a.state) && a.state !== "active");
  setText($("arms-note"), idle.length ? `${plural(idle.length, "arm is", "arms are")} not chosen now.` : "");
  armTable.update(arms);
}

$("arms-csv").addEventListener("click", () => saveCsv(`arms-${domain}`, ["arm", "state", "posterior_mean", "posterior_low", "posterior_high", "share", "share_recent", "rounds", "score_mean", "cost_mean_usd"],
  armTable.sorted().map((a) => [a.arm, a.state, posterior(a).mean, posterior(a).low, posterior(a).high, a.share, a.share_recent, a.rounds, a.score_mean, a.cost_mean_usd])));

// ---------------------------------------------------------------- verifiers

const changes = new Changes(domain, () => loader.run());

function drawVerifiers(verifiers) {
  const judging = verifiers.filter((v) => v.removed !== true);
  inherits = judging.length > 0 && judging.every((v) => v.inherited === true);
  const cards = judging.concat(verifiers.filter((v) => v.removed === true)).map((v) => verifierCard(v, changes));
  const sentence = "They look at each answer and say how good it is; what they say together is the score.";
  const whose = inherits ? " This set is inherited: it is the one of all domains without a set of their own." : "";
  setText($("verifiers-note"), `${sentence}${whose} A change needs the admin key where the daemon has one.`);
  replaceKeepingFocus($("verifiers"), cards.length ? cards : [h("li", { class: "muted" }, "No verifier judged this domain yet.")]);
}

function replaceKeepingFocus(parent, children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren(...children);
  const again = key && [...parent.querySelectorAll("[data-key]")].find((el) => el.dataset.key === key);
  if (again) again.focus({ preventScroll: true });
}

$("verifier-add").addEventListener("click", () => changes.install(inherits));

// ---------------------------------------------------------------- over time

const scoreChart = new LineChart("score", { title: "Mean score over time", axis: "time", y: "unit", format: score3, empty: "No round in this range." });
const regretChart = new LineChart("regret", { title: "Cumulative regret over time", axis: "time", empty: "No round in this range." });

function drawHistory(d) {
  const points = list(d.points).map(rec).filter((p) => isNum(p.at_ms)).sort((a, b) => a.at_ms - b.at_ms);
  const gap = isNum(d.width_ms) ? d.width_ms : undefined, x = points.map((p) => p.at_ms);
  const xRange = x.length && isNum(d.from_ms) && isNum(d.to_ms) && d.to_ms > d.from_ms ? [Math.min(d.from_ms, x[0]), Math.max(d.to_ms, x[x.length - 1])] : undefined;
  const scored = points.filter((p) => p.rounds > 0 && isNum(p.score));
  scoreChart.update({ x: scored.map((p) => p.at_ms), gap, xRange, series: [{ id: "score", label: "Mean score", colour: "--ours", values: scored.map((p) => p.score / p.rounds) }] });
  let total = isNum(rec(d.before).regret) ? d.before.regret : 0;
  const regret = points.map((p) => (total += isNum(p.regret) ? p.regret : 0));
  regretChart.update({ x, gap, xRange, series: [{ id: "regret", label: "Cumulative regret", colour: "--ours", width: 2.5, values: regret }], marks: { label: "Probes", values: points.map((p) => p.probes) } });
  setText($("range-note"), gap ? `One point is ${words(gap)}.` : "");
}
const words = (ms) => (ms >= 86400e3 ? plural(Math.round(ms / 86400e3), "day", "days") : ms >= 3600e3 ? plural(Math.round(ms / 3600e3), "hour", "hours") : ms >= 60e3 ? plural(Math.round(ms / 60e3), "minute", "minutes") : plural(Math.round(ms / 1000), "second", "seconds"));

let reading = null;
async function readHistory() {
  if (reading) reading.abort();
  const mine = (reading = new AbortController()), from = rangeFrom();
  const search = new URLSearchParams({ domain, ...(from === null ? {} : { from_ms: String(from) }) });
  try {
    drawHistory(rec(await getJson(`/v1/history?${search}`, mine.signal)));
  } catch (e) {
    if (reading !== mine) return;
    for (const chart of [scoreChart, regretChart]) chart.note(`The history could not be read. ${problemText(e)}`, h("button", { type: "button", onclick: readHistory }, "Try again"));
  }
}

$("range").replaceChildren(...RANGES.map(([name, text]) => h("option", { value: name }, name === "all" ? text : `last ${text}`)));
const showRange = () => { $("range").value = range(); };
$("range").addEventListener("change", () => {
  setQuery("range", $("range").value === "all" ? "" : $("range").value);
  readHistory();
});
onQuery(() => {
  showRange();
  showAxis();
  readHistory();
});
showRange();
readHistory();
ticker(readHistory, HISTORY_EVERY_MS);

// ---------------------------------------------------------------- voters

const weightsChart = new LineChart("weights", { title: "Voters' weights", y: "unit", format: prob, empty: "The policy that decides has no voters, or has not learnt from a round of this domain yet." });
let weights = {};

function drawWeights(d) {
  weights = d;
  const names = list(d.policies).map(str), time = query("by") === "time";
  const at = (p) => (time ? p.at_ms : p.round);
  const points = list(d.points).map(rec).filter((p) => isNum(at(p))).sort((a, b) => at(a) - at(b));
  weightsChart.options.axis = time ? "time" : "rounds";
  weightsChart.update({
    x: points.map(at),
    series: names.map((name, i) => ({ id: name, label: name, dash: ["", "6 4", "9 3 2 3", "2 3"][Math.floor(i / 2) % 4] || undefined, values: points.map((p) => list(p.weights)[i]) })),
  });
}
function showAxis() {
  $("weights-by").value = query("by") === "time" ? "time" : "";
  weightsChart.sig = ""; // another axis is another chart
  drawWeights(weights);
}
$("weights-by").addEventListener("change", () => {
  setQuery("by", $("weights-by").value);
  showAxis();
});
$("weights-by").value = query("by") === "time" ? "time" : "";
