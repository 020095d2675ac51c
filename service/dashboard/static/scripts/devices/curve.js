/**
 * A chart of lines with its title, legend, menu and table.
 * @module devices/curve
 */

import { legend } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { saveMenu } from "../charts/saving.js";
import { element } from "../dom.js";
import { scrolling, tableOf } from "../tables.js";

/** @typedef {import("../charts/lines.js").LineContent} LineContent */
/** What a table shows. @typedef {{heads: import("../tables.js").Head[], rows: any[]}} Columns */

/**
 * @param {{title: string, label: string, name: string, note: string, columns: Columns, rows: unknown[][], names?: {name: string, color: string}[]}} about
 *   `rows` are those of the CSV; `names` those of the legend, if not of all series
 * @param {LineContent} content
 */
export function curveSection({ title, label, name, note, columns, rows, names }, content) {
  const place = element("div", { class: "curve" });
  const chart = new LineChart(place, label);
  chart.show(content);
  return element(
    "section",
    { class: "curves", "aria-label": title },
    element("header", { class: "row" }, element("h3", {}, title), saveMenu(chart, () => name, () => rows)),
    legend(names ?? content.series),
    place,
    element("p", { class: "muted small" }, note),
    asTable(title, columns),
  );
}

/** @param {string} title @param {Columns} columns */
function asTable(title, { heads, rows }) {
  return element(
    "details",
    { class: "more" },
    element("summary", {}, `${title}, as a table`),
    scrolling(tableOf(heads, rows, title), "tall"),
  );
}

/** How far a time may be off, of a standard deviation of logarithms. @param {number} error */
export function errorText(error) {
  return `${(100 * error).toLocaleString("en-US", { maximumFractionDigits: 0 })} %`;
}

/** The middle of some numbers. @param {number[]} numbers */
export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  return (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.ceil((sorted.length - 1) / 2)]) / 2;
}

/** A relative error with its sign. @param {number} error */
export function signed(error) {
  const text = (100 * Math.abs(error)).toLocaleString("en-US", { maximumFractionDigits: Math.abs(error) < 0.1 ? 1 : 0 });
  return text === "0" ? "0 %" : `${error < 0 ? "−" : "+"}${text} %`;
}
