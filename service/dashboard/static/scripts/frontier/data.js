/**
 * The plans of a frontier as the views draw them: columns of costs, colors, and who is within the bounds.
 * @module frontier/data
 */

import { extent } from "../charts/scale.js";
import { shades, shadesOf } from "../charts/gradient.js";
import { element } from "../dom.js";
import { meaningOf, originMeaning, originText, sourceOf, SOURCES, stagesText } from "../marks.js";
import { column, plain } from "../units.js";
import { usedDevices } from "../used-devices.js";

/** @typedef {import("../marks.js").Plan} Plan */
/** @typedef {{name: string, unit: string, title: string}} Objective */
/**
 * `objectives` are all that could be shown, `chosen` those of the run; `bounds` are proven ones.
 * @typedef {{plans: Plan[], objectives: Objective[], chosen: Objective[], marks: Map<string, string[]>,
 *   bounds: Record<string, {bound: number}>, selection: import("./selection.js").Selection, color: string}} Content
 */

/** How the marked plans are drawn. @type {Record<string, {symbol: string, color: string}>} */
const SYMBOLS = {
  fastest: { symbol: "left", color: "mark-fastest" },
  knee: { symbol: "diamond", color: "mark-knee" },
  smallest: { symbol: "down", color: "mark-smallest" },
};
const OTHER = { symbol: "square", color: "mark-least" };

/** The forms of points of plans that the search has from elsewhere; others are circles. @type {Record<string, string>} */
const FORMS = { seed: "up", exact: "cross", earlier_run: "hourglass" };

/** The form of a point, by the kind of its plan's origin. @param {string} kind */
export function formOf(kind) {
  return FORMS[kind] ?? "circle";
}

/** The symbol and the color of a mark. @param {string} mark */
export function symbolOf(mark) {
  return SYMBOLS[mark] ?? OTHER;
}

/** What all views of one frontier share; made anew when plans, bounds or colors change. */
export class FrontierData {
  /** @param {Content} content */
  constructor(content) {
    this.plans = content.plans;
    this.objectives = content.objectives;
    this.chosen = content.chosen;
    this.marks = content.marks;
    this.bounds = content.bounds;
    this.selection = content.selection;
    /** Which plans are within the bounds. */
    this.held = Uint8Array.from(this.plans, (plan) => (content.selection.holds(plan) ? 1 : 0));
    /** The numbers of the plans within the bounds. @type {number[]} */
    this.heldNumbers = this.plans.flatMap((_, k) => (this.held[k] ? [k] : []));
    this.color = this.objective(content.color);
    const values = this.values(content.color);
    /** @type {[number, number]} */
    this.colorRange = extent(values, { margin: 0 }) ?? [0, 1];
    this.sources = this.plans.map(sourceOf);
    /** The kinds of origins other than the search that any plan has. */
    this.kinds = SOURCES.filter((kind) => this.sources.includes(kind));
    this.groups = groupsOf(shadesOf(values, ...this.colorRange), this.held);
  }

  /** @param {string} name @returns {Objective} */
  objective(name) {
    return this.objectives.find((one) => one.name === name) ?? { name, unit: "", title: name };
  }

  /** The costs of all plans, in base units. @param {string} name @returns {Float64Array} */
  values(name) {
    return Float64Array.from(this.plans, (plan) => plan.cost[name]);
  }

  /** The numbers of plans by their color, first those beyond the bounds. @returns {{fill: string | null, members: number[]}[]} */
  byShade() {
    const colors = shades();
    return this.groups.map(({ shade, members }) => ({ fill: shade === null ? null : colors[shade], members }));
  }

  /** What a plan is and costs, as lines for a tooltip. @param {number} k */
  describe(k) {
    const plan = this.plans[k];
    const marks = this.marks.get(plan.id) ?? [];
    const costs = this.chosen.map(({ name, unit, title }) => {
      const scale = column([plan.cost[name]], unit);
      return `${title}: ${scale.write(plan.cost[name])} ${scale.name}${errorText(plan, name)}`;
    });
    const source = this.sources[k];
    const heads = [
      ...marks.map((mark) => `${mark}: ${meaningOf(mark)}`),
      ...(source ? [`${originText(plan)} (${originMeaning(source)})`] : []),
    ];
    return [
      element("strong", { class: "mono" }, plan.plan),
      [...heads, ...costs, ...decisionsOf(plan)].map((line) => element("div", {}, line)),
    ];
  }
}

/** @param {Plan} plan @param {string} name */
function errorText(plan, name) {
  if (name !== "time_s" || !plan.time) return "";
  const scale = column([plan.time.low, plan.time.high], "s");
  return `, ${scale.write(plan.time.low)} to ${scale.write(plan.time.high)} ${scale.name} with ${plain(100 * plan.time.probability)} %`;
}

/** @param {Plan} plan */
function decisionsOf(plan) {
  return [
    plan.devices === "all" ? "" : `on ${usedDevices(plan)}`,
    plan.micro_batches > 1 ? `in ${plan.micro_batches} micro-batches` : "",
    plan.stages ? `in stages: ${stagesText(plan)}` : "",
    plan.recompute ? `${plain(plan.recompute.blocks)} blocks computed again` : "",
    plan.offload ? `${plain(plan.offload.values + plan.offload.states)} tensors on the host` : "",
  ].filter(Boolean);
}

/** The numbers of plans by the number of their color; null is that of those beyond the bounds. @param {Uint8Array} shade @param {Uint8Array} held */
function groupsOf(shade, held) {
  /** @type {Map<number | null, number[]>} */
  const groups = new Map([[null, []]]);
  for (let k = 0; k < shade.length; k += 1) {
    const key = held[k] ? shade[k] : null;
    const members = groups.get(key);
    if (members) members.push(k);
    else groups.set(key, [k]);
  }
  const ordered = [...groups].sort(([a], [b]) => (a ?? -1) - (b ?? -1));
  return ordered.map(([key, members]) => ({ shade: key, members })).filter(({ members }) => members.length);
}
