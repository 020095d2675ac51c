/**
 * A chart of lines with its title, legend, menu and table.
 * @module devices/curve
 */

import { legend } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { saveMenu } from "../charts/saving.js";
import { element } from "../dom.js";
import { figure, numberHead, rowOf, scrolling, tableOf } from "../tables.js";

/** @typedef {import("../charts/lines.js").LineContent} LineContent */
/** What a table shows: heads, and rows of a name and texts. @typedef {{heads: string[], rows: string[][]}} Columns */

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
  const [first, ...others] = heads;
  const cells = rows.map(([name, ...texts]) => rowOf(name, texts.map((text) => figure(text))));
  return element(
    "details",
    { class: "more" },
    element("summary", {}, `${title}, as a table`),
    scrolling(tableOf([first, ...others.map((head) => numberHead(head, "", "curve: rate"))], cells, { label: title }), title, "tall"),
  );
}

/** How far a time may be off, of a standard deviation of logarithms. @param {number} error */
export function errorText(error) {
  return `${(100 * error).toLocaleString("en-US", { maximumFractionDigits: 0 })} %`;
}

/** A relative error with its sign. @param {number} error */
export function signed(error) {
  const text = (100 * Math.abs(error)).toLocaleString("en-US", { maximumFractionDigits: Math.abs(error) < 0.1 ? 1 : 0 });
  return text === "0" ? "0 %" : `${error < 0 ? "−" : "+"}${text} %`;
}
