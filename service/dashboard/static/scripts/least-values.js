/**
 * The least values of the objectives of runs and batches, for lists.
 * @module least-values
 */

import { element } from "./dom.js";
import { quantity } from "./units.js";

const OF_THEIR_OWN = ["time_s", "peak_memory_bytes"]; // columns

/** @typedef {Record<string, number>} Best least values by objective */

/** What objectives are called, where a table has no room for more. @param {string} name */
const shortName = (name) => name.replace(/_(s|j|bytes|flops|usd)$/, "").replaceAll("_", " ");

/** The unit of an objective, as far as its name says it. @param {string} name */
export function unitOf(name) {
  const endings = { _s: "s", _bytes: "B", _j: "J", _usd: "USD", _flops: "flop" };
  return Object.entries(endings).find(([ending]) => name.endsWith(ending))?.[1] ?? "";
}

/** @param {Best} best @param {string} name */
export function leastOf(best, name) {
  return name in best ? quantity(best[name], unitOf(name)) : "–";
}

/** Best values beside time and peak memory. @param {Best} best */
export function otherLeast(best) {
  const others = Object.keys(best).filter((name) => !OF_THEIR_OWN.includes(name));
  return others.map((name) => element("div", {}, `${shortName(name)} `, element("span", { class: "figure-text" }, leastOf(best, name))));
}
