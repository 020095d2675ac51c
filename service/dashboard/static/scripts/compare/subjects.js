/**
 * What is compared, each with a color of its own; one of them may be pointed out in all views at once.
 * @module compare/subjects
 */

import { seriesColor, swatch } from "../charts/legend.js";
import { element, fill } from "../dom.js";
import { explained, figure, rowOf, showTable } from "../tables.js";

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
 * @param {{title: any, unit?: string, cells: any[], values?: (number | null | undefined)[], base?: string, bests?: boolean[], isMuted?: boolean, isNumber?: boolean, about?: string}[]} rows
 *   `values`: in the unit `base`, as files have them; `about`: the key of an explanation
 * @param {{label: string, first?: string}} options
 */
export function showSubjectTable(place, subjects, rows, { label, first = "" }) {
  const heads = subjects.all.map((one, k) =>
    element("th", { scope: "col", class: "of-subject number", data: { subject: k } }, swatch(seriesColor(k)), element("span", { class: "mono" }, one.name)),
  );
  const body = rows.map((row) =>
    rowOf(
      explained([...[row.title].flat(), row.unit ? element("span", { class: "unit muted" }, ` ${row.unit}`) : null], row.about ?? ""),
      row.cells.map((cell, k) => subjectCell(cell, k, row)),
      { class: row.isMuted ? "muted" : "" },
    ),
  );
  const before = place.firstElementChild;
  showTable(place, [first, ...heads], body, label, { kind: "subject-table" });
  const table = /** @type {HTMLElement} */ (place.firstElementChild);
  markColumns(table, subjects.pointed);
  if (table === before) return;
  table.addEventListener("pointerover", (/** @type {any} */ event) => {
    const cell = event.target.closest("[data-subject]");
    subjects.point(cell ? Number(cell.dataset.subject) : -1);
  });
  table.addEventListener("pointerleave", () => subjects.point(-1));
}

/** @param {any} content @param {number} k @param {{values?: (number | null | undefined)[], base?: string, bests?: boolean[], isNumber?: boolean}} row */
function subjectCell(content, k, { values, base, bests, isNumber = true }) {
  const kind = `of-subject ${bests?.[k] ? "best" : ""}`.trim();
  const cell = isNumber ? figure(content, values?.[k], base, kind) : element("td", { class: kind }, ...[content].flat());
  cell.dataset.subject = String(k);
  return cell;
}

/** @param {Element} table @param {number} k */
export function markColumns(table, k) {
  for (const cell of table.querySelectorAll("[data-subject]"))
    cell.classList.toggle("is-pointed", Number(/** @type {HTMLElement} */ (cell).dataset.subject) === k);
}
