/**
 * Figures beside each other, with the difference from the first.
 * @module compare/figures
 */

import { element } from "../dom.js";
import { column, plain } from "../units.js";

/**
 * A row of figures in one unit: those of the least value are the best ones, and each has its difference from the first.
 * @param {any} title @param {(number | undefined)[]} values @param {string} unit @param {{isMore?: boolean, isRanked?: boolean, isMuted?: boolean, about?: string}} [options]
 *   `isMore`: the largest value is the best; `isRanked`: the best is marked
 */
export function figureRow(title, values, unit, { isMore = false, isRanked = true, isMuted = false, about } = {}) {
  const known = /** @type {number[]} */ (values.filter((value) => value !== undefined));
  const scale = column(known, unit);
  const best = isMore ? Math.max(...known) : Math.min(...known);
  const cells = values.map((value, k) =>
    value === undefined ? "–" : [element("div", {}, scale.write(value)), k ? element("div", { class: "difference small" }, difference(value, values[0])) : null],
  );
  return { title, unit: scale.name, cells, values, base: unit, bests: values.map((value) => isRanked && value === best && known.some((one) => one !== best)), isMuted, about };
}

/** How a value differs from another, in percent or as a factor. @param {number} value @param {number | undefined} from */
function difference(value, from) {
  if (from === undefined) return "";
  if (value === from) return "same";
  if (!from) return "–";
  if (!value) return "−100 %";
  const ratio = value / from;
  if (ratio >= 10 || ratio <= 0.1) return ratio >= 10 ? `× ${plain(ratio, 0)}` : `÷ ${plain(1 / ratio, 0)}`;
  const percent = 100 * (ratio - 1);
  const digits = Math.abs(percent) < 10 ? 1 : 0;
  if (Math.abs(percent) < 0.05) return "≈ same";
  return `${percent > 0 ? "+" : "−"}${plain(Math.abs(percent), digits)} %`;
}
