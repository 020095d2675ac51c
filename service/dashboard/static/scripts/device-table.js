/**
 * What each device did and held in an execution.
 * @module device-table
 */

import { element, fill } from "./dom.js";
import { figureIn, meterCell, rowOf, scrolling, shareOf, tableOf } from "./tables.js";
import { column, percent, rounded } from "./units.js";

/**
 * @param {Element} place
 * @param {any} counts of the execution
 * @param {import("./trace.js").Trace | null} trace
 * @param {number | null} capacity of a device's memory, bytes
 */
export function showDevices(place, counts, trace, capacity) {
  const peaks = counts.peak_memory_bytes_by_device;
  const received = counts.received_bytes_by_device;
  const memory = column(peaks, "B");
  const traffic = column(received, "B");
  const most = Math.max(1, ...peaks);
  const largest = Math.max(1, ...received);
  const busyBy = trace ? new Map(trace.devices.map((device) => [device.number, device.busy])) : null;
  const nameBy = trace
    ? new Map(trace.devices.map(({ number, name }) => [number, name.replace(/^device /, "")]))
    : null;
  const wide = (/** @type {string} */ name, unit = "") => ({ name, unit, span: 2 });
  const heads = [
    "device",
    ...(trace ? [wide("computes"), wide("communicates")] : []),
    wide("peak memory", memory.name),
    wide("received", traffic.name),
  ];
  const rows = peaks.map((/** @type {number} */ peak, /** @type {number} */ device) => {
    const busy = [0, 1].map((stream) =>
      trace && trace.end ? (busyBy?.get(device)?.[stream] ?? 0) / trace.end : 0,
    );
    const shares = trace
      ? busy.flatMap((share, stream) => pair(shareOf(share), share, stream ? "second" : ""))
      : [];
    return rowOf(nameBy?.get(device) ?? String(device), [
      ...shares,
      ...pair(figureIn(memory, peak), peak / most, ""),
      ...pair(figureIn(traffic, received[device]), received[device] / largest, "second"),
    ]);
  });
  const note = capacity
    ? `The largest peak is ${percent(most / capacity)} of a device's ${rounded(capacity, "GB")}.`
    : "";
  const table = tableOf(heads, rows, "What each device did");
  fill(place, scrolling(table, "tall"), element("p", { class: "muted small" }, note));
}

/** @param {Element} cell @param {number} share @param {string} kind */
function pair(cell, share, kind) {
  return [cell, meterCell(share, kind)];
}
