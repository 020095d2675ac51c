/**
 * A trace in Perfetto's form as devices with their lanes.
 * @module trace
 */

/** @typedef {{starts: Float64Array, ends: Float64Array, names: string[], bytes: Float64Array}} Lane */
/** @typedef {{number: number, name: string, lanes: Lane[], busy: [number, number]}} Device */
/** @typedef {{streams: string[], devices: Device[], end: number}} Trace */

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
  /** @type {Map<number, any[][]>} */
  const byDevice = new Map();
  for (const event of document.traceEvents) {
    if (event.ph !== "X") continue;
    if (!byDevice.has(event.pid))
      byDevice.set(
        event.pid,
        streams.map(() => []),
      );
    byDevice.get(event.pid)?.[event.tid]?.push(event);
  }
  const devices = [...byDevice.keys()].sort((a, b) => a - b);
  const lanes = devices.map((number) => {
    const [blocks = [], ...queues] = byDevice.get(number) ?? [];
    const lanes = [blocks, ...queues].map(laneOf);
    const name = names.get(number) ?? `device ${number}`;
    return { number, name, lanes, busy: busyOf(lanes[0], laneOf(queues.flat())) };
  });
  const end = lanes
    .flatMap((device) => device.lanes)
    .reduce((last, lane) => Math.max(last, lane.ends[lane.ends.length - 1] ?? 0), 0);
  return { streams, devices: lanes, end };
}

/** @param {any[]} events @returns {Lane} */
function laneOf(events) {
  events.sort((a, b) => a.ts - b.ts);
  const starts = Float64Array.from(events, (event) => event.ts * 1e-6);
  const ends = Float64Array.from(events, (event) => (event.ts + event.dur) * 1e-6);
  const bytes = Float64Array.from(events, (event) => event.args?.bytes ?? 0);
  return { starts, ends, bytes, names: events.map((event) => event.name) };
}

/** @param {Lane} blocks @param {Lane} copies @returns {[number, number]} */
function busyOf(blocks, copies) {
  return [busySeconds(blocks.starts, blocks.ends), busySeconds(copies.starts, copies.ends)];
}

/** How long at least one event is under way. @param {Float64Array} starts @param {Float64Array} ends */
function busySeconds(starts, ends) {
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
  let low = 0;
  let high = lane.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.ends[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
