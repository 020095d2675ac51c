/**
 * A share as a bar in a table's cell, beside its figure.
 * @module meters
 */

import { element } from "./dom.js";

/** @param {number} share 0 to 1 @param {string} [kind] the class of the bar's color */
export function meter(share, kind = "") {
  const bar = element("div", { class: `bar ${kind}` });
  bar.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  return element("div", { class: "bar-track", "aria-hidden": "true" }, bar);
}
