/**
 * Tables: heads, rows that their first cells name, figures and bars; heads that sort.
 * @module tables
 */

import { about } from "./about.js";
import { element, fill } from "./dom.js";
import { meter } from "./meters.js";

/** @typedef {import("./dom.js").Child} Child */
/** A head over `span` columns; figures stand to the right, and an empty name is no head. `about` is the key of its explanation, unless its name is.
 * @typedef {Child | {name: Child | Child[], isNumber?: boolean, isMeter?: boolean, unit?: string, span?: number, about?: string}} Head */
/** @typedef {{key: string, title: string, unit: string, isNumber: boolean, about?: string}} SortableColumn */
/** @typedef {{key: string, isAscending: boolean}} Order by which column rows are sorted */

/** @param {string} name of a column of figures @param {string} [unit] @param {string} [about] the key of its explanation, unless its name is */
export function numberHead(name, unit = "", about = name) {
  return { name, unit, isNumber: true, about };
}

/**
 * A table of rows.
 * @param {Head[]} heads @param {any[]} rows elements; those that are null are left out
 * @param {{label?: string, kind?: string}} [options] what it shows, for those who do not see it, and its class
 */
export function tableOf(heads, rows, { label, kind } = {}) {
  return element(
    "table",
    { class: kind, "aria-label": label },
    element("thead", {}, element("tr", {}, heads.map(headOf))),
    element("tbody", {}, rows),
  );
}

/** @param {Head} head */
function headOf(head) {
  const isPlain = typeof head !== "object" || head === null || head instanceof Node;
  const { name, isNumber, isMeter, unit, span = 1, about: key = name } = /** @type {any} */ (isPlain ? { name: head } : head);
  const kind = isMeter ? "meter-cell" : isNumber ? "number" : null;
  if (!name) return element("td", { class: kind });
  const scope = span > 1 ? { scope: "colgroup", colspan: span } : { scope: "col" };
  return element("th", { ...scope, class: kind }, ...[name].flat(), unitOf(unit), typeof key === "string" && about(key));
}

/** The name of a row with the button that explains it. @param {Child} name @param {string} key of the explanation */
export function explained(name, key) {
  return [name, about(key)];
}

/** @param {string | undefined} unit */
function unitOf(unit) {
  return unit ? element("span", { class: "unit" }, ` ${unit}`) : null;
}

/** Show a table in the place of what was there. @param {Element} place @param {Head[]} heads @param {any[]} rows @param {string} [label] */
export function showTable(place, heads, rows, label) {
  fill(place, tableOf(heads, rows, { label }));
}

/** A part of the page in which a table scrolls, by keys too. @param {Element} table @param {string} label what it shows @param {string} [kind] */
export function scrolling(table, label, kind = "") {
  const about = { tabindex: 0, role: "region", "aria-label": `${label}, a table that scrolls` };
  return element("div", { class: `table-frame ${kind}`.trim(), ...about }, table);
}

/** A row with its name. @param {Child | Child[]} name @param {any[]} cells @param {Record<string, any>} [properties] */
export function rowOf(name, cells, properties = {}) {
  return element("tr", properties, element("th", { scope: "row" }, name), cells);
}

/** A cell of a figure. @param {Child | Child[]} text @param {string} [kind] */
export function figure(text, kind = "") {
  return element("td", { class: `number ${kind}`.trim() }, text);
}

/** A cell with a share as a bar. @param {number} share 0 to 1 @param {string} [kind] of the bar's color */
export function meterCell(share, kind) {
  return element("td", { class: "meter-cell" }, meter(share, kind));
}

/** What the heads of a row show. @type {WeakMap<Element, string>} */
const shownHeads = new WeakMap();

/**
 * Fill a row with heads that sort, unless it has them; a head that has the focus keeps it.
 * @param {HTMLElement} row @param {SortableColumn[]} columns @param {Order} order @param {(order: Order) => void} onSort
 */
export function showSortHeads(row, columns, order, onSort) {
  const look = JSON.stringify([columns.map(({ key, title, unit }) => [key, title, unit]), order]);
  if (shownHeads.get(row) === look) return;
  shownHeads.set(row, look);
  const focused = row.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.key : null;
  const heads = columns.map(({ key, title, unit, isNumber, about: explained = title }) => {
    const isSorted = key === order.key;
    const sorting = !isSorted ? "none" : order.isAscending ? "ascending" : "descending";
    const sort = () => onSort({ key, isAscending: isSorted ? !order.isAscending : true });
    const button = element("button", { type: "button", data: { key }, onclick: sort }, title, unitOf(unit));
    return element("th", { scope: "col", "aria-sort": sorting, class: isNumber ? "number" : "" }, button, about(explained));
  });
  fill(row, ...heads);
  if (focused) [...row.querySelectorAll("button")].find((button) => button.dataset.key === focused)?.focus();
}

/**
 * Compare two values in an order.
 * @param {number | string} a @param {number | string} b @param {Order} order @returns {number}
 */
export function inOrder(a, b, { isAscending }) {
  return (isAscending ? 1 : -1) * (a < b ? -1 : a > b ? 1 : 0);
}
