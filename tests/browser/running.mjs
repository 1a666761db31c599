// Modes on the pages: each mode's share, and a trajectory of several calls.

import assert from "node:assert/strict";
import { ARMS, mixed, sum } from "./daemon.mjs";

const MODES = `
[modes]
enabled = ["single", "multi", "agentic"]
[modes.domains]
text = ["single", "multi"]
`;

export const tests = {
  async "modes have their shares, and a team's decision tells its turns, calls and words"({ daemon, page, picture }) {
    const served = await daemon({ config: MODES + ARMS }), shown = await page(served);
    const answers = await served.stream(mixed(90));
    await served.learnt(90);
    await shown.go("/dashboard");
    await shown.shows("#n-rounds", "90");
    await shown.drawn("modes-chart");
    for (const mode of new Set(answers.map((answer) => answer.mode))) await shown.shows("#modes-readout", new RegExp(mode));
    await picture(shown, "modes");

    const team = answers.find((answer) => answer.mode === "agentic");
    assert.ok(team, "one of ninety ran as a team");
    await shown.go(`/dashboard/decisions/${team.decision_id}`);
    const { outcome } = await served.get(`/v1/decisions/${team.decision_id}`);
    await shown.shows("#why-title", new RegExp(`^agentic / ${team.arm} for math`));
    await shown.shows("#trajectory", /Turns by\s+a fixed rule/);
    assert.equal(await shown.count("#trajectory details"), outcome.calls.length, "each call's words can be opened");
    assert.equal(await shown.count("#trajectory ol.timeline > li"), outcome.trajectory.turns.length);
    assert.match(await shown.text("#trajectory"), new RegExp(`n${outcome.trajectory.answered_by}'s output is the answer`));
    assert.equal(await shown.count("#calls tbody tr"), outcome.calls.length);
    await shown.click("#trajectory details:first-of-type summary");
    await shown.shows("#trajectory details[open]", /planner by /);
    await picture(shown, "trajectory");

    const once = await served.task(sum(500, { constraints: { modes: ["single"] } }));
    await shown.go(`/dashboard/decisions/${once.decision_id}`);
    assert.ok(!(await shown.visible("#trajectory-panel")), "one call has no trajectory");
  },
};
