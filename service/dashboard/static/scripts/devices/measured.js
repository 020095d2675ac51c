/**
 * Kernels that were measured on a device: predicted over measured time, as a chart and as a table.
 * @module devices/measured
 */

import { legend } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { saveMenu } from "../charts/saving.js";
import { element, fill } from "../dom.js";
import { figure, figureOf, rowOf, scrolling, SHARE, showSortHeads, sortedTable } from "../tables.js";
import { plain, quantity } from "../units.js";
import { median, signed } from "./curve.js";

/** Classes of kernels that are drawn in one color. */
const FAMILIES = [
  { name: "products and convolutions", color: "series-1", members: ["matrix_product", "convolution", "fused_product", "attention"] },
  { name: "elementwise and moves", color: "series-2", members: ["elementwise", "gated", "copy", "transposition", "gather"] },
  { name: "along rows", color: "series-3", members: ["reduction", "normalization", "softmax", "fused_rows", "scan", "sort"] },
  { name: "pools, grouped convolutions and others", color: "series-4", members: [] },
];
const COLUMNS = [
  { key: "name", title: "kernel", unit: "", isNumber: false },
  { key: "class", title: "class", unit: "", isNumber: false },
  { key: "flops", title: "work", about: "kernel: work", unit: "", isNumber: true },
  { key: "bytes", title: "bytes", about: "kernel: bytes", unit: "", isNumber: true },
  { key: "measured_s", title: "measured", about: "kernel: measured", unit: "", isNumber: true },
  { key: "predicted_s", title: "predicted", about: "kernel: predicted", unit: "", isNumber: true },
  { key: "error", title: "error", about: "kernel: error", unit: "", isNumber: true },
  { key: "is_inside", title: "inside 90 %", about: "kernel: inside 90 %", unit: "", isNumber: true },
];

/** @param {any} device @param {URLSearchParams} state @param {() => void} keep */
export function measuredSection({ name, measured }, state, keep) {
  const section = element("section", { class: "card", id: "measured", "aria-label": "Measured kernels" });
  if (!measured.kernels.length) {
    fill(
      section,
      element("header", {}, element("h2", {}, "Measured kernels")),
      element("p", { class: "empty" }, "No time of a kernel on this device lies in the project. What its classes of kernels were fitted to, or which device they are taken from, is below. ",
        element("code", {}, "tapestry calibrate FILE"), " measures the device that it runs on."),
    );
    return section;
  }
  const classes = [...new Set(measured.kernels.map((/** @type {any} */ each) => each.class))].sort();
  const choice = element("select", { "aria-label": "Class of kernels" },
    element("option", { value: "" }, "all classes"), classes.map((each) => element("option", { value: each }, each)));
  choice.value = classes.includes(state.get("class")) ? state.get("class") : "";
  const place = element("div", { class: "curve" });
  const chart = new LineChart(place, `Predicted over measured time of kernels on ${name}; the table below has the same figures`);
  const summary = element("p", { class: "note", role: "status" });
  const { table, head, body } = sortedTable("Measured kernels", { kind: "measured-table", file: () => csv() });
  /** @type {import("../tables.js").Order} */
  let order = { key: "error", isAscending: false };
  const chosen = () => measured.kernels.filter((/** @type {any} */ each) => !choice.value || each.class === choice.value);
  const draw = () => {
    const found = chosen();
    summary.textContent = summaryOf(found);
    chart.show(contentOf(found));
    showSortHeads(head, COLUMNS, order, (next) => ((order = next), draw()));
    fill(body, ...sorted(found, order).map(rowOfKernel));
  };
  choice.addEventListener("change", () => {
    if (choice.value) state.set("class", choice.value);
    else state.delete("class");
    keep();
    draw();
  });
  draw();
  const csv = () => [
    ["kernel", "class", "precision", "work (flop)", "bytes (B)", "measured (s)", "predicted (s)", "least (s)", "most (s)", "relative error", "source"],
    ...chosen().map((/** @type {any} */ each) => [
      ...[each.name, each.class, each.precision, each.flops, each.bytes, each.measured_s, each.predicted_s, each.low_s, each.high_s, each.error],
      measured.tables[each.table].source,
    ]),
  ];
  fill(
    section,
    element("header", {}, element("h2", {}, "Measured kernels"), summary, element("div", { class: "row spread" }, choice, saveMenu(chart, () => `${name}-measured`, csv))),
    legend(FAMILIES.filter((family) => measured.kernels.some((/** @type {any} */ each) => familyOf(each) === family))),
    place,
    ...measured.tables.map(sourceOf),
    scrolling(table, "tall"),
  );
  return section;
}

/** @param {any} table */
function sourceOf({ source, is_fitted: isFitted, rows }) {
  const rest = isFitted
    ? "The figures of the device were fitted to these rows among others, so they are in sample."
    : "The figures of the device were not fitted to them.";
  return element("p", { class: "muted small" }, `${plain(rows)} ${rows === 1 ? "row" : "rows"}: ${source}. ${rest}`);
}

/** @param {any[]} kernels */
function summaryOf(kernels) {
  const middle = median(kernels.map((each) => Math.abs(each.error)));
  const inside = kernels.filter((each) => each.is_inside).length;
  return `${plain(kernels.length)} measured; median error ${plain(100 * middle, 1)} %; ${plain(inside)} in the interval of 90 %`;
}

/** @param {any} kernel */
function familyOf(kernel) {
  return FAMILIES.find(({ members }) => /** @type {string[]} */ (members).includes(kernel.class)) ?? FAMILIES[FAMILIES.length - 1];
}

/** @param {any[]} kernels @returns {import("../charts/lines.js").LineContent} */
function contentOf(kernels) {
  const series = FAMILIES.flatMap((family) => {
    const mine = kernels.filter((each) => familyOf(each) === family).sort((one, other) => one.measured_s - other.measured_s);
    if (!mine.length) return [];
    return [{
      name: family.name,
      color: family.color,
      kind: /** @type {"points"} */ ("points"),
      x: mine.map((each) => each.measured_s),
      y: mine.map((each) => each.predicted_s / each.measured_s),
      note: (/** @type {number} */ k) => `${mine[k].name}, ${quantity(mine[k].measured_s, "s")}, ${signed(mine[k].error)}`,
    }];
  });
  return {
    series,
    x: { title: "measured time", unit: "s", isLog: true },
    y: { title: "predicted / measured", unit: "", isLog: true, isFromZero: false },
    levels: [{ y: 1, name: "as measured" }],
  };
}

/** @param {any[]} kernels @param {import("../tables.js").Order} order */
function sorted(kernels, { key, isAscending }) {
  const value = (/** @type {any} */ each) => (key === "error" ? Math.abs(each.error) : each[key]);
  const sign = isAscending ? 1 : -1;
  return [...kernels].sort((one, other) => sign * (value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0));
}

/** @param {any} each */
function rowOfKernel(each) {
  return rowOf(each.name, [
    element("td", {}, each.class),
    figureOf(each.flops, "flop"),
    figureOf(each.bytes, "B"),
    figureOf(each.measured_s, "s"),
    figureOf(each.predicted_s, "s"),
    figure(signed(each.error), each.error, SHARE),
    element("td", { class: "number" }, each.is_inside ? "yes" : "no"),
  ]);
}
