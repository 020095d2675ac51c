/**
 * Buttons that save a figure as PNG and SVG, and its figures as CSV.
 * @module charts/saving
 */

import { element, say } from "../dom.js";
import { save, saveCsv, saveText } from "../saving.js";

/**
 * A menu of what can be saved.
 * @param {{svg: () => string, png: () => Promise<Blob>}} figure
 * @param {() => string} name of the files, without an ending
 * @param {() => unknown[][]} [rows] of the CSV, the first has the names and units
 */
export function saveMenu(figure, name, rows) {
  const button = (/** @type {string} */ title, /** @type {() => void | Promise<void>} */ action) =>
    element("button", { type: "button", onclick: () => void attempt(action) }, title);
  const attempt = async (/** @type {() => void | Promise<void>} */ action) => {
    say(trouble, "");
    try {
      await action();
      menu.open = false;
    } catch (error) {
      say(trouble, `Not saved: ${error instanceof Error ? error.message : error}.`);
    }
  };
  const trouble = element("p", { class: "small bad", role: "status" });
  const menu = element(
    "details",
    { class: "save-menu" },
    element("summary", { class: "button small", "aria-label": "Save this drawing" }, "Save"),
    element(
      "div",
      {},
      button("PNG", async () => save(`${name()}.png`, await figure.png())),
      button("SVG", () => saveText(`${name()}.svg`, figure.svg(), "image/svg+xml")),
      rows ? button("CSV", () => saveCsv(`${name()}.csv`, rows())) : null,
      trouble,
    ),
  );
  menu.addEventListener("focusout", (/** @type {FocusEvent} */ event) => {
    if (event.relatedTarget instanceof Node && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  menu.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") menu.open = false;
  });
  return menu;
}
