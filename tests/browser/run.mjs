// The pages in a real browser, in front of a real daemon. POINTSMAN_PROGRAM is the daemon's program, POINTSMAN_BROWSER the folder
// whose node_modules hold what package.json names, POINTSMAN_CHROMIUM the browser; POINTSMAN_SCREENSHOTS is where pictures go.
// With POINTSMAN_PAGES=src/dashboard/page scripts and styles come from there, so that a change is tried without building.
//
//   node tests/browser/run.mjs [words]     all tests, or those whose name has one of the words

import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import * as arriving from "./arriving.mjs";
import * as changing from "./changing.mjs";
import { Daemon } from "./daemon.mjs";
import * as deciding from "./deciding.mjs";
import * as hostile from "./hostile.mjs";
import * as keys from "./keys.mjs";
import * as looks from "./looks.mjs";
import { Page } from "./page.mjs";
import * as remembered from "./remembered.mjs";
import * as running from "./running.mjs";
import { within } from "./wait.mjs";

const TEST_MAX_MS = 240000;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

for (const name of ["POINTSMAN_PROGRAM", "POINTSMAN_BROWSER"]) {
  if (process.env[name]) continue;
  console.error(`${name} is not set`);
  process.exit(64);
}
const packages = createRequire(join(resolve(process.env.POINTSMAN_BROWSER), "package.json"));
const { chromium } = packages("playwright-core");
const screenshots = process.env.POINTSMAN_SCREENSHOTS || "";
if (screenshots) mkdirSync(screenshots, { recursive: true });

/** What a test gets: daemons and pages, which end with it. */
class Stand {
  constructor(browser) {
    Object.assign(this, { browser, screenshots, packages, daemons: [], pages: [], notes: [] });
  }
  // Functions of their own, so that a test can take out those that it needs.
  daemon = async (options) => {
    const daemon = await Daemon.start(options);
    this.daemons.push(daemon);
    return daemon;
  };
  page = async (daemon, options) => {
    const page = await Page.open(this.browser, daemon, options);
    this.pages.push(page);
    return page;
  };
  note = (text) => this.notes.push(text);
  picture = async (page, name) => { if (screenshots) await page.raw.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true }); };
  /** What was wrong, for whoever reads the log. */
  async explain(name) {
    for (const page of this.pages) {
      console.log(`    at ${page.raw.url()}; faults: ${page.faults.slice(-5).join(" | ") || "none"}`);
      await this.picture(page, `failed-${name.replace(/\W+/g, "-")}`).catch(() => {});
    }
    for (const daemon of this.daemons) console.log(`    the daemon's log ends: ${daemon.log().slice(-600)}`);
  }
  async end() {
    for (const page of this.pages) await page.context.close().catch(() => {});
    for (const daemon of this.daemons) await daemon.dispose();
  }
}

async function run(browser, name, test) {
  const stand = new Stand(browser), began = Date.now();
  try {
    await within(TEST_MAX_MS, "the test", test(stand));
    for (const page of stand.pages) page.check();
    console.log(`ok    ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)${stand.notes.map((note) => `\n      ${note}`).join("")}`);
    return true;
  } catch (error) {
    console.log(`FAIL  ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)\n    ${error.stack || error}`);
    await stand.explain(name);
    return false;
  } finally {
    await stand.end();
  }
}

const words = process.argv.slice(2);
const tests = [arriving, deciding, running, hostile, changing, remembered, keys, looks].flatMap((module) => Object.entries(module.tests))
  .filter(([name]) => !words.length || words.some((word) => name.includes(word)));
const browser = await chromium.launch({ executablePath: process.env.POINTSMAN_CHROMIUM || "/usr/bin/chromium", args: FLAGS });
const failed = [];
for (const [name, test] of tests) if (!(await run(browser, name, test))) failed.push(name);
await browser.close();
console.log(failed.length ? `${failed.length} of ${tests.length} failed: ${failed.join("; ")}` : `all ${tests.length} passed with ${browser.version()}`);
process.exit(failed.length || !tests.length ? 1 : 0);
