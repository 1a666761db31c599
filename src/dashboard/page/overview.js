// The overview: alerts, headline figures, charts over time, domains. Figures are pushed; charts are fetched again while
// something changes, but not often.

import { getJson, hasKey, HttpError, isUnknown, needsKey, problemText } from "./api.js";
import { $, h, isNum, list, rec, say, setText, store, str } from "./dom.js";
import { amount, F1, F3, int, pct, plural, score3, span, usd } from "./format.js";
import { figures, load, setState, ticker } from "./layout.js";
import { drawHistory, drawRegret, noteCharts } from "./overview_charts.js";
import { drawDomains, drawMeasures } from "./overview_tables.js";
import { onQuery, pageLink, query, range, rangeFrom, RANGES, setQuery } from "./url.js";

const CHARTS_EVERY_MS = 10000;
const DOMAIN_EVERY_MS = 5000; // figures of one domain are not pushed
const WINDOW_EVERY_MS = 30000; // a range's start moves on by itself
const REGRET_EVERY_MS = 60000; // where only the table of measures needs it
const CHARTS_TIMEOUT_MS = 20000;
const ALERTS_SHOWN = 3;
const ALERTS_HEIGHT = "pointsman.alerts-height";
const ARMS_LISTED = 100;
const DOMAINS_LISTED = 500;

// ---------------------------------------------------------------- figures

let shown = null; // the figures on the page
let rate = null; // rounds a second, smoothed

const page = load(async (signal) => {
  const domain = query("domain");
  $("unknown").hidden = true;
  if (!domain) {
    await figures.refresh(signal);
    return stateOf(shown);
  }
  try {
    const d = rec(await getJson(`/v1/overview?domain=${encodeURIComponent(domain)}`, signal));
    if (!figures.last) await figures.refresh(signal);
    if (query("domain") === domain) show(d);
  } catch (e) {
    if (!isUnknown(e)) throw e;
    $("unknown").hidden = false;
    setText($("unknown-title"), `This daemon knows no domain “${domain.slice(0, 80)}”`);
    return "error";
  }
  return stateOf(shown);
});
figures.on((d) => {
  fillDomains(d);
  drawAlerts(d);
  drawDemo(d);
  if (!query("domain")) show(d);
});
ticker(() => { if (query("domain") && !page.fails) page.run(); }, DOMAIN_EVERY_MS);

const stateOf = (d) => (d && d.rounds > 0 ? "ready" : "empty");

function show(d) {
  measureRate(d);
  const changed = !shown || shown.rounds !== d.rounds;
  shown = d;
  setState(stateOf(d));
  if (!(d.rounds > 0)) return drawEmpty();
  drawTiles(d);
  drawDomains(d);
  if (changed) chartsSoon();
}

function measureRate(d) {
  if (!shown || !isNum(d.at_ms) || !isNum(shown.at_ms) || !isNum(d.rounds)) return;
  const dt = (d.at_ms - shown.at_ms) / 1000, dr = d.rounds - shown.rounds;
  if (dr < 0) rate = null;
  else if (dt > 0.2) rate = rate === null ? dr / dt : 0.6 * rate + 0.4 * (dr / dt);
}

function drawEmpty() {
  const body = '{"prompt": "What is 17 * 23? Answer with the number."}';
  setText($("empty-curl"), [
    `curl -s ${location.origin}/v1/tasks`,
    ...(hasKey() ? ['  -H "authorization: Bearer $POINTSMAN_KEY"'] : []),
    "  -H 'content-type: application/json'",
    `  -d '${body}'`,
  ].join(" \\\n"));
}

function drawDemo(d) {
  const p = d.progress && isNum(d.progress.total) && d.progress.total > 0 ? d.progress : null;
  $("demo").hidden = !p;
  if (!p) return;
  setText($("demo-text"), p.done >= p.total ? `Demo done: ${int(p.total)} rounds` : `Demo: ${int(p.done)} of ${int(p.total)} rounds`);
  $("demo-bar").max = p.total;
  $("demo-bar").value = Math.min(p.total, Math.max(0, p.done));
}

// ---------------------------------------------------------------- tiles

function drawTiles(d) {
  const recent = rec(d.recent), lately = `over the last ${int(recent.rounds)} rounds`;
  setText($("n-rounds"), int(d.rounds));
  setText($("n-rounds-sub"), [rateText(), d.failures > 0 ? `${int(d.failures)} without an answer` : ""].filter(Boolean).join("; "));
  setText($("n-kind"), str(d.kind));
  setText($("n-regret"), amount(d.cum_regret));
  setText($("n-regret-sub"), regretText(d));
  setText($("n-recent"), isNum(recent.regret_per_round) ? F3.format(recent.regret_per_round) : "–");
  setText($("n-recent-sub"), isNum(recent.regret_per_round) ? lately : "too little is known yet");
  setText($("n-score"), score3(d.score_mean));
  setText($("n-score-sub"), isNum(recent.score_mean) ? `${score3(recent.score_mean)} ${lately}` : "0 is wrong, 1 is right");
  setText($("n-reward"), amount(d.reward_sum));
  setText($("n-reward-sub"), isNum(recent.reward_mean) ? `${score3(recent.reward_mean)} a round ${lately}` : "score less the weighted cost");
  setText($("n-cost"), usd(d.cost_usd));
  setText($("n-cost-sub"), isNum(d.cost_usd) ? `${usd((d.cost_usd / d.rounds) * 1000)} per 1,000 rounds` : "");
  const saved = rec(d.saved);
  drawSaved("best", saved.best_fixed, "the arm that does best");
  drawSaved("dearest", saved.dearest, "the arm that costs most");
}

function rateText() {
  if (rate === null) return `${plural(list(shown.arms).length, "arm", "arms")}, ${plural(list(shown.domains).length, "domain", "domains")}`;
  return rate > 0 && rate < 0.1 ? "less than one in ten seconds" : `${F1.format(rate)} a second`;
}

function regretText(d) {
  const all = d.regret_interval;
  if (d.kind === "exact") return "best expected reward minus the expected reward got";
  if (!all || !isNum(all.low) || !isNum(all.high)) return "an estimate; its interval is not known yet";
  return `95% interval ${amount(all.low)} to ${amount(all.high)}${all.rounds !== d.rounds ? `, of ${int(all.rounds)} rounds` : ""}`;
}

function drawSaved(id, saved, what) {
  const known = saved && isNum(saved.saved_usd);
  setText($(`n-saved-${id}`), known ? usd(saved.saved_usd) : "–");
  const arms = Object.entries(rec(saved && saved.arms)), names = new Set(arms.map(([, arm]) => str(arm)));
  const against = names.size === 1 ? [...names][0].slice(0, 60) : what;
  setText($(`n-saved-${id}-sub`), !known ? "not known yet" : `always ${against} would have cost ${usd(saved.cost_usd)}`);
  const box = $(`saved-${id}-arms`);
  box.classList.toggle("unseen", !known || names.size < 2);
  const rows = arms.slice(0, ARMS_LISTED).map(([domain, arm]) => `${domain}: ${str(arm)}`);
  if (arms.length > rows.length) rows.push(`and ${int(arms.length - rows.length)} more domains`);
  const ul = box.querySelector("ul"), sig = rows.join("\n");
  if (ul.dataset.sig === sig) return;
  ul.dataset.sig = sig;
  ul.replaceChildren(...rows.map((text) => h("li", {}, text)));
}

// ---------------------------------------------------------------- alerts

const MEND = {
  breaker_open: (a) => [pageLink("decisions", "", { arm: a.subject, status: "failed" }), "See its failed decisions"],
  quarantined: (a) => [pageLink("decisions", "", { arm: a.subject }), "See its decisions"],
  // One that all domains share has no page of its own.
  verifier_failing: (a) => [pageLink("domains", a.domain), a.domain ? "Open its verifiers" : "Open the domains"],
  share_collapse: (a) => [pageLink("domains", a.domain), "Open the domain"],
  memory_behind: () => [pageLink("memory"), "Open memory"],
  learner_stopped: () => [pageLink("policies"), "Open policies"],
  budget_near: (a) => [pageLink("decisions", "", { domain: a.domain }), "See the newest decisions"],
};

/** A sign whose shape, not only its colour, says how bad it is. */
function sign(error) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", error ? "M6.5 1.5h7l5 5v7l-5 5h-7l-5-5v-7zM10 5.5v5.5M10 14v.6" : "M10 2L19 18H1zM10 7.5v5M10 15v.6");
  svg.append(path);
  return svg;
}

function alertRow(a) {
  const error = a.severity === "error";
  const mend = Object.hasOwn(MEND, str(a.kind)) ? MEND[a.kind]({ subject: str(a.subject), domain: str(a.domain) }) : null;
  const text = str(a.text) || [str(a.kind).replaceAll("_", " "), str(a.subject), str(a.domain)].filter(Boolean).join(", ");
  return h("li", { class: `alert ${error ? "is-error" : "is-warning"}`, "data-kind": str(a.kind) }, sign(error),
    h("p", {}, h("b", {}, error ? "Error: " : "Warning: "), text.slice(0, 400)), mend && h("a", { href: mend[0] }, mend[1]));
}

let alertsDrawn = "";
$("alerts").style.minHeight = `${Number(store("sessionStorage", ALERTS_HEIGHT)) || 0}px`; // room for as many as last time
function drawAlerts(d) {
  const alerts = list(d.alerts).map(rec).sort((a, b) => Number(b.severity === "error") - Number(a.severity === "error"));
  const sig = JSON.stringify(alerts);
  setText($("alerts-none"), "Nothing needs attention.");
  $("alerts-none").hidden = alerts.length > 0;
  if (sig === alertsDrawn) return; // they are read while figures come in
  alertsDrawn = sig;
  const rest = alerts.slice(ALERTS_SHOWN, ALERTS_SHOWN + ARMS_LISTED), left = alerts.length - ALERTS_SHOWN - rest.length;
  $("alerts").style.minHeight = "";
  $("alerts-list").replaceChildren(...alerts.slice(0, ALERTS_SHOWN).map(alertRow));
  $("alerts-rest").replaceChildren(...rest.map(alertRow), ...(left > 0 ? [h("li", { class: "alert" }, `and ${int(left)} more`)] : []));
  $("alerts-more").hidden = !rest.length;
  setText($("alerts-more-text"), plural(alerts.length - ALERTS_SHOWN, "more alert", "more alerts"));
  store("sessionStorage", ALERTS_HEIGHT, String($("alerts").offsetHeight));
}

// ---------------------------------------------------------------- domain and range

let domainsListed = "";
function fillDomains(d) {
  const chosen = query("domain");
  const names = list(d.domains).map((x) => str(x.domain)).filter(Boolean).slice(0, DOMAINS_LISTED).sort();
  if (chosen && !names.includes(chosen)) names.push(chosen);
  const sig = JSON.stringify([chosen, names]);
  if (sig === domainsListed) return;
  domainsListed = sig;
  $("domain").replaceChildren(h("option", { value: "" }, "All domains"), ...names.map((n) => h("option", { value: n }, n)));
  $("domain").value = chosen;
}

function readQuery() {
  for (const input of $("ranges").querySelectorAll("input")) input.checked = input.value === range();
  domainsListed = "";
  fillDomains(figures.last || {});
}
function changed(words) {
  shown = null;
  rate = null;
  page.run();
  chartsNow(true);
  say(words);
}
$("domain").addEventListener("change", () => {
  setQuery("domain", $("domain").value, true);
  changed(query("domain") ? `Only ${query("domain")}` : "All domains");
});
$("ranges").addEventListener("change", (ev) => {
  setQuery("range", ev.target.value === "all" ? "" : ev.target.value, true);
  chartsNow(true);
  say(`Charts of ${rangeText()}`);
});
$("unknown-all").addEventListener("click", () => { setQuery("domain", "", true); readQuery(); changed("All domains"); });
onQuery(() => { readQuery(); changed("The address changed"); });
const rangeText = () => (range() === "all" ? "all time" : `the last ${RANGES.find(([n]) => n === range())[1]}`);

// ---------------------------------------------------------------- charts

let chartsTimer = 0, chartsAt = -Infinity, chartsAbort = null;
function chartsSoon() {
  if (chartsTimer || chartsAbort || document.hidden) return;
  chartsTimer = setTimeout(() => chartsNow(false), Math.max(0, chartsAt + CHARTS_EVERY_MS - performance.now()));
}

async function chartsNow(anew) {
  clearTimeout(chartsTimer);
  chartsTimer = 0;
  if (chartsAbort) chartsAbort.abort();
  const mine = (chartsAbort = new AbortController());
  const timeout = setTimeout(() => mine.abort(), CHARTS_TIMEOUT_MS);
  chartsAt = performance.now();
  if (anew) setText($("charts-note"), `Loading the charts of ${rangeText()} …`);
  try {
    await fetchCharts(mine.signal);
  } catch (e) {
    if (chartsAbort === mine) chartsFailed(e);
  } finally {
    clearTimeout(timeout);
    if (chartsAbort === mine) chartsAbort = null;
  }
}

let regret = null, regretAt = -Infinity; // the last /v1/regret, and when it came
async function fetchCharts(signal) {
  const domain = query("domain"), to = figures.now(), from = rangeFrom(to);
  const ofRounds = !domain && from === null, fresh = performance.now() - regretAt < (ofRounds ? 0 : REGRET_EVERY_MS);
  const search = new URLSearchParams({ ...(domain && { domain }), ...(from && { from_ms: Math.floor(from), to_ms: Math.ceil(to) }) });
  const [history, report] = (await Promise.all([getJson(`/v1/history?${search}`, signal), fresh ? regret : getJson("/v1/regret", signal)])).map(rec);
  if (!fresh) [regret, regretAt] = [report, performance.now()];
  drawHistory(history, { from: from || undefined, to, curve: !ofRounds });
  if (ofRounds) drawRegret(report);
  drawMeasures(report, domain);
  setText($("regret-kind"), str(ofRounds ? report.kind : history.kind));
  if (str(report.method)) setText($("regret-method"), str(report.method).slice(0, 300));
  const width = isNum(history.width_ms) ? span(history.width_ms / 1000) : "";
  setText($("charts-note"), [`Charts of ${rangeText()}`, domain && `of ${domain}`, width && `a point is ${width}`].filter(Boolean).join(", "));
}

function chartsFailed(e) {
  if (needsKey(e) || isUnknown(e)) return; // the page's own notice says so
  if (!(e instanceof HttpError || e instanceof TypeError)) console.warn("charts:", e.message);
  const again = () => h("button", { type: "button", onclick: () => chartsNow(true) }, "Try again");
  setText($("charts-note"), `The charts could not be loaded. ${problemText(e)}`);
  noteCharts("Not loaded.", again);
  chartsTimer = setTimeout(() => chartsNow(false), CHARTS_EVERY_MS);
}

ticker(() => { if (range() !== "all") chartsSoon(); }, WINDOW_EVERY_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden && shown) chartsSoon(); });
readQuery();
chartsNow(true);
