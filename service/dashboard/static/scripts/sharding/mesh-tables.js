/**
 * The mesh as tables: what is received over each axis, and by each device.
 * @module sharding/mesh-tables
 */

import { element } from "../dom.js";
import { column, percent, plain, quantity } from "../units.js";
import { Columns } from "./columns.js";

/** @typedef {import("./columns.js").Axis} Axis */

/** A spot in the color of a mesh axis. @param {number} axis */
export function axisSwatch(axis) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = `var(--${Columns.colorOf(axis)})`;
  return made;
}

/** @param {Columns} columns */
export function axisTable(columns) {
  const { axes } = columns.mesh;
  const total = columns.totals.traffic_bytes;
  const rows = axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => {
    const sum = axis.received_bytes.reduce((all, bytes) => all + bytes, 0);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, axisSwatch(k), axis.name),
      element("td", { class: "number" }, plain(axis.size)),
      element("td", {}, axis.topology.replaceAll("_", " ")),
      element("td", { class: "number" }, quantity(axis.bandwidth_bytes_per_s, "B/s")),
      element("td", { class: "number" }, quantity(sum, "B")),
      element("td", { class: "number" }, total ? percent(sum / total) : "–"),
      element("td", { class: "number" }, quantity(Math.max(0, ...axis.received_bytes), "B")),
    );
  });
  const heads = ["axis", "size", "links", "of one, each way", "received by all", "share", "most by one device"];
  return tableOf(heads, rows, [1, 3, 4, 5, 6]);
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
      stages > 1 ? element("td", { class: "number" }, plain(Math.floor(device / columns.stageDevices))) : null,
      axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) =>
        element("td", { class: "number" }, writers[k].write(axis.received_bytes[device])),
      ),
    ),
  );
  const own = stages > 1 ? ["device", "place", "stage"] : ["device", "place"];
  const heads = [...own, ...axes.map((/** @type {Axis} */ axis, /** @type {number} */ k) => `over ${axis.name} (${writers[k].name})`)];
  return tableOf(heads, rows, heads.map((_, k) => k).filter((k) => k !== 1));
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

/** @param {string[]} heads @param {any[]} rows @param {number[]} numbers columns of figures */
export function tableOf(heads, rows, numbers) {
  return element(
    "table",
    {},
    element(
      "thead",
      {},
      element("tr", {}, heads.map((head, k) => element("th", { scope: "col", class: numbers.includes(k) ? "number" : null }, head))),
    ),
    element("tbody", {}, rows),
  );
}
