// The stream of decisions with its filters, a decision's own page, and what the overview shows of which time.

import assert from "node:assert/strict";
import { ARMS, DOWN, mixed, sum, word } from "./daemon.mjs";
import { status } from "./page.mjs";
import { until } from "./wait.mjs";

const UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057";

const rows = (page) => page.count("#rows tbody tr");
const hasRows = (page, wanted) => until(`${wanted} rows are shown`, async () => (await rows(page)) === wanted, { last: async () => `There are ${await rows(page)}.` });
/** The texts of a column, from 1. */
const column = async (page, n) => [...new Set(await page.texts(`#rows tbody tr > :nth-child(${n})`))];
const [DOMAIN, WHY, SCORE] = [3, 6, 8];

export const tests = {
  async "decisions are filtered, and the filter is in the address"({ daemon, page }) {
    const served = await daemon({ config: ARMS + DOWN }), shown = await page(served);
    // An arm that gives no answer has another one in its place, which is a decision more: it is kept out but once.
    const of = (task, count, arms) => Array.from({ length: count }, (_, n) => task(n, { constraints: { arms } }));
    await served.stream([...of(sum, 6, ["good", "fair"]), ...of(word, 4, ["good"])]);
    await served.failing(word(90, { constraints: { arms: ["down"] } }));
    await shown.go("/dashboard/decisions");
    await hasRows(shown, 11);

    await shown.raw.selectOption("#f-domain", "text");
    await hasRows(shown, 5);
    assert.deepEqual(await column(shown, DOMAIN), ["text"]);
    await shown.raw.selectOption("#f-status", "failed");
    await hasRows(shown, 1);
    assert.deepEqual(await column(shown, SCORE), ["failed"]);
    assert.equal(shown.path(), "/dashboard/decisions?domain=text&status=failed");
    await shown.raw.reload();
    await hasRows(shown, 1);
    assert.equal(await shown.raw.inputValue("#f-domain"), "text");
    assert.equal(await shown.raw.inputValue("#f-status"), "failed");

    await shown.click("#clear");
    await hasRows(shown, 11);
    assert.equal(shown.path(), "/dashboard/decisions");
    const all = await column(shown, WHY);
    for (const reason of all) {
      await shown.raw.selectOption("#f-reason", reason);
      await until(`only ${reason} is shown`, async () => String(await column(shown, WHY)) === reason);
    }
    await shown.raw.selectOption("#f-reason", "");
    await shown.raw.fill("#f-q", "LAMP3");
    await hasRows(shown, 1);
    assert.equal(shown.path(), "/dashboard/decisions?q=LAMP3");
    await shown.raw.fill("#f-q", "nothing like it");
    await hasRows(shown, 0);
    await shown.shows("#rows-empty", /None matches these filters/);
    await shown.raw.fill("#f-q", "plus");
    await hasRows(shown, 6);
    await served.stream([sum, word].map((task) => task(50, { constraints: { arms: ["fair"] } })));
    await hasRows(shown, 7);
    await shown.raw.selectOption("#f-arm", "fair");
    await until("only one arm is shown", async () => String(await column(shown, 4)) === "fair");
  },

  async "the overview keeps time and domain in the address, and back returns"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(40));
    await served.learnt(40);
    await shown.go("/dashboard");
    await shown.shows("#n-rounds", "40");
    await shown.raw.check('#ranges input[value="1h"]', { force: true });
    await shown.shows("#charts-note", /the last hour/);
    await shown.raw.selectOption("#domain", "math");
    await shown.shows("#n-rounds", "20");
    assert.equal(shown.path(), "/dashboard?range=1h&domain=math");
    await shown.shows("#charts-note", /the last hour, of math/);
    await shown.drawn("regret-chart");
    await shown.raw.reload();
    await shown.inState("ready");
    await shown.shows("#n-rounds", "20");
    assert.ok(await shown.raw.isChecked('#ranges input[value="1h"]'));
    assert.equal(await shown.raw.inputValue("#domain"), "math");
    await shown.raw.goBack();
    await shown.shows("#n-rounds", "40");
    assert.equal(shown.path(), "/dashboard?range=1h");
    assert.equal(await shown.raw.inputValue("#domain"), "");
    await shown.raw.goBack();
    await shown.shows("#charts-note", /all time/);
    assert.ok(await shown.raw.isChecked('#ranges input[value="all"]'));
  },

  async "a domain that is not there says so on the overview and on its own page"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(4));
    await served.learnt(4);
    shown.expect(status(422), status(404), status(400));
    await shown.go("/dashboard/domains/nowhere", "empty");
    await shown.shows("#empty", /There is no such domain/);
    await shown.go("/dashboard/domains/No%20name%2F..", "empty");
    await shown.go("/dashboard?domain=nowhere", "error");
    await shown.shows("#unknown-title", /knows no domain “nowhere”/);
    await shown.click("#unknown-all");
    await shown.shows("#n-rounds", "4");
  },

  async "rows wait while the stream is paused or somebody points at one"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(5));
    await shown.go("/dashboard/decisions");
    await hasRows(shown, 5);
    await shown.click("#pause");
    await shown.shows("#pause", "Resume");
    await served.stream(mixed(7, 5));
    await shown.shows("#rows-note", "7 newer rows wait");
    assert.equal(await rows(shown), 5);
    await shown.click("#pause");
    await hasRows(shown, 12);
    await shown.shows("#rows-note", "");

    await shown.raw.hover("#rows tbody tr:nth-child(2)");
    await served.stream(mixed(3, 12));
    await shown.shows("#rows-note", "3 newer rows wait while you look");
    assert.equal(await rows(shown), 12);
    await shown.raw.mouse.move(2, 2);
    await hasRows(shown, 15);
  },

  async "a row opens its decision, which says why, how and how well"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(30));
    await served.learnt(30);
    const { decision_id: id, arm } = await served.task(sum(100));
    await shown.go("/dashboard/decisions");
    await shown.click(`#rows tr[data-id="${id}"] td:nth-child(4)`);
    await shown.raw.waitForURL(`**/dashboard/decisions/${id}`);
    await shown.inState("ready");
    await shown.shows("#why-title", `single / ${arm} for math`);
    await shown.shows("#why-sentence", /^Chosen with probability (0\.\d+|1\.000) among \d+ options/);
    await shown.shows("#prompt", /What is 100 plus 101\?/);
    assert.match(await shown.text("#facts"), new RegExp(`sum-100[\\s\\S]*math`));
    const told = await served.get(`/v1/decisions/${id}`), options = told.decision.pmf.filter((option) => option.p > 0).length;
    assert.ok((await shown.count("#options tbody tr")) >= options, "each option has a row");
    assert.equal(await shown.count("#options tbody tr.chosen"), 1);
    const heads = await shown.text("#options thead");
    for (const voter of told.decision.voters) assert.ok(heads.includes(voter.policy), `${voter.policy} is a column`);
    assert.ok((await shown.count("#calls tbody tr")) >= 1, "the call is shown");
    await shown.shows("#feedback", /Verifiers scored/);
    assert.match(await shown.text("#feedback"), /answer\/\S+ · scored/);
    assert.ok((await shown.count("#feedback .verdict table tbody tr")) >= 1, "a verdict has its signals");
    await shown.shows("#cost", /All of the round/);
    await until("neighbours are listed", async () => (await shown.count("#neighbours tbody tr")) > 0, { last: () => shown.text("#neighbours") });
    const [near] = await shown.texts("#neighbours tbody a");
    await shown.click("#neighbours tbody a");
    await shown.raw.waitForURL(/\/dashboard\/memory\?entry=\d+$/);
    await shown.shows("#entry", new RegExp(`Task\\s+${near}\\s`));
  },

  async "a decision that is not known has its own words, and so has what is no id"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    shown.expect(status(404), status(422), status(400));
    for (const id of [UNKNOWN, "nothing"]) {
      await shown.go(`/dashboard/decisions/${id}`, "error");
      await shown.shows("#missing", /The daemon does not know this decision/);
      await shown.shows("#missing-id", id);
      assert.ok(!(await shown.visible("#error")), "no other notice is in its way");
    }
  },
};
