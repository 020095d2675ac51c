/**
 * The mesh as tables: what is received over each axis, and by each device.
 * @module sharding/mesh-tables
 */

import { seriesColor, swatch } from "../charts/legend.js";
import { element } from "../dom.js";
import { figure, numberHead, rowOf, tableOf } from "../tables.js";
import { column, percent, plain, quantity } from "../units.js";

/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {import("./columns.js").Axis} Axis */

/** @param {Columns} columns */
export function axisTable(columns) {
  const { axes } = columns.mesh;
  const total = columns.totals.traffic_bytes;
  const rows = axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => {
    const sum = axis.received_bytes.reduce((all, bytes) => all + bytes, 0);
    return rowOf([swatch(seriesColor(k)), axis.name], [
      figure(plain(axis.size)),
      element("td", {}, axis.topology.replaceAll("_", " ")),
      figure(quantity(axis.bandwidth_bytes_per_s, "B/s")),
      figure(quantity(sum, "B")),
      figure(total ? percent(sum / total) : "–"),
      figure(quantity(Math.max(0, ...axis.received_bytes), "B")),
    ]);
  });
  const figures = ["of one, each way", "received by all", "share", "most by one device"];
  return tableOf(["axis", numberHead("size"), "links", ...figures.map((name) => numberHead(name, "", name === "share" ? "axis: share" : name))], rows);
}

/** @param {Columns} columns */
export function deviceTable(columns) {
  const { axes, devices, stages } = columns.mesh;
  const writers = axes.map((/** @type {Axis} */ axis) => column(axis.received_bytes, "B"));
  const rows = devices.map((/** @type {number} */ number, /** @type {number} */ device) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", class: "number" }, plain(number)),
      element("td", {}, columns.deviceName(device)),
      stages > 1 ? figure(plain(Math.floor(device / columns.stageDevices))) : null,
      axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => figure(writers[k].write(axis.received_bytes[device]))),
    ),
  );
  const received = axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => numberHead(`over ${axis.name}`, writers[k].name, "received over"));
  return tableOf([numberHead("device"), "place", ...(stages > 1 ? [numberHead("stage")] : []), ...received], rows);
}

/** What each device receives, as rows of a file. @param {Columns} columns */
export function deviceRows(columns) {
  const { axes, devices } = columns.mesh;
  const head = ["device", "place", ...axes.map((/** @type {Axis} */ axis) => `received over ${axis.name} (B)`)];
  const rows = devices.map((/** @type {number} */ number, /** @type {number} */ device) => [
    number,
    columns.deviceName(device),
    ...axes.map((/** @type {Axis} */ axis) => axis.received_bytes[device]),
  ]);
  return [head, ...rows];
}
