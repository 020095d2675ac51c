/**
 * Runs as rows that change in place, are sorted by their heads and can be selected.
 * @module runs-table
 */

import { about } from "./about.js";
import { pages } from "./api.js";
import { statusBadge } from "./badges.js";
import { asCard, asCards } from "./cards.js";
import { runRows } from "./csv.js";
import { breakable, element, fill } from "./dom.js";
import { leastOf, otherLeast } from "./least-values.js";
import { isEnded } from "./run-state.js";
import { csvButton } from "./saving.js";
import { sparkline } from "./sparkline.js";
import { age, clock, count, duration, plain } from "./units.js";

/** @param {any} budget */
function budgetText({ seconds, evaluations, deadline_seconds }) {
  const parts = [];
  if (seconds) parts.push(duration(seconds));
  if (evaluations) parts.push(`${count(evaluations)} evaluations`);
  if (deadline_seconds) parts.push(`${duration(deadline_seconds)} in all`);
  return parts.join(" or ");
}

/** @param {any} run */
function hypervolumeCell(run) {
  if (!run.hypervolume) return "–";
  const text = plain(run.hypervolume, 3);
  const label = `hypervolume ${text} of 1 after ${duration(run.seconds)}`;
  return [run.trend.length > 1 ? sparkline(run.trend, label) : null, element("span", {}, text)];
}

/** @typedef {{title: string, kind: string, sort?: string, cell: (run: any, table: RunsTable) => any}} Column */

/** @type {Column[]} */
const COLUMNS = [
  {
    title: "Status",
    kind: "",
    sort: "status",
    cell: (run) => statusBadge(run.status, run.status === "running" && run.phase !== "searching" ? run.phase : ""),
  },
  {
    title: "Program",
    kind: "name",
    sort: "program",
    cell: (run, table) => [
      element("a", { href: pages.run(run.id) }, breakable(run.graph)),
      element("div", { class: "mono" }, run.id),
      run.tags.length || run.notes
        ? element(
            "div",
            { class: "labels" },
            run.tags.map((/** @type {string} */ tag) =>
              element("button", { type: "button", class: "chip tag", title: `Runs with the tag ${tag}`, onclick: () => table.onTag(tag) }, tag),
            ),
            run.notes ? element("span", { class: "note", title: run.notes }, run.notes.split("\n", 1)[0]) : null,
          )
        : null,
    ],
  },
  { title: "Mesh", kind: "mesh", sort: "mesh", cell: (run) => run.mesh },
  {
    title: "Least time",
    kind: "number",
    sort: "time",
    cell: (run) => leastOf(run.best, "time_s"),
  },
  {
    title: "Least memory",
    kind: "number",
    sort: "memory",
    cell: (run) => leastOf(run.best, "peak_memory_bytes"),
  },
  { title: "Other least values", kind: "small others", cell: (run) => otherLeast(run.best) },
  { title: "Plans", kind: "number", cell: (run) => (run.front || isEnded(run.status) ? plain(run.front) : "–") },
  { title: "Hypervolume", kind: "number hypervolume", cell: hypervolumeCell },
  {
    title: "Searched",
    kind: "number",
    cell: (run) => [
      element("div", {}, run.seconds > 0 ? duration(run.seconds) : "–"),
      element("div", { class: "muted small" }, `of ${budgetText(run.budget)}`),
    ],
  },
  {
    title: "Begun",
    kind: "number",
    sort: "created",
    cell: (run) => element("time", { datetime: run.created_at, title: clock(run.created_at) }, age(run.created_at)),
  },
];

/** The table; `show` gives it other runs. */
export class RunsTable {
  /**
   * @param {Element} place
   * @param {{onSort: (sort: string) => void, onSelect: () => void, onTag: (tag: string) => void, all: () => Promise<any[]>} | null} [listeners]
   *   `all` has the runs of all pages; without listeners, the runs cannot be sorted or selected, and a tag leads to the list of all runs that have it
   */
  constructor(place, listeners = null) {
    this.isPlain = listeners === null;
    this.onSort = listeners?.onSort ?? (() => undefined);
    this.onSelect = listeners?.onSelect ?? (() => undefined);
    this.onTag = listeners?.onTag ?? ((tag) => location.assign(`/?${new URLSearchParams({ tag })}`));
    this.body = element("tbody");
    this.head = element("tr");
    /** @type {Map<string, {row: HTMLTableRowElement, text: string}>} */
    this.rows = new Map();
    /** The selected runs by id, also those of other pages. @type {Map<string, any>} */
    this.selected = new Map();
    /** @type {any[]} */
    this.runs = [];
    this.all = element("input", { type: "checkbox", "aria-label": "Select all runs of this page" });
    this.all.addEventListener("change", () => this.#selectAll(this.all.checked));
    const heads = COLUMNS.map((column) => this.#headOf(column));
    heads[0].append(csvButton("Runs", async () => runRows(listeners ? await listeners.all() : this.runs)));
    const all = element("th", { scope: "col", class: "select-cell" }, this.all);
    fill(this.head, this.isPlain ? null : all, ...heads);
    this.table = element("table", { class: "runs-table", "aria-label": "Runs" }, element("thead", {}, this.head), this.body);
    asCards(this.table, []);
    fill(place, this.table);
  }

  /** @param {Column} column */
  #headOf({ title, kind, sort }) {
    const content = sort && !this.isPlain
      ? element("button", { type: "button", data: { sort }, onclick: () => this.onSort(sort) }, title)
      : title;
    const look = ["number", "others", "mesh"].filter((name) => kind.includes(name)).join(" ");
    return element("th", { class: look, scope: "col" }, content, about(title));
  }

  /** @param {any[]} runs @param {string} [sort] such as `-created` */
  show(runs, sort = "") {
    this.runs = runs;
    for (const run of runs) if (this.selected.has(run.id)) this.selected.set(run.id, run);
    this.table.classList.toggle("has-no-others", !runs.some((run) => otherLeast(run.best).length));
    const rows = runs.map((run) => this.#row(run));
    const kept = new Set(runs.map((run) => run.id));
    for (const id of this.rows.keys()) if (!kept.has(id)) this.rows.delete(id);
    const isSame =
      rows.length === this.body.children.length && rows.every((row, k) => row === this.body.children[k]);
    if (!isSame) fill(this.body, ...rows);
    for (const button of this.head.querySelectorAll("button[data-sort]")) {
      const way = sort.endsWith(button.dataset.sort) && sort.replace("-", "") === button.dataset.sort;
      button.parentElement.setAttribute("aria-sort", !way ? "none" : sort.startsWith("-") ? "descending" : "ascending");
    }
    this.#showSelection();
  }

  /** Select nothing, or leave out some. @param {string[]} [ids] */
  deselect(ids = [...this.selected.keys()]) {
    for (const id of ids) this.selected.delete(id);
    this.#showSelection();
    this.onSelect();
  }

  /** @param {boolean} isSelected */
  #selectAll(isSelected) {
    for (const run of this.runs) isSelected ? this.selected.set(run.id, run) : this.selected.delete(run.id);
    this.#showSelection();
    this.onSelect();
  }

  #showSelection() {
    for (const run of this.runs) {
      const row = this.rows.get(run.id)?.row;
      const isSelected = this.selected.has(run.id);
      row?.classList.toggle("is-selected", isSelected);
      const box = row?.querySelector("input");
      if (box) box.checked = isSelected;
    }
    const here = this.runs.filter((run) => this.selected.has(run.id)).length;
    this.all.checked = here > 0 && here === this.runs.length;
    this.all.indeterminate = here > 0 && here < this.runs.length;
  }

  /** @param {any} run */
  #row(run) {
    const text = JSON.stringify([run, age(run.created_at)]);
    const known = this.rows.get(run.id);
    if (known?.text === text) return known.row;
    const box = element("input", { type: "checkbox", "aria-label": `Select the run ${run.id} of ${run.graph}` });
    box.addEventListener("change", () => {
      box.checked ? this.selected.set(run.id, run) : this.selected.delete(run.id);
      this.#showSelection();
      this.onSelect();
    });
    const cells = COLUMNS.map(({ kind, cell }) => element("td", { class: kind }, ...[cell(run, this)].flat()));
    const row = known?.row ?? element("tr", { data: { run: run.id } });
    const all = this.isPlain ? cells : [element("td", { class: "select-cell" }, box), ...cells];
    if (known && row.contains(document.activeElement)) {
      // Whoever stands on a link or box keeps standing there.
      all.forEach((cell, k) => row.children[k].contains(document.activeElement) || row.children[k].replaceWith(cell));
    } else fill(row, ...all);
    const names = COLUMNS.map(({ title, kind }) => (kind === "name" ? "" : title));
    asCard(row, this.isPlain ? names : ["", ...names]);
    this.rows.set(run.id, { row, text });
    return row;
  }
}
