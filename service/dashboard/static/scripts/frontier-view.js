/**
 * Which objectives a plot shows: chosen by selects, kept in the page's address.
 * @module frontier-view
 */

import { byId, element, fill } from "./dom.js";

/** @typedef {{name: string, unit: string, title: string}} Objective */

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
    for (const part of ["log-x", "log-y"]) byId(part).checked = given.has(part);
    for (const part of ["x", "y", "color", "log-x", "log-y"]) {
      byId(part).disabled = false;
      byId(part).addEventListener("change", () => {
        this.#remember();
        onChange();
      });
    }
  }

  /** @returns {import("./frontier-plot.js").View} */
  get view() {
    const [x, y, color] = ["x", "y", "color"].map((part) => byId(part).value);
    return { x, y, color, isLogX: byId("log-x").checked, isLogY: byId("log-y").checked };
  }

  #remember() {
    const address = new URLSearchParams();
    for (const part of ["x", "y", "color"]) address.set(part, byId(part).value);
    for (const part of ["log-x", "log-y"]) if (byId(part).checked) address.set(part, "1");
    history.replaceState(null, "", `?${address}`);
  }
}
