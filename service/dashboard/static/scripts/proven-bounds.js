/**
 * What no plan of a run's structures can be below, which is proven, beside the best plan found.
 * @module proven-bounds
 */

import { element, fill } from "./dom.js";
import { explained, figure, numberHead, rowOf, scrolling, SHARE, tableOf } from "./tables.js";
import { column, percent, several } from "./units.js";

/** @typedef {{structures: number, views: string[], schedule_orders: string[], devices: string[],
 *   micro_batches: number[]}} Scope */
/** @typedef {{bound: number, best: number | null, gap: number | null, scope: Scope}} Bound */

/** Gaps below this share are written as none. */
const REACHED = 5e-4;

/**
 * A table of the bounds by objective, and a sentence on the plans that they hold for.
 * @param {Element} place
 * @param {Record<string, Bound>} bounds at least one
 * @param {import("./cost-table.js").Objective[]} catalog
 */
export function showBounds(place, bounds, catalog) {
  const heads = ["objective", numberHead("best"), numberHead("proven bound"), numberHead("gap")];
  const rows = Object.entries(bounds).map(([name, bound]) => row(name, bound, catalog));
  const [{ scope }] = Object.values(bounds);
  const words = element("p", { class: "muted small" }, scopeText(scope));
  fill(place, scrolling(tableOf(heads, rows, "Proven bounds", { hasCards: true })), words);
}

/** @param {string} name @param {Bound} found @param {import("./cost-table.js").Objective[]} catalog */
function row(name, { bound, best, gap }, catalog) {
  const known = catalog.find((objective) => objective.name === name);
  const scale = column(best === null ? [bound] : [best, bound], known?.unit ?? "");
  const inUnit = (/** @type {number} */ value) => figure(`${scale.write(value)} ${scale.name}`, value, scale.unit);
  return rowOf(explained(known?.title ?? name, `cost: ${name}`), [
    best === null ? figure("–", null) : inUnit(best),
    inUnit(bound),
    figure(gapText(gap), gap, SHARE),
  ]);
}

/** @param {number | null} gap */
function gapText(gap) {
  if (gap === null) return "–";
  return gap < REACHED ? "none" : percent(gap);
}

/** @param {Scope} scope */
function scopeText({ structures, views, devices, micro_batches: rounds }) {
  const where = devices.map((part) => (part === "all" ? "all devices" : part)).join(", ");
  const inRounds = rounds.some((count) => count > 1) ? `, in ${rounds.join(", ")} micro-batches` : "";
  return (
    `It is proven that no placement, prefetch or order of copies of the ${several(structures, "structure")} that the ` +
    `search kept, in the views ${views.join(", ")} on ${where}${inRounds}, is below these bounds; another structure may be better.`
  );
}
