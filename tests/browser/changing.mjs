// Changes that an operator makes from a page, with the admin key and a confirmation.

import assert from "node:assert/strict";
import { mixed } from "./daemon.mjs";
import { status } from "./page.mjs";
import { until } from "./wait.mjs";

const ADMIN = "an-admin-key-of-some-length";
const card = (name) => `[data-verifier="${name}"]`;
const button = (of, action) => `${of} button[data-action="${action}"]`;

/** Goes through with the dialog that is open, and closes it; what it said came of it. */
async function confirmed(page) {
  await page.click("#ask-go");
  await until("the change is done", () => page.raw.evaluate(() => document.getElementById("ask-result")?.dataset.kind === "good"), { last: () => page.text("dialog") });
  const said = await page.text("#ask-result");
  await page.click("#ask-cancel");
  await until("the dialog is gone", async () => (await page.count("dialog")) === 0);
  return said;
}

export const tests = {
  async "a verifier is weighed, rolled back and swapped from the page, with the admin key"({ daemon, page }) {
    const served = await daemon({ adminKey: ADMIN }), shown = await page(served);
    await served.stream(mixed(10));
    await served.learnt(10);
    await shown.go("/dashboard/domains/math");
    await shown.shows(card("answer"), /version 1\b/);

    await shown.click(button(card("answer"), "weigh"));
    assert.ok(await shown.visible("#ask"));
    await shown.click("#ask-cancel");
    assert.equal((await served.get("/v1/domains/math/verifiers/answer")).version, 1, "cancelling changes nothing");

    shown.expect(status(401));
    await shown.click(button(card("answer"), "weigh"));
    await shown.raw.fill("#new-weight", "0.5");
    await shown.raw.check("#scope-own");
    await shown.click("#ask-go");
    await shown.shows("dialog:has(#admin-key)", /This needs an admin key/);
    await shown.raw.fill("#admin-key", "not-the-admin-key-at-all");
    await shown.press("Enter");
    await shown.shows("dialog:has(#admin-key)", /did not accept that key/);
    await shown.raw.fill("#admin-key", ADMIN);
    await shown.click('dialog:has(#admin-key) button[type="submit"]');
    await shown.shows("#ask-result", /answer is at version 2 now: weight 0\.5/);
    await shown.click("#ask-cancel");
    await shown.shows(card("answer"), /version 2\b/);
    const weighed = await served.get("/v1/domains/math/verifiers/answer");
    assert.deepEqual([weighed.version, weighed.weight], [2, 0.5]);
    assert.ok((await served.get("/v1/domains")).sets.some((set) => set.domain === "math" && set.inherited !== true), "the domain has a set of its own now");

    await shown.click(button(card("answer"), "rollBack"));
    await until("its versions are read", async () => !(await shown.raw.isDisabled("#ask-go")));
    assert.match(await confirmed(shown), /answer is at version 3 now: weight 0\.8/);
    await shown.shows(card("answer"), /version 3\b/);
    assert.equal((await served.get("/v1/domains/math/verifiers/answer")).weight, 0.8);

    await shown.click(button(card("rules"), "swap"));
    assert.ok(await shown.raw.isDisabled("#ask-go"), "no module is chosen yet");
    await shown.raw.selectOption("#module-known", "syntax");
    assert.match(await confirmed(shown), /rules is at version 2 now/);
    await shown.shows(card("rules"), /version 2\b/);
    const swapped = await served.get("/v1/domains/math/verifiers/rules"), before = await served.get("/v1/domains/text/verifiers/rules");
    assert.equal(swapped.version, 2);
    assert.notEqual(swapped.sha256, before.sha256, "another module judges math, and text's is the old one");

    await shown.click(button(card("rules"), "remove"));
    assert.match(await confirmed(shown), /rules is removed/);
    await until("it is gone", async () => (await shown.text(card("rules"))).includes("removed"));
    await served.stream(mixed(4, 50));
  },

  async "a module that is refused changes nothing, and the page says why"({ daemon, page }) {
    const served = await daemon({ adminKey: ADMIN }), shown = await page(served, { prepare: `sessionStorage.setItem("pointsman.key", ${JSON.stringify(ADMIN)})` });
    await served.stream(mixed(2));
    await shown.go("/dashboard/domains/math");
    await shown.click(button(card("rules"), "swap"));
    await shown.raw.setInputFiles("#module-file", { name: "mine.wasm", mimeType: "application/wasm", buffer: Buffer.from("this is no module") });
    await shown.shows("#swap-what", /mine\.wasm/);
    shown.expect(status(422));
    await shown.click("#ask-go");
    await shown.shows("#ask-result", /Nothing was changed\..*422/s);
    assert.equal((await served.get("/v1/domains/math/verifiers/rules")).version, 1);
    await shown.press("Escape");
    await until("the dialog is gone", async () => (await shown.count("dialog")) === 0);
  },

  async "a policy is put on trial, promoted and rolled back from the page"({ daemon, page }) {
    const served = await daemon({ adminKey: ADMIN, cards: { steady: 'name = "steady"\npolicy = "fixed:good"\n', broken: 'policy = "linucb"' } });
    const shown = await page(served, { prepare: `sessionStorage.setItem("pointsman.key", ${JSON.stringify(ADMIN)})` }), steady = 'tr[data-card="steady"]';
    await served.stream(mixed(20));
    await served.learnt(20);
    await shown.go("/dashboard/policies");
    const champion = (await served.get("/v1/policies")).champion.name;
    await shown.shows("#champion-name", champion);
    await shown.shows('tr[data-card="broken"]', /cannot be used/);
    assert.ok(await shown.raw.isDisabled(button('tr[data-card="broken"]', "promote")));

    await shown.click(button(steady, "trial"));
    await shown.shows("#ask", /decides nothing and calls nobody/);
    assert.match(await confirmed(shown), /fixed:good .* is on trial now/);
    await shown.shows("#shadow-name", /fixed:good/);
    assert.equal((await served.get("/v1/policies")).shadow.policy.name, "fixed:good");
    await served.stream(mixed(20, 100));
    await served.learnt(40);
    await shown.raw.reload();
    await shown.shows("#shadow", /Rounds looked on at\s*20/);

    await shown.click(button(steady, "promote"));
    assert.match(await confirmed(shown), /fixed:good .* decides now/);
    await shown.shows("#champion-name", "fixed:good");
    await shown.shows("#shadow-name", "No policy");
    assert.equal((await served.get("/v1/policies")).champion.name, "fixed:good");

    await shown.click("#rollback");
    assert.match(await confirmed(shown), /decides now/);
    await shown.shows("#champion-name", champion);
    assert.equal((await served.get("/v1/policies")).champion.name, champion);
    await shown.shows("#changes", /rolled back/);
  },
};
