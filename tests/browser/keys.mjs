// Pages of a daemon that asks for keys.

import assert from "node:assert/strict";
import { mixed } from "./daemon.mjs";
import { status } from "./page.mjs";
import { until } from "./wait.mjs";

/** A daemon with rounds, an admin's key and a client's. */
async function guarded(daemon) {
  const served = await daemon();
  served.key = served.adminKey = served.run("keys", "create", "--data-dir", served.data, "--name", "me", "--role", "admin");
  const make = (...more) => JSON.parse(served.run("keys", "create", "--data-dir", served.data, "--json", "--name", "ci", ...more));
  const client = make();
  await served.stream(mixed(6));
  await served.learnt(6);
  return { served, admin: served.key, client, make };
}
const inSession = (key) => `if (!sessionStorage.getItem("pointsman.key")) sessionStorage.setItem("pointsman.key", ${JSON.stringify(key)})`;

export const tests = {
  async "without a key a page is not even shown, and the browser asks for one"({ daemon, page }) {
    const { served, admin, client } = await guarded(daemon);
    const response = await fetch(`${served.url}/dashboard`);
    assert.equal(response.status, 401);
    assert.match(response.headers.get("www-authenticate"), /^Basic realm="pointsman/);
    const stranger = await page(served);
    stranger.expect(status(401), /ERR_INVALID_AUTH_CREDENTIALS/);
    const answer = await stranger.raw.goto(`${served.url}/dashboard`).catch((error) => error);
    assert.ok(answer instanceof Error || answer.status() === 401, "no page comes");

    const known = await page(served, { credentials: { username: "me", password: admin } });
    await known.go("/dashboard");
    await known.shows("#n-rounds", "6");
    await known.connected();
    for (const path of ["/domains", "/decisions", "/memory", "/policies"]) await known.go(`/dashboard${path}`);
    await served.stream(mixed(4, 6));
    await known.go("/dashboard");
    await known.shows("#n-rounds", "10");
    assert.ok(client.key.startsWith("pm_"));
  },

  async "a key that is refused is named for what it is, and another one can be given"({ daemon, page }) {
    const { served, admin, client, make } = await guarded(daemon), gone = make();
    served.run("keys", "revoke", gone.id, "--data-dir", served.data);
    const credentials = { username: "me", password: admin };
    for (const [key, words] of [[client.key, /needs an admin key/], [gone.key, /was revoked/], ["pm_of_nobody", /did not accept this key/]]) {
      const shown = await page(served, { credentials, prepare: inSession(key) });
      shown.expect(status(401), status(403));
      await shown.go("/dashboard", "error");
      await shown.shows("#auth", words);
      assert.ok(!(await shown.visible("#error")), "it is the only notice");
      await shown.connected("auth");
      await shown.raw.fill("#auth-key", admin);
      await shown.press("Enter");
      await shown.shows("#n-rounds", "6");
      await shown.connected();
      assert.ok(!(await shown.visible("#auth")), "the notice is gone");
    }
  },

  async "a client's key as the browser sends it opens pages, which ask for an admin's; one that opens nothing is asked for again"({ daemon, page }) {
    const { served, admin, client, make } = await guarded(daemon), gone = make();
    served.run("keys", "revoke", gone.id, "--data-dir", served.data);
    const basic = (key) => ({ authorization: `Basic ${Buffer.from(`me:${key}`).toString("base64")}` });
    const refused = await fetch(`${served.url}/dashboard`, { headers: basic(gone.key) });
    assert.deepEqual([refused.status, (await refused.json()).type], [401, "urn:pointsman:problem:key-revoked"]);
    assert.match(refused.headers.get("www-authenticate"), /^Basic /);

    const shown = await page(served, { credentials: { username: "me", password: client.key } });
    shown.expect(status(401), status(403));
    await shown.go("/dashboard", "error");
    await shown.shows("#auth", /needs an admin key/);
    assert.ok(!(await shown.visible("#error")), "it is the only notice");
    await shown.raw.fill("#auth-key", admin);
    await shown.press("Enter");
    await shown.shows("#n-rounds", "6");
    await shown.connected();
  },

  async "a key that runs out while a page is open is asked for anew"({ daemon, page }) {
    const { served, admin } = await guarded(daemon), shown = await page(served, { credentials: { username: "me", password: admin } });
    shown.expect(status(401));
    // Keys run out after a day at least, so that the daemon's answer is given for it.
    const problem = { type: "urn:pointsman:problem:key-expired", title: "The key opens nothing any more", status: 401, detail: "its time is over: ask for another one" };
    const expired = { status: 401, contentType: "application/problem+json", body: JSON.stringify(problem) };
    await shown.raw.route("**/v1/**", (route) => (route.request().headers().authorization?.endsWith("pm_old") ? route.fulfill(expired) : route.continue()));
    for (const page of ["", "/domains", "/domains/math", "/decisions", "/memory", "/policies", "/reports"]) {
      const path = `/dashboard${page}`;
      await shown.go("/dashboard/decisions", null);
      await shown.raw.evaluate(() => sessionStorage.setItem("pointsman.key", "pm_old"));
      await shown.go(path, "error");
      await shown.shows("#auth", /has expired/);
      await shown.raw.fill("#auth-key", admin);
      await shown.click("#auth-form button");
      await until(`${path} is shown`, async () => ["ready", "empty"].includes(await shown.attribute("main", "data-state")));
      await shown.raw.evaluate(() => sessionStorage.clear());
    }
  },
};
