/**
 * Runs as rows that change in place.
 * @module runs-table
 */

import { pages } from "./api.js";
import { statusBadge } from "./badges.js";
import { element, fill } from "./dom.js";
import { isEnded } from "./run-state.js";
import { age, clock, count, duration, plain } from "./units.js";

/** What objectives are called, where a table has no room for more. @param {string} name */
const shortName = (name) => name.replace(/_(s|j|bytes|flops|usd)$/, "").replaceAll("_", " ");

/** @param {any} budget */
export function budgetText({ seconds, evaluations, deadline_seconds }) {
  const parts = [];
  if (seconds) parts.push(duration(seconds));
  if (evaluations) parts.push(`${count(evaluations)} evaluations`);
  if (deadline_seconds) parts.push(`${duration(deadline_seconds)} in all`);
  return parts.join(" or ");
}

/** Cells by column: a class, and what is in it. @type {[string, string, (run: any) => any][]} */
const COLUMNS = [
  [
    "Status",
    "",
    (run) => statusBadge(run.status, run.status === "running" && run.phase !== "searching" ? run.phase : ""),
  ],
  [
    "Program",
    "name",
    (run) => [
      element("a", { href: pages.run(run.id) }, run.graph),
      element("div", { class: "mono" }, run.id),
    ],
  ],
  ["Mesh", "", (run) => run.mesh],
  ["Objectives", "small", (run) => run.objectives.map(shortName).join(", ")],
  ["Budget", "number", (run) => budgetText(run.budget)],
  ["Searched", "number", (run) => (run.seconds > 0 ? duration(run.seconds) : "–")],
  ["Evaluations", "number", (run) => (run.evaluations ? count(run.evaluations) : "–")],
  ["Plans", "number", (run) => (run.front || isEnded(run.status) ? plain(run.front) : "–")],
  ["Hypervolume", "number", (run) => (run.hypervolume ? plain(run.hypervolume, 4) : "–")],
  [
    "Begun",
    "number",
    (run) => element("time", { datetime: run.created_at, title: clock(run.created_at) }, age(run.created_at)),
  ],
];

/** The table; `show` gives it other runs. */
export class RunsTable {
  /** @param {Element} place */
  constructor(place) {
    this.body = element("tbody");
    /** @type {Map<string, {row: HTMLTableRowElement, text: string}>} */
    this.rows = new Map();
    const heads = COLUMNS.map(([name, kind]) =>
      element("th", { class: kind === "number" ? kind : "", scope: "col" }, name),
    );
    const table = element(
      "table",
      { class: "runs-table" },
      element("thead", {}, element("tr", {}, heads)),
      this.body,
    );
    fill(place, table);
  }

  /** @param {any[]} runs */
  show(runs) {
    const rows = runs.map((run) => this.#row(run));
    const kept = new Set(runs.map((run) => run.id));
    for (const id of this.rows.keys()) if (!kept.has(id)) this.rows.delete(id);
    const isSame =
      rows.length === this.body.children.length && rows.every((row, k) => row === this.body.children[k]);
    if (!isSame) fill(this.body, ...rows);
  }

  /** @param {any} run */
  #row(run) {
    const text = JSON.stringify([run, age(run.created_at)]);
    const known = this.rows.get(run.id);
    if (known?.text === text) return known.row;
    const cells = COLUMNS.map(([, kind, content]) =>
      element("td", { class: kind }, ...[content(run)].flat()),
    );
    const row = known?.row ?? element("tr", { data: { run: run.id } });
    if (known && row.contains(document.activeElement)) {
      // Whoever stands on the link keeps standing there.
      cells.forEach((cell, k) => k !== 1 && row.children[k].replaceWith(cell));
    } else fill(row, ...cells);
    this.rows.set(run.id, { row, text });
    return row;
  }
}
