// How pages look and are used: sizes, themes, by keyboard alone, for those who listen, and what they weigh.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ARMS, DOWN, mixed, word } from "./daemon.mjs";
import { until } from "./wait.mjs";

const WEIGHT_MAX = 2e6;
/** What axe-core must not find. */
const GRAVE = ["serious", "critical"];

/** A daemon with something on each page; the pages by name. */
async function furnished(daemon) {
  const served = await daemon({ config: `${ARMS}${DOWN}[audit]\nshare = 0.1\nusd_per_day = 5.0\n`, cards: { steady: 'name = "steady"\npolicy = "fixed:good"\n', broken: 'policy = "linucb"' } });
  await served.stream(mixed(150));
  for (let n = 0; n < 8; n += 1) await served.failing(word(900 + n, { constraints: { arms: ["down"] } })); // its breaker opens: an alert
  await served.ask("/v1/policies/shadow", { card: "steady" });
  const [answer] = await served.stream(mixed(50, 150));
  served.replay("first");
  await served.learnt(200);
  return [served, {
    overview: "", domains: "/domains", domain: "/domains/math", decisions: "/decisions", decision: `/decisions/${answer.decision_id}`,
    memory: "/memory?q=lamp", policies: "/policies", reports: "/reports", report: "/reports/first",
  }];
}

/** Waits until nothing is said to be loading any more. */
const settled = (page) => until("all parts are there", async () => !/Loading|Reading the|Counting|Searching …/.test(await page.text("main")), { last: () => page.text("main") });

async function sound(page, axe, name) {
  const wide = await page.raw.evaluate(() => {
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    const outside = over > 0 ? [...document.querySelectorAll("body *")].filter((el) => el.getBoundingClientRect().right > innerWidth + 1 && !el.closest(".scroll, pre")).slice(0, 3) : [];
    return [over, outside.map((el) => `${el.tagName}#${el.id}.${el.className}`).join(" ")];
  });
  assert.ok(wide[0] <= 0, `${name} scrolls sideways by ${wide[0]} px: ${wide[1]}`);
  const twice = await page.raw.evaluate(() => [...document.querySelectorAll("[id]")].map((el) => el.id).filter((id, i, all) => all.indexOf(id) !== i));
  assert.deepEqual(twice, [], `${name} has an id twice`);
  await page.raw.evaluate(axe);
  const found = await page.raw.evaluate(async () => (await window.axe.run()).violations.map(({ impact, id, nodes }) => [impact, id, nodes.slice(0, 2).map((node) => `${node.target.join(" ")}: ${node.failureSummary}`).join("; ")]));
  const grave = found.filter(([impact]) => GRAVE.includes(impact));
  assert.deepEqual(grave, [], `axe-core finds on ${name}`);
  return found.length;
}

/** All pages in one size and theme. */
function look(width, height, theme) {
  return async (stand) => {
    const [served, pages] = await furnished(stand.daemon);
    const shown = await stand.page(served, { width, height, theme }), axe = readFileSync(stand.packages.resolve("axe-core/axe.min.js"), "utf8");
    let lesser = 0;
    const faults = [];
    for (const [name, path] of Object.entries(pages)) {
      await shown.go(`/dashboard${path}`);
      await shown.connected();
      await settled(shown);
      await stand.picture(shown, `${name}-${width}-${theme}`);
      // All pages are looked at before the test fails: their faults are mended together.
      await sound(shown, axe, name).then((n) => { lesser += n; }, (error) => faults.push(error.message));
    }
    assert.deepEqual(faults, []);
    if (lesser) stand.note(`${lesser} lesser findings of axe-core`);
  };
}

export const tests = {
  "all pages at 1440 px, light": look(1440, 900, "light"),
  "all pages at 1440 px, dark": look(1440, 900, "dark"),
  "all pages at 390 px, light": look(390, 844, "light"),
  "all pages at 390 px, dark": look(390, 844, "dark"),

  async "empty pages and notices are as sound as full ones"(stand) {
    const served = await stand.daemon(), axe = readFileSync(stand.packages.resolve("axe-core/axe.min.js"), "utf8");
    for (const width of [1440, 390]) {
      const shown = await stand.page(served, { width, theme: "dark" });
      shown.expect(/status (of )?4\d\d/);
      const states = { "": "empty", "/domains": "empty", "/decisions": "empty", "/memory": "empty", "/reports": "empty", "/policies": "ready", "/domains/math": "ready", "/decisions/none": "error" };
      for (const [path, state] of Object.entries(states)) {
        await shown.go(`/dashboard${path}`, state);
        await sound(shown, axe, `${path || "the overview"} without anything`);
      }
      await shown.raw.route("**/v1/overview", (route) => route.fulfill({ status: 401, contentType: "application/problem+json", body: '{"type":"urn:pointsman:problem:key-needed","title":"A key is needed","status":401}' }));
      await shown.go("/dashboard", "error");
      await stand.picture(shown, `key-${width}-dark`);
      await sound(shown, axe, "the overview that asks for a key");
    }
  },

  async "by keyboard alone: pages, range, charts, and a row's decision"({ daemon, page }) {
    const [served] = await furnished(daemon), shown = await page(served);
    await shown.go("/dashboard");
    await shown.connected();
    await shown.drawn("regret-chart");
    await shown.press("Tab");
    assert.ok(await shown.raw.evaluate(() => document.activeElement.matches("a.skip")), "first comes the way past the header");
    await shown.tabTo('nav a[href="/dashboard/decisions"]');
    await shown.tabTo("#ranges input");
    await shown.press("ArrowLeft");
    await until("another range is chosen", async () => shown.path().includes("range="), { last: () => shown.path() });
    await until("the charts are there again", async () => /the last/.test(await shown.text("#charts-note")));
    await shown.drawn("regret-chart");
    await shown.tabTo("#regret-chart");
    const said = () => shown.text("#say");
    const before = await said();
    await shown.press("Home");
    await until("the first value is read", async () => (await said()) !== before, { last: said });
    const first = await said();
    await shown.press("End");
    await until("the last value is read", async () => (await said()) !== first, { last: said });

    await shown.go("/dashboard/decisions");
    await until("rows are there", async () => (await shown.count("#rows tbody tr")) > 20);
    await shown.tabTo("#rows tbody a");
    await shown.press("ArrowDown");
    const link = await shown.raw.evaluate(() => document.activeElement.getAttribute("href"));
    assert.match(link, /^\/dashboard\/decisions\/[0-9a-f-]{36}$/);
    await shown.press("Enter");
    await shown.raw.waitForURL(`**${link}`);
    await shown.inState("ready");
    await shown.shows("#why-sentence", /^Chosen with probability/);
  },

  async "a chosen theme is kept, and charts take it"({ daemon, page }) {
    const served = await daemon(), shown = await page(served);
    await served.stream(mixed(20));
    await served.learnt(20);
    await shown.go("/dashboard");
    await shown.drawn("regret-chart");
    const ground = () => shown.raw.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await shown.click("#theme");
    await shown.click("#theme");
    await shown.shows("#theme", "Theme: dark");
    assert.notEqual(await ground(), light);
    await shown.raw.reload();
    await shown.inState("ready");
    await shown.shows("#theme", "Theme: dark");
    assert.notEqual(await ground(), light);
    await shown.drawn("regret-chart");
  },

  async "the overview weighs little"({ daemon, page, note }) {
    const [served] = await furnished(daemon), shown = await page(served);
    const wire = await shown.context.newCDPSession(shown.raw);
    await wire.send("Network.enable");
    let bytes = 0, files = 0;
    wire.on("Network.loadingFinished", ({ encodedDataLength }) => { bytes += encodedDataLength; files += 1; });
    await shown.go("/dashboard");
    await shown.drawn("regret-chart");
    await shown.drawn("arms-chart");
    note(`${files} files, ${(bytes / 1000).toFixed(0)} kB over the wire`);
    assert.ok(files > 10 && bytes <= WEIGHT_MAX, `${bytes} bytes; ${WEIGHT_MAX} are allowed`);
  },

  async "nothing comes from anywhere but the daemon"({ daemon, page }) {
    const [served, pages] = await furnished(daemon), shown = await page(served), elsewhere = new Set();
    shown.raw.on("request", (request) => { if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== served.url) elsewhere.add(request.url()); });
    for (const path of Object.values(pages)) await shown.go(`/dashboard${path}`);
    assert.deepEqual([...elsewhere], []);
  },
};
