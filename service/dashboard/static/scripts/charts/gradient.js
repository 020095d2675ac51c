/**
 * Colors of values from least to most: light for little in the light, the other way round in the dark.
 * @module charts/gradient
 */

import { isDark } from "../colors.js";

const LIGHT = ["#2b1d6e", "#3f4fb5", "#2f86c1", "#2bb0a5", "#7fce7a"];
const DARK = ["#5b6ef0", "#3f9fe0", "#2fc4b2", "#8fdc84", "#f0e869", "#fff7c2"];

/** How many different colors there are: what has the same is drawn at once. */
const SHADES = 32;

const IN_LIGHT = mixed(LIGHT);
const IN_DARK = mixed(DARK);

/** The colors, as CSS writes them, for the theme of now. @returns {string[]} */
export function shades() {
  return isDark() ? IN_DARK : IN_LIGHT;
}

/** @param {string[]} colors from the least to the most @returns {string[]} */
function mixed(colors) {
  const stops = colors.map(channels);
  return Array.from({ length: SHADES }, (_, k) => {
    const at = (k / (SHADES - 1)) * (stops.length - 1);
    const first = Math.min(Math.floor(at), stops.length - 2);
    const values = stops[first].map((value, c) => Math.round(value + (at - first) * (stops[first + 1][c] - value)));
    return `rgb(${values.join(" ")})`;
  });
}

/** @param {string} hex */
function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** The number of each value's color. @param {ArrayLike<number>} values @param {number} low @param {number} high */
export function shadesOf(values, low, high) {
  const found = new Uint8Array(values.length);
  for (let k = 0; k < values.length; k += 1) {
    const share = high > low ? (values[k] - low) / (high - low) : 0;
    found[k] = Math.round(Math.min(1, Math.max(0, share)) * (SHADES - 1));
  }
  return found;
}
