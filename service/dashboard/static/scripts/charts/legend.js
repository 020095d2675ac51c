/**
 * Colors of what has none of its own, and what they stand for, in words.
 * @module charts/legend
 */

import { element } from "../dom.js";

const SERIES = 8; // so many colors the styles have

/** The name of a color of the styles, for the k-th of several things. @param {number} k */
export function seriesColor(k) {
  return `series-${(k % SERIES) + 1}`;
}

/** A small square of a color, beside a text that says what it is. @param {string} color a name of the styles, or as CSS writes it */
export function swatch(color) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = /^[a-z]+(-\w+)*$/.test(color) ? `var(--${color})` : color;
  return made;
}

/** The names of series beside their colors. @param {{name: string, color: string}[]} series */
export function legend(series) {
  return element(
    "ul",
    { class: "chart-legend" },
    series.map((one) => element("li", {}, swatch(one.color), one.name)),
  );
}
