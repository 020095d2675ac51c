/**
 * A device: memories and rates, times of products and streams by size beside measured ones, every figure with its source.
 * @module devices/device-view
 */

import { pages } from "../api.js";
import { seriesColor } from "../charts/legend.js";
import { element, fill } from "../dom.js";
import { pairs } from "../pairs.js";
import { figure, numberHead, rowAt, rowOf, scrolling, SHARE, tableOf } from "../tables.js";
import { plain, quantity, rounded, several, significant } from "../units.js";
import { curveSection, errorText } from "./curve.js";
import { figureTable, linked } from "./figure-table.js";
import { measuredSection } from "./measured.js";

const MOST_LINES = 4;
const MOST_NAMES = 6;
const MEASURED = "measured";
const BINARY = 1e8; // bytes below which sizes are those of caches, which are powers of two

/** @param {HTMLElement} place @param {any} device @param {URLSearchParams} state @param {() => void} keep the state in the address */
export function showDevice(place, device, state, keep) {
  fill(
    place,
    element("section", { class: "card", id: "device", "aria-label": "The device" }, head(device), facts(device),
      element("div", { class: "device-curves" }, products(device), streams(device))),
    measuredSection(device, state, keep),
    figures(device),
    kernels(device),
  );
}

/** @param {any} device */
function head({ name, vendor, architecture, aliases, meshes }) {
  const known = [architecture ? `${vendor}, ${architecture}.` : `${vendor}.`];
  if (aliases.length) known.push(` Also called ${aliases.slice(0, MOST_NAMES).join(", ")}.`);
  const links = meshes.flatMap((/** @type {string} */ mesh, /** @type {number} */ k) => [k ? ", " : "", element("a", { href: pages.mesh(mesh) }, mesh)]);
  return element("header", {}, element("h2", {}, name),
    element("p", { class: "note" }, ...known, ...(meshes.length ? [` ${meshes.length > 1 ? "Meshes" : "Mesh"} of it: `, ...links, "."] : [" No mesh of the catalog has it."])));
}

/** Memory levels, arithmetic, what works side by side. @param {any} device */
function facts({ figures, products: rates, layouts }) {
  const value = (/** @type {string} */ key) => figures.find((/** @type {any} */ one) => one.key === key)?.value;
  const level = (/** @type {string} */ size, /** @type {string} */ rate) =>
    value(size) ? `${rounded(value(size), value(size) < BINARY ? "B" : "GB")}${value(rate) ? ` at ${rounded(value(rate), "B/s")}` : ""}` : null;
  const best = [...rates].sort((one, other) => other.peak_flops_per_s - one.peak_flops_per_s)[0];
  return pairs([
    ["Memory", level("memory_bytes", "memory_bytes_per_s"), "mesh: memory"],
    ["Last cache", level("cache_bytes", "cache_bytes_per_s") ?? "none is stated"],
    ["Memory of the host", level("host_memory_bytes", "host_bytes_per_s") ?? "none is stated"],
    ["Matrix units", best ? `up to ${rounded(best.peak_flops_per_s, "flop/s")} in ${best.precision}` : null],
    ["Vector units", rounded(value("vector_flops_per_s"), "flop/s")],
    ["Engines", enginesText(value)],
    ["Layouts", layouts.join(", "), ""],
  ]);
}

/** @param {(key: string) => number | undefined} value */
function enginesText(value) {
  const cores = several(value("cores") ?? 1, "core");
  const taken = value("communication_cores");
  const queues = several(value("communication_queues") ?? 1, "queue");
  const host = value("host_bytes_per_s") ? ", and one each to and from the host" : "";
  return `${cores}${taken ? `, ${plain(taken)} of them taken by collectives while they run` : ""}; ${queues} of copies between devices${host}`;
}

/** flop/s of square products by size. @param {any} device */
function products(device) {
  const rate = (/** @type {number[]} */ spent) => device.sizes.map((/** @type {number} */ n, /** @type {number} */ k) => (2 * n ** 3) / spent[k]);
  const square = device.measured.kernels.filter((/** @type {any} */ { class: kernel, sizes: [batch, m, n, k] }) =>
    kernel === "matrix_product" && batch === 1 && m === n && n === k);
  const isMeasured = (/** @type {any} */ one) => square.some((/** @type {any} */ each) => one.names.includes(each.precision));
  const all = distinct(device.products);
  const chosen = [...all.filter(isMeasured), ...all.filter((one) => !isMeasured(one))].slice(0, MOST_LINES);
  const shown = all.filter((one) => chosen.includes(one));
  const lines = shown.flatMap((one, k) => {
    const title = one.names.join(", ");
    const points = square.filter((/** @type {any} */ each) => one.names.includes(each.precision)).sort(by("flops"));
    return [
      ...(points.length ? [pointsOf(`${title}, ${MEASURED}`, seriesColor(k), points, (each) => each.sizes[1], (each, spent) => each.flops / spent, "flop/s")] : []),
      { name: title, color: seriesColor(k), x: device.sizes, y: rate(one.seconds), kind: /** @type {"line"} */ ("line") },
      { name: `${title}, roofline`, color: seriesColor(k), x: device.sizes, y: rate(one.ideal), kind: /** @type {"line"} */ ("line"), isDashed: true },
    ];
  });
  const left = all.filter((one) => !chosen.includes(one)).flatMap(({ names }) => names);
  const errors = shown.map((one) => `${errorText(one.error)} in ${one.names.join(", ")}`).join("; ");
  return curveSection(
    {
      title: "Products of n × n matrices",
      label: `Operations per second of square products on ${device.name}, by size; the table below has the same figures`,
      name: `${device.name}-products`,
      note: `Lines: predicted; dashed: the roofline of peak and memory. Times may be off by ${errors} (one standard deviation). ${
        square.length ? "Large points: measured." : "No square product measured on this device lies in the project."
      }${left.length ? ` ${left.join(", ")}: in the table.` : ""}`,
      names: shown.map((one, k) => ({ name: one.names.join(", "), color: seriesColor(k) })),
      columns: {
        heads: ["n", ...device.products.map((/** @type {any} */ one) => numberHead(one.precision, "Tflop/s", "curve: rate"))],
        rows: device.sizes.map((/** @type {number} */ n, /** @type {number} */ k) =>
          rowAt(plain(n), n, "", device.products.map((/** @type {any} */ one) => rateCell((2 * n ** 3) / one.seconds[k], 1e12, "flop/s")))),
      },
      rows: [
        ["precision", "n", "predicted (s)", "roofline (s)", "measured (s)"],
        ...device.products.flatMap((/** @type {any} */ one) =>
          device.sizes.map((/** @type {number} */ n, /** @type {number} */ k) => [one.precision, n, one.seconds[k], one.ideal[k], ""])),
        ...square.map((/** @type {any} */ each) => [each.precision, each.sizes[1], each.predicted_s, "", each.measured_s]),
      ],
    },
    { series: lines, x: { title: "n", unit: "", isLog: true, isWhole: true }, y: { title: "rate", unit: "flop/s", isLog: true, isFromZero: false } },
  );
}

/** @param {number} rate @param {number} factor of the unit in the head @param {string} unit */
function rateCell(rate, factor, unit) {
  return figure(significant(rate / factor), rate, unit);
}

/** Bytes per second of a kernel that streams. @param {any} device */
function streams(device) {
  const { seconds, ideal, error } = device.streams;
  const rate = (/** @type {number[]} */ spent) => device.bytes.map((/** @type {number} */ bytes, /** @type {number} */ k) => bytes / spent[k]);
  const points = device.measured.kernels.filter((/** @type {any} */ each) => each.class === "elementwise" && each.precision === "fp32").sort(by("bytes"));
  const names = [{ name: "predicted", color: "series-1" }, { name: "rate of the memory", color: "series-8" }];
  return curveSection(
    {
      title: "Elementwise kernels",
      label: `Bytes per second that an elementwise kernel reads and writes on ${device.name}, by bytes; the table below has the same figures`,
      name: `${device.name}-streams`,
      note: `Above the memory's rate a cache holds what is read again. Times may be off by ${errorText(error)} (one standard deviation). ${
        points.length ? `Large points: ${plain(points.length)} measured kernels of one or several functions.` : "No elementwise kernel measured on this device lies in the project."
      }`,
      names: points.length ? [{ name: MEASURED, color: "series-2" }, ...names] : names,
      columns: {
        heads: ["bytes", ...["predicted", "rate of the memory"].map((name) => numberHead(name, "GB/s", "curve: rate"))],
        rows: device.bytes.map((/** @type {number} */ bytes, /** @type {number} */ k) =>
          rowAt(rounded(bytes, "B"), bytes, "B", [seconds[k], ideal[k]].map((spent) => rateCell(bytes / spent, 1e9, "B/s")))),
      },
      rows: [
        ["bytes (B)", "predicted (s)", "at the memory's rate (s)", "measured (s)"],
        ...device.bytes.map((/** @type {number} */ bytes, /** @type {number} */ k) => [bytes, seconds[k], ideal[k], ""]),
        ...points.map((/** @type {any} */ each) => [each.bytes, each.predicted_s, "", each.measured_s]),
      ],
    },
    {
      series: [
        ...(points.length ? [pointsOf(MEASURED, "series-2", points, (each) => each.bytes, (each, spent) => each.bytes / spent, "B/s")] : []),
        { ...names[0], x: device.bytes, y: rate(seconds), kind: "line" },
        { ...names[1], x: device.bytes, y: rate(ideal), kind: "line", isDashed: true },
      ],
      x: { title: "bytes read and written", unit: "B", isLog: true },
      y: { title: "rate", unit: "B/s" },
    },
  );
}

/**
 * Measured kernels as points of a chart; what they are is said where the pointer is.
 * @param {string} name @param {string} color @param {any[]} kernels @param {(each: any) => number} x
 * @param {(each: any, spent: number) => number} y @param {string} unit
 */
function pointsOf(name, color, kernels, x, y, unit) {
  return {
    name,
    color,
    kind: /** @type {"points"} */ ("points"),
    x: kernels.map(x),
    y: kernels.map((each) => y(each, each.measured_s)),
    note: (/** @type {number} */ k) => `${kernels[k].name}, ${quantity(y(kernels[k], kernels[k].measured_s), unit)}; predicted ${quantity(y(kernels[k], kernels[k].predicted_s), unit)}`,
  };
}

/** @param {string} key */
function by(key) {
  return (/** @type {any} */ one, /** @type {any} */ other) => one[key] - other[key];
}

/** Precisions that take equally long are one line. @param {any[]} rates */
function distinct(rates) {
  /** @type {Map<string, any>} */
  const found = new Map();
  for (const one of rates) {
    const key = JSON.stringify(one.seconds);
    const known = found.get(key);
    if (known) known.names.push(one.precision);
    else found.set(key, { ...one, names: [one.precision] });
  }
  return [...found.values()].sort((one, other) => other.peak_flops_per_s - one.peak_flops_per_s);
}

/** @param {any} device */
function figures({ name, figures: all }) {
  return element(
    "section",
    { class: "card", "aria-label": "Figures" },
    element("header", {}, element("h2", {}, "Figures and their sources")),
    figureTable(all, `Figures of ${name}`),
  );
}

/** Devices that figures are taken from, as links. @param {string} names */
function origins(names) {
  return names.split(", ").flatMap((name, k) => [k ? ", " : "", element("a", { href: pages.device(name) }, name)]);
}

/** @param {any} device */
function kernels({ name, kernels: classes }) {
  if (!classes.length) return null;
  const rows = classes.map((/** @type {any} */ each) =>
    rowOf(each.class, [
      figure(errorText(each.error), each.error, SHARE),
      element("td", {}, each.origin ? origins(each.origin) : "its own"),
      element("td", { class: "source" }, linked(each.source || (each.origin ? `as measured on ${each.origin}, by the ratio of rates` : ""))),
    ]));
  return element(
    "section",
    { class: "card", "aria-label": "Classes of kernels" },
    element("header", {}, element("h2", {}, "Classes of kernels"),
      element("p", { class: "note" }, "How far times of each class may be off, one standard deviation, and from which device its figures are.")),
    scrolling(tableOf(["class", numberHead("error", "", "class: error"), "figures of", "source"], rows, `Classes of kernels of ${name}`, { kind: "figure-table" }), "tall"),
  );
}
