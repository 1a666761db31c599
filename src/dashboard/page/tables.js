// Tables whose columns sort, and saving a table. The head says by aria-sort how the rows stand.

import { csvText, saveFile } from "./chart.js";
import { fillTable, h, isNum, say, str } from "./dom.js";
import { int } from "./format.js";

/** Numbers by size, texts by name; what is neither stands last whichever way. */
function compare(a, b, down) {
  const [noA, noB] = [a, b].map((x) => !isNum(x) && !str(x));
  if (noA || noB) return noA - noB;
  if (isNum(a) !== isNum(b)) return isNum(a) ? -1 : 1;
  const order = isNum(a) ? a - b : str(a).localeCompare(str(b));
  return down ? -order : order;
}

/**
 * `columns`: [{id, name, value(row), cell(row), class, down (sort downwards first)}]; the first cell heads its row.
 * `update(rows)` shows the rows in the order that was chosen last; `most` are shown at first, the rest by a button.
 */
export class SortedTable {
  constructor(table, { columns, by, most = 100, rowAttrs = () => ({}) }) {
    Object.assign(this, { table, columns, most, rowAttrs, rows: [], shown: most });
    this.by = columns.find((c) => c.id === by) || columns[0];
    this.down = Boolean(this.by.down);
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => { this.shown += this.most * 4; this.draw(); } });
    table.parentElement.after(this.more);
  }
  update(rows) {
    this.rows = rows;
    this.draw();
  }
  sort(column) {
    this.down = this.by === column ? !this.down : Boolean(column.down);
    this.by = column;
    this.draw();
    say(`Sorted by ${column.name}, ${this.down ? "largest first" : "smallest first"}`);
  }
  sorted() {
    return this.rows.slice().sort((a, b) => compare(this.by.value(a), this.by.value(b), this.down));
  }
  draw() {
    const rows = this.sorted(), cut = rows.slice(0, this.shown);
    const head = this.columns.map((c) => h("th", { scope: "col", class: c.class, "aria-sort": c === this.by ? (this.down ? "descending" : "ascending") : null },
      c.value ? h("button", { type: "button", class: "sort", "data-key": `sort ${c.id}`, onclick: () => this.sort(c) }, c.name) : c.name));
    const cells = (row) => this.columns.map((c, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: c.class }, c.cell(row)));
    fillTable(this.table, h("tr", {}, head), cut.map((row) => h("tr", this.rowAttrs(row), cells(row))));
    this.more.hidden = cut.length === rows.length;
    this.more.textContent = `Show more: ${int(rows.length - cut.length)} are left`;
  }
}

export const saveCsv = (name, head, rows) => saveFile(`pointsman-${name.replace(/[^\w.-]+/g, "-").slice(0, 80)}.csv`, "text/csv;charset=utf-8", csvText([head, ...rows]));
