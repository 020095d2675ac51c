/**
 * The mesh as tables: what is received over each axis, and by each device.
 * @module sharding/mesh-tables
 */

import { seriesColor, swatch } from "../charts/legend.js";
import { element } from "../dom.js";
import { countOf, figure, figureIn, figureOf, numberHead, rowOf, shareOf, tableOf } from "../tables.js";
import { column, plain } from "../units.js";

/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {import("./columns.js").Axis} Axis */

/** @param {Columns} columns */
export function axisTable(columns) {
  const { axes } = columns.mesh;
  const total = columns.totals.traffic_bytes;
  const rows = axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => {
    const sum = axis.received_bytes.reduce((all, bytes) => all + bytes, 0);
    return rowOf([swatch(seriesColor(k)), axis.name], [
      countOf(axis.size),
      element("td", {}, axis.topology.replaceAll("_", " ")),
      figureOf(axis.bandwidth_bytes_per_s, "B/s"),
      figureOf(sum, "B"),
      total ? shareOf(sum / total) : figure("–", null),
      figureOf(Math.max(0, ...axis.received_bytes), "B"),
    ]);
  });
  const figures = ["of one, each way", "received by all", "share", "most by one device"];
  return tableOf(["axis", numberHead("size"), "links", ...figures.map((name) => numberHead(name, "", name === "share" ? "axis: share" : name))], rows, "Received over axes");
}

/** @param {Columns} columns */
export function deviceTable(columns) {
  const { axes, devices, stages } = columns.mesh;
  const writers = axes.map((/** @type {Axis} */ axis) => column(axis.received_bytes, "B"));
  const rows = devices.map((/** @type {number} */ number, /** @type {number} */ device) =>
    rowOf(
      plain(number),
      [
        element("td", {}, columns.deviceName(device)),
        stages > 1 ? countOf(Math.floor(device / columns.stageDevices)) : null,
        ...axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => figureIn(writers[k], axis.received_bytes[device])),
      ],
    ),
  );
  const received = axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => numberHead(`over ${axis.name}`, writers[k].name, "received over"));
  return tableOf([numberHead("device"), "place", ...(stages > 1 ? [numberHead("stage")] : []), ...received], rows, "Received by devices", { file: () => deviceRows(columns) });
}

/** What each device receives, as rows of a file. @param {Columns} columns @returns {unknown[][]} */
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
