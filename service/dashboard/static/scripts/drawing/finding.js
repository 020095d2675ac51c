/**
 * A search of a diagram: blocks and groups by a part of a name or of an operator.
 * @module drawing/finding
 */

import { element, fill } from "../dom.js";

/** @typedef {import("./visible.js").Drawing} Drawing */
/** @typedef {import("./diagram.js").Diagram} Diagram */

const MOST_FOUND = 50;

/**
 * List what a field looks for while it is entered; Enter goes to the first.
 * @param {HTMLInputElement} field @param {Element} list @param {Drawing} drawing @param {Diagram} diagram
 */
export function enableFinding(field, list, drawing, diagram) {
  field.addEventListener("input", () => find(field, list, drawing, diagram));
  field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter") list.querySelector("button")?.click();
  });
}

/** @param {HTMLInputElement} field @param {Element} list @param {Drawing} drawing @param {Diagram} diagram */
function find(field, list, drawing, diagram) {
  const text = field.value.trim().toLowerCase();
  const { site, operator, also } = drawing.blocks;
  const groups = text ? drawing.groups.name.flatMap((name, k) => (name.toLowerCase().includes(text) ? [k] : [])) : [];
  const found = [];
  for (let block = 0; text && block < site.length && found.length <= MOST_FOUND; block += 1) {
    const name = `${site[block]} ${drawing.operators[operator[block]]} ${also?.[block] ?? ""}`;
    if (name.toLowerCase().includes(text)) found.push(block);
  }
  const items = [
    ...groups.slice(0, MOST_FOUND).map((group) => element("li", {}, groupButton(drawing, diagram, group))),
    ...found.slice(0, MOST_FOUND).map((block) => element("li", {}, blockButton(drawing, diagram, block))),
  ];
  if (Math.max(found.length, groups.length) > MOST_FOUND) items.push(element("li", { class: "muted" }, "and more"));
  fill(list, text && !items.length ? element("li", { class: "muted" }, "no block is called so") : items);
}

/** @param {Drawing} drawing @param {Diagram} diagram @param {number} block */
export function blockButton(drawing, diagram, block) {
  const { site, operator } = drawing.blocks;
  return element(
    "button",
    { type: "button", class: "link mono", onclick: () => diagram.reveal(block) },
    site[block],
    element("span", { class: "muted" }, ` ${drawing.operators[operator[block]]}`),
  );
}

/** @param {Drawing} drawing @param {Diagram} diagram @param {number} group */
function groupButton(drawing, diagram, group) {
  return element(
    "button",
    { type: "button", class: "link mono", onclick: () => diagram.openGroup(group) },
    drawing.groups.name[group],
    element("span", { class: "muted" }, " group"),
  );
}
