/**
 * The bounds of all objectives as fields: what dragging does, by keyboard and to the digit.
 * @module frontier/bounds-form
 */

import { element, fill } from "../dom.js";
import { column, plain } from "../units.js";

/** @typedef {import("./data.js").FrontierData} FrontierData */

/** Two fields for each objective, in a readable unit; empty where nothing is bounded. */
export class BoundsForm {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    this.key = "";
    /** @type {Map<string, {least: HTMLInputElement, most: HTMLInputElement, factor: number}>} */
    this.fields = new Map();
  }

  /** @param {FrontierData} data @param {import("./data.js").Objective[]} objectives */
  show(data, objectives) {
    this.data = data;
    const scales = objectives.map(({ name, unit }) => column([...data.values(name)], unit));
    const key = JSON.stringify(objectives.map(({ name }, k) => [name, scales[k].factor]));
    if (key !== this.key) {
      this.key = key;
      this.fields.clear();
      fill(this.place, ...objectives.map((objective, k) => this.#group(objective, scales[k])));
    }
    for (const [name, { least, most, factor }] of this.fields) {
      const [low, high] = data.selection.ranges.get(name) ?? [-Infinity, Infinity];
      if (document.activeElement !== least) least.value = Number.isFinite(low) ? rounded(low / factor) : "";
      if (document.activeElement !== most) most.value = Number.isFinite(high) ? rounded(high / factor) : "";
    }
  }

  /** @param {import("./data.js").Objective} objective @param {{factor: number, name: string, write: (value: number) => string}} scale */
  #group({ name, title }, { factor, name: unit }) {
    const field = (/** @type {string} */ end) =>
      element("input", {
        type: "number",
        step: "any",
        inputmode: "decimal",
        placeholder: end === "least" ? "from" : "to",
        "aria-label": `${title}, ${end === "least" ? "at least" : "at most"}, ${unit}`,
        onchange: () => this.#changed(name),
      });
    const [least, most] = [field("least"), field("most")];
    this.fields.set(name, { least, most, factor });
    return element(
      "fieldset",
      {},
      element("legend", {}, title, unit ? element("span", { class: "unit" }, ` ${unit}`) : null),
      least,
      element("span", { "aria-hidden": "true" }, "–"),
      most,
    );
  }

  /** @param {string} name */
  #changed(name) {
    const field = this.fields.get(name);
    if (!field || !this.data) return;
    const value = (/** @type {HTMLInputElement} */ input, /** @type {number} */ open) =>
      input.value === "" ? open : input.valueAsNumber * field.factor;
    this.data.selection.set({ [name]: [value(field.least, -Infinity), value(field.most, Infinity)] });
  }
}

/** @param {number} value */
function rounded(value) {
  return String(Number(value.toPrecision(5)));
}

/** How many plans are shown. @param {FrontierData} data */
export function heldText({ plans, heldNumbers, selection }) {
  return selection.isEmpty ? "" : `${plain(heldNumbers.length)} of ${plain(plans.length)} plans are within the bounds`;
}
