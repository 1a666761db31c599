// Policies: which one decides, which one is on trial and how it compares, and the cards that either can be taken from.

import { getJson, send } from "./api.js";
import { ask } from "./dialog.js";
import { $, bar, fillTable, h, isNum, kv, list, rec, setText, str } from "./dom.js";
import { F4, int, plural, score } from "./format.js";
import { load, ticker } from "./layout.js";
import { pageLink } from "./url.js";

const EVERY_MS = 15000;
const CHANGES_SHOWN = 50;
const CARDS_SHOWN = 100;
const DOMAINS_SHOWN = 100;
/** Fewer rounds of equal weight than this say little, whatever the interval. */
const FEW_ROUNDS = 100;
const LEARNS = "Its policy is folded from all rounds so far first, which takes a while with many rounds; decisions go on meanwhile. The change is durable.";

const policyName = (p) => `${str(rec(p).name) || "–"}${rec(p).card ? ` of ${str(p.card)}` : ""}`;
const cardName = (label) => str(label).split("@")[0];
let policies = {};

const loader = load(async (signal) => show(await getJson("/v1/policies", signal)));
const reload = () => loader.run();
ticker(reload, EVERY_MS);

function show(answer) {
  policies = rec(answer);
  drawChampion(policies);
  drawShadow(policies.shadow ? rec(policies.shadow) : null);
  drawCards(list(policies.cards));
  drawWeights(list(policies.weights).map(rec).filter((w) => list(w.voters).length));
  drawChanges(list(policies.changes));
}

function drawChampion(d) {
  const champion = rec(d.champion), hash = str(d.state_hash);
  setText($("champion-name"), str(champion.name) || "–");
  $("champion").replaceChildren(kv([
    ["Card", str(champion.card)], ["Version of the policy", isNum(champion.version) ? int(champion.version) : ""], ["Rounds learnt", int(d.learnt_rounds)],
    ["State", hash ? h("code", { title: `${hash}: equal states have equal hashes` }, `${hash.slice(0, 16)}…`) : ""],
  ]));
}

// ---------------------------------------------------------------- the trial

function drawShadow(shadow) {
  $("end-trial").hidden = !shadow;
  setText($("shadow-name"), shadow ? policyName(shadow.policy) : "No policy");
  const verdict = shadow ? verdictOf(shadow) : { kind: "none", text: "A policy on trial says what it would do with each task, and nobody acts on it. Put one on trial from a card below; how it compares stands here." };
  $("shadow-verdict").dataset.kind = verdict.kind;
  setText($("shadow-verdict"), verdict.text);
  $("shadow").replaceChildren(...(shadow ? [comparison(shadow)] : []));
}

const differenceOf = (shadow) => {
  const d = rec(shadow.difference);
  return isNum(d.low) && isNum(d.high) && isNum(d.mean) ? d : null;
};

/** What the numbers mean, in one sentence. */
function verdictOf(shadow) {
  const d = differenceOf(shadow), few = !(shadow.effective_rounds >= FEW_ROUNDS);
  if (!d) return { kind: "open", text: `Not known yet: ${few ? "the rounds so far say too little" : "there is no interval yet"}.` };
  if (d.low > 0) return { kind: "better", text: `Better: it would have brought ${F4.format(d.mean)} more reward a round, at least ${F4.format(d.low)}.` };
  if (d.high < 0) return { kind: "worse", text: `Worse: it would have brought ${F4.format(-d.mean)} less reward a round, at least ${F4.format(-d.high)} less.` };
  return { kind: "open", text: `Not known yet: it may bring up to ${F4.format(-d.low)} less or ${F4.format(d.high)} more reward a round.` };
}

function comparison(shadow) {
  const d = differenceOf(shadow);
  const reward = (x) => (isNum(x) ? F4.format(x) : "–");
  return h("div", { class: "stack-small" },
    kv([
      ["Reward of the champion", reward(shadow.champion_reward)], ["Reward of the trial, estimated", reward(shadow.shadow_reward)],
      ["Difference", d ? `${d.mean > 0 ? "+" : ""}${F4.format(d.mean)}` : "–"],
      ["Rounds looked on at", int(shadow.rounds)], ["Worth so many equal rounds", isNum(shadow.effective_rounds) ? int(Math.round(shadow.effective_rounds)) : "–"],
    ]),
    d && whisker(d),
    h("p", { class: "hint" }, "Mean rewards a round over the same rounds. The interval holds at every round at once with a probability of 95%, so look as often as you like."));
}

/** The difference as a line with its estimate as a dot, and zero marked, where the two are alike. */
function whisker(d) {
  const most = Math.max(Math.abs(d.low), Math.abs(d.high), 1e-9) * 1.1;
  const at = (x) => `${(50 + (Math.max(-most, Math.min(most, x)) / most) * 50).toFixed(2)}%`;
  const zero = h("i", { class: "zero" }), line = h("i", { class: "span" }), dot = h("i", { class: "dot-at" });
  zero.style.left = "50%";
  line.style.left = at(d.low);
  line.style.right = `calc(100% - ${at(d.high)})`;
  dot.style.left = at(d.mean);
  return h("figure", { class: "difference" },
    h("div", { class: "whisker tall", role: "img", "aria-label": `Difference ${F4.format(d.mean)}, interval ${F4.format(d.low)} to ${F4.format(d.high)}` }, zero, line, dot),
    h("div", { class: "difference-ends", "aria-hidden": "true" }, h("span", {}, `${F4.format(-most)}: trial worse`), h("span", {}, "0"), h("span", {}, `${F4.format(most)}: trial better`)),
    h("figcaption", { class: "muted" }, `Trial less champion, reward a round: ${F4.format(d.low)} to ${F4.format(d.high)}.`));
}

// ---------------------------------------------------------------- cards

function drawCards(cards) {
  const champion = cardName(rec(policies.champion).card), trial = policies.shadow ? cardName(rec(policies.shadow.policy).card) : null;
  const rows = cards.slice(0, CARDS_SHOWN).map(rec).map((c) => {
    const name = str(c.name), problem = str(c.problem);
    const state = problem ? "cannot be used" : name === champion ? "decides" : name === trial ? "on trial" : "ready";
    const button = (action, text, run) => h("button", { type: "button", "data-action": action, "data-key": `${action} ${name}`, "aria-label": `${text} ${name}`, disabled: Boolean(problem), onclick: () => run(c) }, text);
    return h("tr", { "data-card": name },
      h("th", { scope: "row" }, name, c.label ? h("span", { class: "cell-sub" }, str(c.label)) : null, h("span", { class: problem ? "cell-sub only-s problem" : "cell-sub only-s" }, problem || `${str(c.policy)}; ${state}`)),
      h("td", { class: problem ? "problem opt-s" : "detail opt-s" }, problem || str(c.policy) || "–"),
      h("td", { class: "opt-s" }, h("span", { class: `state ${state === "cannot be used" ? "bad" : state === "ready" ? "" : "good"}` }, state)),
      h("td", {}, h("div", { class: "card-tools" }, button("promote", "Promote …", promote), button("trial", "Put on trial …", putOnTrial))));
  });
  if (cards.length > rows.length) rows.push(h("tr", {}, h("td", { colspan: 4, class: "none" }, `${int(cards.length - rows.length)} more cards are not shown.`)));
  if (!rows.length) rows.push(h("tr", {}, h("td", { colspan: 4, class: "none" }, "There is no card. Put a TOML file into the folder of cards; it is listed within a second.")));
  fillTable($("cards"), null, rows);
}

/** The policy of a card that is meant, the card's own when left empty; `words(policy)` says what will happen with it. */
function policyField(c, words) {
  const input = h("input", { id: "policy-of", spellcheck: "false", placeholder: str(c.policy) }), sentence = h("p");
  const tell = () => setText(sentence, words(`${input.value.trim() || str(c.policy)} of the card ${str(c.name)}`));
  input.addEventListener("input", tell);
  tell();
  const wanted = () => ({ card: str(c.name), ...(input.value.trim() ? { policy: input.value.trim() } : {}) });
  return { wanted, fields: [sentence, h("p", {}, h("label", { class: "field" }, "Policy, if not the card's own ", input))] };
}

async function change(path, body) {
  const answer = rec(await send("POST", `/v1/policies/${path}`, body));
  show(answer);
  return answer;
}

function promote(c) {
  const { fields, wanted } = policyField(c, (who) => `From now on ${who} decides every task in all domains, in place of ${policyName(policies.champion)}. If it is on trial, the trial ends.`);
  const about = [fields, h("p", { class: "muted" }, `${LEARNS} Roll back brings the present one back.`)];
  ask({ title: `Promote ${str(c.name)}`, verb: "Let it decide", about, after: reload, run: async () => `${policyName((await change("promote", wanted())).champion)} decides now.` });
}

function putOnTrial(c) {
  const instead = policies.shadow ? ` The trial of ${policyName(policies.shadow.policy)} ends, and its figures are gone.` : "";
  const { fields, wanted } = policyField(c, (who) => `${who} says from now on what it would do with each task. It decides nothing and calls nobody.${instead}`);
  const about = [fields, h("p", { class: "muted" }, LEARNS)];
  ask({ title: `Put ${str(c.name)} on trial`, verb: "Put it on trial", about, after: reload, run: async () => `${policyName(rec((await change("shadow", wanted())).shadow).policy)} is on trial now.` });
}

$("end-trial").addEventListener("click", () => {
  const about = [h("p", {}, `${policyName(rec(policies.shadow).policy)} looks on no more, and the figures of its trial are gone. What decides stays as it is.`)];
  ask({ title: "End the trial", verb: "End it", danger: true, about, after: reload, run: async () => { await change("shadow", { card: null }); return "The trial is over."; } });
});

$("rollback").addEventListener("click", () => {
  const who = previous();
  const about = [h("p", {}, `From now on ${who} decides every task in all domains again, in place of ${policyName(policies.champion)}.`), h("p", { class: "muted" }, LEARNS)];
  ask({ title: "Roll back", verb: "Roll back", about, after: reload, run: async () => `${policyName((await change("rollback")).champion)} decides now.` });
});

/** Who decided before the present policy: another one, or the same card with the text that it had before its file changed. */
function previous() {
  const [now, ...earlier] = list(policies.changes).map(rec).filter((c) => c.role === "champion").reverse();
  if (now && now.origin === "reloaded") return `the earlier text of the card ${str(now.card)}`;
  const before = earlier.find((c) => c.policy !== now.policy || c.card !== now.card);
  return before ? `${str(before.policy)} of the card ${str(before.card)}` : "the policy that decided before";
}

// ---------------------------------------------------------------- weights and changes

function drawWeights(domains) {
  $("weights-panel").hidden = !domains.length;
  const voters = (x) => list(x.voters).filter(Array.isArray);
  const names = [...new Set(domains.flatMap((x) => voters(x).map((v) => str(v[0]))))];
  const head = h("tr", {}, h("th", { scope: "col" }, "Domain"), names.map((n) => h("th", { scope: "col" }, n)));
  const rows = domains.slice(0, DOMAINS_SHOWN).map((x) => {
    const weights = new Map(voters(x).map((v) => [str(v[0]), v[1]])), top = Math.max(...[...weights.values()].filter(isNum));
    return h("tr", {}, h("th", { scope: "row" }, h("a", { href: pageLink("domains", str(x.domain)), "data-key": `domain ${str(x.domain)}` }, str(x.domain))), names.map((n) => weightCell(weights.get(n), top)));
  });
  if (domains.length > rows.length) rows.push(h("tr", {}, h("td", { colspan: names.length + 1, class: "none" }, `${int(domains.length - rows.length)} more domains are not shown; each has its own page.`)));
  fillTable($("weights"), head, rows);
}

function weightCell(weight, top) {
  if (!isNum(weight)) return h("td", { class: "cell none" }, "–");
  return h("td", { class: weight === top ? "cell is-best" : "cell" }, h("div", { class: "cell-top" }, h("b", {}, score(weight)), weight === top && h("span", { class: "cell-sub" }, "most")), bar(weight));
}

const ORIGINS = { configured: "the configuration names it", reloaded: "its card's file changed", asked: "an operator asked for it", rolled_back: "rolled back" };

function drawChanges(changes) {
  const shown = changes.slice(-CHANGES_SHOWN).map(rec).reverse();
  const words = (c) => {
    const why = ORIGINS[str(c.origin)] || str(c.origin);
    if (c.role === "shadow" && !str(c.card) && !str(c.policy)) return ["The trial was ended", why];
    const what = `${str(c.policy) || "–"} of the card ${str(c.card) || "–"}`;
    return [c.role === "champion" ? `${what} decides` : c.role === "shadow" ? `${what} is on trial` : `${str(c.role)}: ${what}`, why];
  };
  const items = shown.map((c) => { const [what, why] = words(c); return h("li", {}, what, h("span", { class: "muted" }, ` (${why})`)); });
  if (changes.length > shown.length) items.push(h("li", { class: "muted plain" }, `${plural(changes.length - shown.length, "older change", "older changes")}`));
  if (!items.length) items.push(h("li", { class: "muted plain" }, "None yet: the policy of the configuration decides since the start."));
  $("changes").replaceChildren(...items);
}
