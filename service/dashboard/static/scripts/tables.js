/**
 * Small tables of the sections of a plan's page.
 * @module plan/tables
 */

import { element, fill } from "../dom.js";

/** @typedef {import("../dom.js").Child} Child */

/**
 * A table whose first column names the rows; columns of figures are those with `isNumber`.
 * @param {Element} place @param {{name: string, isNumber?: boolean, isMeter?: boolean}[]} heads @param {any[]} rows
 * @param {string} [label]
 */
export function showTable(place, heads, rows, label) {
  const head = heads.map(({ name, isNumber, isMeter }) =>
    isMeter
      ? element("td", { class: "meter-cell" })
      : element("th", { scope: "col", class: isNumber ? "number" : "" }, name),
  );
  fill(
    place,
    element(
      "table",
      { "aria-label": label },
      element("thead", {}, element("tr", {}, head)),
      element("tbody", {}, rows),
    ),
  );
}

/** A row with its name. @param {Child | Child[]} name @param {any[]} cells @param {Record<string, any>} [properties] */
export function rowOf(name, cells, properties = {}) {
  return element("tr", properties, element("th", { scope: "row" }, name), cells);
}

/** A cell of a figure. @param {Child | Child[]} text @param {string} [kind] */
export function figure(text, kind = "") {
  return element("td", { class: `number ${kind}`.trim() }, text);
}
