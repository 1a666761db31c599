// What comes in while a page is open: from nothing to the first rounds, as they happen, and after the daemon was gone.

import assert from "node:assert/strict";
import { mixed, sum, word } from "./daemon.mjs";
import { GONE } from "./page.mjs";
import { median, PATIENCE_MS, until } from "./wait.mjs";

/** A row is meant to be there 500 ms after its outcome. Half of them are given four times that: other tests share the machine. */
const ROW_MAX_MS = 2000;

/** Keeps when each decision's row came onto the page, by the clock that this program goes by too. */
function noteRows() {
  window.cameAt = {};
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) if (node.dataset?.id) window.cameAt[node.dataset.id] ??= Date.now();
  }).observe(document.querySelector("#rows tbody"), { childList: true });
}
const rowIds = (page) => page.raw.evaluate(() => [...document.querySelectorAll("#rows tbody tr")].map((tr) => tr.dataset.id));
const ids = (answers) => answers.map((answer) => answer.decision_id).sort();

export const tests = {
  async "an empty install says on each page what to do first"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    for (const path of ["/dashboard", "/dashboard/domains"]) {
      await shown.go(path, "empty");
      assert.ok(await shown.visible("#empty"), `${path} has its empty state`);
      await shown.shows("#empty-curl", /^curl -s http:\/\/127\.0\.0\.1:\d+\/v1\/tasks/);
    }
    await shown.go("/dashboard/decisions", "empty");
    await shown.shows("#rows-empty", /POST a task to \/v1\/tasks/);
    await shown.go("/dashboard/memory", "empty");
    await shown.shows("#empty", /Memory is empty/);
    await shown.go("/dashboard/policies");
    await shown.shows("#shadow-name", "No policy");
    await shown.shows("#changes", /the configuration names it/);
    await shown.go("/dashboard/reports", "empty");
    await shown.shows("#empty", /pointsman replay .*--save NAME/s);
    await shown.go("/dashboard/domains/math");
    await shown.shows("#n-rounds", "0");
  },

  async "the example command of an empty install is taken as it stands"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    const bodies = [];
    for (const path of ["/dashboard", "/dashboard/domains"]) {
      await shown.go(path, "empty");
      bodies.push(/-d '(.*)'/.exec(await shown.text("#empty-curl"))[1]);
    }
    for (const body of bodies) await served.task(body);
    await shown.shows("#domains tbody", /unknown/);
  },

  async "figures and charts move while tasks come, without a reload"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await shown.go("/dashboard", "empty");
    await shown.connected();
    await shown.raw.evaluate(() => { window.opened = true; });
    await served.stream(mixed(40));
    await shown.shows("#n-rounds", "40");
    assert.equal(await shown.attribute("main", "data-state"), "ready");
    const chart = () => shown.attribute("#regret-chart", "aria-label");
    // Charts are read anew every ten seconds at most.
    const reaches = (round) => until(`the curve reaches round ${round}`, async () => new RegExp(`to Round ${round}\\b`).test(await chart()), { last: chart, patience: 2 * PATIENCE_MS });
    await reaches(40);
    await shown.drawn("regret-chart");
    await shown.shows("#domains tbody", /math[\s\S]*text|text[\s\S]*math/);
    await served.stream(mixed(40, 40));
    await shown.shows("#n-rounds", "80");
    await reaches(80);
    assert.ok(await shown.raw.evaluate(() => window.opened), "the page was not loaded again");
  },

  async "a decision's row is there soon after its outcome"({ daemon, page, note }) {
    const served = await daemon(), shown = await page(served);
    await shown.go("/dashboard/decisions", "empty");
    await shown.connected();
    await shown.raw.evaluate(noteRows);
    const took = [];
    for (let n = 0; n < 20; n += 1) {
      const { decision_id: id } = await served.task(n % 2 ? sum(n) : word(n)), answered = Date.now();
      const came = await until(`the row of decision ${id} is there`, () => shown.raw.evaluate((wanted) => window.cameAt[wanted], id));
      took.push(Math.max(0, came - answered));
    }
    note(`rows after outcomes: median ${median(took)} ms, largest ${Math.max(...took)} ms of ${took.length}`);
    assert.ok(median(took) <= ROW_MAX_MS, `half of the rows took more than ${ROW_MAX_MS} ms: ${took}`);
  },

  async "after the daemon was killed pages go on by themselves, and no row is lost or doubled"({ daemon, page }) {
    const served = await daemon(), rows = await page(served), overview = await page(served);
    await rows.go("/dashboard/decisions", "empty");
    await rows.connected();
    await overview.go("/dashboard", "empty");
    const answers = await served.stream(mixed(10));
    await until("the rows of before are there", async () => (await rowIds(rows)).length === 10);
    await overview.shows("#n-rounds", "10");

    for (const page of [rows, overview]) page.expect(GONE);
    await served.kill();
    for (const page of [rows, overview]) {
      await page.connected("reconnecting|down");
      await page.shows("#conn", /Reconnecting|Unreachable/);
    }
    await served.again();
    answers.push(...(await served.stream(mixed(10, 10))));
    await rows.connected();
    answers.push(...(await served.stream(mixed(10, 20))));
    await until("all rows are there", async () => (await rowIds(rows)).length >= 30);
    assert.deepEqual((await rowIds(rows)).sort(), ids(answers));
    await overview.connected();
    await overview.shows("#n-rounds", "30");
    await until("nothing is said to be wrong any more", async () => !(await overview.visible("#error")));
  },

  async "a page that was left and opened again starts from what there is"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    const answers = await served.stream(mixed(12));
    await served.learnt(12);
    await shown.go("/dashboard/decisions");
    await until("the rows are there", async () => (await rowIds(shown)).length === 12);
    await shown.go("/dashboard");
    await shown.raw.goBack();
    await until("the rows are there again", async () => (await rowIds(shown)).length === 12);
    assert.deepEqual((await rowIds(shown)).sort(), ids(answers));
  },
};
