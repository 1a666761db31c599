// The overview's tables: domains with their arms, and every figure of regret with its interval.
//
//   drawDomains(figures)             figures: /v1/overview
//   drawMeasures(report, domain)     report: /v1/regret; domain: "" for all

import { $, bar, clamp01, fillTable, h, isNum, list, MAX_ITEMS, rec, setText, str } from "./dom.js";
import { amount, F4, int, pct, plural, score, usd } from "./format.js";
import { pageLink, query } from "./url.js";

const ARMS_MAX = 7; // columns; further arms are counted

function armCell(a) {
  if (!a || !(a.rounds > 0)) return h("td", { class: "cell none" }, "not used");
  const best = a.best === true;
  return h("td", { class: best ? "cell is-best" : "cell" },
    h("div", { class: "cell-top" }, h("b", {}, pct(a.share_recent)), best && h("span", { class: "best" }, "best")),
    bar(a.share_recent),
    h("div", { class: "cell-sub" }, `score ${score(a.score_mean)}, n ${int(a.rounds)}`));
}

/** The busiest arms, in the daemon's order. */
function busiest(arms) {
  const keep = new Set(list(arms).slice().sort((a, b) => (b.rounds || 0) - (a.rounds || 0)).slice(0, ARMS_MAX));
  return list(arms).filter((a) => keep.has(a));
}

function restCell(arms, columns) {
  const rest = list(arms).filter((a) => !columns.has(str(a.arm)) && a.rounds > 0);
  const share = rest.reduce((t, a) => t + (isNum(a.share_recent) ? a.share_recent : 0), 0);
  return h("td", { class: "cell none" }, rest.length ? `${plural(rest.length, "arm", "arms")}, ${pct(share)}` : "none");
}

export function drawDomains(d) {
  const shown = busiest(d.arms), columns = new Set(shown.map((a) => str(a.arm)));
  const more = list(d.arms).length > shown.length;
  const state = (a) => a.state && a.state !== "active" && h("span", { class: "tag" }, str(a.state));
  const head = h("tr", {}, h("th", { scope: "col" }, "Domain"), h("th", { scope: "col", class: "num opt-s" }, "Rounds"), h("th", { scope: "col", class: "num" }, "Score"),
    h("th", { scope: "col", class: "num opt-s" }, "Regret"), shown.map((a) => h("th", { scope: "col" }, h("span", { class: "cut" }, str(a.arm)), state(a))), more && h("th", { scope: "col" }, "Other arms"));
  const row = (x, name, cls) => {
    const byArm = new Map(list(x.arms).map((a) => [str(a.arm), a]));
    const small = h("span", { class: "cell-sub only-s" }, `${int(x.rounds)} rounds, regret ${amount(x.cum_regret)}`); // narrow screens
    return h("tr", { class: cls }, h("th", { scope: "row" }, name, small),
      h("td", { class: "num opt-s" }, int(x.rounds)), h("td", { class: "num" }, score(x.score_mean)), h("td", { class: "num opt-s" }, amount(x.cum_regret)),
      shown.map((a) => armCell(byArm.get(str(a.arm)))), more && restCell(x.arms, columns));
  };
  const domains = list(d.domains).slice().sort((a, b) => (b.rounds || 0) - (a.rounds || 0));
  const rows = domains.slice(0, MAX_ITEMS).map((x) => {
    const name = str(x.domain);
    return row(x, h("a", { href: pageLink("domains", name, { range: query("range") }), "data-key": name }, name || "(no name)"));
  });
  if (!query("domain")) rows.unshift(row(d, "All domains", "all"));
  fillTable($("domains"), head, rows);
  const notes = [
    domains.some((x) => list(x.arms).some((a) => a.best === true)) ? "“best” marks the arm with the highest true mean reward in the domain." : "",
    domains.length > MAX_ITEMS ? `The ${MAX_ITEMS} busiest of ${int(domains.length)} domains are shown.` : "",
  ];
  setText($("domains-note"), notes.filter(Boolean).join(" "));
}

const KINDS = { exact: "Exact", estimated: "Estimated", audited: "Audited" };
const TARGETS = { best_fixed_per_domain: "best fixed arm of each domain", best_expected_per_task: "arm expected to be best on each task", best_per_task: "arm that proved best on each task" };
const known = (names, x) => (Object.hasOwn(names, str(x)) ? names[str(x)] : str(x));

/** An interval as a line with its figure as a dot, on a scale that the table's rows share. */
function whisker(all, from, to) {
  const at = (x) => `${(clamp01((x - from) / (to - from)) * 100).toFixed(2)}%`;
  const zero = h("i", { class: "zero" }), line = h("i", { class: "span" }), dot = h("i", { class: "dot-at" });
  zero.style.left = at(0);
  line.style.left = at(all.low);
  line.style.width = `${(clamp01((all.high - all.low) / (to - from)) * 100).toFixed(2)}%`;
  dot.style.left = at(all.cum_regret);
  return h("div", { class: "whisker", "aria-hidden": "true" }, zero, line, dot);
}

/** The measures of one domain, or of all. */
function measuresOf(report, domain) {
  const all = list(report.measures).filter(rec);
  if (!domain) return all;
  return all.flatMap((m) => list(m.domains).filter((x) => str(x.domain) === domain).map((x) => ({
    ...m, rounds: x.rounds, cum_regret: x.cum_regret, per_round: isNum(x.cum_regret) && x.rounds > 0 ? x.cum_regret / x.rounds : null,
    interval: isNum(x.low) && isNum(x.high) ? { rounds: x.rounds, cum_regret: x.cum_regret, low: x.low, high: x.high } : null,
  })));
}

export function drawMeasures(report, domain) {
  const measures = measuresOf(report, domain).filter((m) => isNum(m.cum_regret));
  $("measures-panel").hidden = !measures.length;
  if (!measures.length) return;
  const ends = measures.flatMap((m) => (m.interval ? [m.interval.low, m.interval.high] : [m.cum_regret])).filter(isNum);
  const low = Math.min(0, ...ends), high = Math.max(...ends, low + 1e-9), pad = (high - low) * 0.03;
  const rows = measures.map((m) => {
    const all = m.interval && isNum(m.interval.low) && isNum(m.interval.high) ? m.interval : null;
    const partly = all && all.rounds !== m.rounds ? `, of ${int(all.rounds)} rounds` : "";
    return h("tr", {},
      h("th", { scope: "row", title: str(m.method) }, known(KINDS, m.kind)), h("td", {}, known(TARGETS, m.target)),
      h("td", { class: "num opt-s" }, int(m.rounds)), h("td", { class: "num" }, amount(m.cum_regret)),
      h("td", { class: "num opt-s" }, isNum(m.per_round) ? F4.format(m.per_round) : "–"),
      all ? h("td", { class: "cell" }, whisker(all, low - pad, high + pad), h("div", { class: "cell-sub" }, `${amount(all.low)} to ${amount(all.high)}${partly}`))
        : h("td", { class: "cell none" }, m.kind === "exact" ? "none: it is exact" : "too little is known yet"));
  });
  fillTable($("measures"), null, rows);
  setText($("measures-audits"), auditsSentence(report));
}

function auditsSentence(d) {
  const a = rec(d.audits), use = rec(d.audit);
  if (!d.audits && !d.audit) return "";
  const bits = [];
  if (d.audit) bits.push(`${pct(use.share)} of tasks run on every arm; ${usd(use.spent_today_usd)} of ${usd(use.usd_per_day)} spent today${use.open ? "" : ", closed until tomorrow"}`);
  else bits.push("off now");
  if (d.audits) {
    bits.push(`${int(a.measured)} measured`);
    const lost = [["incomplete", a.incomplete], ["cut off", a.cut_off], ["over the cap", a.over_cap], ["too many at once", a.busy]];
    for (const [name, n] of lost) if (n > 0) bits.push(`${int(n)} ${name}`);
  }
  return `Audit probes: ${bits.join("; ")}.`;
}
