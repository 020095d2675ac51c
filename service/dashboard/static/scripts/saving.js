/**
 * Files that the browser saves.
 * @module saving
 */

import { csvOf } from "./csv.js";
import { element, say } from "./dom.js";

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

/** @typedef {() => unknown[][] | Promise<unknown[][]>} FileRows of a table, heads first */

/** A small button that saves a table as CSV. @param {string} label what the table shows @param {FileRows} rows */
export function csvButton(label, rows) {
  const name = `CSV of ${label}`;
  const trouble = element("span", { class: "small bad", role: "status" });
  let isSaving = false;
  const saveRows = async () => {
    if (isSaving) return;
    isSaving = true;
    say(trouble, "");
    try {
      saveCsv(`${fileName(label)}.csv`, await rows());
    } catch (error) {
      say(trouble, `Not saved: ${error instanceof Error ? error.message : error}.`);
      if (!trouble.isConnected) button.after(trouble);
    }
    isSaving = false;
  };
  const button = element("button", { type: "button", class: "csv", "aria-label": name, title: name, onclick: saveRows }, "CSV");
  return button;
}

/** The name of a file: what the page is about, and what a part of it shows. @param {string} label */
function fileName(label) {
  const subject = decodeURIComponent(location.pathname.split("/").at(-1) ?? "");
  const part = label.toLowerCase().replace(/[^\p{L}\p{N}._]+/gu, "-").replace(/^-|-$/g, "");
  return [subject, part].filter(Boolean).join(".");
}

/** Save a document as JSON. @param {string} name @param {unknown} document */
export function saveJson(name, document) {
  saveText(name, JSON.stringify(document, null, 2), "application/json");
}
