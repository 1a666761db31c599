// Texts that would be scripts if a page took them for HTML, and answers with more names and stranger numbers than a page can show.

import assert from "node:assert/strict";
import { until } from "./wait.mjs";

const IMAGE = "<img src=x onerror=hostile()>", SCRIPT = "<script>hostile()</script>";
/** An id has no spaces. */
const IMAGE_ID = "<img/src=x/onerror=hostile()>", SCRIPT_ID = "<script>hostile()</script>";

/** Whether any of it ran, or stands in the document as an element. */
async function harmless(page, where) {
  const [ran, made] = await page.raw.evaluate(() => [window.ran === true, document.querySelectorAll('img, iframe, object, embed, script:not([src^="/dashboard/static/"])').length]);
  assert.ok(!ran, `a script of the daemon's data ran on ${where}`);
  assert.equal(made, 0, `the daemon's data became elements on ${where}`);
}
const prepare = () => { window.hostile = () => { window.ran = true; }; };

const ARM_COUNT = 10000, DAY_MS = 86400e3;
const armName = (n) => (n % 1000 ? `vendor-${n % 97}/model-with-a-rather-long-name-${n}` : `${IMAGE}${n}`);

/** An overview of far too many arms, from a daemon whose clock is two days ahead, with numbers that are none. */
function crowd() {
  const arm = (n) => ({
    arm: armName(n), rounds: n % 7 ? ARM_COUNT - n : null, share: n % 11 ? 1 / ARM_COUNT : null, share_recent: n % 5 ? 0.0001 : null,
    score_mean: n % 3 ? 0.5 : null, cost_usd: n % 13 ? n : "Infinity", state: n % 50 ? "active" : "quarantined", best: null,
  });
  const arms = Array.from({ length: ARM_COUNT }, (_, n) => arm(n));
  const domains = Array.from({ length: 400 }, (_, n) => ({
    domain: n ? `domain-${n}` : SCRIPT, rounds: n % 9 ? 1000 - n : null, share: null, score_mean: null, cum_regret: n % 2 ? "Infinity" : -3, cost_usd: null,
    arms: n < 2 ? arms : arms.slice(0, 3), voters: [],
  }));
  const alerts = Array.from({ length: 200 }, (_, n) => ({
    kind: n % 2 ? "quarantined" : "breaker_open", severity: n % 2 ? "warning" : "error", subject: armName(n), domain: null, text: `${SCRIPT} ${armName(n)} rests`,
  }));
  return {
    at_ms: Date.now() + 2 * DAY_MS, uptime_s: null, rounds: 5e12, abandoned: null, failures: null, progress: null, audit: null, audits: null,
    policy: { name: SCRIPT, version: null, card: IMAGE }, memory: { entries: null, behind: null, cap: null },
    kind: "estimated", target: null, cum_regret: null, regret_interval: { rounds: null, cum_regret: null, low: null, high: "Infinity" },
    recent: { rounds: null, regret_per_round: null, score_mean: "Infinity", reward_mean: null, cost_usd: null },
    score_mean: null, reward_sum: -1e300, cost_usd: "Infinity",
    saved: { best_fixed: { arms: Object.fromEntries(domains.map((d) => [d.domain, armName(7)])), cost_usd: null, saved_usd: -1e-12 }, dearest: null },
    arms, modes: [{ mode: "single", rounds: null }, { mode: SCRIPT, rounds: 3 }], domains, alerts,
  };
}

function crowdedHistory() {
  const at = (n) => Date.now() + DAY_MS + n * 60e3, hole = (n, x) => (n % 4 ? x : null);
  const points = Array.from({ length: 60 }, (_, n) => ({
    at_ms: at(n), rounds: n + 1, failures: null, score: hole(n, n), reward: hole(n, n), cost_usd: n % 7 ? 0.1 : "Infinity", regret: hole(n, -0.1),
    probes: n % 10 ? 0 : 1, arms: Array.from({ length: ARM_COUNT }, (_, arm) => (arm % 3 ? (arm + n) % 11 : null)), others: hole(n, 4), modes: [1, null],
  }));
  const arms = Array.from({ length: ARM_COUNT }, (_, n) => armName(n));
  return { width_ms: 60e3, from_ms: at(0), to_ms: at(60), kind: "estimated", arms, modes: ["single", SCRIPT], others: 5, before: { rounds: null, regret: null }, points };
}
/** JSON knows no infinity, but a reader takes a number that is too large for one. */
const body = (value) => ({ contentType: "application/json", body: JSON.stringify(value).replaceAll('"Infinity"', "1e999") });

export const tests = {
  async "scripts in prompts, ids, answers, traces, cards and reports are text"({ daemon, page }) {
    const served = await daemon({ cards: { sly: `policy = "${IMAGE}"\n` } }), shown = await page(served, { prepare });
    const task = (n, reference) => ({
      id: `${n}${IMAGE_ID}`, session: SCRIPT_ID, domain: n % 2 ? "math" : "text", prompt: `${IMAGE} ${SCRIPT} What is said ${n}?`,
      metadata: { reference, note: { [SCRIPT]: IMAGE } },
    });
    for (let n = 0; n < 8; n += 1) await served.task(task(n, n % 3 ? `${IMAGE} ${SCRIPT} lamp` : SCRIPT));
    await served.learnt(8);
    const { decision_id: id } = await served.task({ ...task(9, `${IMAGE} ${SCRIPT} lamp`), constraints: { arms: ["good"] } });
    const said = JSON.stringify(await served.get(`/v1/decisions/${id}`));
    assert.ok(said.split(IMAGE).length > 3, "the answer has it too");
    const row = {
      policy: SCRIPT, kind: "replayed", dataset: IMAGE, n: 2, seeds: 1, mean_score: 0.5, cum_regret: 1, total_cost_usd: 0.1, attempts_mean: 1, seconds: 1,
      curve: [[1, 0.5], [2, 1]], domains: { [IMAGE]: { n: 2, mean_score: 0.5, cum_regret: 1, share_by_arm: { [SCRIPT]: 1 } } },
    };
    const report = { name: "sly", title: IMAGE, created_ms: 1, sections: [{ title: SCRIPT, note: IMAGE, rows: [row, { ...row, policy: IMAGE, kind: IMAGE }] }] };
    served.replay("sly");
    await shown.raw.route("**/v1/reports/sly", (route) => route.fulfill(body(report)));
    const memory = `/memory?q=${encodeURIComponent(IMAGE)}&colour=arm`;
    for (const path of ["", "/domains", "/domains/math", "/decisions", `/decisions/${id}`, memory, "/policies", "/reports", "/reports/sly"]) {
      await shown.go(`/dashboard${path}`);
      await shown.connected();
      await harmless(shown, path || "the overview");
    }
    assert.ok((await shown.text("#report-title")).includes(IMAGE));
    await shown.go("/dashboard/decisions");
    await shown.shows("#rows tbody", /<img src=x onerror=hostile\(\)>/);
    await shown.go(`/dashboard/decisions/${id}`);
    await shown.shows("#prompt", /<img src=x onerror=hostile\(\)> <script>hostile\(\)<\/script>/);
    await shown.shows("#answer", /<script>hostile\(\)<\/script> lamp/);
    await shown.shows("#facts", /<img\/src=x\/onerror=hostile\(\)>/);
    await shown.shows("#feedback", /<script>/);
    await shown.go("/dashboard/policies");
    await shown.shows('tr[data-card="sly"]', /<img src=x/);
    await shown.go(`/dashboard/memory?q=${encodeURIComponent(IMAGE)}`);
    await shown.click("#found button.link");
    await shown.shows("#entry", /<img\/src=x/);
    await harmless(shown, "an entry of memory");
  },

  async "what stands in the address is text too"({ daemon, page }) {
    const served = await daemon(), shown = await page(served, { prepare });
    await served.task({ prompt: "What is two plus two?" });
    shown.expect(/status (of )?4\d\d/);
    const evil = encodeURIComponent(`${IMAGE}${SCRIPT}`);
    const queries = [`?domain=${evil}&range=${evil}`, `/decisions?domain=${evil}&arm=${evil}&q=${evil}`, `/memory?q=${evil}&domain=${evil}&colour=${evil}`];
    for (const path of [...queries, `/domains/${evil}`, `/decisions/${evil}`, `/reports/${evil}`]) {
      await shown.go(`/dashboard${path}`, null);
      await until("the page is done loading", async () => (await shown.attribute("main", "data-state")) !== "loading");
      await harmless(shown, path);
    }
  },

  async "ten thousand arms, holes, infinities and a clock that is ahead leave the pages usable"({ daemon, page, note }) {
    const served = await daemon(), shown = await page(served, { prepare });
    const overview = crowd(), history = crowdedHistory();
    await shown.raw.route(/\/v1\/overview/, (route) => route.fulfill(body(overview)));
    await shown.raw.route(/\/v1\/history/, (route) => route.fulfill(body(history)));
    // The daemon's own figures would take the place of these.
    await shown.raw.route("**/v1/events", (route) => route.fulfill({ contentType: "text/event-stream", body: ": nothing yet\n\n" }));
    const began = Date.now();
    await shown.go("/dashboard");
    await shown.drawn("arms-chart");
    note(`usable after ${Date.now() - began} ms`);
    for (const chart of ["arms", "modes"]) assert.ok((await shown.count(`#${chart}-readout button`)) <= 8, `the legend of ${chart} has 8 groups at most`);
    const wide = await shown.raw.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `the page is ${wide} px too wide`);
    assert.ok(!/NaN|Infinity|undefined|null|\[object/.test(await shown.text("main")), "no figure is a word of the programming language");
    const pressed = Date.now();
    await shown.click("#theme");
    await shown.shows("#theme", "Theme: light");
    await shown.raw.focus("#arms-chart");
    await shown.press("ArrowLeft");
    await until("a value is read", async () => (await shown.text("#say")) !== "");
    note(`a new theme and a value read: ${Date.now() - pressed} ms`);
    await harmless(shown, "the overview");
    for (const path of ["/dashboard/domains", "/dashboard/decisions"]) {
      await shown.go(path, null);
      await until("the page is done loading", async () => (await shown.attribute("main", "data-state")) !== "loading");
      await harmless(shown, path);
    }
  },

  async "answers that went wrong are said to be so, and the page goes on when they are right again"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.task({ prompt: "What is two plus two?" });
    shown.expect(/status of 500/);
    const broken = { status: 500, ...body({ type: "urn:pointsman:problem:internal", title: "Something broke", status: 500 }) };
    const half = { contentType: "application/json", body: '{"rounds": 1' };
    for (const [answer, words] of [[broken, /Something broke/], [half, /not JSON/]]) {
      await shown.raw.route(/\/v1\/(overview|policies|reports)/, (route) => route.fulfill(answer));
      for (const path of ["/dashboard", "/dashboard/domains", "/dashboard/policies", "/dashboard/reports"]) {
        await shown.raw.route("**/v1/events", (route) => route.fulfill({ contentType: "text/event-stream", body: ": nothing\n\n" }));
        await shown.go(path, "error");
        await shown.shows("#error", words);
      }
      await shown.raw.unrouteAll();
      await shown.click("#retry");
      await shown.inState(/reports/.test(shown.path()) ? "empty" : "ready");
      assert.ok(!(await shown.visible("#error")));
    }
  },
};
