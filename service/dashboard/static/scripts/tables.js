/**
 * Tables: heads, rows that their first cells name, figures and bars; heads that sort.
 * @module tables
 */

import { about } from "./about.js";
import { asCards } from "./cards.js";
import { element, fill } from "./dom.js";
import { meter } from "./meters.js";
import { csvButton } from "./saving.js";
import { rowsOf } from "./table-rows.js";
import { percent, plain, quantity } from "./units.js";

/** What files call the unit of shares, from 0 to 1. */
export const SHARE = "share";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./saving.js").FileRows} FileRows */
/** A head over `span` columns; figures stand to the right, and an empty name is no head. `about` is the key of its explanation, unless its name is.
 * @typedef {Child | {name: Child | Child[], isNumber?: boolean, isMeter?: boolean, unit?: string, span?: number, about?: string}} Head */
/** What a column has below each of its figures, and the key of its explanation. @typedef {{title: string, about: string}} Under */
/** @typedef {{key: string, title: string, unit: string, isNumber: boolean, about?: string, under?: Under}} SortableColumn */
/** @typedef {{key: string, isAscending: boolean}} Order by which column rows are sorted */

/** @param {string} name of a column of figures @param {string} [unit] @param {string} [about] the key of its explanation, unless its name is */
export function numberHead(name, unit = "", about = name) {
  return { name, unit, isNumber: true, about };
}

/** What a table is: its class, its rows as a file has them, where that has more than is shown, whether its rows are cards where there is little room.
 * @typedef {{kind?: string, file?: FileRows, hasCards?: boolean}} TableOptions */

/** The rows of files of tables that show less than these have. @type {WeakMap<Element, FileRows | undefined>} */
const fileRows = new WeakMap();

/**
 * A table of rows, with a button that saves it as CSV in the first of its heads.
 * @param {Head[]} heads @param {any[]} rows elements; those that are null are left out
 * @param {string} label what it shows @param {TableOptions} [options]
 */
export function tableOf(heads, rows, label, { kind, file, hasCards = false } = {}) {
  const { table, head, save } = emptyTable(label, kind, rows);
  fileRows.set(table, file);
  fill(head, ...heads.map(headOf));
  if (hasCards) asCards(table, ["", ...[...head.children].slice(1).map((one) => one.textContent)]);
  head.firstElementChild.append(save);
  return table;
}

/** A table without heads, and the button that saves it. @param {string} label @param {string} [kind] @param {any[]} [rows] */
function emptyTable(label, kind, rows = []) {
  const head = element("tr");
  const body = element("tbody", {}, rows);
  const table = element("table", { class: kind, "aria-label": label }, element("thead", {}, head), body);
  return { table, head, body, save: csvButton(label, () => fileRows.get(table)?.() ?? rowsOf(table)) };
}

/** The buttons that save tables, by the rows of their heads. @type {WeakMap<Element, Element>} */
const saveButtons = new WeakMap();

/** A table whose heads `showSortHeads` fills. @param {string} label what it shows @param {TableOptions} [options] */
export function sortedTable(label, { kind, file } = {}) {
  const { table, head, body, save } = emptyTable(label, kind);
  fileRows.set(table, file);
  saveButtons.set(head, save);
  return { table, head, body };
}

/** @param {Head} head */
function headOf(head) {
  if (head instanceof HTMLTableCellElement) return head;
  const isPlain = typeof head !== "object" || head === null || head instanceof Node;
  const { name, isNumber, isMeter, unit, span = 1, about: key = name } = /** @type {any} */ (isPlain ? { name: head } : head);
  const kind = isMeter ? "meter-cell" : isNumber ? "number" : null;
  if (!name) return element("td", { class: kind });
  const scope = span > 1 ? { scope: "colgroup", colspan: span } : { scope: "col" };
  return element("th", { ...scope, class: kind }, ...[name].flat(), unitOf(unit), typeof key === "string" && about(key));
}

/** The name of a row with the button that explains it. @param {Child | Child[]} name @param {string} key of the explanation */
export function explained(name, key) {
  return [name, about(key)].flat();
}

/** @param {string | undefined} unit */
function unitOf(unit) {
  return unit ? element("span", { class: "unit" }, ` ${unit}`) : null;
}

/**
 * Show a table in the place of what was there. Where it is the same table with other rows, its heads stay, with their buttons: who is
 * on one of them stays there.
 * @param {Element} place @param {Head[]} heads @param {any[]} rows @param {string} label @param {TableOptions} [options]
 */
export function showTable(place, heads, rows, label, options = {}) {
  const made = tableOf(heads, rows, label, options);
  const known = place.childElementCount === 1 ? place.firstElementChild : null;
  const isSame = known instanceof HTMLTableElement && known.ariaLabel === label && known.tHead?.textContent === made.tHead.textContent;
  if (!isSame) return fill(place, made);
  fileRows.set(known, options.file);
  known.tBodies[0].replaceWith(made.tBodies[0]);
  return undefined;
}

/** A part of the page in which a table scrolls, by keys too. @param {HTMLTableElement} table @param {string} [kind] */
export function scrolling(table, kind = "") {
  const about = { tabindex: 0, role: "region", "aria-label": `${table.ariaLabel}, a table that scrolls` };
  return element("div", { class: `table-frame ${kind}`.trim(), ...about }, table);
}

/** A row with its name. @param {Child | Child[]} name @param {any[]} cells @param {Record<string, any>} [properties] */
export function rowOf(name, cells, properties = {}) {
  return element("tr", properties, element("th", { scope: "row" }, name), cells);
}

/** A row that a figure names. @param {string} text @param {number} value @param {string} unit @param {any[]} cells */
export function rowAt(text, value, unit, cells) {
  const row = rowOf(text, cells);
  Object.assign(row.firstElementChild.dataset, { value, unit });
  return row;
}

/**
 * A cell of a figure: how people read it, and its value in the base unit, which files have.
 * @param {Child | Child[]} text @param {number | null | undefined} value @param {string} [unit] @param {string} [kind]
 */
export function figure(text, value, unit = "", kind = "") {
  const isKnown = typeof value === "number" && Number.isFinite(value);
  return element("td", { class: `number ${kind}`.trim(), data: isKnown ? { value, unit } : {} }, text);
}

/** A cell of a figure in the unit of its column. @param {import("./units.js").Scale} scale @param {number} value @param {string} [kind] */
export function figureIn(scale, value, kind) {
  return figure(scale.write(value), value, scale.unit, kind);
}

/** A cell of a figure in a unit of its own. @param {number} value @param {string} unit @param {string} [kind] */
export function figureOf(value, unit, kind) {
  return figure(quantity(value, unit), value, unit, kind);
}

/** A cell of a whole number. @param {number} value @param {string} [kind] */
export function countOf(value, kind) {
  return figure(plain(value), value, "", kind);
}

/** A cell of a share, 0 to 1. @param {number} value */
export function shareOf(value) {
  return figure(percent(value), value, SHARE);
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
  const look = JSON.stringify([columns.map(({ key, title, unit, under }) => [key, title, unit, under]), order]);
  if (shownHeads.get(row) === look) return;
  shownHeads.set(row, look);
  const before = row.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  const heads = columns.map(({ key, title, unit, isNumber, about: explained = title, under }) => {
    const isSorted = key === order.key;
    const sorting = !isSorted ? "none" : order.isAscending ? "ascending" : "descending";
    const sort = () => onSort({ key, isAscending: isSorted ? !order.isAscending : true });
    const button = element("button", { type: "button", data: { key }, onclick: sort }, title, unitOf(unit));
    return element("th", { scope: "col", "aria-sort": sorting, class: isNumber ? "number" : "" }, button, about(explained), under && element("div", { class: "under" }, under.title, about(under.about)));
  });
  fill(row, ...heads);
  const save = saveButtons.get(row);
  if (save) row.firstElementChild?.append(save);
  const isSame = (/** @type {HTMLElement} */ button) => button === before || (button.title === before?.title && button.dataset.key === before.dataset.key);
  if (before) [...row.querySelectorAll("button")].find(isSame)?.focus();
}

/**
 * Compare two values in an order.
 * @param {number | string} a @param {number | string} b @param {Order} order @returns {number}
 */
export function inOrder(a, b, { isAscending }) {
  return (isAscending ? 1 : -1) * (a < b ? -1 : a > b ? 1 : 0);
}
