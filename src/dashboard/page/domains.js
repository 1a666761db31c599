// All domains in one table: how much each gets, what came of it, and which arm does the work.

import { hasKey } from "./api.js";
import { $, bar, h, isNum, list, rec, say, setText, str } from "./dom.js";
import { amount, int, pct, plural, score, usd } from "./format.js";
import { figures, load, setState } from "./layout.js";
import { saveCsv, SortedTable } from "./tables.js";
import { pageLink } from "./url.js";

/** The table moves no more often than this while figures come in. */
const EVERY_MS = 2000;

const most = (rows, of) => rows.reduce((best, row) => (isNum(of(row)) && (!best || of(row) > of(best)) ? row : best), null);
const sum = (rows, of) => rows.reduce((total, row) => total + (isNum(of(row)) ? of(row) : 0), 0);

/** A domain with what the columns show. */
function digest(domain, total) {
  const d = rec(domain), arms = list(d.arms).map(rec);
  const lately = most(arms, (a) => (a.share_recent > 0 ? a.share_recent : null)), busiest = lately || most(arms, (a) => (a.rounds > 0 ? a.rounds : null));
  return {
    name: str(d.domain), rounds: d.rounds, score: d.score_mean, regret: d.cum_regret, cost: d.cost_usd,
    share: isNum(d.share) ? d.share : total > 0 && isNum(d.rounds) ? d.rounds / total : null,
    busiest: busiest ? str(busiest.arm) : "", busiestShare: busiest ? (lately ? busiest.share_recent : busiest.share) : null, best: arms.filter((a) => a.best === true).map((a) => str(a.arm)).join(", "),
  };
}

const COLUMNS = [
  { id: "domain", name: "Domain", value: (d) => d.name, cell: (d) => [h("a", { href: pageLink("domains", d.name), "data-key": `domain ${d.name}` }, d.name), h("span", { class: "cell-sub only-s" }, `${d.busiest ? `mostly ${d.busiest}; ` : ""}regret ${amount(d.regret)}, ${usd(d.cost)}`)] },
  { id: "rounds", name: "Rounds", class: "num", down: true, value: (d) => d.rounds, cell: (d) => int(d.rounds) },
  { id: "share", name: "Share of rounds", class: "cell opt-s", down: true, value: (d) => d.share, cell: (d) => [pct(d.share), bar(d.share)] },
  { id: "score", name: "Score", class: "num", down: true, value: (d) => d.score, cell: (d) => score(d.score) },
  { id: "regret", name: "Regret", class: "num opt-s", down: true, value: (d) => d.regret, cell: (d) => amount(d.regret) },
  { id: "cost", name: "Dollars", class: "num opt-s", down: true, value: (d) => d.cost, cell: (d) => usd(d.cost) },
  { id: "busiest", name: "Busiest arm", class: "detail opt-s", value: (d) => d.busiest, cell: (d) => (d.busiest || isNum(d.busiestShare) ? [d.busiest, h("span", { class: "cell-sub" }, `${pct(d.busiestShare)} lately`)] : "–") },
  { id: "best", name: "Best arm", class: "detail opt-s", value: (d) => d.best, cell: (d) => d.best || h("span", { class: "none" }, "not known") },
];

const table = new SortedTable($("domains"), { columns: COLUMNS, by: "rounds" });
let rows = [], shownAt = 0;

load(async (signal) => {
  await figures.refresh(signal);
  return show(figures.last);
});
figures.on((d) => { if (performance.now() - shownAt > EVERY_MS && !document.hidden) setState(show(d)); });

function show(d) {
  shownAt = performance.now();
  const total = isNum(d.rounds) && d.rounds > 0 ? d.rounds : sum(list(d.domains).map(rec), (x) => x.rounds);
  rows = list(d.domains).map((x) => digest(x, total));
  if (!rows.length) {
    setText($("empty-curl"), exampleTask());
    return "empty";
  }
  setText($("domains-note"), rows.some((d) => d.best) ? "The best arm has the highest true mean reward." : "");
  draw();
  return "ready";
}

function exampleTask() {
  const body = '{"prompt": "What is 17 * 23? Answer with the number."}';
  const key = hasKey() ? ['  -H "authorization: Bearer $POINTSMAN_KEY"'] : [];
  return [`curl -s ${location.origin}/v1/tasks`, ...key, "  -H 'content-type: application/json'", `  -d '${body}'`].join(" \\\n");
}

function draw() {
  const wanted = $("find").value.trim().toLowerCase();
  const found = wanted ? rows.filter((d) => d.name.toLowerCase().includes(wanted)) : rows;
  table.update(found);
}

$("find").addEventListener("input", () => {
  draw();
  say(plural(table.rows.length, "domain", "domains"));
});
$("domains-csv").addEventListener("click", () => saveCsv("domains", ["domain", "rounds", "share", "score_mean", "cum_regret", "cost_usd", "busiest_arm", "busiest_share_recent", "best_arm"],
  table.sorted().map((d) => [d.name, d.rounds, d.share, d.score, d.regret, d.cost, d.busiest, d.busiestShare, d.best])));
