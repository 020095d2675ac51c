/**
 * A mesh: its devices and links drawn, times of collectives by bytes beside measured ones, every figure with its source.
 * @module devices/mesh-view
 */

import { pages } from "../api.js";
import { saveMenu } from "../charts/saving.js";
import { seriesColor, swatch } from "../charts/legend.js";
import { element, fill } from "../dom.js";
import { countOf, figure, numberHead, rowOf, scrolling, SHARE, tableOf } from "../tables.js";
import { plain, rounded, several } from "../units.js";
import { collectivesSection } from "./collectives.js";
import { errorText } from "./curve.js";
import { figureTable, linked } from "./figure-table.js";
import { Topology } from "./topology.js";

/** @param {HTMLElement} place @param {any} mesh @param {URLSearchParams} state @param {() => void} keep the state in the address */
export function showMesh(place, mesh, state, keep) {
  const links = [...mesh.axes, ...(mesh.network ? [mesh.network] : [])];
  fill(
    place,
    element("section", { class: "card", id: "mesh", "aria-label": "The mesh" }, head(mesh), drawn(mesh)),
    collectivesSection(mesh, links, state, keep),
    element("section", { class: "card", "aria-label": "Figures" },
      element("header", {}, element("h2", {}, "Figures of the links and their sources")),
      links.map((link) => linkFigures(link, titleOf(link, mesh)))),
  );
}

/** @param {any} link @param {any} mesh */
function titleOf(link, mesh) {
  return link === mesh.network ? "between nodes" : link.name;
}

/** @param {any} mesh */
function head(mesh) {
  const devices = mesh.devices.flatMap((/** @type {any} */ each, /** @type {number} */ k) => [
    k ? " and " : "", each.is_known ? element("a", { href: pages.device(each.name) }, each.name) : each.name]);
  const nodes = mesh.nodes.length ? ` Nodes: ${mesh.nodes.map((/** @type {any} */ each) => `${plain(each.count)} × ${each.name}`).join(", ")}.` : "";
  const systems = mesh.systems.length ? ` Measured as ${mesh.systems.join(", ")}.` : "";
  return element("header", {}, element("h2", {}, mesh.name),
    element("p", { class: "note" }, `${several(mesh.device_count, "device")}: `, ...devices, `.${nodes}${systems} Copies go through ${mesh.queues.length > 1 ? `${mesh.queues.length} queues: ${mesh.queues.join(", ")}` : "one queue"}.`));
}

/** The drawing, and its axes as a table. @param {any} mesh */
function drawn(mesh) {
  const place = element("div", { class: "topology" });
  const note = element("p", { class: "muted small" });
  const table = axesTable(mesh);
  const rows = [...table.querySelectorAll("tbody tr")];
  const mark = (/** @type {number} */ axis) => rows.forEach((row, k) => row.classList.toggle("is-marked", k === axis));
  const figureOf = new Topology(place, mesh, mark);
  rows.slice(0, mesh.axes.length).forEach((row, k) => {
    row.addEventListener("pointerenter", () => figureOf.point(k));
    row.addEventListener("pointerleave", () => figureOf.point(-1));
  });
  const frames = mesh.axes.slice(0, -2).map((/** @type {any} */ axis) => axis.name).join(" and ");
  const joined = frames ? `Along ${frames}, links join the devices at the same place in every frame.` : "";
  note.textContent = [figureOf.leftOut, joined, "Arrow keys point out the links of one axis after the other."].filter(Boolean).join(" ");
  const csv = () => [
    ["axis", "devices", "topology", "link (B/s)", "device (B/s)", "latency (s)"],
    ...mesh.axes.map((/** @type {any} */ axis) => [axis.name, axis.size, axis.topology, axis.bandwidth_bytes_per_s, axis.device_bytes_per_s, axis.latency_s]),
  ];
  return element("div", { class: "curves" },
    element("header", { class: "row" }, element("h3", {}, "Devices and links"), saveMenu(figureOf, () => `${mesh.name}-topology`, csv)),
    place, note, scrolling(table));
}

/** @param {any} mesh */
function axesTable(mesh) {
  const heads = ["axis", numberHead("devices", "", "axis: devices"), "topology", numberHead("a link, one way"), numberHead("a device, all links"), numberHead("latency of a round")];
  const row = (/** @type {any} */ axis, /** @type {any} */ name, /** @type {Element} */ size) =>
    rowOf(name, [
      size,
      element("td", {}, axis.topology.replace("_", " ")),
      ...[axis.bandwidth_bytes_per_s, axis.device_bytes_per_s].map((rate) => figure(rounded(rate, "B/s"), rate, "B/s")),
      figure(rounded(axis.latency_s, "s"), axis.latency_s, "s"),
    ]);
  const rows = mesh.axes.map((/** @type {any} */ axis, /** @type {number} */ k) => row(axis, [swatch(seriesColor(k)), axis.name], countOf(axis.size)));
  if (mesh.network) rows.push(row(mesh.network, "between nodes", figure("–", null)));
  return tableOf(heads, rows, `Axes of ${mesh.name}`);
}

/** @param {any} link @param {string} title */
function linkFigures(link, title) {
  const tables = link.tables.map((/** @type {any} */ table) =>
    rowOf(collectiveName(table), [
      figure(table.inside > 1 ? `${plain(table.members)} × ${plain(table.inside)}` : plain(table.members), table.members * table.inside),
      countOf(table.rows),
      figure(errorText(table.error), table.error, SHARE),
      element("td", { class: "source" }, linked(table.source)),
    ]));
  const heads = ["measured", numberHead("devices", "", "exchange: devices"), numberHead("sizes", "", "exchange: sizes"), numberHead("error", "", "exchange: error"), "source"];
  return element(
    "details",
    { class: "more", open: true },
    element("summary", {}, `${title}: ${several(link.figures.length, "figure")}, ${link.tables.length ? `${several(link.tables.length, "table")} of measurements` : "no measurement"}`),
    figureTable(link.figures, `Figures of ${title}`),
    tables.length ? scrolling(tableOf(heads, tables, `Measurements of ${title}`, { kind: "figure-table" })) : null,
  );
}

/** @param {{kind: string, algorithm: string}} table */
function collectiveName({ kind, algorithm }) {
  return `${kind.replaceAll("_", "-")}${algorithm === "any" ? "" : `, ${algorithm.replace("_", " ")}`}`;
}
