/**
 * What the spans of a timeline add up to: by name, by kind, and the use of the links over time.
 * @module plan/spans
 */

import { nameWithoutNumbers } from "../site-names.js";

/** @typedef {import("../trace.js").Trace} Trace */
/** `names` are those that are alike: equal layers, but for the numbers in their names, and rounds. Each takes from `least` to `most` seconds.
 * @typedef {{name: string, names: Set<string>, kind: string, count: number, seconds: number, least: number, most: number,
 *   critical: number, bytes: number}} Total */

const ROUND = / \(round \d+\)$/;

/**
 * The time of blocks or copies by name, those first that take longest; of devices, the one where they take most. Rounds and
 * equal layers are taken together.
 * @param {Trace} trace @param {boolean} areCopies @param {boolean} [byKind] taken together by kind
 * @returns {Total[]}
 */
export function totals(trace, areCopies, byKind = false) {
  /** @type {Map<string, Total>} */
  const most = new Map();
  for (const device of trace.devices)
    for (const [key, total] of totalsOf(device.lanes.slice(areCopies ? 1 : 0, areCopies ? undefined : 1), byKind)) {
      const known = most.get(key);
      if (!known || total.seconds > known.seconds) most.set(key, total);
    }
  return [...most.values()].filter(({ seconds }) => seconds > 0).sort((a, b) => b.seconds - a.seconds);
}

/** @param {import("../trace.js").Lane[]} lanes @param {boolean} byKind */
function totalsOf(lanes, byKind) {
  /** @type {Map<string, Total>} */
  const found = new Map();
  const seen = new Set();
  for (const lane of lanes)
    for (let k = 0; k < lane.starts.length; k += 1) {
      const once = `${lane.starts[k]} ${lane.names[k]}`; // a copy may be in several queues
      if (seen.has(once)) continue;
      seen.add(once);
      const name = lane.names[k].replace(ROUND, "");
      const key = byKind ? lane.kinds[k] : `${name.split(" ").map(nameWithoutNumbers).join(" ")} ${lane.kinds[k]}`;
      const total = found.get(key) ?? {
        ...{ name: byKind ? lane.kinds[k] : name, kind: lane.kinds[k], names: new Set() },
        ...{ count: 0, seconds: 0, least: Infinity, most: 0, critical: 0, bytes: 0 },
      };
      total.names.add(lane.names[k]);
      const seconds = lane.ends[k] - lane.starts[k];
      total.count += 1;
      total.seconds += seconds;
      total.least = Math.min(total.least, seconds);
      total.most = Math.max(total.most, seconds);
      total.critical += lane.critical?.[k] ? seconds : 0;
      total.bytes += lane.bytes[k];
      found.set(key, total);
    }
  return found;
}

/**
 * The bytes per second that each lane of copies brings over time, as steps; all series have the same moments. Bytes of a
 * span that is in several lanes are shared among them.
 * @param {Trace} trace @returns {{name: string, x: Float64Array, y: Float64Array}[]}
 */
export function linkUse(trace) {
  const lanes = trace.streams.length;
  /** @type {Map<string, number>} */
  const shared = new Map();
  eachCopy(trace, (lane, k, device) => {
    const key = `${device} ${lane.starts[k]} ${lane.names[k]}`;
    shared.set(key, (shared.get(key) ?? 0) + 1);
  });
  /** @type {Map<number, Float64Array>} */
  const changes = new Map([[0, new Float64Array(lanes)], [trace.end, new Float64Array(lanes)]]);
  const at = (/** @type {number} */ time) => {
    if (!changes.has(time)) changes.set(time, new Float64Array(lanes));
    return /** @type {Float64Array} */ (changes.get(time));
  };
  eachCopy(trace, (lane, k, device, j) => {
    const seconds = lane.ends[k] - lane.starts[k];
    if (!(seconds > 0) || !lane.bytes[k]) return;
    const rate = lane.bytes[k] / seconds / (shared.get(`${device} ${lane.starts[k]} ${lane.names[k]}`) ?? 1);
    at(lane.starts[k])[j] += rate;
    at(lane.ends[k])[j] -= rate;
  });
  const moments = Float64Array.from(changes.keys()).sort();
  return trace.streams.slice(1).map((name, k) => {
    let rate = 0;
    const y = moments.map((time) => {
      rate += changes.get(time)?.[k + 1] ?? 0;
      return Math.max(0, rate);
    });
    return { name, x: moments, y };
  });
}

/** @param {Trace} trace @param {(lane: import("../trace.js").Lane, k: number, device: number, j: number) => void} action */
function eachCopy(trace, action) {
  for (const device of trace.devices)
    device.lanes.forEach((lane, j) => {
      for (let k = 0; j > 0 && k < lane.starts.length; k += 1) action(lane, k, device.number, j);
    });
}
