// A page in a browser of its own profile. Whatever the browser complains of is a fault unless the test expects it.

import { join } from "node:path";
import { until } from "./wait.mjs";

const FILES = process.env.POINTSMAN_PAGES;

/** Each breach of the content security policy, as a line of the console. */
const TELL_BREACHES = () => addEventListener("securitypolicyviolation", (ev) => console.error(`content security policy: ${ev.violatedDirective} ${ev.blockedURI} ${ev.sourceFile}`));

/** What a browser says of connections to a daemon that was killed. */
export const GONE = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED|event stream:/;
export const status = (code) => new RegExp(`status (of )?${code}\\b`);

export class Page {
  static async open(browser, daemon, { width = 1440, height = 900, theme = "light", credentials, prepare } = {}) {
    const page = new Page();
    page.daemon = daemon;
    page.faults = [];
    page.expected = [];
    page.context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, httpCredentials: credentials, reducedMotion: "reduce" });
    await page.context.addInitScript(TELL_BREACHES);
    if (prepare) await page.context.addInitScript(prepare);
    if (FILES) await page.context.route("**/dashboard/static/*", (route) => route.fulfill({ path: join(FILES, new URL(route.request().url()).pathname.split("/").pop()) }));
    page.raw = await page.context.newPage();
    page.listen();
    return page;
  }

  listen() {
    const fault = (text) => this.faults.push(`${new URL(this.raw.url(), "http://x").pathname}: ${text}`);
    this.raw.on("console", (line) => { if (["error", "warning"].includes(line.type())) fault(`${line.text()} (${line.location().url})`); });
    this.raw.on("pageerror", (error) => fault(error.stack || error.message));
    this.raw.on("requestfailed", (request) => {
      const why = request.failure()?.errorText ?? "";
      // The page itself, or leaving it, ended the request.
      if (why !== "net::ERR_ABORTED") fault(`${request.url()}: ${why}`);
    });
  }

  /** From now on these are no faults. */
  expect(...patterns) { this.expected.push(...patterns); }
  /** Throws if there was anything that no step expected. */
  check() {
    const rest = this.faults.filter((fault) => !this.expected.some((pattern) => pattern.test(fault)));
    if (rest.length) throw new Error(`the browser complained:\n  ${rest.slice(0, 10).join("\n  ")}`);
  }

  /** Opens a page of the daemon and waits until it is in a state. */
  async go(path, state = "ready") {
    await this.raw.goto(this.daemon.url + path, { waitUntil: "load" });
    if (state) await this.inState(state);
  }
  inState(state) {
    const now = () => this.raw.evaluate(() => document.querySelector("main")?.dataset.state ?? "without main");
    return until(`the page's state is ${state}`, async () => (await now()) === state, { last: async () => `It is ${await now()}: ${(await this.text("main")).slice(0, 300)}` });
  }
  connected(state = "live") {
    return until(`the connection is ${state}`, () => this.raw.evaluate((wanted) => wanted.split("|").includes(document.getElementById("conn").dataset.state), state));
  }

  /** The visible text of what is there, "" where nothing is. */
  text(selector) {
    return this.raw.evaluate((at) => [...document.querySelectorAll(at)].filter((el) => el.checkVisibility()).map((el) => el.innerText).join("\n").trim(), selector);
  }
  texts(selector) {
    return this.raw.evaluate((at) => [...document.querySelectorAll(at)].filter((el) => el.checkVisibility()).map((el) => el.innerText.trim()), selector);
  }
  /** Waits until something shows a text: equal to it, or what it matches. */
  shows(selector, wanted, options) {
    const fits = (text) => (wanted instanceof RegExp ? wanted.test(text) : text === wanted);
    return until(`${selector} shows ${wanted}`, async () => fits(await this.text(selector)), { ...options, last: async () => `It shows: ${(await this.text(selector)).slice(0, 500)}` });
  }
  attribute(selector, name) { return this.raw.evaluate(([at, of]) => document.querySelector(at)?.getAttribute(of) ?? null, [selector, name]); }
  visible(selector) { return this.raw.evaluate((at) => Boolean(document.querySelector(at)?.checkVisibility()), selector); }
  count(selector) { return this.raw.evaluate((at) => document.querySelectorAll(at).length, selector); }

  click(selector) { return this.raw.click(selector); }
  press(key) { return this.raw.keyboard.press(key); }
  path() { const url = new URL(this.raw.url()); return url.pathname + url.search; }

  /** How many different colours a chart's canvas has; a blank one has one. */
  colours(chart) {
    return this.raw.evaluate((id) => {
      const from = document.querySelector(`#${id} canvas`);
      if (!from || !from.width) return 0;
      const copy = new OffscreenCanvas(from.width, from.height), ctx = copy.getContext("2d", { willReadFrequently: true });
      ctx.drawImage(from, 0, 0);
      return new Set(new Uint32Array(ctx.getImageData(0, 0, from.width, from.height).data.buffer)).size;
    }, chart);
  }
  drawn(chart, least = 3) {
    return until(`the chart ${chart} is drawn`, async () => (await this.colours(chart)) >= least, { last: () => this.attribute(`#${chart}`, "aria-label") });
  }

  /** Presses Tab until the focus is on something that matches; the names of what it went over. */
  async tabTo(selector, most = 80) {
    const passed = [];
    for (let i = 0; i < most; i += 1) {
      await this.press("Tab");
      const [there, name] = await this.raw.evaluate((at) => {
        const el = document.activeElement;
        return [el.matches(at), `${el.tagName.toLowerCase()}${el.id ? `#${el.id}` : ""} ${(el.getAttribute("aria-label") || el.innerText || el.value || "").trim().slice(0, 30)}`];
      }, selector);
      passed.push(name);
      if (there) return passed;
    }
    throw new Error(`Tab does not reach ${selector}; it went over: ${passed.join(", ")}`);
  }
}
