/**
 * A plan's decisions per block, those that are alike taken together.
 * @module decisions
 */

import { orderText } from "./notations.js";
import { nameOfAlike, nameWithoutNumbers } from "./site-names.js";

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
  if (name === "prefetch" || name === "regather") {
    if (!value.some(Boolean)) return "";
    const by = (/** @type {number} */ slots) => (name === "regather" ? "" : ` by ${slots === 1 ? "a slot" : `${slots} slots`}`);
    const does = name === "regather" ? "gathers anew" : "fetches early";
    return value.every((/** @type {any} */ one) => one === value[0]) ? `${does}: every input${by(value[0])}` : `${does}: ${inputs(value, by)}`;
  }
  if (name === "part") return `in part ${value} of the pipeline`;
  if (name === "recompute") return value ? "computed anew where it is read" : "";
  if (name === "layouts") return value.flatMap((/** @type {string} */ order, /** @type {number} */ k) => (order ? [`output ${k}: ${orderText(order)}`] : [])).join("; ");
  if (name === "read_layouts") return inputs(value, (order) => `: ${orderText(order)}`);
  return `${name}: ${Array.isArray(value) ? value.join(", ") : value}`;
}

/**
 * What more than half of the decisions have beyond their strategies; empty where there is no such thing.
 * @param {Decision[]} decisions
 */
export function usual(decisions) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { more } of decisions) if (more) counts.set(more, (counts.get(more) ?? 0) + 1);
  return [...counts].find(([, count]) => count > decisions.length / 2)?.[0] ?? "";
}

/**
 * Decisions that differ in nothing but what differs from layer to layer in their sites' names become one group. Where several
 * groups had one name, each names its first and last site.
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
  const found = [...groups.values()];
  const uses = new Map();
  for (const { name } of found) uses.set(name, (uses.get(name) ?? 0) + 1);
  for (const group of found) {
    const sites = group.decisions.map(({ site }) => site);
    const name = nameOfAlike(sites, uses.get(group.name) > 1);
    group.name = name === group.name ? name : membersText(sites);
  }
  return found;
}

/** @param {string[]} sites */
function membersText(sites) {
  return sites.length > 2 ? `${sites[0]} … ${sites[sites.length - 1]}` : sites.join(", ");
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
