/**
 * Bounds on objectives, put together from an objective, a number and a unit.
 * @module constraint-builder
 */

import { byId, element, fill } from "./dom.js";
import { CONSTRAINT_UNITS } from "./units.js";

/** @typedef {{name: string, unit: string, title: string}} Objective */

const USUAL = "peak_memory_bytes";
const FORM = /^(.+)<=([\d.eE+-]+)([A-Za-z]*|%)$/;
/** Of the best that the run has found. */
const PERCENT = "%";

/** `texts` are the constraints as a request has them. */
export class ConstraintBuilder {
  /** @param {Objective[]} catalog @param {() => void} onChange */
  constructor(catalog, onChange) {
    this.catalog = catalog;
    this.onChange = onChange;
    this.list = byId("constraints");
    byId("add-constraint").addEventListener("click", () => {
      this.add(USUAL, "", "GiB").querySelector("input").focus();
      onChange();
    });
    this.list.addEventListener("input", onChange);
  }

  /** @param {string} text such as `peak_memory_bytes<=60GiB` */
  read(text) {
    const found = FORM.exec(text.replaceAll(" ", ""));
    if (found) this.add(found[1], found[2], found[3]);
  }

  /** @param {string} name @param {string} number @param {string} unit */
  add(name, number, unit) {
    const known = this.catalog.map((objective) =>
      element("option", { value: objective.name }, objective.title),
    );
    const isKnown = this.catalog.some((objective) => objective.name === name);
    const names = isKnown ? known : [...known, element("option", { value: name }, name)];
    const select = element("select", { "aria-label": "objective" }, names);
    const value = element("input", {
      type: "number",
      min: 0,
      step: "any",
      required: true,
      "aria-label": "at most",
      value: number,
    });
    const units = element("select", { "aria-label": "unit" });
    const row = element(
      "div",
      { class: "constraint" },
      select,
      element("span", { "aria-hidden": "true" }, "≤"),
      value,
      units,
      element(
        "button",
        {
          type: "button",
          class: "button small",
          "aria-label": "Remove this constraint",
          onclick: () => this.#remove(row),
        },
        "Remove",
      ),
      element("div", { class: "fault", role: "alert" }),
    );
    select.value = name;
    const fillOptions = (/** @type {string} */ wanted) => {
      const own = this.catalog.find((objective) => objective.name === select.value)?.unit ?? "";
      const known = [...(CONSTRAINT_UNITS[/** @type {keyof CONSTRAINT_UNITS} */ (own)] ?? [own]), PERCENT];
      fill(
        units,
        ...[...new Set([...known, ...(wanted ? [wanted] : [])])].map((one) =>
          element("option", { value: one }, one === PERCENT ? "% of the best" : one.replace("us", "µs")),
        ),
      );
      units.value = wanted || known[0];
    };
    fillOptions(unit);
    select.addEventListener("change", () => fillOptions(""));
    this.list.append(row);
    this.#number();
    return row;
  }

  /** @param {HTMLElement} row */
  #remove(row) {
    row.remove();
    this.#number();
    byId("add-constraint").focus();
    this.onChange();
  }

  /** Where the API's pointers lead. */
  #number() {
    [...this.list.children].forEach(
      (row, k) => (row.querySelector(".fault").dataset.fault = `/constraints/${k}`),
    );
  }

  get texts() {
    return [...this.list.children].map((row) => {
      const [name, unit] = [...row.querySelectorAll("select")].map((select) => select.value);
      return `${name}<=${row.querySelector("input").value || "?"}${unit}`;
    });
  }
}
