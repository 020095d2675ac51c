/**
 * What the spans of a timeline add up to: by name, by kind, and the use of the links over time.
 * @module plan/spans
 */

import { nameWithoutNumbers } from "../site-names.js";

/** @typedef {import("../trace.js").Trace} Trace */
/** `names` are those that are alike: but for the numbers in their names, and rounds. Each takes from `least` to `most` seconds.
 * @typedef {{name: string, names: Set<string>, kind: string, count: number, seconds: number, least: number, most: number,
 *   critical: number, bytes: number}} Total */

const ROUND = / \(round \d+\)$/;

/**
 * The time of blocks or copies by name, those first that take longest, of all stages together; what runs on several devices
 * at once counts where it takes longest. Rounds and what is alike but for the numbers in its names are taken together.
 * @param {Trace} trace @param {boolean} areCopies @param {boolean} [byKind] taken together by kind
 * @returns {Total[]}
 */
export function totals(trace, areCopies, byKind = false) {
  /** @type {Map<string, Total>} */
  const found = new Map();
  for (const one of eachOnce(trace, areCopies)) {
    const name = one.name.replace(ROUND, "");
    const key = byKind ? one.kind : `${name.split(" ").map(nameWithoutNumbers).join(" ")} ${one.kind}`;
    const total = found.get(key);
    if (!total) {
      found.set(key, { ...one, name: byKind ? one.kind : name });
      continue;
    }
    for (const other of one.names) total.names.add(other);
    total.count += one.count;
    total.seconds += one.seconds;
    total.least = Math.min(total.least, one.least);
    total.most = Math.max(total.most, one.most);
    total.critical += one.critical;
    total.bytes += one.bytes;
  }
  return [...found.values()].filter(({ seconds }) => seconds > 0).sort((a, b) => b.seconds - a.seconds);
}

/**
 * What spans with one name add up to on the device where they take longest, with the bytes of all devices.
 * @param {Trace} trace @param {boolean} areCopies @returns {Total[]}
 */
function eachOnce(trace, areCopies) {
  /** @type {Map<string, Total>} */
  const longest = new Map();
  for (const device of trace.devices)
    for (const [name, total] of totalsOf(device.lanes.slice(areCopies ? 1 : 0, areCopies ? undefined : 1))) {
      const known = longest.get(name);
      const bytes = total.bytes + (known?.bytes ?? 0);
      longest.set(name, { ...(known && known.seconds >= total.seconds ? known : total), bytes });
    }
  return [...longest.values()];
}

/** @param {import("../trace.js").Lane[]} lanes @returns {Map<string, Total>} */
function totalsOf(lanes) {
  /** @type {Map<string, Total>} */
  const found = new Map();
  const seen = new Set();
  for (const lane of lanes)
    for (let k = 0; k < lane.starts.length; k += 1) {
      const [name, kind] = [lane.names[k], lane.kinds[k]];
      const once = `${lane.starts[k]} ${name}`; // a copy may be in several queues
      if (seen.has(once)) continue;
      seen.add(once);
      const total = found.get(name) ?? {
        ...{ name, kind, names: new Set([name]), count: 0, seconds: 0 },
        ...{ least: Infinity, most: 0, critical: 0, bytes: 0 },
      };
      const seconds = lane.ends[k] - lane.starts[k];
      total.count += 1;
      total.seconds += seconds;
      total.least = Math.min(total.least, seconds);
      total.most = Math.max(total.most, seconds);
      total.critical += lane.critical?.[k] ? seconds : 0;
      total.bytes += lane.bytes[k];
      found.set(name, total);
    }
  return found;
}

/**
 * The bytes per second that all devices receive over each axis, as steps; all series have the same moments.
 * @param {Trace} trace @returns {{name: string, rate: number | null, x: Float64Array, y: Float64Array}[]}
 */
export function linkUse({ axes, transfers, end }) {
  const changes = new Map([0, end].map((time) => [time, new Float64Array(axes.length)]));
  const at = (/** @type {number} */ time) => {
    if (!changes.has(time)) changes.set(time, new Float64Array(axes.length));
    return /** @type {Float64Array} */ (changes.get(time));
  };
  for (const { start, end: last, bytes } of transfers) {
    if (!(last > start)) continue;
    bytes.forEach((size, k) => {
      at(start)[k] += size / (last - start);
      at(last)[k] -= size / (last - start);
    });
  }
  const moments = Float64Array.from(changes.keys()).sort();
  return axes.map((axis, k) => {
    let rate = 0;
    const y = moments.map((time) => {
      rate += changes.get(time)?.[k] ?? 0;
      return Math.max(0, rate);
    });
    return { ...axis, x: moments, y };
  });
}
