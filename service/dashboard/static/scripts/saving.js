/**
 * Files that the browser saves.
 * @module saving
 */

import { csvOf } from "./csv.js";
import { element } from "./dom.js";

/**
 * Save a file.
 * @param {string} name @param {Blob} content
 */
export function save(name, content) {
  const url = URL.createObjectURL(content);
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Save a text. @param {string} name @param {string} text @param {string} type of the file */
export function saveText(name, text, type) {
  save(name, new Blob([text], { type }));
}

/** Save rows as CSV. @param {string} name @param {unknown[][]} rows the first has the names and units */
export function saveCsv(name, rows) {
  saveText(name, csvOf(rows), "text/csv");
}

/**
 * A button that saves rows as CSV.
 * @param {() => string} name of the file, without an ending @param {() => unknown[][]} rows the first has the names and units
 */
export function csvButton(name, rows) {
  return element("button", { type: "button", class: "button small", onclick: () => saveCsv(`${name()}.csv`, rows()) }, "CSV");
}

/** Save a document as JSON. @param {string} name @param {unknown} document */
export function saveJson(name, document) {
  saveText(name, JSON.stringify(document, null, 2), "application/json");
}
