/**
 * What each device does when, in lanes: from a trace in Perfetto's form, or from the schedule that is predicted.
 * @module trace
 */

import { lastUpTo } from "./charts/ordered.js";
import { readableBuffer } from "./notations.js";

/**
 * A lane's spans follow each other. `critical` marks those on the critical path; null where that is not known.
 * @typedef {{starts: Float64Array, ends: Float64Array, names: string[], kinds: string[], bytes: Float64Array, critical: Uint8Array | null}} Lane
 */
/** @typedef {{number: number, name: string, lanes: Lane[], busy: [number, number]}} Device */
/**
 * What devices receive over links: each copy once, with its bytes over each of the trace's axes.
 * @typedef {{start: number, end: number, bytes: number[]}} Transfer
 */
/**
 * The mesh axes over which devices receive anything, one without a name where that is not known by axis; `rate` is what all
 * devices together can receive, bytes per second, or null.
 * @typedef {{name: string, rate: number | null}} LinkAxis
 */
/** @typedef {{streams: string[], devices: Device[], end: number, hasPath: boolean, of: "devices" | "stages", axes: LinkAxis[], transfers: Transfer[]}} Trace */
/** @typedef {{start: number, end: number, name: string, kind: string, bytes: number, isCritical: boolean}} Span */

/**
 * Times are in seconds. The lanes of a device are in the order of the trace's threads: compute, and one per
 * communication queue. A device has the name of the trace's process, which says its stage if there are several. It is
 * `busy` computing, and with a copy in any of its queues.
 * @param {{traceEvents: any[]}} document
 * @returns {Trace}
 */
export function readTrace(document) {
  const named = document.traceEvents.filter((event) => event.name === "thread_name");
  const streams = named.filter((event) => event.pid === named[0].pid).map((event) => event.args.name);
  const processes = document.traceEvents.filter((event) => event.name === "process_name");
  const names = new Map(processes.map((event) => [event.pid, event.args.name]));
  /** @type {Map<number, Span[][]>} */
  const byDevice = new Map();
  /** @type {Map<string, Transfer>} */
  const transfers = new Map(); // a copy may be in several queues of a device
  let hasPath = false;
  for (const event of document.traceEvents) {
    if (event.ph !== "X") continue;
    if (!byDevice.has(event.pid))
      byDevice.set(
        event.pid,
        streams.map(() => []),
      );
    const isCritical = Boolean(event.args?.critical);
    hasPath ||= isCritical;
    const span = {
      start: event.ts * 1e-6,
      end: (event.ts + event.dur) * 1e-6,
      name: readableBuffer(event.name),
      kind: String(event.cat ?? "").replace(/^[^,]*,/, ""),
      bytes: event.args?.bytes ?? 0,
      isCritical,
    };
    byDevice.get(event.pid)?.[event.tid]?.push(span);
    if (event.tid > 0) transfers.set(`${event.pid} ${event.ts} ${event.name}`, { start: span.start, end: span.end, bytes: [span.bytes] });
  }
  const links = { axes: [{ name: "", rate: null }], transfers: [...transfers.values()] };
  return { ...traceOf(streams, byDevice, names, hasPath), of: "devices", ...links };
}

/**
 * The schedule of a plan: a stage in place of its devices, which all do alike. Copies between stages have lanes of their
 * own on both sides, and their bytes on the side that receives them.
 * @param {any} schedule as the API has it @returns {Trace}
 */
export function scheduledTrace(schedule) {
  const { lanes, stages, blocks, copies, spans } = schedule;
  const critical = new Set(schedule.critical);
  const axes = schedule.axes.map((/** @type {any} */ axis) => ({ name: axis.name, rate: axis.bytes_per_s }));
  /** @type {Transfer[]} */
  const transfers = [];
  const hasRounds = spans.round.some((/** @type {number} */ number) => number > 0);
  /** @type {Map<number, Span[][]>} */
  const byStage = new Map(
    stages.map((/** @type {any} */ one) => [one.stage, lanes.map(() => /** @type {Span[]} */ ([]))]),
  );
  spans.what.forEach((/** @type {number} */ what, /** @type {number} */ k) => {
    const one = what >= 0 ? blocks[what] : copies[-1 - what];
    const round = hasRounds ? ` (round ${spans.round[k]})` : "";
    const span = {
      start: spans.start_ps[k] * 1e-12,
      end: spans.end_ps[k] * 1e-12,
      name: `${what >= 0 ? one.site : `${one.tensor} for ${one.reader}`}${round}`,
      kind: one.kind,
      bytes: one.traffic_bytes ?? 0,
      isCritical: critical.has(k),
    };
    for (const [stage, lane] of placesOf(one, what >= 0, lanes.length)) {
      const isSent = what < 0 && stage !== one.to_stage;
      byStage.get(stage)?.[lane].push(isSent ? { ...span, bytes: 0 } : span);
    }
    if (what >= 0) return;
    const bytes = axes.map((/** @type {LinkAxis} */ { name }) => one.axis_bytes[name] ?? 0);
    transfers.push({ start: span.start, end: span.end, bytes });
  });
  const name = (/** @type {any} */ one) =>
    stages.length > 1 ? `stage ${one.stage}` : one.devices > 1 ? `each of ${one.devices}` : "the device";
  const names = new Map(stages.map((/** @type {any} */ one) => [one.stage, name(one)]));
  return { ...traceOf(lanes, byStage, names, true), of: "stages", axes, transfers };
}

/**
 * The stages and lanes in which a block or a copy is.
 * @param {any} one @param {boolean} isBlock @param {number} lanes @returns {[number, number][]}
 */
function placesOf(one, isBlock, lanes) {
  if (isBlock) return [[one.stage, 0]];
  if (one.stage !== one.to_stage) {
    return [
      [one.stage, lanes - 2],
      [one.to_stage, lanes - 1],
    ];
  }
  return one.queues.map((/** @type {number} */ queue) => [one.stage, 1 + queue]);
}

/** @param {string[]} streams @param {Map<number, Span[][]>} byDevice @param {Map<number, string>} names @param {boolean} hasPath */
function traceOf(streams, byDevice, names, hasPath) {
  const devices = [...byDevice.keys()].sort((a, b) => a - b);
  const found = devices.map((number) => {
    const lanes = byDevice.get(number) ?? [];
    const [blocks, ...queues] = lanes.map((spans) => laneOf(spans, hasPath));
    const copies = laneOf(lanes.slice(1).flat(), false);
    const busy = /** @type {[number, number]} */ ([busyOf(blocks), busyOf(copies)]);
    return { number, name: names.get(number) ?? `device ${number}`, lanes: [blocks, ...queues], busy };
  });
  const end = found
    .flatMap((device) => device.lanes)
    .reduce((last, lane) => Math.max(last, lane.ends[lane.ends.length - 1] ?? 0), 0);
  return { streams, devices: found, end, hasPath };
}

/** @param {Span[]} spans @param {boolean} hasPath @returns {Lane} */
function laneOf(spans, hasPath) {
  spans.sort((a, b) => a.start - b.start);
  return {
    starts: Float64Array.from(spans, ({ start }) => start),
    ends: Float64Array.from(spans, ({ end }) => end),
    names: spans.map(({ name }) => name),
    kinds: spans.map(({ kind }) => kind),
    bytes: Float64Array.from(spans, ({ bytes }) => bytes),
    critical: hasPath ? Uint8Array.from(spans, ({ isCritical }) => Number(isCritical)) : null,
  };
}

/** How long at least one span is under way, s. @param {Lane} lane */
function busyOf({ starts, ends }) {
  let busy = 0;
  let last = 0;
  for (let k = 0; k < starts.length; k++) {
    busy += Math.max(0, ends[k] - Math.max(starts[k], last));
    last = Math.max(last, ends[k]);
  }
  return busy;
}

/**
 * The first event that ends after a time; events of a lane end in the order in which they begin.
 * @param {Lane} lane @param {number} time
 */
export function firstAfter(lane, time) {
  return lastUpTo(lane.ends, time) + 1;
}
