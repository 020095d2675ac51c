/**
 * A plan's costs beside the best that its run found.
 * @module cost-table
 */

import { element, fill } from "./dom.js";
import { meter } from "./meters.js";
import { column, plain, quantity } from "./units.js";

/** @typedef {{name: string, unit: string, title: string, description?: string}} Objective */

/**
 * @param {Element} place
 * @param {Record<string, number>} cost
 * @param {import("./marks.js").Plan[]} others the plans of the run's frontier
 * @param {Objective[]} catalog
 * @param {string[]} chosen the run's objectives
 * @param {Record<string, number>} memory what the fullest device holds, by term
 */
export function showCosts(place, cost, others, catalog, chosen, memory) {
  const known = catalog.filter(({ name }) => name in cost);
  const sorted = [...known].sort((a, b) => rank(a.name, chosen) - rank(b.name, chosen));
  const rows = sorted.map(({ name, unit, title, description }) => {
    const best = others.length ? Math.min(...others.map((plan) => plan.cost[name])) : cost[name];
    const scale = column([cost[name], best], unit);
    const ratio = best > 0 ? cost[name] / best : cost[name] === best ? 1 : Infinity;
    return element(
      "tr",
      { class: chosen.includes(name) ? "" : "muted" },
      element("th", { scope: "row", title: description }, title),
      element("td", { class: `number ${ratio === 1 ? "best" : ""}` }, scale.write(cost[name])),
      element("td", { class: "number" }, scale.write(best)),
      element("td", {}, scale.name),
      element("td", { class: "number" }, comparison(ratio)),
      element("td", { class: "meter-cell" }, meter(ratio === Infinity ? 0 : 1 / ratio)),
    );
  });
  const heads = [
    ["", ""],
    ["this plan", "number"],
    ["best of the run", "number"],
    ["", ""],
    ["of the best", "number"],
    ["near to it", ""],
  ];
  const head = heads.map(([name, kind]) => element("th", { scope: "col", class: kind }, name));
  fill(
    place,
    element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)),
    ...memoryLine(memory),
  );
}

/** @param {Record<string, number>} memory */
function memoryLine(memory) {
  const terms = Object.entries(memory).map(
    ([name, size]) => `${quantity(size, "B")} ${name.replace(/_bytes$/, "").replaceAll("_", " ")}`,
  );
  if (!terms.length) return [];
  return [element("p", { class: "muted small" }, `The fullest device holds ${terms.join(" + ")}.`)];
}

/** @param {number} ratio */
function comparison(ratio) {
  if (ratio === 1) return "best";
  if (ratio === Infinity) return "–"; // of nothing
  return ratio < 1.005 ? "≈ best" : `× ${plain(ratio, ratio < 10 ? 2 : 0)}`;
}

/** @param {string} name @param {string[]} chosen */
function rank(name, chosen) {
  const at = chosen.indexOf(name);
  return at < 0 ? chosen.length : at;
}
