/**
 * Which plans are shown: those within bounds of costs. Every view of the frontier sets them, and follows them.
 * @module frontier/selection
 */

import { keepAddressed } from "../address.js";

/** @typedef {import("../marks.js").Plan} Plan */
/** @typedef {[number, number]} Range least and most, both allowed; infinite where open */

const PREFIX = "in.";

/** Bounds by the names of costs, in base units; kept in the page's address. */
export class Selection {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {Map<string, Range>} */
    this.ranges = rangesOf(new URLSearchParams(location.search));
  }

  get isEmpty() {
    return this.ranges.size === 0;
  }

  /** Set the bounds of costs, or remove them. @param {Record<string, Range | null>} changes */
  set(changes) {
    for (const [name, range] of Object.entries(changes)) {
      if (range && (range[0] > -Infinity || range[1] < Infinity)) this.ranges.set(name, range);
      else this.ranges.delete(name);
    }
    this.#remember();
    this.onChange();
  }

  clear() {
    this.set(Object.fromEntries([...this.ranges.keys()].map((name) => [name, null])));
  }

  /** Whether a plan is within all bounds. @param {Plan} plan */
  holds(plan) {
    for (const [name, [least, most]] of this.ranges) {
      const cost = plan.cost[name];
      if (cost < least || cost > most) return false;
    }
    return true;
  }

  #remember() {
    const before = [...new URLSearchParams(location.search).keys()].filter((name) => name.startsWith(PREFIX));
    keepAddressed({
      ...Object.fromEntries(before.map((name) => [name, null])),
      ...Object.fromEntries([...this.ranges].map(([name, range]) => [PREFIX + name, range.map(textOf).join("..")])),
    });
  }
}

/** @param {number} value */
function textOf(value) {
  return Number.isFinite(value) ? String(value) : "";
}

/** @param {URLSearchParams} address @returns {Map<string, Range>} */
function rangesOf(address) {
  const found = new Map();
  for (const [name, text] of address) {
    const [low, high, ...more] = text.split("..");
    if (!name.startsWith(PREFIX) || more.length || high === undefined) continue;
    const range = [low === "" ? -Infinity : Number(low), high === "" ? Infinity : Number(high)];
    if (!range.some(Number.isNaN)) found.set(name.slice(PREFIX.length), range);
  }
  return found;
}
