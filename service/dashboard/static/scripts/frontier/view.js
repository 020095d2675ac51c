/**
 * Which objectives a plot shows: chosen by selects, kept in the page's address.
 * @module frontier/view
 */

import { keepAddressed } from "../address.js";
import { byId, element, fill } from "../dom.js";

/** @typedef {{name: string, unit: string, title: string}} Objective */

const CHECKS = ["log-x", "log-y", "errors", "near"];

/** The selects above the plot. */
export class FrontierView {
  /** @param {Objective[]} chosen the run's objectives @param {Objective[]} all @param {() => void} onChange */
  constructor(chosen, all, onChange) {
    const names = chosen.map((objective) => objective.name);
    const others = all.filter((objective) => !names.includes(objective.name));
    const given = new URLSearchParams(location.search);
    const usual = [names[0], names[1] ?? others[0]?.name ?? names[0], names[2] ?? names[1] ?? names[0]];
    ["x", "y", "color"].forEach((part, k) => {
      const options = (/** @type {Objective[]} */ list) =>
        list.map(({ name, title }) => element("option", { value: name }, title));
      const groups = [
        element("optgroup", { label: "objectives" }, options(chosen)),
        element("optgroup", { label: "other costs" }, options(others)),
      ];
      fill(byId(part), ...(others.length ? groups : options(chosen)));
      const wanted = given.get(part) ?? "";
      byId(part).value = all.some((objective) => objective.name === wanted) ? wanted : usual[k];
    });
    for (const part of CHECKS) byId(part).checked = given.has(part);
    for (const part of ["x", "y", "color", ...CHECKS]) {
      byId(part).disabled = false;
      byId(part).addEventListener("change", () => {
        this.#remember();
        onChange();
      });
    }
  }

  /** @returns {import("./plot.js").View} */
  get view() {
    const [x, y, color] = ["x", "y", "color"].map((part) => byId(part).value);
    const [isLogX, isLogY, hasErrors, isNear] = CHECKS.map((part) => byId(part).checked);
    return { x, y, color, isLogX, isLogY, hasErrors, isNear };
  }

  #remember() {
    const selects = ["x", "y", "color"].map((part) => [part, byId(part).value]);
    const checks = CHECKS.map((part) => [part, byId(part).checked ? "1" : null]);
    keepAddressed(Object.fromEntries([...selects, ...checks]));
  }
}
