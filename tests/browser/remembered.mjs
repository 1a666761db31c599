// What is kept: memory with its map and search, domains, and saved replays.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mixed } from "./daemon.mjs";
import { until } from "./wait.mjs";

export const tests = {
  async "memory's map is drawn, search finds, and an entry opens by keyboard"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(40));
    await served.learnt(40);
    await shown.go("/dashboard/memory");
    await shown.shows("#n-entries", "40");
    await shown.drawn("map-chart");
    await shown.shows("#map-readout", /40 points/);
    await shown.raw.selectOption("#colour", "score");
    await shown.shows("#map-readout", /score 1/);
    assert.equal(shown.path(), "/dashboard/memory?colour=score");

    await shown.raw.fill("#q", "What is 7 plus 8?");
    await shown.press("Enter");
    await shown.shows("#search-note", /found/);
    await shown.shows("#found tbody tr:first-child", /word|sum/);
    assert.ok((await shown.text("#found tbody tr:first-child")).startsWith("sum-"), "sums are nearest to a sum");
    await shown.raw.reload();
    await shown.shows("#search-note", /found/);

    await shown.raw.focus("#found tbody tr:first-child button.link");
    await shown.press("Enter");
    await shown.shows("#entry", /single \//);
    await shown.press("Escape");
    await until("the dialog is gone", async () => (await shown.count("#entry")) === 0);
    assert.ok(await shown.raw.evaluate(() => document.activeElement.matches("#found button.link")), "focus is where it was");

    await shown.drawn("map-chart");
    await shown.raw.focus("#map-chart");
    await shown.press("ArrowRight");
    await until("the point is read", async () => /sum-|word-/.test(await shown.text("#say")));
    await shown.press("Enter");
    await shown.shows("#entry", /score/);
  },

  async "domains are listed, found and sorted, and each has its page"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(31));
    await served.learnt(31);
    await shown.go("/dashboard/domains");
    assert.deepEqual(await shown.texts("#domains tbody th a"), ["math", "text"]);
    await shown.click("#domains thead th:first-child button");
    await shown.click("#domains thead th:first-child button");
    assert.deepEqual(await shown.texts("#domains tbody th a"), ["text", "math"]);
    await shown.raw.fill("#find", "MAT");
    assert.deepEqual(await shown.texts("#domains tbody th a"), ["math"]);
    await shown.click("#domains tbody th a");
    await shown.raw.waitForURL("**/dashboard/domains/math");
    await shown.inState("ready");
    await shown.shows("#n-rounds", "16");
    assert.equal(await shown.count("#arms tbody tr"), 3);
    for (const chart of ["score-chart", "regret-chart", "weights-chart"]) await shown.drawn(chart);
    await shown.raw.selectOption("#range", "15m");
    assert.equal(shown.path(), "/dashboard/domains/math?range=15m");
    await shown.drawn("score-chart");
  },

  async "charts are saved as tables and pictures"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(30));
    await served.learnt(30);
    await shown.go("/dashboard");
    await shown.drawn("arms-chart");
    const saved = async (text) => {
      const [download] = await Promise.all([shown.raw.waitForEvent("download"), shown.click(`#arms-tools button:text-is("${text}")`)]);
      return [download.suggestedFilename(), readFileSync(await download.path())];
    };
    const [csvName, csv] = await saved("CSV");
    assert.equal(csvName, "pointsman-arms.csv");
    assert.match(csv.toString(), /^time,(bad|fair|good),/);
    const [pngName, png] = await saved("PNG");
    assert.equal(pngName, "pointsman-arms.png");
    assert.deepEqual([...png.subarray(1, 4)], [..."PNG"].map((c) => c.charCodeAt(0)));
  },

  async "a saved replay is listed and has its page"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    served.replay("first");
    await shown.go("/dashboard/reports");
    await shown.click("#reports tbody a");
    await shown.raw.waitForURL("**/dashboard/reports/first");
    await shown.inState("ready");
    await shown.shows("#section-0-table", /uniform/);
    await shown.shows("#section-0-table", /lin_ucb/);
    await shown.drawn("section-0-regret-chart");
    await shown.drawn("section-0-cost-chart");
    shown.expect(/status of 404/);
    await shown.go("/dashboard/reports/second", "empty");
    await shown.shows("#empty", /There is no such report/);
  },
};
