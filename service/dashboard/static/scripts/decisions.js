/**
 * A plan's decisions per block, equal ones of equal layers taken together.
 * @module decisions
 */

import { nameWithoutNumbers } from "./site-names.js";

/** @typedef {{site: string, kind: string, strategy: string, more: string}} Decision */
/** @typedef {{name: string, decisions: Decision[]}} Group */

/**
 * @param {any} placements the document of a plan's placements
 * @param {any[]} sources of the program's summary
 * @returns {Decision[]}
 */
export function decisionsOf(placements, sources) {
  const kinds = new Map(
    sources.map((source) => [
      source.site,
      `${source.role}, ${source.dtype} [${source.logical_shape.join(", ")}]`,
    ]),
  );
  return Object.entries(placements.blocks ?? {}).map(([site, placement]) => {
    const { strategy } = /** @type {Record<string, any>} */ (placement);
    return { site, kind: kinds.get(site) ?? "", strategy, more: moreOf(placement) };
  });
}

/** What a placement says beyond the strategy, in words. @param {any} placement */
export function moreOf(placement) {
  return Object.entries(placement)
    .filter(([name]) => name !== "strategy")
    .map(gene)
    .filter(Boolean)
    .join("; ");
}

/** What a decision says beyond the strategy. @param {[string, any]} gene */
function gene([name, value]) {
  const inputs = (/** @type {any[]} */ list, /** @type {(item: any) => string} */ word) =>
    list.flatMap((item, k) => (item ? [`input ${k}${word(item)}`] : [])).join(", ");
  if (name === "prefetch")
    return `fetches early: ${inputs(value, (slots) => ` by ${slots === 1 ? "a slot" : `${slots} slots`}`)}`;
  if (name === "regather") return `gathers anew: ${inputs(value, () => "")}`;
  if (name === "part") return `in part ${value} of the pipeline`;
  if (name === "recompute") return value ? "computed anew where it is read" : "";
  return `${name}: ${Array.isArray(value) ? value.join(", ") : value}`;
}

/**
 * Decisions that differ in nothing but what differs from layer to layer in their sites' names become one group.
 * @param {Decision[]} decisions
 * @returns {Group[]}
 */
export function grouped(decisions) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const decision of decisions) {
    const name = nameWithoutNumbers(decision.site);
    const key = JSON.stringify([name, decision.kind, decision.strategy, decision.more]);
    const group = groups.get(key) ?? { name, decisions: [] };
    group.decisions.push(decision);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/**
 * Decisions in which a text occurs: in the site, the kind or the decision itself.
 * @param {Decision[]} decisions @param {string} text
 */
export function matching(decisions, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return decisions.filter((decision) => {
    const all = `${decision.site} ${decision.kind} ${decision.strategy} ${decision.more}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}
