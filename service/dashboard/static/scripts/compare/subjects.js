/**
 * What is compared, each with a color of its own; one of them may be pointed out in all views at once.
 * @module compare/subjects
 */

import { about } from "../about.js";
import { seriesColor, swatch } from "../charts/legend.js";
import { element, fill } from "../dom.js";

/** @typedef {{id: string, name: string, detail: string, page: string}} Subject */

const MARK = "compare:together";
const KEPT_MEASURES = 200;

/** Those who show subjects hear which one is pointed out. */
export class Subjects {
  /** @param {Subject[]} all */
  constructor(all) {
    this.all = all;
    this.pointed = -1;
    /** @type {((k: number) => void)[]} */
    this.listeners = [];
  }

  /** @param {(k: number) => void} listener hears the number of the subject that is pointed out, or -1 */
  onPoint(listener) {
    this.listeners.push(listener);
  }

  /** @param {number} k */
  point(k) {
    if (k === this.pointed) return;
    this.pointed = k;
    together(() => this.listeners.forEach((listener) => listener(k)));
  }

  /** The color of a subject as things are: all others are pale while one is pointed out. @param {number} k */
  shade(k) {
    return this.pointed < 0 || this.pointed === k ? seriesColor(k) : "line";
  }
}

/**
 * Change several views at once, and measure until they are painted, as `compare:together` of the page's performance measures.
 * @param {() => void} change
 */
export function together(change) {
  const start = performance.now();
  change();
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      if (performance.getEntriesByName(MARK).length >= KEPT_MEASURES) performance.clearMeasures(MARK);
      performance.measure(MARK, { start, end: performance.now() });
    }),
  );
}

/**
 * The list of subjects: links with colors, and a button that takes one away.
 * @param {Element} place @param {Subjects} subjects @param {(id: string) => void} onRemove
 */
export function showSubjects(place, subjects, onRemove) {
  const canRemove = subjects.all.length > 2;
  const items = subjects.all.map((one, k) => {
    const item = element(
      "li",
      {},
      swatch(seriesColor(k)),
      element("span", {}, element("a", { href: one.page, class: "mono" }, one.name), element("div", { class: "muted small" }, one.detail)),
      canRemove
        ? element("button", { type: "button", class: "chip-close", "aria-label": `Leave ${one.name} out`, onclick: () => onRemove(one.id) }, "✕")
        : null,
    );
    item.addEventListener("pointerenter", () => subjects.point(k));
    item.addEventListener("pointerleave", () => subjects.point(-1));
    item.addEventListener("focusin", () => subjects.point(k));
    item.addEventListener("focusout", () => subjects.point(-1));
    return item;
  });
  fill(place, ...items);
  subjects.onPoint((k) => items.forEach((item, j) => item.classList.toggle("is-pointed", j === k)));
}

/**
 * A table with a column per subject; a column is pointed out with its subject.
 * @param {Element} place @param {Subjects} subjects
 * @param {{title: any, unit?: string, cells: any[], bests?: boolean[], isMuted?: boolean, isNumber?: boolean, more?: any, about?: string}[]} rows `about`: the key of an explanation
 * @param {{label: string, first?: string}} options
 */
export function showSubjectTable(place, subjects, rows, { label, first = "" }) {
  const heads = subjects.all.map((one, k) =>
    element("th", { scope: "col", class: "of-subject number", data: { subject: k } }, swatch(seriesColor(k)), element("span", { class: "mono" }, one.name)),
  );
  const body = rows.map((row) =>
    element(
      "tr",
      { class: row.isMuted ? "muted" : "" },
      element("th", { scope: "row" }, ...[row.title].flat(), row.unit ? element("span", { class: "unit muted" }, ` ${row.unit}`) : null, row.about && about(row.about)),
      row.cells.map((cell, k) =>
        element("td", { class: `of-subject ${row.isNumber === false ? "" : "number"} ${row.bests?.[k] ? "best" : ""}`.trim(), data: { subject: k } }, ...[cell].flat()),
      ),
    ),
  );
  const table = element(
    "table",
    { class: "subject-table", "aria-label": label },
    element("thead", {}, element("tr", {}, first ? element("th", { scope: "col" }, first) : element("td"), heads)),
    element("tbody", {}, body),
  );
  table.addEventListener("pointerover", (/** @type {any} */ event) => {
    const cell = event.target.closest("[data-subject]");
    subjects.point(cell ? Number(cell.dataset.subject) : -1);
  });
  table.addEventListener("pointerleave", () => subjects.point(-1));
  fill(place, table);
  markColumns(table, subjects.pointed);
}

/** @param {Element} table @param {number} k */
export function markColumns(table, k) {
  for (const cell of table.querySelectorAll("[data-subject]"))
    cell.classList.toggle("is-pointed", Number(/** @type {HTMLElement} */ (cell).dataset.subject) === k);
}
