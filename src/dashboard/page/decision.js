// One decision: why its arm was chosen, what running it gave, and how the answer was scored. It is read again while something
// is still to come.

import { getJson, isUnknown } from "./api.js";
import { $, list, rec, say, setText, str } from "./dom.js";
import { feed } from "./feed.js";
import { action, answer, audit, calls, cost, facts, feedback, masked, neighbours, options, prompt, sentence, trajectory } from "./decision_parts.js";
import { clock } from "./format.js";
import { load } from "./layout.js";
import { pathPart } from "./url.js";

const AGAIN_MS = 3000;
const AGAIN_MAX_MS = 30000;
const WAIT_MAX_MS = 30 * 60000; // what has not come by then may never come
const WAIT_MORE_MS = 5000; // verdicts may follow the first

const id = pathPart();
const opened = performance.now();
let drawn = ""; // the answer that is on the page
let timer = 0, wait = AGAIN_MS;

const page = load(async (signal) => {
  clearTimeout(timer);
  try {
    const d = rec(await getJson(`/v1/decisions/${encodeURIComponent(id)}`, signal));
    show(d);
    return "ready";
  } catch (e) {
    setText($("fresh"), "");
    if (!isUnknown(e)) throw e;
    $("missing").hidden = false;
    setText($("missing-id"), id.slice(0, 200));
    return "error";
  }
});

function show(d) {
  const text = JSON.stringify(d), open = pending(d);
  $("missing").hidden = true;
  if (text !== drawn) {
    if (drawn) say("There is news of this decision");
    drawn = text;
    wait = AGAIN_MS;
    draw(d);
  }
  setText($("fresh"), `${open ? `${open}; ` : ""}read at ${clock(Date.now())}`);
  if (open && performance.now() - opened < WAIT_MAX_MS) timer = setTimeout(again, wait);
  wait = Math.min(AGAIN_MAX_MS, wait * 1.5);
}
function pending(d) {
  if (d.abandoned) return "";
  if (!d.outcome) return "waiting for the answer";
  return list(d.feedback).length ? "" : "waiting for a score";
}
function again() {
  if (!document.hidden) page.run(); else timer = setTimeout(again, wait);
}

const fill = (name, ...nodes) => {
  $(name).classList.remove("muted");
  $(name).replaceChildren(...nodes.flat().filter(Boolean));
};

function draw(d) {
  const title = `${action(d.decision)} for ${str(rec(d.task).domain) || "a task"}`;
  setText($("why-title"), title.slice(0, 300));
  document.title = `${title.slice(0, 80)} · Pointsman`;
  setText($("why-sentence"), sentence(d));
  fill("facts", facts(d, id));
  fill("prompt", prompt(d));
  fill("answer", answer(d));
  fill("options", options(d));
  fill("calls", calls(d));
  const team = rec(rec(d.outcome).trajectory).driver;
  $("trajectory-panel").hidden = !team;
  if (team) fill("trajectory", trajectory(d));
  fill("feedback", feedback(d));
  fill("cost", cost(d));
  fill("neighbours", neighbours(d));
  const closed = list(rec(d.context).masked);
  $("masked-panel").hidden = !closed.length;
  fill("masked", masked(closed));
  $("audit-panel").hidden = !d.audited;
  if (d.audited) fill("audit", audit(rec(d.audited)));
}

$("reload").addEventListener("click", () => { setText($("fresh"), "Loading …"); page.run(); });
feed.on("round", (event) => {
  if (event.decision_id !== id) return;
  page.run();
  clearTimeout(timer);
  timer = setTimeout(again, WAIT_MORE_MS);
});
