/**
 * The schedule of a plan as the cost model predicts it: fetched once for all views of a page.
 * @module plan/schedule
 */

import { get } from "../api.js";

/** @type {Map<string, Promise<any>>} */
const known = new Map();

/** The schedule of a plan; where it cannot be had, the next call asks again. @param {any} plan @returns {Promise<any>} */
export function scheduleOf(plan) {
  const path = plan.links.schedule;
  if (!known.has(path)) {
    const found = get(path);
    found.catch(() => known.delete(path));
    known.set(path, found);
  }
  return /** @type {Promise<any>} */ (known.get(path));
}

/**
 * The block with the most time, its own and that of the copies which it reads, of some blocks; empty where none runs.
 * @param {any} schedule @param {Set<string>} sites @returns {{site: string, seconds: number}}
 */
export function costliest({ blocks, copies, spans }, sites) {
  /** @type {Map<string, number>} */
  const times = new Map();
  spans.what.forEach((/** @type {number} */ what, /** @type {number} */ k) => {
    const site = what >= 0 ? blocks[what].site : copies[-1 - what].reader;
    if (sites.has(site)) times.set(site, (times.get(site) ?? 0) + (spans.end_ps[k] - spans.start_ps[k]) * 1e-12);
  });
  const [site, seconds] = [...times].reduce((most, one) => (one[1] > most[1] ? one : most), ["", 0]);
  return { site, seconds };
}
