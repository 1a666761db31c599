// A domain's verifiers: how they did, and changing them. Each change says first what it will do, and to which set.

import { getJson, send } from "./api.js";
import { ask } from "./dialog.js";
import { h, isNum, list, rec, str } from "./dom.js";
import { bytes, dayTime, int, pct, plural, score3, us } from "./format.js";

/** The set of all domains without one of their own. */
const ALL = "*";
const COMPONENT_BYTES_MAX = 64 * 1024 * 1024;
const FIRST_PARTY = ["answer", "consistency", "json", "python", "rules", "syntax"];
const WEIGHT_MAX = 1000;
const ENDS = "Verifications under way end on the module that they began with; answers after the change are judged by the new state. The change is durable.";

const share = (part, whole) => (isNum(part) && isNum(whole) && whole > 0 ? part / whole : null);
const micros = (x) => (isNum(x) && x < 1000 ? `${int(Math.round(x))} µs` : us(x));
const number = (x) => (!isNum(x) ? "–" : Math.abs(x) >= 1e6 ? int(Math.round(x)) : String(x));

/** A verifier with its figures and buttons. `change` has the four changes as functions of the verifier. */
export function verifierCard(v, change) {
  const name = str(v.name), recent = rec(v.recent);
  const button = (action, text, why) => h("button", {
    type: "button", "data-action": action, "data-key": `${action} ${name}`, "aria-label": `${text} ${name}`, disabled: Boolean(why), title: why || null, onclick: () => change[action](v),
  }, text);
  const first = isNum(v.version) && v.version <= 1;
  return h("li", { class: v.removed === true ? "card removed" : "card", "data-verifier": name },
    h("div", { class: "card-head" },
      h("h3", {}, name || "(no name)"),
      h("p", { class: "muted" }, `version ${int(v.version)}`, str(v.stated_version) && ` (says ${str(v.stated_version)})`,
        v.gate === true && h("span", { class: "tag", title: "A zero of a gate is a zero in all" }, "gate"),
        v.inherited === true && h("span", { class: "tag", title: "From the set of all domains without one of their own" }, "inherited"),
        v.removed === true && h("span", { class: "tag" }, "removed")),
      v.removed !== true && h("div", { class: "card-tools", role: "group", "aria-label": `Changes of ${name}` },
        button("swap", "Swap …"), button("weigh", "Weigh …"), button("rollBack", "Roll back …", first && "There is no earlier version"), button("remove", "Remove …"))),
    h("dl", { class: "kv" }, facts(v, recent).map(([k, value, note]) => h("div", {}, h("dt", {}, k), h("dd", {}, value, note && h("span", { class: "cell-sub" }, note))))));
}

function facts(v, recent) {
  const some = isNum(recent.runs) && recent.runs > 0;
  const lately = some ? `of the last ${plural(recent.runs, "run", "runs")}` : "no run lately";
  return [
    ["Weight", number(v.weight)],
    ["Passed lately", pct(share(recent.passed, recent.scored)), lately],
    ["Passed in all", pct(share(v.passed, v.scored)), `of ${int(v.scored)} scored`],
    ["Mean score", score3(v.score_mean), `${int(v.runs)} runs`],
    ["Errors", int(v.errors), `${int(recent.errors)} lately`],
    ["Over its limits", int(v.limits), `${int(recent.limits)} lately`],
    ["Time, half within", micros(recent.duration_us_p50), `95% within ${micros(recent.duration_us_p95)}`],
    ["Fuel a run", isNum(recent.fuel_mean) ? int(Math.round(recent.fuel_mean)) : "–", "instructions"],
    ["Not applicable", int(v.not_applicable), isNum(v.invalid_task) && v.invalid_task > 0 ? `${int(v.invalid_task)} tasks not valid` : null],
    ["Module", str(v.sha256) ? h("code", { title: str(v.sha256) }, `${str(v.sha256).slice(0, 12)}…`) : "–", v.installed_at_ms > 0 ? `since ${dayTime(v.installed_at_ms)}` : "as configured"],
  ];
}

/** The changes of one domain's verifiers; `reload` reads the page again. */
export class Changes {
  constructor(domain, reload) {
    Object.assign(this, { domain, reload });
  }

  /** Which set is meant: fields for an inherited verifier, a sentence for one of the domain's own. */
  scope(inherited) {
    if (!inherited) return { set: () => this.domain, about: [h("p", {}, "It concerns the set of ", h("b", {}, this.domain), " alone.")] };
    const own = h("input", { type: "radio", name: "scope", value: "own", id: "scope-own" });
    const all = h("input", { type: "radio", name: "scope", value: "all", id: "scope-all", checked: true });
    const who = h("span", { id: "scope-who" });
    this.heirs().then((names) => who.append(names)).catch(() => {});
    return {
      set: () => (own.checked ? this.domain : ALL),
      about: [h("fieldset", {}, h("legend", {}, "This verifier is inherited. Change it for"),
        h("label", { class: "choice" }, all, h("span", {}, h("b", {}, "every domain without a set of its own"), " (the set ", h("code", {}, ALL), ")", who)),
        h("label", { class: "choice" }, own, h("span", {}, h("b", {}, `${this.domain} alone`), ": it gets a copy of the inherited set as its own, with this change, and follows the other one no more")))],
    };
  }
  async heirs() {
    const sets = list(rec(await getJson("/v1/domains")).sets);
    const names = sets.filter((s) => rec(s).inherited === true && str(s.domain)).map((s) => str(s.domain));
    const cut = names.slice(0, 12);
    return names.length ? `: ${cut.join(", ")}${names.length > cut.length ? ` and ${int(names.length - cut.length)} more` : ""}` : "";
  }
  path(set, name) {
    return `/v1/domains/${encodeURIComponent(set)}/verifiers/${encodeURIComponent(name)}`;
  }
  ask(options) {
    return ask({ ...options, after: this.reload });
  }

  swap(v) {
    const name = str(v.name), scope = this.scope(v.inherited === true), module = moduleFields();
    const what = h("p", { id: "swap-what" });
    const say = () => what.replaceChildren(module.words() ? `Version ${int(v.version)} of ${name} gives way to ${module.words()}, with the same weight, gate and settings. It is compiled and tried first; if it is refused, nothing changes.`
      : `Version ${int(v.version)} of ${name} gives way to the module that you choose.`);
    module.onchange = say;
    say();
    return this.ask({
      title: `Swap ${name}`, verb: "Swap it", about: [module.fields, scope.about, what, h("p", { class: "muted" }, ENDS)], ready: module.ready,
      run: async () => outcome(await module.put(this.path(scope.set(), name)), v),
    });
  }

  install(inherited) {
    const scope = this.scope(inherited), module = moduleFields();
    const name = h("input", { id: "install-name", required: true, spellcheck: "false", maxlength: 64 }), count = weightFields({ weight: 1, gate: false });
    const about = [h("p", {}, h("label", { class: "field" }, "Name in the set ", name)), module.fields, count.fields, scope.about,
      h("p", {}, "Scores from then on are made up of this verifier too. It is compiled and tried first; if it is refused, nothing changes."), h("p", { class: "muted" }, ENDS)];
    return this.ask({
      title: "Install another verifier", verb: "Install it", about, ready: () => Boolean(name.value.trim()) && module.ready() && count.ready(),
      run: async () => outcome(await module.put(this.path(scope.set(), name.value.trim()), count.value())),
    });
  }

  weigh(v) {
    const name = str(v.name), scope = this.scope(v.inherited === true), count = weightFields(v);
    const about = [h("p", {}, "The module stays. The score is sum(weight × score) / sum(weight); a gate whose score is 0 makes the whole 0."), count.fields, scope.about, h("p", { class: "muted" }, ENDS)];
    return this.ask({
      title: `Weigh ${name}`, verb: "Change it", about, ready: count.ready,
      run: async () => outcome(await send("PATCH", this.path(scope.set(), name), count.value()), v),
    });
  }

  rollBack(v) {
    const name = str(v.name), scope = this.scope(v.inherited === true);
    const pick = h("select", { id: "rollback-to", disabled: true }, h("option", { value: "" }, "Reading its versions …"));
    const note = h("p", { class: "muted", role: "status" });
    const fill = (report) => {
      const versions = list(rec(report).history).map(rec).filter((x) => isNum(x.version) && x.version !== report.version).reverse();
      pick.replaceChildren(...versions.map((x, i) => h("option", { value: x.version }, `${i ? "" : "the one before: "}version ${int(x.version)}, ${versionWords(x)}`)));
      pick.disabled = !versions.length;
      note.textContent = versions.length ? "" : "No earlier version is remembered.";
      pick.dispatchEvent(new Event("ask-change", { bubbles: true }));
    };
    getJson(this.path(v.inherited === true ? ALL : this.domain, name)).then(fill, (e) => { note.textContent = `Its versions could not be read. ${e.message}`; });
    const about = [h("p", {}, h("label", { class: "field" }, "Back to ", pick)), note, scope.about,
      h("p", {}, "That version's module and settings judge again, under a new version number. Nothing is lost: the present version can be brought back the same way."), h("p", { class: "muted" }, ENDS)];
    return this.ask({
      title: `Roll ${name} back`, verb: "Roll it back", about, ready: () => !pick.disabled && pick.value !== "",
      run: async () => outcome(await send("POST", `${this.path(scope.set(), name)}/rollback?version=${encodeURIComponent(pick.value)}`), v),
    });
  }

  remove(v) {
    const name = str(v.name), scope = this.scope(v.inherited === true);
    const about = [h("p", {}, `${name} is removed with all its earlier versions; it cannot be rolled back to. Scores are made up of the verifiers that are left. The last one of a set stays.`), scope.about, h("p", { class: "muted" }, ENDS)];
    return this.ask({
      title: `Remove ${name}`, verb: "Remove it", danger: true, about,
      run: async () => { await send("DELETE", this.path(scope.set(), name)); return `${name} is removed.`; },
    });
  }
}

function versionWords(x) {
  const from = rec(x.origin).rolled_back ? `rolled back to ${int(rec(x.origin.rolled_back).to)}` : str(x.origin);
  const component = rec(x.component), module = component.first_party ? `Pointsman's ${str(component.first_party)}` : `module ${str(x.sha256).slice(0, 8)}`;
  return `${from}${x.at_ms > 0 ? ` ${dayTime(x.at_ms)}` : ""}, weight ${number(x.weight)}${x.gate === true ? ", gate" : ""}, ${module}`;
}

/** What came of a change, by the verifier as it is now. */
function outcome(report, before) {
  const r = rec(report), name = str(r.name);
  if (before && isNum(r.version) && r.version === before.version) return `${name} was so already: nothing had to be changed.`;
  return `${name} is at version ${int(r.version)} now: weight ${number(r.weight)}${r.gate === true ? ", gate" : ", no gate"}, module ${str(r.sha256).slice(0, 12)}.`;
}

function weightFields(v) {
  const weight = h("input", { id: "new-weight", type: "number", min: 0, max: WEIGHT_MAX, step: "any", required: true, value: isNum(v.weight) ? v.weight : 1 });
  const gate = h("input", { id: "new-gate", type: "checkbox", checked: v.gate === true });
  return {
    fields: h("div", { class: "fields" }, h("label", { class: "field" }, "Weight ", weight), h("label", { class: "choice" }, gate, h("span", {}, "Gate: its zero makes the whole zero"))),
    ready: () => weight.valueAsNumber > 0 && weight.valueAsNumber <= WEIGHT_MAX,
    value: () => ({ weight: weight.valueAsNumber, gate: gate.checked }),
  };
}

/** Choosing a module: a file of one's own, or one that comes with the program. */
function moduleFields() {
  const file = h("input", { id: "module-file", type: "file", accept: ".wasm,application/wasm", "aria-label": "Module file" });
  const known = h("select", { id: "module-known", "aria-label": "Pointsman's verifier" }, FIRST_PARTY.map((n) => h("option", { value: n }, n)));
  const byFile = h("input", { type: "radio", name: "module", value: "file", checked: true }), byName = h("input", { type: "radio", name: "module", value: "known" });
  const note = h("span", { class: "muted", role: "status" });
  const fields = h("fieldset", {}, h("legend", {}, "Module"),
    h("label", { class: "choice" }, byFile, h("span", {}, "a file: a WebAssembly component, or a core module with the contract's world")), h("div", { class: "choice-of" }, file, note),
    h("label", { class: "choice" }, byName, h("span", {}, "one that comes with Pointsman")), h("div", { class: "choice-of" }, known));
  const chosen = () => file.files[0];
  const tooLarge = () => byFile.checked && chosen() && chosen().size > COMPONENT_BYTES_MAX;
  const module = {
    fields,
    ready: () => byName.checked || Boolean(chosen() && chosen().size > 0 && !tooLarge()),
    words: () => (byName.checked ? `Pointsman's own ${known.value}` : chosen() ? `${chosen().name} (${bytes(chosen().size)})` : ""),
    put: (path, settings = {}) => (byName.checked ? send("PUT", path, { first_party: known.value, ...settings })
      : send("PUT", `${path}${settings.weight ? `?${new URLSearchParams(settings)}` : ""}`, chosen(), { contentType: "application/wasm" })),
    onchange: () => {},
  };
  fields.addEventListener("input", (ev) => {
    if (ev.target === file) byFile.checked = true;
    if (ev.target === known) byName.checked = true;
    note.textContent = tooLarge() ? `This file has ${bytes(chosen().size)}; a module has at most ${bytes(COMPONENT_BYTES_MAX)}.` : "";
    module.onchange();
  });
  return module;
}
