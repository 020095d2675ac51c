/**
 * A plan's costs beside the best that its run found.
 * @module cost-table
 */

import { about } from "./about.js";
import { element, fill } from "./dom.js";
import { explained, figure, figureIn, figureOf, meterCell, numberHead, rowOf, tableOf } from "./tables.js";
import { column, plain, quantity } from "./units.js";

/** Beyond it a multiple of the best says no more than that the best is next to nothing, which then has a unit of its own. */
const MOST_RATIO = 1000;

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
  const rows = sorted.map(({ name, unit, title }) => {
    const best = others.length ? Math.min(...others.map((plan) => plan.cost[name])) : cost[name];
    const scale = column([cost[name], best], unit);
    const ratio = best > 0 ? cost[name] / best : cost[name] === best ? 1 : Infinity;
    const cells = [
      figureIn(scale, cost[name], ratio === 1 ? "best" : ""),
      ratio > MOST_RATIO && ratio < Infinity ? figureOf(best, unit) : figureIn(scale, best),
      element("td", {}, scale.name),
      figure(comparison(ratio), ratio),
      meterCell(ratio === Infinity ? 0 : 1 / ratio),
    ];
    return rowOf(explained(title, `cost: ${name}`), cells, { class: chosen.includes(name) ? "" : "muted" });
  });
  const heads = ["", numberHead("this plan"), numberHead("best of the run"), "", numberHead("of the best"), "near to it"];
  fill(place, tableOf(heads, rows, "Costs", { kind: "costs" }), ...memoryLine(memory));
}

/** @param {Record<string, number>} memory */
function memoryLine(memory) {
  const terms = Object.entries(memory).map(
    ([name, size]) => `${quantity(size, "B")} ${name.replace(/_bytes$/, "").replaceAll("_", " ")}`,
  );
  if (!terms.length) return [];
  return [element("p", { class: "muted small" }, `The fullest device holds ${terms.join(" + ")}.`, about("device memory: terms"))];
}

/** @param {number} ratio */
function comparison(ratio) {
  if (ratio === 1) return "best";
  if (ratio === Infinity) return "–"; // of nothing
  if (ratio > MOST_RATIO) return `over × ${plain(MOST_RATIO)}`;
  return ratio < 1.005 ? "≈ best" : `× ${plain(ratio, ratio < 10 ? 2 : 0)}`;
}

/** @param {string} name @param {string[]} chosen */
function rank(name, chosen) {
  const at = chosen.indexOf(name);
  return at < 0 ? chosen.length : at;
}
