// The saved replay reports.

import { getJson } from "./api.js";
import { $, h, list, rec, str } from "./dom.js";
import { bytes, dateTime, int } from "./format.js";
import { load } from "./layout.js";
import { SortedTable } from "./tables.js";
import { pageLink } from "./url.js";

const COLUMNS = [
  { id: "report", name: "Report", class: "detail", value: (r) => str(r.title) || str(r.name), cell: title },
  { id: "made", name: "Made", class: "opt-s", down: true, value: (r) => r.created_ms, cell: (r) => dateTime(r.created_ms) },
  { id: "sections", name: "Sections", class: "num opt-s", down: true, value: (r) => r.sections, cell: (r) => int(r.sections) },
  { id: "rows", name: "Policies", class: "num", down: true, value: (r) => r.rows, cell: (r) => int(r.rows) },
  { id: "bytes", name: "Size", class: "num opt-s", down: true, value: (r) => r.bytes, cell: (r) => bytes(r.bytes) },
];

function title(r) {
  const name = str(r.name), text = str(r.title) || name;
  if (str(r.problem)) return [h("span", {}, text), h("span", { class: "cell-sub problem" }, `Cannot be read: ${str(r.problem)}`)];
  return [h("a", { href: pageLink("reports", name), "data-key": `report ${name}` }, text), h("span", { class: "cell-sub" }, name)];
}

const table = new SortedTable($("reports"), { columns: COLUMNS, by: "made" });

load(async (signal) => {
  const reports = list(await getJson("/v1/reports", signal)).map(rec);
  table.update(reports);
  return reports.length ? "ready" : "empty";
});
