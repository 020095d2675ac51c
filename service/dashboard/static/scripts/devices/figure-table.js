/**
 * Figures of a device or of links: what each is, its value with a unit, and where it comes from.
 * @module devices/figure-table
 */

import { element } from "../dom.js";
import { figure, numberHead, rowOf, scrolling, tableOf } from "../tables.js";
import { plain, rounded, significant } from "../units.js";

/** @typedef {{key: string, group: string, about: string, value: number, unit: string, source: string}} FigureRow */

/** The units that people compare such figures in, and a factor of each. @type {Record<string, [number, string]>} */
const UNITS = {
  bytes: [1e-9, "GB"],
  "bytes/s": [1e-9, "GB/s"],
  "flop/s": [1e-12, "Tflop/s"],
  s: [1e6, "µs"],
  J: [1e12, "pJ"],
  share: [100, "%"],
};

/** A value as people compare such figures: `3,350 GB/s`, `66.9 Tflop/s`. @param {FigureRow} figure */
function figureText({ value, unit }) {
  if (unit === "bytes" && value < 1e8) return rounded(value, "B");
  const [factor, name] = UNITS[unit] ?? [1, unit];
  return `${digits(value * factor)} ${name}`.trim();
}

/** @param {number} value */
function digits(value) {
  return Number.isInteger(value) ? plain(value) : significant(value);
}

/** A table of figures, those of a group together. @param {FigureRow[]} figures @param {string} label */
export function figureTable(figures, label) {
  const groups = [...new Set(figures.map(({ group }) => group))];
  const rows = groups.flatMap((group) => [
    groups.length > 1 ? element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: 3 }, group)) : null,
    ...figures.filter((each) => each.group === group).map(row),
  ]);
  return scrolling(tableOf(["figure", numberHead("value", "", "device: value"), "source"], rows, label, { kind: "figure-table", file: () => figureRows(figures) }), "tall");
}

/** @param {FigureRow} each */
function row(each) {
  const name = [each.about, element("code", { class: "muted small" }, each.key)];
  return rowOf(name, [figure(figureText(each), each.value, each.unit), element("td", { class: "source" }, linked(each.source))]);
}

/** A source; an address in it is a link. @param {string} source */
export function linked(source) {
  const found = /https?:\/\/[^\s),;]+/.exec(source);
  if (!found) return [source || "none is stated"];
  return [
    source.slice(0, found.index),
    element("a", { href: found[0], rel: "noreferrer" }, found[0]),
    source.slice(found.index + found[0].length),
  ];
}

/** The figures as rows of a file. @param {FigureRow[]} figures @returns {unknown[][]} */
function figureRows(figures) {
  return [["figure", "what it is", "value", "unit", "source"], ...figures.map((each) => [each.key, each.about, each.value, each.unit, each.source])];
}
