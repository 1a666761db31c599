// How soon the overview is painted and of use in Chromium: `node bench/pages/paint.mjs URL FOLDER [LOADS]` prints JSON, in
// milliseconds from the start of a navigation. FOLDER has what tests/browser/package.json names, POINTSMAN_CHROMIUM is the browser.
//
// Empty: a new profile for each load. Warm: loads in one profile that has seen the page; files are asked for again and found unchanged.
// Usable: the page's state is ready and its first chart is drawn, seen in the page itself by looking at each frame.

import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [url, folder, loads = "15"] = process.argv.slice(2);
if (!url || !folder) {
  console.error("usage: node paint.mjs URL FOLDER [LOADS]");
  process.exit(64);
}
const { chromium } = createRequire(join(resolve(folder), "package.json"))("playwright-core");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PATIENCE_MS = 60000;

/** Notes when the page became usable. It runs before the page's own scripts. */
function watch() {
  const look = () => {
    const ready = document.querySelector('main[data-state="ready"]'), chart = document.querySelector("#regret-chart canvas");
    if (ready && chart && chart.width > 0) window.usableAt = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}

async function load(context) {
  const page = await context.newPage();
  await page.goto(new URL("/dashboard", url).href, { waitUntil: "commit" });
  const times = await page.evaluate((patience) => new Promise((resolve, reject) => {
    const began = performance.now();
    const look = () => {
      const paint = performance.getEntriesByName("first-contentful-paint")[0];
      if (paint && window.usableAt) resolve({ paint: paint.startTime, usable: window.usableAt });
      else if (performance.now() - began > patience) reject(new Error("the overview did not become usable"));
      else setTimeout(look, 20);
    };
    look();
  }), PATIENCE_MS);
  await page.close();
  return times;
}

const one = (x) => Math.round(x * 10) / 10;
function summary(all, part) {
  const sorted = all.map((times) => times[part]).sort((a, b) => a - b);
  return { median_ms: one(sorted[Math.floor(sorted.length / 2)]), worst_ms: one(sorted[sorted.length - 1]) };
}
const report = (all) => ({ first_contentful_paint: summary(all, "paint"), usable: summary(all, "usable") });

const browser = await chromium.launch({ executablePath: process.env.POINTSMAN_CHROMIUM || "/usr/bin/chromium", args: FLAGS });
const profile = async () => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.addInitScript(watch);
  return context;
};
const empty = [], warm = [];
// The first load of all starts the browser's own parts.
const kept = await profile();
await load(kept);
for (let n = 0; n < Number(loads); n += 1) {
  const fresh = await profile();
  empty.push(await load(fresh));
  await fresh.close();
}
for (let n = 0; n < Number(loads); n += 1) warm.push(await load(kept));
const version = browser.version();
await browser.close();
console.log(JSON.stringify({ chromium: version, loads: Number(loads), empty_cache: report(empty), warm_cache: report(warm) }));
